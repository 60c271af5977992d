//! Where a function is defined and where it has no derivative. Rows of the element-wise table and ops state it of
//! themselves; the finite-difference tests draw their inputs from the statement.

use std::fmt;

/// Values of one input for which a function is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defined {
    /// Every finite number.
    Everywhere,
    /// Numbers greater than 0.
    Positive,
    /// Numbers other than 0.
    NonZero,
    /// Token ids below the size of the vocabulary.
    Tokens,
    /// Token ids, or all bits set for a target that is ignored.
    Targets,
}

/// Where a function that is defined jumps or bends, so that its gradient rule is only one of several choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinks {
    Nowhere,
    /// Where an element of an input is 0.
    AtZero,
    /// Where an element of the input of this number is 0.
    AtZeroIn(usize),
    /// Where two elements that meet are equal.
    AtTies,
    /// Where the largest element along this axis occurs more than once.
    AtTiesAlong(usize),
}

/// What a function says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// It has a gradient rule, which holds wherever all inputs are defined and no kink is met.
    Differentiable {
        /// By input; the last stands for all that follow.
        defined: &'static [Defined],
        kinks: Kinks,
    },
    /// It has no gradient rule.
    NotDifferentiable {
        /// For what, in the words of the error that says so.
        what: &'static str,
    },
}

impl Domain {
    /// Nothing goes in, so nothing is asked.
    pub const LEAF: Self = Self::smooth(&[]);
    /// Defined and differentiable everywhere, in every input.
    pub const SMOOTH: Self = Self::smooth(&[Defined::Everywhere]);
    /// Differentiable where every input is greater than 0.
    pub const POSITIVE: Self = Self::smooth(&[Defined::Positive]);

    /// Differentiable wherever it is defined.
    pub const fn smooth(defined: &'static [Defined]) -> Self {
        Self::Differentiable { defined, kinks: Kinks::Nowhere }
    }

    /// Defined everywhere, and differentiable but for these places.
    pub const fn with_kinks(kinks: Kinks) -> Self {
        Self::Differentiable { defined: &[Defined::Everywhere], kinks }
    }

    /// Where an input is defined; `None` where there is no such input or no gradient.
    pub fn defined(&self, input: usize) -> Option<Defined> {
        match self {
            Self::Differentiable { defined, .. } => defined.get(input).or(defined.last()).copied(),
            Self::NotDifferentiable { .. } => None,
        }
    }

    /// Where it has kinks.
    pub fn kinks(&self) -> Kinks {
        match self {
            Self::Differentiable { kinks, .. } => *kinks,
            Self::NotDifferentiable { .. } => Kinks::Nowhere,
        }
    }
}

impl fmt::Display for Defined {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Everywhere => "every number",
            Self::Positive => "numbers above 0",
            Self::NonZero => "numbers other than 0",
            Self::Tokens => "token ids of the vocabulary",
            Self::Targets => "token ids of the vocabulary or all bits set",
        })
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDifferentiable { what } => write!(formatter, "no gradient for {what}"),
            Self::Differentiable { defined: [], .. } => formatter.write_str("no inputs"),
            Self::Differentiable { defined, kinks } => {
                let defined: Vec<String> = defined.iter().map(ToString::to_string).collect();
                write!(formatter, "defined for {}", defined.join(", "))?;
                match kinks {
                    Kinks::Nowhere => Ok(()),
                    Kinks::AtZero => formatter.write_str("; kinks where an element is 0"),
                    Kinks::AtZeroIn(input) => write!(formatter, "; kinks where an element of input {input} is 0"),
                    Kinks::AtTies => formatter.write_str("; kinks where two elements are equal"),
                    Kinks::AtTiesAlong(axis) => {
                        write!(formatter, "; kinks where the largest along axis {axis} occurs twice")
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_statement_stands_for_all_inputs_that_follow() {
        let divide = Domain::smooth(&[Defined::Everywhere, Defined::NonZero]);
        assert_eq!(
            [0, 1, 2].map(|input| divide.defined(input)),
            [Some(Defined::Everywhere), Some(Defined::NonZero), Some(Defined::NonZero)]
        );
        assert_eq!(Domain::LEAF.defined(0), None);
        assert_eq!(divide.to_string(), "defined for every number, numbers other than 0");
        let maximum = Domain::with_kinks(Kinks::AtTiesAlong(2));
        assert_eq!(maximum.to_string(), "defined for every number; kinks where the largest along axis 2 occurs twice");
    }
}
