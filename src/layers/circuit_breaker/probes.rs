//! The calls that try, half-open, and the calls that come back after it.

use std::time::Duration;

use crate::time::{Instant, after};

use super::config::CircuitBreakerConfig;

/// When a call refused by a half-open circuit may ask again, at the latest. Its probes take about as long as a call, and
/// nobody knows how long that is; to ask again costs next to nothing. No option: it promises nothing and decides nothing.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A share of all calls, in the whole numbers in which shares add up exactly. A millionth is finer than any ramp is long.
const ALL: u32 = 1_000_000;

/// Names a probe within its half-open circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u32);

/// Probes in flight, each with a lease, and how many succeeded in a row.
#[derive(Debug, Default)]
pub(super) struct Probes {
    out: Vec<(Ticket, Instant)>,
    next: u32,
    /// When the latest was let through.
    latest: Option<Instant>,
    pub(super) successes: u32,
}

/// Lets calls back in by parts.
#[derive(Debug)]
pub(super) struct Ramp {
    since: Instant,
    length: Duration,
    credit: u32,
}

// === impl Probes ===

impl Probes {
    /// Takes a place, if one is free or its lease is over.
    pub(super) fn take(&mut self, config: &CircuitBreakerConfig, now: Instant) -> Option<Ticket> {
        if !self.has_room(config, now) {
            return None;
        }
        if self.out.len() >= config.probes as usize {
            let late = self.out.iter().position(|(_, until)| *until <= now)?;
            self.out.swap_remove(late);
        }
        let ticket = Ticket(self.next);
        self.next = self.next.wrapping_add(1);
        self.out.push((ticket, after(now, config.lease)));
        self.latest = Some(now);
        Some(ticket)
    }

    pub(super) fn has_room(&self, config: &CircuitBreakerConfig, now: Instant) -> bool {
        self.out.len() < config.probes as usize || self.out.iter().any(|(_, until)| *until <= now)
    }

    /// Gives a place back, unless its lease was over and another has it.
    pub(super) fn give_back(&mut self, ticket: Ticket) {
        self.out.retain(|(out, _)| *out != ticket);
    }

    pub(super) const fn latest(&self) -> Option<Instant> {
        self.latest
    }

    pub(super) const fn out(&self) -> usize {
        self.out.len()
    }

    /// How long until there may be room.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let first = self.out.iter().map(|(_, until)| until.saturating_duration_since(now)).min();
        first.unwrap_or(ASK_AGAIN).min(ASK_AGAIN)
    }
}

// === impl Ramp ===

impl Ramp {
    /// The first call passes at once.
    pub(super) const fn new(since: Instant, length: Duration) -> Self {
        Self { since, length, credit: ALL }
    }

    /// Whether it is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= self.length
    }

    /// Lets a call pass, or says when to ask again: one of the next few calls passes.
    pub(super) fn pass(&mut self, config: &CircuitBreakerConfig, now: Instant) -> Result<(), Duration> {
        let credit = self.credit + self.share(config, now);
        self.credit = credit % ALL;
        if credit >= ALL {
            return Ok(());
        }
        Err(self.length.saturating_sub(now.saturating_duration_since(self.since)).min(ASK_AGAIN))
    }

    /// Whether the next call passes.
    pub(super) fn would_pass(&self, config: &CircuitBreakerConfig, now: Instant) -> bool {
        self.credit + self.share(config, now) >= ALL
    }

    /// What passes in the present part of the ramp: nothing of it is ever none.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most all, at least none")]
    fn share(&self, config: &CircuitBreakerConfig, now: Instant) -> u32 {
        let (parts, gone) = (config.ramp_shares.len() as u128, now.saturating_duration_since(self.since));
        let part = gone.as_nanos() * parts / self.length.as_nanos().max(1);
        let share = usize::try_from(part).ok().and_then(|part| config.ramp_shares.get(part));
        share.map_or(ALL, |share| ((share * f64::from(ALL)).round() as u32).clamp(1, ALL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// Scenario: a hundred calls at once in each part of a ramp, of two parts and of four.
    /// Expected: the first MUST pass; of each hundred as many MUST as its share says, and all after the last part.
    #[test]
    fn a_ramp_lets_in_the_shares_it_is_told() {
        for (shares, parts) in [
            (vec![0.1, 0.5], vec![(3_000, 10), (7_499, 10), (7_500, 50), (14_999, 50), (15_000, 100)]),
            (vec![0.05, 0.25, 0.25, 1.0], vec![(3_749, 5), (3_750, 25), (11_249, 25), (11_250, 100)]),
        ] {
            let config = CircuitBreakerConfig { ramp_shares: shares, ..CircuitBreakerConfig::default() };
            let (length, start) = (secs(15), crate::time::now());
            let mut ramp = Ramp::new(start, length);
            assert!(ramp.would_pass(&config, start));
            assert_eq!(ramp.pass(&config, start), Ok(()));
            assert_eq!(ramp.pass(&config, start), Err(ASK_AGAIN));
            ramp.credit = 0;
            for (ms, expected) in parts {
                let at = start + Duration::from_millis(ms);
                let passed = (0..100).filter(|_| ramp.pass(&config, at).is_ok()).count();
                assert_eq!(passed, expected, "{ms} ms");
            }
        }
    }

    /// Scenario: two probes take the places and do not report; a third asks before and after the lease; then the first
    /// reports at last.
    /// Expected: the third MUST wait for the lease and no longer; the late report MUST NOT free its place.
    #[test]
    fn a_lease_frees_a_place_and_a_late_report_does_not() {
        let (config, start) = (CircuitBreakerConfig::default(), crate::time::now());
        let mut probes = Probes::default();
        let first = probes.take(&config, start).unwrap();
        probes.take(&config, start + secs(1)).unwrap();
        assert_eq!(probes.take(&config, start + secs(59)), None);
        assert_eq!(probes.wait(start + secs(59)), secs(1));
        assert!(probes.take(&config, start + secs(60)).is_some());
        probes.give_back(first);
        assert_eq!(probes.out(), 2);
        assert_eq!(probes.take(&config, start + secs(60)), None);
    }
}
