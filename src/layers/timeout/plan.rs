//! What the layer decided for calls of one kind.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::chat::CallId;
use crate::event::{Fact, Facts};
use crate::failure::Clock;

use super::clocks::{Clocks, Crawl};
use super::crawling::Learned;
use super::snapshot::{ClocksSnapshot, Expired};

/// What the layer decided for calls of one kind, and learned from them.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) clocks: Clocks,
    facts: Facts,
    /// Shared with the plans of requests that bring clocks of their own.
    record: Arc<Mutex<Record>>,
}

/// What became of calls.
#[derive(Debug, Default)]
struct Record {
    learned: Learned,
    expired: Expired,
}

// === impl Plan ===

impl Plan {
    pub(super) fn new(clocks: Clocks, facts: Facts) -> Self {
        Self { clocks, facts, record: Arc::default() }
    }

    /// The same for a request's own clocks: what is learned is learned together.
    pub(crate) fn with(&self, clocks: Clocks) -> Self {
        Self { clocks, facts: self.facts.clone(), record: Arc::clone(&self.record) }
    }

    /// Whether a window's rate is no crawl; it is learned from then.
    pub(super) fn is_brisk(&self, rate: f64, crawl: Crawl) -> bool {
        self.record().learned.is_brisk(rate, crawl)
    }

    /// Tells that a stream crawls.
    pub(super) fn tell_crawling(&self, call: CallId, rate: f64) {
        self.facts.emit(&Fact::Crawling { call, rate });
    }

    /// Tells that a clock ran out.
    pub(super) fn tell_expired(&self, call: CallId, clock: Clock, after: Duration) {
        self.record().expired.count(clock);
        self.facts.emit(&Fact::TimedOut { call, clock, after });
    }

    pub(super) fn snapshot(&self) -> ClocksSnapshot {
        let record = self.record();
        ClocksSnapshot { clocks: self.clocks, expired: record.expired, usual_rate: record.learned.usual() }
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
