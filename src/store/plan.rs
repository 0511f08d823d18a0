//! What the accounts of one store share, and the words that each has for itself.

use super::sync::AtomicU64;
use std::time::Duration;

use crate::time::Instant;

use super::bucket::{LAST, ORIGIN};
use super::meter::Meter;
use super::quota::Quota;

/// So many words stand in the account itself: most providers count requests and tokens.
const FEW: usize = 2;

/// What is the same for all keys under the same quotas.
#[derive(Debug)]
pub(super) struct Plan {
    /// The instant that [`ORIGIN`] stands for.
    pub(super) birth: Instant,
    /// As they are while a key was told nothing. Nobody changes them.
    pub(super) meters: Box<[Meter]>,
}

/// The words of the buckets.
#[derive(Debug)]
pub(super) enum Words {
    Few([AtomicU64; FEW]),
    Many(Box<[AtomicU64]>),
}

// === impl Plan ===

impl Plan {
    pub(super) fn new(quotas: &[Quota], now: Instant) -> Self {
        Self { birth: now, meters: quotas.iter().copied().map(Meter::new).collect() }
    }

    pub(super) fn is_of(&self, quotas: &[Quota]) -> bool {
        self.meters.iter().map(Meter::quota).eq(quotas)
    }

    /// An instant in the ledgers' own time. One beyond [`LAST`] is that: what is added to an instant must not wrap it.
    #[inline]
    pub(super) fn tick(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.birth).as_nanos();
        ORIGIN.saturating_add(u64::try_from(since).unwrap_or(LAST)).min(LAST)
    }

    /// The instant of a tick.
    pub(super) fn instant(&self, tick: u64) -> Instant {
        let since = Duration::from_nanos(tick.saturating_sub(ORIGIN));
        self.birth.checked_add(since).unwrap_or(self.birth)
    }
}

// === impl Words ===

impl Words {
    pub(super) fn new(plan: &Plan, now: u64) -> Self {
        let mut words = plan.meters.iter().map(|meter| AtomicU64::new(meter.word(now)));
        if plan.meters.len() > FEW {
            return Self::Many(words.collect());
        }
        Self::Few(std::array::from_fn(|_| words.next().unwrap_or_default()))
    }

    /// All of them, and maybe more than there are quotas.
    #[inline]
    pub(super) const fn all(&self) -> &[AtomicU64] {
        match self {
            Self::Few(words) => words,
            Self::Many(words) => words,
        }
    }
}
