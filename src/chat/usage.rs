//! Tokens used.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// The tokens of a reply, or of many added up.
///
/// Within one reply a later figure replaces an earlier one; `+` adds replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// All input, cache reads and writes included.
    pub input: u64,
    /// The part of the input read from a cache.
    pub cached_read: u64,
    /// The part of the input written to a cache.
    pub cached_write: u64,
    /// All output, reasoning included.
    pub output: u64,
    /// The part of the output that was reasoning.
    pub reasoning: u64,
}

// === impl Usage ===

impl Usage {
    /// Input and output.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached_read: self.cached_read.saturating_add(other.cached_read),
            cached_write: self.cached_write.saturating_add(other.cached_write),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), Add::add)
    }
}
