//! Parity cases: every layout at the edges of every design's tiles, strided heads, shared operands, the shapes of
//! training.

use super::Parameters;
use crate::tape::{Case, Operand, Tolerance, normal};

/// Elements that a view reaches, counted from the start of its buffer.
fn extent(offset: u32, steps: [(u32, u32); 4]) -> usize {
    if steps.iter().any(|&(size, _)| size == 0) {
        return 1;
    }
    steps.iter().fold(offset as usize, |end, &(size, stride)| end + (size as usize - 1) * stride as usize) + 1
}

/// The case of these parameters: A of unit variance, B scaled so that C has about `magnitude`.
fn case(name: &str, parameters: Parameters, magnitude: f64) -> Case {
    let Parameters { batches, batch_inner, rows, columns, inner, has_bias, .. } = parameters;
    let outer = batches / batch_inner;
    let p = &parameters;
    let a_steps = [
        (outer, p.a_outer_stride),
        (batch_inner, p.a_inner_stride),
        (rows, p.a_row_stride),
        (inner, p.a_column_stride),
    ];
    let b_steps = [
        (outer, p.b_outer_stride),
        (batch_inner, p.b_inner_stride),
        (inner, p.b_row_stride),
        (columns, p.b_column_stride),
    ];
    let c_steps = [(outer, p.c_outer_stride), (batch_inner, p.c_inner_stride), (rows, p.c_row_stride), (columns, 1)];
    let deviation = magnitude / f64::from(inner.max(1)).sqrt();
    let bias = if has_bias == 0 { vec![f32::NAN] } else { normal(3, 2, columns as usize, magnitude) };
    let operands = vec![
        Operand::Input(normal(3, 0, extent(p.a_offset, a_steps), 1.0)),
        Operand::Input(normal(3, 1, extent(p.b_offset, b_steps), deviation)),
        Operand::Input(bias),
        match p.accumulates {
            0 => Operand::Output(extent(p.c_offset, c_steps)),
            _ => Operand::InOut(normal(3, 3, extent(p.c_offset, c_steps), magnitude)),
        },
    ];
    // A sum of n roundings of a result of size one is off by about sqrt(n) * 2^-24; single elements by several times that.
    let absolute = magnitude * 2e-7 * f64::from(inner).sqrt().max(4.0);
    let name = format!("{name} {rows}x{inner}x{columns} batches={batches} seed=3");
    Case::new(name, parameters, operands, Tolerance::new(absolute, 1e-6))
}

/// The heads of a packed projection: `outer` sequences of `length` tokens, `heads` heads of `size`, of `3 * heads * size`
/// elements a token. The strides of one of the three parts, whose first element is at `part * heads * size`.
struct Heads {
    offset: u32,
    outer: u32,
    inner: u32,
    token: u32,
}

fn heads(part: u32, length: u32, heads: u32, size: u32) -> Heads {
    let token = 3 * heads * size;
    Heads { offset: part * heads * size, outer: length * token, inner: size, token }
}

/// Parameters of dense matrices from rows, columns and inner steps.
type Layout = fn(u32, u32, u32) -> Parameters;

pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let layouts: [(&str, Layout); 3] =
        [("NN", Parameters::plain), ("NT", Parameters::b_transposed), ("TN", Parameters::a_transposed)];
    // A planted fault is looked for in this order, and every shader that is tried has to be compiled: what shows the most
    // comes first, what needs the shaders for long sums last.
    for (layout, parameters) in layouts {
        let biased = |rows, columns, inner| Parameters { has_bias: 1, ..parameters(rows, columns, inner) };
        cases.push(case(&format!("{layout} bias"), biased(35, 132, 36), 1.0));
        cases.push(case(layout, parameters(33, 65, 36), 1.0));
        cases.push(case(&format!("{layout} bias, nothing to sum"), biased(9, 67, 0), 1.0));
        cases.push(case(&format!("{layout} large"), parameters(33, 100, 36), 1e30));
        cases.push(case(&format!("{layout} small"), parameters(33, 100, 36), 1e-30));
    }
    cases.extend(strided());
    // Sums that are continued, beside a bias that must not count: one chunk and several, nothing to add, whole vec4
    // everywhere and nowhere.
    for (rows, inner, columns) in [(35, 36, 132), (33, 65, 67), (9, 0, 8), (97, 260, 128)] {
        for (layout, parameters) in layouts {
            let continued = Parameters { has_bias: 1, accumulates: 1, ..parameters(rows, columns, inner) };
            cases.push(case(&format!("{layout} continued"), continued, 1.0));
        }
    }
    // Rows, inner, columns: one, about the tiles' edges in each dimension, primes.
    let short = [
        (1, 1, 1),
        (7, 5, 3),
        (8, 4, 8),
        (9, 12, 12),
        (31, 31, 68),
        (32, 32, 32),
        (36, 36, 132),
        (65, 64, 63),
        (128, 0, 8),
    ];
    for (rows, inner, columns) in short {
        for (layout, parameters) in layouts {
            cases.push(case(layout, parameters(rows, columns, inner), 1.0));
        }
    }
    // The logits' shapes, several chunks and a ragged last one, a single row.
    for (rows, inner, columns) in [(100, 128, 65), (64, 65, 64), (97, 260, 128), (1, 768, 64)] {
        for (layout, parameters) in layouts {
            cases.push(case(layout, parameters(rows, columns, inner), 1.0));
        }
    }
    // Large enough for the shader that keeps 128 inner steps: whole vec4 everywhere, then nothing whole.
    for (rows, inner, columns) in [(164, 260, 400), (165, 384, 273)] {
        for (layout, parameters) in layouts {
            let biased = Parameters { has_bias: 1, ..parameters(rows, columns, inner) };
            cases.push(case(&format!("{layout} bias"), biased, 1.0));
        }
    }
    cases
}

