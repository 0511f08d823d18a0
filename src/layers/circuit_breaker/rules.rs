//! What all circuits of a layer share.

use std::sync::Arc;
use std::time::Duration;

use crate::event::Facts;
use crate::time::{self, Instant};

use super::config::CircuitBreakerConfig;
use super::signals::Moment;
use super::window::BUCKETS;

/// What all circuits of a layer share.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) config: CircuitBreakerConfig,
    pub(super) facts: Facts,
    pub(super) name: Arc<str>,
    /// When buckets and starts of calls began to be counted.
    epoch: Instant,
    /// Nanoseconds of a bucket.
    width: u64,
}

// === impl Rules ===

impl Rules {
    pub(super) fn new(config: CircuitBreakerConfig, facts: Facts, name: Arc<str>) -> Self {
        let width = (nanos(config.window) / BUCKETS as u64).max(1);
        Self { config, facts, name, epoch: time::now(), width }
    }

    /// Nanoseconds since the beginning.
    #[inline]
    pub(super) fn nanos(&self) -> u64 {
        nanos(time::now().saturating_duration_since(self.epoch))
    }

    /// Each key has a jitter of its own, the same in each run and whatever the layer is called.
    pub(super) fn seed(&self, name: &str) -> Option<u64> {
        let key = name.get(self.name.len() + 1..).unwrap_or_default();
        let mix = |seed: u64| key.bytes().fold(seed, |seed, byte| seed.rotate_left(8) ^ u64::from(byte));
        self.config.seed.map(mix)
    }

    /// The bucket of now.
    #[inline]
    pub(super) fn bucket(&self) -> u64 {
        self.nanos() / self.width
    }

    /// Now, and its bucket.
    pub(super) fn moment(&self) -> Moment {
        let now = time::now();
        Moment { now, bucket: nanos(now.saturating_duration_since(self.epoch)) / self.width }
    }
}

/// Up to 584 years.
#[inline]
const fn nanos(duration: Duration) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    duration.as_secs().saturating_mul(SECOND).saturating_add(duration.subsec_nanos() as u64)
}
