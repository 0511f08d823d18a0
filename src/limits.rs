//! The rate limits a provider told beside a response.
//!
//! They stand beneath `chat` and `failure`: a reply and a failure each carry them, and `chat` names failures.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Dimension {
    /// Requests a minute.
    Requests,
    /// Tokens of both kinds a minute.
    Tokens,
    /// Input tokens a minute.
    InputTokens,
    /// Output tokens a minute.
    OutputTokens,
    /// Requests a day.
    RequestsPerDay,
    /// Tokens a day.
    TokensPerDay,
}

/// One limit as told. An absent figure is unknown, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Window {
    /// What is limited.
    pub dimension: Dimension,
    /// The most there can be.
    pub limit: Option<u64>,
    /// What is left.
    pub remaining: Option<u64>,
    /// Until it is full again.
    pub reset: Option<Duration>,
}

/// All limits told beside one response. Empty where none was, and then it owns nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Limits(Vec<Window>);

// === impl Window ===

impl Window {
    /// A limit of which nothing is known yet.
    #[must_use]
    pub const fn unknown(dimension: Dimension) -> Self {
        Self { dimension, limit: None, remaining: None, reset: None }
    }
}

// === impl Limits ===

impl Limits {
    /// The limits of one dimension, made unknown if there are none yet.
    pub fn entry(&mut self, dimension: Dimension) -> &mut Window {
        let at = self.0.iter().position(|window| window.dimension == dimension).unwrap_or_else(|| {
            self.0.push(Window::unknown(dimension));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Forgets one dimension.
    pub fn forget(&mut self, dimension: Dimension) {
        self.0.retain(|window| window.dimension != dimension);
    }

    /// The limits of one dimension.
    #[must_use]
    pub fn get(&self, dimension: Dimension) -> Option<&Window> {
        self.0.iter().find(|window| window.dimension == dimension)
    }

    /// All that was told.
    #[must_use]
    pub fn windows(&self) -> &[Window] {
        &self.0
    }

    /// Whether nothing was told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
