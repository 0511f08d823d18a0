//! What the layer decided for calls of one kind.

use std::sync::{Arc, Mutex, PoisonError};

use crate::event::Facts;

use super::clocks::{Clocks, Crawl};
use super::crawling::Learned;

/// What the layer decided for calls of one kind, and learned from them.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) clocks: Clocks,
    pub(super) facts: Facts,
    /// Shared with the plans of requests that bring clocks of their own.
    learned: Arc<Mutex<Learned>>,
}

// === impl Plan ===

impl Plan {
    pub(super) fn new(clocks: Clocks, facts: Facts) -> Self {
        Self { clocks, facts, learned: Arc::new(Mutex::new(Learned::NOTHING)) }
    }

    /// The same for a request's own clocks: what is learned is learned together.
    pub(crate) fn with(&self, clocks: Clocks) -> Self {
        Self { clocks, facts: self.facts.clone(), learned: Arc::clone(&self.learned) }
    }

    /// Whether a window's rate is no crawl; it is learned from then.
    pub(super) fn is_brisk(&self, rate: f64, crawl: Crawl) -> bool {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).is_brisk(rate, crawl)
    }
}
