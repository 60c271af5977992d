//! Whether a model sees the future: what stands behind a position is replaced, and nothing up to it may change.

use rand::Rng;

use super::config::GptConfig;
use super::forward::{ModelError, parameter_leaves};
use super::gpt::build;
use crate::graph::{Rewrites, TapeBuilder, rewrite};
use crate::random::{Stream, generator};
use crate::tape::{BufferId, Category, ElementKind, ExecutionError, Executor};

/// Targets that do not count.
const NO_TARGET: u32 = u32::MAX;

/// Where the probe's forward pass reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct CausalityBuffers {
    /// Words `[B, T]`.
    pub tokens: BufferId,
    /// Words `[B * T]`.
    pub targets: BufferId,
    /// The loss at each position `[B * T]`.
    pub rows: BufferId,
}

/// A segment of a tape that computes the loss at each position, and its sizes.
#[derive(Clone, Copy, Debug)]
pub struct CausalityProbe {
    pub segment: usize,
    pub buffers: CausalityBuffers,
    pub batch: usize,
    pub length: usize,
}

/// What the probe found.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Causality {
    /// Positions behind which everything was replaced.
    pub probed: usize,
    /// Those of them at or before which a loss changed, by whatever little: none in a causal model.
    pub moved: usize,
    /// The mean loss at the probed positions with the tokens that really follow, nats.
    pub parallel: f64,
    /// The same with random tokens in their place: what the model can predict without seeing them.
    pub honest: f64,
}

impl Causality {
    /// Whether there were losses that could move.
    pub fn is_finite(&self) -> bool {
        self.parallel.is_finite() && self.honest.is_finite()
    }

    pub fn sees_the_future(&self) -> bool {
        self.moved > 0
    }

    /// What seeing the future takes off the loss.
    pub fn gap(&self) -> f64 {
        self.honest - self.parallel
    }
}

impl std::fmt::Display for Causality {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { probed, moved, parallel, honest } = self;
        match self.sees_the_future() {
            false => {
                write!(formatter, "no loss moved at {probed} positions when all later tokens were replaced at random")
            }
            true => write!(
                formatter,
                "the model sees the future: {moved} of {probed} positions moved when later tokens were replaced at random; \
                 its loss there is {parallel:.4} with the tokens that follow and {honest:.4} without them (honest loss)"
            ),
        }
    }
}

/// Appends a segment that computes the loss at each position of `[batch, length]` tokens.
///
/// # Errors
/// A length beyond the model's context, or sizes that no kernel can index.
pub fn causality_segment(
    tape: &mut TapeBuilder,
    config: &GptConfig,
    parameters: &[BufferId],
    (batch, length): (usize, usize),
    rewrites: Rewrites,
) -> Result<CausalityBuffers, ModelError> {
    let mut gpt = build(config, batch, length)?;
    rewrite(&mut gpt.graph, rewrites, &[]);
    let positions = (batch * length) as u64;
    let mut words = |name: &str| tape.persistent(name, positions, ElementKind::Words, Category::Input);
    let (tokens, targets) = (words("causality.tokens"), words("causality.targets"));
    let rows = tape.persistent("causality.rows", positions, ElementKind::Real, Category::Control);
    let mut leaves = parameter_leaves(&gpt, parameters);
    leaves.extend([(gpt.tokens, tokens), (gpt.targets, targets)]);
    tape.begin_segment("causality");
    tape.lower(&gpt.graph, &leaves, &[(gpt.losses.rows, Some(rows))])?;
    Ok(CausalityBuffers { tokens, targets, rows })
}

impl CausalityProbe {
    async fn losses(&self, executor: &Executor, tokens: &[u32], targets: &[u32]) -> Result<Vec<f32>, ExecutionError> {
        executor.write_words(self.buffers.tokens, tokens)?;
        executor.write_words(self.buffers.targets, targets)?;
        executor.run(self.segment)?;
        executor.read(self.buffers.rows).await
    }

    /// Probes one position of each row of a batch: a random one that has a target and something behind it, drawn for
    /// `round`. `tokens` and `targets` are `[B, T]`, targets with all bits set where there is none.
    ///
    /// # Errors
    /// What the device reported.
    pub async fn probe(
        &self,
        executor: &Executor,
        config: &GptConfig,
        (tokens, targets): (&[u32], &[u32]),
        (seed, round): (u64, u64),
    ) -> Result<Causality, ExecutionError> {
        let length = self.length;
        let mut replaced = tokens.to_vec();
        let mut cuts = Vec::new();
        for (row, targets) in targets.chunks(length).enumerate() {
            let mut random = generator(seed, Stream::Causality, round, row as u64);
            let mut below = |limit: usize| (random.next_u64() % limit.max(1) as u64) as usize;
            let predicted = targets.iter().take_while(|&&target| target != NO_TARGET).count().min(length - 1);
            if predicted == 0 {
                continue;
            }
            let cut = below(predicted);
            for token in &mut replaced[row * length + cut + 1..(row + 1) * length] {
                // Another one for certain, where there is another.
                let step = 1 + below(config.vocabulary_size.saturating_sub(1));
                *token = ((*token as usize + step) % config.vocabulary_size) as u32;
            }
            cuts.push((row, cut));
        }
        let parallel = self.losses(executor, tokens, targets).await?;
        let honest = self.losses(executor, &replaced, targets).await?;
        let mut found = Causality { probed: cuts.len(), ..Causality::default() };
        for (row, cut) in cuts {
            let up_to = row * length..row * length + cut + 1;
            let same = parallel[up_to.clone()].iter().zip(&honest[up_to]).all(|(a, b)| a.to_bits() == b.to_bits());
            found.moved += usize::from(!same);
            let at = row * length + cut;
            found.parallel += f64::from(parallel[at]) / found.probed as f64;
            found.honest += f64::from(honest[at]) / found.probed as f64;
        }
        Ok(found)
    }
}

/// Several probes as one.
pub fn together(probes: &[Causality]) -> Causality {
    let probed: usize = probes.iter().map(|probe| probe.probed).sum();
    let mean = |of: fn(&Causality) -> f64| {
        probes.iter().map(|probe| of(probe) * probe.probed as f64).sum::<f64>() / probed.max(1) as f64
    };
    Causality {
        probed,
        moved: probes.iter().map(|probe| probe.moved).sum(),
        parallel: mean(|probe| probe.parallel),
        honest: mean(|probe| probe.honest),
    }
}
