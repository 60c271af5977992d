//! Fused attention, forward: `output = softmax(scale query key^T) value` without ever writing the scores down.

use super::attention_cases::setups;
use super::attention_error;
use super::attention_reference::{self as reference, Rows, RowsMut};
use super::attention_rows::{Operations, RowText, Storage, tile_constants};
use super::attention_shape::{AttentionShape, RowView};
use super::loop_limit::within;
use super::piece;
use crate::gpu::AdapterKind;
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
    Mutant { name: "the diagonal is masked", original: "index < visible.y)", replacement: "index + 1u < visible.y)" },
    Mutant {
        name: "the sum is not rescaled",
        original: "(*softmax).sum * correction + weight",
        replacement: "(*softmax).sum + weight",
    },
    Mutant {
        name: "masked keys keep a weight",
        original: "select(0.0, exp(score - largest), score > INVISIBLE)",
        replacement: "exp(score - largest)",
    },
    Mutant {
        name: "a query head reads the key/value head of its own number",
        original: "head / (params.heads / params.key_value_heads)",
        replacement: "head % params.key_value_heads",
    },
    Mutant {
        name: "the fourth query is written as the third",
        original: "finish(batch, head, rows.w, softmax3, sum3);",
        replacement: "finish(batch, head, rows.w, softmax2, sum2);",
    },
    Mutant {
        name: "the log-sum-exp forgets the largest score",
        original: "softmax.largest + log(softmax.sum)",
        replacement: "log(softmax.sum)",
    },
    Mutant {
        name: "queries past the end are written",
        original: "if index < params.query_length {",
        replacement: "if index <= params.query_length {",
    },
];

const TILED_MUTANTS: &[Mutant] = &[
    Mutant {
        name: "weights are read before all are shared",
        original: "workgroupBarrier(); // the last readers of the right slice are done, and the weights are shared",
        replacement: "",
    },
    Mutant {
        name: "the staged slice is read before it is complete",
        original: "workgroupBarrier(); // query and key are staged",
        replacement: "",
    },
    Mutant {
        name: "the values are read before all are staged",
        original: "workgroupBarrier(); // value is staged",
        replacement: "",
    },
    Mutant {
        name: "the weights' sum is not rescaled",
        original: "weight_sums[r] * correction + dot",
        replacement: "weight_sums[r] + dot",
    },
    Mutant { name: "the output is not rescaled", original: "sums[4u * slice + r] *= correction;", replacement: "" },
    Mutant {
        name: "the columns of an invocation are taken for neighbours",
        original: "first_key + x + vec4<u32>(0u, 8u, 16u, 24u)",
        replacement: "first_key + 4u * x + vec4<u32>(0u, 1u, 2u, 3u)",
    },
    Mutant {
        name: "only the first slice is stored",
        original: "store_output_chunk(first, slice * SLICE + x,",
        replacement: "store_output_chunk(first, x,",
    },
    Mutant {
        name: "a query head reads the key/value head of its own number",
        original: "head / (params.heads / params.key_value_heads)",
        replacement: "head % params.key_value_heads",
    },
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
                pieces: &[&piece::ATTENTION_MASK, &piece::SUBGROUP_EIGHT],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: Some(8),
                supports: |parameters| {
                    parameters.check_vec4()?;
                    within(parameters.rounds(8))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Vec4, Operations::Subgroup(4)).generate(&parameters.shape()),
                workgroups,
                mutants: &[
                    Mutant {
                        name: "the diagonal is masked",
                        original: "scores.r1, index, visible.y)",
                        replacement: "scores.r1, index + 1u, visible.y)",
                    },
                    Mutant {
                        name: "the second four keys are masked as the first",
                        original: "masked_scores(products.high, key + 4u, visible)",
                        replacement: "masked_scores(products.high, key, visible)",
                    },
                    Mutant {
                        name: "the output is not rescaled",
                        original: "*sum = scaled_row(*sum, correction);",
                        replacement: "",
                    },
                    Mutant {
                        name: "masked keys keep a weight",
                        original: "select(vec4<f32>(0.0), exp(scores - largest), scores > vec4<f32>(INVISIBLE))",
                        replacement: "exp(scores - largest)",
                    },
                    Mutant {
                        name: "the largest of the second four scores is not counted",
                        original: "let four = max(low, high);",
                        replacement: "let four = low;",
                    },
                    Mutant {
                        name: "two lanes are swapped",
                        original: "        subgroupBroadcast(own, 5u),\n        subgroupBroadcast(own, 6u),\n        subgroupBroadcast(own, 7u),\n    );\n}\n\n// A number",
                        replacement: "        subgroupBroadcast(own, 6u),\n        subgroupBroadcast(own, 5u),\n        subgroupBroadcast(own, 7u),\n    );\n}\n\n// A number",
                    },
                    Mutant {
                        name: "a query head reads the key/value head of its own number",
                        original: "head / (params.heads / params.key_value_heads)",
                        replacement: "head % params.key_value_heads",
                    },
                ],
            },
            Design {
                name: "tiled",
                file: "attention_forward_tiled.wgsl",
                text: include_str!("../../shaders/attention_forward_tiled.wgsl"),
                pieces: &[&piece::ATTENTION_MASK, &piece::ATTENTION_TILE],
                preference: Preference::Only(AdapterKind::Hardware),
                subgroup_width: None,
                supports: Parameters::check_vec4,
                constants: |parameters| tile_constants(&parameters.shape()),
                generated: |parameters| rows(Storage::Vec4, Operations::Tiles).generate(&parameters.shape()),
                workgroups,
                mutants: TILED_MUTANTS,
            },
            Design {
                name: "tiled_general",
                file: "attention_forward_tiled.wgsl",
                text: include_str!("../../shaders/attention_forward_tiled.wgsl"),
                pieces: &[&piece::ATTENTION_MASK, &piece::ATTENTION_TILE],
                preference: Preference::Only(AdapterKind::Hardware),
                subgroup_width: None,
                supports: |parameters| parameters.shape().check(),
                constants: |parameters| tile_constants(&parameters.shape()),
                generated: |parameters| rows(Storage::Scalar, Operations::Tiles).generate(&parameters.shape()),
                workgroups,
                mutants: &[Mutant {
                    name: "elements past the head dimension are written",
                    original: "if chunk * 4u + 1u < params.head_dim {",
                    replacement: "if chunk * 4u < params.head_dim {",
                }],
            },
            Design {
                name: "rows",
                file: "attention_forward_rows.wgsl",
                text: include_str!("../../shaders/attention_forward_rows.wgsl"),
                pieces: &[&piece::ATTENTION_MASK],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    parameters.check_vec4()?;
                    within(parameters.rounds(1))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Vec4, Operations::Rows).generate(&parameters.shape()),
                workgroups,
                mutants: ROWS_MUTANTS,
            },
            Design {
                name: "general",
                file: "attention_forward_rows.wgsl",
                text: include_str!("../../shaders/attention_forward_rows.wgsl"),
                pieces: &[&piece::ATTENTION_MASK],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    parameters.shape().check()?;
                    within(parameters.rounds(1))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Scalar, Operations::Rows).generate(&parameters.shape()),
                workgroups,
                mutants: &[Mutant {
                    name: "elements past the head dimension are read",
                    original: "query[at + 3u]), inside)",
                    replacement: "query[at + 3u]), vec4<bool>(true))",
                }],
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
                Case::new(setup.name, parameters, operands, Tolerance::new(2e-6 * setup.magnitudes.value, 2e-6))
            })
            .collect()
    }
}
