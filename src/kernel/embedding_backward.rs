//! Gradient of an embedding table: a scatter-add in a fixed order, without atomics.

use super::embedding::{SCALAR_REACH, VEC4_REACH};
use super::layer_norm::whole_vec4;
use super::loop_limit;
use super::piece;
use crate::gpu::{Constant, Piece};
use crate::tape::MutantKind::{Accumulator, Formula, Index, Tile};
use crate::tape::rounding::bound_sums;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
    words,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<EmbeddingBackward>();

crate::kernel_parameters! {
    /// Operands: `output_gradient [tokens, width]`, `tokens [tokens]`, `table_gradient [vocabulary, width]`. Every row
    /// of the table's gradient is written, with 0 where no token names it. A token past the table counts as its last
    /// row, as in [`super::embedding`].
    pub struct Parameters {
        /// How many tokens.
        tokens: u32,
        width: u32,
        vocabulary: u32,
    }
}

pub struct EmbeddingBackward;

/// Rows of the table that one workgroup owns. Every workgroup walks through all tokens, so a large table, most of whose
/// rows are named by few tokens or none, is shared out by the dozen.
fn rows_of_a_workgroup(vocabulary: u32) -> u32 {
    if vocabulary < 2048 { 1 } else { 16 }
}

/// Every four tokens may be a stop, which is an iteration of two loops; a block has some of its own.
fn bounded(parameters: &Parameters) -> Result<(), String> {
    let (fours, blocks) = (u64::from(parameters.tokens.div_ceil(4)), u64::from(parameters.tokens.div_ceil(1024)));
    loop_limit::within(2 * fours + (3 + 64) * blocks + 64)
}

fn workgroups(parameters: &Parameters, reach: u32) -> [u64; 3] {
    let groups = parameters.vocabulary.div_ceil(rows_of_a_workgroup(parameters.vocabulary));
    [u64::from(groups) * u64::from(parameters.width.div_ceil(reach)), 1, 1]
}

