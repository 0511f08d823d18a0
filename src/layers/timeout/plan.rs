//! What the layer decided for calls of one kind.

use std::sync::{Mutex, PoisonError};

use crate::event::Facts;

use super::clocks::{Clocks, Crawl};
use super::crawling::Learned;

/// What the layer decided for calls of one kind, and learned from them.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) clocks: Clocks,
    pub(super) facts: Facts,
    learned: Mutex<Learned>,
}

// === impl Plan ===

impl Plan {
    pub(super) const fn new(clocks: Clocks, facts: Facts) -> Self {
        Self { clocks, facts, learned: Mutex::new(Learned::NOTHING) }
    }

    /// Whether a window's rate is no crawl; it is learned from then.
    pub(super) fn is_brisk(&self, rate: f64, crawl: Crawl) -> bool {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).is_brisk(rate, crawl)
    }
}
