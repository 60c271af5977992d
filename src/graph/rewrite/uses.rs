//! Who reads a value.

use super::Refusal;
use crate::graph::{Graph, NodeId, Value};

/// For each node those that read it, or have read it before they were rewritten. Looking through the whole graph for
/// them would take hundreds of times as long in a model of hundreds of layers.
pub(super) struct Uses(Vec<Vec<NodeId>>);

impl Uses {
    pub fn of(graph: &Graph) -> Self {
        let mut uses = Self(vec![Vec::new(); graph.nodes.len()]);
        for (node, content) in graph.nodes.iter().enumerate() {
            uses.add(node, &content.inputs);
        }
        uses
    }

    pub fn add(&mut self, node: NodeId, inputs: &[Value]) {
        for input in inputs {
            let users = &mut self.0[input.node];
            if !users.contains(&node) {
                users.push(node);
            }
        }
    }

    /// The nodes that read `value` now.
    fn consumers(&self, graph: &Graph, value: Value) -> Vec<NodeId> {
        let users = self.0[value.node].iter().copied();
        users.filter(|&node| graph.nodes[node].inputs.contains(&value)).collect()
    }

    /// The only node that reads a value which a fusion would swallow.
    ///
    /// # Errors
    /// Somebody else needs it too.
    pub fn only(&self, graph: &Graph, value: Value, kept: &[Value]) -> Result<NodeId, Refusal> {
        let label = &graph.nodes[value.node].label;
        if kept.contains(&value) {
            return Err(Refusal::of(value.node, format!("'{label}' is a requested output")));
        }
        match self.consumers(graph, value).as_slice() {
            [only] => Ok(*only),
            users => Err(Refusal::of(value.node, format!("'{label}' is used in {} places", users.len()))),
        }
    }
}
