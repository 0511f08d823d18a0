//! The formulas and the account of retries, told the time.

use std::time::Duration;

use proptest::prelude::*;

use crate::failure::Code;
use crate::time::{Instant, now};

use super::{Backoff, Jitter, RetryBudget, RetryBudgetConfig, RetryConfig};

const SECOND: Duration = Duration::from_secs(1);

fn jitters() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Additive),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
        (0.001_f64..=1.0).prop_map(Jitter::Proportional),
    ]
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (1_u64..100).prop_map(Duration::from_nanos),
        (1_u64..100_000).prop_map(Duration::from_millis),
        Just(Duration::MAX),
    ]
}

fn retries() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..80, Just(u32::MAX)]
}

/// The bounds that the formula of a jitter promises.
fn bounds(backoff: &Backoff, plain: Duration) -> (Duration, Duration) {
    let spread =
        |factor: f64| Duration::try_from_secs_f64(plain.as_secs_f64() * factor).unwrap_or(Duration::MAX);
    match backoff.jitter {
        Jitter::None => (plain, plain),
        Jitter::Additive => (plain, plain.saturating_add(plain / 2)),
        Jitter::Full => (Duration::ZERO, plain),
        Jitter::Equal => (plain / 2, plain),
        Jitter::Decorrelated => (backoff.base.min(backoff.cap), backoff.cap),
        // Floats round: a nanosecond, or one part in a million million.
        Jitter::Proportional(ratio) => {
            let slack = plain / 1_000_000_000 + Duration::from_nanos(2);
            (spread(1.0 - ratio).saturating_sub(slack), spread(1.0 + ratio).saturating_add(slack))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any base, cap, jitter, number of retry and wait before, up to the largest there are.
    /// Expected: the plain wait MUST be `base × 2^retry`, at most the cap; the jitter MUST stay in the bounds of its
    /// formula; nothing MUST overflow.
    #[test]
    fn a_delay_stays_in_the_bounds_of_its_formula(
        (base, cap, before) in (durations(), durations(), durations()),
        (jitter, retry, seed) in (jitters(), retries(), any::<u64>()),
    ) {
        let backoff = Backoff { base, cap, jitter };
        let exact = 1_u128.checked_shl(retry).and_then(|factor| base.as_nanos().checked_mul(factor));
        let plain = backoff.plain(retry);
        prop_assert_eq!(plain.as_nanos(), exact.map_or(cap.as_nanos(), |exact| exact.min(cap.as_nanos())));
        let (least, most) = bounds(&backoff, plain);
        let delay = backoff.delay(retry, before, &mut fastrand::Rng::with_seed(seed));
        prop_assert!(delay >= least && delay <= most, "{:?}: {:?} is not in {:?}..={:?}", jitter, delay, least, most);
    }

    /// Scenario: any wait that was stated.
    /// Expected: it MUST be a floor, and at most `max(d, floor / 10)` MUST be added.
    #[test]
    fn a_stated_wait_is_never_undercut(
        (floor, base, retry, seed) in (durations(), durations(), retries(), any::<u64>()),
    ) {
        keeps_floor(floor, base, retry, |backoff| {
            backoff.delay_from(floor, retry, &mut fastrand::Rng::with_seed(seed))
        })?;
    }

    /// Scenario: any script of time passing, calls, retries, and retries that are not made.
    /// Expected: in no window MUST there be more retries than the reserve and the share of the calls that may lie in it.
    #[test]
    fn no_window_has_more_retries_than_it_may(steps in steps()) {
        holds(&steps, |_, _| {})?;
    }
}

fn keeps_floor(
    floor: Duration,
    base: Duration,
    retry: u32,
    delay: impl Fn(&Backoff) -> Duration,
) -> Result<(), TestCaseError> {
    let backoff = Backoff { base, cap: 30 * SECOND, jitter: Jitter::Additive };
    let most = floor.saturating_add(backoff.plain(retry).max(floor / 10));
    let delay = delay(&backoff);
    prop_assert!(delay >= floor && delay <= most, "{:?} is not in {:?}..={:?}", delay, floor, most);
    Ok(())
}

/// Scenario: the law of the floor, held against a twin that spreads to both sides.
/// Expected: MUST be rejected.
#[test]
fn a_wait_that_is_spread_to_both_sides_is_rejected() {
    let floor = 10 * SECOND;
    let both_sides = |backoff: &Backoff| {
        let backoff = Backoff { base: floor, jitter: Jitter::Proportional(0.1), ..*backoff };
        (0..50).map(|seed| backoff.delay(0, floor, &mut fastrand::Rng::with_seed(seed))).min().unwrap()
    };
    assert!(keeps_floor(floor, SECOND, 0, both_sides).is_err());
}

/// Scenario: the first waits with the defaults, and many more.
/// Expected: MUST be 1, 2, 4, 8, 16 s, then 30 s for ever.
#[test]
fn waits_double_up_to_the_cap() {
    let backoff = RetryConfig::default().backoff();
    let seconds: Vec<_> = (0..7).map(|retry| backoff.plain(retry).as_secs()).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
    assert_eq!(backoff.plain(u32::MAX), 30 * SECOND);
    let tiny = Backoff { base: Duration::from_nanos(1), ..backoff };
    assert_eq!(tiny.plain(40), 30 * SECOND, "the smallest base comes to the cap, too");
}

/// Scenario: decorrelated waits, each from the one before.
/// Expected: MUST lie between the base and three times the wait before.
#[test]
fn decorrelated_waits_grow_from_the_one_before() {
    let backoff = Backoff { jitter: Jitter::Decorrelated, ..RetryConfig::default().backoff() };
    let mut rng = fastrand::Rng::with_seed(3);
    let mut before = Duration::ZERO;
    for retry in 0..50 {
        let delay = backoff.delay(retry, before, &mut rng);
        let most = (before.max(SECOND) * 3).min(backoff.cap);
        assert!(delay >= SECOND && delay <= most, "{delay:?} after {before:?}");
        before = delay;
    }
}

/// What a script does to a budget.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    /// So many calls, and the first of them asks for a retry.
    Draw(u64),
    GiveBack,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0_u64..3000).prop_map(Step::Pass),
        (0_u64..60).prop_map(Step::Draw),
        (0_u64..60).prop_map(Step::Draw),
        Just(Step::GiveBack),
    ];
    proptest::collection::vec(step, 0..200)
}

