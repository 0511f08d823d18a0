//! What says that the other side is sick: failures in a row, shares of a window, and tokens.

use std::collections::VecDeque;

use crate::chat::Usage;
use crate::time::Instant;

use super::config::CircuitBreakerConfig;
use super::usual::Usual;
use super::window::{Counts, Window};

/// Why a circuit changed, in words that are stable.
pub(super) type Cause = &'static str;

/// An instant, and the bucket of the window it lies in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) bucket: u64,
}

/// What a call that counted told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    /// Whether its first output came late.
    pub(super) slow: bool,
    /// The tokens that are paid and lost.
    pub(super) burnt: u64,
    pub(super) usage: Option<Usage>,
}

/// What is known of a key's calls.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// When the latest failures in a row came.
    row: VecDeque<Instant>,
    window: Window,
    usual: Usual,
}

// === impl Signals ===

impl Signals {
    /// Adds successes that were counted elsewhere.
    pub(super) fn add_successes(&mut self, bucket: u64, successes: u32) {
        self.window.add(bucket, Counts { successes, ..Counts::default() });
    }

    /// A success: it ends the row. It says sick only by what it took: time, or tokens.
    pub(super) fn succeed(
        &mut self,
        config: &CircuitBreakerConfig,
        at: Moment,
        weight: Weight,
    ) -> Option<Cause> {
        self.row.clear();
        let slow = u32::from(weight.slow);
        self.window.add(at.bucket, Counts { successes: 1, slow, ..Counts::default() });
        let strange = self.usual.is_anomaly(config, weight.usage);
        if weight.slow && self.is_slow(config) {
            return Some("slow");
        }
        strange.then_some("anomaly")
    }

    /// A failure: the first rule that says sick is the cause.
    pub(super) fn fail(
        &mut self,
        config: &CircuitBreakerConfig,
        at: Moment,
        weight: Weight,
    ) -> Option<Cause> {
        let slow = u32::from(weight.slow);
        self.window.add(at.bucket, Counts { failures: 1, slow, burnt: weight.burnt, ..Counts::default() });
        if self.is_row(config, at.now) {
            return Some("failures_in_a_row");
        }
        let total = self.window.total();
        if total.calls() >= u64::from(config.min_calls)
            && config.ratio.is_some_and(|ratio| reaches(total.failures, ratio, total.calls()))
        {
            return Some("failure_ratio");
        }
        if weight.slow && self.is_slow(config) {
            return Some("slow");
        }
        if config.token_trip.is_some_and(|most| weight.burnt > most) {
            return Some("token_trip");
        }
        #[expect(clippy::cast_precision_loss, reason = "a share, not an account")]
        let wasteful = |budget: u64| total.burnt as f64 > budget as f64 * config.waste_share;
        (total.failures >= config.waste_failures && config.waste_budget.is_some_and(wasteful))
            .then_some("waste_budget")
    }

    /// Whether a cache that used to serve was lost, now.
    pub(super) fn is_cache_lost(&mut self, config: &CircuitBreakerConfig, usage: Option<Usage>) -> bool {
        config.cache_lost && usage.is_some_and(|usage| self.usual.is_cache_lost(usage))
    }

    /// Forgets what speaks of sickness. What is usual stays.
    pub(super) fn clear(&mut self) {
        self.row.clear();
        self.window = Window::default();
    }

    /// Whether a success changes nothing but a count.
    pub(super) fn is_calm(&self) -> bool {
        self.row.is_empty()
    }

    /// How many failures are on record: in the row, or in the window if that is more. What is too long ago to weigh is
    /// none.
    pub(super) fn failures(&self, config: &CircuitBreakerConfig, at: Moment) -> u32 {
        let is_old = |failed: &Instant| at.now.saturating_duration_since(*failed) > config.failures_within;
        let old = self.row.partition_point(is_old);
        let row = u32::try_from(self.row.len() - old).unwrap_or(u32::MAX);
        row.max(self.window.total_at(at.bucket).failures)
    }

