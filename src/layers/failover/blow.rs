//! What a failure says about its candidate.

use std::time::Duration;

use crate::failure::{Code, Failure};

use super::config::FailoverConfig;

/// What a failed attempt says about its candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    /// It is bound to the request, was not allowed to go on, or we refused: it says nothing.
    None,
    /// One of several in a row.
    Counted,
    /// It cannot serve for now.
    AtOnce(Option<Duration>),
}

// === impl Blow ===

impl Blow {
    /// What a failure before the first output says.
    pub(super) fn of(failure: &Failure, config: &FailoverConfig) -> Self {
        match failure.code() {
            Code::QuotaExhausted | Code::CircuitOpen => Self::AtOnce(failure.retry_after()),
            _ if failure.is_local() => Self::None,
            code => match (Self::of_code(code, config), failure.retry_after()) {
                (Self::Counted, Some(wait)) if !wait.is_zero() => Self::AtOnce(Some(wait)),
                (blow, _) => blow,
            },
        }
    }

    /// What the end of a stream says.
    pub(super) fn of_code(code: Code, config: &FailoverConfig) -> Self {
        match code {
            Code::QuotaExhausted => Self::AtOnce(None),
            // What may not go on must not move later calls either.
            Code::Authentication | Code::Permission if !config.also.contains(&code) => Self::None,
            Code::NotFound
            | Code::ContextLength
            | Code::ContentFilter
            | Code::InvalidRequest
            | Code::PayloadTooLarge
            | Code::Deadline
            | Code::Cancelled
            | Code::AllFailed
            | Code::CircuitOpen
            | Code::BulkheadFull
            | Code::BudgetExhausted
            | Code::LimiterFull
            | Code::CostAboveCapacity => Self::None,
            _ => Self::Counted,
        }
    }
}
