//! What training promises: repeatable, resumable, indifferent to how a batch is cut, and stopped by a number that is
//! none. On the CPU executor always, on the adapter where there is one.

mod device;

use std::sync::Arc;

use headlight::gpu::Gpu;
use headlight::train::Preset;
use headlight::train::attention_choice::AttentionKind;
use headlight::train::optimizer_state::OptimizerState;
use headlight::train::settings::Settings;
use headlight::train::trainer::{Trainer, TrainerError};
use libtest_mimic::{Arguments, Failed, Trial};

type Check = fn(Option<&Arc<Gpu>>) -> Result<(), Failed>;

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let checks: [(&str, Check); 6] = [
        ("the same seed gives the same weights, bit for bit", repeats),
        ("resuming in the middle gives the same weights, bit for bit", resumes),
        ("one batch of eight learns what four batches of two do", accumulates),
        ("a NaN in a weight stops at its step and leaves the weights alone", stops_at_a_nan),
        ("a rate that diverges is stopped by name and keeps finite weights", stops_when_diverging),
        ("naive and fused attention train alike", attention_kinds_agree),
    ];
    let mut trials = Vec::new();
    for (name, check) in checks {
        trials.push(Trial::test(format!("{name} (CPU executor)"), move || check(None)));
        let (device, missing) = (gpu.clone(), gpu.is_none());
        // Without a device the check would run on the CPU executor, under the name of the adapter.
        let on_device = move || device.as_ref().map_or(Err("there is no adapter".into()), |gpu| check(Some(gpu)));
        trials.push(Trial::test(format!("{name} (adapter)"), on_device).with_ignored_flag(missing));
    }
    let (device, missing) = (gpu.clone(), gpu.is_none());
    let together = move || device.as_ref().map_or(Err("there is no adapter".into()), executors_agree);
    trials.push(Trial::test("fifty steps lose alike on both executors", together).with_ignored_flag(missing));
    libtest_mimic::run(&arguments, trials).exit();
}

/// A model that trains in moments; its sizes are no multiples of a tile.
fn settings() -> Settings {
    Settings {
        layers: 2,
        heads: 3,
        width: 36,
        context_length: 19,
        batch: 3,
        steps: 50,
        learning_rate: 3e-3,
        warm_up: 5,
        ..Preset::Tiny.settings()
    }
}

const VOCABULARY: usize = 23;

/// A stream of tokens with some order in it.
fn tokens() -> Vec<u32> {
    (0..4000u32).map(|i| (i / 3 + i / 50) % VOCABULARY as u32).collect()
}

async fn trainer(gpu: Option<&Arc<Gpu>>, settings: &Settings) -> Result<Trainer, TrainerError> {
    Trainer::new(gpu, settings, settings.model(VOCABULARY).unwrap()).await
}

/// Takes `steps` steps and returns their losses.
async fn train(trainer: &mut Trainer, steps: usize) -> Result<Vec<f64>, TrainerError> {
    let tokens = tokens();
    let mut losses = Vec::new();
    for _ in 0..steps {
        losses.extend(trainer.train_step(&tokens).await?.map(|report| report.train_loss));
    }
    while let Some(report) = trainer.next_report().await? {
        losses.push(report.train_loss);
    }
    Ok(losses)
}

fn bits(values: &[Vec<f32>]) -> Vec<u32> {
    values.iter().flatten().map(|value| value.to_bits()).collect()
}

fn all_bits((parameters, optimizer): &(Vec<Vec<f32>>, OptimizerState)) -> [Vec<u32>; 3] {
    [bits(parameters), bits(&optimizer.first_moments), bits(&optimizer.second_moments)]
}

fn repeats(gpu: Option<&Arc<Gpu>>) -> Result<(), Failed> {
    pollster::block_on(async {
        let mut runs = Vec::new();
        for seed in [1, 1, 2] {
            let mut trainer = trainer(gpu, &Settings { seed, ..settings() }).await?;
            let losses = train(&mut trainer, 20).await?;
            assert_eq!(losses.len(), 20);
            runs.push((all_bits(&trainer.snapshot().await?), losses));
        }
        assert!(runs[0] == runs[1], "two runs of one seed differ");
        assert!(runs[0] != runs[2], "two seeds give the same run");
        Ok(())
    })
}

