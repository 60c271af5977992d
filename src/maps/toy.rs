//! Small models for tests.

use std::sync::Arc;

use crate::model::{EditedAttention, GptConfig, Initialisation, QueryKeyInit};
use crate::script::{Script, TraceHere};
use crate::tape::Tensor;

pub const CONTEXT: usize = 40;

/// A model whose weights make its attention choose.
pub fn model_of(config: GptConfig, script: Option<Script>) -> (GptConfig, Vec<Tensor>) {
    let edited = script.map(|script| Arc::new(EditedAttention::new(script, Arc::new(TraceHere), &config).unwrap()));
    let config = config.with_attention(edited).unwrap();
    let initialisation = Initialisation { query_key: QueryKeyInit::Unit, seed: 5, ..Initialisation::default() };
    let values = initialisation.values(&config).into_iter();
    let tensor = |shape: Vec<usize>, values: Vec<f32>| Tensor::real(shape, values.into_iter().map(f64::from).collect());
    let parameters = config.parameters().into_iter().zip(values);
    let parameters = parameters.map(|(parameter, values)| tensor(parameter.shape, values)).collect();
    (config, parameters)
}

pub fn model(heads: usize, width: usize, script: Option<Script>) -> (GptConfig, Vec<Tensor>) {
    model_of(GptConfig::new(11, CONTEXT, 2, heads, width).unwrap(), script)
}

pub fn text(length: usize) -> Vec<u32> {
    (0..length).map(|i| (i * i % 11) as u32).collect()
}

/// A function of the tests.
pub fn script(body: &str) -> Script {
    let head =
        "def attention(x, q, k, v, ops, cfg):\n    q, k, v = [ops.split_heads(t, cfg.heads) for t in (q, k, v)]\n";
    Script { file: "mine.star".into(), source: format!("{head}{body}") }
}

pub const SCORES: &str = "    s = ops.causal_mask(ops.bmm(q, k, transpose_b=True) / math.sqrt(cfg.d_head))\n";
