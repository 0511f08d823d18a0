//! What the layer is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::chat::{Ask, Dimension};
use crate::failure::ConfigError;
use crate::key::KeyBy;
use crate::keyed::DEFAULT_MAX_KEYS;
use crate::store::Quota;

use super::adaptive::AdaptiveConfig;
use super::profile::{LimitProfile, ReserveOutput};

/// The longest a call waits in line: 5 s. Whoever waits longer is better served by another candidate or by the caller's
/// own patience; a person at a screen gives up about then.
const DEFAULT_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// The most calls in one line: 1,024. Each waits with its request in memory; a longer line than the timeout can serve is
/// refused by its promise anyway.
const DEFAULT_MAX_WAITING: usize = 1_024;

/// The output taken for a call that declares no cap, before this key's own outputs are known: 1,024 tokens, about a
/// page, which most answers of chat models stay below.
const DEFAULT_OUTPUT_GUESS: u32 = 1_024;

/// The share of its rate that a provider gets after it asked to slow down: half. Vendors ask that traffic grow by no
/// more than half in a quarter of an hour; half the rate is below whatever it had grown from.
const DEFAULT_SLOW_DOWN_SHARE: f64 = 0.5;

/// For how long: a minute, the window by which rates are counted.
const DEFAULT_SLOW_DOWN_FOR: Duration = Duration::from_secs(60);

/// How calls are held to a provider's limits. See the [module](super).
///
/// In a file `false` leaves out what may be left out, also where a value is there already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimitConfig {
    /// Where what is left out here comes from.
    pub profile: LimitProfile,
    /// Requests a minute.
    #[serde(with = "crate::off")]
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, input and output in one bucket.
    #[serde(with = "crate::off")]
    pub tokens_per_minute: Option<u32>,
    /// Input tokens a minute.
    #[serde(with = "crate::off")]
    pub input_tokens_per_minute: Option<u32>,
    /// Output tokens a minute.
    #[serde(with = "crate::off")]
    pub output_tokens_per_minute: Option<u32>,
    /// Requests a day.
    #[serde(with = "crate::off")]
    pub requests_per_day: Option<u32>,
    /// Tokens a day.
    #[serde(with = "crate::off")]
    pub tokens_per_day: Option<u32>,
    /// The most calls in flight.
    #[serde(with = "crate::off")]
    pub max_concurrency: Option<u32>,
    /// The most a minute's bucket holds, as a share of the minute's quota, in (0, 1]; `None` is all of it, and of
    /// requests a sixth. Where a provider counts by a window that slides, this and the rate together must stay within
    /// its quota: 97 % of it as the rate, and a burst of 2 %.
    #[serde(with = "crate::off")]
    pub burst: Option<f64>,
    /// How full the buckets are at first, as a share, in (0, 1]; `None` is full.
    #[serde(with = "crate::off")]
    pub initial_fill: Option<f64>,
    /// Whether a call may wait.
    pub mode: Mode,
    /// The longest a call waits in line.
    #[serde(with = "humantime_serde")]
    pub acquire_timeout: Duration,
    /// The most calls in one line.
    pub max_waiting: usize,
    /// How much output is taken from a bucket that counts both kinds; `None` leaves it to the profile.
    #[serde(with = "crate::off")]
    pub reserve_output: Option<ReserveOutput>,
    /// The output taken for a call with no cap, before this key's own outputs are known.
    pub output_guess: u32,
    /// Whether input read from a cache is charged; `None` leaves it to the profile.
    pub charge_cache_reads: Option<bool>,
    /// The share of a told limit that is left to others who use it unseen, in (0, 1]; `None` is nothing. What a header
    /// says is left is a moment old, and what others took since is missing from it.
    #[serde(with = "crate::off")]
    pub headroom: Option<f64>,
    /// The share that rates are lowered to when the provider asks to slow down, in (0, 1].
    pub slow_down_share: f64,
    /// For how long.
    #[serde(with = "humantime_serde")]
    pub slow_down_for: Duration,
    /// Finds the number of calls in flight that the provider bears, below `max_concurrency`; off by default.
    #[serde(with = "crate::off")]
    pub adaptive: Option<AdaptiveConfig>,
    /// By what calls are told apart: each key has limits of its own.
    pub key: KeyBy,
    /// The most keys.
    pub max_keys: usize,
}

/// Whether a call may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// In line, up to `acquire_timeout`.
    #[default]
    Wait,
    /// Never: it is refused with the instant to come back at.
    Reject,
}

// === impl RateLimitConfig ===

impl RateLimitConfig {
    /// Starts from what is known of a provider. See [`LimitProfile`].
    #[must_use]
    pub fn of(profile: LimitProfile) -> Self {
        Self { profile, ..Self::default() }
    }

