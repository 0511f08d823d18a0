//! How many calls at once a provider bears, found out by trying.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;

/// The fewest calls in flight: one. With none there would be no call to learn from that the provider is well again; it is
/// the floor of every limit found by trying, as of a congestion window.
const DEFAULT_MIN: u32 = 1;

/// What is left of the number after an overload: three quarters, a cut that a few rounds make up for.
const DEFAULT_BACKOFF: f64 = 0.75;

/// Finds the number of calls in flight that a provider bears without saying so in headers: one more for each round of
/// calls that went well, a share of it after an overload (429, 503, overloaded) or a first output that came late.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdaptiveConfig {
    /// The least.
    pub min: u32,
    /// What is left of the number after an overload, in (0, 1].
    pub backoff: f64,
    /// A first output later than this is an overload; `None` looks at no clock.
    #[serde(with = "humantime_serde")]
    pub late_first_output: Option<Duration>,
}

/// The number of calls in flight, as it is found out. Pure: whoever has a lock asks it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adaptive {
    config: AdaptiveConfig,
    most: f64,
    now: f64,
    /// Counts the cuts, so that calls that began before one do not cut again.
    round: u32,
}

// === impl AdaptiveConfig ===

impl AdaptiveConfig {
    pub(super) fn validate(&self, most: u32) -> Result<(), ConfigError> {
        if self.min == 0 || self.min > most {
            return Err(ConfigError::new("adaptive.min", "must be from 1 to `max_concurrency`"));
        }
        ConfigError::unless_ratio("adaptive.backoff", self.backoff)?;
        ConfigError::unless_positive("adaptive.late_first_output", self.late_first_output)
    }
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        Self { min: DEFAULT_MIN, backoff: DEFAULT_BACKOFF, late_first_output: None }
    }
}

// === impl Adaptive ===

impl Adaptive {
    /// Starts at the most.
    pub(super) fn new(config: AdaptiveConfig, most: u32) -> Self {
        Self { config, most: most.into(), now: most.into(), round: 0 }
    }

    /// The round that calls begin in now.
    pub(super) const fn round(&self) -> u32 {
        self.round
    }

    /// A call of a round went well, or was too much. Tells the number from now on.
    pub(super) fn learn(&mut self, round: u32, overload: bool) -> u32 {
        if !overload {
            // One more for each round of calls: each adds its part.
            self.now = (self.now + 1.0 / self.now).min(self.most);
        } else if round == self.round {
            self.round = self.round.wrapping_add(1);
            self.now = (self.now * self.config.backoff).max(self.config.min.into());
        }
        self.limit()
    }

    pub(super) fn limit(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a u32")]
        let limit = self.now as u32;
        limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: ten calls of one round fail of overload; then rounds go well.
    /// Expected: the number MUST be cut once, and grow back by about one a round, never above the most.
    #[test]
    fn a_round_cuts_once_and_grows_back() {
        let mut adaptive = Adaptive::new(AdaptiveConfig::default(), 40);
        let round = adaptive.round();
        for _ in 0..10 {
            assert_eq!(adaptive.learn(round, true), 30);
        }
        for _ in 0..31 {
            adaptive.learn(adaptive.round(), false);
        }
        assert_eq!(adaptive.limit(), 31);
        for _ in 0..1_000 {
            adaptive.learn(adaptive.round(), false);
        }
        assert_eq!(adaptive.limit(), 40);
        for _ in 0..100 {
            adaptive.learn(adaptive.round(), true);
        }
        assert_eq!(adaptive.limit(), 1);
    }
}
