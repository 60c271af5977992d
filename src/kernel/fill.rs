//! A constant in every element, or numbers in equal steps: `y[i] = value + i * step`.

use super::piece;
use crate::tape::MutantKind::{Formula, Index, Tile};
use crate::tape::rounding::OPERATIONS;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<Fill>();

crate::kernel_parameters! {
    /// Operands: `y [count]`. A step of 0 gives `value` itself, whatever it is.
    pub struct Parameters {
        count: u32,
        value: f32,
        step: f32,
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
                Mutant::new(Formula, "every lane is the first", "vec4<f32>(numbers)", "vec4<f32>(vec4<u32>(first))"),
                Mutant::new(Formula, "steps are counted in vec4", "let numbers = first +", "let numbers = index +"),
            ]],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (value, step) = (S::Wide::of(parameters.value), S::Wide::of(parameters.step));
        for (index, y) in operands.real_mut(0)[..parameters.count as usize].iter_mut().enumerate() {
            *y = S::narrow(value + step * S::Wide::of(index as f64));
        }
    }

    fn error_bounds(parameters: &Parameters, _: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        // Where there are no steps, nothing is rounded.
        if parameters.step != 0.0 {
            for (index, bound) in bounds[0][..parameters.count as usize].iter_mut().enumerate() {
                *bound = OPERATIONS * (parameters.value.abs() + (parameters.step * index as f64).abs());
            }
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        Cost { flops: 0, bytes: 4 * u64::from(parameters.count) }
    }

    fn cases() -> Vec<Case> {
        [
            (1, 0.0, 0.0),
            (3, -1.5, 0.0),
            (4, 1e30, 0.0),
            (257, 1.0, 0.0),
            (70_003, -0.25, 0.0),
            // Positions must be whole numbers to the last.
            (1, 0.0, 1.0),
            (5, 0.0, 1.0),
            (257, 0.0, 1.0),
            (70_003, 0.0, 1.0),
            (66, -3.0, 0.5),
        ]
        .into_iter()
        .map(|(count, value, step)| {
            let parameters = Parameters { count: count as u32, value, step };
            Case::new(
                format!("count={count} value={value} step={step}"),
                parameters,
                vec![Operand::Output(count)],
                Tolerance::EXACT,
            )
        })
        .collect()
    }
}