    /// No quota of ours: only what the provider's headers tell.
    #[must_use]
    pub fn from_headers() -> Self {
        Self::of(LimitProfile::Headers)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let counts = [
            ("requests_per_minute", self.requests_per_minute),
            ("tokens_per_minute", self.tokens_per_minute),
            ("input_tokens_per_minute", self.input_tokens_per_minute),
            ("output_tokens_per_minute", self.output_tokens_per_minute),
            ("requests_per_day", self.requests_per_day),
            ("tokens_per_day", self.tokens_per_day),
            ("max_concurrency", self.max_concurrency),
            ("output_guess", Some(self.output_guess)),
            ("max_waiting", u32::try_from(self.max_waiting).ok()),
            ("max_keys", u32::try_from(self.max_keys).ok()),
        ];
        if let Some((field, _)) = counts.into_iter().find(|(_, count)| *count == Some(0)) {
            return Err(ConfigError::new(field, "must not be zero; leave it out for its default"));
        }
        ConfigError::unless_positive("acquire_timeout", self.acquire_timeout)?;
        ConfigError::unless_positive("slow_down_for", self.slow_down_for)?;
        let shares = [
            ("burst", self.burst),
            ("initial_fill", self.initial_fill),
            ("headroom", self.headroom),
            ("slow_down_share", Some(self.slow_down_share)),
        ];
        for (field, share) in shares {
            share.map_or(Ok(()), |share| ConfigError::unless_ratio(field, share))?;
        }
        match &self.adaptive {
            Some(_) if self.most_in_flight().is_none() => {
                Err(ConfigError::new("adaptive", "needs `max_concurrency` to start from"))
            }
            Some(adaptive) => adaptive.validate(self.most_in_flight().unwrap_or(u32::MAX)),
            None => Ok(()),
        }
    }

    /// The quotas in force: what is declared, and for a dimension left out what the profile guesses. Who declares tokens
    /// of one kind wants none of the other kind guessed.
    pub(super) fn quotas(&self) -> Vec<Quota> {
        let guess = self.profile.guesses();
        let own_tokens =
            self.tokens_per_minute.or(self.input_tokens_per_minute).or(self.output_tokens_per_minute);
        let tokens = |guess: Option<u32>| guess.filter(|_| own_tokens.is_none());
        let rows = [
            (Dimension::Requests, self.requests_per_minute, guess.requests),
            (Dimension::Tokens, self.tokens_per_minute, tokens(guess.tokens)),
            (Dimension::InputTokens, self.input_tokens_per_minute, tokens(guess.input_tokens)),
            (Dimension::OutputTokens, self.output_tokens_per_minute, None),
            (Dimension::RequestsPerDay, self.requests_per_day, None),
            (Dimension::TokensPerDay, self.tokens_per_day, None),
        ];
        let quota = |(dimension, declared, guess): (Dimension, Option<u32>, Option<u32>)| {
            let quota = match declared {
                Some(limit) => Quota::new(dimension, limit),
                None => Quota::new(dimension, guess?).guessed(),
            };
            let daily = matches!(dimension, Dimension::RequestsPerDay | Dimension::TokensPerDay);
            let quota = quota.filled(self.initial_fill.unwrap_or(1.0));
            Some(Quota { burst: self.burst.filter(|_| !daily), ..quota })
        };
        rows.into_iter().filter_map(quota).collect()
    }

    /// The most calls in flight, declared or guessed.
    pub(super) fn most_in_flight(&self) -> Option<u32> {
        self.max_concurrency.or_else(|| self.profile.guesses().in_flight)
    }

    pub(super) fn reserves(&self) -> ReserveOutput {
        self.reserve_output.unwrap_or_default()
    }

    /// Whether what this request reads from a cache is charged.
    #[inline]
    pub(super) fn charges_cache_reads<R: Ask>(&self, request: &R) -> bool {
        self.charge_cache_reads.unwrap_or_else(|| self.profile.charges_cache_reads(request.model()))
    }
}

impl Default for RateLimitConfig {
    fn default() -> Self {
        Self {
            profile: LimitProfile::Unknown,
            requests_per_minute: None,
            tokens_per_minute: None,
            input_tokens_per_minute: None,
            output_tokens_per_minute: None,
            requests_per_day: None,
            tokens_per_day: None,
            max_concurrency: None,
            burst: None,
            initial_fill: None,
            mode: Mode::Wait,
            acquire_timeout: DEFAULT_ACQUIRE_TIMEOUT,
            max_waiting: DEFAULT_MAX_WAITING,
            reserve_output: None,
            output_guess: DEFAULT_OUTPUT_GUESS,
            charge_cache_reads: None,
            headroom: None,
            slow_down_share: DEFAULT_SLOW_DOWN_SHARE,
            slow_down_for: DEFAULT_SLOW_DOWN_FOR,
            adaptive: None,
            key: KeyBy::Nothing,
            max_keys: DEFAULT_MAX_KEYS,
        }
    }
}