fn budget() -> RetryBudgetConfig {
    RetryBudgetConfig { ratio: 0.2, reserve: 3, window: 10 * SECOND }
}

/// Holds a script to the law of the budget. `after` meddles after each draw: not at all, or as a twin.
fn holds(steps: &[Step], after: impl Fn(&mut RetryBudget, Instant)) -> Result<(), TestCaseError> {
    let config = budget();
    let mut now = now();
    let mut budget = RetryBudget::new(config, now);
    let (mut looked, mut calls, mut drawn) = (now, Vec::new(), Vec::<Instant>::new());
    for step in steps {
        match *step {
            Step::Pass(ms) => now += Duration::from_millis(ms),
            Step::Draw(more) => {
                calls.push((now, more));
                if budget.draw(more, now).is_ok() {
                    drawn.push(now);
                    after(&mut budget, now);
                }
                looked = now;
                // A span may reach into the window that began before it, by its own length.
                let reach = config.window + config.window / 5;
                let paying: u64 = calls
                    .iter()
                    .filter(|(at, _)| now.duration_since(*at) <= reach)
                    .map(|(_, more)| more)
                    .sum();
                let held = drawn.iter().filter(|at| now.duration_since(**at) < config.window).count();
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let may = f64::from(config.reserve) + paying as f64 * config.ratio;
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let held = held as f64;
                prop_assert!(held <= may, "{held} retries, where {may} may be");
            }
            Step::GiveBack => {
                if let Some(last) = drawn.pop() {
                    budget.give_back(last);
                }
            }
        }
    }
    prop_assert!(looked <= now);
    Ok(())
}

/// Scenario: the law of the budget, held against a twin whose retries in their wait do not count.
/// Expected: MUST be rejected.
#[test]
fn a_budget_that_forgets_who_waits_is_rejected() {
    let storm = vec![Step::Draw(1); 20];
    assert!(holds(&storm, |_, _| {}).is_ok());
    assert!(holds(&storm, |budget, now| budget.give_back(now)).is_err());
}

/// Scenario: no calls but those that fail; then a window passes.
/// Expected: the reserve MUST be there once, and whole again after the window, not a moment sooner.
#[test]
fn the_reserve_is_per_window() {
    let begun = now();
    let mut budget = RetryBudget::new(RetryBudgetConfig { ratio: 1e-9, ..budget() }, begun);
    let mut drawn = |at| (0..10).filter(|_| budget.draw(1, at).is_ok()).count();
    assert_eq!(drawn(begun), 3);
    assert_eq!(drawn(begun + 10 * SECOND - Duration::from_nanos(1)), 0);
    assert_eq!(drawn(begun + 10 * SECOND), 3);
}

/// Scenario: calls of an hour, and nobody asked; then calls of a second.
/// Expected: only those of the window MUST pay.
#[test]
fn calls_pay_only_within_the_window() {
    let begun = now();
    let mut budget = RetryBudget::new(RetryBudgetConfig { reserve: 0, ..budget() }, begun);
    let mut at = begun + 3600 * SECOND;
    // A call a second: ten in the window pay for two.
    assert!(budget.draw(3600, at).is_ok());
    assert!(budget.draw(0, at).is_ok());
    assert!(budget.draw(0, at).is_err());
    at += SECOND;
    // Fifty in a second: nine of the old ones and fifty pay for eleven, of which two are made.
    assert!(budget.draw(50, at).is_ok());
    assert_eq!((0..20).filter(|_| budget.draw(0, at).is_ok()).count(), 8);
}

