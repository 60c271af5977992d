//! `headlight trace`: what a model computes, tensor by tensor.

use crate::room::{Room, trained};
use crate::tensors::{real, words};

fn trace(room: &Room, more: &[&str]) -> crate::room::Ended {
    let model = trained().to_str().unwrap();
    room.run_with("trace --out y.safetensors --device cpu --model", &[&[model], more].concat())
}

#[test]
fn a_trace_holds_logits_losses_weights_and_gradients_that_belong_together() {
    let room = Room::new();
    trace(&room, &["--text", "Balesdo", "--grads", "--activations", "--dtype", "f64"]).fine();
    let found = room.read_tensors("y.safetensors");
    let length = 7;
    let vocabulary = found["logits"].shape[2];
    assert_eq!(found["logits"].shape, [1, length, vocabulary]);
    let targets = &found["targets"];
    assert_eq!(targets.shape, [1, length]);

    let mut total = 0.0;
    for position in 0..length - 1 {
        let row = &found["logits"].values()[position * vocabulary..(position + 1) * vocabulary];
        let headlight::tape::Contents::Words(ids) = &targets.contents else { panic!("targets are no integers") };
        let sum: f64 = row.iter().map(|logit| logit.exp()).sum();
        let loss = sum.ln() - row[ids[position] as usize];
        assert!((found["row_loss"].values()[position] - loss).abs() < 1e-9, "position {position}");
        total += loss;
    }
    assert_eq!(found["row_loss"].values()[length - 1], 0.0, "the last position has nothing to predict");
    assert!((found["loss"].values()[0] - total / (length - 1) as f64).abs() < 1e-9);

    let weights = &found["attn.0"];
    assert_eq!(weights.shape, [1, 1, length, length]);
    for query in 0..length {
        let row = &weights.values()[query * length..(query + 1) * length];
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "row {query} of the weights");
        assert!(row[query + 1..].iter().all(|&weight| weight == 0.0), "query {query} sees the future");
    }
    let gradients: Vec<&String> = found.keys().filter(|name| name.starts_with("grad.transformer.")).collect();
    assert_eq!(gradients.len(), 2 + 12 + 2);
    assert!(found["grad.transformer.wte.weight"].values().iter().any(|&value| value != 0.0));
    assert_eq!(found["act.0.resid_post"].shape, found["act.embed"].shape);
}

#[test]
fn a_file_of_tokens_gives_the_trace_of_its_text() {
    let room = Room::new();
    trace(&room, &["--text", "Balesdo"]).fine();
    let of_text = room.read_tensors("y.safetensors");
    room.write_tensors("x.safetensors", &[("tokens", of_text["tokens"].clone())]);
    trace(&room, &["--tokens", "x.safetensors"]).fine();
    assert_eq!(room.read_tensors("y.safetensors"), of_text);
}

#[test]
fn what_cannot_be_traced_is_named() {
    let room = Room::new();
    room.write_tensors("large.safetensors", &[("tokens", words(&[1, 2], &[1, 5000]))]);
    room.write_tensors("flat.safetensors", &[("tokens", words(&[2], &[1, 2]))]);
    room.write_tensors("long.safetensors", &[("tokens", words(&[1, 9], &[1; 9]))]);
    room.write_tensors("real.safetensors", &[("tokens", real(&[1, 2], &[1.0, 2.0]))]);
    room.write_tensors("odd.safetensors", &[("tokens", words(&[1, 2], &[1, 2])), ("mask", real(&[1], &[1.0]))]);
    let targets = [("tokens", words(&[1, 2], &[1, 2])), ("targets", words(&[2, 1], &[1, 2]))];
    room.write_tensors("turned.safetensors", &targets);
    for (more, expected) in [
        (["--text", "balbalbalbal"], "the text has 12 tokens, and the model reads 1 to 8"),
        (["--text", ""], "the text has 0 tokens"),
        (["--text", "ba€"], "U+20AC"),
        (["--tokens", "large.safetensors"], "tokens has 5000 at element 1: ids of this model are below"),
        (["--tokens", "flat.safetensors"], "tokens has shape [2] where [B, T] is needed"),
        (["--tokens", "long.safetensors"], "tokens has shape [1, 9] where [B, T] with T from 1 to the context of 8"),
        (["--tokens", "real.safetensors"], "tokens holds numbers where integers are needed"),
        (["--tokens", "odd.safetensors"], "mask is neither tokens nor targets"),
        (["--tokens", "turned.safetensors"], "targets has shape [2, 1] where that of tokens, [1, 2], is needed"),
        (["--tokens", "absent.safetensors"], "absent.safetensors"),
    ] {
        let ended = trace(&room, &more);
        assert_eq!(ended.code, Some(2), "{more:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{more:?}: {}", ended.stderr);
    }
    assert!(!room.path("y.safetensors").exists());
}
