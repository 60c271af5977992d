//! Fused attention, backward to key and value, with the weights computed anew: `key_gradient_j = scale sum_i ds_ij query_i`
//! and `value_gradient_j = sum_i p_ij output_gradient_i`, over the queries of every head that reads the key.

use super::attention_cases::{NanSource, setups};
use super::attention_error::Backward;
use super::attention_reference::{self as reference, Rows, RowsMut};
use super::attention_rows::{Operations, RowText, Storage, tile_constants};
use super::attention_shape::{AttentionShape, RowView};
use super::loop_limit::within;
use super::piece;
use crate::gpu::AdapterKind;
use crate::tape::MutantKind::{Accumulator, Barrier, Formula, Index, Mask, Tile};
use crate::tape::{Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<AttentionBackwardKeyValue>();

crate::kernel_parameters! {
    /// Operands: `query [B, H, Tq, D]`, `key [B, Hkv, Tk, D]`, `value [B, Hkv, Tk, D]`, `output_gradient [B, H, Tq, D]`,
    /// `row_statistics [B, H, Tq, 4]` (contiguous, of [`super::attention_delta`]), `key_gradient [B, Hkv, Tk, D]`,
    /// `value_gradient [B, Hkv, Tk, D]`; rows by offset and strides in elements.
    pub struct Parameters {
        batch: u32,
        heads: u32,
        key_value_heads: u32,
        query_length: u32,
        key_length: u32,
        head_dim: u32,
        causal: u32,
        scale: f32,
        query_offset: u32,
        query_batch_stride: u32,
        query_head_stride: u32,
        query_row_stride: u32,
        key_offset: u32,
        key_batch_stride: u32,
        key_head_stride: u32,
        key_row_stride: u32,
        value_offset: u32,
        value_batch_stride: u32,
        value_head_stride: u32,
        value_row_stride: u32,
        output_gradient_offset: u32,
        output_gradient_batch_stride: u32,
        output_gradient_head_stride: u32,
        output_gradient_row_stride: u32,
        key_gradient_offset: u32,
        key_gradient_batch_stride: u32,
        key_gradient_head_stride: u32,
        key_gradient_row_stride: u32,
        value_gradient_offset: u32,
        value_gradient_batch_stride: u32,
        value_gradient_head_stride: u32,
        value_gradient_row_stride: u32,
    }
}

impl Parameters {
    /// Parameters from the sizes and from where the rows lie: Gradients have the shapes of what they are gradients of.
    pub fn new(
        shape: &AttentionShape,
        [query, key, value, output_gradient, key_gradient, value_gradient]: [RowView; 6],
    ) -> Self {
        Self {
            batch: shape.batch,
            heads: shape.heads,
            key_value_heads: shape.key_value_heads,
            query_length: shape.query_length,
            key_length: shape.key_length,
            head_dim: shape.head_dim,
            causal: u32::from(shape.causal),
            scale: shape.scale,
            query_offset: query.offset,
            query_batch_stride: query.batch_stride,
            query_head_stride: query.head_stride,
            query_row_stride: query.row_stride,
            key_offset: key.offset,
            key_batch_stride: key.batch_stride,
            key_head_stride: key.head_stride,
            key_row_stride: key.row_stride,
            value_offset: value.offset,
            value_batch_stride: value.batch_stride,
            value_head_stride: value.head_stride,
            value_row_stride: value.row_stride,
            output_gradient_offset: output_gradient.offset,
            output_gradient_batch_stride: output_gradient.batch_stride,
            output_gradient_head_stride: output_gradient.head_stride,
            output_gradient_row_stride: output_gradient.row_stride,
            key_gradient_offset: key_gradient.offset,
            key_gradient_batch_stride: key_gradient.batch_stride,
            key_gradient_head_stride: key_gradient.head_stride,
            key_gradient_row_stride: key_gradient.row_stride,
            value_gradient_offset: value_gradient.offset,
            value_gradient_batch_stride: value_gradient.batch_stride,
            value_gradient_head_stride: value_gradient.head_stride,
            value_gradient_row_stride: value_gradient.row_stride,
        }
    }

    /// Sizes and mask.
    fn shape(&self) -> AttentionShape {
        AttentionShape {
            batch: self.batch,
            heads: self.heads,
            key_value_heads: self.key_value_heads,
            query_length: self.query_length,
            key_length: self.key_length,
            head_dim: self.head_dim,
            causal: self.causal != 0,
            scale: self.scale,
        }
    }

    fn query(&self) -> RowView {
        RowView::new(self.query_offset, self.query_batch_stride, self.query_head_stride, self.query_row_stride)
    }

    fn key(&self) -> RowView {
        RowView::new(self.key_offset, self.key_batch_stride, self.key_head_stride, self.key_row_stride)
    }

    fn value(&self) -> RowView {
        RowView::new(self.value_offset, self.value_batch_stride, self.value_head_stride, self.value_row_stride)
    }

    fn output_gradient(&self) -> RowView {
        RowView::new(
            self.output_gradient_offset,
            self.output_gradient_batch_stride,
            self.output_gradient_head_stride,
            self.output_gradient_row_stride,
        )
    }

    fn key_gradient(&self) -> RowView {
        RowView::new(
            self.key_gradient_offset,
            self.key_gradient_batch_stride,
            self.key_gradient_head_stride,
            self.key_gradient_row_stride,
        )
    }

    fn value_gradient(&self) -> RowView {
        RowView::new(
            self.value_gradient_offset,
            self.value_gradient_batch_stride,
            self.value_gradient_head_stride,
            self.value_gradient_row_stride,
        )
    }

    /// Rounds of an invocation that takes so many queries at once, over all query heads of its key head.
    fn rounds(&self, queries: u32) -> u64 {
        let rounds = u64::from(self.query_length.div_ceil(queries)) + 1;
        u64::from(self.shape().group()) * rounds
    }

    fn check_vec4(&self) -> Result<(), String> {
        self.shape().check_vec4(&[
            self.query(),
            self.key(),
            self.value(),
            self.output_gradient(),
            self.key_gradient(),
            self.value_gradient(),
        ])
    }
}

const fn rows(storage: Storage, operations: Operations) -> RowText {
    RowText {
        storage,
        loads: &["query", "key", "value", "output_gradient"],
        stores: &["key_gradient", "value_gradient"],
        operations,
    }
}

fn workgroups(parameters: &Parameters, keys: u64) -> [u64; 3] {
    let heads = u64::from(parameters.batch) * u64::from(parameters.key_value_heads);
    [heads * u64::from(parameters.key_length).div_ceil(keys), 1, 1]
}

const ROWS_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Index,
        "key heads and batches are swapped",
        "group / blocks % params.key_value_heads;",
        "group / blocks % params.batch;",
    ),
    Mutant::new(
        Accumulator,
        "each query replaces those before",
        "(*sum).c0 += factor * row.c0;",
        "(*sum).c0 = factor * row.c0;",
    ),
    Mutant::new(
        Formula,
        "the log-sum-exp is rounded to one number",
        "exp(score - statistics.x) * statistics.y",
        "exp(score - (statistics.x - log(statistics.y)))",
    ),
    Mutant::new(Mask, "the diagonal is masked", "statistics, index >= first1)", "statistics, index > first1)"),
    Mutant::new(
        Formula,
        "delta is left out",
        "(dot_rows(value1, gradient_row) - delta)",
        "dot_rows(value1, gradient_row)",
    ),
    Mutant::new(Formula, "the scale is left out", "scaled_row(key_sum, params.scale)", "key_sum"),
    Mutant::new(
        Mask,
        "masked queries keep a weight",
        "select(MASKED, params.scale * product, visible)",
        "params.scale * product",
    ),
    Mutant::new(
        Tile,
        "only the first query head of a group is added",
        "head < (key_head + 1u) * heads_per_key;",
        "head < key_head * heads_per_key + 1u;",
    ),
    Mutant::new(
        Tile,
        "keys past the end are written",
        "if index < params.key_length {",
        "if index <= params.key_length {",
    ),
    Mutant::new(
        Mask,
        "the first query that sees the block is skipped",
        "let begin = first_query(block * ROWS * WIDTH);",
        "let begin = first_query(block * ROWS * WIDTH) + 1u;",
    ),
];

