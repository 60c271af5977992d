//! Fused attention, forward: `output = softmax(scale query key^T) value` without ever writing the scores down.

use super::attention_cases::setups;
use super::attention_error;
use super::attention_reference::{self as reference, Rows, RowsMut};
use super::attention_rows::{Operations, RowText, Storage, tile_constants};
use super::attention_shape::{AttentionShape, RowView};
use super::loop_limit::within;
use super::piece;
use super::softmax::{NAN_IS_NOT_SEEN, NANS_ARE_NOT_SEEN};
use crate::gpu::AdapterKind;
use crate::tape::MutantKind::{Accumulator, Barrier, Formula, Index, Mask, Rescale, Tile};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<AttentionForward>();

crate::kernel_parameters! {
    /// Operands: `query [B, H, Tq, D]`, `key [B, Hkv, Tk, D]`, `value [B, Hkv, Tk, D]`, `output [B, H, Tq, D]`, each
    /// by offset and strides in elements, and, contiguous, `log_sum_exp [B, H, Tq]` and `softmax_statistics
    /// [2, B, H, Tq]`: the largest score `m` of each query, then its `l = sum(exp(s - m))`. Query head `h` reads key/value
    /// head `h / (heads / key_value_heads)`. A query that sees no key gets the output 0, log-sum-exp and `m` -2^127, `l` 0.
    ///
    /// `log_sum_exp = m + ln(l)` is for whoever wants to know it. The backward passes read `m` and `l`: near a score of
    /// 28,000 their sum in f32 is off by up to 0.001, and weights computed from it would be as well.
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
        output_offset: u32,
        output_batch_stride: u32,
        output_head_stride: u32,
        output_row_stride: u32,
    }
}

