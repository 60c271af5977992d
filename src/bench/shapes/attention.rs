//! Fused attention, forward and backward, causal: the step's 12 sequences of 4 heads, and one long sequence.

use crate::kernel::attention_shape::{AttentionShape, RowView};
use crate::kernel::{attention_backward_key_value, attention_backward_query, attention_delta, attention_forward};

use super::Shape;

/// Query, key and value lie in one row a token, as the model has them.
pub fn attention() -> Vec<Shape> {
    [(12, 4, 64, 32), (1, 4, 1024, 64)].into_iter().flat_map(of_one).collect()
}

fn of_one((batch, heads, length, head_dim): (u32, u32, u32, u32)) -> Vec<Shape> {
    let shape = AttentionShape {
        batch,
        heads,
        key_value_heads: heads,
        query_length: length,
        key_length: length,
        head_dim,
        causal: true,
        scale: 1.0 / f64::from(head_dim).sqrt(),
    };
    let width = heads * head_dim;
    let packed = |first: u32| RowView::new(first, length * 3 * width, head_dim, 3 * width);
    let [query, key, value] = [packed(0), packed(width), packed(2 * width)];
    let output = RowView::new(0, length * width, head_dim, width);
    let rows = u64::from(batch) * u64::from(length);
    let (inputs, outputs) = (rows * 3 * u64::from(width), rows * u64::from(width));
    let queries = shape.query_rows();
    let name = format!("B={batch} H={heads} T={length} D={head_dim}");
    vec![
        Shape::new(
            &attention_forward::KERNEL,
            &name,
            attention_forward::Parameters::new(&shape, [query, key, value, output]),
            &[inputs, inputs, inputs, outputs, queries, 2 * queries],
        ),
        Shape::new(
            &attention_delta::KERNEL,
            &name,
            attention_delta::Parameters::new(&shape, [output, output]),
            &[outputs, outputs, 2 * queries, 4 * queries],
        ),
        Shape::new(
            &attention_backward_query::KERNEL,
            &name,
            attention_backward_query::Parameters::new(&shape, [query, key, value, output, output]),
            &[inputs, inputs, inputs, outputs, 4 * queries, outputs],
        ),
        Shape::new(
            &attention_backward_key_value::KERNEL,
            &name,
            attention_backward_key_value::Parameters::new(&shape, [query, key, value, output, output, output]),
            &[inputs, inputs, inputs, outputs, 4 * queries, outputs, outputs],
        ),
    ]
}
