//! Where the loss of a text would have a model look, from the gradient on its weights.

use super::gradients::Gradients;
use super::map::{HeadMap, Maps};

/// What the loss gains where a key gets more of its row, nats a token for a whole weight, as long as little is moved.
///
/// Rows of a softmax share out one weight, so more for one key is less for all of its row in proportion, and the derivative along
/// that is `g_ij - sum_k w_ik g_ik`. Of other weights it is `g_ij`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pull {
    map: usize,
    query: usize,
    key: usize,
    /// Below 0 where the loss would fall.
    rise: f64,
}

/// The furthest pulls of all rows that can choose.
#[derive(Default)]
struct Extremes {
    /// Whether any row can.
    chooses: bool,
    lowest: Option<Pull>,
    highest: Option<Pull>,
}

impl Extremes {
    fn take(&mut self, at: usize, weights: &HeadMap, gradients: &HeadMap) {
        let softmax = weights.is_softmax();
        for query in 0..weights.queries {
            let visible = weights.visible(query);
            if visible < 2 {
                continue;
            }
            self.chooses = true;
            let number = |map: &HeadMap, key: usize| f64::from(map.weight(query, key));
            let shared = |key: usize| number(weights, key) * number(gradients, key);
            let shared = if softmax { (0..visible).map(shared).sum() } else { 0.0 };
            for key in 0..visible {
                let rise = number(gradients, key) - shared;
                let pull = Some(Pull { map: at, query, key, rise });
                if rise < self.lowest.map_or(0.0, |lowest| lowest.rise) {
                    self.lowest = pull;
                } else if rise > self.highest.map_or(0.0, |highest| highest.rise) {
                    self.highest = pull;
                }
            }
        }
    }
}

/// The loss, and where it would fall and rise fastest, in sentences.
pub fn pulls(found: &Gradients) -> Vec<String> {
    let Gradients { weights, gradients, score_gradients, loss } = found;
    let mut lines = vec![format!("the loss of the text is {loss:.4} nats a token")];
    let mut found = Extremes::default();
    for (at, (weights, gradients)) in weights.maps.iter().zip(&gradients.maps).enumerate() {
        found.take(at, weights, gradients);
    }
    match found {
        Extremes { chooses: false, .. } => lines.push("no row can choose: each sees one key".into()),
        Extremes { lowest: None, highest: None, .. } => {
            lines.push("the loss does not depend on where these heads look".into());
        }
        Extremes { lowest, highest, .. } => {
            for (pull, what) in [(lowest, "fall"), (highest, "rise")] {
                lines.extend(pull.and_then(|pull| sentence(weights, pull, what)));
            }
        }
    }
    match score_gradients {
        Some(scores) => lines.extend(dead_rows(gradients, scores)),
        None => lines.push("no gradient on scores is shown: the weights are no softmax, whose rows sum to 1".into()),
    }
    lines
}

/// A row is dead where the softmax hands on less than this part of what equal weights would.
const DEAD: f64 = 1.0 / 16.0;

/// How many of the rows that the loss asks something of are dead.
fn dead_rows(gradients: &Maps, scores: &Maps) -> Option<String> {
    let norm = |row: &[f64]| row.iter().map(|number| number.powi(2)).sum::<f64>().sqrt();
    let (mut asked, mut dead) = (0, 0);
    for (gradient, scores) in gradients.maps.iter().zip(&scores.maps) {
        for query in 0..gradient.queries {
            let visible = gradient.visible(query);
            let numbers =
                |map: &HeadMap| -> Vec<f64> { (0..visible).map(|key| map.weight(query, key).into()).collect() };
            let on_weights = numbers(gradient);
            let count = visible as f64;
            let mean = on_weights.iter().sum::<f64>() / count;
            // `P_ij (dP_ij - sum_k P_ik dP_ik)` where every weight is 1 / count.
            let with_equal_weights: Vec<f64> = on_weights.iter().map(|number| (number - mean) / count).collect();
            if visible > 1 && norm(&with_equal_weights) > 0.0 {
                asked += 1;
                dead += usize::from(norm(&numbers(scores)) < DEAD * norm(&with_equal_weights));
            }
        }
    }
    let share = 100.0 * dead as f64 / asked as f64;
    let (rows, are) = (if asked == 1 { "row" } else { "rows" }, if dead == 1 { "is" } else { "are" });
    (asked > 0).then(|| {
        format!(
            "{dead} of {asked} {rows} ({share:.0}%) {are} dead: the softmax hands on less than a sixteenth of what equal \
             weights would"
        )
    })
}

