//! The whole training step on a GPU and on the CPU executor, compared three ways: each launch on the same inputs, the
//! gradients of a step, and the loss after some steps.
//!
//! Each answers another question. A launch that is fed with the CPU executor's values shows what it does itself, to the
//! rounding of its own arithmetic. The gradients show what all of them do together, in one go. Losses after some steps
//! show that what is left of the difference does not grow into anything; weights would not do, since AdamW turns the
//! rounding of a gradient that is exactly 0 (as that of a key's bias is) into steps of the size of the rate.

use std::sync::Arc;

use super::launch::{Element, LaunchName, LaunchResult, Written, judge, written_buffers};
use super::training_step::{Fill, StepError, TrainingStep, contents, device_contents};
use crate::gpu::{Gpu, Pipelines};
use crate::tape::{Segment, Tape, TapeError, Tolerance};

/// What an element of a gradient may be off by, in proportion to the largest value of its tensor.
pub const GRADIENT_TOLERANCE: f64 = 1e-5;
/// The largest norm of a gradient's error, in proportion to the norm of the gradient.
pub const GRADIENT_NORM_TOLERANCE: f64 = 1e-4;
/// What a loss may be off by, in proportion to it.
pub const LOSS_TOLERANCE: f64 = 1e-3;

/// The gradient of one parameter on both executors.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientResult {
    pub tensor: String,
    pub elements: usize,
    /// The element that used the most of [`GRADIENT_TOLERANCE`]; `None` where all were equal.
    pub worst: Option<Element>,
    /// Norm of the error over the norm of the CPU executor's gradient.
    pub norm: f64,
}

impl GradientResult {
    /// Compares two gradients element by element.
    pub fn new(tensor: &str, gpu: &[f32], cpu: &[f32]) -> Self {
        let largest = cpu.iter().map(|value| f64::from(value.abs())).fold(0.0, f64::max);
        let tolerance = Tolerance::new(GRADIENT_TOLERANCE * largest, 0.0);
        let mut worst: Option<Element> = None;
        let (mut of_error, mut of_gradient) = (0.0, 0.0);
        for (index, (&gpu, &cpu)) in gpu.iter().zip(cpu).enumerate() {
            let (gpu, cpu) = (f64::from(gpu), f64::from(cpu));
            of_error += (gpu - cpu) * (gpu - cpu);
            of_gradient += cpu * cpu;
            let share = tolerance.share(gpu, cpu);
            if share > worst.as_ref().map_or(0.0, |worst| worst.share) {
                worst = Some(Element { tensor: tensor.into(), index, gpu, cpu, share });
            }
        }
        let norm = if of_error == 0.0 { 0.0 } else { (of_error / of_gradient).sqrt() };
        Self { tensor: tensor.into(), elements: cpu.len(), worst, norm }
    }

    pub fn passed(&self) -> bool {
        self.worst.as_ref().is_none_or(|worst| worst.share <= 1.0) && self.norm <= GRADIENT_NORM_TOLERANCE
    }
}

/// The loss of one step on both executors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossResult {
    /// Counted from 1.
    pub step: u64,
    pub gpu: f64,
    pub cpu: f64,
}

impl LossResult {
    /// Share of [`LOSS_TOLERANCE`] that the difference uses.
    pub fn share(&self) -> f64 {
        Tolerance::new(0.0, LOSS_TOLERANCE).share(self.gpu, self.cpu)
    }

    pub fn passed(&self) -> bool {
        self.share() <= 1.0
    }
}

/// What came of training on both executors.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingResult {
    /// Of the first step, a row a parameter.
    pub gradients: Vec<GradientResult>,
    /// A row a step.
    pub losses: Vec<LossResult>,
}

impl TrainingResult {
    pub fn passed(&self) -> bool {
        self.gradients.iter().all(GradientResult::passed) && self.losses.iter().all(LossResult::passed)
    }
}

/// The same launches, each a segment of its own.
fn one_launch_a_segment(tape: &Tape) -> Tape {
    let launches = tape.segments.iter().flat_map(|segment| {
        segment.launches.iter().map(|launch| Segment { name: segment.name.clone(), launches: vec![launch.clone()] })
    });
    Tape::new(tape.buffers.clone(), launches.collect())
}

