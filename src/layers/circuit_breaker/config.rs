//! What the layer is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::key::KeyBy;
use crate::keyed::DEFAULT_MAX_KEYS;

use super::defaults::{
    DEFAULT_FAILURES, DEFAULT_FAILURES_WITHIN, DEFAULT_FORGIVE, DEFAULT_GROWTH, DEFAULT_JITTER,
    DEFAULT_LEASE, DEFAULT_MAX_REST, DEFAULT_MAX_STATED, DEFAULT_MIN_CALLS, DEFAULT_PROBES,
    DEFAULT_QUOTA_REST, DEFAULT_RAMP, DEFAULT_RAMP_SHARES, DEFAULT_RATIO, DEFAULT_REST, DEFAULT_SUCCESSES,
    DEFAULT_WASTE_FAILURES, DEFAULT_WASTE_SHARE, DEFAULT_WINDOW, FRUGAL_ANOMALY, FRUGAL_TOKEN_TRIP,
    FRUGAL_WASTE_BUDGET,
};

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
    #[serde(with = "crate::off")]
    pub slow: Option<SlowConfig>,
    /// Whether answers that are whole and useless count as failures: `EMPTY_RESPONSE`, `UNKNOWN_TOOL` and their like.
    pub semantic: bool,
    /// Whether `RATE_LIMITED` counts as a failure, beside the pause.
    pub count_rate_limited: bool,
    /// One failed call that burnt more tokens than this opens at once; off by default.
    #[serde(with = "crate::off")]
    pub token_trip: Option<u64>,
    /// Tokens that the calls of a window may take: failures that burnt more than `waste_share` of it open; off by
    /// default.
    #[serde(with = "crate::off")]
    pub waste_budget: Option<u64>,
    /// The share of the waste budget that failures may burn.
    pub waste_share: f64,
    /// Failures in the window that are needed before their waste says anything.
    pub waste_failures: u32,
    /// How many times its usual uncached tokens a completed call may take; more opens at once. Off by default.
    #[serde(with = "crate::off")]
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
    /// How long calls come back only in part, no longer than they were away. `None` lets all in at once.
    #[serde(with = "crate::off::time")]
    pub ramp: Option<Duration>,
    /// The shares of calls that pass meanwhile, each for an equal part of the ramp. All pass after the last.
    pub ramp_shares: Vec<f64>,
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
            waste_share: DEFAULT_WASTE_SHARE,
            waste_failures: DEFAULT_WASTE_FAILURES,
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
            ramp_shares: DEFAULT_RAMP_SHARES.to_vec(),
            seed: None,
        }
    }
}
