//! What a call holds from its admission to its end.

use std::sync::Arc;
use std::time::Duration;

use crate::chat::{Ask, CallId, Seen, Usage, tokens};
use crate::event::Fact;
use crate::failure::{Breaker, Clock, Code, Failure};
use crate::observe::{End, Observer, Outcome, Sign};

use super::probes::Ticket;
use super::signals::Weight;
use super::state::{GATE, State};
use super::word::Counted;
use super::words::{Report, Verdict};

/// What a call holds from its admission to its end. See the [module](super).
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what was seen of a call, each for itself; it is moved with the call"
)]
pub struct Trial {
    state: Arc<State>,
    call: CallId,
    /// Where first outputs are timed: when the call began.
    begun: u64,
    /// Where failures are weighed: what it took so far.
    taken: Seen,
    ticket: Option<Ticket>,
    generation: u16,
    has_output: bool,
    /// Whether the provider told what is used.
    is_told: bool,
    slow: bool,
    /// Whether clocks further in found that it crawls.
    crawls: bool,
}

// === impl Trial ===

impl Trial {
    #[inline]
    pub(super) fn new<R: Ask>(
        state: Arc<State>,
        request: &R,
        call: CallId,
        (generation, ticket): (u16, Option<Ticket>),
    ) -> Self {
        let config = &state.rules.config;
        let begun = if config.slow.is_some() { state.rules.nanos() } else { 0 };
        let input = if config.weighs() { input(request) } else { 0 };
        Self {
            call,
            begun,
            taken: Seen::of(input),
            ticket,
            generation,
            has_output: false,
            is_told: false,
            slow: false,
            crawls: false,
            state,
        }
    }

    /// The first output came, or whatever takes its place.
    #[inline]
    fn begin(&mut self) {
        self.has_output = true;
        if let Some(slow) = self.state.rules.config.slow {
            let took = Duration::from_nanos(self.state.rules.nanos().saturating_sub(self.begun));
            self.slow = took > slow.first_output;
        }
    }

    #[inline]
    fn completed(&mut self, usage: Option<Usage>) {
        if !self.has_output {
            self.begin();
        }
        if self.crawls
            || self.ticket.is_some()
            || self.slow
            || self.state.succeed(self.generation) == Counted::No
        {
            self.succeeded(usage);
        }
    }

    /// A call that completed, of which the circuit must hear: a success, unless it came at a crawl.
    #[cold]
    fn succeeded(&self, usage: Option<Usage>) {
        let verdict = if self.crawls { Verdict::Failure } else { Verdict::Success };
        let weight = Weight { slow: self.slow, burnt: 0, usage };
        self.report(Report { verdict, weight, stated: None, pauses: false });
    }

    #[cold]
    fn failed(&mut self, failure: &Failure) {
        let verdict = self.verdict(failure);
        let weight = Weight { slow: self.slow, burnt: self.burnt(failure), usage: None };
        let pauses = failure.code() == Code::RateLimited && verdict != Verdict::Neutral;
        self.report(Report { verdict, weight, stated: failure.retry_after(), pauses });
    }

    fn verdict(&self, failure: &Failure) -> Verdict {
        let config = &self.state.rules.config;
        match (failure.judgement().breaker, failure.code()) {
            // What came is the caller's to weigh; that it took too long in all says nothing about who sent it.
            (Breaker::Failure, Code::Timeout(Clock::Total)) if self.has_output => Verdict::Neutral,
            (Breaker::Failure, _) => Verdict::Failure,
            (Breaker::Semantic, _) if config.semantic => Verdict::Failure,
            (Breaker::Pause, Code::QuotaExhausted) => Verdict::QuotaExhausted,
            (Breaker::Pause, Code::RateLimited) if config.count_rate_limited => Verdict::Failure,
            (Breaker::Pause, _) => Verdict::Throttled,
            (Breaker::Semantic | Breaker::Neutral, _) => Verdict::Neutral,
        }
    }

    /// The tokens that are paid and lost. A refusal burns nothing, whatever its body says; what is told to be used is
    /// paid.
    fn burnt(&self, failure: &Failure) -> u64 {
        let refused =
            failure.status().is_some_and(|status| status.is_client_error() || status.is_server_error());
        if !self.is_told && (!self.has_output || refused) {
            return 0;
        }
        u64::from(self.taken.input()) + u64::from(self.taken.output())
    }

    /// Tells the circuit, unless that changes nothing: a probe gives its place back in any case.
    #[cold]
    fn report(&self, report: Report) {
        if report.verdict != Verdict::Neutral || self.ticket.is_some() {
            self.state.settle(self.generation, self.ticket, &report);
        }
    }

    #[inline]
    fn released(&self, outcome: Outcome) {
        let State { rules, name, .. } = &*self.state;
        rules.facts.emit(&Fact::Released { call: self.call, gate: GATE, key: name, outcome });
    }
}

/// What tests look at.
#[cfg(test)]
impl Trial {
    pub(super) const fn is_probe(&self) -> bool {
        self.ticket.is_some()
    }

    pub(super) const fn generation(&self) -> u16 {
        self.generation
    }

    /// Takes it for a call of another generation.
    pub(super) const fn forge(&mut self, generation: u16) {
        self.generation = generation;
    }
}

impl Observer for Trial {
    #[inline]
    fn see(&mut self, sign: Sign) {
        match sign {
            Sign::Output(bytes) => {
                self.taken.see(bytes);
                if !self.has_output {
                    self.begin();
                }
            }
            Sign::Crawling => self.crawls = true,
            _ => {}
        }
    }

    fn note(&mut self, usage: &Usage) {
        self.is_told = true;
        self.taken.note(usage.input, usage.output);
    }

    #[inline]
    fn settle(mut self, how: End<'_>) {
        match how {
            End::Completed(usage) => {
                self.completed(usage);
                self.released(Outcome::Completed(usage));
            }
            End::Failed(failure) => {
                self.failed(failure);
                self.released(Outcome::from(failure));
            }
            End::Abandoned => {
                self.report(Report::NEUTRAL);
                self.released(Outcome::Abandoned);
            }
        }
    }
}

/// What the input of a request likely is.
#[cold]
fn input<R: Ask>(request: &R) -> u32 {
    tokens(request.cost().input)
}
