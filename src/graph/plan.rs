//! From lowered launches to a tape: designs chosen, lifetimes found, buffers pooled.

use std::collections::HashMap;

use super::lowering::{Lowering, LoweringError};
use super::view::View;
use super::windows::{self, Access, Dimension, Part};
use super::{Graph, NodeId, Place, Value};
use crate::gpu::Profile;
use crate::tape::{
    BufferId, BufferWindow, Category, ElementKind, Kernel, KernelParameters, Launch, Lifetime, Segment, Tape,
    TapeBuffer, TapeError, Tenant,
};

/// Whether buffers whose contents are done with are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The least memory: what training uses.
    Pooled,
    /// Every value keeps its own buffer, so that two executors can be compared buffer by buffer after a step.
    Never,
}

/// The size of a buffer: a shape, or only how many elements there are.
pub struct Extent(pub Vec<u64>);

impl From<u64> for Extent {
    fn from(elements: u64) -> Self {
        Self(vec![elements])
    }
}

impl From<&[usize]> for Extent {
    fn from(shape: &[usize]) -> Self {
        Self(shape.iter().map(|&size| size as u64).collect())
    }
}

impl Extent {
    /// The largest number there is where no u64 counts them.
    fn elements(&self) -> u64 {
        self.0.iter().copied().fold(1, u64::saturating_mul)
    }
}

/// A buffer that was asked for, and its shape.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub buffer: TapeBuffer,
    pub shape: Vec<u64>,
}

impl Declared {
    fn new(name: String, extent: Extent, kind: ElementKind, category: Category, persistent: bool) -> Self {
        let buffer = TapeBuffer { name, elements: extent.elements(), kind, category, persistent };
        Self { buffer, shape: extent.0 }
    }

    fn tenant(self, buffer: BufferId, lifetime: Option<Lifetime>) -> Tenant {
        Tenant { name: self.buffer.name, shape: self.shape, elements: self.buffer.elements, buffer, lifetime }
    }
}

/// A launch and where in the model it belongs.
#[derive(Clone)]
pub(super) struct Placed {
    pub launch: Launch,
    pub place: Place,
}

/// A segment that is being put together.
pub(super) struct Draft {
    name: String,
    pub launches: Vec<Placed>,
}

/// Collects segments of launches over named buffers, then plans them into one [`Tape`].
pub struct TapeBuilder {
    /// `None` where only the CPU executor will run the tape.
    profile: Option<Profile>,
    reuse: Reuse,
    /// Kept between runs; numbered from 0 on, before and after planning.
    persistent: Vec<Declared>,
    /// Needed within one segment; numbered from [`TRANSIENT`] on until they are planned.
    pub(super) transient: Vec<Declared>,
    pub(super) segments: Vec<Draft>,
    /// Where launches belong that are appended from now on.
    place: Place,
}

/// The number of the first transient buffer before planning.
const TRANSIENT: BufferId = BufferId::MAX / 2;

/// Which of the transient buffers a buffer is, before planning; `None` for a persistent one.
pub(super) fn transient_index(buffer: BufferId) -> Option<usize> {
    buffer.checked_sub(TRANSIENT)
}

impl TapeBuilder {
    pub fn new(profile: Option<Profile>, reuse: Reuse) -> Self {
        let place = Place::default();
        Self { profile, reuse, persistent: Vec::new(), transient: Vec::new(), segments: Vec::new(), place }
    }

    /// A buffer whose contents live on between runs: weights, moments, inputs, results.
    pub fn persistent(
        &mut self,
        name: impl Into<String>,
        extent: impl Into<Extent>,
        kind: ElementKind,
        category: Category,
    ) -> BufferId {
        self.persistent.push(Declared::new(name.into(), extent.into(), kind, category, true));
        self.persistent.len() - 1
    }

    /// Begins a segment; launches go there until the next begins.
    pub fn begin_segment(&mut self, name: impl Into<String>) {
        self.segments.push(Draft { name: name.into(), launches: Vec::new() });
    }

