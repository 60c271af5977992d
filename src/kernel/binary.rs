//! One operation of the element-wise table on two tensors with NumPy's broadcasting: `y = f(a, b)`.

use super::broadcast;
use super::elementwise::Binary;
use super::piece;
use super::strides::{self, Dimensions, dimensions};
use crate::gpu::Constant;
use crate::tape::MutantKind::{Index, Tile};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<BinaryKernel>();

crate::kernel_parameters! {
    /// Operands: `a`, `b`, `y`. The shape is that of y, outermost dimension first, unused leading dimensions of size 1;
    /// `count` is its number of elements. A stride of 0 broadcasts; y is contiguous from `y_offset` on.
    pub struct Parameters {
        shape_low: vec4u,
        shape_high: vec4u,
        a_strides_low: vec4u,
        a_strides_high: vec4u,
        b_strides_low: vec4u,
        b_strides_high: vec4u,
        count: u32,
        /// [`Binary::index`]
        operation: u32,
        a_offset: u32,
        b_offset: u32,
        y_offset: u32,
    }
}

impl Parameters {
    fn shape(&self) -> Dimensions {
        dimensions(self.shape_low, self.shape_high)
    }

    /// Strides and offset of a and of b.
    fn sources(&self) -> [(Dimensions, u32); 2] {
        [
            (dimensions(self.a_strides_low, self.a_strides_high), self.a_offset),
            (dimensions(self.b_strides_low, self.b_strides_high), self.b_offset),
        ]
    }
}

pub struct BinaryKernel;

impl KernelDefinition for BinaryKernel {
    type Parameters = Parameters;
    const NAME: &'static str = "binary";
    const WRITES: &'static [usize] = &[2];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "vec4",
                file: "binary.wgsl",
                text: include_str!("../../shaders/binary.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::DIVIDE, &piece::BROADCAST_POSITION, &piece::ELEMENTWISE],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    Binary::row_of(parameters.operation)?;
                    for (strides, offset) in parameters.sources() {
                        broadcast::layout(&parameters.shape(), &strides, offset)?;
                    }
                    match parameters.y_offset.is_multiple_of(4) {
                        true => Ok(()),
                        false => Err(format!("writes whole vec4, y starts at {}", parameters.y_offset)),
                    }
                },
                constants: |parameters| {
                    // Where `supports` refuses, the text must still stand on its own.
                    let layouts = parameters
                        .sources()
                        .map(|(strides, offset)| broadcast::layout(&parameters.shape(), &strides, offset).unwrap_or(0));
                    vec![Constant::u32("A_LAYOUT", layouts[0]), Constant::u32("B_LAYOUT", layouts[1])]
                },
                generated: apply,
                workgroups: |parameters| [u64::from(parameters.count).div_ceil(4 * 64), 1, 1],
                mutants: &[
                    broadcast::MUTANTS,
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
                            "a's offset is forgotten",
                            "params.a_offset + broadcast_position",
                            "broadcast_position",
                        ),
                        Mutant::new(Index, "y's offset is forgotten", "params.y_offset / 4u + index", "index"),
                    ],
                ],
            },
            Design {
                name: "strided",
                file: "binary_strided.wgsl",
                text: include_str!("../../shaders/binary_strided.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::DIVIDE, &piece::ELEMENTWISE, &piece::STRIDED_OFFSET],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| Binary::row_of(parameters.operation).map(|_| ()),
                constants: |_| Vec::new(),
                generated: apply,
                workgroups: |parameters| [u64::from(parameters.count).div_ceil(64), 1, 1],
                mutants: &[&[
                    Mutant::new(
                        Tile,
                        "the last element is dropped",
                        "if index >= params.count {",
                        "if index + 1u >= params.count {",
                    ),
                    Mutant::new(
                        Index,
                        "b takes the strides of a",
                        "params.a_strides_high, params.b_strides_high);",
                        "params.a_strides_high, params.a_strides_high);",
                    ),
                    Mutant::new(
                        Index,
                        "the outer dimensions are forgotten",
                        "strided_steps(inner, params.shape_low,",
                        "strided_steps(inner, vec4<u32>(1u),",
                    ),
                    Mutant::new(
                        Index,
                        "the operands are exchanged",
                        "apply(vec4<f32>(a[walk.first]), vec4<f32>(b[walk.second]))",
                        "apply(vec4<f32>(b[walk.second]), vec4<f32>(a[walk.first]))",
                    ),
                    Mutant::new(Index, "y's offset is forgotten", "y[params.y_offset + index]", "y[index]"),
                ]],
            },
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let Some(operation) = Binary::from_index(parameters.operation) else { return };
        let function = operation.function();
        let (a, b, mut y) = (operands.real(0), operands.real(1), operands.real_mut(2));
        let [(a_strides, a_offset), (b_strides, b_offset)] = parameters.sources();
        let shape = parameters.shape();
        let mut next = parameters.y_offset as usize;
        strides::for_each_run(&shape, [a_strides, b_strides], [a_offset, b_offset], |[a_at, b_at], length, steps| {
            for (i, y) in y[next..next + length].iter_mut().enumerate() {
                let (a, b) = (a[a_at + i * steps[0]], b[b_at + i * steps[1]]);
                *y = S::narrow(function(a.wide(), b.wide()));
            }
            next += length;
        });
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let Ok(row) = Binary::row_of(parameters.operation) else { return };
        let (a, b) = (operands.real(0), operands.real(1));
        let [(a_strides, a_offset), (b_strides, b_offset)] = parameters.sources();
        let shape = parameters.shape();
        let mut next = parameters.y_offset as usize;
        strides::for_each_run(&shape, [a_strides, b_strides], [a_offset, b_offset], |[a_at, b_at], length, steps| {
            for (i, bound) in bounds[0][next..next + length].iter_mut().enumerate() {
                let (a, b) = (a[a_at + i * steps[0]], b[b_at + i * steps[1]]);
                *bound = (row.error)(a.wide(), b.wide());
            }
            next += length;
        });
    }

    fn cost(parameters: &Parameters) -> Cost {
        let count = u64::from(parameters.count);
        Cost { flops: count, bytes: 12 * count }
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        // (shape, strides of a, strides of b, offsets of a, b and y)
        for (shape, a, b, offsets) in [
            (&[3][..], &[1][..], &[1][..], [0, 0, 0]),
            (&[4], &[1], &[0], [0, 0, 0]),
            (&[1], &[1], &[1], [4, 8, 12]),
            (&[257], &[1], &[0], [8, 3, 4]),
            (&[5, 6], &[6, 1], &[6, 1], [0, 4, 8]),
            (&[3, 8], &[8, 1], &[0, 1], [4, 4, 4]),
            (&[3, 8], &[0, 1], &[1, 0], [0, 5, 0]),
            (&[2, 1, 12], &[1, 0, 0], &[12, 12, 1], [1, 4, 4]),
            (&[3, 8], &[1, 3], &[0, 1], [0, 0, 0]),
            (&[3, 7], &[7, 1], &[0, 1], [0, 0, 0]),
            (&[3, 7], &[7, 1], &[1, 0], [1, 2, 3]),
            (&[2, 3, 2, 1, 2, 2, 2, 3], &[1, 2, 6, 0, 0, 12, 24, 48], &[71, 23, 0, 9, 3, 5, 7, 1], [2, 3, 5]),
            (&[2, 2, 2, 2, 2, 2, 2, 4], &[256, 128, 64, 32, 16, 8, 4, 0], &[0, 0, 0, 0, 16, 8, 4, 1], [0, 0, 0]),
            (&[12, 64, 128], &[8192, 128, 1], &[0, 128, 1], [0, 0, 0]),
        ] {
            cases.push(case(Binary::Subtract, shape, a, b, offsets, Tolerance::new(0.0, 1e-7)));
        }
        for &operation in Binary::ALL {
            let tolerance = match operation {
                Binary::GeluGradient => Tolerance::new(2e-6, 2e-6),
                Binary::PowerOf => Tolerance::new(1e-9, 1e-5),
                Binary::Divide => Tolerance::new(0.0, 6e-7),
                Binary::Add | Binary::Multiply | Binary::Subtract => Tolerance::new(0.0, 1e-7),
                _ => Tolerance::EXACT,
            };
            cases.push(case(operation, &[7, 12], &[12, 1], &[12, 1], [0, 0, 0], tolerance));
            cases.push(case(operation, &[7, 12], &[1, 7], &[13, 1], [0, 1, 0], tolerance));
        }
        cases
    }
}

