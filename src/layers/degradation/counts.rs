//! What the rungs did so far.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// What a ladder did so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The rungs, best first.
    pub rungs: Vec<RungSnapshot>,
}

/// What a rung did so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RungSnapshot {
    /// Which.
    pub rung: String,
    /// How often it was tried.
    pub tried: u64,
    /// How often it answered.
    pub answered: u64,
}

/// What one rung did, counted as it goes.
#[derive(Debug, Default)]
pub(super) struct Counts {
    tried: AtomicU64,
    answered: AtomicU64,
}

// === impl Counts ===

impl Counts {
    pub(super) fn count(&self, answered: bool) {
        self.tried.fetch_add(1, Ordering::Relaxed);
        self.answered.fetch_add(u64::from(answered), Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self, rung: &str) -> RungSnapshot {
        RungSnapshot {
            rung: rung.to_owned(),
            tried: self.tried.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
        }
    }
}
