//! The words of facts.

use serde::{Deserialize, Serialize};

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Circuit {
    /// Calls pass.
    Closed,
    /// Calls are refused until the rest is over.
    Open,
    /// A few calls try.
    HalfOpen,
    /// Calls are refused until a person says otherwise.
    ForcedOpen,
    /// Calls pass, and nothing is counted.
    Disabled,
    /// Calls pass and are counted, and it never opens.
    Observe,
}

/// What was done to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Left out: the model does not take it.
    Dropped,
    /// Lowered to what the model takes.
    Clamped,
    /// Added: the model demands it.
    Supplied,
    /// Left out: another provider made it, and only that one can read it.
    Stripped,
}

/// Why a failure that might have been retried was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryRefusal {
    /// All attempts were used.
    Attempts,
    /// The wait stated is longer than the configuration allows.
    Wait,
    /// The deadline leaves no time for another attempt.
    Deadline,
    /// The retry budget is spent.
    Budget,
}
