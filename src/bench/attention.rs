//! Attention alone, as the model has it, for timing and for comparing: naive, fused, or a learner's function.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::timed_tape::{BufferContents, TimedLaunches, TimedTape, total_cost};
use crate::gpu::{BindingLimits, Gpu, Profile};
use crate::graph::ops::input;
use crate::graph::{
    Graph, GraphError, LoweringError, Reuse, RewriteReport, Rewrites, TapeBuilder, TensorType, Value,
    differentiate_from, rewrite,
};
use crate::script::{
    Initial, Inputs, ParameterDeclaration, REFERENCE, Script, ScriptError, TraceSizes, Tracer, replay,
};
use crate::tape::{
    Allocation, BufferId, Category, Cost, ElementKind, ExecutionError, HostBuffer, Launch, Segment, Tape, TapeError,
    normal,
};
use crate::train::attention_choice::{AttentionChoice, AttentionKind};

/// The sizes of one attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttentionSizes {
    /// B
    pub batch: usize,
    /// H
    pub heads: usize,
    /// T
    pub context_length: usize,
    /// D
    pub head_dim: usize,
}

impl AttentionSizes {
    /// As a script is traced for them.
    fn traced(&self) -> TraceSizes {
        let Self { batch, heads, context_length, head_dim } = *self;
        let width = heads.saturating_mul(head_dim);
        TraceSizes { batch, length: context_length, width, heads, context_length, layers: 1 }
    }
}

impl fmt::Display for AttentionSizes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, heads, context_length, head_dim } = self;
        write!(formatter, "B={batch} H={heads} T={context_length} D={head_dim}")
    }
}

/// A function and how it is computed.
#[derive(Clone, Debug)]
pub struct AttentionSubject {
    /// As `--attention` names it.
    pub name: String,
    pub script: Script,
    pub rewrites: Rewrites,
}

impl AttentionSubject {
    /// The reference, or the file that a choice names.
    ///
    /// # Errors
    /// As [`AttentionChoice::script`].
    pub fn of(choice: &AttentionChoice) -> Result<Self, ScriptError> {
        let script = choice.script()?.unwrap_or_else(|| REFERENCE.script());
        Ok(Self { name: choice.to_string(), script, rewrites: choice.kind.into() })
    }

    /// Whether the function runs at some of these sizes: at others it may refuse to.
    ///
    /// # Errors
    /// What it says of the first sizes, where it runs at none.
    pub fn check(&self, sizes: impl Iterator<Item = AttentionSizes>, tracer: &dyn Tracer) -> Result<(), ScriptError> {
        let mut refusal = None;
        for sizes in sizes {
            match tracer.trace(&self.script, &sizes.traced()) {
                Ok(_) => return Ok(()),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    /// The reference, computed in one of the two ways.
    pub fn reference(kind: AttentionKind) -> Self {
        let name = AttentionChoice::from(kind).to_string();
        Self { name, script: REFERENCE.script(), rewrites: kind.into() }
    }
}

/// What of an attention is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// The output.
    Forward,
    /// The gradients of what the function looks at and of its learned parameters, from what the forward pass left.
    Backward,
    /// Forward, then backward.
    Both,
}

impl Pass {
    pub const ALL: [Self; 3] = [Self::Forward, Self::Backward, Self::Both];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Both => "both",
        }
    }
}

