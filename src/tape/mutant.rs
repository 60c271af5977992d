//! Faults planted on purpose in a shader's text, each of which some parity case must notice.

use crate::gpu::{Profile, SubgroupSizes};

/// What a planted fault breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MutantKind {
    /// An element is taken from or put in the wrong place.
    Index,
    /// The edge of a tile, of a block or of the whole is off.
    Tile,
    /// What a query sees begins or ends in the wrong place, or masked scores count.
    Mask,
    /// A sum under an older maximum is not scaled to the new one.
    Rescale,
    /// Invocations do not wait for each other.
    Barrier,
    /// A sum begins with what was there before, or is overwritten where it should be added to.
    Accumulator,
    /// A term or a factor is left out or changed.
    Formula,
}

impl MutantKind {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Tile => "tile",
            Self::Mask => "mask",
            Self::Rescale => "rescale",
            Self::Barrier => "barrier",
            Self::Accumulator => "accumulator",
            Self::Formula => "formula",
        }
    }
}

/// A fault planted in a shader's text, which the parity cases must notice.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    pub kind: MutantKind,
    /// What is broken, in words.
    pub name: &'static str,
    /// Text that occurs exactly once in the assembled shader.
    pub original: &'static str,
    pub replacement: &'static str,
    /// Invocations that the removed barrier keeps apart, where they are neighbours.
    neighbours: Option<u32>,
}

impl Mutant {
    pub const fn new(kind: MutantKind, name: &'static str, original: &'static str, replacement: &'static str) -> Self {
        Self { kind, name, original, replacement, neighbours: None }
    }

    /// Says that the removed barrier only keeps apart so many neighbours (those whose number divided by it is the same).
    /// A subgroup that is as wide runs them in step, and nothing can be noticed there.
    #[must_use]
    pub const fn among_neighbours(mut self, invocations: u32) -> Self {
        self.neighbours = Some(invocations);
        self
    }

    /// Whether it must be noticed on an adapter.
    ///
    /// # Errors
    /// Why it cannot show there.
    pub fn can_show(&self, profile: &Profile) -> Result<(), String> {
        let Some(neighbours) = self.neighbours else { return Ok(()) };
        match profile.subgroups {
            Some(SubgroupSizes { maximum, .. }) if maximum < neighbours => Ok(()),
            Some(SubgroupSizes { maximum, .. }) => Err(format!(
                "the barrier keeps {neighbours} neighbours apart, and {maximum} run in step on this adapter"
            )),
            None => Err(format!(
                "the barrier keeps {neighbours} neighbours apart, and the adapter does not say how many run in step"
            )),
        }
    }
}

/// The mutants of a design: several lists, since designs that share a text share its mutants.
#[derive(Clone, Copy, Debug)]
pub struct Mutants(pub(super) &'static [&'static [Mutant]]);

impl Mutants {
    pub fn iter(self) -> impl Iterator<Item = &'static Mutant> {
        self.0.iter().copied().flatten()
    }
}

impl IntoIterator for Mutants {
    type Item = &'static Mutant;
    type IntoIter = std::iter::Flatten<std::iter::Copied<std::slice::Iter<'static, &'static [Mutant]>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_among_neighbours_shows_only_where_fewer_run_in_step() {
        let anywhere = Mutant::new(MutantKind::Barrier, "nobody waits", "workgroupBarrier();", "");
        let neighbours = anywhere.among_neighbours(8);
        for (width, shows) in [(Some(4), true), (Some(8), false), (Some(32), false), (None, false)] {
            let subgroups = width.map(|width| SubgroupSizes { minimum: width, maximum: width });
            let profile = Profile { subgroups, ..Profile::webgpu_defaults() };
            assert_eq!(neighbours.can_show(&profile).is_ok(), shows, "{width:?}");
            assert!(anywhere.can_show(&profile).is_ok());
        }
    }
}
