//! Fused attention, backward to key and value, with the weights computed anew: `key_gradient_j = scale sum_i ds_ij query_i`
//! and `value_gradient_j = sum_i p_ij output_gradient_i`, over the queries of every head that reads the key.

use super::attention_cases::setups;
use super::attention_error::Backward;
use super::attention_reference::{self as reference, Rows, RowsMut};
use super::attention_rows::{Operations, RowText, Storage, tile_constants};
use super::attention_shape::{AttentionShape, RowView};
use super::loop_limit::within;
use super::piece;
use crate::gpu::AdapterKind;
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
    Mutant {
        name: "the log-sum-exp is rounded to one number",
        original: "exp(score - statistics.x) * statistics.y",
        replacement: "exp(score - (statistics.x - log(statistics.y)))",
    },
    Mutant {
        name: "the diagonal is masked",
        original: "statistics, index >= first1)",
        replacement: "statistics, index > first1)",
    },
    Mutant {
        name: "delta is left out",
        original: "(dot_rows(value1, gradient_row) - delta)",
        replacement: "dot_rows(value1, gradient_row)",
    },
    Mutant { name: "the scale is left out", original: "scaled_row(key_sum, params.scale)", replacement: "key_sum" },
    Mutant {
        name: "masked queries keep a weight",
        original: "select(MASKED, params.scale * product, visible)",
        replacement: "params.scale * product",
    },
    Mutant {
        name: "only the first query head of a group is added",
        original: "head < (key_head + 1u) * heads_per_key;",
        replacement: "head < key_head * heads_per_key + 1u;",
    },
    Mutant {
        name: "keys past the end are written",
        original: "if index < params.key_length {",
        replacement: "if index <= params.key_length {",
    },
    Mutant {
        name: "the first query that sees the block is skipped",
        original: "let begin = first_query(block * ROWS * WIDTH);",
        replacement: "let begin = first_query(block * ROWS * WIDTH) + 1u;",
    },
];

