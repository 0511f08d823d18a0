//! Accounts: all or none, freezes, slow times, and what headers change.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;

fn second(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn costs(requests: u32, tokens: u32) -> Costs {
    Costs { requests, input: tokens, output: 0, tokens }
}

fn ledger_of(quotas: &[Quota], now: Instant) -> MemoryLedger {
    let plan = Arc::new(Plan::new(quotas, now));
    let words = Words::new(&plan, plan.tick(now));
    MemoryLedger { plan, words, told: OnceBox::new() }
}

fn ask(ledger: &MemoryLedger, costs: Costs, now: Instant) -> Result<(), Short> {
    match ledger.reserve(&costs, now) {
        Answer::Now(answer) => answer,
        Answer::Later(_) => unreachable!("memory answers at once"),
    }
}

fn remaining(ledger: &MemoryLedger, dimension: Dimension, now: Instant) -> u64 {
    let levels = ledger.levels(now);
    levels.iter().find(|level| level.dimension == dimension).map_or(0, |level| level.remaining)
}

fn told(dimension: Dimension, limit: Option<u64>, remaining: Option<u64>, reset: Option<u64>) -> Limits {
    let mut limits = Limits::default();
    let window = limits.entry(dimension);
    (window.limit, window.remaining, window.reset) = (limit, remaining, reset.map(second));
    limits
}

/// What befalls a ledger.
#[derive(Clone, Debug)]
enum Act {
    Call(Costs),
    Settle(Costs, Costs),
    Told(Limits),
    Freeze(u64),
    SlowDown(u64),
    Wait(u64),
}

fn script() -> impl Strategy<Value = Vec<Act>> {
    let some = || {
        (0_u32..3, 0_u32..70).prop_map(|(requests, tokens)| Costs {
            requests,
            input: tokens / 2,
            output: 9,
            tokens,
        })
    };
    let word =
        (proptest::option::of(20_u64..80), proptest::option::of(0_u64..80), proptest::option::of(1_u64..50));
    let act = prop_oneof![
        6 => some().prop_map(Act::Call),
        2 => (some(), some()).prop_map(|(reserved, used)| Act::Settle(reserved, used)),
        1 => word.prop_map(|(limit, left, reset)| Act::Told(told(Dimension::Tokens, limit, left, reset))),
        1 => (0_u64..9).prop_map(Act::Freeze),
        1 => (1_u64..9).prop_map(Act::SlowDown),
        3 => (0_u64..9).prop_map(Act::Wait),
    ];
    proptest::collection::vec(act, 1..40)
}

/// Whether every call takes from all dimensions or from none.
fn takes_all_or_nothing(
    script: &[Act],
    ask: impl Fn(&MemoryLedger, Costs, Instant) -> bool,
) -> Result<(), TestCaseError> {
    let dimensions = [Dimension::Requests, Dimension::Tokens, Dimension::InputTokens];
    let mut now = crate::time::now();
    let ledger = ledger_of(&dimensions.map(|dimension| Quota::new(dimension, 60).with_burst(1.0)), now);
    let left = |now| dimensions.map(|dimension| remaining(&ledger, dimension, now));
    for act in script {
        match act {
            Act::Call(costs) => {
                let before = left(now);
                let granted = ask(&ledger, *costs, now);
                let taken = |of| if granted { u64::from(costs.of(of)) } else { 0 };
                for ((dimension, before), after) in dimensions.into_iter().zip(before).zip(left(now)) {
                    prop_assert_eq!(before - after, taken(dimension), "{:?} of {:?}", dimension, act);
                }
            }
            Act::Settle(reserved, used) => ledger.settle(reserved, used, || now),
            Act::Told(limits) => drop(ledger.calibrate(limits, 0.0, now)),
            Act::Freeze(length) => drop(ledger.freeze(now + second(*length), now)),
            Act::SlowDown(length) => drop(ledger.slow_down(0.5, now + second(*length), now)),
            Act::Wait(length) => now += second(*length),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: calls of any cost under three quotas, some of which refuse them, among settlements, words of a provider,
    /// freezes and slow times.
    /// Expected: a refused call MUST take nothing anywhere, a granted one its cost everywhere.
    #[test]
    fn a_call_takes_all_or_nothing(script in script()) {
        takes_all_or_nothing(&script, |ledger, costs, now| ask(ledger, costs, now).is_ok())?;
    }

    /// Scenario: a call refused by several quotas, one of them frozen at times.
    /// Expected: the instant told MUST be exact: refused a nanosecond before, granted then.
    #[test]
    fn a_refusal_by_several_is_exact(spent in 0_u32..60, tokens in 1_u32..60, freeze in 0_u64..40, reset in 1_u64..50) {
        let quotas = [Quota::new(Dimension::Requests, 60), Quota::new(Dimension::Tokens, 60)];
        let now = crate::time::now();
        let ledger = ledger_of(&quotas, now);
        let _ = ask(&ledger, costs(10, spent), now);
        ledger.calibrate(&told(Dimension::Tokens, None, Some(5), Some(reset)), 0.0, now);
        ledger.freeze(now + second(freeze), now);
        if let Err(Short::Until(until)) = ask(&ledger, costs(1, tokens), now) {
            prop_assert!(ask(&ledger, costs(1, tokens), until - Duration::from_nanos(1)).is_err());
            prop_assert_eq!(ask(&ledger, costs(1, tokens), until), Ok(()));
        }
    }
}

/// Scenario: the law of all or none, held against a twin that keeps what it took before a refusal, and one that takes from
/// the first dimension alone.
/// Expected: the twins MUST be caught.
#[test]
fn a_ledger_that_keeps_the_half_is_rejected() {
    let take = |ledger: &MemoryLedger, at: usize, costs: Costs, now| {
        let (meter, word) = ledger.meters().nth(at).unwrap();
        meter.bucket(word).take(costs.of(meter.dimension()), ledger.plan.tick(now))
    };
    let keeps = |ledger: &MemoryLedger, costs, now| (0..3).all(|at| take(ledger, at, costs, now));
    let forgets = |ledger: &MemoryLedger, costs, now| take(ledger, 0, costs, now);
    let rejects = |twin: &dyn Fn(&MemoryLedger, Costs, Instant) -> bool| {
        let mut runner = TestRunner::deterministic();
        (0..200)
            .any(|_| takes_all_or_nothing(&script().new_tree(&mut runner).unwrap().current(), twin).is_err())
    };
    assert!(rejects(&keeps) && rejects(&forgets));
    assert!(!rejects(&|ledger, costs, now| ask(ledger, costs, now).is_ok()));
}

/// Scenario: frozen for ten seconds when forty of sixty are used.
/// Expected: nothing MUST be admitted before, and the bucket MUST stand then where it stood.
#[test]
fn a_freeze_stops_admission_and_refill() {
    let now = crate::time::now();
    let ledger = ledger_of(&[Quota::new(Dimension::Tokens, 60)], now);
    ask(&ledger, costs(1, 40), now).unwrap();
    ledger.freeze(now + second(10), now);
    ledger.freeze(now + second(4), now);
    assert_eq!(ask(&ledger, costs(1, 1), now), Err(Short::Until(now + second(10))));
    assert!((ledger.used(now) - 1.0).abs() < f64::EPSILON);
    assert_eq!(remaining(&ledger, Dimension::Tokens, now + second(10)), 20);
    assert_eq!(ask(&ledger, costs(1, 20), now + second(10)), Ok(()));
    assert_eq!(ask(&ledger, costs(1, 1), now + second(10)), Err(Short::Until(now + second(11))));
}

/// Scenario: freezes and slow times, each said again, then a shorter one, a longer one, and one that is over before it
/// begins; then one when all is over.
/// Expected: the ledger MUST tell of those as news that make the time longer than it was, and of no others.
#[test]
fn only_what_changes_something_is_news() {
    let now = crate::time::now();
    let ledger = ledger_of(&[Quota::new(Dimension::Tokens, 60)], now);
    let freeze = |from, to| ledger.freeze(now + second(to), now + second(from));
    let slow = |from, to| ledger.slow_down(0.5, now + second(to), now + second(from));
    let asked = [(0, 0), (0, 10), (0, 10), (1, 4), (1, 12), (13, 13), (13, 14)];
    let news = [false, true, false, false, true, false, true];
    assert_eq!(asked.map(|(from, to)| freeze(from, to)), news);
    assert_eq!(asked.map(|(from, to)| slow(from, to)), news);
}

/// Scenario: half the rate for twenty seconds, on an empty bucket.
/// Expected: ten MUST have come back at the end of them, and one a second from there; instants told across it are exact.
#[test]
fn a_slow_time_ends_by_itself() {
    let now = crate::time::now();
    let ledger = ledger_of(&[Quota::new(Dimension::Tokens, 60)], now);
    ask(&ledger, costs(1, 60), now).unwrap();
    ledger.slow_down(0.5, now + second(20), now);
    assert_eq!(remaining(&ledger, Dimension::Tokens, now + second(20)), 10);
    assert_eq!(ask(&ledger, costs(1, 15), now + second(1)), Err(Short::Until(now + second(25))));
    assert_eq!(ask(&ledger, costs(1, 15), now + second(25)), Ok(()));
}

/// Scenario: half the rate for twenty seconds, with half the bucket used; a provider tells half the limit meanwhile.
/// Expected: the limit MUST be followed at once, at half its pace until then and at its whole pace from there on.
#[test]
fn a_limit_told_in_a_slow_time_is_followed() {
    let now = crate::time::now();
    let ledger = ledger_of(&[Quota::new(Dimension::Tokens, 120)], now);
    ask(&ledger, costs(1, 60), now).unwrap();
    ledger.slow_down(0.5, now + second(20), now);
    ledger.calibrate(&told(Dimension::Tokens, Some(60), None, None), 0.0, now);
    assert_eq!(ledger.levels(now)[0].limit, Some(60));
    let left = |seconds| remaining(&ledger, Dimension::Tokens, now + second(seconds));
    assert_eq!((left(10), left(20), left(30)), (5, 10, 20));
    assert_eq!(ledger.capacity(Dimension::Tokens), Some(60));
}

/// Scenario: a limit below a declared one, then one above it; a limit above a guess.
/// Expected: MUST follow down at once, up to what was declared and no further; a guess follows up, too.
#[test]
fn a_declared_limit_is_never_raised() {
    let now = crate::time::now();
    let limit = |ledger: &MemoryLedger| ledger.levels(now)[0].limit;
    let declared = ledger_of(&[Quota::new(Dimension::Tokens, 1_000)], now);
    let changed = declared.calibrate(&told(Dimension::Tokens, Some(500), None, None), 0.0, now);
    assert_eq!((changed.len(), limit(&declared)), (1, Some(500)));
    declared.calibrate(&told(Dimension::Tokens, Some(9_000), None, None), 0.0, now);
    assert_eq!(limit(&declared), Some(1_000));
    let guess = ledger_of(&[Quota::new(Dimension::Tokens, 1_000).guessed()], now);
    guess.calibrate(&told(Dimension::Tokens, Some(9_000), Some(9_000), None), 0.0, now);
    assert_eq!((limit(&guess), remaining(&guess, Dimension::Tokens, now)), (Some(9_000), 9_000));
}

/// Scenario: fewer left than we thought, then more; the reset comes.
/// Expected: MUST go down at once, stay there but for its own growth, and have all back at the reset.
#[test]
fn what_is_left_goes_down_at_once_and_up_at_the_reset() {
    let now = crate::time::now();
    let ledger = ledger_of(&[Quota::new(Dimension::Tokens, 60)], now);
    ledger.calibrate(&told(Dimension::Tokens, None, Some(10), Some(30)), 0.0, now);
    assert_eq!(remaining(&ledger, Dimension::Tokens, now), 10);
    ledger.calibrate(&told(Dimension::Tokens, None, Some(60), None), 0.0, now);
    assert_eq!(remaining(&ledger, Dimension::Tokens, now), 10, "not before the reset");
    assert_eq!(remaining(&ledger, Dimension::Tokens, now + second(29)), 39);
    assert_eq!(remaining(&ledger, Dimension::Tokens, now + second(30)), 60);
}

/// Scenario: a dimension we have no quota for is told to be empty, with and without a reset.
/// Expected: no call MUST pass before the reset, or for a minute where none was told; one that costs nothing there as
/// little as any.
#[test]
fn an_unconfigured_dimension_stays_until_its_reset() {
    let now = crate::time::now();
    for (reset, over) in [(Some(7), 7), (None, 60)] {
        let ledger = ledger_of(&[], now);
        ledger.calibrate(&told(Dimension::OutputTokens, Some(100), Some(0), reset), 0.0, now);
        let until = now + second(over);
        assert_eq!(ask(&ledger, costs(1, 1), now), Err(Short::Until(until)));
        assert_eq!(ask(&ledger, costs(1, 1), until - Duration::from_nanos(1)), Err(Short::Until(until)));
        assert_eq!(ask(&ledger, costs(1, 1), until), Ok(()));
        assert!(ledger.is_as_new(until));
    }
}

/// Scenario: two of sixty are left, of which six are for others; then ten of them.
/// Expected: what is below zero MUST be waited for as a debt is, and the difference MUST be ours.
#[test]
fn headroom_is_left_to_others() {
    let now = crate::time::now();
    let ledger = ledger_of(&[Quota::new(Dimension::Tokens, 60)], now);
    ledger.calibrate(&told(Dimension::Tokens, Some(60), Some(10), None), 0.1, now);
    assert_eq!(remaining(&ledger, Dimension::Tokens, now), 4);
    ledger.calibrate(&told(Dimension::Tokens, Some(60), Some(2), None), 0.1, now);
    assert_eq!(ask(&ledger, costs(1, 1), now), Err(Short::Until(now + second(5))));
    let untold = ledger_of(&[], now);
    untold.calibrate(&told(Dimension::Tokens, Some(60), Some(10), None), 0.1, now);
    assert_eq!(remaining(&untold, Dimension::Tokens, now), 4, "also where we have no quota");
}

/// Scenario: of a dimension without a quota five are told to be left, then none; no limit is told.
/// Expected: how much is used MUST be unknown first, and then all.
#[test]
fn what_is_empty_is_used_up() {
    let now = crate::time::now();
    let ledger = ledger_of(&[], now);
    ledger.calibrate(&told(Dimension::Tokens, None, Some(5), None), 0.0, now);
    assert!(ledger.used(now).abs() < f64::EPSILON);
    ledger.calibrate(&told(Dimension::Tokens, None, Some(0), None), 0.0, now);
    assert!((ledger.used(now) - 1.0).abs() < f64::EPSILON);
    assert!(ledger.used(now + second(60)).abs() < f64::EPSILON);
}

/// Scenario: a slow time ends while all is frozen; and one is over, unseen, when a freeze comes.
/// Expected: nothing MUST have grown while it was frozen, and all MUST grow at the whole rate after.
#[test]
fn a_slow_time_gives_nothing_for_a_freeze() {
    let now = Instant::now();
    for (frozen, left) in [(second(10)..second(30), 5), (second(25)..second(45), 15)] {
        let ledger = ledger_of(&[Quota::new(Dimension::Tokens, 60)], now);
        ask(&ledger, costs(1, 60), now).unwrap();
        ledger.slow_down(0.5, now + second(20), now);
        ledger.freeze(now + frozen.end, now + frozen.start);
        for later in [0, 5, 20] {
            let at = now + frozen.end + second(later);
            assert_eq!(remaining(&ledger, Dimension::Tokens, at), left + later, "{frozen:?} and {later}");
        }
    }
}

/// Scenario: a call is settled in a freeze, so that the bucket is full before the freeze is over; three ask then.
/// Expected: the third MUST be promised what a bucket has that is full at the end of the freeze, and no more.
#[test]
fn a_promise_counts_on_nothing_that_ran_over_in_a_freeze() {
    let now = Instant::now();
    let ledger = ledger_of(&[Quota::new(Dimension::Tokens, 60)], now);
    ask(&ledger, costs(1, 10), now).unwrap();
    ledger.freeze(now + second(29), now + second(5));
    ledger.settle(&costs(1, 10), &costs(1, 0), || now + second(6));
    let mut ahead = Ahead::default();
    ahead.join(&costs(1, 28));
    ahead.join(&costs(1, 19));
    assert_eq!(ledger.promise(&costs(1, 24), &ahead, now + second(15)), Ok(now + second(40)));
}
