//! The circuit: what state it is in, who passes, and what an outcome changes.

mod looks;
mod settle;

use std::time::Duration;

use crate::event;
use crate::time::{Instant, after};

use super::config::CircuitBreakerConfig;
use super::probes::{Probes, Ramp};
use super::rest::Rest;
use super::signals::{Cause, Signals};
use super::words::{Answer, Change, Report, Verdict};

/// See the [module](super).
#[derive(Debug)]
pub(super) struct Circuit {
    generation: u16,
    state: State,
    signals: Signals,
    rest: Rest,
    /// Since when it is not closed.
    sick: Option<Instant>,
    last: Option<Verdict>,
    /// How often it would have opened while it only observed.
    would_open: u64,
    /// Failures that were on record when it opened, and those of probes since; none once it has closed.
    failures: u32,
}

#[derive(Debug)]
enum State {
    /// With a pause, in which it shows as open, and a ramp, once it was open.
    Closed {
        paused: Option<Instant>,
        ramp: Option<Ramp>,
    },
    Open {
        until: Instant,
    },
    HalfOpen(Probes),
    ForcedOpen,
    Disabled,
    Observe,
}

// === impl Circuit ===

impl Circuit {
    pub(super) fn new(generation: u16, seed: Option<u64>) -> Self {
        Self {
            generation,
            state: State::CLOSED,
            signals: Signals::default(),
            rest: Rest::new(seed),
            sick: None,
            last: None,
            would_open: 0,
            failures: 0,
        }
    }

    /// Whether a call passes, now.
    pub(super) fn admit(&mut self, config: &CircuitBreakerConfig, now: Instant) -> (Answer, Option<Change>) {
        let change = self.advance(now);
        let answer = match &mut self.state {
            State::Closed { paused: Some(until), .. } | State::Open { until } => {
                Answer::Refuse(Some(until.saturating_duration_since(now)))
            }
            State::Closed { ramp, .. } => match ramp.as_mut().map(|ramp| ramp.pass(config, now)) {
                Some(Err(wait)) => Answer::Refuse(Some(wait)),
                Some(Ok(())) | None => {
                    *ramp = ramp.take().filter(|ramp| !ramp.is_over(now));
                    Answer::Pass
                }
            },
            State::HalfOpen(probes) => match probes.take(config, now) {
                Some(ticket) => Answer::Probe(ticket),
                None => Answer::Refuse(Some(probes.wait(now))),
            },
            State::ForcedOpen => Answer::Refuse(None),
            State::Disabled | State::Observe => Answer::Pass,
        };
        (answer, change)
    }

    /// Adds successes that were counted while there was calm.
    pub(super) fn add_successes(&mut self, bucket: u64, successes: u32) {
        if successes > 0 && !matches!(self.state, State::Disabled) {
            self.signals.add_successes(bucket, successes);
            self.last = Some(Verdict::Success);
        }
    }

    /// Whether the cache was lost with this call.
    pub(super) fn is_cache_lost(&mut self, config: &CircuitBreakerConfig, report: &Report) -> bool {
        report.verdict == Verdict::Success && self.signals.is_cache_lost(config, report.weight.usage)
    }

    pub(super) fn force_open(&mut self, now: Instant) -> Option<Change> {
        self.force(State::ForcedOpen, now)
    }

    pub(super) fn disable(&mut self, now: Instant) -> Option<Change> {
        self.force(State::Disabled, now)
    }

    pub(super) fn observe(&mut self, now: Instant) -> Option<Change> {
        self.force(State::Observe, now)
    }

    /// Closed, and everything forgotten but what is usual.
    pub(super) fn reset(&mut self, now: Instant) -> Option<Change> {
        self.rest.forget();
        self.last = None;
        self.would_open = 0;
        self.force(State::CLOSED, now)
    }

    /// Does what is due: a pause ends, a rest is over.
    fn advance(&mut self, now: Instant) -> Option<Change> {
        match &mut self.state {
            State::Closed { paused, .. } if paused.is_some_and(|until| until <= now) => {
                *paused = None;
                self.sick = None;
                let (from, to) = (event::Circuit::Open, event::Circuit::Closed);
                Some(Change { from, to, cause: "pause_over", rest: None })
            }
            State::Open { until } if *until <= now => {
                self.generation = self.generation.wrapping_add(1);
                self.state = State::HalfOpen(Probes::default());
                let (from, to) = (event::Circuit::Open, event::Circuit::HalfOpen);
                Some(Change { from, to, cause: "rest_over", rest: None })
            }
            _ => None,
        }
    }

    fn open(&mut self, rest: Duration, cause: Cause, now: Instant) -> Change {
        self.change(State::Open { until: after(now, rest) }, cause, now, Some(rest))
    }

    /// Keeps calls out for a while, and counts on: those in flight are of this generation still.
    fn pause(&mut self, wait: Duration, now: Instant) -> Option<Change> {
        let from = self.state(now);
        let State::Closed { paused, .. } = &mut self.state else { return None };
        let until = after(now, wait);
        if paused.is_some_and(|before| before >= until) {
            return None;
        }
        *paused = Some(until);
        self.sick.get_or_insert(now);
        let to = event::Circuit::Open;
        (from != to).then_some(Change { from, to, cause: "throttled", rest: Some(wait) })
    }

    fn close(&mut self, config: &CircuitBreakerConfig, now: Instant) -> Change {
        self.rest.close(now);
        self.signals.clear();
        self.failures = 0;
        // It comes back no slower than it was away.
        let away = self.sick.map_or(Duration::MAX, |since| now.saturating_duration_since(since));
        let ramp = config.ramp.map(|length| Ramp::new(now, length.min(away)));
        self.change(State::Closed { paused: None, ramp }, "recovered", now, None)
    }

    /// A state that a person wants. What was seen before it is forgotten.
    fn force(&mut self, state: State, now: Instant) -> Option<Change> {
        self.signals.clear();
        self.failures = 0;
        let change = self.change(state, "by_hand", now, None);
        (change.from != change.to).then_some(change)
    }

    /// Every change but a pause begins a new generation.
    fn change(&mut self, state: State, cause: Cause, now: Instant, rest: Option<Duration>) -> Change {
        let from = self.state(now);
        self.generation = self.generation.wrapping_add(1);
        self.state = state;
        let to = self.state(now);
        self.sick = match to {
            event::Circuit::Open | event::Circuit::HalfOpen | event::Circuit::ForcedOpen => {
                self.sick.or(Some(now))
            }
            _ => None,
        };
        Change { from, to, cause, rest }
    }
}

// === impl State ===

impl State {
    const CLOSED: Self = Self::Closed { paused: None, ramp: None };
}