    /// Launches appended from now on belong there.
    pub(super) fn set_place(&mut self, place: Place) {
        self.place = place;
    }

    /// A buffer whose contents matter only within the current segment.
    pub fn transient(
        &mut self,
        name: impl Into<String>,
        extent: impl Into<Extent>,
        kind: ElementKind,
        category: Category,
    ) -> BufferId {
        self.transient.push(Declared::new(name.into(), extent.into(), kind, category, false));
        TRANSIENT + self.transient.len() - 1
    }

    /// Another buffer like a transient one, under a name that says why.
    pub(super) fn another(&mut self, transient: usize, why: &str) -> BufferId {
        let mut declared = self.transient[transient].clone();
        declared.buffer.name = format!("{} ({why})", declared.buffer.name);
        self.transient.push(declared);
        TRANSIENT + self.transient.len() - 1
    }

    /// Appends to the current segment a launch over whole buffers, with the design that the plan's adapter prefers.
    pub fn launch<P: KernelParameters>(
        &mut self,
        kernel: &'static Kernel,
        parameters: P,
        operands: &[BufferId],
        label: impl Into<String>,
    ) {
        let windows = operands
            .iter()
            .map(|&buffer| BufferWindow { buffer, offset: 0, bytes: self.binding_bytes(buffer) })
            .collect();
        self.launch_over(kernel, parameters, windows, label);
    }

    /// As [`TapeBuilder::launch`], over parts of buffers.
    pub fn launch_over<P: KernelParameters>(
        &mut self,
        kernel: &'static Kernel,
        parameters: P,
        windows: Vec<BufferWindow>,
        label: impl Into<String>,
    ) {
        let design = self.profile.as_ref().and_then(|profile| kernel.choose(&parameters, profile));
        let launch = Launch::new(kernel, design, parameters, windows, label);
        let place = self.place;
        if let Some(segment) = self.segments.last_mut() {
            segment.launches.push(Placed { launch, place });
        }
    }

    /// What the whole of a buffer takes of a binding.
    fn binding_bytes(&self, buffer: BufferId) -> u64 {
        self.buffer(buffer).bytes().max(4).checked_next_multiple_of(16).unwrap_or(u64::MAX)
    }

    /// The parts that a launch must be divided into, so that each operand fits a binding; `None` where it runs over whole
    /// buffers. What no device allocates is not divided either: it is refused as a whole.
    pub(super) fn parts(&self, dimensions: &[Dimension], accesses: &[Access]) -> Option<Vec<Part>> {
        let limits = &self.profile.as_ref()?.limits;
        let most = limits.buffer_bytes.next_multiple_of(16);
        let allocated = accesses.iter().all(|access| self.binding_bytes(access.buffer) <= most);
        let divided = allocated && !self.fits_whole(accesses);
        divided.then(|| windows::divide(dimensions, accesses, limits)).flatten()
    }

    /// Whether the buffers of a launch can be bound as a whole.
    pub(super) fn fits_whole(&self, accesses: &[Access]) -> bool {
        self.profile.as_ref().is_none_or(|profile| {
            let most = windows::window_elements(&profile.limits) * 4;
            accesses.iter().all(|access| self.binding_bytes(access.buffer) <= most)
        })
    }

    fn buffer(&self, buffer: BufferId) -> &TapeBuffer {
        match transient_index(buffer) {
            Some(transient) => &self.transient[transient].buffer,
            None => &self.persistent[buffer].buffer,
        }
    }

    /// Lowers into the current segment what `roots` need of a graph. `leaves` says where its inputs lie; a root that
    /// names a buffer is computed into it. Returns where each root lies for launches that follow, row-major from the start
    /// of a buffer; to be read after a run, a root must name a persistent one.
    ///
    /// # Errors
    /// [`LoweringError`] for an input without a place or a size that no kernel can index.
    pub fn lower(
        &mut self,
        graph: &Graph,
        leaves: &HashMap<Value, BufferId>,
        roots: &[(Value, Option<BufferId>)],
    ) -> Result<Vec<View>, LoweringError> {
        let (views, _) = Lowering::run(graph, self, leaves, roots, graph.nodes.len())?;
        Ok(views)
    }

