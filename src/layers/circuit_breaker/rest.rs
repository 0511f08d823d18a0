//! How long an open circuit rests.

use std::time::Duration;

use crate::time::Instant;

use super::config::CircuitBreakerConfig;

/// Remembers how often it opened lately, so that each rest is longer than the one before; health makes it forget.
#[derive(Debug)]
pub(super) struct Rest {
    level: u32,
    /// Since when it is healthy.
    healthy: Option<Instant>,
    rng: fastrand::Rng,
}

// === impl Rest ===

impl Rest {
    pub(super) fn new(seed: Option<u64>) -> Self {
        Self { level: 0, healthy: None, rng: seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed) }
    }

    /// The next rest, longer than the one before.
    pub(super) fn lengthen(&mut self, config: &CircuitBreakerConfig, now: Instant) -> Duration {
        self.level = self.level(config, now);
        self.healthy = None;
        let rest = self.again(config);
        self.level = self.level.saturating_add(1);
        rest
    }

    /// A rest as long as the one before, where nothing new was learned.
    pub(super) fn repeat(&mut self, config: &CircuitBreakerConfig) -> Duration {
        self.level = self.level.saturating_sub(1);
        let rest = self.again(config);
        self.level = self.level.saturating_add(1);
        rest
    }

    /// It is healthy from now on.
    pub(super) const fn close(&mut self, now: Instant) {
        self.healthy = Some(now);
    }

    pub(super) const fn forget(&mut self) {
        self.level = 0;
        self.healthy = None;
    }

    /// How often it opened lately: one less for each while of health.
    pub(super) fn level(&self, config: &CircuitBreakerConfig, now: Instant) -> u32 {
        let Some(since) = self.healthy else { return self.level };
        let steps = now.saturating_duration_since(since).as_nanos() / config.forgive.as_nanos();
        self.level.saturating_sub(u32::try_from(steps).unwrap_or(u32::MAX))
    }

    fn again(&mut self, config: &CircuitBreakerConfig) -> Duration {
        let exponent = i32::try_from(self.level).unwrap_or(i32::MAX);
        let grown = config.rest.as_secs_f64() * config.growth.powi(exponent);
        let plain = Duration::try_from_secs_f64(grown).unwrap_or(Duration::MAX).min(config.max_rest);
        let luck = if config.jitter > 0.0 { self.rng.f64() * config.jitter } else { 0.0 };
        let cut = plain.as_secs_f64() * (1.0 - luck);
        // The longest there is comes out a little longer than itself, as a number with a point.
        Duration::try_from_secs_f64(cut).unwrap_or(plain).max(Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Scenario: it opens again and again; then it is healthy for two whiles, and opens once more.
    /// Expected: each rest MUST be twice the one before, up to the longest; health MUST take one step back a while.
    #[test]
    fn rests_grow_and_shrink() {
        let config = CircuitBreakerConfig { jitter: 0.0, ..CircuitBreakerConfig::default() };
        let (mut rest, start) = (Rest::new(Some(1)), crate::time::now());
        let rests: Vec<u64> = (0..6).map(|_| rest.lengthen(&config, start).as_secs()).collect();
        assert_eq!(rests, [30, 60, 120, 240, 300, 300]);
        rest.close(start);
        assert_eq!(rest.level(&config, start + secs(59)), 6);
        assert_eq!(rest.lengthen(&config, start + secs(5 * 60)), secs(60), "five steps back");
        rest.close(start);
        assert_eq!(rest.lengthen(&config, start + secs(24 * 60 * 60)), secs(30), "all is forgotten");
    }

    /// Whether rests keep to the last part of the plain rest.
    fn bounded(rests: &[Duration], config: &CircuitBreakerConfig) -> bool {
        let least = config.rest.mul_f64(1.0 - config.jitter);
        rests.iter().all(|rest| (least..=config.rest).contains(rest))
    }

    proptest! {
        /// Scenario: first rests under any seed; and the same with more jitter than is allowed for.
        /// Expected: MUST lie in the last fifth, the same for the same seed; too much jitter MUST be found out.
        #[test]
        fn jitter_is_in_the_last_fifth(seed: u64) {
            let config = CircuitBreakerConfig::default();
            let rests = |config: &CircuitBreakerConfig| -> Vec<Duration> {
                let mut rest = Rest::new(Some(seed));
                (0..200).map(|_| { rest.forget(); rest.lengthen(config, crate::time::now()) }).collect()
            };
            prop_assert!(bounded(&rests(&config), &config));
            prop_assert_eq!(rests(&config), rests(&config));
            let wild = CircuitBreakerConfig { jitter: 0.4, ..CircuitBreakerConfig::default() };
            prop_assert!(!bounded(&rests(&wild), &config), "the twin");
        }
    }
}
