//! Where a training step on a GPU parts from the CPU executor: the first launch whose results are not what its own
//! inputs give.
//!
//! Both executors take the whole step from the same start, each on its own values, over buffers that are never used
//! again, so that what a launch wrote is there to be looked at. The two differ a little everywhere, by rounding that was
//! handed on. So a launch is not blamed for a difference in its results: its twin runs once more on the inputs
//! that the launch had on the GPU, and what the GPU made of them is held to the error bounds of the kernel. That names
//! the launch at fault, neither an earlier one whose rounding it enlarged nor a later one that inherited its error.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::launch::{Element, LaunchName, LaunchResult, Written, judge, written_buffers};
use super::training_step::{Fill, StepError, TrainingStep, contents, device_contents};
use crate::gpu::{Gpu, Pipelines};
use crate::tape::{BufferId, CpuExecutor, HostBuffer, Launch, Segment, Tape, TapeError};

/// How far a tensor differs between the executors.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// The launch that wrote the tensor.
    pub launch: LaunchName,
    pub tensor: String,
    /// The element that differs most, and what the executors have there.
    pub index: usize,
    pub gpu: f64,
    pub cpu: f64,
    /// Its difference in proportion to the largest value of the tensor.
    pub relative: f64,
}

/// The launch at fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Parting {
    /// What it made of its inputs, held against what its twin makes of the same: an element's `cpu` is the twin's.
    pub result: LaunchResult,
    /// The worst element.
    pub element: Element,
    /// What the CPU executor has there in its own run of the step.
    pub cpu: f64,
    /// The largest difference among the numbers that the launch read; `None` where none of them was computed or all were
    /// equal.
    pub inputs: Option<Drift>,
}

/// What came of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct BisectResult {
    /// Launches of the step.
    pub launches: usize,
    /// The first launch at fault; `None` where there is none.
    pub parting: Option<Parting>,
    /// The largest difference before that launch, or along all of the step, of each of its segments in order.
    pub largest_drifts: Vec<Drift>,
}

/// The largest difference between two tensors, against the largest of `cpu`; `None` where there is none.
fn drift(name: &LaunchName, tensor: &str, gpu: &HostBuffer<f32>, cpu: &HostBuffer<f32>) -> Option<Drift> {
    let (HostBuffer::Real(gpu), HostBuffer::Real(cpu)) = (gpu, cpu) else { return None };
    // What neither executor wrote is NaN on both.
    let numbers = || gpu.iter().zip(cpu).map(|(&gpu, &cpu)| (f64::from(gpu), f64::from(cpu))).enumerate();
    let written = || numbers().filter(|(_, (_, cpu))| cpu.is_finite());
    let largest = written().map(|(_, (_, cpu))| cpu.abs()).fold(0.0, f64::max);
    let difference = |(gpu, cpu): (f64, f64)| if gpu.is_finite() { (gpu - cpu).abs() } else { f64::INFINITY };
    let (index, (gpu, cpu)) = written().max_by(|(_, a), (_, b)| difference(*a).total_cmp(&difference(*b)))?;
    let relative = difference((gpu, cpu)) / largest;
    (relative > 0.0).then(|| Drift { launch: name.clone(), tensor: tensor.into(), index, gpu, cpu, relative })
}