    /// As [`TapeBuilder::lower`], for whoever tells the parts of a segment apart: how many of its launches come before
    /// those of the node `from`, and how many before the copies that bring roots to their buffers.
    ///
    /// # Errors
    /// As [`TapeBuilder::lower`].
    pub fn lower_in_parts(
        &mut self,
        graph: &Graph,
        leaves: &HashMap<Value, BufferId>,
        roots: &[(Value, Option<BufferId>)],
        from: NodeId,
    ) -> Result<[usize; 2], LoweringError> {
        let (_, launches) = Lowering::run(graph, self, leaves, roots, from)?;
        Ok(launches)
    }

    /// Launches of the current segment so far.
    pub(super) fn launches(&self) -> usize {
        self.segments.last().map_or(0, |segment| segment.launches.len())
    }

    /// Plans the tape: pools buffers by lifetime, then checks every launch against the adapter.
    ///
    /// # Errors
    /// [`TapeError::Launch`] for the first launch that cannot run on the adapter, with the limit it breaks.
    pub fn finish(self) -> Result<Tape, TapeError> {
        let profile = self.profile.clone();
        let tape = self.finish_unchecked();
        tape.check(profile.as_ref())?;
        Ok(tape)
    }

    /// As [`TapeBuilder::finish`], for somebody who wants to know what a tape needs even where it cannot run.
    pub fn finish_unchecked(mut self) -> Tape {
        let lifetimes = lifetimes(self.transient.len(), &self.segments);
        book_what_is_kept(&mut self.transient, &self.segments, &lifetimes);
        let buffers: Vec<TapeBuffer> = self.transient.iter().map(|declared| declared.buffer.clone()).collect();
        let place = match self.reuse {
            Reuse::Pooled => pool(&buffers, &lifetimes, &self.segments),
            Reuse::Never => Placement { of_buffer: (0..buffers.len()).map(Some).collect(), allocations: buffers },
        };
        let first = self.persistent.len();
        let mut tape = Tape::default();
        for (number, declared) in self.persistent.into_iter().enumerate() {
            tape.buffers.push(declared.buffer.clone());
            tape.tenants.push(declared.tenant(number, None));
        }
        tape.buffers.extend(place.allocations);
        for ((declared, lifetime), allocation) in self.transient.into_iter().zip(lifetimes).zip(&place.of_buffer) {
            if let (Some(allocation), Some(lifetime)) = (allocation, lifetime) {
                tape.tenants.push(declared.tenant(first + allocation, Some(lifetime)));
            }
        }
        for draft in self.segments {
            let mut launches: Vec<Launch> = draft.launches.into_iter().map(|placed| placed.launch).collect();
            for window in launches.iter_mut().flat_map(|launch| &mut launch.operands) {
                if let Some(allocation) = transient_index(window.buffer).and_then(|at| place.of_buffer[at]) {
                    window.buffer = first + allocation;
                }
            }
            tape.segments.push(Segment { name: draft.name, launches });
        }
        tape
    }
}

fn lifetimes(transient: usize, segments: &[Draft]) -> Vec<Option<Lifetime>> {
    let mut lifetimes: Vec<Option<Lifetime>> = vec![None; transient];
    for (segment, content) in segments.iter().enumerate() {
        for (index, placed) in content.launches.iter().enumerate() {
            for at in placed.launch.operands.iter().filter_map(|window| transient_index(window.buffer)) {
                let lifetime = lifetimes[at].get_or_insert(Lifetime { segment, first: index, last: index });
                lifetime.last = index;
            }
        }
    }
    lifetimes
}

