//! The causal mask: scores of keys that a query may not see are replaced.

use super::piece;
use crate::tape::MutantKind::{Index, Mask, Tile};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<CausalMask>();

crate::kernel_parameters! {
    /// Operands: `x`, `y`, both `[rows, key_length]`: rows of `[.., query_length, key_length]`, of which the first is that of
    /// query `first_row` and may lie in the middle of a matrix. Query i sees key j iff `j <= i + key_length - query_length`
    /// (bottom-right alignment); other elements of y are `fill`: [`super::softmax::MASKED`] for scores, 0 for their
    /// gradients.
    pub struct Parameters {
        rows: u32,
        /// The query of the first row, less than `query_length`.
        first_row: u32,
        query_length: u32,
        key_length: u32,
        fill: f32,
    }
}

impl Parameters {
    fn count(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.key_length)
    }
}

/// Keys that query `query` sees: all before this one.
pub(super) fn visible_keys(query: usize, query_length: u32, key_length: u32) -> usize {
    (query + 1 + key_length as usize).saturating_sub(query_length as usize)
}

pub struct CausalMask;

impl KernelDefinition for CausalMask {
    type Parameters = Parameters;
    const NAME: &'static str = "causal_mask";
    const WRITES: &'static [usize] = &[1];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[Design {
            name: "vec4",
            file: "causal_mask.wgsl",
            text: include_str!("../../shaders/causal_mask.wgsl"),
            pieces: &[&piece::LINEAR_INDEX, &piece::DIVIDE],
            preference: Preference::Any,
            subgroup_width: None,
            supports: |_| Ok(()),
            constants: |_| Vec::new(),
            generated: |_| String::new(),
            workgroups: |parameters| [parameters.count().div_ceil(4 * 64), 1, 1],
            mutants: &[&[
                Mutant::new(Tile, "the tail is written past its end", "if first + 4u <= count {", "if first < count {"),
                Mutant::new(
                    Mask,
                    "a query does not see its own position",
                    "keys + params.query_length > queries",
                    "keys + params.query_length >= queries",
                ),
                Mutant::new(
                    Mask,
                    "the mask is aligned top-left",
                    "keys + params.query_length > queries + params.key_length",
                    "keys > queries",
                ),
                Mutant::new(
                    Mask,
                    "a group of rows begins at the first query",
                    "let place = params.first_row + row;",
                    "let place = row;",
                ),
                Mutant::new(
                    Index,
                    "the next matrix continues the rows of the one before",
                    "select(query + 1u, 0u, query + 1u == params.query_length)",
                    "query + 1u",
                ),
            ]],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, mut y) = (operands.real(0), operands.real_mut(1));
        let fill = S::narrow(S::Wide::of(parameters.fill));
        let &Parameters { rows, first_row, query_length, key_length, .. } = parameters;
        for row in 0..rows as usize {
            let query = (first_row as usize + row) % query_length as usize;
            let visible = visible_keys(query, query_length, key_length);
            for key in 0..key_length as usize {
                let at = row * key_length as usize + key;
                y[at] = if key < visible { x[at] } else { fill };
            }
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        Cost { flops: 0, bytes: 8 * parameters.count() }
    }

    fn cases() -> Vec<Case> {
        let masked = super::softmax::MASKED;
        // The second half begins in the middle of a matrix: within it, to its end, across its edge.
        [
            (1, 0, 1, 1, masked),
            (4, 0, 4, 2, masked),
            (4, 0, 2, 5, masked),
            (9, 0, 3, 1, 0.0),
            (10, 0, 5, 5, 0.0),
            (21, 0, 7, 3, masked),
            (32, 0, 16, 16, masked),
            (33, 0, 33, 64, masked),
            (130, 0, 65, 65, 0.0),
            (3, 2, 7, 7, masked),
            (4, 3, 7, 9, 0.0),
            (9, 5, 8, 8, masked),
            (11, 1, 3, 1, masked),
            (1, 4, 5, 3, masked),
            (90, 50, 64, 64, 0.0),
        ]
        .into_iter()
        .map(|(rows, first_row, query_length, key_length, fill)| {
            let parameters = Parameters { rows, first_row, query_length, key_length, fill };
            let count = parameters.count() as usize;
            Case::new(
                format!("rows={rows} from {first_row} Tq={query_length} Tk={key_length} fill={fill:e} seed=6"),
                parameters,
                vec![Operand::Input(normal(6, 0, count, 1.0)), Operand::Output(count)],
                Tolerance::EXACT,
            )
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_query_sees_every_key_and_early_ones_may_see_none() {
        for (query_length, key_length, visible) in
            [(3, 3, &[1, 2, 3][..]), (4, 2, &[0, 0, 1, 2]), (2, 5, &[4, 5]), (1, 1, &[1]), (1, 7, &[7])]
        {
            let found: Vec<usize> =
                (0..query_length as usize).map(|query| visible_keys(query, query_length, key_length)).collect();
            assert_eq!(found, visible, "Tq={query_length} Tk={key_length}");
        }
    }
}
