//! What each field may be.

use crate::failure::ConfigError;

use super::config::CircuitBreakerConfig;

/// The most failures in a row that can be asked for: their times are remembered.
const MAX_FAILURES: u32 = 10_000;

/// The most probes that can be asked for: their leases are remembered.
const MAX_PROBES: u32 = 10_000;

/// The most parts of a ramp: a step smaller than one call in a hundred is no step that anybody sees.
const MAX_STAGES: usize = 100;

// === impl CircuitBreakerConfig ===

impl CircuitBreakerConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within("max_keys", self.max_keys, usize::MAX)?;
        within("failures", self.failures.unwrap_or(1), MAX_FAILURES)?;
        within("min_calls", self.min_calls, u32::MAX)?;
        within("probes", self.probes, MAX_PROBES)?;
        within("successes", self.successes, u32::MAX)?;
        within("token_trip", self.token_trip.unwrap_or(1), u64::MAX)?;
        within("waste_budget", self.waste_budget.unwrap_or(1), u64::MAX)?;
        within("waste_failures", self.waste_failures, u32::MAX)?;
        for (field, value) in [
            ("failures_within", self.failures_within),
            ("window", self.window),
            ("rest", self.rest),
            ("max_rest", self.max_rest),
            ("forgive", self.forgive),
            ("quota_rest", self.quota_rest),
            ("max_stated", self.max_stated),
            ("lease", self.lease),
        ] {
            ConfigError::unless_positive(field, value)?;
        }
        ConfigError::unless_positive("ramp", self.ramp)?;
        rises("ramp_shares", &self.ramp_shares)?;
        ConfigError::unless_ratio("ratio", self.ratio.unwrap_or(1.0))?;
        ConfigError::unless_ratio("waste_share", self.waste_share)?;
        if let Some(slow) = self.slow {
            ConfigError::unless_positive("slow.first_output", slow.first_output)?;
            ConfigError::unless_ratio("slow.ratio", slow.ratio)?;
        }
        if self.max_rest < self.rest {
            return Err(ConfigError::new("max_rest", "must not be shorter than `rest`"));
        }
        at_least_one("growth", self.growth)?;
        at_least_one("anomaly", self.anomaly.unwrap_or(1.0))?;
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(ConfigError::new("jitter", "must be at least 0 and at most 1"));
        }
        Ok(())
    }
}

fn within<N: Copy + PartialOrd + From<u8>>(field: &str, value: N, most: N) -> Result<(), ConfigError> {
    if value < N::from(1) {
        return Err(ConfigError::new(field, "must not be zero"));
    }
    if value > most {
        return Err(ConfigError::new(field, "is more than can be remembered"));
    }
    Ok(())
}

fn at_least_one(field: &str, value: f64) -> Result<(), ConfigError> {
    if value.is_finite() && value >= 1.0 {
        Ok(())
    } else {
        Err(ConfigError::new(field, "must be a number of at least 1"))
    }
}

fn rises(field: &str, shares: &[f64]) -> Result<(), ConfigError> {
    if shares.is_empty() || shares.len() > MAX_STAGES {
        return Err(ConfigError::new(field, format!("must be 1 to {MAX_STAGES} shares")));
    }
    shares.iter().try_for_each(|share| ConfigError::unless_ratio(field, *share))?;
    if shares.is_sorted() { Ok(()) } else { Err(ConfigError::new(field, "must not fall")) }
}