impl Parameters {
    /// Parameters from the sizes and from where the rows lie: `query [B, H, Tq, D]`, `key` and `value [B, Hkv, Tk, D]`, `output [B, H, Tq, D]`.
    pub fn new(shape: &AttentionShape, [query, key, value, output]: [RowView; 4]) -> Self {
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
            output_offset: output.offset,
            output_batch_stride: output.batch_stride,
            output_head_stride: output.head_stride,
            output_row_stride: output.row_stride,
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

    fn output(&self) -> RowView {
        RowView::new(self.output_offset, self.output_batch_stride, self.output_head_stride, self.output_row_stride)
    }

    /// Rounds of an invocation that takes so many keys at once.
    fn rounds(&self, keys: u32) -> u64 {
        u64::from(self.key_length.div_ceil(keys))
    }

    fn check_vec4(&self) -> Result<(), String> {
        self.shape().check_vec4(&[self.query(), self.key(), self.value(), self.output()])
    }
}

const fn rows(storage: Storage, operations: Operations) -> RowText {
    RowText { storage, loads: &["query", "key", "value"], stores: &["output"], operations }
}

fn workgroups(parameters: &Parameters) -> [u64; 3] {
    let heads = u64::from(parameters.batch) * u64::from(parameters.heads);
    [heads * u64::from(parameters.query_length).div_ceil(32), 1, 1]
}

const ROWS_MUTANTS: &[Mutant] = &[
    Mutant::new(Rescale, "the output is not rescaled", "*sum = scaled_row(*sum, factors.x);", ""),
    Mutant::new(
        Accumulator,
        "each value replaces those before",
        "(*sum).c0 += factor * row.c0;",
        "(*sum).c0 = factor * row.c0;",
    ),
    Mutant::new(
        Index,
        "the sum is stored in the place of the next query's",
        "softmax_statistics[sums + statistics]",
        "softmax_statistics[sums + statistics + 1u]",
    ),
    Mutant::new(Mask, "the diagonal is masked", "index < visible.y)", "index + 1u < visible.y)"),
    Mutant::new(Rescale, "the sum is not rescaled", "(*softmax).sum * correction + weight", "(*softmax).sum + weight"),
    Mutant::new(
        Mask,
        "masked keys keep a weight",
        "select(0.0, exp(score - largest), is_visible(score))",
        "exp(score - largest)",
    ),
    NAN_IS_NOT_SEEN,
    Mutant::new(
        Formula,
        "a sum that is NaN counts as nothing",
        "let nothing = softmax.sum == 0.0;",
        "let nothing = !(softmax.sum > 0.0);",
    ),
    Mutant::new(
        Formula,
        "the largest score stands where the sum is NaN",
        "select(softmax.largest, softmax.sum, is_nan(softmax.sum))",
        "softmax.largest",
    ),
    Mutant::new(
        Index,
        "a query head reads the key/value head of its own number",
        "head / (params.heads / params.key_value_heads)",
        "head % params.key_value_heads",
    ),
    Mutant::new(
        Index,
        "the fourth query is written as the third",
        "finish(batch, head, rows.w, softmax3, sum3);",
        "finish(batch, head, rows.w, softmax2, sum2);",
    ),
    Mutant::new(
        Formula,
        "the log-sum-exp forgets the largest score",
        "select(largest + log(softmax.sum), MASKED, nothing)",
        "select(log(softmax.sum), MASKED, nothing)",
    ),
    Mutant::new(
        Tile,
        "queries past the end are written",
        "if index < params.query_length {",
        "if index <= params.query_length {",
    ),
];

const TILED_MUTANTS: &[Mutant] = &[
    NANS_ARE_NOT_SEEN,
    Mutant::new(
        Formula,
        "the largest score stands where the sum is NaN",
        "select(largest[r], sum, is_nan(sum))",
        "largest[r]",
    ),
    Mutant::new(
        Barrier,
        "the next slice is staged before the last is read",
        "workgroupBarrier(); // the last readers of the staged slices are done",
        "",
    ),
    Mutant::new(
        Barrier,
        "the largest scores are read before all are there",
        "workgroupBarrier(); // the largest scores of all parts are there",
        "",
    )
    .among_neighbours(8),
    Mutant::new(
        Barrier,
        "the weights' sums are read before all are there",
        "workgroupBarrier(); // the sums of all parts are there",
        "",
    )
    .among_neighbours(8),
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
        "each value replaces those before",
        "(*sums)[4u * slice + r] += tile_weights",
        "(*sums)[4u * slice + r] = tile_weights",
    ),
    Mutant::new(
        Tile,
        "queries past the end are written",
        "if row < params.query_length {",
        "if row <= params.query_length {",
    ),
    Mutant::new(
        Barrier,
        "weights are read before all are shared",
        "workgroupBarrier(); // the last readers of the right slice are done, and the weights are shared",
        "",
    ),
    Mutant::new(
        Barrier,
        "the staged slice is read before it is complete",
        "workgroupBarrier(); // query and key are staged",
        "",
    ),
    Mutant::new(Barrier, "the values are read before all are staged", "workgroupBarrier(); // value is staged", ""),
    Mutant::new(
        Rescale,
        "the weights' sum is not rescaled",
        "weight_sums[r] * correction + dot",
        "weight_sums[r] + dot",
    ),
    Mutant::new(Rescale, "the output is not rescaled", "sums[4u * slice + r] *= correction;", ""),
    Mutant::new(
        Index,
        "the columns of an invocation are taken for neighbours",
        "first_key + x + vec4<u32>(0u, 8u, 16u, 24u)",
        "first_key + 4u * x + vec4<u32>(0u, 1u, 2u, 3u)",
    ),
    Mutant::new(
        Index,
        "only the first slice is stored",
        "store_output_chunk(first, slice * SLICE + x,",
        "store_output_chunk(first, x,",
    ),
    Mutant::new(
        Index,
        "a query head reads the key/value head of its own number",
        "head / (params.heads / params.key_value_heads)",
        "head % params.key_value_heads",
    ),
];