const TILED_MUTANTS: &[Mutant] = &[
    Mutant {
        name: "the log-sum-exp is rounded to one number",
        original: "exp(masked - largest) * inverse_sum",
        replacement: "exp(masked - (largest - log(inverse_sum)))",
    },
    Mutant {
        name: "weights are read before all are shared",
        original: "workgroupBarrier(); // the last readers of the right slice are done, and the weights are shared",
        replacement: "",
    },
    Mutant {
        name: "the columns of an invocation are taken for neighbours",
        original: "+ x + vec4<u32>(0u, 8u, 16u, 24u)",
        replacement: "+ 4u * x + vec4<u32>(0u, 1u, 2u, 3u)",
    },
    Mutant {
        name: "key and query are overwritten before they are read",
        original: "workgroupBarrier(); // key and query are read",
        replacement: "",
    },
    Mutant {
        name: "query is read before it is staged",
        original: "workgroupBarrier(); // query is staged",
        replacement: "",
    },
    Mutant { name: "delta is left out", original: "(weight_gradients[r] - delta)", replacement: "weight_gradients[r]" },
    Mutant {
        name: "queries past the end count",
        original: "(columns >= first) & (columns < vec4<u32>(params.query_length))",
        replacement: "(columns >= first)",
    },
    Mutant {
        name: "only the first query head of a group is added",
        original: "head < (key_head + 1u) * heads_per_key;",
        replacement: "head < key_head * heads_per_key + 1u;",
    },
    Mutant {
        name: "keys past the end are written",
        original: "if row < params.key_length && x < SLICE {",
        replacement: "if row <= params.key_length && x < SLICE {",
    },
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
                pieces: &[&piece::ATTENTION_MASK, &piece::SUBGROUP_EIGHT],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: Some(8),
                supports: |parameters| {
                    parameters.check_vec4()?;
                    within(parameters.rounds(8))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Vec4, Operations::Subgroup(2)).generate(&parameters.shape()),
                workgroups: |parameters| workgroups(parameters, 16),
                mutants: &[
                    Mutant {
                        name: "the log-sum-exp is rounded to one number",
                        original: "exp(scores - largest) * inverse_sum",
                        replacement: "exp(scores - (largest - log(inverse_sum)))",
                    },
                    Mutant {
                        name: "the diagonal is masked",
                        original: "weights_of_eight(scores.r1, statistics, index, first1)",
                        replacement: "weights_of_eight(scores.r1, statistics, index, first1 + 1u)",
                    },
                    Mutant {
                        name: "the second four queries are masked as the first",
                        original: "inverse_sum.high, index + 4u, first)",
                        replacement: "inverse_sum.high, index, first)",
                    },
                    Mutant {
                        name: "queries past the end count",
                        original: "(queries >= vec4<u32>(first)) & (queries < vec4<u32>(params.query_length))",
                        replacement: "(queries >= vec4<u32>(first))",
                    },
                    Mutant {
                        name: "delta is left out of four queries",
                        original: "(weight_gradients.high - delta.high)",
                        replacement: "weight_gradients.high",
                    },
                    Mutant {
                        name: "the scale is left out",
                        original: "scaled_row(key_sum, params.scale)",
                        replacement: "key_sum",
                    },
                    Mutant {
                        name: "only the first query head of a group is added",
                        original: "head < (key_head + 1u) * heads_per_key;",
                        replacement: "head < key_head * heads_per_key + 1u;",
                    },
                    Mutant {
                        name: "keys past the end are written",
                        original: "if index < params.key_length {",
                        replacement: "if index <= params.key_length {",
                    },
                    Mutant {
                        name: "the first query that sees the block is skipped",
                        original: "let begin = first_query(block * ROWS * WIDTH);",
                        replacement: "let begin = first_query(block * ROWS * WIDTH) + 1u;",
                    },
                ],
            },
            Design {
                name: "tiled",
                file: "attention_backward_key_value_tiled.wgsl",
                text: include_str!("../../shaders/attention_backward_key_value_tiled.wgsl"),
                pieces: &[&piece::ATTENTION_MASK, &piece::ATTENTION_TILE],
                preference: Preference::Only(AdapterKind::Hardware),
                subgroup_width: None,
                supports: Parameters::check_vec4,
                constants: |parameters| tile_constants(&parameters.shape()),
                generated: |parameters| rows(Storage::Vec4, Operations::Tiles).generate(&parameters.shape()),
                workgroups: |parameters| workgroups(parameters, 32),
                mutants: TILED_MUTANTS,
            },
            Design {
                name: "tiled_general",
                file: "attention_backward_key_value_tiled.wgsl",
                text: include_str!("../../shaders/attention_backward_key_value_tiled.wgsl"),
                pieces: &[&piece::ATTENTION_MASK, &piece::ATTENTION_TILE],
                preference: Preference::Only(AdapterKind::Hardware),
                subgroup_width: None,
                supports: |parameters| parameters.shape().check(),
                constants: |parameters| tile_constants(&parameters.shape()),
                generated: |parameters| rows(Storage::Scalar, Operations::Tiles).generate(&parameters.shape()),
                workgroups: |parameters| workgroups(parameters, 32),
                mutants: &[Mutant {
                    name: "elements past the head dimension are staged",
                    original: "query[at + 3u]), inside)",
                    replacement: "query[at + 3u]), vec4<bool>(true))",
                }],
            },
            Design {
                name: "rows",
                file: "attention_backward_key_value_rows.wgsl",
                text: include_str!("../../shaders/attention_backward_key_value_rows.wgsl"),
                pieces: &[&piece::ATTENTION_MASK],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    parameters.check_vec4()?;
                    within(parameters.rounds(1))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Vec4, Operations::Rows).generate(&parameters.shape()),
                workgroups: |parameters| workgroups(parameters, 16),
                mutants: ROWS_MUTANTS,
            },
            Design {
                name: "general",
                file: "attention_backward_key_value_rows.wgsl",
                text: include_str!("../../shaders/attention_backward_key_value_rows.wgsl"),
                pieces: &[&piece::ATTENTION_MASK],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    parameters.shape().check()?;
                    within(parameters.rounds(1))
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Scalar, Operations::Rows).generate(&parameters.shape()),
                workgroups: |parameters| workgroups(parameters, 16),
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
                Case::new(setup.name, parameters, operands, tolerance)
            })
            .collect()
    }
}
