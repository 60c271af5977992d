//! One of two tensors, element by element, with NumPy's broadcasting: `y = a` where a condition holds, else `b`.

use super::broadcast;
use super::piece;
use super::strides::{self, Dimensions, dimensions};
use crate::gpu::Constant;
use crate::tape::MutantKind::{Formula, Index, Tile};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<Select>();

crate::kernel_parameters! {
    /// Operands: `condition`, `a`, `b`, `y`. The shape is that of y, outermost dimension first, unused leading dimensions
    /// of size 1; `count` is its number of elements. A stride of 0 broadcasts; y is contiguous from `y_offset` on. A
    /// condition holds unless it is 0. What is not taken may be anything, NaN and infinity too.
    pub struct Parameters {
        shape_low: vec4u,
        shape_high: vec4u,
        condition_strides_low: vec4u,
        condition_strides_high: vec4u,
        a_strides_low: vec4u,
        a_strides_high: vec4u,
        b_strides_low: vec4u,
        b_strides_high: vec4u,
        count: u32,
        condition_offset: u32,
        a_offset: u32,
        b_offset: u32,
        y_offset: u32,
    }
}

impl Parameters {
    fn shape(&self) -> Dimensions {
        dimensions(self.shape_low, self.shape_high)
    }

    /// Strides and offset of the condition, of a and of b.
    fn sources(&self) -> [(Dimensions, u32); 3] {
        [
            (dimensions(self.condition_strides_low, self.condition_strides_high), self.condition_offset),
            (dimensions(self.a_strides_low, self.a_strides_high), self.a_offset),
            (dimensions(self.b_strides_low, self.b_strides_high), self.b_offset),
        ]
    }
}

/// Mutants of both texts.
const BOTH_MUTANTS: &[Mutant] = &[
    Mutant::new(Formula, "-0 holds", "& vec4<u32>(0x7fffffffu)", "& vec4<u32>(0xffffffffu)"),
    Mutant::new(
        Formula,
        "what is no number does not hold",
        "(bitcast<vec4<u32>>(condition) & vec4<u32>(0x7fffffffu)) != vec4<u32>(0u)",
        "(abs(condition) > vec4<f32>(0.0))",
    ),
];

pub struct Select;

