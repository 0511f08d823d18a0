//! Figures at the bounds of what can be said: of headers, usage, waits and clocks. None of them may end a process, or stop
//! a key for longer than it says.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tokio::time::Instant;
use watertight::chat::{Dimension, Limits};
use watertight::store::{Ahead, Answer, Costs, Ledger, Memory, MemoryLedger, Quota, Short, Store};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What befalls a ledger.
#[derive(Clone, Debug)]
enum Act {
    Wait(Duration),
    Take(Costs),
    Settle(Costs, Costs),
    Promise(Costs, u8),
    Told(Dimension, Option<u64>, Option<u64>, Option<Duration>, f64),
    Freeze(Duration),
    Slow(f64, Duration),
}

fn count() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), 0_u32..1_000, Just(u32::MAX - 1), Just(u32::MAX), any::<u32>()]
}

fn figure() -> impl Strategy<Value = u64> {
    prop_oneof![
        count().prop_map(u64::from),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(i64::MAX as u64),
        any::<u64>()
    ]
}

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        (0_u64..100_000).prop_map(Duration::from_millis),
        (0_u32..800).prop_map(|days| DAY * days),
        Just(DAY * 365 * 219),
        Just(DAY * 365 * 300),
        Just(DAY * 365 * 584),
        Just(DAY * 365 * 5_000),
    ]
}

fn costs() -> impl Strategy<Value = Costs> {
    (count(), count(), count(), count()).prop_map(|(requests, input, output, tokens)| Costs {
        requests,
        input,
        output,
        tokens,
    })
}

fn dimension() -> impl Strategy<Value = Dimension> {
    prop_oneof![
        Just(Dimension::Requests),
        Just(Dimension::Tokens),
        Just(Dimension::InputTokens),
        Just(Dimension::OutputTokens),
        Just(Dimension::RequestsPerDay),
        Just(Dimension::TokensPerDay),
    ]
}

fn share() -> impl Strategy<Value = f64> {
    prop_oneof![Just(f64::MIN_POSITIVE), Just(1e-9), Just(0.5), Just(1.0), 0.001..1.0_f64]
}

fn act() -> impl Strategy<Value = Act> {
    let some = || proptest::option::of(figure());
    prop_oneof![
        2 => time().prop_map(Act::Wait),
        4 => costs().prop_map(Act::Take),
        2 => (costs(), costs()).prop_map(|(reserved, used)| Act::Settle(reserved, used)),
        1 => (costs(), any::<u8>()).prop_map(|(costs, ahead)| Act::Promise(costs, ahead)),
        3 => (dimension(), some(), some(), proptest::option::of(time()), prop_oneof![Just(0.0), share()])
            .prop_map(|(of, limit, left, reset, headroom)| Act::Told(of, limit, left, reset, headroom)),
        1 => time().prop_map(Act::Freeze),
        1 => (share(), time()).prop_map(|(share, time)| Act::Slow(share, time)),
    ]
}

fn quotas() -> impl Strategy<Value = Vec<Quota>> {
    let quota = (dimension(), count(), proptest::option::of(share()), share(), any::<bool>()).prop_map(
        |(of, limit, burst, fill, guess)| {
            let quota = Quota::new(of, limit.max(1)).filled(fill);
            let quota = burst.map_or(quota, |share| quota.with_burst(share));
            if guess { quota.guessed() } else { quota }
        },
    );
    prop::collection::vec(quota, 0..4).prop_map(|mut quotas| {
        quotas.sort_by_key(|quota| format!("{:?}", quota.dimension));
        quotas.dedup_by_key(|quota| quota.dimension);
        quotas
    })
}

fn asked(ledger: &MemoryLedger, costs: &Costs, now: Instant) -> Result<(), Short> {
    match ledger.reserve(costs, now) {
        Answer::Now(answer) => answer,
        Answer::Later(_) => unreachable!("memory answers at once"),
    }
}

fn later(now: Instant, time: Duration) -> Instant {
    now.checked_add(time).unwrap_or(now)
}

/// An account as the law looks at it.
trait Account {
    fn befall(&mut self, act: Act, now: Instant);

    /// What is wrong with what it shows.
    fn is_wrong(&self, now: Instant) -> Option<String>;
}