fn apply(parameters: &Parameters) -> String {
    Binary::row_of(parameters.operation).map_or_else(|_| String::new(), |row| row.apply())
}

fn case(
    operation: Binary,
    shape: &[u32],
    a_strides: &[u32],
    b_strides: &[u32],
    [a_offset, b_offset, y_offset]: [u32; 3],
    tolerance: Tolerance,
) -> Case {
    let name = format!(
        "{} shape={shape:?} strides={a_strides:?},{b_strides:?} offsets={a_offset},{b_offset},{y_offset} seed=3",
        operation.name()
    );
    let filled = |values: &[u32], neutral| strides::split(values, neutral).unwrap_or_default();
    let count: u32 = shape.iter().product();
    let ((shape_low, shape_high), (a_strides_low, a_strides_high), (b_strides_low, b_strides_high)) =
        (filled(shape, 1), filled(a_strides, 0), filled(b_strides, 0));
    // Powers need positive bases and moderate exponents; comparisons and logic need values that meet: halves.
    let values = |tensor: u64, extent: usize| -> Vec<f32> {
        let random = normal(3, tensor, extent, 2.0).into_iter();
        match operation {
            Binary::PowerOf => random.map(|value| value.abs() + 0.1).collect(),
            // Some inputs of GELU lie far outside of where its slope bends.
            Binary::GeluGradient if tensor == 0 => {
                random.enumerate().map(|(index, value)| if index % 9 == 8 { 1e3 * value } else { value }).collect()
            }
            Binary::Divide | Binary::Add | Binary::Subtract | Binary::Multiply | Binary::GeluGradient => {
                random.collect()
            }
            _ => random.map(f32::round).collect(),
        }
    };
    Case::new(
        name,
        Parameters {
            shape_low,
            shape_high,
            a_strides_low,
            a_strides_high,
            b_strides_low,
            b_strides_high,
            count,
            operation: operation.index(),
            a_offset,
            b_offset,
            y_offset,
        },
        vec![
            Operand::Input(values(0, strides::extent(shape, a_strides, a_offset))),
            Operand::Input(values(1, strides::extent(shape, b_strides, b_offset))),
            Operand::Output((y_offset + count) as usize),
        ],
        tolerance,
    )
}
