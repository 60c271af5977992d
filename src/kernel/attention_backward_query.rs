//! Fused attention, backward to the query: `query_gradient = scale sum_j ds_j key_j`, with the weights computed anew.

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
pub static KERNEL: Kernel = Kernel::of::<AttentionBackwardQuery>();

crate::kernel_parameters! {
    /// Operands: `query [B, H, Tq, D]`, `key [B, Hkv, Tk, D]`, `value [B, Hkv, Tk, D]`, `output_gradient [B, H, Tq, D]`,
    /// `row_statistics [B, H, Tq, 4]` (contiguous, of [`super::attention_delta`]), `query_gradient [B, H, Tq, D]`; rows by
    /// offset and strides in elements. A query that sees no key gets the gradient 0.
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
        query_gradient_offset: u32,
        query_gradient_batch_stride: u32,
        query_gradient_head_stride: u32,
        query_gradient_row_stride: u32,
    }
}

impl Parameters {
    /// Parameters from the sizes and from where the rows lie: Gradients have the shapes of what they are gradients of.
    pub fn new(shape: &AttentionShape, [query, key, value, output_gradient, query_gradient]: [RowView; 5]) -> Self {
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
            query_gradient_offset: query_gradient.offset,
            query_gradient_batch_stride: query_gradient.batch_stride,
            query_gradient_head_stride: query_gradient.head_stride,
            query_gradient_row_stride: query_gradient.row_stride,
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

    fn query_gradient(&self) -> RowView {
        RowView::new(
            self.query_gradient_offset,
            self.query_gradient_batch_stride,
            self.query_gradient_head_stride,
            self.query_gradient_row_stride,
        )
    }

    /// Rounds of an invocation that takes so many keys at once.
    fn rounds(&self, keys: u32) -> u64 {
        u64::from(self.key_length.div_ceil(keys))
    }

    fn check_vec4(&self) -> Result<(), String> {
        self.shape().check_vec4(&[
            self.query(),
            self.key(),
            self.value(),
            self.output_gradient(),
            self.query_gradient(),
        ])
    }
}

const fn rows(storage: Storage, operations: Operations) -> RowText {
    RowText { storage, loads: &["query", "key", "value", "output_gradient"], stores: &["query_gradient"], operations }
}

fn workgroups(parameters: &Parameters, queries: u64) -> [u64; 3] {
    let heads = u64::from(parameters.batch) * u64::from(parameters.heads);
    [heads * u64::from(parameters.query_length).div_ceil(queries), 1, 1]
}

const ROWS_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Accumulator,
        "each key replaces those before",
        "(*sum).c0 += factor * row.c0;",
        "(*sum).c0 = factor * row.c0;",
    ),
    Mutant::new(
        Formula,
        "the log-sum-exp is rounded to one number",
        "let statistics1 = row_statistics[first_row + min(row1, last_query)];",
        "let exact1 = row_statistics[first_row + min(row1, last_query)];\n    \
                      let statistics1 = vec4<f32>(exact1.x - log(exact1.y), 1.0, exact1.zw);",
    ),
    Mutant::new(Mask, "the diagonal is masked", "index < visible1)", "index + 1u < visible1)"),
    Mutant::new(Formula, "delta is left out", "(weight_gradient - statistics.z)", "weight_gradient"),
    Mutant::new(Formula, "the scale is left out", "params.scale * statistics.y", "statistics.y"),
    Mutant::new(
        Tile,
        "queries past the end are written",
        "if index < params.query_length {",
        "if index <= params.query_length {",
    ),
    Mutant::new(
        Tile,
        "the last key of a block is dropped",
        "for (var index = 0u; index < end; index++)",
        "for (var index = 0u; index + 1u < end; index++)",
    ),
    Mutant::new(
        Index,
        "a query head reads the key/value head of its own number",
        "head / (params.heads / params.key_value_heads)",
        "head % params.key_value_heads",
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
        "query and key are read before all are staged",
        "workgroupBarrier(); // query and key are staged",
        "",
    ),
    Mutant::new(
        Barrier,
        "output gradient and value are read before all are staged",
        "workgroupBarrier(); // output gradient and value are staged",
        "",
    ),
    Mutant::new(
        Mask,
        "a query sees one key too many",
        "let visible = columns < vec4<u32>(visible_keys(first_row + r));",
        "let visible = columns <= vec4<u32>(visible_keys(first_row + r));",
    ),
    Mutant::new(
        Accumulator,
        "the scores of a tile begin with old sums",
        "var scores: array<vec4<f32>, 4>;",
        "var scores = array<vec4<f32>, 4>(sums[0], sums[1], sums[2], sums[3]);",
    ),
    Mutant::new(
        Accumulator,
        "each vec4 of a row replaces the product of those before",
        "(*scores)[r] += staged",
        "(*scores)[r] = staged",
    ),
    Mutant::new(
        Accumulator,
        "each key replaces those before",
        "(*sums)[4u * slice + r] += tile_weights",
        "(*sums)[4u * slice + r] = tile_weights",
    ),
    Mutant::new(
        Formula,
        "the log-sum-exp is rounded to one number",
        "statistics[r] = row_statistics[first_statistics + min(first_row + r, last_query)];",
        "let exact = row_statistics[first_statistics + min(first_row + r, last_query)];\n        \
                      statistics[r] = vec4<f32>(exact.x - log(exact.y), 1.0, exact.zw);",
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
        "query and key are overwritten before they are read",
        "workgroupBarrier(); // query and key are read",
        "",
    ),
    Mutant::new(Barrier, "key is read before it is staged", "workgroupBarrier(); // key is staged", ""),
    Mutant::new(Formula, "delta is left out", "(weight_gradients[r] - statistics[r].z)", "weight_gradients[r]"),
    Mutant::new(
        Index,
        "only the first slice is stored",
        "store_query_gradient_chunk(first, slice * SLICE + x,",
        "store_query_gradient_chunk(first, x,",
    ),
    Mutant::new(
        Tile,
        "queries past the end are written",
        "if row < params.query_length && x < SLICE {",
        "if row <= params.query_length && x < SLICE {",
    ),
    Mutant::new(
        Index,
        "a query head reads the key/value head of its own number",
        "head / (params.heads / params.key_value_heads)",
        "head % params.key_value_heads",
    ),
];

