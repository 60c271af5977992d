//! `matmul_nn`, `matmul_nt`, `matmul_tn`: matrix products with either operand transposed.

use super::traced::Traced;
use super::{Body, NamedOp, NamedTensor, OpError, OpOptions};
use crate::graph::ops::{matmul, transpose};

const TENSORS: &[NamedTensor] = &[NamedTensor::Real("a"), NamedTensor::Real("b"), NamedTensor::Gradient("dc")];

pub static NN: NamedOp = NamedOp {
    name: "matmul_nn",
    formula: "c = a b: a [..,M,K], b [..,K,N]",
    gives: "c; with dc: da, db",
    tensors: TENSORS,
    options: &[],
    body: Body::Graph(|t, _: &OpOptions| product(t, false, false)),
};

pub static NT: NamedOp = NamedOp {
    name: "matmul_nt",
    formula: "c = a b^T: a [..,M,K], b [..,N,K]",
    gives: "c; with dc: da, db",
    tensors: TENSORS,
    options: &[],
    body: Body::Graph(|t, _: &OpOptions| product(t, false, true)),
};

pub static TN: NamedOp = NamedOp {
    name: "matmul_tn",
    formula: "c = a^T b: a [..,K,M], b [..,K,N]",
    gives: "c; with dc: da, db",
    tensors: TENSORS,
    options: &[],
    body: Body::Graph(|t, _: &OpOptions| product(t, true, false)),
};

fn product(t: &mut Traced<'_>, transpose_a: bool, transpose_b: bool) -> Result<(), OpError> {
    let mut operands = [t.leaf("a")?, t.leaf("b")?];
    for (operand, transposed) in operands.iter_mut().zip([transpose_a, transpose_b]) {
        if transposed {
            *operand = transpose(t.graph, *operand).map_err(|error| t.explain(error))?;
        }
    }
    let [a, b] = operands;
    let c = matmul(t.graph, a, b).map_err(|error| t.explain(error))?;
    t.output("c", c);
    t.differentiate(c, "dc", [("a", "da"), ("b", "db")]);
    Ok(())
}