const MUTANTS: &[Mutant] = &[
    Mutant::new(
        Tile,
        "what lies behind the last token counts",
        "owned = (numbers < vec4<u32>(end)) & (slots",
        "owned = (slots",
    ),
    Mutant::new(Formula, "the second of four tokens is dropped", "if owned.y {", "if owned.y && !owned.x {"),
    Mutant::new(Index, "the fourth token reads the third's row", "slots.w, index + 3u,", "slots.w, index + 2u,"),
    Mutant::new(
        Accumulator,
        "every block replaces the one before",
        "totals[each] += sums[each];",
        "totals[each] = sums[each];",
    ),
    Mutant::new(
        Accumulator,
        "a block's sums go into the next",
        "        var sums = Sums();",
        "        var sums = totals;",
    ),
    Mutant::new(
        Tile,
        "a token past the table is dropped",
        "min(tokens[index / 4u], vec4<u32>(params.vocabulary - 1u))",
        "tokens[index / 4u]",
    ),
    Mutant::new(
        Tile,
        "the second value of a lane is dropped",
        "held * WIDTH;
        if column < columns {",
        "held * WIDTH;
        if column < min(columns, WIDTH) {",
    ),
];

const fn design(
    name: &'static str,
    pieces: &'static [&'static Piece],
    supports: fn(&Parameters) -> Result<(), String>,
    workgroups: fn(&Parameters) -> [u64; 3],
) -> Design<Parameters> {
    Design {
        name,
        file: "embedding_backward.wgsl",
        text: include_str!("../../shaders/embedding_backward.wgsl"),
        pieces,
        preference: Preference::Any,
        subgroup_width: None,
        supports,
        constants: |parameters| vec![Constant::u32("ROWS", rows_of_a_workgroup(parameters.vocabulary))],
        generated: |_| String::new(),
        workgroups,
        mutants: &[MUTANTS],
    }
}

impl KernelDefinition for EmbeddingBackward {
    type Parameters = Parameters;
    const NAME: &'static str = "embedding_backward";
    const WRITES: &'static [usize] = &[2];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            design(
                "vec4",
                &[&piece::LINEAR_INDEX, &piece::VEC4_VALUES],
                |parameters| {
                    whole_vec4(parameters.width)?;
                    bounded(parameters)
                },
                |parameters| workgroups(parameters, VEC4_REACH),
            ),
            design("scalar", &[&piece::LINEAR_INDEX, &piece::SCALAR_VALUES], bounded, |parameters| {
                workgroups(parameters, SCALAR_REACH)
            }),
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (output_gradient, tokens, mut table_gradient) = (operands.real(0), operands.words(1), operands.real_mut(2));
        let width = parameters.width as usize;
        let mut sums = vec![S::Wide::of(0.0); parameters.vocabulary as usize * width];
        for index in 0..parameters.tokens as usize {
            let token = tokens[index].min(parameters.vocabulary - 1) as usize;
            let row = &output_gradient[index * width..][..width];
            for (sum, gradient) in sums[token * width..][..width].iter_mut().zip(row) {
                *sum += gradient.wide();
            }
        }
        for (gradient, sum) in table_gradient.iter_mut().zip(sums) {
            *gradient = S::narrow(sum);
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        // No row of the table is the sum of more terms than its token occurs.
        let mut occurrences = vec![0_u64; parameters.vocabulary as usize];
        for &token in operands.words(1).iter().take(parameters.tokens as usize) {
            occurrences[token.min(parameters.vocabulary - 1) as usize] += 1;
        }
        let terms = occurrences.into_iter().max().unwrap_or(0);
        // Early in training the rows of one token are nearly equal, and equal terms round alike: within a block of tokens
        // errors then grow with their number, half a unit each, and not with its root.
        let alike = terms.min(1024) / 2;
        bound_sums::<Self>(parameters, operands, terms.max(alike * alike), bounds);
    }

    fn cost(parameters: &Parameters) -> Cost {
        let (tokens, width) = (u64::from(parameters.tokens), u64::from(parameters.width));
        let table = u64::from(parameters.vocabulary) * width;
        Cost { flops: tokens * width, bytes: 4 * (tokens * width + tokens + table) }
    }

    fn cases() -> Vec<Case> {
        let random = [
            (1, 1, 1),
            (3, 4, 2),
            (51, 20, 65),
            (50, 33, 7),
            (64, 132, 5),
            (768, 128, 65),
            (1025, 8, 3),
            (2100, 5, 40),
            (300, 20, 2050),
            (37, 3, 5001),
        ];
        let case = |name: String, tokens: Vec<u32>, width: usize, vocabulary: u32, tolerance| {
            Case::new(
                name,
                Parameters { tokens: tokens.len() as u32, width: width as u32, vocabulary },
                vec![
                    Operand::Input(normal(7, 0, tokens.len() * width, 1.0)),
                    Operand::InputWords(tokens),
                    Operand::Output(vocabulary as usize * width),
                ],
                tolerance,
            )
        };
        let mut cases: Vec<Case> = random
            .into_iter()
            .map(|(count, width, vocabulary)| {
                let mut tokens = words(7, 1, count, vocabulary);
                if let [first, _, last, ..] = tokens.as_mut_slice() {
                    (*first, *last) = (vocabulary, u32::MAX);
                }
                let name = format!("N={count} C={width} V={vocabulary} seed=7");
                case(name, tokens, width, vocabulary, Tolerance::new(3e-5, 1e-6))
            })
            .collect();
        // A sum of 20,000 terms: the rounding of one long f32 sum would show.
        let same = vec![2; 20_000];
        cases.push(case("N=20000 C=4 V=9 one token only seed=7".into(), same, 4, 9, Tolerance::new(1e-4, 1e-6)));
        // As many loop iterations as there may be.
        let same = vec![1; 115_000];
        cases.push(case("N=115000 C=1 V=2 one token only seed=7".into(), same, 1, 2, Tolerance::new(3e-4, 1e-6)));
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::embedding::{self, Embedding};
    use crate::kernel::finite_difference::{assert_is_gradient, numbers, run};
    use crate::tape::HostBuffer;

    #[test]
    fn the_gradient_is_that_of_the_forward_kernel_and_zero_where_no_token_is() {
        let table: Vec<f64> = (0..8).map(|value| f64::from(value) / 4.0).collect();
        let tokens = vec![3, 1, 3];
        let output_gradient = vec![1.0, 2.0, 10.0, 20.0, 100.0, 200.0];
        let results = run::<EmbeddingBackward>(
            &Parameters { tokens: 3, width: 2, vocabulary: 4 },
            vec![
                HostBuffer::Real(output_gradient.clone()),
                HostBuffer::Words(tokens.clone()),
                HostBuffer::Real(vec![7.0; 8]),
            ],
        );
        assert_eq!(numbers(&results[2]), [0.0, 0.0, 10.0, 20.0, 0.0, 0.0, 101.0, 202.0]);
        assert_is_gradient("table_gradient", numbers(&results[2]), &table, |table| {
            let operands = vec![
                HostBuffer::Real(table.to_vec()),
                HostBuffer::Words(tokens.clone()),
                HostBuffer::Real(vec![0.0; 6]),
            ];
            let parameters = embedding::Parameters { tokens: 3, width: 2, vocabulary: 4 };
            let y = run::<Embedding>(&parameters, operands);
            numbers(&y[2]).iter().zip(&output_gradient).map(|(y, gradient)| y * gradient).sum()
        });
    }
}
