//! Every fact the parts know, on one page, and where facts go.
//!
//! Facts are told at decisions and endings, never per chunk and never under a lock. Give each layer and the provider
//! the same [`Facts`]; whoever is given none tells `tracing`.
//!
//! A clock that runs out tells [`Fact::TimedOut`] and drops the attempt, so that the provider beneath it settles as
//! abandoned. Calls over plain HTTP are numbered only if their request carries a [`Call`](crate::chat::Call).

mod sink;
mod tracing;

use std::time::Duration;

use crate::chat::{CallId, Outcome, ResetReason, Usage};
use crate::failure::{Clock, Failure};

pub use self::tracing::Tracing;
pub use sink::{Facts, Sink};

/// Something that happened to a call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Fact<'a> {
    /// One request goes out to a provider.
    Attempt {
        /// Which call.
        call: CallId,
        /// To whom.
        provider: &'a str,
        /// The model, in the provider's word.
        model: &'a str,
        /// Which try on this provider, from 1.
        attempt: u16,
    },
    /// An option of the request was dropped, renamed, clamped or supplied for a provider.
    Adapted {
        /// Which call.
        call: CallId,
        /// For whom.
        provider: &'a str,
        /// Which option.
        option: &'a str,
        /// What was done to it.
        change: Change,
    },
    /// A retry will follow after a wait.
    RetryPlanned {
        /// Which call.
        call: CallId,
        /// Names the retry within the process; [`Fact::RetryStarted`] carries it again.
        retry_id: u64,
        /// Who failed.
        provider: Option<&'a str>,
        /// The name of the retry's configuration.
        policy: &'a str,
        /// Why.
        failure: &'a Failure,
        /// How long the wait is.
        delay: Duration,
        /// Which retry this is, from 1.
        attempt: u32,
        /// Of how many.
        of: u32,
    },
    /// A planned retry starts.
    RetryStarted {
        /// Which call.
        call: CallId,
        /// The retry.
        retry_id: u64,
    },
    /// A failure that might have been retried was not.
    RetryRefused {
        /// Which call.
        call: CallId,
        /// The failure.
        failure: &'a Failure,
        /// Why it was not.
        reason: RetryRefusal,
    },
    /// A clock ran out.
    TimedOut {
        /// Which call.
        call: CallId,
        /// Which clock.
        clock: Clock,
        /// How long it was.
        after: Duration,
    },
    /// A stream comes slower than it should.
    Crawling {
        /// Which call.
        call: CallId,
        /// Bytes of output a second, over the window.
        rate: f64,
    },
    /// A candidate was passed over; nothing was sent to it.
    Skipped {
        /// Which call.
        call: CallId,
        /// Who.
        candidate: &'a str,
        /// Why.
        failure: &'a Failure,
    },
    /// A call goes on to another candidate.
    FailedOver {
        /// Which call.
        call: CallId,
        /// Who failed.
        from: &'a str,
        /// Who is asked next.
        to: &'a str,
        /// Why.
        failure: &'a Failure,
    },
    /// New calls begin at another candidate from now on.
    Moved {
        /// Where they began.
        from: &'a str,
        /// Where they begin.
        to: &'a str,
        /// When the first is tried again.
        rest: Duration,
    },
    /// A higher candidate is tried again.
    Trial {
        /// Which call.
        call: CallId,
        /// Who.
        candidate: &'a str,
    },
    /// The trial went well: new calls begin at the higher candidate again.
    SprungBack {
        /// Which call.
        call: CallId,
        /// Who.
        candidate: &'a str,
    },
    /// All output of the call so far is void, and it starts again.
    Reset {
        /// Which call.
        call: CallId,
        /// Why, in one word.
        reason: ResetReason,
        /// Why.
        failure: &'a Failure,
        /// How long the wait is.
        delay: Duration,
    },
    /// One request to a provider ended.
    Settled {
        /// Which call.
        call: CallId,
        /// Whose.
        provider: &'a str,
        /// How.
        outcome: Outcome,
        /// What it used, where that is known.
        usage: Option<Usage>,
        /// From dispatch to the first output.
        first_output: Option<Duration>,
        /// From dispatch to the end.
        elapsed: Duration,
    },
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
            Self::Settled { .. } => "settled",
        }
    }
}
