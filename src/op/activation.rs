//! Element-wise functions: `gelu_tanh`, `relu`.

use super::traced::Traced;
use super::{Body, NamedOp, NamedTensor, OpError, OpOptions};
use crate::graph::ops::unary;
use crate::kernel::elementwise::Unary;

const TENSORS: &[NamedTensor] = &[NamedTensor::Real("x"), NamedTensor::Gradient("dy")];

pub static GELU_TANH: NamedOp = NamedOp {
    name: "gelu_tanh",
    formula: "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
    gives: "y; with dy: dx",
    tensors: TENSORS,
    options: &[],
    body: Body::Graph(|t, _: &OpOptions| trace(t, Unary::Gelu)),
};

pub static RELU: NamedOp = NamedOp {
    name: "relu",
    formula: "y = max(x, 0)",
    gives: "y; with dy: dx",
    tensors: TENSORS,
    options: &[],
    body: Body::Graph(|t, _: &OpOptions| trace(t, Unary::Relu)),
};

fn trace(t: &mut Traced<'_>, function: Unary) -> Result<(), OpError> {
    let x = t.leaf("x")?;
    let y = unary(t.graph, x, function, 0.0).map_err(|error| t.explain(error))?;
    t.output("y", y);
    t.differentiate(y, "dy", [("x", "dx")]);
    Ok(())
}
