//! What is wrong with a set of settings, a line a fault.

use crate::train::settings::Settings;

/// Token positions of one micro-batch: they are indexed by 32-bit integers.
const MICRO_BATCH_LIMIT: u64 = i32::MAX as u64;

/// More text than this takes minutes to make, and the built-in corpora have nothing new to say by then.
const CORPUS_LIMIT: u64 = 1 << 28;

/// A step of more micro-batches could not be interrupted in reasonable time.
const ACCUMULATION_LIMIT: u64 = 1 << 16;

/// The names of all texts together: with every character escaped they still fit the files that a run keeps.
const NAMES_LIMIT: usize = 1 << 16;

/// A longer sample would hold a run up for hours each time.
const SAMPLE_LIMIT: u64 = 1 << 20;

/// Seeds fit the integers of TOML, where the run keeps them.
const SEED_LIMIT: u64 = i64::MAX as u64;

/// Whether a number stays finite in the f32 that the optimizer computes in.
fn finite(value: f64) -> bool {
    (value as f32).is_finite()
}

/// Every fault, in the order of the fields.
pub(super) fn faults(settings: &Settings) -> Vec<String> {
    let mut faults = Vec::new();
    let mut demand = |holds: bool, line: String| {
        if !holds {
            faults.push(line);
        }
    };
    let names = settings.data.iter().all(|source| !source.is_empty());
    demand(
        !settings.data.is_empty() && names,
        format!("data is {:?}: it must name a file or builtin:NAME", settings.data),
    );
    let bytes: usize = settings.data.iter().map(String::len).sum();
    demand(
        bytes <= NAMES_LIMIT,
        format!(
            "data names {} texts in {bytes} bytes: at most {NAMES_LIMIT} fit, join the texts into fewer files",
            settings.data.len()
        ),
    );
    let fraction = settings.validation_fraction;
    demand(
        fraction > 0.0 && fraction < 1.0,
        format!("validation_fraction is {fraction:?}: it must be above 0 and below 1"),
    );
    for (name, value) in [
        ("corpus_bytes", settings.corpus_bytes),
        ("batch", settings.batch as u64),
        ("accumulation", settings.accumulation as u64),
        ("steps", settings.steps),
        ("log_every", settings.log_every),
        ("sample_length", settings.sample_length as u64),
    ] {
        demand(value > 0, format!("{name} is 0: it must be at least 1"));
    }
    for (name, value, limit) in [
        ("corpus_bytes", settings.corpus_bytes, CORPUS_LIMIT),
        ("accumulation", settings.accumulation as u64, ACCUMULATION_LIMIT),
        ("sample_length", settings.sample_length as u64, SAMPLE_LIMIT),
    ] {
        demand(value <= limit, format!("{name} is {value}: the largest is {limit}"));
    }
    // The vocabulary is not known yet; any stands in for it.
    if let Err(error) = settings.model(1) {
        demand(false, error.to_string());
    }
    let positions = (settings.batch as u64).saturating_mul(settings.context_length as u64);
    demand(
        positions <= MICRO_BATCH_LIMIT,
        format!(
            "batch {} times context_length {} is {positions} tokens: at most {MICRO_BATCH_LIMIT} fit a micro-batch",
            settings.batch, settings.context_length
        ),
    );
    let (peak, minimum) = (settings.learning_rate, settings.minimum_learning_rate);
    let usable = peak > 0.0 && finite(peak);
    demand(usable, format!("learning_rate is {peak:?}: it must be a finite number above 0"));
    demand(
        minimum >= 0.0 && (!usable || minimum <= peak),
        format!("minimum_learning_rate is {minimum:?}: it must lie between 0 and learning_rate, {peak:?}"),
    );
    for (name, value) in [("beta1", settings.beta1), ("beta2", settings.beta2)] {
        demand((0.0..1.0).contains(&value), format!("{name} is {value:?}: it must be at least 0 and below 1"));
    }
    // A smaller number could be 0 in f32, and divide 0 by 0.
    let epsilon = settings.epsilon;
    demand(
        finite(epsilon) && epsilon >= f64::from(f32::MIN_POSITIVE),
        format!("epsilon is {epsilon:?}: it must be a finite number of at least {:e}", f32::MIN_POSITIVE),
    );
    for (name, value) in [("weight_decay", settings.weight_decay), ("clip", settings.clip)] {
        demand(value >= 0.0 && finite(value), format!("{name} is {value:?}: it must be a finite number of at least 0"));
    }
    demand(settings.seed <= SEED_LIMIT, format!("seed is {}: the largest is {SEED_LIMIT}", settings.seed));
    demand(!settings.device.is_empty(), "device is empty: say auto, gpu, cpu or a part of an adapter's name".into());
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::presets::Preset;

    #[test]
    fn each_fault_is_one_clear_line() {
        type Edit = fn(&mut Settings);
        let edits: [(Edit, &str); 27] = [
            (|s| s.data.clear(), "data is []: it must name a file or builtin:NAME"),
            (
                |s| s.data.push(String::new()),
                "data is [\"builtin:stories\", \"\"]: it must name a file or builtin:NAME",
            ),
            (
                |s| s.data = vec!["name".into(); 20_000],
                "data names 20000 texts in 80000 bytes: at most 65536 fit, join the texts into fewer files",
            ),
            (|s| s.validation_fraction = 0.0, "validation_fraction is 0.0: it must be above 0 and below 1"),
            (|s| s.validation_fraction = 1.0, "validation_fraction is 1.0: it must be above 0 and below 1"),
            (|s| s.validation_fraction = f64::NAN, "validation_fraction is NaN: it must be above 0 and below 1"),
            (|s| s.corpus_bytes = 0, "corpus_bytes is 0: it must be at least 1"),
            (|s| s.batch = 0, "batch is 0: it must be at least 1"),
            (|s| s.accumulation = 0, "accumulation is 0: it must be at least 1"),
            (|s| s.log_every = 0, "log_every is 0: it must be at least 1"),
            (|s| s.sample_length = 1_000_000_000, "sample_length is 1000000000: the largest is 1048576"),
            (|s| s.heads = 3, "3 heads do not divide width 128: choose a width that is a multiple of the heads"),
            (|s| s.layers = 1_000_000_000, "layers is 1000000000: the largest supported is 1024"),
            (
                |s| s.batch = 1 << 30,
                "batch 1073741824 times context_length 64 is 68719476736 tokens: at most 2147483647 fit a micro-batch",
            ),
            (|s| s.learning_rate = f64::NAN, "learning_rate is NaN: it must be a finite number above 0"),
            (|s| s.learning_rate = -1e-3, "learning_rate is -0.001: it must be a finite number above 0"),
            (|s| s.learning_rate = 1e39, "learning_rate is 1e39: it must be a finite number above 0"),
            (|s| s.learning_rate = f64::INFINITY, "learning_rate is inf: it must be a finite number above 0"),
            (
                |s| s.minimum_learning_rate = 0.01,
                "minimum_learning_rate is 0.01: it must lie between 0 and learning_rate, 0.001",
            ),
            (
                |s| s.minimum_learning_rate = f64::NAN,
                "minimum_learning_rate is NaN: it must lie between 0 and learning_rate, 0.001",
            ),
            (|s| s.beta1 = 1.0, "beta1 is 1.0: it must be at least 0 and below 1"),
            (|s| s.beta2 = -0.1, "beta2 is -0.1: it must be at least 0 and below 1"),
            (|s| s.epsilon = 1e-300, "epsilon is 1e-300: it must be a finite number of at least 1.1754944e-38"),
            (|s| s.weight_decay = -1.0, "weight_decay is -1.0: it must be a finite number of at least 0"),
            (|s| s.clip = f64::INFINITY, "clip is inf: it must be a finite number of at least 0"),
            (|s| s.seed = 1 << 63, "seed is 9223372036854775808: the largest is 9223372036854775807"),
            (|s| s.device.clear(), "device is empty: say auto, gpu, cpu or a part of an adapter's name"),
        ];
        for (edit, expected) in edits {
            let mut settings = Preset::Nano.settings();
            edit(&mut settings);
            assert_eq!(faults(&settings), [expected]);
            assert_eq!(settings.validate().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn all_faults_are_reported_together() {
        let mut settings = Preset::Nano.settings();
        (settings.batch, settings.clip, settings.steps) = (0, -1.0, 0);
        let text = settings.validate().unwrap_err().to_string();
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn the_edges_of_the_allowed_are_allowed() {
        let mut settings = Preset::Nano.settings();
        // A run shorter than its preset's warm-up is a short run, not a mistake.
        settings.steps = settings.warm_up - 1;
        settings.minimum_learning_rate = settings.learning_rate;
        (settings.beta1, settings.weight_decay, settings.clip, settings.seed) = (0.0, 0.0, 0.0, SEED_LIMIT);
        (settings.evaluate_every, settings.checkpoint_every, settings.sample_every) = (0, 0, 0);
        assert_eq!(faults(&settings), [""; 0]);
    }
}