const TILED_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Barrier,
        "the next slices are staged before the last are read",
        "workgroupBarrier(); // the last readers of the staged slices and of the shared weights are done",
        "",
    ),
    Mutant::new(
        Barrier,
        "key and query are read before all are staged",
        "workgroupBarrier(); // key and query are staged",
        "",
    ),
    Mutant::new(
        Barrier,
        "value and output gradient are read before all are staged",
        "workgroupBarrier(); // value and output gradient are staged",
        "",
    ),
    Mutant::new(
        Barrier,
        "output gradient is read before all is staged",
        "workgroupBarrier(); // output gradient is staged",
        "",
    ),
    Mutant::new(
        Barrier,
        "the score gradients overwrite weights that are not read",
        "workgroupBarrier(); // the weights are read",
        "",
    )
    .among_neighbours(8),
    Mutant::new(
        Barrier,
        "the next slice of query is staged before the last is read",
        "workgroupBarrier(); // the last readers of the right slice are done, and the score gradients are shared",
        "",
    ),
    Mutant::new(Mask, "the diagonal is masked", "(columns >= first)", "(columns > first)"),
    Mutant::new(
        Accumulator,
        "the scores of a tile begin with old sums",
        "var scores: array<vec4<f32>, 4>;",
        "var scores = array<vec4<f32>, 4>(key_sums[0], key_sums[1], key_sums[2], key_sums[3]);",
    ),
    Mutant::new(
        Accumulator,
        "each vec4 of a row replaces the product of those before",
        "(*scores)[r] += staged",
        "(*scores)[r] = staged",
    ),
    Mutant::new(
        Accumulator,
        "each query replaces those before",
        "(*sums)[4u * slice + r] += tile_weights",
        "(*sums)[4u * slice + r] = tile_weights",
    ),
    Mutant::new(
        Formula,
        "the log-sum-exp is rounded to one number",
        "exp(masked - largest) * inverse_sum",
        "exp(masked - (largest - log(inverse_sum)))",
    ),
    Mutant::new(
        Barrier,
        "weights are read before all are shared",
        "workgroupBarrier(); // the last readers of the right slice are done, and the weights are shared",
        "",
    ),
    Mutant::new(
        Index,
        "the columns of an invocation are taken for neighbours",
        "+ x + vec4<u32>(0u, 8u, 16u, 24u)",
        "+ 4u * x + vec4<u32>(0u, 1u, 2u, 3u)",
    ),
    Mutant::new(
        Barrier,
        "key and query are overwritten before they are read",
        "workgroupBarrier(); // key and query are read",
        "",
    ),
    Mutant::new(Barrier, "query is read before it is staged", "workgroupBarrier(); // query is staged", ""),
    Mutant::new(Formula, "delta is left out", "(weight_gradients[r] - delta)", "weight_gradients[r]"),
    Mutant::new(
        Tile,
        "queries past the end count",
        "(columns >= first) & (columns < vec4<u32>(params.query_length))",
        "(columns >= first)",
    ),
    Mutant::new(
        Tile,
        "only the first query head of a group is added",
        "head < (key_head + 1u) * heads_per_key;",
        "head < key_head * heads_per_key + 1u;",
    ),
    Mutant::new(
        Tile,
        "keys past the end are written",
        "if row < params.key_length && x < SLICE {",
        "if row <= params.key_length && x < SLICE {",
    ),
];

