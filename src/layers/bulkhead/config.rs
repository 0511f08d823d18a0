//! What the layer is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;
use crate::key::KeyBy;
use crate::keyed::DEFAULT_MAX_KEYS;

use super::budget::BudgetConfig;
use super::slots::MOST;

/// The calls of a key at work. A tool that answers in a second then does eight a second, and eight of them are what a
/// small machine's cores and a database's usual pool of ten connections bear; the figure is ours.
pub const DEFAULT_MAX_CONCURRENT: u32 = 8;

/// The calls of a key that wait: four rounds of those at work. Whoever stands further back would wait longer than a
/// person does; the figure is ours.
pub const DEFAULT_MAX_WAITING: u32 = 32;

/// The longest wait in line. It is the clock between two outputs: who has heard nothing for so long takes the other side
/// for dead, too.
pub const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(30);

/// How many calls pass, wait, and what they may use. See the [module](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BulkheadConfig {
    /// By what calls are told apart. Each key has slots, a line and a budget of its own.
    pub key: KeyBy,
    /// Calls of a key in flight, from their admission to the end of their response; `None` sets no limit.
    #[serde(with = "crate::off")]
    pub max_concurrent: Option<u32>,
    /// Calls of a key in line; with 0 none waits.
    pub max_waiting: u32,
    /// The longest wait in line.
    #[serde(with = "humantime_serde")]
    pub max_wait: Duration,
    /// The tokens of a key; `None` counts none.
    #[serde(with = "crate::off")]
    pub budget: Option<BudgetConfig>,
    /// How many keys are kept at a time. Keys that are as good as fresh make room for others.
    pub max_keys: usize,
}

// === impl BulkheadConfig ===

impl BulkheadConfig {
    /// For users: told apart by their [`Caller`](crate::key::Caller), each with a budget of tokens. The slots bound what
    /// calls of unknown cost can use beyond it.
    #[must_use]
    pub fn users() -> Self {
        Self { key: KeyBy::Caller, budget: Some(BudgetConfig::default()), ..Self::default() }
    }

    /// For tools: each with slots and a line of its own.
    #[must_use]
    pub fn tools() -> Self {
        Self { key: KeyBy::Tool, ..Self::default() }
    }

    /// For sessions: told apart by their [`SessionId`](crate::key::SessionId). What else a session holds is counted by
    /// the sessions of this module, behind the feature `sessions`.
    #[must_use]
    pub fn sessions() -> Self {
        Self { key: KeyBy::Session, ..Self::default() }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.max_concurrent.map_or(Ok(()), validate_limit)?;
        ConfigError::unless_positive("max_wait", self.max_wait)?;
        if self.max_keys == 0 {
            return Err(ConfigError::new("max_keys", "must be at least 1"));
        }
        self.budget.map_or(Ok(()), |budget| budget.validate())
    }
}

impl Default for BulkheadConfig {
    fn default() -> Self {
        Self {
            key: KeyBy::Nothing,
            max_concurrent: Some(DEFAULT_MAX_CONCURRENT),
            max_waiting: DEFAULT_MAX_WAITING,
            max_wait: DEFAULT_MAX_WAIT,
            budget: None,
            max_keys: DEFAULT_MAX_KEYS,
        }
    }
}

/// Refuses limits that let nobody pass, and those too large to count.
pub(super) fn validate_limit(limit: u32) -> Result<(), ConfigError> {
    match limit {
        0 => Err(ConfigError::new(
            "max_concurrent",
            "must not be zero; `None`, in a file `false`, is no limit",
        )),
        1..=MOST => Ok(()),
        _ => Err(ConfigError::new("max_concurrent", format!("must be at most {MOST}"))),
    }
}