impl TrainingStep {
    /// Every launch of the second step on the GPU, fed with the CPU executor's inputs for that launch and held to the
    /// error bounds of its kernel.
    ///
    /// # Errors
    /// A tape that cannot be set up or run.
    pub async fn compare_launches(
        &self,
        gpu: &Arc<Gpu>,
        pipelines: &mut Pipelines,
    ) -> Result<Vec<LaunchResult>, StepError> {
        let step = self.step_tape(&gpu.profile)?;
        let tape = &step.tape;
        let start = self.after_first_step(&step)?;
        let cpu = self.cpu_executor(&step)?;
        let gpu = self.gpu_executor(gpu, one_launch_a_segment(tape), pipelines).await?;
        self.prepare(&cpu, &step, &start)?;
        self.prepare(&gpu, &step, &start)?;
        let mut results = Vec::with_capacity(step.launches());
        for &pass in &step.passes {
            self.begin(&cpu, &step, &start, pass)?;
            self.begin(&gpu, &step, &start, pass)?;
            let earlier: usize = tape.segments[..pass.segment].iter().map(|segment| segment.launches.len()).sum();
            let segment = &tape.segments[pass.segment];
            for (index, launch) in segment.launches.iter().enumerate() {
                let buffers: Vec<_> = written_buffers(launch).collect();
                let bounds = cpu.error_bounds(launch);
                let before: Vec<_> =
                    buffers.iter().map(|&buffer| contents(&cpu, buffer)).collect::<Result<_, TapeError>>()?;
                cpu.run_launch(launch);
                gpu.run(earlier + index)?;
                let mut written = Vec::with_capacity(buffers.len());
                for (before, &buffer) in before.into_iter().zip(&buffers) {
                    let (expected, found) = (contents(&cpu, buffer)?, device_contents(&gpu, buffer).await?);
                    // The next launch begins with the same inputs on both.
                    gpu.fill(buffer, &expected)?;
                    written.push(Written { before, expected, found });
                }
                let name = LaunchName::new(results.len() + 1, &segment.name, launch);
                results.push(judge(name, launch, tape, &written, &bounds));
            }
        }
        Ok(results)
    }

