//! What the layer is told.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::chat::Protocol;
use crate::failure::{Code, ConfigError, FailOver};

/// When and where calls go on. See the [module](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailoverConfig {
    /// How long a candidate rests that stated no wait.
    #[serde(with = "humantime_serde")]
    pub spring_back: Duration,
    /// The shortest stay at a candidate below, whatever wait was stated; `None` for none.
    #[serde(with = "crate::off::time")]
    pub dwell: Option<Duration>,
    /// Failed calls in a row that move the standing candidate.
    pub move_off_after: u32,
    /// The part of a deadline that each candidate behind keeps.
    #[serde(with = "humantime_serde")]
    pub min_share: Duration,
    /// Candidates whose first output came later than this on the average are passed over; `None` for none.
    #[serde(with = "crate::off::time")]
    pub max_first_output: Option<Duration>,
    /// What happens when every candidate was told to wait.
    pub when_all_rest: WhenAllRest,
    /// Codes that go on beside those of the judgement: `AUTHENTICATION`, `PERMISSION`, `CONTENT_FILTER`.
    pub also: Vec<Code>,
    /// Whether all candidates must speak the protocol a request was read from.
    pub same_protocol: bool,
}

/// What happens when every candidate was told to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WhenAllRest {
    /// The one whose wait is over first is asked all the same.
    #[default]
    Earliest,
    /// The call fails at once, and says when to come back.
    FailFast,
}

/// What is known of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Its name in facts and failures.
    pub name: Arc<str>,
    /// The protocol it speaks, where that is known.
    pub protocol: Option<Protocol>,
    /// Tokens its window holds, where that is known.
    pub window: Option<u64>,
}

// === impl FailoverConfig ===

impl FailoverConfig {
    /// Moves after one failed call.
    #[must_use]
    pub fn eager() -> Self {
        Self { move_off_after: 1, ..Self::default() }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless_positive("spring_back", self.spring_back)?;
        ConfigError::unless_positive("dwell", self.dwell)?;
        ConfigError::unless_positive("min_share", self.min_share)?;
        ConfigError::unless_positive("max_first_output", self.max_first_output)?;
        if self.move_off_after == 0 {
            return Err(ConfigError::new("move_off_after", "must be at least 1"));
        }
        let opt_in = |code: &&Code| code.judgement().fail_over == FailOver::OptIn;
        if let Some(code) = self.also.iter().find(|code| !opt_in(code)) {
            let reason = format!("names {code}, on which the judgement has the last word");
            return Err(ConfigError::new("also", reason));
        }
        Ok(())
    }

    /// Checks the candidates: as many as there are services, no name twice, one protocol if one is demanded.
    pub(super) fn check(&self, candidates: &[Candidate], services: usize) -> Result<(), ConfigError> {
        let refuse = |reason: String| Err(ConfigError::new("candidates", reason));
        if candidates.len() != services {
            return refuse(format!("names {} for {services} services", candidates.len()));
        }
        for (at, candidate) in candidates.iter().enumerate() {
            if candidate.name.is_empty() {
                return refuse(format!("has no name at position {at}"));
            }
            if candidates[..at].iter().any(|other| other.name == candidate.name) {
                return refuse(format!("lists `{}` twice", candidate.name));
            }
        }
        let mut protocols = candidates.iter().filter_map(|candidate| candidate.protocol);
        let first = protocols.next();
        match protocols.find(|protocol| Some(*protocol) != first) {
            Some(other) if self.same_protocol => Err(ConfigError::new(
                "same_protocol",
                format!("is demanded, but a candidate speaks {}", other.as_str()),
            )),
            _ => Ok(()),
        }
    }
}

impl Default for FailoverConfig {
    fn default() -> Self {
        Self {
            spring_back: Duration::from_secs(5 * 60),
            dwell: Some(Duration::from_secs(30)),
            move_off_after: 3,
            min_share: Duration::from_secs(5),
            max_first_output: None,
            when_all_rest: WhenAllRest::Earliest,
            also: Vec::new(),
            same_protocol: false,
        }
    }
}

// === impl Candidate ===

impl Candidate {
    /// A candidate of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), protocol: None, window: None }
    }

    /// Names the protocol it speaks.
    #[must_use]
    pub const fn speaks(mut self, protocol: Protocol) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// Names the tokens its window holds.
    #[must_use]
    pub const fn window(mut self, tokens: u64) -> Self {
        self.window = Some(tokens);
        self
    }
}

impl From<&str> for Candidate {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Candidate {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}