/// Activations that no backward pass reads are done with early: they are booked as workspace.
fn book_what_is_kept(transient: &mut [Declared], segments: &[Draft], lifetimes: &[Option<Lifetime>]) {
    for (declared, lifetime) in transient.iter_mut().zip(lifetimes) {
        let is_kept = lifetime.is_some_and(|Lifetime { segment, first, last }| {
            let backward = |launch: usize| segments[segment].launches[launch].place.backward;
            !backward(first) && backward(last)
        });
        if declared.buffer.category == Category::Activation && !is_kept {
            declared.buffer.category = Category::Workspace;
        }
    }
}

/// Where transient buffers are put.
struct Placement {
    allocations: Vec<TapeBuffer>,
    /// The allocation of each buffer; `None` for one that no launch touches.
    of_buffer: Vec<Option<usize>>,
}

/// Gives buffers with disjoint lifetimes the same allocation: the smallest free one that is large enough, else the
/// largest free one, grown. Buffers of different kinds or categories are never joined, so that the ledger stays true.
/// Segments never overlap in time, so all start from the same pool.
fn pool(transient: &[TapeBuffer], lifetimes: &[Option<Lifetime>], segments: &[Draft]) -> Placement {
    let mut allocations: Vec<TapeBuffer> = Vec::new();
    let mut of_buffer: Vec<Option<usize>> = vec![None; transient.len()];
    for (segment, content) in segments.iter().enumerate() {
        let mut free: Vec<usize> = (0..allocations.len()).collect();
        let mut begins: Vec<Vec<usize>> = vec![Vec::new(); content.launches.len()];
        let mut ends = begins.clone();
        for (buffer, lifetime) in lifetimes.iter().enumerate() {
            if let Some(lifetime) = lifetime.filter(|lifetime| lifetime.segment == segment) {
                begins[lifetime.first].push(buffer);
                ends[lifetime.last].push(buffer);
            }
        }
        for (begin, end) in begins.into_iter().zip(ends) {
            for buffer in begin {
                let allocation = take(&mut free, &mut allocations, &transient[buffer]);
                of_buffer[buffer] = Some(allocation);
            }
            free.extend(end.into_iter().filter_map(|buffer| of_buffer[buffer]));
        }
    }
    Placement { allocations, of_buffer }
}

/// The best free allocation for a buffer, taken and if need be grown; a new one where none is of its sort.
fn take(free: &mut Vec<usize>, allocations: &mut Vec<TapeBuffer>, wanted: &TapeBuffer) -> usize {
    let candidates = || {
        free.iter()
            .enumerate()
            .map(|(at, &allocation)| (at, &allocations[allocation]))
            .filter(|(_, allocation)| allocation.kind == wanted.kind && allocation.category == wanted.category)
    };
    let chosen = candidates()
        .filter(|(_, allocation)| allocation.elements >= wanted.elements)
        .min_by_key(|(_, allocation)| allocation.elements)
        .or_else(|| candidates().max_by_key(|(_, allocation)| allocation.elements))
        .map(|(at, _)| at);
    match chosen {
        Some(at) => {
            let allocation = free.swap_remove(at);
            allocations[allocation].elements = allocations[allocation].elements.max(wanted.elements);
            allocation
        }
        None => {
            allocations.push(wanted.clone());
            allocations.len() - 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{fill, unary};

    fn chain(reuse: Reuse) -> Tape {
        let mut builder = TapeBuilder::new(None, reuse);
        let weights = builder.persistent("weights", 8u64, ElementKind::Real, Category::Parameter);
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
            .map(|index| builder.persistent(format!("p{index}"), 4u64, ElementKind::Real, Category::Parameter))
            .collect();
        builder.begin_segment("step");
        for buffer in buffers {
            builder.launch(&fill::KERNEL, fill::Parameters { count: 4, value: 1.0, step: 0.0 }, &[buffer], "fill");
        }
        assert_eq!(builder.finish().unwrap().buffers.len(), 3);
    }
}
