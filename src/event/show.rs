//! A fact as a name for programs, and as a line for people.

use std::fmt;

use crate::chat::{Level, Outcome};

use super::Fact;

impl fmt::Display for Fact<'_> {
    /// One line, in words that may change; [`Fact::name`] and the fields are for programs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempt { provider, model, attempt, .. } => {
                write!(f, "-> {provider} ({model}), attempt {attempt}")
            }
            Self::Settled { provider, outcome, elapsed, .. } => {
                write!(f, "<- {provider}, {} after {elapsed:.2?}", Ended(outcome))
            }
            Self::Ended { outcome, level: Level::None, .. } => write!(f, "the call {}", Ended(outcome)),
            Self::Ended { outcome, level, .. } => {
                write!(f, "the call {}, level {}", Ended(outcome), level.as_str())
            }
            Self::Adapted { provider, option, change, .. } => {
                write!(f, "{option} for {provider}: {change:?}")
            }
            Self::RetryPlanned { failure, delay, attempt, of, .. } => {
                write!(f, "retry {attempt} of {of} in {delay:.1?}, since {failure}")
            }
            Self::RetryStarted { .. } => f.write_str("the retry starts"),
            Self::RetryRefused { failure, reason, .. } => write!(f, "no retry ({reason:?}), since {failure}"),
            Self::TimedOut { clock, after, .. } => write!(f, "the clock {clock:?} ran out after {after:.1?}"),
            Self::Crawling { rate, .. } => write!(f, "the stream crawls: {rate:.1} bytes a second"),
            Self::Reset { failure, delay, .. } => {
                write!(f, "all output so far is void, and begins anew in {delay:.1?}: {failure}")
            }
            Self::Skipped { .. }
            | Self::FailedOver { .. }
            | Self::Moved { .. }
            | Self::Trial { .. }
            | Self::SprungBack { .. } => self.show_move(f),
            _ => self.show_gate(f),
        }
    }
}

/// An outcome in words.
struct Ended<'a>(&'a Outcome);

// === impl Fact ===

impl Fact<'_> {
    /// The name of the fact, stable.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Attempt { .. } => "attempt",
            Self::Adapted { .. } => "adapted",
            Self::RetryPlanned { .. } => "retry_planned",
            Self::RetryStarted { .. } => "retry_started",
            Self::RetryRefused { .. } => "retry_refused",
            Self::TimedOut { .. } => "timed_out",
            Self::Crawling { .. } => "crawling",
            Self::Skipped { .. } => "skipped",
            Self::FailedOver { .. } => "failed_over",
            Self::Moved { .. } => "moved",
            Self::Trial { .. } => "trial",
            Self::SprungBack { .. } => "sprung_back",
            Self::Reset { .. } => "reset",
            Self::Admitted { .. } => "admitted",
            Self::Released { .. } => "released",
            Self::Refused { .. } => "refused",
            Self::Transition { .. } => "transition",
            Self::Probe { .. } => "probe",
            Self::CacheLost { .. } => "cache_lost",
            Self::Calibrated { .. } => "calibrated",
            Self::Frozen { .. } => "frozen",
            Self::Slowed { .. } => "slowed",
            Self::BudgetWarning { .. } => "budget_warning",
            Self::Rung { .. } => "rung",
            Self::Degraded { .. } => "degraded",
            Self::Settled { .. } => "settled",
            Self::Ended { .. } => "ended",
        }
    }

    fn show_move(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped { candidate, failure, .. } => write!(f, "{candidate} is passed over: {failure}"),
            Self::FailedOver { from, to, .. } => write!(f, "from {from} on to {to}"),
            Self::Moved { from, to, rest } => {
                write!(f, "calls begin at {to} now; {from} rests for {rest:.1?}")
            }
            Self::Trial { candidate, .. } => write!(f, "a trial of {candidate}"),
            Self::SprungBack { candidate, .. } => write!(f, "calls begin at {candidate} again"),
            _ => f.write_str(self.name()),
        }
    }

    fn show_gate(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted { gate, key, waited, .. } if waited.is_zero() => {
                write!(f, "{gate} {key}: admitted")
            }
            Self::Admitted { gate, key, waited, .. } => {
                write!(f, "{gate} {key}: admitted after {waited:.1?}")
            }
            Self::Released { gate, key, outcome, .. } => {
                write!(f, "{gate} {key}: released, {}", Ended(outcome))
            }
            Self::Refused { gate, key, failure, .. } => write!(f, "{gate} {key}: refused: {failure}"),
            Self::Transition { key, from, to, cause, rest } => {
                write!(f, "circuit {key}: {from:?} -> {to:?}, since {cause}")?;
                rest.map_or(Ok(()), |rest| write!(f, "; rests for {rest:.1?}"))
            }
            Self::Probe { key, .. } => write!(f, "circuit {key}: one call tries"),
            Self::CacheLost { key } => write!(f, "circuit {key}: calls are no longer read from the cache"),
            Self::Calibrated { key, dimension, limit, remaining } => {
                write!(f, "limiter {key}: {remaining} of {limit} {dimension:?} are left")
            }
            Self::Frozen { key, length } => write!(f, "limiter {key}: admits nothing for {length:.1?}"),
            Self::Slowed { key, share, length } => {
                write!(f, "limiter {key}: goes on at {share:.2} of its rates for {length:.1?}")
            }
            Self::BudgetWarning { key, used, limit } => write!(f, "budget {key}: {used} of {limit} are used"),
            Self::Rung { rung, failure: None, .. } => write!(f, "rung {rung} answers"),
            Self::Rung { rung, failure: Some(failure), .. } => {
                write!(f, "rung {rung} cannot help: {failure}")
            }
            Self::Degraded { rung, quality, failure, .. } => {
                write!(f, "degraded to {rung} (quality {quality:.2}), since {failure}")
            }
            _ => f.write_str(self.name()),
        }
    }
}

// === impl Ended ===

impl fmt::Display for Ended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Outcome::Completed(_) => f.write_str("completed"),
            Outcome::Failed(code) => write!(f, "failed with {code}"),
            Outcome::Truncated => f.write_str("truncated"),
            Outcome::Abandoned => f.write_str("abandoned"),
        }
    }
}