fn resumes(gpu: Option<&Arc<Gpu>>) -> Result<(), Failed> {
    pollster::block_on(async {
        for accumulation in [1, 2] {
            let settings = Settings { accumulation, ..settings() };
            let mut whole = trainer(gpu, &settings).await?;
            train(&mut whole, 20).await?;
            let mut first = trainer(gpu, &settings).await?;
            train(&mut first, 13).await?;
            let (parameters, optimizer) = first.snapshot().await?;
            let mut second = trainer(gpu, &settings).await?;
            second.load(&parameters, &optimizer, 13)?;
            train(&mut second, 7).await?;
            let (expected, found) = (whole.snapshot().await?, second.snapshot().await?);
            assert!(all_bits(&expected) == all_bits(&found), "accumulation {accumulation}");
        }
        Ok(())
    })
}

fn accumulates(gpu: Option<&Arc<Gpu>>) -> Result<(), Failed> {
    pollster::block_on(async {
        let mut runs = Vec::new();
        for (batch, accumulation) in [(8, 1), (2, 4)] {
            let mut trainer = trainer(gpu, &Settings { batch, accumulation, ..settings() }).await?;
            let losses = train(&mut trainer, 1).await?;
            runs.push((losses[0], trainer.gradients().await?));
        }
        let [(loss, gradients), (cut_loss, cut_gradients)] = [&runs[0], &runs[1]];
        assert!((loss - cut_loss).abs() <= 1e-6 * loss, "{loss} against {cut_loss}");
        for (index, (whole, cut)) in gradients.iter().zip(cut_gradients).enumerate() {
            let largest = whole.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            assert!(largest > 0.0, "parameter {index} has no gradient");
            for (a, b) in whole.iter().zip(cut) {
                assert!((a - b).abs() <= 1e-5 * largest, "parameter {index}: {a} against {b}");
            }
        }
        Ok(())
    })
}

fn stops_at_a_nan(gpu: Option<&Arc<Gpu>>) -> Result<(), Failed> {
    pollster::block_on(async {
        for nan in [0x7fc0_0000, 0xffc0_0001] {
            let mut trainer = trainer(gpu, &settings()).await?;
            train(&mut trainer, 2).await?;
            let (mut parameters, optimizer) = trainer.snapshot().await?;
            parameters[4][5] = f32::from_bits(nan);
            trainer.load(&parameters, &optimizer, 2)?;
            match train(&mut trainer, 5).await {
                Err(TrainerError::NotFinite { step: 3, before: 2, .. }) => {}
                other => return Err(format!("NaN {nan:x} at step 3 gave {other:?}").into()),
            }
            assert!(bits(&trainer.snapshot().await?.0) == bits(&parameters), "the weights moved after step 2");
        }
        Ok(())
    })
}

fn stops_when_diverging(gpu: Option<&Arc<Gpu>>) -> Result<(), Failed> {
    pollster::block_on(async {
        let settings =
            Settings { learning_rate: 1e30, minimum_learning_rate: 1e30, warm_up: 0, clip: 0.0, ..settings() };
        let mut trainer = trainer(gpu, &settings).await?;
        match train(&mut trainer, 30).await {
            Err(TrainerError::NotFinite { step, .. }) => {
                assert!(step > 1, "the first step starts from finite weights");
                let (parameters, _) = trainer.snapshot().await?;
                assert!(parameters.iter().flatten().all(|value| !value.is_nan()), "NaN reached the weights");
                Ok(())
            }
            other => Err(format!("a rate of 1e30 gave {other:?}").into()),
        }
    })
}

fn attention_kinds_agree(gpu: Option<&Arc<Gpu>>) -> Result<(), Failed> {
    pollster::block_on(async {
        let mut runs = Vec::new();
        for attention in [AttentionKind::Naive, AttentionKind::Fused] {
            let mut trainer = trainer(gpu, &Settings { attention: attention.into(), ..settings() }).await?;
            runs.push(train(&mut trainer, 30).await?);
        }
        for (step, (naive, fused)) in runs[0].iter().zip(&runs[1]).enumerate() {
            assert!((naive - fused).abs() <= 1e-3 * naive, "step {step}: {naive} against {fused}");
        }
        Ok(())
    })
}

fn executors_agree(gpu: &Arc<Gpu>) -> Result<(), Failed> {
    pollster::block_on(async {
        let mut on_cpu = trainer(None, &settings()).await?;
        let mut on_gpu = trainer(Some(gpu), &settings()).await?;
        let (cpu, gpu) = (train(&mut on_cpu, 50).await?, train(&mut on_gpu, 50).await?);
        assert!(cpu[49] < 0.9 * cpu[0], "nothing was learnt: {} to {}", cpu[0], cpu[49]);
        for (step, (cpu, gpu)) in cpu.iter().zip(&gpu).enumerate() {
            assert!((cpu - gpu).abs() <= 1e-3, "step {step}: {cpu} against {gpu}");
        }
        Ok(())
    })
}
