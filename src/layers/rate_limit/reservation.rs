//! The permit: what a call took, and how that is settled.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::chat::{CallId, End, Limits, Observer, Seen, Sign, Usage, tokens};
use crate::event::Fact;
use crate::failure::{Breaker, Code, Failure};
use crate::store::{Costs, Ledger, Memory, Store};
use crate::time::{Instant, after, now};

use super::state::{GATE, Price, State};

/// The longest a stated wait stops a key: a day. What is longer is no rate limit.
const LONGEST_FREEZE: Duration = Duration::from_secs(24 * 60 * 60);

/// What the code of a provider that wants slower traffic is called, in the failure's words.
const SLOW_DOWN: &str = "slow_down";

/// What a call took from a rate limit, until it is settled. See the [module](super).
#[derive(Debug)]
pub struct Reservation<K: Store = Memory> {
    state: Arc<State<K::Ledger>>,
    call: CallId,
    costs: Costs,
    /// Its input where that was not counted, as it was estimated before anything corrected it.
    estimated: Option<NonZeroU32>,
    /// Its input is what was reserved, until it is told.
    seen: Seen,
    phase: Phase,
    /// Whether input read from a cache is charged.
    charges_cache: bool,
    /// Boxed, since few try out a number and all move it.
    trial: Option<Box<Trial>>,
}

/// What a call tells of the number of calls in flight, where that is tried out.
#[derive(Debug)]
struct Trial {
    round: u32,
    /// When its first output is late, where that is looked at.
    late_from: Option<Instant>,
    late: bool,
}

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Sent, maybe.
    Sent,
    /// The head of its response came.
    Head,
    /// Output came.
    Output,
    /// The provider told what is used, and so charges it, however the call may end.
    Told,
}

// === impl Reservation ===

impl<K: Store> Reservation<K> {
    /// Of a call that is admitted now.
    #[inline]
    pub(super) fn new(state: Arc<State<K::Ledger>>, call: CallId, price: Price, now: Instant) -> Self {
        let trial = if state.terms.config.adaptive.is_some() { Some(Trial::of(&state, now)) } else { None };
        let Price { costs, estimated, charges_cache } = price;
        let (seen, phase) = (Seen::of(costs.input), Phase::Sent);
        Self { state, call, costs, estimated, seen, phase, charges_cache, trial }
    }

    /// What the call used in the end.
    fn used(&self, how: End<'_>) -> Costs {
        match how {
            End::Completed(Some(usage)) => self.told(usage),
            End::Failed(failure) if failure.is_local() && self.phase == Phase::Sent => Costs::default(),
            _ if self.phase == Phase::Told => self.seen(),
            End::Failed(failure) if self.phase < Phase::Output || is_refusal(failure) => {
                Costs { requests: 1, ..Costs::default() }
            }
            End::Abandoned if self.phase == Phase::Sent => Costs::default(),
            _ => self.seen(),
        }
    }

    /// What the provider charges for this.
    fn told(&self, usage: Usage) -> Costs {
        costs(tokens(self.charged(usage)), tokens(usage.output))
    }

    /// The input that is charged.
    const fn charged(&self, usage: Usage) -> u64 {
        let free = if self.charges_cache { 0 } else { usage.cached_read };
        usage.input.saturating_sub(free)
    }

    /// What it used as far as that was told, or seen.
    const fn seen(&self) -> Costs {
        costs(self.seen.input(), self.seen.output())
    }

    /// Takes in what a failure says of the limits, and tells what that changed.
    fn heed(&self, failure: &Failure) {
        let state = &self.state;
        state.calibrate(failure.limits());
        let config = &state.terms.config;
        if failure.is_local() || failure.judgement().breaker != Breaker::Pause {
            return;
        }
        let (now, key) = (now(), &*state.name);
        if failure.code() == Code::RateLimited && failure.message().contains(SLOW_DOWN) {
            let (share, length) = (config.slow_down_share, config.slow_down_for);
            if state.ledger.slow_down(share, after(now, length), now) {
                state.terms.facts.emit(&Fact::Slowed { key, share, length });
            }
        }
        if let Some(wait) = failure.retry_after() {
            let length = wait.min(LONGEST_FREEZE);
            if state.ledger.freeze(now + length, now) {
                state.terms.facts.emit(&Fact::Frozen { key, length });
            }
        }
        state.line.wake();
    }
}

// === impl Trial ===

impl Trial {
    #[cold]
    fn of<L>(state: &State<L>, now: Instant) -> Box<Self> {
        let late = state.terms.config.adaptive.and_then(|adaptive| adaptive.late_first_output);
        let late_from = late.and_then(|late| now.checked_add(late));
        Box::new(Self { round: state.slots.round(), late_from, late: false })
    }
}

impl<K: Store> Observer for Reservation<K> {
    fn meet(&mut self, limits: &Limits) {
        self.phase = self.phase.max(Phase::Head);
        self.state.calibrate(limits);
    }

    fn see(&mut self, sign: Sign) {
        let Sign::Output(bytes) = sign else {
            self.phase = self.phase.max(Phase::Head);
            return;
        };
        self.phase = self.phase.max(Phase::Output);
        self.seen.see(bytes);
        if let Some(trial) = &mut self.trial
            && let Some(late_from) = trial.late_from.take()
        {
            trial.late = now() > late_from;
        }
    }

    fn note(&mut self, usage: &Usage) {
        self.phase = Phase::Told;
        self.seen.note(self.charged(*usage), usage.output);
    }

    fn settle(self, how: End<'_>) {
        let state = &self.state;
        state.ledger.settle(&self.costs, &self.used(how), now);
        match how {
            End::Completed(Some(usage)) => {
                state.experience.learn(self.estimated, usage.input, usage.output);
            }
            End::Failed(failure) => self.heed(failure),
            End::Completed(None) | End::Abandoned => {}
        }
        state.slots.give_back();
        if let Some(trial) = &self.trial {
            match how {
                End::Failed(failure) if is_overload(failure) => state.slots.learn(trial.round, true),
                End::Completed(_) => state.slots.learn(trial.round, trial.late),
                End::Failed(_) | End::Abandoned => {}
            }
        }
        state.line.wake();
        let (call, outcome) = (self.call, how.into());
        state.terms.facts.emit(&Fact::Released { call, gate: GATE, key: &state.name, outcome });
    }
}

/// The costs of one request with so many tokens.
const fn costs(input: u32, output: u32) -> Costs {
    Costs { requests: 1, input, output, tokens: input.saturating_add(output) }
}

/// Whether the provider refused the call: nothing of it was charged.
fn is_refusal(failure: &Failure) -> bool {
    failure.status().is_some_and(|status| status.is_client_error() || status.is_server_error())
}

fn is_overload(failure: &Failure) -> bool {
    let unavailable = failure.status().is_some_and(|status| status.as_u16() == 503);
    !failure.is_local() && (unavailable || matches!(failure.code(), Code::RateLimited | Code::Overloaded))
}
