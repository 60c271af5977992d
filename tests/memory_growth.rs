//! A long run must not grow: everything a step needs exists before the first.

mod device;

use headlight::train::Preset;
use headlight::train::settings::Settings;
use headlight::train::trainer::Trainer;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let missing = gpu.is_none() || resident_bytes().is_none();
    let check = move || {
        let Some(gpu) = gpu else { return Err("there is no adapter".into()) };
        let settings = Settings {
            layers: 1,
            heads: 1,
            width: 8,
            context_length: 8,
            batch: 2,
            steps: 3000,
            ..Preset::Tiny.settings()
        };
        let tokens: Vec<u32> = (0..500).map(|i| i / 3 % 11).collect();
        pollster::block_on(async {
            let mut trainer = Trainer::new(Some(&gpu), &settings, settings.model(11)?).await?;
            let mut after_500 = None;
            for step in 1..=3000 {
                trainer.train_step(&tokens).await?;
                if step == 500 {
                    after_500 = resident_bytes();
                }
            }
            let grown = resident_bytes().zip(after_500).map_or(i64::MAX, |(last, first)| last - first);
            if grown < 64 << 20 { Ok(()) } else { Err(Failed::from(format!("{grown} bytes more after 2,500 steps"))) }
        })
    };
    let trial = Trial::test("three thousand steps need no more memory than five hundred", check);
    libtest_mimic::run(&arguments, vec![trial.with_ignored_flag(missing)]).exit();
}

/// Resident memory of this process; `None` where the system does not tell in this way.
fn resident_bytes() -> Option<i64> {
    let statistics = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = statistics.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}
