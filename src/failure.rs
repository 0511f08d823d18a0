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

mod code;
mod config;
mod wait;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;

use crate::chat::Limits;

pub use code::{Breaker, Class, Clock, Code, FailOver, Judgement};
pub use config::ConfigError;
pub use wait::{parse_retry_after, stated_wait};

/// An error of any kind, as tower's layers pass it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The longest message kept, in bytes: enough for any sentence a provider writes, short enough to log.
pub const MAX_MESSAGE: usize = 1024;

/// Why a call failed. One word wide; cheap to move through seven layers.
#[derive(Clone)]
pub struct Failure(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: Code,
    message: Box<str>,
    status: Option<StatusCode>,
    provider: Option<Arc<str>>,
    retry_after: Option<Duration>,
    should_retry: Option<bool>,
    local: bool,
    exhausted: bool,
    skip: Option<Skip>,
    limits: Limits,
    attempts: Vec<Attempt>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// One try that came before, or one candidate that was passed over.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Attempt {
    /// Who was asked.
    pub provider: Option<Arc<str>>,
    /// What came of it.
    pub code: Code,
    /// The HTTP status, if a response was seen.
    #[serde(serialize_with = "as_number")]
    pub status: Option<StatusCode>,
    /// In the provider's words, clipped.
    pub message: Box<str>,
    /// Why it was passed over without being asked, if it was.
    pub skip: Option<Skip>,
}

/// Why a candidate was passed over before anything was sent or paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum Skip {
    /// Its breaker is open.
    NotCallable,
    /// Its limiter or bulkhead cannot admit the call in time.
    CannotPay,
    /// The conversation does not fit its window.
    Window,
    /// It cannot do what the request asks: images, tools, reasoning, streaming.
    Capability,
    /// It costs more than the call's ceiling.
    Price,
    /// Its first output comes later than the call allows.
    Slow,
    /// It speaks another protocol and the call demands the same.
    Protocol,
    /// The conversation is held on another provider's server.
    Stateful,
    /// It rests after a failure.
    Resting,
}

// === impl Failure ===

impl Failure {
    /// A failure told by the provider or the wire.
    #[must_use]
    pub fn new(code: Code, message: impl AsRef<str>) -> Self {
        Self(Box::new(Inner {
            code,
            message: clip(message.as_ref()),
            status: None,
            provider: None,
            retry_after: None,
            should_retry: None,
            local: code.class() == Class::Local,
            exhausted: false,
            skip: None,
            limits: Limits::default(),
            attempts: Vec::new(),
            source: None,
        }))
    }

    /// A refusal of our own: nothing was sent.
    #[must_use]
    pub fn local(code: Code, message: impl AsRef<str>) -> Self {
        let mut failure = Self::new(code, message);
        failure.0.local = true;
        failure
    }

    /// An error nobody classified: [`Code::Transport`], with its source kept.
    #[must_use]
    pub fn stranger(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        let message = error.to_string();
        Self::new(Code::Transport, message).with_source(error)
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Adds the provider's name, unless one is known already.
    #[must_use]
    pub fn with_provider(mut self, provider: &Arc<str>) -> Self {
        self.0.provider.get_or_insert_with(|| Arc::clone(provider));
        self
    }

    /// Adds the wait that was stated; `None` leaves what is known.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.0.retry_after = wait.or(self.0.retry_after);
        self
    }

    /// Adds the provider's own word on whether the same request may be tried again (`x-should-retry`).
    #[must_use]
    pub fn with_should_retry(mut self, word: Option<bool>) -> Self {
        self.0.should_retry = word;
        self
    }

    /// Adds why a candidate was passed over.
    #[must_use]
    pub fn with_skip(mut self, skip: Skip) -> Self {
        self.0.skip = Some(skip);
        self
    }

    /// Adds the limits seen beside the failure.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.0.limits = limits;
        self
    }

    /// Adds the error beneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Adds the tries that came before, oldest first.
    #[must_use]
    pub fn with_attempts(mut self, attempts: Vec<Attempt>) -> Self {
        self.0.attempts = attempts;
        self
    }

    /// Marks that retries were used up or refused here, so that a retry further out lets it pass.
    #[must_use]
    pub fn exhaust(mut self) -> Self {
        self.0.exhausted = true;
        self
    }

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

    /// Who failed.
    #[must_use]
    pub fn provider(&self) -> Option<&Arc<str>> {
        self.0.provider.as_ref()
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
            code: self.0.code,
            status: self.0.status,
            message: self.0.message.clone(),
            skip: self.0.skip,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.code.as_str())?;
        if let Some(provider) = &self.0.provider {
            write!(f, " from {provider}")?;
        }
        if let Some(status) = self.0.status {
            write!(f, " (HTTP {})", status.as_u16())?;
        }
        if !self.0.message.is_empty() {
            write!(f, ": {}", self.0.message)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("status", &self.0.status)
            .field("provider", &self.0.provider)
            .field("retry_after", &self.0.retry_after)
            .field("local", &self.0.local)
            .field("exhausted", &self.0.exhausted)
            .field("skip", &self.0.skip)
            .field("attempts", &self.0.attempts)
            .finish_non_exhaustive()
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl Serialize for Failure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut out = serializer.serialize_struct("Failure", 8)?;
        out.serialize_field("code", &self.0.code)?;
        out.serialize_field("class", &self.class())?;
        out.serialize_field("message", &self.0.message)?;
        out.serialize_field("status", &self.0.status.map(|status| status.as_u16()))?;
        out.serialize_field("provider", &self.0.provider)?;
        let wait = self.0.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        out.serialize_field("retry_after_ms", &wait)?;
        out.serialize_field("skip", &self.0.skip)?;
        out.serialize_field("attempts", &self.0.attempts)?;
        out.end()
    }
}

/// How a layer asks an error what it is, and wraps a failure of its own into the error its caller expects.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no error that a layer can judge",
    note = "the service's error must be `Failure` or `BoxError`: add `.map_err(BoxError::from)`, or on an axum router `watertight::stack::for_axum`"
)]
pub trait Fault: From<Failure> {
    /// The failure inside, if there is one.
    fn failure(&self) -> Option<&Failure>;

    /// The failure, a stranger becoming [`Code::Transport`] with itself as source.
    fn into_failure(self) -> Failure;
}

impl Fault for Failure {
    fn failure(&self) -> Option<&Failure> {
        Some(self)
    }

    fn into_failure(self) -> Failure {
        self
    }
}

impl Fault for BoxError {
    /// Walks the sources, since a buffer or a timeout around us wraps what it passes.
    fn failure(&self) -> Option<&Failure> {
        let mut error: Option<&(dyn Error + 'static)> = Some(self.as_ref());
        while let Some(this) = error {
            if let Some(failure) = this.downcast_ref() {
                return Some(failure);
            }
            error = this.source();
        }
        None
    }

    fn into_failure(self) -> Failure {
        match self.downcast::<Failure>() {
            Ok(failure) => *failure,
            Err(other) => match other.failure() {
                Some(failure) => failure.clone(),
                None => Failure::stranger(other),
            },
        }
    }
}

#[expect(clippy::ref_option, reason = "the signature that serde asks")]
fn as_number<S: serde::Serializer>(status: &Option<StatusCode>, serializer: S) -> Result<S::Ok, S::Error> {
    status.map(|status| status.as_u16()).serialize(serializer)
}

/// Cuts at a character, and takes control characters out so that a message stays one line.
fn clip(message: &str) -> Box<str> {
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let clean: String = message[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.trim().into()
}
