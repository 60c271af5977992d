//! Multiplication by a constant: `y[i] = factor * x[i]`.

use super::piece;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<Scale>();

crate::kernel_parameters! {
    /// Operands: `x [count]`, `y [count]`.
    pub struct Parameters {
        count: u32,
        factor: f32,
    }
}

pub struct Scale;

impl KernelDefinition for Scale {
    type Parameters = Parameters;
    const NAME: &'static str = "scale";
    const WRITES: &'static [usize] = &[1];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[Design {
            name: "vec4",
            file: "scale.wgsl",
            text: include_str!("../../shaders/scale.wgsl"),
            pieces: &[&piece::LINEAR_INDEX],
            preference: Preference::Any,
            subgroup_width: None,
            supports: |_| Ok(()),
            constants: |_| Vec::new(),
            generated: |_| String::new(),
            workgroups: |parameters| [u64::from(parameters.count).div_ceil(4 * 8), 1, 1],
            mutants: &[
                Mutant {
                    name: "the tail is written past its end",
                    original: "y[index] = select(y[index], params.factor * x[index], lanes);",
                    replacement: "y[index] = params.factor * x[index];",
                },
                Mutant {
                    name: "the last vec4 is dropped",
                    original: "if first >= params.count {",
                    replacement: "if first + 4u > params.count {",
                },
            ],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, mut y) = (operands.real(0), operands.real_mut(1));
        for index in 0..parameters.count as usize {
            y[index] = S::from_f64(parameters.factor * x[index].to_f64());
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let count = u64::from(parameters.count);
        Cost { flops: count, bytes: 8 * count }
    }

    fn cases() -> Vec<Case> {
        [(1, 2.0), (3, -0.5), (4, 0.125), (31, 1e-3), (33, 1e6), (4099, 0.0), (300_001, 3.0)]
            .into_iter()
            .map(|(count, factor)| {
                Case::new(
                    format!("count={count} factor={factor} seed=1"),
                    Parameters { count: count as u32, factor },
                    vec![Operand::Input(normal(1, 0, count, 1.0)), Operand::Output(count)],
                    Tolerance::new(0.0, 1e-6),
                )
            })
            .collect()
    }
}
