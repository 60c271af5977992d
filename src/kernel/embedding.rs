//! Rows of an embedding table by token: `y[n] = table[tokens[n]]`.

use super::layer_norm::whole_vec4;
use super::piece;
use crate::gpu::Piece;
use crate::tape::MutantKind::{Index, Tile};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, normal, words,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<Embedding>();

crate::kernel_parameters! {
    /// Operands: `table [vocabulary, width]`, `tokens [tokens]`, `y [tokens, width]`. A token past the table reads its
    /// last row; who fills the buffer has to refuse it before.
    pub struct Parameters {
        /// How many tokens.
        tokens: u32,
        width: u32,
        vocabulary: u32,
    }
}

pub struct Embedding;

/// Elements of a row that one workgroup of the designs with four and one element a value owns.
pub(super) const VEC4_REACH: u32 = 4 * 32;
pub(super) const SCALAR_REACH: u32 = 32;

const MUTANTS: &[Mutant] = &[
    Mutant::new(
        Index,
        "a token past the table reads its first row",
        "min(tokens[index], params.vocabulary - 1u)",
        "tokens[index] % params.vocabulary",
    ),
    Mutant::new(
        Tile,
        "the last column of a chunk is dropped",
        "min(first + REACH, columns)",
        "min(first + REACH - 1u, columns)",
    ),
    Mutant::new(Index, "chunks of a row are taken for tokens", "let index = number / chunks;", "let index = number;"),
];

const fn design(
    name: &'static str,
    pieces: &'static [&'static Piece],
    supports: fn(&Parameters) -> Result<(), String>,
    workgroups: fn(&Parameters) -> [u64; 3],
) -> Design<Parameters> {
    Design {
        name,
        file: "embedding.wgsl",
        text: include_str!("../../shaders/embedding.wgsl"),
        pieces,
        preference: Preference::Any,
        subgroup_width: None,
        supports,
        constants: |_| Vec::new(),
        generated: |_| String::new(),
        workgroups,
        mutants: &[MUTANTS],
    }
}

impl KernelDefinition for Embedding {
    type Parameters = Parameters;
    const NAME: &'static str = "embedding";
    const WRITES: &'static [usize] = &[2];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            design(
                "vec4",
                &[&piece::LINEAR_INDEX, &piece::VEC4_VALUES],
                |parameters| whole_vec4(parameters.width),
                |parameters| [u64::from(parameters.tokens) * u64::from(parameters.width.div_ceil(VEC4_REACH)), 1, 1],
            ),
            design(
                "scalar",
                &[&piece::LINEAR_INDEX, &piece::SCALAR_VALUES],
                |_| Ok(()),
                |parameters| [u64::from(parameters.tokens) * u64::from(parameters.width.div_ceil(SCALAR_REACH)), 1, 1],
            ),
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (table, tokens, mut y) = (operands.real(0), operands.words(1), operands.real_mut(2));
        let width = parameters.width as usize;
        for index in 0..parameters.tokens as usize {
            let token = tokens[index].min(parameters.vocabulary - 1) as usize;
            y[index * width..][..width].copy_from_slice(&table[token * width..][..width]);
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let (tokens, width) = (u64::from(parameters.tokens), u64::from(parameters.width));
        Cost { flops: 0, bytes: 4 * (2 * tokens * width + tokens) }
    }

    fn cases() -> Vec<Case> {
        // The last has more workgroups than a device counts in one dimension.
        [(1, 1, 1), (5, 4, 3), (51, 20, 65), (9, 33, 7), (17, 132, 50), (64, 128, 65), (3, 768, 1000), (70_000, 4, 11)]
            .into_iter()
            .map(|(count, width, vocabulary)| {
                let mut tokens = words(6, 1, count, vocabulary);
                if let [first, _, last, ..] = tokens.as_mut_slice() {
                    (*first, *last) = (vocabulary, u32::MAX);
                }
                Case::new(
                    format!("N={count} C={width} V={vocabulary} seed=6"),
                    Parameters { tokens: count as u32, width: width as u32, vocabulary },
                    vec![
                        Operand::Input(normal(6, 0, vocabulary as usize * width, 1.0)),
                        Operand::InputWords(tokens),
                        Operand::Output(count * width),
                    ],
                    Tolerance::EXACT,
                )
            })
            .collect()
    }
}
