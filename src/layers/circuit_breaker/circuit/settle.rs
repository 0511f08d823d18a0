//! What the end of a call changes.

use std::time::Duration;

use crate::time::Instant;

use super::super::config::CircuitBreakerConfig;
use super::super::probes::Ticket;
use super::super::signals::{Cause, Moment};
use super::super::words::{Change, Report, Verdict};
use super::{Circuit, State};

// === impl Circuit ===

impl Circuit {
    /// The end of a call that was admitted in this generation, as a probe or not. Another generation changes nothing.
    pub(in super::super) fn settle(
        &mut self,
        config: &CircuitBreakerConfig,
        (generation, ticket): (u16, Option<Ticket>),
        report: &Report,
        at: Moment,
    ) -> Option<Change> {
        if generation != self.generation {
            return None;
        }
        if let (State::HalfOpen(probes), Some(ticket)) = (&mut self.state, ticket) {
            probes.give_back(ticket);
        }
        if report.verdict != Verdict::Neutral && !matches!(self.state, State::Disabled) {
            self.last = Some(report.verdict);
        }
        match &self.state {
            State::Closed { .. } => self.settle_closed(config, report, at),
            State::HalfOpen(_) => self.settle_probe(config, report, at.now),
            State::Observe => {
                if self.judge(config, report, at).is_some() {
                    self.would_open += 1;
                    self.signals.clear();
                }
                None
            }
            State::Open { .. } | State::ForcedOpen | State::Disabled => None,
        }
    }

    fn settle_closed(
        &mut self,
        config: &CircuitBreakerConfig,
        report: &Report,
        at: Moment,
    ) -> Option<Change> {
        if let Some(cause) = self.judge(config, report, at) {
            let rest = self.rest.lengthen(config, at.now).max(stated(config, report));
            self.failures = self.signals.failures(config, at);
            return Some(self.open(rest, cause, at.now));
        }
        if report.verdict == Verdict::QuotaExhausted {
            let rest = quota_rest(config, report);
            self.failures = self.signals.failures(config, at);
            return Some(self.open(rest, "quota_exhausted", at.now));
        }
        let wait = stated(config, report);
        if report.pauses && !wait.is_zero() { self.pause(wait, at.now) } else { None }
    }

    /// What a call in a closed circuit says by the rules.
    fn judge(&mut self, config: &CircuitBreakerConfig, report: &Report, at: Moment) -> Option<Cause> {
        match report.verdict {
            Verdict::Success => self.signals.succeed(config, at, report.weight),
            Verdict::Failure => self.signals.fail(config, at, report.weight),
            Verdict::Throttled | Verdict::QuotaExhausted | Verdict::Neutral => None,
        }
    }

    fn settle_probe(
        &mut self,
        config: &CircuitBreakerConfig,
        report: &Report,
        now: Instant,
    ) -> Option<Change> {
        let State::HalfOpen(probes) = &mut self.state else { return None };
        let (rest, cause) = match report.verdict {
            Verdict::Success if !report.weight.slow => {
                probes.successes += 1;
                return (probes.successes >= config.successes).then(|| self.close(config, now));
            }
            Verdict::Neutral => return None,
            Verdict::Success => (self.rest.lengthen(config, now), "slow_probe"),
            Verdict::Failure => {
                self.failures = self.failures.saturating_add(1);
                (self.rest.lengthen(config, now).max(stated(config, report)), "failed_probe")
            }
            Verdict::QuotaExhausted => (quota_rest(config, report), "quota_exhausted"),
            Verdict::Throttled => {
                let wait = stated(config, report);
                (if wait.is_zero() { self.rest.repeat(config) } else { wait }, "throttled_probe")
            }
        };
        Some(self.open(rest, cause, now))
    }
}

/// The wait that was stated, as far as it is believed.
fn stated(config: &CircuitBreakerConfig, report: &Report) -> Duration {
    report.stated.unwrap_or_default().min(config.max_stated)
}

fn quota_rest(config: &CircuitBreakerConfig, report: &Report) -> Duration {
    let wait = stated(config, report);
    if wait.is_zero() { config.quota_rest } else { wait }
}
