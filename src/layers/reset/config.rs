//! What the layer is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;

/// How streams start over. See the [module](super).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResetConfig {
    /// How often one reply may start over; 0 means never, and then nothing is kept for it.
    pub resets: u32,
    /// The wait before it does.
    #[serde(with = "humantime_serde")]
    pub delay: Duration,
    /// The longest stated wait that is slept.
    #[serde(with = "humantime_serde")]
    pub max_retry_after: Duration,
}

// === impl ResetConfig ===

impl ResetConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless_positive("delay", self.delay)?;
        ConfigError::unless_positive("max_retry_after", self.max_retry_after)
    }
}

impl Default for ResetConfig {
    fn default() -> Self {
        Self { resets: 1, delay: Duration::from_secs(1), max_retry_after: Duration::from_secs(30) }
    }
}
