//! What a key's completed calls usually take.
//!
//! What is far above the usual is an option (`anomaly`), and whether a lost cache is told. What the usual *is* stands here
//! and is none: these figures say how a mean comes to mean something, and to turn them would only make the option
//! beside them say something else.

use crate::chat::Usage;

use super::config::CircuitBreakerConfig;

/// Calls that are known before anything is usual: fewer are an accident.
const KNOWN: u32 = 20;

/// Below this nothing is far above the usual: a thousand tokens are small change whatever came before. It is far below
/// what `anomaly` is there to find, and only keeps the noise of tiny calls out.
const SMALL: f64 = 1_000.0;

/// The share of input read from a cache above which a key is said to be served from it.
const SERVED: f64 = 0.5;

/// A call is said to miss the cache that reads less than this part of the usual share.
const MISSED: f64 = 0.1;

/// Misses in a row that are a loss: one or two are new conversations.
const LOST: u32 = 3;

/// Means over the last [`KNOWN`] calls or so.
#[derive(Debug, Default)]
pub(super) struct Usual {
    /// How many sizes are known.
    sizes: u32,
    /// Uncached input, and output.
    tokens: f64,
    /// How many shares are known.
    shares: u32,
    /// The part of the input read from a cache.
    cached: f64,
    misses: u32,
}

// === impl Usual ===

impl Usual {
    /// Whether a call took far more than usual. Its size is learned up to what is not far, so that a key whose
    /// calls grew for good is not held against them for ever.
    pub(super) fn is_anomaly(&mut self, config: &CircuitBreakerConfig, usage: Option<Usage>) -> bool {
        let (Some(factor), Some(usage)) = (config.anomaly, usage) else { return false };
        #[expect(clippy::cast_precision_loss, reason = "a comparison, not an account")]
        let taken = usage.input.saturating_sub(usage.cached_read).saturating_add(usage.output) as f64;
        let most = if self.sizes < KNOWN { f64::MAX } else { (self.tokens * factor).max(SMALL) };
        self.sizes = self.sizes.saturating_add(1);
        self.tokens += (taken.min(most) - self.tokens) / f64::from(self.sizes.min(KNOWN));
        taken > most
    }

    /// Whether the cache that used to serve was lost with this call; told once.
    pub(super) fn is_cache_lost(&mut self, usage: Usage) -> bool {
        if usage.input == 0 {
            return false;
        }
        #[expect(clippy::cast_precision_loss, reason = "a share, not an account")]
        let share = usage.cached_read as f64 / usage.input as f64;
        let served = self.shares >= KNOWN && self.cached >= SERVED;
        if served && share < self.cached * MISSED {
            // A miss is not learned, or the usual would fade before it is known that it was lost.
            self.misses = self.misses.saturating_add(1);
            return self.misses == LOST;
        }
        self.misses = 0;
        self.shares = self.shares.saturating_add(1);
        self.cached += (share - self.cached) / f64::from(self.shares.min(KNOWN));
        false
    }

    pub(super) const fn is_known(&self) -> bool {
        self.sizes > 0 || self.shares > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, cached_read: u64, output: u64) -> Usage {
        Usage { input, cached_read, output, ..Usage::default() }
    }

    /// Scenario: twenty calls of 500 uncached tokens; then one of 5,000 with a large cached part, one of 5,001, and a key
    /// that takes so much from then on.
    /// Expected: only what is above ten times the usual MUST be strange, and not for ever.
    #[test]
    fn far_above_the_usual_is_strange_until_it_is_usual() {
        let config = CircuitBreakerConfig::frugal();
        let mut usual = Usual::default();
        let mut strange = |usage| usual.is_anomaly(&config, Some(usage));
        assert!((0..20).all(|_| !strange(usage(400, 0, 100))));
        assert!(!strange(usage(104_900, 100_000, 100)));
        assert!(strange(usage(80_000, 0, 100)));
        let again = (0..100).take_while(|_| strange(usage(80_000, 0, 100))).count();
        assert!(again < 20, "{again}");
    }

    /// Scenario: twenty calls served from a cache; then one miss, a hit, and five misses.
    /// Expected: the loss MUST be told once, at the third miss in a row.
    #[test]
    fn a_lost_cache_is_told_once() {
        let mut usual = Usual::default();
        for _ in 0..20 {
            assert!(!usual.is_cache_lost(usage(1_000, 900, 10)));
        }
        let told: Vec<bool> =
            [0, 900, 0, 0, 0, 0, 0].map(|cached| usual.is_cache_lost(usage(1_000, cached, 10))).into();
        assert_eq!(told, [false, false, false, false, true, false, false]);
    }
}
