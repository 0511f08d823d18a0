//! What the line is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;

/// The most jobs in line: 1,000, some four hours at the time of a job until one was seen; a longer line is no promise.
const DEFAULT_MAX_WAITING: usize = 1_000;

/// The most jobs whose end is kept: as many as may wait.
const DEFAULT_MAX_FINISHED: usize = 1_000;

/// How long the end of a job is kept: 1 h, for a person who comes back after a meeting.
const DEFAULT_KEEP: Duration = Duration::from_secs(60 * 60);

/// How often a job is tried: 5 times; with the waits between, an outage of a quarter of an hour is outlived.
const DEFAULT_TRIES: u32 = 5;

/// The wait before the second try, where none was stated: 30 s, as long as an open circuit breaker rests; it doubles.
const DEFAULT_AGAIN: Duration = Duration::from_secs(30);

/// How many jobs wait, how often they are tried, and how long their end is kept. See the [module](super).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeferConfig {
    /// The most jobs in line, those at work among them.
    pub max_waiting: usize,
    /// The most jobs whose end is kept; the oldest goes first.
    pub max_finished: usize,
    /// How long the end of a job is kept.
    #[serde(with = "humantime_serde")]
    pub keep: Duration,
    /// How often a job is tried.
    pub tries: u32,
    /// The wait before the second try, where none was stated. It doubles.
    #[serde(with = "humantime_serde")]
    pub again: Duration,
}

// === impl DeferConfig ===

impl DeferConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let counts = [("max_waiting", self.max_waiting), ("max_finished", self.max_finished)];
        if let Some((field, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(ConfigError::new(field, "must be at least 1"));
        }
        if self.tries == 0 {
            return Err(ConfigError::new("tries", "must be at least 1"));
        }
        ConfigError::unless_positive("keep", self.keep)?;
        ConfigError::unless_positive("again", self.again)
    }
}

impl Default for DeferConfig {
    fn default() -> Self {
        Self {
            max_waiting: DEFAULT_MAX_WAITING,
            max_finished: DEFAULT_MAX_FINISHED,
            keep: DEFAULT_KEEP,
            tries: DEFAULT_TRIES,
            again: DEFAULT_AGAIN,
        }
    }
}
