//! One operation of the element-wise table on every element: `y[i] = f(x[i], constant)`. Scaling, GELU and the like.

use super::elementwise::Unary;
use super::piece;
use crate::tape::MutantKind::{Formula, Index, Tile};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<UnaryKernel>();

crate::kernel_parameters! {
    /// Operands: `x [count]`, `y [count]`, both contiguous.
    pub struct Parameters {
        count: u32,
        /// [`Unary::index`]
        operation: u32,
        constant: f32,
    }
}

pub struct UnaryKernel;

impl KernelDefinition for UnaryKernel {
    type Parameters = Parameters;
    const NAME: &'static str = "unary";
    const WRITES: &'static [usize] = &[1];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[Design {
            name: "vec4",
            file: "unary.wgsl",
            text: include_str!("../../shaders/unary.wgsl"),
            pieces: &[&piece::LINEAR_INDEX, &piece::ELEMENTWISE],
            preference: Preference::Any,
            subgroup_width: None,
            supports: |parameters| Unary::row_of(parameters.operation).map(|_| ()),
            constants: |_| Vec::new(),
            generated: |parameters| {
                Unary::row_of(parameters.operation).map_or_else(|_| String::new(), |row| row.apply())
            },
            workgroups: |parameters| [u64::from(parameters.count).div_ceil(4 * 64), 1, 1],
            mutants: &[&[
                Mutant::new(
                    Index,
                    "neighbouring vec4 change places",
                    "apply(x[index], params.constant)",
                    "apply(x[index ^ 1u], params.constant)",
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
                Mutant::new(
                    Formula,
                    "GELU without its cubic term",
                    "const GELU_CUBIC: f32 = 0.044715;",
                    "const GELU_CUBIC: f32 = 0.0;",
                ),
                Mutant::new(
                    Formula,
                    "odd powers of negative numbers are positive",
                    "select(magnitude, -magnitude, odd",
                    "select(magnitude, magnitude, odd",
                ),
            ]],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let Some(operation) = Unary::from_index(parameters.operation) else { return };
        let (function, constant) = (operation.function(), S::Wide::of(parameters.constant));
        let (x, mut y) = (operands.real(0), operands.real_mut(1));
        let count = parameters.count as usize;
        for (y, x) in y[..count].iter_mut().zip(&x[..count]) {
            *y = S::narrow(function(x.wide(), constant));
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let Ok(row) = Unary::row_of(parameters.operation) else { return };
        for (bound, x) in bounds[0].iter_mut().zip(operands.real(0).iter().take(parameters.count as usize)) {
            *bound = (row.error)(x.wide(), parameters.constant);
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let count = u64::from(parameters.count);
        Cost { flops: count, bytes: 8 * count }
    }

    fn cases() -> Vec<Case> {
        use Unary::*;
        let mut cases: Vec<Case> =
            [(1, 2.0), (3, -0.5), (4, 0.125), (31, 1e-3), (257, 1e6), (4099, 0.0), (300_001, 3.0)]
                .into_iter()
                .map(|(count, constant)| {
                    case(Scale, constant, normal(1, 0, count, 1.0), "normal", Tolerance::new(0.0, 1e-6))
                })
                .collect();
        let wide: Vec<f32> = normal(2, 0, 1001, 3.0).into_iter().chain([0.0, 1e-6, -1e-6, 9.9, -10.1, 30.0]).collect();
        let positive: Vec<f32> = wide.iter().map(|x| x.abs() + 1e-3).collect();
        let huge = vec![1000.0, -1000.0, 88.0, -88.0, 1e15, -1e15, 3e38, -3e38, 20.1, -20.1, 5.0];
        let exact = Tolerance::EXACT;
        let rounding = Tolerance::new(1e-6, 2e-6);
        for (operation, constant, tolerance) in [
            (Gelu, 0.0, rounding),
            (Identity, 0.0, exact),
            (AddConstant, -0.75, Tolerance::new(0.0, 2.5e-7)),
            (Negate, 0.0, exact),
            (Absolute, 0.0, exact),
            (Tanh, 0.0, rounding),
            (Sigmoid, 0.0, rounding),
            (Relu, 0.0, exact),
            (Sign, 0.0, exact),
            (Step, 0.0, exact),
        ] {
            cases.push(case(operation, constant, wide.clone(), "wide", tolerance));
            cases.push(case(operation, constant, huge.clone(), "huge", tolerance));
        }
        for (operation, constant) in
            [(Exp, 0.0), (Square, 0.0), (Power, 3.0), (Power, 2.0), (Power, 0.0), (Power, -1.0)]
        {
            let x = wide.iter().map(|x| if operation == Power && *x == 0.0 && constant < 0.0 { 1.0 } else { *x });
            cases.push(case(operation, constant, x.collect(), "wide", Tolerance::new(1e-9, 6e-6)));
        }
        for (operation, constant) in [(Log, 0.0), (Sqrt, 0.0), (Reciprocal, 0.0), (Power, 0.5), (Power, -1.5)] {
            cases.push(case(operation, constant, positive.clone(), "positive", Tolerance::new(5e-7, 4e-6)));
        }
        cases
    }
}

fn case(operation: Unary, constant: f64, x: Vec<f32>, values: &str, tolerance: Tolerance) -> Case {
    let count = x.len();
    let name = format!("{} constant={constant} count={count} {values} seed=1", operation.name());
    let parameters = Parameters { count: count as u32, operation: operation.index(), constant };
    Case::new(name, parameters, vec![Operand::Input(x), Operand::Output(count)], tolerance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_case() {
        let cases = UnaryKernel::cases();
        for operation in Unary::ALL {
            let found = cases.iter().any(|case| case.name.starts_with(&format!("{} ", operation.name())));
            assert!(found, "{}", operation.name());
        }
    }
}
