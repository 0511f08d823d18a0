//! Every fact, on one page.

use std::time::Duration;

use crate::chat::{CallId, Dimension, Level, Outcome, ResetReason, Usage};
use crate::failure::{Clock, Failure};

use super::words::{Change, Circuit, RetryRefusal};

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
    /// A gate let a call pass.
    Admitted {
        /// Which call.
        call: CallId,
        /// Which layer: `rate_limit`, `bulkhead` or `circuit_breaker`.
        gate: &'static str,
        /// Which of its states, as the layer is named and keyed.
        key: &'a str,
        /// How long it waited in line.
        waited: Duration,
    },
    /// A call gave back what a gate had given it.
    Released {
        /// Which call.
        call: CallId,
        /// Which layer.
        gate: &'static str,
        /// Which of its states.
        key: &'a str,
        /// How the call ended.
        outcome: Outcome,
    },
    /// A gate refused a call; nothing was sent.
    Refused {
        /// Which call.
        call: CallId,
        /// Which layer.
        gate: &'static str,
        /// Which of its states.
        key: &'a str,
        /// Why, and when to come back.
        failure: &'a Failure,
    },
    /// A circuit breaker changed its state.
    Transition {
        /// Which breaker.
        key: &'a str,
        /// What it was.
        from: Circuit,
        /// What it is.
        to: Circuit,
        /// Why.
        cause: &'a str,
        /// How long it rests, where it opened.
        rest: Option<Duration>,
    },
    /// A half-open circuit breaker lets one call try.
    Probe {
        /// Which call.
        call: CallId,
        /// Which breaker.
        key: &'a str,
    },
    /// The calls of a circuit breaker's key used to be served from the provider's cache, and are no longer. Told once
    /// until the cache serves again.
    CacheLost {
        /// Which breaker.
        key: &'a str,
    },
    /// A provider's word changed what a rate limiter knows of one dimension.
    Calibrated {
        /// Which limiter.
        key: &'a str,
        /// What is limited.
        dimension: Dimension,
        /// The most there can be, now.
        limit: u64,
        /// What is left, now.
        remaining: u64,
    },
    /// A provider stated a wait: a rate limiter admits nothing for so long. Told where that is longer than before.
    Frozen {
        /// Which limiter.
        key: &'a str,
        /// How long, from now.
        length: Duration,
    },
    /// A provider wants slower traffic: a rate limiter lowered its rates. Told when that begins, or is made longer.
    Slowed {
        /// Which limiter.
        key: &'a str,
        /// To which share of what they were.
        share: f64,
        /// How long, from now.
        length: Duration,
    },
    /// A budget is nearly spent. Told once a window.
    BudgetWarning {
        /// Whose.
        key: &'a str,
        /// What was used, reserved and owed.
        used: u64,
        /// Of how much.
        limit: u64,
    },
    /// A rung of the degradation ladder was tried.
    Rung {
        /// Which call.
        call: CallId,
        /// Which rung.
        rung: &'a str,
        /// Why it could not help, if it could not.
        failure: Option<&'a Failure>,
    },
    /// A call was answered with less than was asked.
    Degraded {
        /// Which call.
        call: CallId,
        /// By which rung.
        rung: &'a str,
        /// How much the answer is worth, from 0 to 1.
        quality: f64,
        /// Why the whole could not be had.
        failure: &'a Failure,
    },
    /// One request to a provider ended.
    Settled {
        /// Which call.
        call: CallId,
        /// Whose.
        provider: &'a str,
        /// How.
        outcome: Outcome,
        /// What it used, where that was told: of a call that broke or was let go of, as far as it came.
        usage: Option<Usage>,
        /// From dispatch to the first output.
        first_output: Option<Duration>,
        /// From dispatch to the end.
        elapsed: Duration,
    },
    /// A whole call ended, as who made it sees it: once for each that the degradation layer was asked.
    Ended {
        /// Which call.
        call: CallId,
        /// How: an answer that stands in for another is completed, too.
        outcome: Outcome,
        /// How far the answer is from what was asked; none where it is whole, or there is no answer.
        level: Level,
    },
}