impl KernelDefinition for Select {
    type Parameters = Parameters;
    const NAME: &'static str = "select";
    const WRITES: &'static [usize] = &[3];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "vec4",
                file: "select.wgsl",
                text: include_str!("../../shaders/select.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::DIVIDE, &piece::BROADCAST_POSITION, &piece::HOLDS],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    let [condition, a, b] = parameters
                        .sources()
                        .map(|(strides, offset)| broadcast::layout(&parameters.shape(), &strides, offset));
                    condition.and(a).and(b)?;
                    match parameters.y_offset.is_multiple_of(4) {
                        true => Ok(()),
                        false => Err(format!("writes whole vec4, y starts at {}", parameters.y_offset)),
                    }
                },
                constants: |parameters| {
                    // Where `supports` refuses, the text must still stand on its own.
                    let [condition, a, b] = parameters
                        .sources()
                        .map(|(strides, offset)| broadcast::layout(&parameters.shape(), &strides, offset).unwrap_or(0));
                    vec![
                        Constant::u32("CONDITION_LAYOUT", condition),
                        Constant::u32("A_LAYOUT", a),
                        Constant::u32("B_LAYOUT", b),
                    ]
                },
                generated: |_| String::new(),
                workgroups: |parameters| [u64::from(parameters.count).div_ceil(4 * 64), 1, 1],
                mutants: &[
                    broadcast::MUTANTS,
                    BOTH_MUTANTS,
                    &[
                        Mutant::new(
                            Tile,
                            "the tail is written past its end",
                            "if first + 4u <= params.count {",
                            "if first < params.count {",
                        ),
                        Mutant::new(
                            Tile,
                            "the last vec4 is dropped",
                            "if first >= params.count {",
                            "if first + 4u > params.count {",
                        ),
                        Mutant::new(
                            Index,
                            "the condition's offset is forgotten",
                            "params.condition_offset\n        + broadcast_position",
                            "broadcast_position",
                        ),
                        Mutant::new(
                            Index,
                            "b's offset is forgotten",
                            "params.b_offset + broadcast_position",
                            "broadcast_position",
                        ),
                        Mutant::new(Index, "y's offset is forgotten", "params.y_offset / 4u + index", "index"),
                        Mutant::new(
                            Index,
                            "a and b are exchanged",
                            "select(b_values, a_values, holds(conditions))",
                            "select(a_values, b_values, holds(conditions))",
                        ),
                        Mutant::new(
                            Formula,
                            "the side that is not taken is multiplied by 0",
                            "select(b_values, a_values, holds(conditions));",
                            "a_values * vec4<f32>(holds(conditions)) + b_values * vec4<f32>(!holds(conditions));",
                        ),
                    ],
                ],
            },
            Design {
                name: "strided",
                file: "select_strided.wgsl",
                text: include_str!("../../shaders/select_strided.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::DIVIDE, &piece::HOLDS],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |_| Ok(()),
                constants: |_| Vec::new(),
                generated: |_| String::new(),
                workgroups: |parameters| [u64::from(parameters.count).div_ceil(64), 1, 1],
                mutants: &[
                    BOTH_MUTANTS,
                    &[
                        Mutant::new(
                            Tile,
                            "the last element is dropped",
                            "if index >= params.count {",
                            "if index + 1u >= params.count {",
                        ),
                        Mutant::new(
                            Index,
                            "b takes the strides of a",
                            "params.a_strides_high, params.b_strides_high,",
                            "params.a_strides_high, params.a_strides_high,",
                        ),
                        Mutant::new(
                            Index,
                            "the condition takes the strides of a",
                            "params.condition_strides_high, params.a_strides_high,",
                            "params.a_strides_high, params.a_strides_high,",
                        ),
                        Mutant::new(Index, "y's offset is forgotten", "y[params.y_offset + index]", "y[index]"),
                        Mutant::new(
                            Index,
                            "the outer dimensions are forgotten",
                            "inner, params.shape_low,",
                            "inner, vec4<u32>(1u),",
                        ),
                        Mutant::new(
                            Formula,
                            "the side that is not taken is multiplied by 0",
                            "select(b[walk.places.z], a[walk.places.y], held.x);",
                            "a[walk.places.y] * f32(held.x) + b[walk.places.z] * f32(!held.x);",
                        ),
                    ],
                ],
            },
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let [condition, a, b] = [0, 1, 2].map(|operand| operands.real(operand));
        let mut y = operands.real_mut(3);
        let (strides, offsets) =
            (parameters.sources().map(|(strides, _)| strides), parameters.sources().map(|(_, o)| o));
        let mut next = parameters.y_offset as usize;
        strides::for_each_run(&parameters.shape(), strides, offsets, |[condition_at, a_at, b_at], length, steps| {
            for (i, y) in y[next..next + length].iter_mut().enumerate() {
                let holds = condition[condition_at + i * steps[0]].wide() != S::Wide::of(0.0);
                *y = if holds { a[a_at + i * steps[1]] } else { b[b_at + i * steps[2]] };
            }
            next += length;
        });
    }

    fn cost(parameters: &Parameters) -> Cost {
        Cost { flops: 0, bytes: 16 * u64::from(parameters.count) }
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        // (shape, strides of condition, a and b, their offsets)
        for (shape, strides, offsets) in [
            (&[1][..], [&[1][..], &[1], &[1]], [0, 0, 0]),
            (&[3], [&[1], &[1], &[1]], [4, 8, 12]),
            (&[4], [&[0], &[1], &[1]], [0, 0, 0]),
            (&[257], [&[1], &[1], &[0]], [8, 0, 3]),
            (&[5, 6], [&[6, 1], &[0, 0], &[0, 0]], [0, 1, 2]),
            // Scores [B, H, T, T] with a mask for all heads, filled with one number.
            (&[2, 3, 8, 8], [&[0, 0, 8, 1], &[192, 64, 8, 1], &[0, 0, 0, 0]], [0, 0, 0]),
            (&[2, 3, 8, 8], [&[0, 0, 8, 1], &[0, 0, 0, 0], &[192, 64, 8, 1]], [4, 5, 8]),
            // The same with T no multiple of 4, and with a mask of one row, of one column, of each head.
            (&[2, 3, 7, 7], [&[0, 0, 7, 1], &[147, 49, 7, 1], &[0, 0, 0, 0]], [0, 0, 0]),
            (&[2, 3, 8, 8], [&[0, 0, 0, 1], &[192, 64, 8, 1], &[0, 0, 0, 0]], [4, 0, 0]),
            (&[2, 3, 8, 8], [&[0, 0, 1, 0], &[192, 64, 8, 1], &[0, 0, 0, 0]], [3, 0, 0]),
            (&[2, 3, 8, 8], [&[3, 1, 0, 0], &[192, 64, 8, 1], &[192, 64, 8, 1]], [1, 4, 8]),
            (&[3, 8], [&[1, 0], &[0, 1], &[8, 1]], [5, 4, 0]),
            (&[3, 8], [&[1, 3], &[8, 1], &[0, 1]], [0, 0, 0]),
            (&[3, 7], [&[7, 1], &[1, 3], &[1, 0]], [1, 2, 3]),
            (&[65, 33], [&[33, 1], &[1, 67], &[0, 1]], [0, 3, 1]),
            (
                &[2, 3, 2, 1, 2, 2, 2, 3],
                [&[1, 2, 6, 0, 0, 12, 24, 48], &[71, 23, 0, 9, 3, 5, 7, 1], &[0, 0, 1, 0, 2, 0, 4, 8]],
                [2, 3, 5],
            ),
            (&[12, 64, 64], [&[0, 64, 1], &[4096, 64, 1], &[0, 0, 0]], [0, 0, 0]),
        ] {
            cases.push(case(shape, strides, offsets, 0));
        }
        for y_offset in [8, 5] {
            cases.push(case(&[3, 37], [&[37, 1], &[37, 1], &[0, 0]], [0, 4, 1], y_offset));
            cases.push(case(&[3, 8], [&[0, 1], &[8, 1], &[0, 0]], [0, 4, 1], y_offset));
        }
        for count in [1, 7, 64, 261] {
            cases.push(poisoned_case(count));
        }
        cases
    }
}