pub struct AttentionForward;

impl KernelDefinition for AttentionForward {
    type Parameters = Parameters;
    const NAME: &'static str = "attention_forward";
    const WRITES: &'static [usize] = &[3, 4, 5];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "subgroup",
                file: "attention_forward_subgroup.wgsl",
                text: include_str!("../../shaders/attention_forward_subgroup.wgsl"),
                pieces: &[&piece::VISIBLE, &piece::NAN, &piece::ATTENTION_MASK, &piece::SUBGROUP_EIGHT],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: Some(8),
                supports: |parameters| {
                    parameters.check_vec4()?;
                    within(parameters.rounds(8))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Vec4, Operations::Subgroup(4)).generate(&parameters.shape()),
                workgroups,
                mutants: &[&[
                    Mutant::new(
                        Tile,
                        "queries past the end are written",
                        "if index < params.query_length {",
                        "if index <= params.query_length {",
                    ),
                    Mutant::new(
                        Rescale,
                        "the sum is not rescaled",
                        "(*softmax).sum * correction + dot",
                        "(*softmax).sum + dot",
                    ),
                    Mutant::new(
                        Accumulator,
                        "each round of values replaces those before",
                        "(*sum0).c0 += low * weights0.low",
                        "(*sum0).c0 = low * weights0.low",
                    ),
                    Mutant::new(
                        Mask,
                        "the diagonal is masked",
                        "scores.r1, index, visible.y)",
                        "scores.r1, index + 1u, visible.y)",
                    ),
                    Mutant::new(
                        Mask,
                        "the second four keys are masked as the first",
                        "masked_scores(products.high, key + 4u, visible)",
                        "masked_scores(products.high, key, visible)",
                    ),
                    Mutant::new(Rescale, "the output is not rescaled", "*sum = scaled_row(*sum, correction);", ""),
                    Mutant::new(
                        Mask,
                        "masked keys keep a weight",
                        "select(vec4<f32>(0.0), exp(scores - largest), are_visible(scores))",
                        "exp(scores - largest)",
                    ),
                    NANS_ARE_NOT_SEEN,
                    Mutant::new(
                        Formula,
                        "the largest score stands where the sum is NaN",
                        "select(softmax.largest, softmax.sum, is_nan(softmax.sum))",
                        "softmax.largest",
                    ),
                    Mutant::new(
                        Formula,
                        "the largest of the second four scores is not counted",
                        "let four = max(low, high);",
                        "let four = low;",
                    ),
                    Mutant::new(
                        Index,
                        "two lanes are swapped",
                        "        subgroupBroadcast(own, 5u),\n        subgroupBroadcast(own, 6u),\n        subgroupBroadcast(own, 7u),\n    );\n}\n\n// A number",
                        "        subgroupBroadcast(own, 6u),\n        subgroupBroadcast(own, 5u),\n        subgroupBroadcast(own, 7u),\n    );\n}\n\n// A number",
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
                file: "attention_forward_tiled.wgsl",
                text: include_str!("../../shaders/attention_forward_tiled.wgsl"),
                pieces: &[&piece::VISIBLE, &piece::NAN, &piece::ATTENTION_MASK, &piece::ATTENTION_TILE],
                preference: Preference::Only(AdapterKind::Hardware),
                subgroup_width: None,
                supports: Parameters::check_vec4,
                constants: |parameters| tile_constants(&parameters.shape()),
                generated: |parameters| rows(Storage::Vec4, Operations::Tiles).generate(&parameters.shape()),
                workgroups,
                mutants: &[TILED_MUTANTS],
            },
            Design {
                name: "tiled_general",
                file: "attention_forward_tiled.wgsl",
                text: include_str!("../../shaders/attention_forward_tiled.wgsl"),
                pieces: &[&piece::VISIBLE, &piece::NAN, &piece::ATTENTION_MASK, &piece::ATTENTION_TILE],
                preference: Preference::Only(AdapterKind::Hardware),
                subgroup_width: None,
                supports: |parameters| parameters.shape().check(),
                constants: |parameters| tile_constants(&parameters.shape()),
                generated: |parameters| rows(Storage::Scalar, Operations::Tiles).generate(&parameters.shape()),
                workgroups,
                mutants: &[
                    TILED_MUTANTS,
                    &[Mutant::new(
                        Tile,
                        "elements past the head dimension are written",
                        "if chunk * 4u + 1u < params.head_dim {",
                        "if chunk * 4u < params.head_dim {",
                    )],
                ],
            },
            Design {
                name: "rows",
                file: "attention_forward_rows.wgsl",
                text: include_str!("../../shaders/attention_forward_rows.wgsl"),
                pieces: &[&piece::VISIBLE, &piece::NAN, &piece::ATTENTION_MASK],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    parameters.check_vec4()?;
                    within(parameters.rounds(1))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Vec4, Operations::Rows).generate(&parameters.shape()),
                workgroups,
                mutants: &[ROWS_MUTANTS],
            },
            Design {
                name: "general",
                file: "attention_forward_rows.wgsl",
                text: include_str!("../../shaders/attention_forward_rows.wgsl"),
                pieces: &[&piece::VISIBLE, &piece::NAN, &piece::ATTENTION_MASK],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    parameters.shape().check()?;
                    within(parameters.rounds(1))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Scalar, Operations::Rows).generate(&parameters.shape()),
                workgroups,
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
        let (mut output, mut log_sum_exp) = (operands.real_mut(3), operands.real_mut(4));
        let mut softmax_statistics = operands.real_mut(5);
        reference::forward(
            &parameters.shape(),
            &Rows { elements: &query, view: parameters.query() },
            &Rows { elements: &key, view: parameters.key() },
            &Rows { elements: &value, view: parameters.value() },
            &mut RowsMut { elements: &mut output, view: parameters.output() },
            &mut log_sum_exp,
            &mut softmax_statistics,
        );
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (query, key, value) = (operands.real(0), operands.real(1), operands.real(2));
        let [of_output, of_log_sum_exp, of_statistics] = bounds else { return };
        attention_error::forward(
            &parameters.shape(),
            &Rows { elements: &query, view: parameters.query() },
            &Rows { elements: &key, view: parameters.key() },
            &Rows { elements: &value, view: parameters.value() },
            &mut RowsMut { elements: of_output, view: parameters.output() },
            of_log_sum_exp,
            of_statistics,
        );
    }

