//! What words are called in labels.

use crate::chat::{Dimension, Outcome, ResetReason};
use crate::event::{Change, Circuit, RetryRefusal};
use crate::failure::{Clock, Failure, Skip};

pub(super) const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed(_) => "completed",
        Outcome::Failed(code) => code.as_str(),
        Outcome::Truncated => "truncated",
        Outcome::Abandoned => "abandoned",
    }
}

pub(super) const fn circuit(state: Circuit) -> (f64, &'static str) {
    match state {
        Circuit::Closed => (0.0, "closed"),
        Circuit::HalfOpen => (1.0, "half_open"),
        Circuit::Open => (2.0, "open"),
        Circuit::ForcedOpen => (3.0, "forced_open"),
        Circuit::Disabled => (4.0, "disabled"),
        Circuit::Observe => (5.0, "observe"),
    }
}

pub(super) const fn clock(clock: Clock) -> &'static str {
    match clock {
        Clock::Connect => "connect",
        Clock::FirstOutput => "first_output",
        Clock::Idle => "idle",
        Clock::Silence => "silence",
        Clock::Total => "total",
    }
}

pub(super) const fn change(change: Change) -> &'static str {
    match change {
        Change::Dropped => "dropped",
        Change::Clamped => "clamped",
        Change::Supplied => "supplied",
        Change::Stripped => "stripped",
    }
}

pub(super) const fn refusal(reason: RetryRefusal) -> &'static str {
    match reason {
        RetryRefusal::Attempts => "attempts",
        RetryRefusal::Wait => "wait",
        RetryRefusal::Deadline => "deadline",
        RetryRefusal::Budget => "budget",
    }
}

pub(super) const fn dimension(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Requests => "requests",
        Dimension::Tokens => "tokens",
        Dimension::InputTokens => "input_tokens",
        Dimension::OutputTokens => "output_tokens",
        Dimension::RequestsPerDay => "requests_per_day",
        Dimension::TokensPerDay => "tokens_per_day",
    }
}

pub(super) const fn reset(reason: ResetReason) -> &'static str {
    match reason {
        ResetReason::Transport => "transport",
        ResetReason::Truncated => "truncated",
        ResetReason::Timeout => "timeout",
        ResetReason::RateLimited => "rate_limited",
        ResetReason::Server => "server",
        ResetReason::StrayToolCall => "stray_tool_call",
        ResetReason::Empty => "empty",
        ResetReason::Semantic => "semantic",
    }
}

pub(super) fn skip(failure: &Failure) -> &'static str {
    match failure.skip() {
        Some(Skip::NotCallable) => "not_callable",
        Some(Skip::CannotPay) => "cannot_pay",
        Some(Skip::Window) => "window",
        Some(Skip::Capability) => "capability",
        Some(Skip::Price) => "price",
        Some(Skip::Slow) => "slow",
        Some(Skip::Protocol) => "protocol",
        Some(Skip::Stateful) => "stateful",
        Some(Skip::Resting) => "resting",
        None => failure.code().as_str(),
    }
}