fn strided() -> Vec<Case> {
    let (sequences, length, count, size) = (2, 36, 3, 16);
    let (query, key, value) =
        (heads(0, length, count, size), heads(1, length, count, size), heads(2, length, count, size));
    let scores = Parameters {
        batches: sequences * count,
        batch_inner: count,
        rows: length,
        columns: length,
        inner: size,
        a_offset: query.offset,
        a_outer_stride: query.outer,
        a_inner_stride: query.inner,
        a_row_stride: query.token,
        a_column_stride: 1,
        b_offset: key.offset,
        b_outer_stride: key.outer,
        b_inner_stride: key.inner,
        b_row_stride: 1,
        b_column_stride: key.token,
        c_offset: 0,
        c_outer_stride: count * length * length,
        c_inner_stride: length * length,
        c_row_stride: length,
        has_bias: 0,
        accumulates: 0,
    };
    // Weights [B, H, T, T] times values, written into every token's row of a [B, T, H * D] output.
    let outputs = Parameters {
        columns: size,
        inner: length,
        a_offset: 0,
        a_outer_stride: scores.c_outer_stride,
        a_inner_stride: scores.c_inner_stride,
        a_row_stride: length,
        b_offset: value.offset,
        b_outer_stride: value.outer,
        b_inner_stride: value.inner,
        b_row_stride: value.token,
        b_column_stride: 1,
        c_offset: 8,
        c_outer_stride: length * count * size,
        c_inner_stride: size,
        c_row_stride: count * size,
        ..scores.clone()
    };
    let value_gradients = Parameters { a_row_stride: 1, a_column_stride: length, ..outputs.clone() };
    let gaps = Parameters {
        batches: 6,
        batch_inner: 2,
        a_offset: 4,
        a_outer_stride: 0,
        a_inner_stride: 40 * 36,
        a_row_stride: 36,
        b_offset: 12,
        b_outer_stride: 36 * 80,
        b_inner_stride: 0,
        b_row_stride: 80,
        c_offset: 20,
        c_outer_stride: 2 * 40 * 76,
        c_inner_stride: 40 * 76,
        c_row_stride: 76,
        ..Parameters::plain(37, 68, 33)
    };
    let a_gaps_transposed =
        Parameters { a_outer_stride: 36 * 40, a_inner_stride: 0, a_row_stride: 1, a_column_stride: 40, ..gaps.clone() };
    let b_gaps_transposed = Parameters { b_row_stride: 1, b_column_stride: 36, ..gaps.clone() };
    let unaligned = Parameters {
        a_offset: 3,
        a_row_stride: 35,
        b_offset: 1,
        b_row_stride: 71,
        c_offset: 5,
        c_row_stride: 73,
        has_bias: 1,
        ..Parameters::plain(37, 70, 33)
    };
    let both = Parameters { a_row_stride: 1, a_column_stride: 40, ..Parameters::b_transposed(40, 44, 48) };
    let steps = Parameters {
        a_row_stride: 70,
        a_column_stride: 2,
        b_row_stride: 150,
        b_column_stride: 3,
        ..Parameters::plain(35, 50, 35)
    };
    vec![
        case("heads NT", scores, 1.0),
        case("heads NN", outputs, 1.0),
        case("heads TN", value_gradients, 1.0),
        case("unaligned, gaps, continued", Parameters { accumulates: 1, ..unaligned.clone() }, 1.0),
        case("shared operands, gaps, continued", Parameters { accumulates: 1, ..gaps.clone() }, 1.0),
        case("shared operands, gaps", gaps, 1.0),
        case("A transposed, shared operands, gaps", a_gaps_transposed, 1.0),
        case("B transposed, shared operands, gaps", b_gaps_transposed, 1.0),
        case("unaligned, gaps, bias", unaligned, 1.0),
        case("TT", both, 1.0),
        case("steps in every dimension", steps, 1.0),
        case(
            "more workgroups than one dimension counts",
            Parameters { batches: 70_000, c_outer_stride: 1, has_bias: 1, ..Parameters::plain(1, 1, 0) },
            1.0,
        ),
    ]
}