impl Account for MemoryLedger {
    fn befall(&mut self, act: Act, now: Instant) {
        match act {
            Act::Wait(_) => {}
            Act::Take(costs) => _ = asked(self, &costs, now),
            Act::Settle(reserved, used) => self.settle(&reserved, &used, || now),
            Act::Promise(costs, many) => {
                let mut ahead = Ahead::default();
                (0..many).for_each(|_| ahead.join(&costs));
                let promise = self.promise(&costs, &ahead, now);
                assert!(promise.is_ok_and(|promise| promise >= now) || promise.is_err(), "it is in the past");
            }
            Act::Told(of, limit, remaining, reset, headroom) => {
                let mut limits = Limits::default();
                let window = limits.entry(of);
                (window.limit, window.remaining, window.reset) = (limit, remaining, reset);
                self.calibrate(&limits, headroom, now);
            }
            Act::Freeze(time) => _ = self.freeze(later(now, time), now),
            Act::Slow(share, time) => _ = self.slow_down(share, later(now, time), now),
        }
    }

    fn is_wrong(&self, now: Instant) -> Option<String> {
        let (used, levels) = (self.used(now), self.levels(now));
        let above = levels.iter().find(|level| level.capacity.is_some_and(|most| level.remaining > most));
        if let Err(error) = serde_json::to_string(&levels) {
            return Some(error.to_string());
        }
        if self.frozen_until(now).is_some_and(|until| until <= now) {
            return Some("it is frozen until it was".into());
        }
        let _ = self.is_as_new(now);
        above
            .map(|level| format!("{level:?}"))
            .or_else(|| (!(0.0..=1.0).contains(&used)).then(|| used.to_string()))
    }
}

/// A twin that gives back what it is told was reserved.
#[derive(Debug, Default)]
struct Trusting(u64);

impl Account for Trusting {
    fn befall(&mut self, act: Act, _: Instant) {
        if let Act::Settle(reserved, used) = act {
            self.0 += u64::from(reserved.tokens.saturating_sub(used.tokens));
        }
    }

    fn is_wrong(&self, _: Instant) -> Option<String> {
        (self.0 > 1_000).then(|| self.0.to_string())
    }
}

/// What is wrong after any of these.
fn goes_wrong(account: &mut impl Account, acts: Vec<Act>) -> Option<String> {
    let mut now = Instant::now();
    acts.into_iter().find_map(|act| {
        if let Act::Wait(time) = act {
            now = later(now, time.min(DAY * 800));
        }
        account.befall(act, now);
        account.is_wrong(now)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any figures in any order: takes, settlements, headers, freezes and slow times, and clocks that jump.
    /// Expected: nothing MUST panic; all that is shown MUST be within its bounds, and MUST serialise.
    #[test]
    fn no_figure_ends_a_process(quotas in quotas(), acts in prop::collection::vec(act(), 1..40)) {
        let mut ledger = Memory::default().open("key", &quotas);
        prop_assert_eq!(goes_wrong(&mut ledger, acts), None);
    }
}

/// Scenario: the same figures, of an account that believes what it is told was reserved.
/// Expected: it MUST be told apart.
#[test]
fn a_trusting_twin_is_told_apart() {
    let mut runner = TestRunner::deterministic();
    let acts = prop::collection::vec(act(), 1..40);
    let caught = (0..100).any(|_| {
        let acts = acts.new_tree(&mut runner).unwrap().current();
        goes_wrong(&mut Trusting::default(), acts).is_some()
    });
    assert!(caught);
}

/// Scenario: providers tell a usage of all that a figure holds, once and a thousand times; and one that is twice the quota.
/// Expected: the next call MUST pass after a day and the time that an empty account takes to fill, at the latest, and the
/// account MUST be as new then: a wrong figure stops no key for good. What is likely MUST be waited for in full.
#[test]
fn no_usage_stops_a_key_for_good() {
    let minute = Duration::from_secs(60);
    for (used, times, wait) in [(u32::MAX, 1, DAY), (u32::MAX, 1_000, DAY), (2_000, 1, minute)] {
        let ledger = Memory::default().open("key", &[Quota::new(Dimension::Tokens, 1_000)]);
        let now = Instant::now();
        let call = Costs { requests: 1, tokens: 1_000, ..Costs::default() };
        for _ in 0..times {
            ledger.settle(&Costs::default(), &Costs { tokens: used, ..call }, || now);
        }
        let short = asked(&ledger, &call, now + wait + minute / 2).unwrap_err();
        assert_eq!(short, Short::Until(now + wait + minute));
        assert!(ledger.is_as_new(now + wait + minute));
    }
}
