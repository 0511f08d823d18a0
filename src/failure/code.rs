//! The codes and their names.

use std::fmt;

use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What went wrong. The serialised names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The request is wrong as it stands (400, 422), or cannot be encoded.
    InvalidRequest,
    /// The key is missing or wrong (401).
    Authentication,
    /// The key may not do this (403).
    Permission,
    /// An edge or firewall in front of the provider refused (403).
    Blocked,
    /// The model or deployment does not exist there (404).
    NotFound,
    /// The request is larger than the provider takes, whatever the wait (413).
    PayloadTooLarge,
    /// The provider's filter refused the request.
    ContentFilter,
    /// The conversation is longer than the model's window.
    ContextLength,
    /// The account has no quota or money left.
    QuotaExhausted,
    /// Too many requests or tokens for now (429).
    RateLimited,
    /// The provider has no capacity for now (529, 498, 503).
    Overloaded,
    /// The provider broke (5xx).
    Server,
    /// The provider gave up on reading or serving the request (408, 499).
    RequestTimeout,
    /// A lock or conflict on the provider's side (409).
    Conflict,
    /// No connection came to be: refused, name, TLS, or a stream that was never processed.
    Connect,
    /// The connection broke.
    Transport,
    /// A clock of ours ran out.
    Timeout(Clock),
    /// The answer is not the protocol: HTML, blank or broken JSON.
    InvalidResponse,
    /// The stream ended without its terminal marker.
    Truncated,
    /// A normal stop with nothing in it.
    EmptyResponse,
    /// Tool-call markup inside the text.
    StrayToolCall,
    /// A call to a tool that was not offered.
    UnknownTool,
    /// Tool arguments that are not what the tool takes.
    InvalidToolArguments,
    /// The answer repeats itself without end.
    Repetition,
    /// The call's own deadline passed.
    Deadline,
    /// Refused by an open circuit breaker.
    CircuitOpen,
    /// Refused by a full bulkhead.
    BulkheadFull,
    /// Refused since the caller's budget is spent.
    BudgetExhausted,
    /// Refused since the rate limiter cannot admit the call in time.
    LimiterFull,
    /// Refused since the call costs more than the limiter can ever hold.
    CostAboveCapacity,
    /// The caller went away.
    Cancelled,
    /// Two or more candidates failed or were passed over.
    AllFailed,
}

/// Which clock ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Clock {
    /// Until a connection stands.
    Connect,
    /// From dispatch to the first output.
    FirstOutput,
    /// Between two outputs.
    Idle,
    /// Without a byte of any kind.
    Silence,
    /// The whole attempt.
    Total,
}

// === impl Code ===

impl Code {
    /// Every code there is, in the order of the table.
    pub const ALL: [Self; 36] = [
        Self::InvalidRequest,
        Self::Authentication,
        Self::Permission,
        Self::Blocked,
        Self::NotFound,
        Self::PayloadTooLarge,
        Self::ContentFilter,
        Self::ContextLength,
        Self::QuotaExhausted,
        Self::RateLimited,
        Self::Overloaded,
        Self::Server,
        Self::RequestTimeout,
        Self::Conflict,
        Self::Connect,
        Self::Transport,
        Self::Timeout(Clock::Connect),
        Self::Timeout(Clock::FirstOutput),
        Self::Timeout(Clock::Idle),
        Self::Timeout(Clock::Silence),
        Self::Timeout(Clock::Total),
        Self::InvalidResponse,
        Self::Truncated,
        Self::EmptyResponse,
        Self::StrayToolCall,
        Self::UnknownTool,
        Self::InvalidToolArguments,
        Self::Repetition,
        Self::Deadline,
        Self::CircuitOpen,
        Self::BulkheadFull,
        Self::BudgetExhausted,
        Self::LimiterFull,
        Self::CostAboveCapacity,
        Self::Cancelled,
        Self::AllFailed,
    ];

    /// The stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::Authentication => "AUTHENTICATION",
            Self::Permission => "PERMISSION",
            Self::Blocked => "BLOCKED",
            Self::NotFound => "NOT_FOUND",
            Self::PayloadTooLarge => "PAYLOAD_TOO_LARGE",
            Self::ContentFilter => "CONTENT_FILTER",
            Self::ContextLength => "CONTEXT_LENGTH",
            Self::QuotaExhausted => "QUOTA_EXHAUSTED",
            Self::RateLimited => "RATE_LIMITED",
            Self::Overloaded => "OVERLOADED",
            Self::Server => "SERVER",
            Self::RequestTimeout => "REQUEST_TIMEOUT",
            Self::Conflict => "CONFLICT",
            Self::Connect => "CONNECT",
            Self::Transport => "TRANSPORT",
            Self::Timeout(Clock::Connect) => "TIMEOUT_CONNECT",
            Self::Timeout(Clock::FirstOutput) => "TIMEOUT_FIRST_OUTPUT",
            Self::Timeout(Clock::Idle) => "TIMEOUT_IDLE",
            Self::Timeout(Clock::Silence) => "TIMEOUT_SILENCE",
            Self::Timeout(Clock::Total) => "TIMEOUT_TOTAL",
            Self::InvalidResponse => "INVALID_RESPONSE",
            Self::Truncated => "TRUNCATED",
            Self::EmptyResponse => "EMPTY_RESPONSE",
            Self::StrayToolCall => "STRAY_TOOL_CALL",
            Self::UnknownTool => "UNKNOWN_TOOL",
            Self::InvalidToolArguments => "INVALID_TOOL_ARGUMENTS",
            Self::Repetition => "REPETITION",
            Self::Deadline => "DEADLINE",
            Self::CircuitOpen => "CIRCUIT_OPEN",
            Self::BulkheadFull => "BULKHEAD_FULL",
            Self::BudgetExhausted => "BUDGET_EXHAUSTED",
            Self::LimiterFull => "LIMITER_FULL",
            Self::CostAboveCapacity => "COST_ABOVE_CAPACITY",
            Self::Cancelled => "CANCELLED",
            Self::AllFailed => "ALL_FAILED",
        }
    }

    /// What an HTTP status alone says; `None` below 400. An unknown status is judged by its family.
    #[must_use]
    pub fn of_status(status: StatusCode) -> Option<Self> {
        Some(match status.as_u16() {
            ..400 => return None,
            401 => Self::Authentication,
            402 => Self::QuotaExhausted,
            403 => Self::Permission,
            404 => Self::NotFound,
            408 | 499 => Self::RequestTimeout,
            409 => Self::Conflict,
            413 => Self::PayloadTooLarge,
            429 => Self::RateLimited,
            498 | 529 => Self::Overloaded,
            400..500 => Self::InvalidRequest,
            500.. => Self::Server,
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        Self::ALL
            .into_iter()
            .find(|code| code.as_str() == name)
            .ok_or_else(|| serde::de::Error::custom(format_args!("no failure code is named `{name}`")))
    }
}