    /// Whether nothing is left that could change a verdict.
    pub(super) fn is_spent(&self, config: &CircuitBreakerConfig, at: Moment) -> bool {
        let is_old = |last: &Instant| at.now.saturating_duration_since(*last) > config.failures_within;
        self.row.back().is_none_or(is_old) && self.window.is_empty_at(at.bucket)
    }

    /// Whether anything was learned that is kept beyond the window.
    pub(super) const fn has_learned(&self) -> bool {
        self.usual.is_known()
    }

    fn is_row(&mut self, config: &CircuitBreakerConfig, now: Instant) -> bool {
        let Some(most) = config.failures else { return false };
        let most = most as usize;
        if self.row.len() >= most {
            self.row.pop_front();
        }
        self.row.push_back(now);
        let spread = self.row.front().map(|first| now.saturating_duration_since(*first));
        self.row.len() >= most && spread.is_some_and(|spread| spread <= config.failures_within)
    }

    fn is_slow(&self, config: &CircuitBreakerConfig) -> bool {
        let total = self.window.total();
        total.calls() >= u64::from(config.min_calls)
            && config.slow.is_some_and(|slow| reaches(total.slow, slow.ratio, total.calls()))
    }
}

/// Whether some of all are at least this share.
#[expect(clippy::cast_precision_loss, reason = "calls of a minute are far below 2^52")]
fn reaches(some: u32, share: f64, all: u64) -> bool {
    f64::from(some) >= share * all as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(start: Instant, secs: u64) -> Moment {
        Moment { now: start + Duration::from_secs(secs), bucket: 100 + secs / 6 }
    }

    fn burnt(burnt: u64) -> Weight {
        Weight { burnt, ..Weight::default() }
    }

    /// Scenario: five failures, the first and last a minute apart; the same a second further apart.
    /// Expected: the first MUST be a row, the second not.
    #[test]
    fn a_row_must_fit_into_its_time() {
        let config = CircuitBreakerConfig { ratio: None, ..CircuitBreakerConfig::default() };
        for (last, cause) in [(60, Some("failures_in_a_row")), (61, None)] {
            let (mut signals, start) = (Signals::default(), crate::time::now());
            for secs in [0, 10, 20, 30] {
                assert_eq!(signals.fail(&config, at(start, secs), burnt(0)), None);
            }
            assert_eq!(signals.fail(&config, at(start, last), burnt(0)), cause, "{last} s");
        }
    }

    /// Scenario: a success after each four failures, where only the row is looked at.
    /// Expected: MUST NOT be sick; without the successes it MUST.
    #[test]
    fn a_success_ends_the_row() {
        let config = CircuitBreakerConfig { ratio: None, ..CircuitBreakerConfig::default() };
        for healed in [true, false] {
            let (mut signals, moment) = (Signals::default(), at(crate::time::now(), 0));
            let mut sick = false;
            for n in 0..20 {
                if n % 5 < 4 {
                    sick |= signals.fail(&config, moment, burnt(0)).is_some();
                } else if healed {
                    signals.succeed(&config, moment, Weight::default());
                }
            }
            assert_eq!(sick, !healed);
        }
    }

    /// Scenario: failures that burn tokens: one that burns 5,000 and one that burns one more; three that burn a fifth of
    /// the budget together, and three that burn one more.
    /// Expected: only the larger ones MUST be sick, for the cause they are.
    #[test]
    fn burnt_tokens_say_sick() {
        let config = CircuitBreakerConfig::frugal();
        let moment = at(crate::time::now(), 0);
        assert_eq!(Signals::default().fail(&config, moment, burnt(5_000)), None);
        assert_eq!(Signals::default().fail(&config, moment, burnt(5_001)), Some("token_trip"));
        let wary = CircuitBreakerConfig { token_trip: None, ..config };
        for (last, cause) in [(4_000, None), (4_001, Some("waste_budget"))] {
            let mut signals = Signals::default();
            assert_eq!(signals.fail(&wary, moment, burnt(15_000)), None);
            assert_eq!(signals.fail(&wary, moment, burnt(1_000)), None);
            assert_eq!(signals.fail(&wary, moment, burnt(last)), cause);
        }
    }

    /// Scenario: a budget of 1,000 tokens of which a half may be wasted, by two failures or more: one that burns all of it,
    /// and two that burn a half, or one more.
    /// Expected: only the last MUST be sick.
    #[test]
    fn waste_is_weighed_as_it_is_told() {
        let (waste_share, waste_failures) = (0.5, 2);
        let config = CircuitBreakerConfig {
            waste_budget: Some(1_000),
            waste_share,
            waste_failures,
            ..CircuitBreakerConfig::default()
        };
        let moment = at(crate::time::now(), 0);
        assert_eq!(Signals::default().fail(&config, moment, burnt(1_000)), None);
        for (last, cause) in [(100, None), (101, Some("waste_budget"))] {
            let mut signals = Signals::default();
            assert_eq!(signals.fail(&config, moment, burnt(400)), None);
            assert_eq!(signals.fail(&config, moment, burnt(last)), cause);
        }
    }

    /// What the signals take in memory, and which part of it does not lie in themselves.
    fn kept(signals: &Signals) -> (usize, usize) {
        let Signals { row, window, usual } = signals;
        assert!(!std::mem::needs_drop::<Window>() && !std::mem::needs_drop::<Usual>());
        let beside = row.capacity() * size_of::<Instant>();
        (size_of_val(window) + size_of_val(usual) + size_of_val(row) + beside, beside)
    }

    /// Scenario: 50,000 outcomes a few at a time, most of them failures in a row, of a circuit that nothing opens; and
    /// the same remembered in a list.
    /// Expected: what is kept MUST be as much after them as after the first hundred, less than a kilobyte, and of the
    /// row no more than a few times what the rule asks for; the list MUST be told apart.
    #[test]
    fn what_is_kept_does_not_grow_with_outcomes() {
        let config =
            CircuitBreakerConfig { anomaly: Some(9.0), cache_lost: true, ..CircuitBreakerConfig::default() };
        let (mut signals, start, mut list) = (Signals::default(), crate::time::now(), Vec::new());
        let mut early = None;
        for n in 0..50_000_u64 {
            let moment = Moment { now: start + Duration::from_millis(n * 7), bucket: n * 7 / 6_000 };
            let usage = Usage { input: n, output: 5, ..Usage::default() };
            if n % 997 == 0 {
                signals.succeed(&config, moment, Weight { usage: Some(usage), ..Weight::default() });
            } else {
                signals.fail(&config, moment, burnt(n));
            }
            list.push(moment);
            if n == 100 {
                early = Some((kept(&signals), list.capacity()));
            }
        }
        let ((before, _), list_before) = early.unwrap();
        let (after, row) = kept(&signals);
        assert_eq!(after, before);
        assert!(after < 1_000, "{after} bytes");
        assert!(
            row <= 4 * config.failures.unwrap() as usize * size_of::<Instant>(),
            "{row} bytes of the row"
        );
        assert!(list.capacity() > 100 * list_before, "the twin");
    }

    /// Scenario: ten successes, five of them slow, the last one among them.
    /// Expected: MUST be sick at the tenth, and not before.
    #[test]
    fn slow_successes_say_sick() {
        let slow = super::super::SlowConfig { first_output: Duration::from_secs(5), ratio: 0.5 };
        let config = CircuitBreakerConfig { slow: Some(slow), ..CircuitBreakerConfig::default() };
        let (mut signals, moment) = (Signals::default(), at(crate::time::now(), 0));
        let causes: Vec<_> = (0..10)
            .map(|n| signals.succeed(&config, moment, Weight { slow: n % 2 == 1, ..Weight::default() }))
            .collect();
        assert_eq!(causes[..9], [None; 9]);
        assert_eq!(causes[9], Some("slow"));
    }
}
