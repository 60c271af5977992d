//! Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 4) of launches:
//! what a region computed on the way forward is not kept, but computed again when the backward pass first asks for it.
//!
//! The launches are the same ones, with the same design and parameters, on the same inputs: so are the bits.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Place;
use super::plan::{Placed, TapeBuilder, transient_index};
use crate::tape::{BufferId, Category};

/// What is computed again in the backward pass, and not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    /// Nothing: all that the backward pass reads is kept
    #[default]
    None,
    /// Attention scores and weights, from query and key
    Attention,
    /// Whole transformer blocks, from what flows into them
    Block,
}

impl Recompute {
    /// The region that a launch of the forward pass belongs to.
    fn region(self, place: Place) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Attention => place.block.filter(|_| place.attention),
            Self::Block => place.block,
        }
    }

    /// Whether a buffer that a region makes may be made again.
    fn covers(self, category: Category) -> bool {
        self == Self::Block || category == Category::AttentionScores
    }
}

impl TapeBuilder {
    /// Makes the current segment compute again what its backward pass reads, as far as `recompute` says. What other
    /// regions of the forward pass read, such as the output of a block, is kept.
    pub fn recompute(&mut self, recompute: Recompute) {
        let Some(segment) = self.segments.last_mut() else { return };
        let mut launches = std::mem::take(&mut segment.launches);
        let mut regions: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, placed) in launches.iter().enumerate().filter(|(_, placed)| !placed.place.backward) {
            if let Some(region) = recompute.region(placed.place) {
                regions.entry(region).or_default().push(number);
            }
        }
        // What to put before which launch of the backward pass.
        let mut inserted: BTreeMap<usize, Vec<Placed>> = BTreeMap::new();
        for members in regions.values() {
            if let Some((before, again)) = self.again(recompute, &mut launches, members) {
                inserted.entry(before).or_default().extend(again);
            }
        }
        let mut whole = Vec::with_capacity(launches.len());
        for (number, placed) in launches.into_iter().enumerate() {
            whole.extend(inserted.remove(&number).unwrap_or_default());
            whole.push(placed);
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.launches = whole;
        }
    }

    /// The launches that make again what the backward pass reads of a region, and the launch before which they must run.
    /// From there on the backward pass reads the copies.
    fn again(
        &mut self,
        recompute: Recompute,
        launches: &mut [Placed],
        members: &[usize],
    ) -> Option<(usize, Vec<Placed>)> {
        let made: HashSet<BufferId> = members.iter().flat_map(|&member| written(&launches[member])).collect();
        let inside: HashSet<usize> = members.iter().copied().collect();
        // What the rest of the forward pass reads stays where it is.
        let rest = launches.iter().enumerate();
        let rest = rest.filter(|(number, placed)| !placed.place.backward && !inside.contains(number));
        let kept: HashSet<BufferId> = rest.flat_map(|(_, placed)| read(placed)).collect();
        let made_again = |buffer: &BufferId| made.contains(buffer) && !kept.contains(buffer);
        let category = |buffer: BufferId| transient_index(buffer).map(|at| self.transient[at].buffer.category);
        let covered =
            |buffer: &BufferId| made_again(buffer) && category(*buffer).is_some_and(|found| recompute.covers(found));

        let backward = launches.iter().enumerate().filter(|(_, placed)| placed.place.backward);
        let readers: Vec<usize> =
            backward.filter(|(_, placed)| read(placed).any(|buffer| covered(&buffer))).map(|(at, _)| at).collect();
        let before = *readers.first()?;
        let wanted: HashSet<BufferId> =
            readers.iter().flat_map(|&reader| read(&launches[reader])).filter(covered).collect();

        // Backwards from what is wanted to everything that it is made of.
        let (mut needed, mut chosen) = (wanted.clone(), Vec::new());
        for &member in members.iter().rev() {
            if written(&launches[member]).any(|buffer| needed.contains(&buffer)) {
                needed.extend(read(&launches[member]).filter(made_again));
                chosen.push(member);
            }
        }
        chosen.reverse();

        let place = Place { backward: true, ..launches[before].place };
        let mut copies: HashMap<BufferId, BufferId> = HashMap::new();
        let mut again = Vec::with_capacity(chosen.len());
        for member in chosen {
            let mut launch = launches[member].launch.clone();
            for (operand, window) in launch.operands.iter_mut().enumerate() {
                let writes = launch.kernel.writes.contains(&operand);
                if let Some(transient) = transient_index(window.buffer)
                    && writes
                {
                    let copy = copies.entry(window.buffer);
                    window.buffer = *copy.or_insert_with(|| self.another(transient, "again"));
                } else if let Some(&copy) = copies.get(&window.buffer) {
                    window.buffer = copy;
                }
            }
            launch.label = format!("{} (again)", launch.label);
            launch.repeats = true;
            again.push(Placed { launch, place });
        }
        for reader in readers {
            for window in &mut launches[reader].launch.operands {
                if wanted.contains(&window.buffer)
                    && let Some(&copy) = copies.get(&window.buffer)
                {
                    window.buffer = copy;
                }
            }
        }
        Some((before, again))
    }
}

fn operands(placed: &Placed, are_written: bool) -> impl Iterator<Item = BufferId> {
    let launch = &placed.launch;
    let operands = launch.operands.iter().enumerate();
    operands
        .filter(move |(operand, _)| launch.kernel.writes.contains(operand) == are_written)
        .map(|(_, window)| window.buffer)
}

fn written(placed: &Placed) -> impl Iterator<Item = BufferId> {
    operands(placed, true)
}

fn read(placed: &Placed) -> impl Iterator<Item = BufferId> {
    operands(placed, false)
}