/// An attention that cannot be planned or run.
#[derive(Debug, thiserror::Error)]
pub enum AttentionJobError {
    #[error("{sizes}: every size must be at least 1, and the width of all heads must be a number that can be counted")]
    Sizes { sizes: AttentionSizes },
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Lowering(#[from] LoweringError),
    #[error(transparent)]
    Tape(#[from] TapeError),
    #[error(transparent)]
    Execution(#[from] ExecutionError),
}

/// The segments of an attention's tape, in order.
mod segment {
    pub const FORWARD: usize = 0;
    pub const BACKWARD: usize = 1;
    /// Copies of results for the host, which are in no pass: in a model whoever comes next reads them where they are.
    pub const RESULTS: usize = 2;
}

/// An attention as a tape: what it takes can be known without running it.
///
/// Query, key and value are `[B, T, H D]`, a row a token, as a model's projection leaves them, and are split into heads as the
/// function does it. The gradients are those of `sum(output * upstream)`.
pub struct AttentionPlan {
    pub sizes: AttentionSizes,
    /// Segments forward, backward (empty where it was not asked for) and results.
    pub tape: Tape,
    /// Whether the function was fused, and if not, why.
    pub rewrites: Vec<RewriteReport>,
    /// x, query, key, value, the output's gradient.
    leaves: [BufferId; 5],
    parameters: Vec<(BufferId, Vec<f32>)>,
    output: BufferId,
    /// By what they are the gradient of.
    gradients: Vec<(String, BufferId)>,
}

/// A learned parameter as training begins with it.
fn initial_values(declared: &ParameterDeclaration, seed: u64, index: usize) -> Vec<f32> {
    let count = declared.shape.iter().product();
    match declared.initial {
        Initial::Constant(value) => vec![value as f32; count],
        Initial::Normal(deviation) => normal(seed, (LEAVES.len() + index) as u64, count, deviation),
    }
}

const LEAVES: [&str; 5] = ["x", "query", "key", "value", "d.output"];

impl AttentionPlan {
    /// Plans the forward pass, and the backward pass if `backward`, for an adapter, or for the CPU executor where there
    /// is none. [`Reuse::Pooled`] is what training has; only what was planned with [`Reuse::Never`] may run a segment
    /// again without those before it.
    ///
    /// # Errors
    /// A size of 0, a function that is wrong or refuses the sizes, a launch that the adapter cannot run.
    pub fn new(
        subject: &AttentionSubject,
        sizes: AttentionSizes,
        backward: bool,
        reuse: Reuse,
        profile: Option<&Profile>,
        tracer: &dyn Tracer,
    ) -> Result<Self, AttentionJobError> {
        let plan = Self::unchecked(subject, sizes, backward, reuse, profile, tracer)?;
        plan.tape.check(profile)?;
        Ok(plan)
    }

    /// As [`AttentionPlan::new`], for somebody who wants to know what it needs even where it cannot run.
    ///
    /// # Errors
    /// A size of 0, a function that is wrong or refuses the sizes, a size that no kernel can index.
    pub fn unchecked(
        subject: &AttentionSubject,
        sizes: AttentionSizes,
        backward: bool,
        reuse: Reuse,
        profile: Option<&Profile>,
        tracer: &dyn Tracer,
    ) -> Result<Self, AttentionJobError> {
        let AttentionSizes { batch, heads, context_length, head_dim } = sizes;
        let width = heads.checked_mul(head_dim).filter(|&width| width.min(batch).min(context_length) > 0);
        let width = width.ok_or(AttentionJobError::Sizes { sizes })?;
        let recording = tracer.trace(&subject.script, &sizes.traced())?.into_iter().next();
        let missing = || ScriptError::whole(&subject.script.file, "nothing was traced");
        let recording = recording.ok_or_else(missing)?;

        let mut graph = Graph::new();
        let g = &mut graph;
        let mut leaves = Vec::new();
        for name in LEAVES {
            leaves.push(input(g, name, TensorType::real([batch, context_length, width]))?);
        }
        let mut parameters = Vec::new();
        for declared in &recording.parameters {
            parameters.push(input(g, &declared.name, TensorType::real(declared.shape.clone()))?);
        }
        g.set_scope("attention");
        let inputs = Inputs { x: leaves[0], query: leaves[1], key: leaves[2], value: leaves[3] };
        let replayed = replay(g, &subject.script, &recording, &inputs, &parameters)?;
        g.set_scope("");
        let rewrites = rewrite(g, subject.rewrites, &[]);
        let forward_nodes = g.nodes.len();
        // A function need not look at everything that it is called with.
        let used = g.needed(&[replayed.output]);
        let mut of: Vec<(String, Value)> = Vec::new();
        if backward {
            let parameters = recording.parameters.iter().zip(&parameters);
            let arguments = LEAVES.iter().map(|name| name.to_string()).zip(leaves.iter().copied()).take(4);
            of.extend(arguments.chain(parameters.map(|(declared, &value)| (declared.name.clone(), value))));
            of.retain(|(_, value)| used[value.node]);
        }
        let wanted: Vec<Value> = of.iter().map(|&(_, value)| value).collect();
        let wanted = differentiate_from(g, &[(replayed.output, leaves[4])], &wanted)?;

        let mut builder = TapeBuilder::new(profile.cloned(), reuse);
        let mut persistent = |name: String, value: Value, category: Category| -> BufferId {
            builder.persistent(name, graph.shape(value), ElementKind::Real, category)
        };
        let mut places: HashMap<Value, BufferId> = HashMap::new();
        for (name, &value) in LEAVES.iter().zip(&leaves) {
            places.insert(value, persistent((*name).into(), value, Category::Input));
        }
        for (declared, &value) in recording.parameters.iter().zip(&parameters) {
            places.insert(value, persistent(declared.name.clone(), value, Category::Parameter));
        }
        let output = persistent("output".into(), replayed.output, Category::Activation);
        let mut roots = vec![(replayed.output, Some(output))];
        let mut gradients = Vec::new();
        for ((name, _), &gradient) in of.iter().zip(&wanted) {
            let buffer = persistent(format!("d.{name}"), gradient, Category::Gradient);
            gradients.push((name.clone(), buffer));
            roots.push((gradient, Some(buffer)));
        }
        builder.begin_segment("forward");
        let [forward, all] = builder.lower_in_parts(&graph, &places, &roots, forward_nodes)?;
        let mut tape = builder.finish_unchecked();
        split(&mut tape, [forward, all]);

        let place = |value: &Value| places[value];
        let initial = recording.parameters.iter().enumerate();
        let initial = initial.map(|(index, declared)| initial_values(declared, 1, index));
        Ok(Self {
            sizes,
            tape,
            rewrites,
            leaves: [0, 1, 2, 3, 4].map(|leaf| place(&leaves[leaf])),
            parameters: parameters.iter().map(place).zip(initial).collect(),
            output,
            gradients,
        })
    }

    /// Every buffer that [`AttentionJob::set_up`] makes for its tape, on a device with these limits or in host memory.
    pub fn allocations(&self, limits: Option<&BindingLimits>) -> Vec<Allocation> {
        TimedTape::allocations(&self.tape, limits)
    }

    /// What a pass must at least compute and move.
    pub fn cost(&self, pass: Pass) -> Cost {
        total_cost(self.launches(pass))
    }

    /// The launches of a pass, in order.
    pub fn launches(&self, pass: Pass) -> impl Iterator<Item = &Launch> {
        self.tape.segments[segments(pass)].iter().flat_map(|segment| &segment.launches)
    }

    /// Seeded normal values for x, query, key, value and the output's gradient, and the parameters' first values.
    fn contents(&self, seed: u64) -> Vec<BufferContents> {
        let elements = |buffer: BufferId| self.tape.buffers[buffer].elements as usize;
        let leaves = self.leaves.iter().zip(0u64..);
        let drawn = leaves.map(|(&buffer, tensor)| (buffer, normal(seed, tensor, elements(buffer), 1.0)));
        let all = drawn.chain(self.parameters.iter().cloned());
        all.map(|(buffer, values)| (buffer, HostBuffer::Real(values))).collect()
    }
}

fn segments(pass: Pass) -> std::ops::Range<usize> {
    match pass {
        Pass::Forward => segment::FORWARD..segment::BACKWARD,
        Pass::Backward => segment::BACKWARD..segment::RESULTS,
        Pass::Both => segment::FORWARD..segment::RESULTS,
    }
}

/// Cuts the only segment into three, where the backward pass and where the copies of the results begin.
fn split(tape: &mut Tape, [backward, results]: [usize; 2]) {
    let Some(mut whole) = tape.segments.pop() else { return };
    // What one part leaves, another reads.
    tape.tenants.iter_mut().for_each(|tenant| tenant.lifetime = None);
    let results = whole.launches.split_off(results);
    let backward = whole.launches.split_off(backward);
    tape.segments.push(whole);
    tape.segments.push(Segment { name: "backward".into(), launches: backward });
    tape.segments.push(Segment { name: "results".into(), launches: results });
}

/// An attention on an executor, with seeded inputs, compiled and run once.
pub struct AttentionJob {
    pub plan: AttentionPlan,
    tape: TimedTape,
}

impl AttentionJob {
    /// Plans an attention without reuse of buffers, sets it up on `gpu` (`None` for the CPU executor) and runs it once.
    /// Jobs of the same sizes and seed have the same inputs.
    ///
    /// # Errors
    /// As [`AttentionPlan::new`]; memory that is not granted, a device that fails.
    pub async fn new(
        gpu: Option<&Arc<Gpu>>,
        subject: &AttentionSubject,
        sizes: AttentionSizes,
        backward: bool,
        seed: u64,
        tracer: &dyn Tracer,
    ) -> Result<Self, AttentionJobError> {
        let profile = gpu.map(|gpu| &gpu.profile);
        let plan = AttentionPlan::new(subject, sizes, backward, Reuse::Never, profile, tracer)?;
        Self::set_up(gpu, plan, seed).await
    }

    /// Sets a plan for `gpu`, or for the CPU executor, up and runs it once. One with pooled buffers is good for whole
    /// passes from the forward one on.
    ///
    /// # Errors
    /// A launch that the adapter cannot run, memory that is not granted, a device that fails.
    pub async fn set_up(gpu: Option<&Arc<Gpu>>, plan: AttentionPlan, seed: u64) -> Result<Self, AttentionJobError> {
        let tape = TimedTape::new(gpu, plan.tape.clone(), &plan.contents(seed)).await?;
        Ok(Self { plan, tape })
    }

    /// Bytes of the buffers that were made for the tape, added up where they were made.
    pub fn allocated_bytes(&self) -> u64 {
        self.tape.allocated_bytes()
    }

    /// A pass as work that can be timed, alone: what it reads is never overwritten.
    pub fn pass(&self, pass: Pass) -> TimedLaunches<'_> {
        self.tape.segments(segments(pass))
    }

    /// Seconds of setting up and of the first run, compiling included.
    pub fn first_seconds(&self) -> f64 {
        self.tape.first_seconds()
    }

    /// The output `[B, T, H D]`.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn output(&self) -> Result<Vec<f32>, ExecutionError> {
        self.tape.executor().read(self.plan.output).await
    }

    /// The gradients of x, query, key, value `[B, T, H D]` and of learned parameters, as far as the output depends on them,
    /// by name; none where there is no backward pass.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn gradients(&self) -> Result<Vec<(String, Vec<f32>)>, ExecutionError> {
        let mut gradients = Vec::new();
        for (name, buffer) in &self.plan.gradients {
            gradients.push((name.clone(), self.tape.executor().read(*buffer).await?));
        }
        Ok(gradients)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::script::{GALLERY, TraceHere};

    const SIZES: AttentionSizes = AttentionSizes { batch: 2, heads: 3, context_length: 24, head_dim: 8 };

    fn subjects() -> Vec<AttentionSubject> {
        let names = ["naive", "fused"].into_iter().map(String::from);
        let files = GALLERY.iter().map(|file| format!("builtin:{}", file.name));
        names.chain(files).map(|name| AttentionSubject::of(&name.parse().unwrap()).unwrap()).collect()
    }

    fn plan(subject: &AttentionSubject, backward: bool) -> AttentionPlan {
        AttentionPlan::new(subject, SIZES, backward, Reuse::Never, None, &TraceHere).unwrap()
    }

    #[test]
    fn a_pass_overwrites_nothing_that_it_reads() {
        for subject in subjects() {
            let plan = plan(&subject, true);
            for pass in Pass::ALL {
                let mut written = HashSet::new();
                let mut needed = HashSet::new();
                for launch in plan.launches(pass) {
                    for (operand, window) in launch.operands.iter().enumerate() {
                        let fresh = !written.contains(&window.buffer);
                        if fresh && !launch.kernel.writes.contains(&operand) {
                            needed.insert(window.buffer);
                        }
                    }
                    written.extend(launch.kernel.writes.iter().map(|&operand| launch.operands[operand].buffer));
                }
                assert!(needed.is_disjoint(&written), "{} {}", subject.name, pass.word());
                assert!(!needed.is_empty(), "{} {}", subject.name, pass.word());
            }
        }
    }

    #[test]
    fn the_forward_pass_is_the_same_with_a_backward_pass_behind_it() {
        for subject in subjects() {
            let kernels = |plan: &AttentionPlan| -> Vec<&str> {
                plan.launches(Pass::Forward).map(|launch| launch.kernel.name).collect()
            };
            let (alone, whole) = (plan(&subject, false), plan(&subject, true));
            assert_eq!(kernels(&alone), kernels(&whole), "{}", subject.name);
            assert_eq!(alone.launches(Pass::Backward).count(), 0);
            assert!(whole.launches(Pass::Backward).count() > 0);
            assert_eq!(
                whole.launches(Pass::Both).count(),
                whole.launches(Pass::Forward).count() + whole.launches(Pass::Backward).count()
            );
            for pass in [Pass::Forward, Pass::Backward] {
                assert!(whole.cost(pass).flops > 0 && whole.cost(pass).bytes > 0, "{}", subject.name);
            }
        }
    }

    #[test]
    fn fused_attention_launches_its_kernels_in_their_passes() {
        let plan = plan(&AttentionSubject::reference(AttentionKind::Fused), true);
        let kernels = |pass| plan.launches(pass).map(|launch| launch.kernel.name).collect::<Vec<_>>();
        assert_eq!(kernels(Pass::Forward), ["attention_forward"]);
        assert!(kernels(Pass::Backward).starts_with(&["attention_delta"]), "{:?}", kernels(Pass::Backward));
        assert!(plan.rewrites.iter().all(|report| report.outcome.is_ok()));
    }

    #[test]
    fn naive_and_fused_agree_however_often_a_pass_is_repeated() {
        pollster::block_on(async {
            let mut results = Vec::new();
            for kind in [AttentionKind::Naive, AttentionKind::Fused] {
                let subject = AttentionSubject::reference(kind);
                let job = AttentionJob::new(None, &subject, SIZES, true, 5, &TraceHere).await.unwrap();
                let before = (job.output().await.unwrap(), job.gradients().await.unwrap());
                job.pass(Pass::Backward).run(2).await.unwrap();
                job.tape.segments(segment::RESULTS..segment::RESULTS + 1).run(1).await.unwrap();
                assert_eq!(before, (job.output().await.unwrap(), job.gradients().await.unwrap()));
                results.push(before);
            }
            let [(naive, of_naive), (fused, of_fused)] = &results[..] else { panic!() };
            assert_eq!(naive.len(), 2 * 24 * 24);
            let names: Vec<&str> = of_naive.iter().map(|(name, _)| &**name).collect();
            assert_eq!(names, ["query", "key", "value"]);
            let gradients = of_naive.iter().zip(of_fused).map(|((_, naive), (_, fused))| (naive, fused));
            let pairs = std::iter::once((naive, fused)).chain(gradients);
            for (naive, fused) in pairs {
                let largest = naive.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
                assert!(largest > 0.1, "{largest}");
                assert!(naive.iter().zip(fused).all(|(a, b)| (a - b).abs() <= 1e-5 * largest));
            }
        });
    }

    #[test]
    fn what_cannot_be_planned_is_told() {
        let plan = |sizes| {
            let subject = AttentionSubject::reference(AttentionKind::Naive);
            let profile = Profile::webgpu_defaults();
            AttentionPlan::new(&subject, sizes, true, Reuse::Never, Some(&profile), &TraceHere).map(|_| ()).unwrap_err()
        };
        for (sizes, expected) in [
            (AttentionSizes { heads: 0, ..SIZES }, "B=2 H=0 T=24 D=8: every size must be at least 1"),
            (AttentionSizes { heads: usize::MAX, head_dim: 2, ..SIZES }, "every size must be at least 1"),
            (AttentionSizes { batch: 1, heads: 4, context_length: 5000, head_dim: 64 }, "400000000"),
        ] {
            let error = plan(sizes).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
