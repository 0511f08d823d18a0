//! What went wrong, and what each layer does about it: one [`Failure`], one [`Code`], one judgement.
//!
//! [`Code::judgement`] is the only table. Retry, failover, breaker and degradation read it; none looks at a
//! status or a message itself.
//!
//! | class | codes | retry | fail over | breaker |
//! |---|---|---|---|---|
//! | fatal | `INVALID_REQUEST` `PAYLOAD_TOO_LARGE` | no | no | neutral |
//! | fatal | `AUTHENTICATION` `PERMISSION` `CONTENT_FILTER` | no | opt-in | neutral |
//! | fatal | `NOT_FOUND` `BLOCKED` | no | yes | neutral |
//! | fatal | `CONTEXT_LENGTH` | no | to a larger window | neutral |
//! | quota | `QUOTA_EXHAUSTED` | no | yes | pauses |
//! | transient | `RATE_LIMITED` | yes | yes | pauses |
//! | transient | `OVERLOADED` `SERVER` `REQUEST_TIMEOUT` | yes | yes | failure |
//! | transient | `CONFLICT` | yes | yes | neutral |
//! | network | `CONNECT` `TRANSPORT` `TIMEOUT_CONNECT` `TIMEOUT_FIRST_OUTPUT` `TIMEOUT_IDLE` `TIMEOUT_SILENCE` | yes | yes | failure |
//! | malformed | `INVALID_RESPONSE` `TRUNCATED` | yes | yes | failure |
//! | semantic | `EMPTY_RESPONSE` `STRAY_TOOL_CALL` `UNKNOWN_TOOL` `INVALID_TOOL_ARGUMENTS` `REPETITION` | no | yes | semantic |
//! | deadline | `DEADLINE` | no | no | neutral |
//! | deadline | `TIMEOUT_TOTAL` | no | no | failure |
//! | local | `CIRCUIT_OPEN` `BULKHEAD_FULL` `LIMITER_FULL` `COST_ABOVE_CAPACITY` | no | yes | neutral |
//! | local | `BUDGET_EXHAUSTED` | no | no | neutral |
//! | abandoned | `CANCELLED` | no | no | neutral |
//! | aggregate | `ALL_FAILED` | no | no | neutral |
//!
//! "Retry" is another try on the same provider, and both it and failover hold only before the first output.

mod attempt;
mod build;
mod code;
mod config;
mod fault;
mod judgement;
mod show;
#[cfg(test)]
mod tests;
mod wait;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::limits::Limits;

pub use attempt::{Attempt, Skip};
pub use code::{Clock, Code};
pub use config::ConfigError;
pub use fault::Fault;
pub use judgement::{Breaker, Class, FailOver, Judgement};
pub(crate) use wait::COME_BACK;
pub use wait::{parse_retry_after, stated_wait};

/// An error of any kind, as tower's layers pass it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The longest message kept, in bytes: enough for any sentence a provider writes, short enough to log.
pub const MAX_MESSAGE: usize = 1024;

/// Why a call failed. One word wide; cheap to move through seven layers, and cheap to say again: a clone shares all of
/// it until one of the two is changed.
#[derive(Clone)]
pub struct Failure(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    code: Code,
    /// Shared, so that a refusal that is said again and again allocates no words.
    message: Arc<str>,
    status: Option<StatusCode>,
    provider: Option<Arc<str>>,
    tool: Option<Arc<str>>,
    model: Option<Arc<str>>,
    retry_after: Option<Duration>,
    should_retry: Option<bool>,
    local: bool,
    exhausted: bool,
    skip: Option<Skip>,
    limits: Limits,
    attempts: Vec<Attempt>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

// === impl Failure ===

impl Failure {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The class the code belongs to.
    #[must_use]
    pub fn class(&self) -> Class {
        self.0.code.class()
    }

    /// What the layers do about it: the code's judgement, the provider's word on retrying, and whether we refused.
    #[must_use]
    pub fn judgement(&self) -> Judgement {
        let table = self.0.code.judgement();
        let fail_over = if self.0.local && self.0.skip.is_some() { FailOver::Yes } else { table.fail_over };
        let retry = !self.0.exhausted && !self.0.local && self.0.should_retry.unwrap_or(table.retry);
        let breaker = if self.0.local { Breaker::Neutral } else { table.breaker };
        Judgement { retry, fail_over, breaker, ..table }
    }

    /// The reason, in the words of whoever gave it, clipped to [`MAX_MESSAGE`].
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The HTTP status, if a response was seen. An error inside a stream carries the 200 it came with.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.0.status
    }

    /// Who failed: a provider, or `tool:NAME` where it is a tool's and nobody else is known.
    #[must_use]
    pub fn provider(&self) -> Option<&Arc<str>> {
        self.0.provider.as_ref()
    }

    /// The tool that failed, by the name the model calls it by, if it is one's.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        self.0.tool.as_deref()
    }

    /// The model asked, in the provider's word, where a provider was asked.
    #[must_use]
    pub fn model(&self) -> Option<&Arc<str>> {
        self.0.model.as_ref()
    }

    /// When to come back, if anyone said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The provider's own word on retrying.
    #[must_use]
    pub fn should_retry(&self) -> Option<bool> {
        self.0.should_retry
    }

    /// Whether we refused: nothing was sent, and nobody is to blame.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0.local
    }

    /// Whether a retry already gave up on it.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.0.exhausted
    }

    /// Why the candidate was passed over, if it was.
    #[must_use]
    pub fn skip(&self) -> Option<Skip> {
        self.0.skip
    }

    /// The limits seen beside the failure.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The tries that came before, oldest first.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.0.attempts
    }

    /// This failure as one line of a history.
    #[must_use]
    pub fn as_attempt(&self) -> Attempt {
        Attempt {
            provider: self.0.provider.clone(),
            model: self.0.model.clone(),
            code: self.0.code,
            status: self.0.status,
            message: self.message().into(),
            skip: self.0.skip,
        }
    }
}
