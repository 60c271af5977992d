//! What a map is: the attention weights of one head over one text, and the maps of one model.

/// The attention weights of one head over one text.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadMap {
    pub layer: usize,
    pub head: usize,
    /// Tq, the rows.
    pub queries: usize,
    /// Tk, the columns.
    pub keys: usize,
    /// Row-major `[Tq, Tk]`; 0 where masked.
    pub weights: Vec<f32>,
    /// Whether a query sees no later key: key j is masked for query i iff `j > i + Tk - Tq` (bottom-right alignment).
    pub causal: bool,
}

/// Maps of one model over one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Maps {
    /// The text of each token, in order; any characters at all.
    pub tokens: Vec<String>,
    pub layers: usize,
    /// H of each layer.
    pub heads: usize,
    /// By layer, then head; only those that were asked for.
    pub maps: Vec<HeadMap>,
    /// Where the weights come from, as a sentence ("rebuilt from query, key and log-sum-exp of the fused pass", "observed
    /// as 'weights' in line 12").
    pub source: String,
}

impl HeadMap {
    pub fn is_masked(&self, query: usize, key: usize) -> bool {
        self.causal && key + self.queries > query + self.keys
    }

    pub fn weight(&self, query: usize, key: usize) -> f32 {
        self.weights[query * self.keys + key]
    }
}
