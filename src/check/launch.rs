//! One launch of a tape on a GPU, held against its twin: every element that it wrote, and every one that it should have
//! left alone.

use super::UNTOUCHED;
use crate::tape::{BufferId, HostBuffer, Launch, Tape, Tolerance};

/// Which launch of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchName {
    /// Its place among the launches of the step, counted from 1.
    pub place: usize,
    pub segment: String,
    /// What the launch is for.
    pub label: String,
    pub kernel: &'static str,
    pub design: &'static str,
}

impl LaunchName {
    pub(super) fn new(place: usize, segment: &str, launch: &Launch) -> Self {
        Self {
            place,
            segment: segment.into(),
            label: launch.label.clone(),
            kernel: launch.kernel.name,
            design: launch.design.map_or("twin", |design| design.name),
        }
    }
}

/// An element on both executors.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    pub tensor: String,
    pub index: usize,
    pub gpu: f64,
    pub cpu: f64,
    /// Share of the tolerance that their difference uses: at most 1 passes.
    pub share: f64,
}

/// What came of one launch.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchResult {
    pub launch: LaunchName,
    /// Elements that were compared.
    pub compared: usize,
    /// Elements outside of their tolerance.
    pub misses: usize,
    /// The element that used the most of its tolerance; `None` where all were equal.
    pub worst: Option<Element>,
    /// Why the launch proves nothing, where it does not: its reference is not finite, or it wrote nothing.
    pub bad_reference: Option<String>,
}

impl LaunchResult {
    pub fn passed(&self) -> bool {
        self.misses == 0 && self.bad_reference.is_none()
    }
}

/// The buffers that a launch writes.
pub(super) fn written_buffers(launch: &Launch) -> impl Iterator<Item = BufferId> {
    launch.kernel.writes.iter().map(|&operand| launch.operands[operand].buffer)
}

/// One written operand of a launch: its contents before, what the twin makes of them, and what the GPU did.
pub(super) struct Written {
    pub before: HostBuffer<f32>,
    pub expected: HostBuffer<f32>,
    pub found: HostBuffer<f32>,
}

fn bits(buffer: &HostBuffer<f32>) -> &[u32] {
    match buffer {
        HostBuffer::Real(values) => bytemuck::cast_slice(values),
        HostBuffer::Words(words) => words,
    }
}

/// Holds what a launch wrote to the bounds of its kernel, which are those of
/// [`error_bounds`](crate::tape::CpuExecutor::error_bounds) before the launch.
pub(super) fn judge(
    name: LaunchName,
    launch: &Launch,
    tape: &Tape,
    written: &[Written],
    bounds: &[Vec<f64>],
) -> LaunchResult {
    let mut result = LaunchResult { launch: name, compared: 0, misses: 0, worst: None, bad_reference: None };
    let mut left_alone = 0;
    for ((&operand, written), bounds) in launch.kernel.writes.iter().zip(written).zip(bounds) {
        let window = &launch.operands[operand];
        let tensor = &tape.buffers[window.buffer].name;
        let words = matches!(written.expected, HostBuffer::Words(_));
        let value = |bits: u32| if words { f64::from(bits) } else { f64::from(f32::from_bits(bits)) };
        let bound = |index: usize| {
            let at = index.checked_sub((window.offset / 4) as usize);
            at.and_then(|at| bounds.get(at)).copied().unwrap_or(0.0)
        };
        let elements = bits(&written.before).iter().zip(bits(&written.expected)).zip(bits(&written.found));
        for (index, ((&before, &expected), &found)) in elements.enumerate() {
            result.compared += 1;
            let kept = before == expected && before == UNTOUCHED;
            left_alone += usize::from(kept);
            if !kept && !words && !value(expected).is_finite() {
                let reason = || format!("its reference is {} at {tensor}[{index}]", value(expected));
                result.bad_reference.get_or_insert_with(reason);
                continue;
            }
            let tolerance = if kept || words { Tolerance::EXACT } else { Tolerance::new(bound(index), 0.0) };
            let share = if found == expected { 0.0 } else { tolerance.share(value(found), value(expected)) };
            result.misses += usize::from(share.is_nan() || share > 1.0);
            if share > result.worst.as_ref().map_or(0.0, |worst| worst.share) {
                let (gpu, cpu) = (value(found), value(expected));
                result.worst = Some(Element { tensor: tensor.clone(), index, gpu, cpu, share });
            }
        }
    }
    if result.compared == left_alone {
        result.bad_reference.get_or_insert_with(|| "its twin writes nothing".into());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::unary;
    use crate::tape::{BufferWindow, Category, ElementKind, Segment, TapeBuffer};

    /// What becomes of one number that a launch writes over `before`, within 0.5 of `expected`.
    fn judged(before: f32, expected: f32, found: f32) -> LaunchResult {
        let buffer = |name: &str| TapeBuffer {
            name: name.into(),
            elements: 1,
            kind: ElementKind::Real,
            category: Category::Workspace,
            persistent: true,
        };
        let operands = [0, 1].map(|buffer| BufferWindow { buffer, offset: 0, bytes: 16 }).to_vec();
        let parameters = unary::Parameters { count: 1, operation: 0, constant: 0.0 };
        let launch = Launch::new(&unary::KERNEL, None, parameters, operands, "copy");
        let segments = vec![Segment { name: "step".into(), launches: vec![launch.clone()] }];
        let tape = Tape::new(vec![buffer("x"), buffer("y")], segments);
        let [before, expected, found] = [before, expected, found].map(|value| HostBuffer::Real(vec![value]));
        let written = [Written { before, expected, found }];
        judge(LaunchName::new(1, "step", &launch), &launch, &tape, &written, &[vec![0.5]])
    }

    #[test]
    fn an_element_passes_within_its_bound_and_nowhere_else() {
        let untouched = f32::from_bits(UNTOUCHED);
        for (before, expected, found, passes) in [
            (untouched, 1.0, 1.0, true),
            (untouched, 1.0, 1.5, true),
            (untouched, 1.0, 1.6, false),
            (untouched, 1.0, f32::NAN, false),
            (untouched, 1.0, untouched, false),
            (untouched, 1.0, f32::INFINITY, false),
            // Numbers that were there before and stay.
            (2.0, 2.0, 2.5, true),
            (2.0, 2.0, 2.6, false),
            // A launch that writes nothing, or no number, proves nothing.
            (untouched, untouched, untouched, false),
            (untouched, untouched, 1.0, false),
            (untouched, f32::NAN, f32::NAN, false),
            (1.0, f32::INFINITY, f32::INFINITY, false),
        ] {
            let result = judged(before, expected, found);
            assert_eq!(result.passed(), passes, "{before} {expected} {found}: {result:?}");
        }
    }

    #[test]
    fn the_worst_element_is_reported_with_both_values_and_its_share() {
        let result = judged(f32::from_bits(UNTOUCHED), 1.0, 1.25);
        let worst = Element { tensor: "y".into(), index: 0, gpu: 1.25, cpu: 1.0, share: 0.5 };
        assert_eq!((result.worst, result.compared, result.misses), (Some(worst), 1, 0));
        let overwritten = judged(f32::from_bits(UNTOUCHED), f32::from_bits(UNTOUCHED), 1.0);
        assert_eq!((overwritten.misses, overwritten.worst.unwrap().share), (1, f64::INFINITY));
    }
}
