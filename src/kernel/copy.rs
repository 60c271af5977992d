//! A copy between two strided views: slices, transposes, broadcasts and their gradients' scatter.

use super::piece;
use super::strides::{self, Dimensions, dimensions};
use crate::tape::MutantKind::{Index, Tile};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<StridedCopy>();

crate::kernel_parameters! {
    /// Operands: `x`, `y`. The shape is common to both views, outermost dimension first, unused leading dimensions of
    /// size 1; `count` is its number of elements. Elements of y that no index reaches stay as they are; no two indices
    /// may reach the same one.
    pub struct Parameters {
        shape_low: vec4u,
        shape_high: vec4u,
        x_strides_low: vec4u,
        x_strides_high: vec4u,
        y_strides_low: vec4u,
        y_strides_high: vec4u,
        count: u32,
        x_offset: u32,
        y_offset: u32,
    }
}

impl Parameters {
    fn shape(&self) -> Dimensions {
        dimensions(self.shape_low, self.shape_high)
    }

    fn x_strides(&self) -> Dimensions {
        dimensions(self.x_strides_low, self.x_strides_high)
    }

    fn y_strides(&self) -> Dimensions {
        dimensions(self.y_strides_low, self.y_strides_high)
    }
}

/// Whether a view can be moved four elements at a time, and if not, why.
fn whole_vec4(shape: &Dimensions, strides: &Dimensions, offset: u32) -> Result<(), String> {
    if !offset.is_multiple_of(4) {
        return Err(format!("moves whole vec4, a view starts at {offset}"));
    }
    let mut counted = shape.iter().zip(strides).rev().filter(|(size, _)| **size != 1);
    match counted.next() {
        Some((size, 1)) if size.is_multiple_of(4) => {}
        Some((size, stride)) => return Err(format!("moves whole vec4, innermost are {size} elements {stride} apart")),
        None => return Err("moves whole vec4, there is one element".into()),
    }
    match counted.find(|(_, stride)| !stride.is_multiple_of(4)) {
        Some((_, stride)) => Err(format!("moves whole vec4, a stride is {stride}")),
        None => Ok(()),
    }
}

pub struct StridedCopy;

impl KernelDefinition for StridedCopy {
    type Parameters = Parameters;
    const NAME: &'static str = "copy";
    const WRITES: &'static [usize] = &[1];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "vec4",
                file: "copy.wgsl",
                text: include_str!("../../shaders/copy.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::DIVIDE, &piece::STRIDED_OFFSET],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    whole_vec4(&parameters.shape(), &parameters.x_strides(), parameters.x_offset)?;
                    whole_vec4(&parameters.shape(), &parameters.y_strides(), parameters.y_offset)
                },
                constants: |_| Vec::new(),
                generated: |_| String::new(),
                workgroups: |parameters| [u64::from(parameters.count).div_ceil(4 * 64), 1, 1],
                mutants: &[&[
                    Mutant::new(
                        Tile,
                        "the last vec4 is dropped",
                        "if first >= params.count {",
                        "if first + 4u >= params.count {",
                    ),
                    Mutant::new(
                        Index,
                        "y takes the strides of x",
                        "params.x_strides_high, params.y_strides_high);",
                        "params.x_strides_high, params.x_strides_high);",
                    ),
                    Mutant::new(
                        Index,
                        "x's offset is forgotten",
                        "StridedWalk(first, params.x_offset,",
                        "StridedWalk(first, 0u,",
                    ),
                ]],
            },
            Design {
                name: "strided",
                file: "copy_strided.wgsl",
                text: include_str!("../../shaders/copy_strided.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::DIVIDE, &piece::STRIDED_OFFSET],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |_| Ok(()),
                constants: |_| Vec::new(),
                generated: |_| String::new(),
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
                        "the outer dimensions are forgotten",
                        "strided_steps(inner, params.shape_low,",
                        "strided_steps(inner, vec4<u32>(1u),",
                    ),
                    Mutant::new(
                        Index,
                        "x and y are exchanged",
                        "y[walk.second] = x[walk.first];",
                        "y[walk.first] = x[walk.second];",
                    ),
                ]],
            },
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, mut y) = (operands.real(0), operands.real_mut(1));
        let views = [parameters.x_strides(), parameters.y_strides()];
        let offsets = [parameters.x_offset, parameters.y_offset];
        strides::for_each_run(&parameters.shape(), views, offsets, |[x_at, y_at], length, steps| match steps {
            [1, 1] => y[y_at..y_at + length].copy_from_slice(&x[x_at..x_at + length]),
            [x_step, y_step] => (0..length).for_each(|i| y[y_at + i * y_step] = x[x_at + i * x_step]),
        });
    }

    fn cost(parameters: &Parameters) -> Cost {
        Cost { flops: 0, bytes: 8 * u64::from(parameters.count) }
    }

    fn cases() -> Vec<Case> {
        // (shape, strides of x, strides of y, offsets of x and y)
        [
            (&[1][..], &[1][..], &[1][..], [0, 0]),
            (&[1], &[0], &[0], [3, 2]),
            (&[5], &[1], &[1], [1, 2]),
            (&[64], &[1], &[1], [4, 8]),
            (&[260], &[1], &[1], [0, 0]),
            (&[3, 8], &[12, 1], &[16, 1], [4, 8]),
            (&[3, 8, 1], &[16, 1, 5], &[8, 1, 7], [0, 4]),
            (&[2, 3, 4], &[0, 4, 1], &[12, 4, 1], [0, 0]),
            (&[2, 3, 4], &[12, 4, 1], &[4, 8, 1], [0, 0]),
            (&[5, 7], &[1, 5], &[7, 1], [0, 0]),
            (&[3, 8], &[1, 3], &[9, 1], [2, 1]),
            (&[65, 33], &[33, 1], &[1, 67], [0, 0]),
            (&[2, 3, 2, 1, 2, 2, 2, 3], &[1, 2, 6, 0, 0, 12, 24, 48], &[144, 48, 24, 1, 12, 6, 3, 1], [2, 3]),
            (&[2, 4, 33, 16], &[33 * 192, 16, 192, 1], &[4 * 33 * 16, 33 * 16, 16, 1], [64, 0]),
        ]
        .into_iter()
        .map(|(shape, x_strides, y_strides, offsets)| case(shape, x_strides, y_strides, offsets))
        .collect()
    }
}

fn case(shape: &[u32], x_strides: &[u32], y_strides: &[u32], [x_offset, y_offset]: [u32; 2]) -> Case {
    let name = format!("shape={shape:?} strides={x_strides:?},{y_strides:?} offsets={x_offset},{y_offset} seed=4");
    let filled = |values: &[u32], neutral| strides::split(values, neutral).unwrap_or_default();
    let ((shape_low, shape_high), (x_strides_low, x_strides_high), (y_strides_low, y_strides_high)) =
        (filled(shape, 1), filled(x_strides, 0), filled(y_strides, 0));
    let (x_extent, y_extent) =
        (strides::extent(shape, x_strides, x_offset), strides::extent(shape, y_strides, y_offset));
    Case::new(
        name,
        Parameters {
            shape_low,
            shape_high,
            x_strides_low,
            x_strides_high,
            y_strides_low,
            y_strides_high,
            count: shape.iter().product(),
            x_offset,
            y_offset,
        },
        vec![Operand::Input(normal(4, 0, x_extent, 1.0)), Operand::Output(y_extent)],
        Tolerance::EXACT,
    )
}
