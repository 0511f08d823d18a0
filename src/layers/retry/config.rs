//! What the layer is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Clock, Code, ConfigError};

use super::backoff::{Backoff, Jitter};
use super::budget::RetryBudgetConfig;

/// How calls are retried. See the [module](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// The name of this configuration in facts.
    pub policy: String,
    /// Retries after the first attempt; 0 means none.
    pub retries: u32,
    /// The wait before the first retry; it doubles from there.
    #[serde(with = "humantime_serde")]
    pub base: Duration,
    /// The longest wait of our own.
    #[serde(with = "humantime_serde")]
    pub cap: Duration,
    /// How waits are spread.
    pub jitter: Jitter,
    /// The longest stated wait that is slept; a longer one goes up at once.
    #[serde(with = "humantime_serde")]
    pub max_retry_after: Duration,
    /// The least time an attempt must have before the deadline.
    #[serde(with = "humantime_serde")]
    pub min_attempt: Duration,
    /// What retries may cost over all calls; `None` means no limit but `retries`.
    #[serde(with = "crate::off")]
    pub budget: Option<RetryBudgetConfig>,
    /// Only these codes are retried; `None` leaves it to the judgement.
    pub only: Option<Vec<Code>>,
    /// These codes are never retried.
    pub never: Vec<Code>,
    /// Seeds the jitter, so that a run can be repeated.
    pub seed: Option<u64>,
}

// === impl RetryConfig ===

impl RetryConfig {
    /// For a person who waits: 2 retries, 500 ms to 10 s within 10 %, on what mostly passes quickly.
    #[must_use]
    pub fn brisk() -> Self {
        Self {
            policy: "brisk".into(),
            retries: 2,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(10),
            jitter: Jitter::Proportional(0.1),
            only: Some(vec![
                Code::EmptyResponse,
                Code::RateLimited,
                Code::Server,
                Code::Overloaded,
                Code::Timeout(Clock::Connect),
                Code::Timeout(Clock::FirstOutput),
                Code::Timeout(Clock::Idle),
                Code::Timeout(Clock::Silence),
                Code::Transport,
                Code::Connect,
            ]),
            ..Self::default()
        }
    }

    /// Where a call billed twice is worse than one lost: a timeout after the request was written, and an answer
    /// that cannot be read, are final.
    #[must_use]
    pub fn never_bill_twice() -> Self {
        Self {
            policy: "never_bill_twice".into(),
            never: vec![
                Code::Timeout(Clock::FirstOutput),
                Code::Timeout(Clock::Idle),
                Code::Timeout(Clock::Silence),
                Code::Timeout(Clock::Total),
                Code::RequestTimeout,
                Code::InvalidResponse,
            ],
            ..Self::default()
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless_positive("base", self.base)?;
        ConfigError::unless_positive("cap", self.cap)?;
        ConfigError::unless_positive("max_retry_after", self.max_retry_after)?;
        ConfigError::unless_positive("min_attempt", self.min_attempt)?;
        if let Jitter::Proportional(ratio) = self.jitter {
            ConfigError::unless_ratio("jitter.proportional", ratio)?;
        }
        self.budget.map_or(Ok(()), |budget| budget.validate())
    }

    pub(super) const fn backoff(&self) -> Backoff {
        Backoff { base: self.base, cap: self.cap, jitter: self.jitter }
    }

    /// Whether this failure's code is one to try again.
    pub(super) fn takes(&self, code: Code, judged: bool) -> bool {
        !self.never.contains(&code) && self.only.as_ref().map_or(judged, |only| only.contains(&code))
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            policy: "default".into(),
            retries: 3,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(30),
            jitter: Jitter::Additive,
            max_retry_after: Duration::from_secs(30),
            min_attempt: Duration::from_millis(250),
            budget: Some(RetryBudgetConfig::default()),
            only: None,
            never: Vec::new(),
            seed: None,
        }
    }
}
