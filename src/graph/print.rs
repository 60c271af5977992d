//! A graph in words, one node a line.

use std::fmt::Write;

use super::{Graph, Value};

/// The nodes that `roots` need: `%12 = matmul(%3, %4) : [768,128]  h.0.mlp.c_fc`.
pub fn print_graph(graph: &Graph, roots: &[Value]) -> String {
    let needed = graph.needed(roots);
    let mut text = String::new();
    for (number, node) in graph.nodes.iter().enumerate().filter(|&(number, _)| needed[number]) {
        let inputs: Vec<String> = node.inputs.iter().map(|&input| name(graph, input)).collect();
        let outputs: Vec<String> = node.outputs.iter().map(ToString::to_string).collect();
        let attributes = node.op.attributes();
        let separator = if attributes.is_empty() || inputs.is_empty() { "" } else { "; " };
        let call = format!("{}({}{separator}{attributes})", node.op.name(), inputs.join(", "));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "%{number} = {call} : {}    {}", outputs.join(", "), node.label);
    }
    text
}

fn name(graph: &Graph, value: Value) -> String {
    let several = graph.nodes[value.node].outputs.len() > 1;
    if several { format!("%{}#{}", value.node, value.output) } else { format!("%{}", value.node) }
}
