//! How fast a bucket fills, and how much it holds.

use super::sync::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::bucket::NEVER;

/// The furthest one step moves the word: a quarter of a year. What is dearer is wrong, and would wrap the word.
pub(super) const MOST: u64 = 1 << 53;

/// How a bucket's word is read. It stands apart from the word: keys under the same quotas share it, until one of them
/// is told otherwise.
#[derive(Debug)]
pub(super) struct Pace {
    /// How long one takes to come back.
    pub(super) period: AtomicU64,
    /// The most it holds.
    pub(super) capacity: AtomicU32,
    /// What a header took out of it and is to come back, as a distance of the word. Never more than is missing: what
    /// grew since would have run over in a bucket from which nothing was taken out.
    pub(super) withheld: AtomicU64,
    /// When that comes back.
    pub(super) reset_at: AtomicU64,
}

// === impl Pace ===

impl Pace {
    /// One comes back each `period`, and at most `capacity` are there.
    pub(super) fn new(period: u64, capacity: u32) -> Self {
        Self {
            period: AtomicU64::new(period),
            capacity: AtomicU32::new(capacity),
            withheld: AtomicU64::new(0),
            reset_at: AtomicU64::new(NEVER),
        }
    }

    #[inline]
    pub(super) fn capacity(&self) -> u32 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// The word of a bucket in which there are so many now.
    pub(super) fn word(&self, filled: u32, now: u64) -> u64 {
        now + self.weight(u64::from(self.capacity().saturating_sub(filled)))
    }

    /// How far so many move the word.
    #[inline]
    pub(super) fn weight(&self, count: u64) -> u64 {
        weight(count, self.period.load(Ordering::Relaxed))
    }
}

/// How far so many move a word at this period.
#[inline]
pub(super) fn weight(count: u64, period: u64) -> u64 {
    count.saturating_mul(period).min(MOST)
}

/// How long one takes to come back, rounded up so that a period never gives more than its quota.
pub(super) fn pace(limit: u32, period: Duration) -> u64 {
    let period = u64::try_from(period.as_nanos()).unwrap_or(MOST);
    period.div_ceil(u64::from(limit.max(1)))
}