pub struct AttentionBackwardQuery;

impl KernelDefinition for AttentionBackwardQuery {
    type Parameters = Parameters;
    const NAME: &'static str = "attention_backward_query";
    const WRITES: &'static [usize] = &[5];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "subgroup",
                file: "attention_backward_query_subgroup.wgsl",
                text: include_str!("../../shaders/attention_backward_query_subgroup.wgsl"),
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
                        Accumulator,
                        "each round of keys replaces those before",
                        "(*sum0).c0 += low * weights0.low",
                        "(*sum0).c0 = low * weights0.low",
                    ),
                    Mutant::new(
                        Mask,
                        "the diagonal is masked",
                        "statistics1, index, visible1)",
                        "statistics1, index + 1u, visible1)",
                    ),
                    Mutant::new(
                        Mask,
                        "the second four keys are masked as the first",
                        "statistics0, index + 4u, visible0)",
                        "statistics0, index, visible0)",
                    ),
                    Mutant::new(
                        Mask,
                        "masked keys keep a gradient",
                        "select(vec4<f32>(0.0), gradients, are_visible(scores))",
                        "gradients",
                    ),
                    Mutant::new(
                        Formula,
                        "the log-sum-exp is rounded to one number",
                        "let statistics1 = row_statistics[first_row + min(row1, last_query)];",
                        "let exact1 = row_statistics[first_row + min(row1, last_query)];\n    \
                                      let statistics1 = vec4<f32>(exact1.x - log(exact1.y), 1.0, exact1.zw);",
                    ),
                    Mutant::new(Formula, "delta is left out", "(weight_gradients - statistics.z)", "weight_gradients"),
                    Mutant::new(Formula, "the scale is left out", "params.scale * statistics.y", "statistics.y"),
                    Mutant::new(
                        Tile,
                        "queries past the end are written",
                        "if index < params.query_length {",
                        "if index <= params.query_length {",
                    ),
                    Mutant::new(
                        Index,
                        "a query head reads the key/value head of its own number",
                        "head / (params.heads / params.key_value_heads)",
                        "head % params.key_value_heads",
                    ),
                ]],
            },
            Design {
                name: "tiled",
                file: "attention_backward_query_tiled.wgsl",
                text: include_str!("../../shaders/attention_backward_query_tiled.wgsl"),
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
                file: "attention_backward_query_tiled.wgsl",
                text: include_str!("../../shaders/attention_backward_query_tiled.wgsl"),
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
                file: "attention_backward_query_rows.wgsl",
                text: include_str!("../../shaders/attention_backward_query_rows.wgsl"),
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
                file: "attention_backward_query_rows.wgsl",
                text: include_str!("../../shaders/attention_backward_query_rows.wgsl"),
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
        let mut query_gradient = operands.real_mut(5);
        reference::backward_query(
            &parameters.shape(),
            &Rows { elements: &query, view: parameters.query() },
            &Rows { elements: &key, view: parameters.key() },
            &Rows { elements: &value, view: parameters.value() },
            &Rows { elements: &output_gradient, view: parameters.output_gradient() },
            &row_statistics,
            &mut RowsMut { elements: &mut query_gradient, view: parameters.query_gradient() },
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
        backward.query(&mut RowsMut { elements: &mut bounds[0], view: parameters.query_gradient() });
    }

    fn cost(parameters: &Parameters) -> Cost {
        let shape = parameters.shape();
        let elements = (3 * shape.query_rows() + 2 * shape.key_rows()) * u64::from(shape.head_dim);
        Cost {
            flops: 6 * shape.visible_pairs() * u64::from(shape.head_dim),
            bytes: 4 * (elements + 4 * shape.query_rows()),
        }
    }

    fn cases() -> Vec<Case> {
        setups()
            .into_iter()
            .filter(|setup| setup.nan != Some(NanSource::Key))
            .map(|setup| {
                let shape = setup.shape;
                let row_statistics = setup.forward().row_statistics;
                let (query, key, value) = (setup.query.view, setup.key.view, setup.value.view);
                let output_gradient = setup.output_gradient.view;
                let (query_gradient, elements) = setup.query_side;
                let parameters = Parameters::new(&shape, [query, key, value, output_gradient, query_gradient]);
                let operands = vec![
                    Operand::Input(setup.query.elements),
                    Operand::Input(setup.key.elements),
                    Operand::Input(setup.value.elements),
                    Operand::Input(setup.output_gradient.elements),
                    Operand::Input(row_statistics),
                    Operand::Output(elements),
                ];
                let tolerance = setup.magnitudes.gradient_tolerance(shape.scale);
                let has_nan = setup.nan.is_some();
                Case { has_nan, ..Case::new(setup.name, parameters, operands, tolerance) }
            })
            .collect()
    }
}
