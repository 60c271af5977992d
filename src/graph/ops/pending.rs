use super::prelude::*;
use super::*;
pub fn select(graph: &mut Graph, c: Value, a: Value, b: Value) -> Result<Value, GraphError> {
    let x = multiply(graph, c, a)?;
    let y = multiply(graph, c, b)?;
    let z = subtract(graph, b, y)?;
    add(graph, x, z)
}
pub fn cumulative_sum(graph: &mut Graph, x: Value, _axis: usize) -> Result<Value, GraphError> {
    negate(graph, x)
}
pub fn index(graph: &mut Graph, shape: &[usize], _axis: usize) -> Result<Value, GraphError> {
    constant(graph, shape, 1.0)
}
pub fn roll(graph: &mut Graph, x: Value, axis: usize, shift: i64) -> Result<Value, GraphError> {
    let n = graph.shape(x)[axis];
    let s = shift.rem_euclid(n as i64) as usize;
    if s == 0 {
        return Ok(x);
    }
    let a = slice(graph, x, axis, n - s, n)?;
    let b = slice(graph, x, axis, 0, n - s)?;
    concat(graph, &[a, b], axis)
}
