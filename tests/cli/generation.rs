//! `headlight generate` on a model that the program trained.

use crate::room::{Ended, Room, trained};

/// Generates on the CPU executor.
fn generate(prompt: &str, more: &[&str]) -> Ended {
    let model = trained().to_str().unwrap();
    let words = [&["--model", model, "--prompt", prompt][..], more].concat();
    Room::new().run_with("generate --device cpu", &words)
}

#[test]
fn a_prompt_is_continued_by_as_many_tokens_as_asked() {
    for count in [0, 1, 30] {
        let text = generate("Ba", &["--max-new-tokens", &count.to_string()]).fine();
        assert!(text.starts_with("Ba") && text.ends_with('\n'), "{text:?}");
        assert_eq!(text.chars().count(), 2 + count + 1, "{text:?}");
    }
}

#[test]
fn temperature_zero_gives_one_text_and_seeds_draw_different_ones() {
    let text = |temperature: &str, seed: &str| {
        generate("Ba", &["--max-new-tokens", "40", "--temperature", temperature, "--seed", seed]).fine()
    };
    assert_eq!(text("0", "1"), text("0", "2"));
    assert_eq!(text("1", "1"), text("1", "1"));
    assert_ne!(text("1", "1"), text("1", "2"));
    let most_likely = generate("Ba", &["--max-new-tokens", "40", "--temperature", "5", "--top-k", "1"]).fine();
    assert_eq!(most_likely, text("0", "1"));
    let all = |more: &[&str]| generate("Ba", &[&["--max-new-tokens", "40"], more].concat()).fine();
    assert_eq!(all(&["--top-k", "500"]), all(&[]), "more than the vocabulary is all of it");
}

#[test]
fn a_prompt_longer_than_the_context_is_cropped_with_a_notice() {
    let prompt = "Balesdo\nTimrasuk\n";
    let ended = generate(prompt, &["--max-new-tokens", "5", "--temperature", "0"]);
    let notices: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("note: ")).collect();
    assert_eq!(notices, ["note: the prompt has 17 tokens and the context holds 8: only the last 8 are seen"]);
    let text = ended.fine();
    assert!(text.starts_with(prompt) && text.chars().count() == 17 + 5 + 1, "{text:?}");
    // Only what the context holds counts.
    let cropped = generate("imrasuk\n", &["--max-new-tokens", "5", "--temperature", "0"]).fine();
    assert_eq!(text.strip_prefix("Balesdo\nT"), Some(cropped.as_str()));
}

#[test]
fn an_empty_prompt_begins_a_line() {
    let ended = generate("", &["--max-new-tokens", "5"]);
    assert!(!ended.stderr.contains("note: "), "{}", ended.stderr);
    let text = ended.fine();
    assert!(text.starts_with('\n') && text.chars().count() == 1 + 5 + 1, "{text:?}");
}

#[test]
fn a_run_means_its_best_model_and_any_of_its_models_can_be_named() {
    let run = trained();
    let text = |model: &std::path::Path| {
        let words = ["--model", model.to_str().unwrap(), "--temperature", "0", "--prompt", "B"];
        Room::new().run_with("generate --device cpu --max-new-tokens 20", &words).fine()
    };
    assert_eq!(text(run), text(&run.join("best")));
    assert!(text(&run.join("last")).starts_with('B'));
}