fn sentence(maps: &Maps, pull: Pull, what: &str) -> Option<String> {
    let map = maps.maps.get(pull.map)?;
    let (query, key) = (maps.quoted(map.queries, pull.query)?, maps.quoted(map.keys, pull.key)?);
    let (weight, rate) = (map.weight(pull.query, pull.key), pull.rise.abs() / 100.0);
    let of = if map.is_softmax() { "of the row" } else { "of weight" };
    Some(format!(
        "it would {what} fastest with more weight of layer {} head {} from {query} on {key}, which has {weight:.2}: by \
         {rate:.2e} nats a token for each hundredth {of}",
        map.layer, map.head
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::Quantity;

    fn found(gradients: [f32; 4]) -> Gradients {
        let map = |weights: [f32; 4]| HeadMap {
            layer: 2,
            head: 1,
            queries: 2,
            keys: 2,
            weights: weights.into(),
            causal: true,
        };
        let weights = Maps {
            tokens: vec!["a".into(), "\"".into()],
            layers: 3,
            heads: 2,
            maps: vec![map([1.0, 0.0, 0.25, 0.75])],
            quantity: Quantity::Weight,
            source: String::new(),
        };
        let gradients = Maps { maps: vec![map(gradients)], quantity: Quantity::Gradient, ..weights.clone() };
        let scores = Maps { maps: vec![map([0.0, 0.0, -0.75, 0.75])], ..gradients.clone() };
        Gradients { weights, gradients, score_gradients: Some(scores), loss: 1.25 }
    }

    #[test]
    fn the_loss_falls_where_a_key_is_better_than_its_row() {
        // A row with one key cannot choose, whatever its gradient. In the other, -1 and 3 lie around a mean of 2.
        assert_eq!(
            pulls(&found([-9.0, 0.0, -1.0, 3.0])),
            [
                "the loss of the text is 1.2500 nats a token",
                "it would fall fastest with more weight of layer 2 head 1 from \"\"\" (1) on \"a\" (0), which has 0.25: by \
                 3.00e-2 nats a token for each hundredth of the row",
                "it would rise fastest with more weight of layer 2 head 1 from \"\"\" (1) on \"\"\" (1), which has 0.75: by \
                 1.00e-2 nats a token for each hundredth of the row",
                "0 of 1 row (0%) are dead: the softmax hands on less than a sixteenth of what equal weights would",
            ]
        );
        assert_eq!(pulls(&found([5.0, 0.0, 2.0, 2.0]))[1], "the loss does not depend on where these heads look");
        let mut saturated = found([0.0, 0.0, -800.0, 800.0]);
        assert!(pulls(&saturated)[3].starts_with("1 of 1 row (100%) is dead"));
        saturated.score_gradients = None;
        assert!(pulls(&saturated)[3].starts_with("no gradient on scores is shown"));
    }

    #[test]
    fn weights_that_are_no_softmax_are_taken_one_by_one() {
        let mut found = found([-9.0, 0.0, -1.0, 3.0]);
        found.weights.maps[0].weights = vec![1.0, 0.0, 0.0, 0.02];
        found.score_gradients = None;
        let lines = pulls(&found);
        assert!(
            lines[1].ends_with("on \"a\" (0), which has 0.00: by 1.00e-2 nats a token for each hundredth of weight")
        );
        assert!(lines[2].ends_with("which has 0.02: by 3.00e-2 nats a token for each hundredth of weight"));
    }

    #[test]
    fn a_row_of_one_key_is_told_of_nothing() {
        let mut found = found([-9.0, 0.0, -1.0, 3.0]);
        let alone = |maps: &mut Maps| {
            let map = &mut maps.maps[0];
            (map.queries, map.keys, map.weights) = (1, 1, vec![map.weights[0]]);
        };
        alone(&mut found.weights);
        alone(&mut found.gradients);
        found.score_gradients.iter_mut().for_each(alone);
        assert_eq!(pulls(&found)[1..], ["no row can choose: each sees one key"]);
    }
}