    /// Takes `steps` steps on both executors, as training does: the gradients of the first, and the losses of all.
    ///
    /// # Errors
    /// A tape that cannot be set up or run.
    pub async fn compare_training(
        &self,
        gpu: &Arc<Gpu>,
        pipelines: &mut Pipelines,
        steps: u64,
    ) -> Result<TrainingResult, StepError> {
        let (on_gpu, gpu_buffers) = self.training_executor(Some(gpu), pipelines).await?;
        let (on_cpu, cpu_buffers) = self.training_executor(None, pipelines).await?;
        let mut result = TrainingResult { gradients: Vec::new(), losses: Vec::new() };
        for step in 0..steps {
            let mut losses = [f64::NAN; 2];
            for (loss, (executor, buffers)) in losses.iter_mut().zip([(&on_gpu, &gpu_buffers), (&on_cpu, &cpu_buffers)])
            {
                for pass in self.passes() {
                    self.feed(executor, buffers, step, pass)?;
                    executor.run(pass.segment)?;
                }
                let sum: f64 = executor.read(buffers.loss).await?.iter().map(|&loss| f64::from(loss)).sum();
                *loss = sum / self.spec.accumulation as f64;
            }
            result.losses.push(LossResult { step: step + 1, gpu: losses[0], cpu: losses[1] });
            if step == 0 {
                for (index, parameter) in self.spec.config.parameters().iter().enumerate() {
                    let gpu = on_gpu.read(gpu_buffers.gradients[index]).await?;
                    let cpu = on_cpu.read(cpu_buffers.gradients[index]).await?;
                    result.gradients.push(GradientResult::new(&parameter.name, &gpu, &cpu));
                }
            }
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Profile;
    use crate::tape::HostBuffer;
    use crate::train::Preset;
    use crate::train::attention_choice::AttentionKind;
    use crate::train::settings::Settings;

    /// Holds every launch of a step to its bounds with one of its results off by one in a thousand.
    fn assert_a_thousandth_shows(settings: &Settings) {
        let vocabulary = 65;
        let tokens: Vec<u32> = (0..3000u32).map(|index| (index * index / 7 + index) % vocabulary).collect();
        let taken = TrainingStep::new(settings, &tokens, settings.model(vocabulary as usize).unwrap());
        let step = taken.step_tape(&Profile::webgpu_defaults()).unwrap();
        let start = taken.after_first_step(&step).unwrap();
        let cpu = taken.cpu_executor(&step).unwrap();
        taken.prepare(&cpu, &step, &start).unwrap();
        let mut place = 0;
        for &pass in &step.passes {
            taken.begin(&cpu, &step, &start, pass).unwrap();
            let segment = &step.tape.segments[pass.segment];
            for launch in &segment.launches {
                place += 1;
                let bounds = cpu.error_bounds(launch);
                let of = |buffer| contents(&cpu, buffer).unwrap();
                let before: Vec<_> = written_buffers(launch).map(of).collect();
                cpu.run_launch(launch);
                let after: Vec<_> = written_buffers(launch).map(of).collect();
                // The launch as it should be, then with each of its results off.
                for off in std::iter::once(None).chain((0..after.len()).map(Some)) {
                    let written = |(operand, (before, expected)): (usize, (&HostBuffer<f32>, &HostBuffer<f32>))| {
                        let found = match expected {
                            HostBuffer::Real(values) if off == Some(operand) => {
                                HostBuffer::Real(values.iter().map(|value| value * 1.001).collect())
                            }
                            other => other.clone(),
                        };
                        Written { before: before.clone(), expected: expected.clone(), found }
                    };
                    let written: Vec<_> = before.iter().zip(&after).enumerate().map(written).collect();
                    let name = LaunchName::new(place, &segment.name, launch);
                    let result = judge(name, launch, &step.tape, &written, &bounds);
                    assert_eq!(result.bad_reference, None, "{:?}", result.launch);
                    // Of zeros a thousandth is nothing.
                    let shows = off.is_some_and(|off| match &after[off] {
                        HostBuffer::Real(values) => values.iter().any(|value| value.is_finite() && *value != 0.0),
                        HostBuffer::Words(_) => false,
                    });
                    assert_eq!(result.misses > 0, shows, "operand {off:?} of {:?}", result.launch);
                }
            }
        }
    }

    #[test]
    fn results_off_by_one_in_a_thousand_break_the_error_bounds_of_every_launch() {
        let odd = Settings {
            layers: 2,
            heads: 3,
            width: 36,
            context_length: 19,
            batch: 3,
            accumulation: 2,
            ..Preset::Tiny.settings()
        };
        for attention in [AttentionKind::Naive, AttentionKind::Fused] {
            assert_a_thousandth_shows(&Settings { attention: attention.into(), ..odd.clone() });
            assert_a_thousandth_shows(&Settings { attention: attention.into(), ..Preset::Tiny.settings() });
        }
    }

    #[test]
    fn a_gradient_passes_within_both_of_its_tolerances() {
        let cpu: Vec<f32> = (0..10_000).map(|index| (index as f32 * 0.37).sin()).collect();
        let changed = |change: fn(usize, f32) -> f32| -> GradientResult {
            let gpu: Vec<f32> = cpu.iter().enumerate().map(|(index, &value)| change(index, value)).collect();
            GradientResult::new("weight", &gpu, &cpu)
        };
        assert!(changed(|_, value| value).passed());
        assert!(changed(|_, value| value + 5e-6).passed());
        let one = changed(|index, value| if index == 77 { value + 2e-5 } else { value });
        assert_eq!((one.passed(), one.worst.map(|worst| worst.index)), (false, Some(77)));
        assert!(!changed(|index, value| if index == 0 { f32::NAN } else { value }).passed());
        // Small everywhere beside one large value: only the norm of the whole shows it.
        let small: Vec<f32> = (0..1_000_000).map(|index| if index == 0 { 1.0 } else { 1e-6 }).collect();
        let doubled: Vec<f32> = small.iter().map(|&value| if value == 1.0 { value } else { 2.0 * value }).collect();
        let result = GradientResult::new("weight", &doubled, &small);
        assert!(!result.passed() && result.worst.unwrap().share <= 1.0, "{}", result.norm);
        // A gradient that is 0 must be 0.
        assert!(GradientResult::new("weight", &[0.0], &[0.0]).passed());
        assert!(!GradientResult::new("weight", &[1e-12], &[0.0]).passed());
    }

    #[test]
    fn a_loss_passes_within_a_thousandth() {
        for (gpu, passes) in [(2.0, true), (2.0019, true), (2.0021, false), (f64::NAN, false)] {
            assert_eq!(LossResult { step: 1, gpu, cpu: 2.0 }.passed(), passes, "{gpu}");
        }
    }
}
