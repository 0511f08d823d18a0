//! What the cache is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;

/// How long an answer is fresh: 10 min, the length of a conversation.
const DEFAULT_TTL: Duration = Duration::from_secs(10 * 60);

/// How long an answer is kept at all: 24 h. The last resort of an outage may be a day old, as long as it says so.
const DEFAULT_KEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// The most answers: 10,000.
const DEFAULT_MAX_ANSWERS: u64 = 10_000;

/// The most bytes of answers: 64 MiB, which is 6 KiB each for as many answers as may be.
const DEFAULT_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What is kept, and for how long. See the [module](super).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheConfig {
    /// How long an answer is fresh.
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,
    /// How long it is kept, and served as stale after `ttl`.
    #[serde(with = "humantime_serde")]
    pub keep: Duration,
    /// The most answers.
    pub max_answers: u64,
    /// The most bytes of answers; one that is larger than a hundredth of it is not kept.
    pub max_bytes: u64,
    /// Whether an answer that one caller was given may be given to another. Only where no request holds anything
    /// private.
    pub shared: bool,
}

// === impl CacheConfig ===

impl CacheConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless_positive("ttl", self.ttl)?;
        if self.keep < self.ttl {
            return Err(ConfigError::new("keep", "must not be shorter than `ttl`"));
        }
        let counts = [("max_answers", self.max_answers), ("max_bytes", self.max_bytes)];
        match counts.into_iter().find(|(_, count)| *count == 0) {
            Some((field, _)) => Err(ConfigError::new(field, "must be at least 1")),
            None => Ok(()),
        }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            keep: DEFAULT_KEEP,
            max_answers: DEFAULT_MAX_ANSWERS,
            max_bytes: DEFAULT_MAX_BYTES,
            shared: false,
        }
    }
}
