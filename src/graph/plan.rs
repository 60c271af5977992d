//! From lowered launches to a tape: designs chosen, lifetimes found, buffers pooled.

use std::collections::HashMap;

use super::lowering::{Lowering, LoweringError};
use super::view::View;
use super::{Graph, Value};
use crate::gpu::Profile;
use crate::tape::{
    BufferId, BufferWindow, Category, ElementKind, Kernel, KernelParameters, Launch, Segment, Tape, TapeBuffer,
    TapeError,
};

/// Whether buffers whose contents are done with are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The least memory: what training uses.
    Pooled,
    /// Every value keeps its own buffer, so that two executors can be compared buffer by buffer after a step.
    Never,
}

/// Collects segments of launches over named buffers, then plans them into one [`Tape`].
pub struct TapeBuilder {
    /// `None` where only the CPU executor will run the tape.
    profile: Option<Profile>,
    reuse: Reuse,
    buffers: Vec<TapeBuffer>,
    segments: Vec<Segment>,
}

impl TapeBuilder {
    pub fn new(profile: Option<Profile>, reuse: Reuse) -> Self {
        Self { profile, reuse, buffers: Vec::new(), segments: Vec::new() }
    }

    /// A buffer whose contents live on between runs: weights, moments, inputs, results.
    pub fn persistent(
        &mut self,
        name: impl Into<String>,
        elements: u64,
        kind: ElementKind,
        category: Category,
    ) -> BufferId {
        self.buffers.push(TapeBuffer { name: name.into(), elements, kind, category, persistent: true });
        self.buffers.len() - 1
    }

    /// Begins a segment; launches go there until the next begins.
    pub fn begin_segment(&mut self, name: impl Into<String>) {
        self.segments.push(Segment { name: name.into(), launches: Vec::new() });
    }

    /// A buffer whose contents matter only within the current segment.
    pub fn transient(
        &mut self,
        name: impl Into<String>,
        elements: u64,
        kind: ElementKind,
        category: Category,
    ) -> BufferId {
        let buffer = TapeBuffer { name: name.into(), elements, kind, category, persistent: false };
        self.buffers.push(buffer);
        self.buffers.len() - 1
    }

    /// Appends to the current segment a launch over whole buffers, with the design that the plan's adapter prefers.
    pub fn launch<P: KernelParameters>(
        &mut self,
        kernel: &'static Kernel,
        parameters: P,
        operands: &[BufferId],
        label: impl Into<String>,
    ) {
        let design = self.profile.as_ref().and_then(|profile| kernel.choose(&parameters, profile));
        let windows = operands
            .iter()
            .map(|&buffer| BufferWindow {
                buffer,
                offset: 0,
                bytes: self.buffers[buffer].bytes().max(4).next_multiple_of(16),
            })
            .collect();
        let launch = Launch::new(kernel, design, parameters, windows, label);
        if let Some(segment) = self.segments.last_mut() {
            segment.launches.push(launch);
        }
    }

    /// Lowers into the current segment what `roots` need of a graph. `leaves` says where its inputs lie; a root that
    /// names a buffer is computed into it. Returns where each root lies, always row-major from the start of a buffer.
    ///
    /// # Errors
    /// [`LoweringError`] for an input without a place or a size that no kernel can index.
    pub fn lower(
        &mut self,
        graph: &Graph,
        leaves: &HashMap<Value, BufferId>,
        roots: &[(Value, Option<BufferId>)],
    ) -> Result<Vec<View>, LoweringError> {
        Lowering::run(graph, self, leaves, roots)
    }

    /// Plans the tape: pools buffers by lifetime, then checks every launch against the adapter.
    ///
    /// # Errors
    /// [`TapeError::Launch`] for the first launch that cannot run on the adapter, with the limit it breaks.
    pub fn finish(self) -> Result<Tape, TapeError> {
        let mut tape = Tape { buffers: self.buffers, segments: self.segments };
        if self.reuse == Reuse::Pooled {
            pool(&mut tape);
        }
        if let Some(profile) = &self.profile {
            tape.check(profile)?;
        }
        Ok(tape)
    }
}

/// First and last launch of a segment that touches a buffer.
#[derive(Clone, Copy)]
struct Lifetime {
    segment: usize,
    first: usize,
    last: usize,
}

fn lifetimes(tape: &Tape) -> Vec<Option<Lifetime>> {
    let mut lifetimes: Vec<Option<Lifetime>> = vec![None; tape.buffers.len()];
    for (segment, content) in tape.segments.iter().enumerate() {
        for (index, launch) in content.launches.iter().enumerate() {
            for window in &launch.operands {
                let lifetime = lifetimes[window.buffer].get_or_insert(Lifetime { segment, first: index, last: index });
                lifetime.last = index;
            }
        }
    }
    lifetimes
}