/// Scenario: a storm: a hundred thousand calls, each asks for a retry, most in vain.
/// Expected: what is remembered MUST stay small, so that asking stays cheap.
#[test]
fn a_storm_is_remembered_in_few_spans() {
    let begun = now();
    let mut budget = RetryBudget::new(RetryBudgetConfig { ratio: 1e-9, ..budget() }, begun);
    for call in 0..100_000_u64 {
        let _ = budget.draw(1, begun + Duration::from_micros(150 * call));
    }
    let shown = format!("{budget:?}");
    assert!(shown.len() < 20_000, "{} bytes of memory shown", shown.len());
}

/// Scenario: a retry that was never drawn is given back.
/// Expected: MUST change nothing.
#[test]
fn only_what_was_drawn_is_given_back() {
    let begun = now();
    let mut budget = RetryBudget::new(RetryBudgetConfig { ratio: 1e-9, reserve: 1, ..budget() }, begun);
    budget.draw(1, begun).unwrap();
    budget.give_back(begun + SECOND);
    assert!(budget.draw(1, begun).is_err());
    budget.give_back(begun);
    assert!(budget.draw(1, begun).is_ok());
}

/// Scenario: configurations that cannot work.
/// Expected: each MUST be refused with the name of its field; zero retries, and no budget, are none.
#[test]
fn a_configuration_that_cannot_work_is_refused_by_name() {
    let (zero, config) = (Duration::ZERO, RetryConfig::default);
    let budget = |budget| RetryConfig { budget: Some(budget), ..config() };
    for (config, field) in [
        (RetryConfig { base: zero, ..config() }, "base"),
        (RetryConfig { cap: zero, ..config() }, "cap"),
        (RetryConfig { max_retry_after: zero, ..config() }, "max_retry_after"),
        (RetryConfig { min_attempt: zero, ..config() }, "min_attempt"),
        (RetryConfig { jitter: Jitter::Proportional(0.0), ..config() }, "jitter.proportional"),
        (RetryConfig { jitter: Jitter::Proportional(1.1), ..config() }, "jitter.proportional"),
        (budget(RetryBudgetConfig { ratio: 0.0, ..RetryBudgetConfig::default() }), "budget.ratio"),
        (budget(RetryBudgetConfig { ratio: f64::NAN, ..RetryBudgetConfig::default() }), "budget.ratio"),
        (budget(RetryBudgetConfig { window: zero, ..RetryBudgetConfig::default() }), "budget.window"),
    ] {
        assert_eq!(config.validate().unwrap_err().field, field);
    }
    assert!(RetryConfig { retries: 0, budget: None, ..config() }.validate().is_ok());
    assert!(RetryConfig::brisk().validate().is_ok() && RetryConfig::never_bill_twice().validate().is_ok());
}

/// Scenario: a configuration as a file writes it.
/// Expected: MUST be read back as it was; a field that nobody knows MUST be refused.
#[test]
fn a_configuration_is_read_as_it_is_written() {
    for config in [RetryConfig::default(), RetryConfig::brisk(), RetryConfig::never_bill_twice()] {
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<RetryConfig>(&text).unwrap(), config);
    }
    let text = r#"{"base":"200ms","jitter":{"proportional":0.2},"never":["TIMEOUT_IDLE"],"budget":null}"#;
    let config: RetryConfig = serde_json::from_str(text).unwrap();
    assert_eq!((config.base, config.jitter), (Duration::from_millis(200), Jitter::Proportional(0.2)));
    assert_eq!((config.budget, config.never.len(), config.retries), (None, 1, 3));
    for wrong in [r#"{"retrys":1}"#, r#"{"never":["NO_SUCH_CODE"]}"#, r#"{"base":1}"#] {
        assert!(serde_json::from_str::<RetryConfig>(wrong).is_err(), "{wrong}");
    }
}

/// Scenario: the defaults, as the module's table prints them.
/// Expected: the code MUST say the same.
#[test]
fn the_printed_defaults_are_the_defaults() {
    let config = RetryConfig::default();
    assert_eq!((config.retries, config.base, config.cap), (3, SECOND, 30 * SECOND));
    assert_eq!((config.jitter, config.max_retry_after), (Jitter::Additive, 30 * SECOND));
    assert_eq!(config.min_attempt, Duration::from_millis(250));
    assert_eq!(config.budget, Some(RetryBudgetConfig { ratio: 0.2, reserve: 10, window: 10 * SECOND }));
    let brisk = RetryConfig::brisk();
    assert_eq!((brisk.retries, brisk.base, brisk.cap), (2, SECOND / 2, 10 * SECOND));
    assert_eq!(brisk.jitter, Jitter::Proportional(0.1));
    assert!(!brisk.takes(Code::Conflict, true) && brisk.takes(Code::EmptyResponse, false));
}