    fn cost(parameters: &Parameters) -> Cost {
        let shape = parameters.shape();
        let elements = (2 * shape.query_rows() + 2 * shape.key_rows()) * u64::from(shape.head_dim);
        Cost {
            flops: 4 * shape.visible_pairs() * u64::from(shape.head_dim),
            bytes: 4 * (elements + 3 * shape.query_rows()),
        }
    }

    fn cases() -> Vec<Case> {
        setups()
            .into_iter()
            .map(|setup| {
                let (shape, (output, elements)) = (setup.shape, setup.query_side);
                let (query, key, value) = (setup.query.view, setup.key.view, setup.value.view);
                let parameters = Parameters::new(&shape, [query, key, value, output]);
                let operands = vec![
                    Operand::Input(setup.query.elements),
                    Operand::Input(setup.key.elements),
                    Operand::Input(setup.value.elements),
                    Operand::Output(elements),
                    Operand::Output(shape.query_rows() as usize),
                    Operand::Output(2 * shape.query_rows() as usize),
                ];
                let has_nan = setup.nan.is_some();
                Case {
                    has_nan,
                    ..Case::new(setup.name, parameters, operands, Tolerance::new(2e-6 * setup.magnitudes.value, 2e-6))
                }
            })
            .collect()
    }
}
