//! What a model expects at each position of a text, and what it thought of the token that really follows.

/// A token that may follow, and how likely it is to the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub token: u32,
    pub probability: f64,
}

/// The token that really follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Following {
    pub token: u32,
    pub probability: f64,
    /// 1 for the most likely token, 2 for the next; equal ones are counted by their ids.
    pub rank: usize,
    /// `-ln(probability)`, nats.
    pub loss: f64,
}

/// What a model expects behind one position.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The most likely tokens, as many as were asked for: by probability, equal ones by their ids.
    pub candidates: Vec<Candidate>,
    /// `None` behind the last token of the text.
    pub following: Option<Following>,
}

/// The losses of a text together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextLoss {
    /// Tokens that were predicted: all but the first.
    pub tokens: usize,
    /// Nats.
    pub sum: f64,
}

impl TextLoss {
    /// Nats a token.
    pub fn mean(&self) -> f64 {
        self.sum / self.tokens as f64
    }

    /// `exp(mean)`: among how many equally likely tokens the model chooses, in effect.
    pub fn perplexity(&self) -> f64 {
        self.mean().exp()
    }
}

/// Logits that say nothing.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the logit of token {token} at position {position} is {value}: the model is damaged, or its training diverged")]
pub struct NotFinite {
    pub position: usize,
    pub token: usize,
    pub value: f64,
}

/// The predictions behind each of `tokens`, with the `top` most likely tokens each. `logits` are `[T, V]`; probabilities
/// are their softmax, computed in f64 from the largest logit of the row.
///
/// # Errors
/// The first logit that is not finite.
pub fn predictions(logits: &[f64], tokens: &[u32], top: usize) -> Result<Vec<Prediction>, NotFinite> {
    let vocabulary = logits.len() / tokens.len().max(1);
    if let Some(at) = logits.iter().position(|logit| !logit.is_finite()) {
        return Err(NotFinite { position: at / vocabulary, token: at % vocabulary, value: logits[at] });
    }
    let following = tokens.iter().skip(1).copied().map(Some).chain([None]);
    let rows = logits.chunks(vocabulary.max(1)).zip(following);
    Ok(rows.map(|(row, following)| prediction(row, following, top)).collect())
}

/// The softmax of a row of finite logits.
pub(super) fn probabilities(row: &[f64]) -> Vec<f64> {
    let log_sum_exp = log_sum_exp(row);
    row.iter().map(|logit| (logit - log_sum_exp).exp()).collect()
}

fn log_sum_exp(row: &[f64]) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + row.iter().map(|logit| (logit - largest).exp()).sum::<f64>().ln()
}

fn prediction(row: &[f64], following: Option<u32>, top: usize) -> Prediction {
    let log_sum_exp = log_sum_exp(row);
    let probability = |token: usize| (row[token] - log_sum_exp).exp();
    let before = |&a: &usize, &b: &usize| row[b].total_cmp(&row[a]).then(a.cmp(&b));
    let mut order: Vec<usize> = (0..row.len()).collect();
    if top < order.len() {
        order.select_nth_unstable_by(top, before);
        order.truncate(top);
    }
    order.sort_unstable_by(before);
    let candidates =
        order.into_iter().map(|token| Candidate { token: token as u32, probability: probability(token) }).collect();
    let following = following.filter(|&token| (token as usize) < row.len()).map(|token| {
        let at = token as usize;
        let rank = 1 + (0..row.len()).filter(|other| before(other, &at).is_lt()).count();
        Following { token, probability: probability(at), rank, loss: log_sum_exp - row[at] }
    });
    Prediction { candidates, following }
}

/// What the losses of a text come to; `None` where nothing is predicted: the text is one token.
pub fn text_loss(predictions: &[Prediction]) -> Option<TextLoss> {
    let losses: Vec<f64> = predictions.iter().filter_map(|at| at.following).map(|following| following.loss).collect();
    (!losses.is_empty()).then(|| TextLoss { tokens: losses.len(), sum: losses.iter().sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_the_softmax_and_losses_its_logarithm() {
        let (third, sixth) = (3f64.ln(), 6f64.ln());
        // Shifted by what would overflow if it were exponentiated.
        let logits = [0.0, 0.0, third, 1000.0, 1000.0 + sixth, 1000.0, 5.0, 5.0, 5.0];
        let found = predictions(&logits, &[0, 2, 1], 2).unwrap();
        let expected = [
            ([(2, 0.6), (0, 0.2)], Some((2, 0.6, 1))),
            ([(1, 0.75), (0, 0.125)], Some((1, 0.75, 1))),
            ([(0, 1.0 / 3.0), (1, 1.0 / 3.0)], None),
        ];
        for (position, (prediction, (candidates, following))) in found.iter().zip(expected).enumerate() {
            for (found, (token, probability)) in prediction.candidates.iter().zip(candidates) {
                assert_eq!(found.token, token, "position {position}");
                assert!((found.probability - probability).abs() < 1e-12, "position {position}: {found:?}");
            }
            assert_eq!(prediction.candidates.len(), 2);
            let found = prediction.following.map(|following| (following.token, following.rank));
            assert_eq!(found, following.map(|(token, _, rank)| (token, rank)), "position {position}");
            if let (Some(found), Some((_, probability, _))) = (prediction.following, following) {
                assert!(
                    (found.probability - probability).abs() < 1e-12 && (found.loss + probability.ln()).abs() < 1e-12
                );
            }
        }
        let loss = text_loss(&found).unwrap();
        assert_eq!(loss.tokens, 2);
        assert!((loss.sum + (0.6f64 * 0.75).ln()).abs() < 1e-12);
        assert!((loss.perplexity() - (1.0 / (0.6 * 0.75f64)).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn equal_logits_are_ranked_by_their_ids_and_more_than_there_are_is_all() {
        let logits = [1.0, 2.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let found = predictions(&logits, &[0, 4], 9).unwrap();
        let order: Vec<u32> = found[0].candidates.iter().map(|candidate| candidate.token).collect();
        assert_eq!(order, [1, 3, 0, 2, 4]);
        assert_eq!(found[0].following.map(|following| following.rank), Some(5));
        let total: f64 = found[0].candidates.iter().map(|candidate| candidate.probability).sum();
        assert!((total - 1.0).abs() < 1e-12);
        assert_eq!(predictions(&logits, &[0, 4], 0).unwrap()[0].candidates, []);
    }

    #[test]
    fn a_text_of_one_token_has_no_loss_and_a_logit_that_is_not_finite_is_named() {
        let alone = predictions(&[0.0, 1.0], &[1], 1).unwrap();
        assert_eq!((alone[0].following, text_loss(&alone)), (None, None));
        assert_eq!(predictions(&[], &[], 1), Ok(vec![]));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = predictions(&[0.0, 1.0, 2.0, value], &[0, 1], 1).unwrap_err();
            assert_eq!((error.position, error.token), (1, 1));
            assert!(error.to_string().starts_with(&format!("the logit of token 1 at position 1 is {value}: ")));
        }
    }
}
