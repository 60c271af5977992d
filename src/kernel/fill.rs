//! A constant in every element: `y[i] = value`.

use super::piece;
use crate::tape::MutantKind::{Index, Tile};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<Fill>();

crate::kernel_parameters! {
    /// Operands: `y [count]`.
    pub struct Parameters {
        count: u32,
        value: f32,
    }
}

pub struct Fill;

impl KernelDefinition for Fill {
    type Parameters = Parameters;
    const NAME: &'static str = "fill";
    const WRITES: &'static [usize] = &[0];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[Design {
            name: "vec4",
            file: "fill.wgsl",
            text: include_str!("../../shaders/fill.wgsl"),
            pieces: &[&piece::LINEAR_INDEX],
            preference: Preference::Any,
            subgroup_width: None,
            supports: |_| Ok(()),
            constants: |_| Vec::new(),
            generated: |_| String::new(),
            workgroups: |parameters| [u64::from(parameters.count).div_ceil(4 * 64), 1, 1],
            mutants: &[&[
                Mutant::new(
                    Index,
                    "a vec4 is written one further on",
                    "        y[index] = result;",
                    "        y[index + 1u] = result;",
                ),
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
            ]],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        operands.real_mut(0)[..parameters.count as usize].fill(S::narrow(S::Wide::of(parameters.value)));
    }

    fn cost(parameters: &Parameters) -> Cost {
        Cost { flops: 0, bytes: 4 * u64::from(parameters.count) }
    }

    fn cases() -> Vec<Case> {
        [(1, 0.0), (3, -1.5), (4, 1e30), (257, 1.0), (70_003, -0.25)]
            .into_iter()
            .map(|(count, value)| {
                let parameters = Parameters { count: count as u32, value };
                Case::new(
                    format!("count={count} value={value}"),
                    parameters,
                    vec![Operand::Output(count)],
                    Tolerance::EXACT,
                )
            })
            .collect()
    }
}
