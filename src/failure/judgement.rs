//! The one table: what the layers do about a code.

use serde::Serialize;

use super::code::{Clock, Code};

/// What kind of failure a code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// Trying the same again cannot help.
    Fatal,
    /// The account is empty there.
    Quota,
    /// The provider is busy or broken for now.
    Transient,
    /// The way to the provider broke.
    Network,
    /// The answer is not the protocol, or not whole.
    Malformed,
    /// The answer is whole and useless.
    Semantic,
    /// The caller's time is over.
    Deadline,
    /// We refused.
    Local,
    /// The caller went away.
    Abandoned,
    /// Several failures in one.
    Aggregate,
}

/// Whether another candidate may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailOver {
    /// Yes.
    Yes,
    /// Only where the configuration allows this code.
    OptIn,
    /// Only to a candidate with a larger window.
    LargerWindow,
    /// No.
    No,
}

/// What a circuit breaker makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breaker {
    /// It counts against the provider.
    Failure,
    /// It counts where semantic failures are counted.
    Semantic,
    /// It is not counted; the provider rests until the stated time.
    Pause,
    /// It says nothing about the provider.
    Neutral,
}

/// What the layers do about a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judgement {
    /// The kind of failure.
    pub class: Class,
    /// Whether another try on the same provider may help.
    pub retry: bool,
    /// Whether another candidate may be asked.
    pub fail_over: FailOver,
    /// What a breaker makes of it.
    pub breaker: Breaker,
}

// === impl Code ===

impl Code {
    /// The class the code belongs to.
    #[must_use]
    pub const fn class(self) -> Class {
        self.judgement().class
    }

    /// The one table: what the layers do about a code.
    #[must_use]
    pub const fn judgement(self) -> Judgement {
        use Breaker::{Failure, Neutral, Pause, Semantic};
        use FailOver::{LargerWindow, No, OptIn, Yes};
        let (class, retry, fail_over, breaker) = match self {
            Self::InvalidRequest | Self::PayloadTooLarge => (Class::Fatal, false, No, Neutral),
            Self::Authentication | Self::Permission | Self::ContentFilter => {
                (Class::Fatal, false, OptIn, Neutral)
            }
            Self::NotFound | Self::Blocked => (Class::Fatal, false, Yes, Neutral),
            Self::ContextLength => (Class::Fatal, false, LargerWindow, Neutral),
            Self::QuotaExhausted => (Class::Quota, false, Yes, Pause),
            Self::RateLimited => (Class::Transient, true, Yes, Pause),
            Self::Overloaded | Self::Server | Self::RequestTimeout => (Class::Transient, true, Yes, Failure),
            Self::Conflict => (Class::Transient, true, Yes, Neutral),
            Self::Timeout(Clock::Total) => (Class::Deadline, false, No, Failure),
            Self::Connect | Self::Transport | Self::Timeout(_) => (Class::Network, true, Yes, Failure),
            Self::InvalidResponse | Self::Truncated => (Class::Malformed, true, Yes, Failure),
            Self::EmptyResponse
            | Self::StrayToolCall
            | Self::UnknownTool
            | Self::InvalidToolArguments
            | Self::Repetition => (Class::Semantic, false, Yes, Semantic),
            Self::Deadline => (Class::Deadline, false, No, Neutral),
            Self::CircuitOpen | Self::BulkheadFull | Self::LimiterFull | Self::CostAboveCapacity => {
                (Class::Local, false, Yes, Neutral)
            }
            Self::BudgetExhausted => (Class::Local, false, No, Neutral),
            Self::Cancelled => (Class::Abandoned, false, No, Neutral),
            Self::AllFailed => (Class::Aggregate, false, No, Neutral),
        };
        Judgement { class, retry, fail_over, breaker }
    }
}