/// Conditions of every kind; a third or so do not hold.
fn conditions(count: usize) -> Vec<f32> {
    let random = normal(17, 0, count, 1.0).into_iter().map(f32::round).enumerate();
    random
        .map(|(index, value)| match index % 11 {
            3 => -0.0,
            5 => f32::NAN,
            7 => 1e-41,
            9 => -f32::INFINITY,
            _ => value,
        })
        .collect()
}

fn parameters(shape: &[u32], strides: [&[u32]; 3], [condition_offset, a_offset, b_offset]: [u32; 3]) -> Parameters {
    let filled = |values: &[u32], neutral| strides::split(values, neutral).unwrap_or_default();
    let (shape_low, shape_high) = filled(shape, 1);
    let [condition, a, b] = strides.map(|strides| filled(strides, 0));
    Parameters {
        shape_low,
        shape_high,
        condition_strides_low: condition.0,
        condition_strides_high: condition.1,
        a_strides_low: a.0,
        a_strides_high: a.1,
        b_strides_low: b.0,
        b_strides_high: b.1,
        count: shape.iter().product(),
        condition_offset,
        a_offset,
        b_offset,
        y_offset: 0,
    }
}

fn case(shape: &[u32], strides: [&[u32]; 3], offsets: [u32; 3], y_offset: u32) -> Case {
    let [condition, a, b] = strides;
    let name = format!("shape={shape:?} strides={condition:?},{a:?},{b:?} offsets={offsets:?},{y_offset} seed=17");
    let extent = |operand: usize| strides::extent(shape, strides[operand], offsets[operand]);
    let parameters = Parameters { y_offset, ..parameters(shape, strides, offsets) };
    let end = (y_offset + parameters.count) as usize;
    Case::new(
        name,
        parameters,
        vec![
            Operand::Input(conditions(extent(0))),
            Operand::Input(normal(17, 1, extent(1), 1.0)),
            Operand::Input(normal(17, 2, extent(2), 1.0)),
            Operand::Output(end),
        ],
        Tolerance::EXACT,
    )
}

/// Whatever is not taken is NaN or infinite.
fn poisoned_case(count: u32) -> Case {
    let conditions = conditions(count as usize);
    let side = |tensor: u64, when: bool, poison: f32| {
        let values = normal(17, tensor, conditions.len(), 1.0).into_iter().zip(&conditions);
        values.map(|(value, &condition)| if (condition != 0.0) == when { value } else { poison }).collect()
    };
    let (a, b) = (side(1, true, f32::NAN), side(2, false, f32::INFINITY));
    Case::new(
        format!("count={count} with NaN and infinity on the side that is not taken seed=17"),
        parameters(&[count], [&[1], &[1], &[1]], [0, 0, 0]),
        vec![
            Operand::Input(conditions.clone()),
            Operand::Input(a),
            Operand::Input(b),
            Operand::Output(conditions.len()),
        ],
        Tolerance::EXACT,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::run_twin;

    #[test]
    fn a_condition_holds_unless_it_is_zero_and_what_is_not_taken_stays_behind() {
        let conditions = vec![1.0, 0.0, -0.0, -2.0, f64::NAN, 1e-300];
        let a = vec![1.0, f64::NAN, f64::INFINITY, 4.0, 5.0, 6.0];
        let b = vec![f64::NAN, -2.0, -3.0, f64::NAN, f64::INFINITY, f64::NAN];
        let parameters = parameters(&[6], [&[1], &[1], &[1]], [0, 0, 0]);
        let results = run_twin::<Select>(&parameters, &[conditions, a, b, vec![f64::NAN; 6]]);
        assert_eq!(results[3], [1.0, -2.0, -3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn a_mask_of_rows_and_columns_is_broadcast_over_all_heads() {
        // condition [2, 1], a [2, 2, 2], b a single number.
        let parameters = parameters(&[2, 2, 2], [&[0, 1, 0], &[4, 2, 1], &[0, 0, 0]], [0, 0, 0]);
        let a: Vec<f64> = (1..=8).map(f64::from).collect();
        let results = run_twin::<Select>(&parameters, &[vec![0.0, 1.0], a, vec![-7.0], vec![f64::NAN; 8]]);
        assert_eq!(results[3], [-7.0, -7.0, 3.0, 4.0, -7.0, -7.0, 7.0, 8.0]);
    }
}