pub struct AttentionBackwardKeyValue;

impl KernelDefinition for AttentionBackwardKeyValue {
    type Parameters = Parameters;
    const NAME: &'static str = "attention_backward_key_value";
    const WRITES: &'static [usize] = &[5, 6];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "subgroup",
                file: "attention_backward_key_value_subgroup.wgsl",
                text: include_str!("../../shaders/attention_backward_key_value_subgroup.wgsl"),
                pieces: &[&piece::VISIBLE, &piece::ATTENTION_MASK, &piece::SUBGROUP_EIGHT],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: Some(8),
                supports: |parameters| {
                    parameters.check_vec4()?;
                    within(parameters.rounds(8))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Vec4, Operations::Subgroup(2)).generate(&parameters.shape()),
                workgroups: |parameters| workgroups(parameters, 16),
                mutants: &[&[
                    Mutant::new(
                        Index,
                        "key heads and batches are swapped",
                        "group / blocks % params.key_value_heads;",
                        "group / blocks % params.batch;",
                    ),
                    Mutant::new(
                        Accumulator,
                        "each round of queries replaces those before",
                        "(*sum0).c0 += low * weights0.low",
                        "(*sum0).c0 = low * weights0.low",
                    ),
                    Mutant::new(
                        Formula,
                        "the log-sum-exp is rounded to one number",
                        "exp(scores - largest) * inverse_sum",
                        "exp(scores - (largest - log(inverse_sum)))",
                    ),
                    Mutant::new(
                        Mask,
                        "the diagonal is masked",
                        "weights_of_eight(scores.r1, statistics, index, first1)",
                        "weights_of_eight(scores.r1, statistics, index, first1 + 1u)",
                    ),
                    Mutant::new(
                        Mask,
                        "the second four queries are masked as the first",
                        "inverse_sum.high, index + 4u, first)",
                        "inverse_sum.high, index, first)",
                    ),
                    Mutant::new(
                        Tile,
                        "queries past the end count",
                        "(queries >= vec4<u32>(first)) & (queries < vec4<u32>(params.query_length))",
                        "(queries >= vec4<u32>(first))",
                    ),
                    Mutant::new(
                        Formula,
                        "delta is left out of four queries",
                        "(weight_gradients.high - delta.high)",
                        "weight_gradients.high",
                    ),
                    Mutant::new(Formula, "the scale is left out", "scaled_row(key_sum, params.scale)", "key_sum"),
                    Mutant::new(
                        Tile,
                        "only the first query head of a group is added",
                        "head < (key_head + 1u) * heads_per_key;",
                        "head < key_head * heads_per_key + 1u;",
                    ),
                    Mutant::new(
                        Tile,
                        "keys past the end are written",
                        "if index < params.key_length {",
                        "if index <= params.key_length {",
                    ),
                    Mutant::new(
                        Mask,
                        "the first query that sees the block is skipped",
                        "let begin = first_query(block * ROWS * WIDTH);",
                        "let begin = first_query(block * ROWS * WIDTH) + 1u;",
                    ),
                ]],
            },
            Design {
                name: "tiled",
                file: "attention_backward_key_value_tiled.wgsl",
                text: include_str!("../../shaders/attention_backward_key_value_tiled.wgsl"),
                pieces: &[&piece::VISIBLE, &piece::ATTENTION_MASK, &piece::ATTENTION_TILE],
                preference: Preference::Only(AdapterKind::Hardware),
                subgroup_width: None,
                supports: Parameters::check_vec4,
                constants: |parameters| tile_constants(&parameters.shape()),
                generated: |parameters| rows(Storage::Vec4, Operations::Tiles).generate(&parameters.shape()),
                workgroups: |parameters| workgroups(parameters, 32),
                mutants: &[TILED_MUTANTS],
            },
            Design {
                name: "tiled_general",
                file: "attention_backward_key_value_tiled.wgsl",
                text: include_str!("../../shaders/attention_backward_key_value_tiled.wgsl"),
                pieces: &[&piece::VISIBLE, &piece::ATTENTION_MASK, &piece::ATTENTION_TILE],
                preference: Preference::Only(AdapterKind::Hardware),
                subgroup_width: None,
                supports: |parameters| parameters.shape().check(),
                constants: |parameters| tile_constants(&parameters.shape()),
                generated: |parameters| rows(Storage::Scalar, Operations::Tiles).generate(&parameters.shape()),
                workgroups: |parameters| workgroups(parameters, 32),
                mutants: &[
                    TILED_MUTANTS,
                    &[Mutant::new(
                        Tile,
                        "elements past the head dimension are staged",
                        "query[at + 3u]), inside)",
                        "query[at + 3u]), vec4<bool>(true))",
                    )],
                ],
            },
            Design {
                name: "rows",
                file: "attention_backward_key_value_rows.wgsl",
                text: include_str!("../../shaders/attention_backward_key_value_rows.wgsl"),
                pieces: &[&piece::VISIBLE, &piece::ATTENTION_MASK],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    parameters.check_vec4()?;
                    within(parameters.rounds(1))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Vec4, Operations::Rows).generate(&parameters.shape()),
                workgroups: |parameters| workgroups(parameters, 16),
                mutants: &[ROWS_MUTANTS],
            },
            Design {
                name: "general",
                file: "attention_backward_key_value_rows.wgsl",
                text: include_str!("../../shaders/attention_backward_key_value_rows.wgsl"),
                pieces: &[&piece::VISIBLE, &piece::ATTENTION_MASK],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    parameters.shape().check()?;
                    within(parameters.rounds(1))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Scalar, Operations::Rows).generate(&parameters.shape()),
                workgroups: |parameters| workgroups(parameters, 16),
                mutants: &[
                    ROWS_MUTANTS,
                    &[Mutant::new(
                        Tile,
                        "elements past the head dimension are read",
                        "query[at + 3u]), inside)",
                        "query[at + 3u]), vec4<bool>(true))",
                    )],
                ],
            },
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (query, key, value) = (operands.real(0), operands.real(1), operands.real(2));
        let (output_gradient, row_statistics) = (operands.real(3), operands.real(4));
        let (mut key_gradient, mut value_gradient) = (operands.real_mut(5), operands.real_mut(6));
        reference::backward_key_value(
            &parameters.shape(),
            &Rows { elements: &query, view: parameters.query() },
            &Rows { elements: &key, view: parameters.key() },
            &Rows { elements: &value, view: parameters.value() },
            &Rows { elements: &output_gradient, view: parameters.output_gradient() },
            &row_statistics,
            &mut RowsMut { elements: &mut key_gradient, view: parameters.key_gradient() },
            &mut RowsMut { elements: &mut value_gradient, view: parameters.value_gradient() },
        );
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (query, key, value) = (operands.real(0), operands.real(1), operands.real(2));
        let (output_gradient, row_statistics) = (operands.real(3), operands.real(4));
        let backward = Backward {
            shape: parameters.shape(),
            query: Rows { elements: &query, view: parameters.query() },
            key: Rows { elements: &key, view: parameters.key() },
            value: Rows { elements: &value, view: parameters.value() },
            output_gradient: Rows { elements: &output_gradient, view: parameters.output_gradient() },
            row_statistics: &row_statistics,
        };
        let [of_key, of_value] = bounds else { return };
        backward.key_value(
            &mut RowsMut { elements: of_key, view: parameters.key_gradient() },
            &mut RowsMut { elements: of_value, view: parameters.value_gradient() },
        );
    }

    fn cost(parameters: &Parameters) -> Cost {
        let shape = parameters.shape();
        let elements = (2 * shape.query_rows() + 4 * shape.key_rows()) * u64::from(shape.head_dim);
        Cost {
            flops: 8 * shape.visible_pairs() * u64::from(shape.head_dim),
            bytes: 4 * (elements + 4 * shape.query_rows()),
        }
    }

    fn cases() -> Vec<Case> {
        setups()
            .into_iter()
            .filter(|setup| setup.nan != Some(NanSource::Query))
            .map(|setup| {
                let shape = setup.shape;
                let row_statistics = setup.forward().row_statistics;
                let (query, key, value) = (setup.query.view, setup.key.view, setup.value.view);
                let output_gradient = setup.output_gradient.view;
                let (gradient_view, elements) = setup.key_side;
                let parameters =
                    Parameters::new(&shape, [query, key, value, output_gradient, gradient_view, gradient_view]);
                let operands = vec![
                    Operand::Input(setup.query.elements),
                    Operand::Input(setup.key.elements),
                    Operand::Input(setup.value.elements),
                    Operand::Input(setup.output_gradient.elements),
                    Operand::Input(row_statistics),
                    Operand::Output(elements),
                    Operand::Output(elements),
                ];
                let tolerance = setup.magnitudes.gradient_tolerance(shape.scale);
                let has_nan = setup.nan.is_some();
                Case { has_nan, ..Case::new(setup.name, parameters, operands, tolerance) }
            })
            .collect()
    }
}
