//! What a circuit is, for whoever looks at it.

use std::time::Duration;

use crate::event;
use crate::time::{Instant, after};

use super::super::config::CircuitBreakerConfig;
use super::super::signals::Moment;
use super::super::word::Told;
use super::super::words::Verdict;
use super::{Circuit, State};

// === impl Circuit ===

impl Circuit {
    /// Whether a call would pass now. Asking changes nothing; what is due counts as begun, so that whoever only asks
    /// lets it heal.
    pub(in super::super) fn is_callable(&self, config: &CircuitBreakerConfig, now: Instant) -> bool {
        match &self.state {
            State::Closed { paused: Some(until), .. } if *until > now => false,
            State::Closed { ramp: Some(ramp), .. } => ramp.would_pass(config, now),
            State::Open { until } => *until <= now,
            State::HalfOpen(probes) => probes.has_room(config, now),
            State::ForcedOpen => false,
            State::Closed { .. } | State::Disabled | State::Observe => true,
        }
    }

    /// Whether every call is refused now, whatever else; and until when, where anybody knows.
    pub(in super::super) fn refuses(&self, now: Instant) -> Option<Option<Duration>> {
        match &self.state {
            State::Closed { paused: Some(until), .. } | State::Open { until } if *until > now => {
                Some(Some(*until - now))
            }
            State::ForcedOpen => Some(None),
            _ => None,
        }
    }

    /// What calls are told that do not ask.
    pub(in super::super) fn told(&self, config: &CircuitBreakerConfig) -> Told {
        let (passes, counts) = match &self.state {
            State::Closed { paused: None, ramp: None } | State::Observe => (true, true),
            State::Closed { .. } => (false, true),
            State::Disabled => return Told { generation: self.generation, passes: true, is_calm: true },
            State::Open { .. } | State::HalfOpen(_) | State::ForcedOpen => (false, false),
        };
        let is_calm = counts && !config.learns() && self.signals.is_calm();
        Told { generation: self.generation, passes, is_calm }
    }

    /// Whether a new one could stand in its place, but for what is usual: it is as healthy as one, or was left alone for
    /// as long as health would have taken to make it so. Only for whoever knows that no call of it is in flight.
    pub(in super::super) fn is_idle(&self, config: &CircuitBreakerConfig, at: Moment) -> bool {
        let left_alone = match &self.state {
            State::Open { until } => Some(*until),
            State::HalfOpen(probes) => probes.latest(),
            _ => return self.is_healthy(config, at),
        };
        let long = config.forgive.saturating_mul(self.rest.level(config, at.now).max(1));
        left_alone.is_some_and(|since| after(since, long) <= at.now) && self.signals.is_spent(config, at)
    }

    fn is_healthy(&self, config: &CircuitBreakerConfig, at: Moment) -> bool {
        let is_closed = match &self.state {
            State::Closed { paused, ramp } => {
                paused.is_none_or(|until| until <= at.now)
                    && ramp.as_ref().is_none_or(|ramp| ramp.is_over(at.now))
            }
            _ => false,
        };
        is_closed && self.rest.level(config, at.now) == 0 && self.signals.is_spent(config, at)
    }

    /// Whether a new one could stand in its place.
    pub(in super::super) fn is_fresh(&self, config: &CircuitBreakerConfig, at: Moment) -> bool {
        !self.signals.has_learned() && self.is_healthy(config, at)
    }

    pub(in super::super) fn state(&self, now: Instant) -> event::Circuit {
        match &self.state {
            State::Closed { paused: Some(until), .. } if *until > now => event::Circuit::Open,
            State::Closed { .. } => event::Circuit::Closed,
            State::Open { .. } => event::Circuit::Open,
            State::HalfOpen(_) => event::Circuit::HalfOpen,
            State::ForcedOpen => event::Circuit::ForcedOpen,
            State::Disabled => event::Circuit::Disabled,
            State::Observe => event::Circuit::Observe,
        }
    }

    /// When it is worth asking again, if it is not now and anybody knows.
    pub(in super::super) fn next_try(&self, now: Instant) -> Option<Duration> {
        match &self.state {
            State::Closed { paused: Some(until), .. } | State::Open { until } => {
                Some(until.saturating_duration_since(now))
            }
            _ => None,
        }
    }

    /// How many failures are on record: those that opened it, until it closes. During a pause it counts on.
    pub(in super::super) fn failures(&self, config: &CircuitBreakerConfig, at: Moment) -> u32 {
        match &self.state {
            State::Open { .. } | State::HalfOpen(_) => self.failures,
            State::Closed { .. } | State::ForcedOpen | State::Disabled | State::Observe => {
                self.signals.failures(config, at)
            }
        }
    }

    /// Since when it is not closed.
    pub(in super::super) const fn sick(&self) -> Option<Instant> {
        self.sick
    }

    pub(in super::super) const fn last(&self) -> Option<Verdict> {
        self.last
    }

    pub(in super::super) const fn would_open(&self) -> u64 {
        self.would_open
    }

    pub(in super::super) fn level(&self, config: &CircuitBreakerConfig, now: Instant) -> u32 {
        self.rest.level(config, now)
    }

    /// Whether calls are let back in by parts still.
    pub(in super::super) fn is_ramping(&self, now: Instant) -> bool {
        matches!(&self.state, State::Closed { ramp: Some(ramp), .. } if !ramp.is_over(now))
    }

    pub(in super::super) const fn probes(&self) -> usize {
        match &self.state {
            State::HalfOpen(probes) => probes.out(),
            _ => 0,
        }
    }

    pub(in super::super) const fn generation(&self) -> u16 {
        self.generation
    }
}
