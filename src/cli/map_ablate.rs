//! `headlight map --ablate`: what zeroing a head does to the loss of a text and to the prediction behind it.

use std::fmt::Write;

use serde::Serialize;

use super::Outcome;
use super::columns::columns;
use super::map_file::MapFile;
use super::model_text::token_label;
use super::output::put;
use crate::data::tokenizer::Tokenizer;
use crate::maps::{Ablation, Ablations, Candidate, HeadChoice, Reading, ablate};
use crate::model::GptConfig;
use crate::tape::{RunOn, Tensor};

/// A head as `L.H`, or `all` of them.
///
/// # Errors
/// What else would be right.
pub fn heads(text: &str) -> Result<HeadChoice, String> {
    if text == "all" {
        return Ok(HeadChoice::default());
    }
    let numbers = text.split_once('.').map(|(layer, head)| (layer.parse(), head.parse()));
    match numbers {
        Some((Ok(layer), Ok(head))) => Ok(HeadChoice { layer: Some(layer), head: Some(head) }),
        _ => Err("a layer and a head are needed, counted from 0, as in 1.3; or all".into()),
    }
}

/// Prints a row for the model as it is and for the model without each of the chosen heads, and writes the file where one
/// is wanted.
///
/// # Errors
/// One line that says why nothing is ablated, or what cannot be written.
pub async fn run(
    config: &GptConfig,
    parameters: &[Tensor],
    (tokenizer, tokens): (&Tokenizer, &[u32]),
    choice: HeadChoice,
    (file, run_on): (Option<&MapFile>, &RunOn),
) -> anyhow::Result<Outcome> {
    let found = ablate(config, parameters, tokens, choice, run_on).await?;
    let mut printed = table(tokenizer, &found);
    if let Some(file) = file {
        let path = file.write_json(&serde_json::to_string_pretty(&report(tokenizer, tokens, &found))?)?;
        // Writing to a string cannot fail.
        let _ = write!(printed, "written to {}", path.display());
    }
    put(printed.trim_end())?;
    Ok(Outcome::Fine)
}

fn table(tokenizer: &Tokenizer, found: &Ablations) -> String {
    let label = |token| token_label(tokenizer, token);
    let expected = found.whole.next_token();
    let loss = |reading: &Reading| reading.loss().map_or_else(String::new, |loss| format!("{:.4}", loss.mean()));
    let next = |reading: &Reading| {
        let next = reading.next_token();
        next.map_or_else(String::new, |next| format!("{} {:.4}", label(next.token), next.probability))
    };
    let of_expected = expected.map_or_else(String::new, |next| format!("of {}", label(next.token)));
    let mut rows = vec![
        ["without", "loss", "rise", "most likely next", &of_expected, "moved"].map(String::from),
        ["no head", &loss(&found.whole), "", &next(&found.whole), "", ""].map(String::from),
    ];
    for without in &found.heads {
        let probability = expected.map_or(0.0, |next| found.next_probability(next.token, without)[1]);
        rows.push([
            format!("{}.{}", without.layer, without.head),
            loss(&without.reading),
            found.loss_rise(without).map_or_else(String::new, |rise| format!("{rise:+.4}")),
            next(&without.reading),
            format!("{probability:.4}"),
            format!("{:.4}", found.moved(without)),
        ]);
    }
    let mut printed = columns(&rows, [false, true, true, false, true, true]);
    printed.push_str(
        "\nloss: nats a token of the text; rise: what it rises by when the head's output is set to 0; moved: how much of the\n\
         probability behind the text goes to other tokens, between 0 and 1\n",
    );
    if let Some(sentence) = sentence(found).filter(|_| found.heads.len() > 1) {
        // Writing to a string cannot fail.
        let _ = writeln!(printed, "{sentence}");
    }
    printed
}

/// The table as JSON, with every number in full.
#[derive(Serialize)]
struct Report<'a> {
    tokens: Vec<Option<&'a str>>,
    whole: Whole<'a>,
    heads: Vec<Without<'a>>,
}

/// What a model makes of the text; the mean loss is `null` where one token predicts nothing.
#[derive(Serialize)]
struct Whole<'a> {
    loss_mean: Option<f64>,
    next: Option<Next<'a>>,
}

/// The most likely token behind the text; its text is `null` where the tokenizer has none for its id.
#[derive(Serialize)]
struct Next<'a> {
    id: u32,
    token: Option<&'a str>,
    probability: f64,
}

#[derive(Serialize)]
struct Without<'a> {
    layer: usize,
    head: usize,
    #[serde(flatten)]
    reading: Whole<'a>,
    loss_rise: Option<f64>,
    /// Of the token that the whole model takes for the most likely one.
    probability_of_whole_next: Option<f64>,
    moved: f64,
}

fn report<'a>(tokenizer: &'a Tokenizer, tokens: &[u32], found: &Ablations) -> Report<'a> {
    let next = |Candidate { token, probability }| Next { id: token, token: tokenizer.token(token), probability };
    let whole = |reading: &Reading| Whole {
        loss_mean: reading.loss().map(|loss| loss.mean()),
        next: reading.next_token().map(next),
    };
    let without = |without: &Ablation| Without {
        layer: without.layer,
        head: without.head,
        reading: whole(&without.reading),
        loss_rise: found.loss_rise(without),
        probability_of_whole_next: found.whole.next_token().map(|next| found.next_probability(next.token, without)[1]),
        moved: found.moved(without),
    };
    Report {
        tokens: tokens.iter().map(|&id| tokenizer.token(id)).collect(),
        whole: whole(&found.whole),
        heads: found.heads.iter().map(without).collect(),
    }
}

/// A rise of less than this, nats a token, is told of no head.
const LEAST_RISE: f64 = 0.001;

/// Which head the text needs most.
fn sentence(found: &Ablations) -> Option<String> {
    let rises = found.heads.iter().filter_map(|without| Some((without, found.loss_rise(without)?)));
    let (most, rise): (&Ablation, f64) = rises.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    Some(match rise >= LEAST_RISE {
        true => format!(
            "the text needs layer {} head {} most: without it the loss rises by {rise:.4} nats a token",
            most.layer, most.head
        ),
        false => format!(
            "the text needs none of these heads: without any one of them the loss rises by less than {LEAST_RISE} nats a token"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_a_layer_and_a_number_or_all() {
        for (text, layer, head) in [("all", None, None), ("0.0", Some(0), Some(0)), ("12.3", Some(12), Some(3))] {
            assert_eq!(heads(text), Ok(HeadChoice { layer, head }));
        }
        for text in ["", "1", "1.", ".1", "1.2.3", "a.b", "-1.0", "ALL", "99999999999999999999.0"] {
            assert!(heads(text).is_err(), "{text}");
        }
    }
}