/// Gives buffers with disjoint lifetimes the same allocation: the smallest free one that is large enough, else the
/// largest free one, grown. Buffers of different kinds or categories are never joined, so that the ledger stays true.
/// Segments never overlap in time, so all start from the same pool.
fn pool(tape: &mut Tape) {
    let lifetimes = lifetimes(tape);
    let mut allocations: Vec<TapeBuffer> = Vec::new();
    let mut place: Vec<Option<BufferId>> = vec![None; tape.buffers.len()];
    for (buffer, described) in tape.buffers.iter().enumerate() {
        if described.persistent {
            place[buffer] = Some(allocations.len());
            allocations.push(described.clone());
        }
    }
    let fixed = allocations.len();
    for segment in 0..tape.segments.len() {
        let mut free: Vec<BufferId> = (fixed..allocations.len()).collect();
        let mut begins: Vec<Vec<BufferId>> = vec![Vec::new(); tape.segments[segment].launches.len()];
        let mut ends = begins.clone();
        for (buffer, lifetime) in lifetimes.iter().enumerate() {
            if let Some(lifetime) = lifetime.filter(|life| life.segment == segment)
                && !tape.buffers[buffer].persistent
            {
                begins[lifetime.first].push(buffer);
                ends[lifetime.last].push(buffer);
            }
        }
        for (begin, end) in begins.into_iter().zip(ends) {
            for buffer in begin {
                let wanted = &tape.buffers[buffer];
                let fits = |&(_, &candidate): &(usize, &BufferId)| {
                    let allocation = &allocations[candidate];
                    allocation.kind == wanted.kind && allocation.category == wanted.category
                };
                let large_enough =
                    |&(_, &candidate): &(usize, &BufferId)| allocations[candidate].elements >= wanted.elements;
                let size = |&(_, &candidate): &(usize, &BufferId)| allocations[candidate].elements;
                let chosen = free.iter().enumerate().filter(fits).filter(large_enough).min_by_key(size);
                let chosen = chosen.or_else(|| free.iter().enumerate().filter(fits).max_by_key(size));
                let allocation = match chosen.map(|(at, _)| at) {
                    Some(at) => free.swap_remove(at),
                    None => {
                        allocations.push(TapeBuffer { name: String::new(), ..wanted.clone() });
                        allocations.len() - 1
                    }
                };
                let shared = &mut allocations[allocation];
                shared.elements = shared.elements.max(wanted.elements);
                if shared.name.is_empty() {
                    shared.name = wanted.name.clone();
                }
                place[buffer] = Some(allocation);
            }
            free.extend(end.into_iter().filter_map(|buffer| place[buffer]));
        }
    }
    for launch in tape.segments.iter_mut().flat_map(|segment| &mut segment.launches) {
        for window in &mut launch.operands {
            if let Some(allocation) = place[window.buffer] {
                window.buffer = allocation;
            }
        }
    }
    tape.buffers = allocations;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{fill, unary};

    fn chain(reuse: Reuse) -> Tape {
        let mut builder = TapeBuilder::new(None, reuse);
        let weights = builder.persistent("weights", 8, ElementKind::Real, Category::Parameter);
        builder.begin_segment("step");
        let mut earlier = weights;
        for (index, elements) in [8u64, 4, 16, 2].into_iter().enumerate() {
            let next = builder.transient(format!("t{index}"), elements, ElementKind::Real, Category::Activation);
            let parameters = unary::Parameters { count: elements.min(2) as u32, operation: 0, constant: 0.0 };
            builder.launch(&unary::KERNEL, parameters, &[earlier, next], "copy");
            earlier = next;
        }
        builder.finish().unwrap()
    }

    #[test]
    fn buffers_with_disjoint_lifetimes_share_an_allocation_and_launches_never_meet_themselves() {
        let tape = chain(Reuse::Pooled);
        // t0 and t2 share, t1 and t3 share; the shared ones are as large as the larger.
        assert_eq!(tape.buffers.iter().map(|buffer| buffer.elements).collect::<Vec<_>>(), [8, 16, 4]);
        for launch in &tape.segments[0].launches {
            assert_ne!(launch.operands[0].buffer, launch.operands[1].buffer);
        }
        assert_eq!(chain(Reuse::Never).buffers.len(), 5);
    }

    #[test]
    fn persistent_buffers_are_never_shared() {
        let mut builder = TapeBuilder::new(None, Reuse::Pooled);
        let buffers: Vec<BufferId> = (0..3)
            .map(|index| builder.persistent(format!("p{index}"), 4, ElementKind::Real, Category::Parameter))
            .collect();
        builder.begin_segment("step");
        for buffer in buffers {
            builder.launch(&fill::KERNEL, fill::Parameters { count: 4, value: 1.0 }, &[buffer], "fill");
        }
        assert_eq!(builder.finish().unwrap().buffers.len(), 3);
    }
}