fn larger(one: Option<Drift>, other: Option<Drift>) -> Option<Drift> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.relative > one.relative { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// The launches of a segment in as few parts as let each buffer be written once in a part: what a launch wrote is then
/// still there when its part is done.
fn parts(segment: &Segment) -> Vec<Segment> {
    let mut parts: Vec<Segment> = Vec::new();
    let mut written = HashSet::new();
    for launch in &segment.launches {
        let again = written_buffers(launch).any(|buffer| written.contains(&buffer));
        if again || parts.is_empty() {
            written.clear();
            parts.push(Segment { name: segment.name.clone(), launches: Vec::new() });
        }
        written.extend(written_buffers(launch));
        if let Some(part) = parts.last_mut() {
            part.launches.push(launch.clone());
        }
    }
    parts
}

impl TrainingStep {
    /// Takes the second step on both executors and names the first launch of it whose results are not what its own inputs
    /// give.
    ///
    /// # Errors
    /// A tape that cannot be set up or run, and a reference that is not finite.
    pub async fn bisect(&self, gpu: &Arc<Gpu>, pipelines: &mut Pipelines) -> Result<BisectResult, StepError> {
        let step = self.step_tape(&gpu.profile)?;
        let tape = &step.tape;
        let start = self.after_first_step(&step)?;
        let cpu = self.cpu_executor(&step)?;
        // Holds what the GPU has, as each launch finds it.
        let shadow = self.cpu_executor(&step)?;
        let parts: Vec<Vec<Segment>> = tape.segments.iter().map(parts).collect();
        let in_parts = Tape::new(tape.buffers.clone(), parts.concat());
        let gpu = self.gpu_executor(gpu, in_parts, pipelines).await?;
        self.prepare(&cpu, &step, &start)?;
        self.prepare(&shadow, &step, &start)?;
        self.prepare(&gpu, &step, &start)?;
        let mut drifts: HashMap<BufferId, Drift> = HashMap::new();
        let mut result = BisectResult { launches: step.launches(), parting: None, largest_drifts: Vec::new() };
        let mut place = 0;
        for &pass in &step.passes {
            self.begin(&cpu, &step, &start, pass)?;
            self.begin(&shadow, &step, &start, pass)?;
            self.begin(&gpu, &step, &start, pass)?;
            let earlier: usize = parts[..pass.segment].iter().map(Vec::len).sum();
            let mut largest = None;
            for (number, part) in parts[pass.segment].iter().enumerate() {
                gpu.run(earlier + number)?;
                for launch in &part.launches {
                    place += 1;
                    let name = LaunchName::new(place, &part.name, launch);
                    let bounds = shadow.error_bounds(launch);
                    let before: Vec<_> = written_buffers(launch)
                        .map(|buffer| contents(&shadow, buffer))
                        .collect::<Result<_, TapeError>>()?;
                    shadow.run_launch(launch);
                    cpu.run_launch(launch);
                    let mut written = Vec::with_capacity(before.len());
                    for (before, buffer) in before.into_iter().zip(written_buffers(launch)) {
                        let (expected, found) = (contents(&shadow, buffer)?, device_contents(&gpu, buffer).await?);
                        written.push(Written { before, expected, found });
                    }
                    let judged = judge(name.clone(), launch, tape, &written, &bounds);
                    if judged.misses > 0
                        && let Some(element) = judged.worst.clone()
                    {
                        let inputs = launch.operands.iter().map(|window| drifts.get(&window.buffer).cloned());
                        let inputs = inputs.fold(None, larger);
                        let cpu = value(&cpu, launch, &element)?;
                        result.parting = Some(Parting { result: judged, element, cpu, inputs });
                        result.largest_drifts.extend(largest);
                        return Ok(result);
                    }
                    if let Some(reason) = judged.bad_reference {
                        let launch = format!("launch {place} ({})", launch.label);
                        return Err(StepError::BadReference { launch, reason });
                    }
                    for (written, buffer) in written.iter().zip(written_buffers(launch)) {
                        let tensor = &tape.buffers[buffer].name;
                        let drift = drift(&name, tensor, &written.found, &contents(&cpu, buffer)?);
                        shadow.fill(buffer, &written.found)?;
                        match drift.clone() {
                            Some(drift) => drifts.insert(buffer, drift),
                            None => drifts.remove(&buffer),
                        };
                        largest = larger(largest, drift);
                    }
                }
            }
            result.largest_drifts.extend(largest);
        }
        Ok(result)
    }
}

/// What an executor has in the place of an element that a launch wrote.
fn value(executor: &CpuExecutor<f32>, launch: &Launch, element: &Element) -> Result<f64, TapeError> {
    let named = |buffer: &BufferId| executor.tape().buffers[*buffer].name == element.tensor;
    let Some(buffer) = written_buffers(launch).find(named) else { return Ok(f64::NAN) };
    Ok(match contents(executor, buffer)? {
        HostBuffer::Real(values) => f64::from(values[element.index]),
        HostBuffer::Words(words) => f64::from(words[element.index]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Profile;
    use crate::kernel::fill;
    use crate::tape::BufferWindow;

    #[test]
    fn a_part_ends_where_a_buffer_would_be_written_again() {
        let launch = |buffer: BufferId| {
            let parameters = fill::Parameters { count: 1, value: 0.0, step: 0.0 };
            let design = fill::KERNEL.choose(&parameters, &Profile::webgpu_defaults());
            Launch::new(&fill::KERNEL, design, parameters, vec![BufferWindow { buffer, offset: 0, bytes: 16 }], "fill")
        };
        for (buffers, expected) in
            [(&[][..], &[][..]), (&[1, 2, 3], &[3][..]), (&[1, 1, 2, 3, 2], &[1, 3, 1]), (&[1, 2, 1, 2, 1], &[2, 2, 1])]
        {
            let launches = buffers.iter().map(|&buffer| launch(buffer)).collect();
            let found = parts(&Segment { name: "step".into(), launches });
            assert_eq!(found.iter().map(|part| part.launches.len()).collect::<Vec<_>>(), expected, "{buffers:?}");
        }
    }

    #[test]
    fn drift_is_measured_where_it_is_largest_against_the_largest_value() {
        let name = LaunchName { place: 3, segment: "s".into(), label: "l".into(), kernel: "k", design: "d" };
        let of = |gpu: &[f32], cpu: &[f32]| {
            let [gpu, cpu] = [gpu, cpu].map(|values| HostBuffer::Real(values.to_vec()));
            drift(&name, "x", &gpu, &cpu).map(|drift| (drift.index, drift.relative))
        };
        assert_eq!(of(&[1.0, 4.5, -8.0], &[1.0, 4.0, -8.0]), Some((1, 0.0625)));
        assert_eq!(of(&[1.0, f32::NAN], &[1.0, f32::NAN]), None);
        assert_eq!(of(&[1.0, f32::NAN], &[1.0, 2.0]), Some((1, f64::INFINITY)));
        assert_eq!(of(&[1e-9], &[0.0]), Some((0, f64::INFINITY)));
        assert_eq!(of(&[0.0], &[0.0]), None);
    }
}
