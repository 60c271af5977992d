//! Matrix products of a training step, and a large one.

use super::Shape;
use crate::kernel::matmul::{self, Parameters as Matmul};

/// In the three layouts that forward and backward passes have: NN, NT and TN.
pub fn matmul() -> Vec<Shape> {
    // (what for, rows, inner, columns)
    let plain = |name: &str, layout: fn(u32, u32, u32) -> Matmul, [rows, inner, columns]: [u32; 3]| {
        let elements = |height: u32, width: u32| u64::from(height) * u64::from(width);
        let operands = [elements(rows, inner), elements(inner, columns), u64::from(columns), elements(rows, columns)];
        let name = format!("{name} {rows}x{inner}x{columns}");
        Shape::new(&matmul::KERNEL, name, layout(rows, columns, inner), &operands)
    };
    let mut shapes = vec![
        plain("query, key, value NN", Matmul::plain, [768, 128, 384]),
        plain("projection NN", Matmul::plain, [768, 128, 128]),
        plain("MLP up NN", Matmul::plain, [768, 128, 512]),
        plain("MLP down NN", Matmul::plain, [768, 512, 128]),
        plain("MLP up, input gradient NT", Matmul::b_transposed, [768, 512, 128]),
        plain("MLP down, input gradient NT", Matmul::b_transposed, [768, 128, 512]),
        plain("projection, weight gradient TN", Matmul::a_transposed, [128, 768, 128]),
        plain("MLP up, weight gradient TN", Matmul::a_transposed, [128, 768, 512]),
        plain("MLP down, weight gradient TN", Matmul::a_transposed, [512, 768, 128]),
        plain("logits NT", Matmul::b_transposed, [768, 128, 65]),
        plain("logits, input gradient NN", Matmul::plain, [768, 65, 128]),
        plain("logits, weight gradient TN", Matmul::a_transposed, [65, 768, 128]),
        plain("large NN", Matmul::plain, [512, 512, 512]),
    ];
    // Queries, keys and values lie in one row of 384 a token; 12 sequences of 4 heads.
    let heads = Matmul {
        batches: 48,
        batch_inner: 4,
        a_outer_stride: 64 * 384,
        a_inner_stride: 32,
        a_row_stride: 384,
        b_offset: 128,
        b_outer_stride: 64 * 384,
        b_inner_stride: 32,
        b_column_stride: 384,
        c_outer_stride: 4 * 64 * 64,
        c_inner_stride: 64 * 64,
        ..Matmul::b_transposed(64, 64, 32)
    };
    let weighted = Matmul {
        columns: 32,
        inner: 64,
        a_outer_stride: 4 * 64 * 64,
        a_inner_stride: 64 * 64,
        a_row_stride: 64,
        b_offset: 256,
        b_row_stride: 384,
        b_column_stride: 1,
        c_outer_stride: 64 * 128,
        c_inner_stride: 32,
        c_row_stride: 128,
        ..heads.clone()
    };
    let transposed = Matmul { a_row_stride: 1, a_column_stride: 64, ..weighted.clone() };
    let (packed, scores, output) = (768 * 384, 48 * 64 * 64, 768 * 128);
    shapes.push(Shape::new(&matmul::KERNEL, "scores NT 48x64x32x64", heads, &[packed, packed, 64, scores]));
    shapes.push(Shape::new(
        &matmul::KERNEL,
        "attention output NN 48x64x64x32",
        weighted,
        &[scores, packed, 32, output],
    ));
    shapes.push(Shape::new(
        &matmul::KERNEL,
        "value gradient TN 48x64x64x32",
        transposed,
        &[scores, packed, 32, output],
    ));
    shapes
}
