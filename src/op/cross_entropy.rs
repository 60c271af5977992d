//! `cross_entropy`: the mean loss of logits against targets.

use super::traced::Traced;
use super::{Body, NamedOp, NamedTensor, OpError, OpOptions};
use crate::graph::ShapeError;
use crate::graph::ops::cross_entropy;

pub static OP: NamedOp = NamedOp {
    name: "cross_entropy",
    formula: "mean of -log softmax(logits)[target], targets of -1 left out: [N,V], [N]",
    gives: "loss, row_loss, dlogits",
    tensors: &[
        NamedTensor::Real("logits"),
        NamedTensor::Ids { name: "targets", table: "logits", axis: 1, may_ignore: true },
    ],
    options: &[],
    body: Body::Graph(trace),
};

fn trace(t: &mut Traced<'_>, _: &OpOptions) -> Result<(), OpError> {
    let [rows, _]: [usize; 2] = t.sizes("logits", "[N, V]")?;
    let [targets]: [usize; 1] = t.sizes("targets", "[N]")?;
    if rows != targets {
        let what = "rows of logits and targets";
        return Err(t.misfit(ShapeError::Differ { what, left: rows, right: targets }));
    }
    let [logits, targets] = [t.leaf("logits")?, t.leaf("targets")?];
    let losses = cross_entropy(t.graph, logits, targets).map_err(|error| t.explain(error))?;
    t.output("loss", losses.mean);
    t.output("row_loss", losses.rows);
    t.differentiate_loss(losses.mean, [("logits", "dlogits")]);
    Ok(())
}
