//! What the layer is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;
use crate::key::KeyBy;
use crate::keyed::DEFAULT_MAX_KEYS;

use super::defaults::{
    DEFAULT_FAILURES, DEFAULT_FAILURES_WITHIN, DEFAULT_FORGIVE, DEFAULT_GROWTH, DEFAULT_JITTER,
    DEFAULT_LEASE, DEFAULT_MAX_REST, DEFAULT_MAX_STATED, DEFAULT_MIN_CALLS, DEFAULT_PROBES,
    DEFAULT_QUOTA_REST, DEFAULT_RAMP, DEFAULT_RATIO, DEFAULT_REST, DEFAULT_SUCCESSES, DEFAULT_WINDOW,
    FRUGAL_ANOMALY, FRUGAL_TOKEN_TRIP, FRUGAL_WASTE_BUDGET,
};

/// The most failures in a row that can be asked for: their times are remembered.
const MAX_FAILURES: u32 = 10_000;

/// The most probes that can be asked for: their leases are remembered.
const MAX_PROBES: u32 = 10_000;

/// When calls to what is sick are refused. See the [module](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CircuitBreakerConfig {
    /// By what calls are told apart: each key has a circuit of its own.
    pub key: KeyBy,
    /// The most keys that are kept.
    pub max_keys: usize,
    /// Failures in a row that open; `None` switches the rule off.
    #[serde(with = "crate::off")]
    pub failures: Option<u32>,
    /// How far apart the first and the last of them may be.
    #[serde(with = "humantime_serde")]
    pub failures_within: Duration,
    /// The share of failures among the outcomes of the window that opens; `None` switches the rule off.
    #[serde(with = "crate::off")]
    pub ratio: Option<f64>,
    /// Outcomes that are needed before a share says anything.
    pub min_calls: u32,
    /// How far back shares look.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    /// Opens when first outputs come late; off by default.
    pub slow: Option<SlowConfig>,
    /// Whether answers that are whole and useless count as failures: `EMPTY_RESPONSE`, `UNKNOWN_TOOL` and their like.
    pub semantic: bool,
    /// Whether `RATE_LIMITED` counts as a failure, beside the pause.
    pub count_rate_limited: bool,
    /// One failed call that burnt more tokens than this opens at once; off by default.
    pub token_trip: Option<u64>,
    /// Tokens a minute's calls may take: three failures or more in the window that burnt above a fifth of it open; off
    /// by default.
    pub waste_budget: Option<u64>,
    /// How many times its usual uncached tokens a completed call may take; more opens at once. Off by default.
    pub anomaly: Option<f64>,
    /// Whether it is told when a key's calls are no longer served from the provider's cache.
    pub cache_lost: bool,
    /// The first rest.
    #[serde(with = "humantime_serde")]
    pub rest: Duration,
    /// By how much each rest is longer than the one before.
    pub growth: f64,
    /// The longest rest.
    #[serde(with = "humantime_serde")]
    pub max_rest: Duration,
    /// The health after which the next rest is one step shorter.
    #[serde(with = "humantime_serde")]
    pub forgive: Duration,
    /// The share of a rest that is left to chance, at its end; 0 is none.
    pub jitter: f64,
    /// The rest of an account without quota, where no time is stated.
    #[serde(with = "humantime_serde")]
    pub quota_rest: Duration,
    /// The longest stated wait that is believed.
    #[serde(with = "humantime_serde")]
    pub max_stated: Duration,
    /// Calls that try at a time, half-open.
    pub probes: u32,
    /// Successes in a row that close.
    pub successes: u32,
    /// How long a probe that does not report keeps its place.
    #[serde(with = "humantime_serde")]
    pub lease: Duration,
    /// How long calls come back only in part, no longer than they were away: a tenth in the first half, a half in the
    /// second. `None` lets all in at once.
    #[serde(with = "crate::off::time")]
    pub ramp: Option<Duration>,
    /// Seeds the jitter, so that a run can be repeated.
    pub seed: Option<u64>,
}

/// When first outputs are late, and how many of them open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowConfig {
    /// A call is slow whose first output comes later than this.
    #[serde(with = "humantime_serde")]
    pub first_output: Duration,
    /// The share of slow calls among the outcomes of the window that opens.
    pub ratio: f64,
}

// === impl CircuitBreakerConfig ===

impl CircuitBreakerConfig {
    /// Where tokens are dear: a failed call that burnt 5,000 opens, as do failures that waste a fifth of 100,000 a
    /// minute and a call ten times as large as usual; a lost cache is told.
    #[must_use]
    pub fn frugal() -> Self {
        Self {
            token_trip: Some(FRUGAL_TOKEN_TRIP),
            waste_budget: Some(FRUGAL_WASTE_BUDGET),
            anomaly: Some(FRUGAL_ANOMALY),
            cache_lost: true,
            ..Self::default()
        }
    }

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
        ConfigError::unless_ratio("ratio", self.ratio.unwrap_or(1.0))?;
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

    /// Whether the circuit must look at each success: to count it is not enough.
    pub(super) const fn learns(&self) -> bool {
        self.anomaly.is_some() || self.cache_lost
    }

    /// Whether a share is asked for, so that successes must be counted.
    pub(super) const fn counts_successes(&self) -> bool {
        self.ratio.is_some() || self.slow.is_some()
    }

    /// Whether the tokens of a failed call matter.
    pub(super) const fn weighs(&self) -> bool {
        self.token_trip.is_some() || self.waste_budget.is_some()
    }
}

impl Default for CircuitBreakerConfig {
    fn default() -> Self {
        Self {
            key: KeyBy::Nothing,
            max_keys: DEFAULT_MAX_KEYS,
            failures: Some(DEFAULT_FAILURES),
            failures_within: DEFAULT_FAILURES_WITHIN,
            ratio: Some(DEFAULT_RATIO),
            min_calls: DEFAULT_MIN_CALLS,
            window: DEFAULT_WINDOW,
            slow: None,
            semantic: true,
            count_rate_limited: false,
            token_trip: None,
            waste_budget: None,
            anomaly: None,
            cache_lost: false,
            rest: DEFAULT_REST,
            growth: DEFAULT_GROWTH,
            max_rest: DEFAULT_MAX_REST,
            forgive: DEFAULT_FORGIVE,
            jitter: DEFAULT_JITTER,
            quota_rest: DEFAULT_QUOTA_REST,
            max_stated: DEFAULT_MAX_STATED,
            probes: DEFAULT_PROBES,
            successes: DEFAULT_SUCCESSES,
            lease: DEFAULT_LEASE,
            ramp: Some(DEFAULT_RAMP),
            seed: None,
        }
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
