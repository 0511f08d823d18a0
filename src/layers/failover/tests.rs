//! The standing and its rests, told the time; what a failure says.

use std::time::Duration;

use proptest::prelude::*;

use crate::failure::{Code, Failure};
use crate::time::{Instant, now};

use super::blow::Blow;
use super::config::{Candidate, FailoverConfig};
use super::standing::{Asked, Move, Standing};

const SECOND: Duration = Duration::from_secs(1);

fn config() -> FailoverConfig {
    FailoverConfig { spring_back: 100 * SECOND, dwell: Some(10 * SECOND), ..FailoverConfig::default() }
}

fn stated(seconds: u32) -> Blow {
    Blow::AtOnce(Some(seconds * SECOND))
}

fn is_due(standing: &mut Standing, now: Instant) -> Option<usize> {
    let due = standing.begin_trial(&config(), now);
    if due.is_some() {
        standing.drop_trial();
    }
    due
}

/// Scenario: three failed calls in a row at the first of three.
/// Expected: the third MUST move, to the next below, for the whole rest.
#[test]
fn the_third_failure_in_a_row_moves() {
    let (mut standing, now) = (Standing::new(3), now());
    let first = standing.ask(0);
    assert_eq!(standing.failed(first, Blow::Counted, &config(), now), None);
    assert_eq!(standing.failed(first, Blow::None, &config(), now), None);
    assert_eq!(standing.failed(first, Blow::Counted, &config(), now), None);
    let moved = standing.failed(first, Blow::Counted, &config(), now);
    assert_eq!(moved, Some(Move { from: 0, to: 1, rest: 100 * SECOND }));
    assert_eq!(standing.at(), 1);
}

/// Scenario: nothing happened; a failure, a rest, a trial; all of it over.
/// Expected: MUST be calm only while nothing is remembered, and again once it is over.
#[test]
fn it_is_calm_again_when_all_is_over() {
    let (mut standing, now) = (Standing::new(3), now());
    assert!(standing.is_calm());
    standing.failed(standing.ask(0), Blow::Counted, &config(), now);
    assert!(!standing.is_calm());
    standing.served(standing.ask(0));
    assert!(standing.is_calm());
    // A rest of a candidate below, for which no trial waits, is over with its time.
    standing.failed(standing.ask(2), stated(20), &config(), now);
    standing.forget(now + 19 * SECOND);
    assert!(!standing.is_calm());
    standing.forget(now + 20 * SECOND);
    assert!(standing.is_calm());
}

/// Scenario: the next below rests; its rest is over; all others rest.
/// Expected: calls MUST move to the first that does not rest, else to the one whose rest is over first.
#[test]
fn calls_move_to_whoever_is_well_first() {
    let (mut standing, begun) = (Standing::new(4), now());
    standing.failed(standing.ask(1), stated(50), &config(), begun);
    let moved = standing.failed(standing.ask(0), stated(500), &config(), begun);
    assert_eq!(moved.map(|moved| moved.to), Some(2), "the second rests");
    let later = begun + 60 * SECOND;
    standing.failed(standing.ask(3), stated(300), &config(), later);
    let moved = standing.failed(standing.ask(2), stated(200), &config(), later);
    assert_eq!(moved.map(|moved| moved.to), Some(1), "the second's rest is over, though no trial ended it");
    let moved = standing.failed(standing.ask(1), stated(900), &config(), later);
    assert_eq!(moved.map(|moved| moved.to), Some(2), "of those that rest, the first to be well");
}

/// Scenario: a rest, and calls that were begun before it and in it, that end well and badly.
/// Expected: older calls MUST neither end nor shorten it; those begun in it MUST.
#[test]
fn a_rest_hears_only_calls_begun_in_it() {
    let (mut standing, now) = (Standing::new(2), now());
    let older = standing.ask(0);
    standing.failed(older, stated(50), &config(), now);
    standing.served(older);
    standing.failed(older, stated(20), &config(), now);
    standing.failed(older, Blow::AtOnce(None), &config(), now);
    assert_eq!(standing.barred(0, now), Some(now + 50 * SECOND));
    assert_eq!(is_due(&mut standing, now + 99 * SECOND), None, "the rest of 100 s came later and was longer");

    let in_it = standing.ask(0);
    standing.failed(in_it, stated(30), &config(), now);
    assert_eq!(standing.barred(0, now), Some(now + 30 * SECOND));
    assert_eq!(is_due(&mut standing, now + 30 * SECOND), Some(0));
    standing.served(standing.ask(0));
    assert_eq!(standing.barred(0, now), None);
}

/// Scenario: a wait of a century of centuries.
/// Expected: MUST saturate.
#[test]
fn a_wait_without_end_saturates() {
    let (mut standing, now) = (Standing::new(2), now());
    standing.failed(standing.ask(0), Blow::AtOnce(Some(Duration::MAX)), &config(), now);
    assert!(standing.barred(0, now + 10_000_000 * SECOND).is_some());
}

/// Scenario: first outputs after 1, 1, 1, … then 9 s, with a limit of 2 s.
/// Expected: one late output MUST not make it slow, several MUST; and it MUST be forgotten after a rest.
#[test]
fn the_pace_is_a_mean_of_the_latest() {
    let config = FailoverConfig { max_first_output: Some(2 * SECOND), ..config() };
    let (mut standing, now) = (Standing::new(2), now());
    for _ in 0..10 {
        standing.measure(0, SECOND, now);
    }
    standing.measure(0, 5 * SECOND, now);
    assert!(!standing.is_slow(0, &config, now));
    standing.measure(0, 9 * SECOND, now);
    assert!(standing.is_slow(0, &config, now));
    assert!(!standing.is_slow(1, &config, now));
    assert!(!standing.is_slow(0, &config, now + 100 * SECOND));
}

/// Scenario: every code, as a failure of the provider, with and without a wait, and as a refusal of ours.
/// Expected: only an empty quota, an open breaker and a stated wait MUST move at once; what is bound to the request,
/// and every other refusal, MUST say nothing.
#[test]
fn what_a_failure_says_about_its_candidate() {
    use crate::failure::Class;
    let config = config();
    for code in Code::ALL {
        let plain = Blow::of(&Failure::new(code, ""), &config);
        let wait = Blow::of(&Failure::new(code, "").with_retry_after(Some(SECOND)), &config);
        let local = Blow::of(&Failure::local(code, ""), &config);
        match code {
            Code::QuotaExhausted | Code::CircuitOpen => {
                assert_eq!((plain, wait), (Blow::AtOnce(None), stated(1)), "{code}");
            }
            _ if code.class() == Class::Fatal && code != Code::Blocked => {
                assert_eq!((plain, wait), (Blow::None, Blow::None), "{code}");
            }
            Code::Deadline | Code::Cancelled | Code::AllFailed => assert_eq!(plain, Blow::None, "{code}"),
            _ if code.class() == Class::Local => assert_eq!(plain, Blow::None, "{code}"),
            _ => assert_eq!((plain, wait), (Blow::Counted, stated(1)), "{code}"),
        }
        if !matches!(code, Code::QuotaExhausted | Code::CircuitOpen) {
            assert_eq!(local, Blow::None, "{code}");
        }
    }
    let also = FailoverConfig { also: vec![Code::Permission, Code::ContentFilter], ..config };
    assert_eq!(Blow::of_code(Code::Permission, &also), Blow::Counted);
    assert_eq!(Blow::of_code(Code::Authentication, &also), Blow::None);
    assert_eq!(
        Blow::of_code(Code::ContentFilter, &also),
        Blow::None,
        "it is the request's, wherever it goes"
    );
}

/// Scenario: configurations that cannot work, and candidates that cannot be told apart.
/// Expected: MUST be refused with the name of the field.
#[test]
fn a_configuration_that_cannot_work_is_refused_by_name() {
    let zero = Duration::ZERO;
    for (config, field) in [
        (FailoverConfig { spring_back: zero, ..config() }, "spring_back"),
        (FailoverConfig { min_share: zero, ..config() }, "min_share"),
        (FailoverConfig { max_first_output: Some(zero), ..config() }, "max_first_output"),
        (FailoverConfig { move_off_after: 0, ..config() }, "move_off_after"),
        (FailoverConfig { dwell: Some(zero), ..config() }, "dwell"),
        (FailoverConfig { also: vec![Code::InvalidRequest], ..config() }, "also"),
        (FailoverConfig { also: vec![Code::Permission, Code::Server], ..config() }, "also"),
    ] {
        assert_eq!(config.validate().unwrap_err().field, field);
    }
    let nameless = [Candidate::new("a"), Candidate::new("")];
    assert!(config().check(&nameless, 2).unwrap_err().reason.contains("no name"));
    assert_eq!(FailoverConfig::eager(), FailoverConfig { move_off_after: 1, ..FailoverConfig::default() });
}

/// Scenario: a configuration as a file writes it.
/// Expected: MUST be read back as it was; a field that nobody knows MUST be refused.
#[test]
fn a_configuration_is_read_as_it_is_written() {
    let config = FailoverConfig { max_first_output: Some(SECOND), also: vec![Code::Permission], ..config() };
    let text = serde_json::to_string(&config).unwrap();
    assert!(text.contains(r#""spring_back":"1m 40s""#), "{text}");
    assert_eq!(serde_json::from_str::<FailoverConfig>(&text).unwrap(), config);
    assert_eq!(serde_json::from_str::<FailoverConfig>("{}").unwrap(), FailoverConfig::default());
    assert!(serde_json::from_str::<FailoverConfig>(r#"{"springback":"1m"}"#).is_err());
}

/// What a script does to the standing.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u32),
    Fail(usize, Blow),
    /// A call that was begun long ago fails.
    FailLate(usize, Blow),
    Serve(usize),
    BeginTrial,
    EndTrial(Option<Blow>),
    DropTrial,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let blow = || {
        prop_oneof![
            Just(Blow::None),
            Just(Blow::Counted),
            Just(Blow::AtOnce(None)),
            (0_u32..400).prop_map(stated),
        ]
    };
    let step = prop_oneof![
        (0_u32..120).prop_map(Step::Pass),
        (0_usize..3, blow()).prop_map(|(at, blow)| Step::Fail(at, blow)),
        (0_usize..3, blow()).prop_map(|(at, blow)| Step::FailLate(at, blow)),
        (0_usize..3).prop_map(Step::Serve),
        Just(Step::BeginTrial),
        proptest::option::of(blow()).prop_map(Step::EndTrial),
        Just(Step::DropTrial),
    ];
    proptest::collection::vec(step, 0..60)
}

/// Holds a script to the laws of the standing: one trial at a time, of a candidate above, never before the wait that
/// was last stated nor before the dwell. `begin` begins trials: the room's own way, or a twin's.
fn holds(
    steps: &[Step],
    begin: impl Fn(&mut Standing, Instant) -> Option<usize>,
) -> Result<(), TestCaseError> {
    let (mut standing, mut now, config) = (Standing::new(3), now(), config());
    let (mut trial, mut since) = (None::<Asked>, None::<Instant>);
    let mut barred = [None::<Instant>; 3];
    for step in steps {
        match *step {
            Step::Pass(seconds) => now += seconds * SECOND,
            Step::Fail(at, blow) => {
                let moved = standing.failed(standing.ask(at), blow, &config, now);
                since = moved.map(|_| now).or(since);
                barred[at] = standing.barred(at, now);
            }
            Step::FailLate(at, blow) => {
                let asked = Asked { candidate: at, rest: None };
                since = standing.failed(asked, blow, &config, now).map(|_| now).or(since);
                let known = barred[at].filter(|until| *until > now);
                prop_assert!(standing.barred(at, now) >= known, "a late call shortened a wait");
                barred[at] = standing.barred(at, now);
            }
            Step::Serve(at) => {
                standing.served(standing.ask(at));
                barred[at] = None;
            }
            Step::BeginTrial => {
                standing.forget(now);
                let Some(candidate) = begin(&mut standing, now) else { continue };
                prop_assert!(trial.is_none(), "two trials at a time");
                prop_assert!(candidate < standing.at(), "a trial of no higher candidate");
                prop_assert!(barred[candidate].is_none_or(|until| until <= now), "a trial before its wait");
                prop_assert!(
                    since.is_none_or(|since| since + config.dwell.unwrap_or_default() <= now),
                    "a stay below the dwell"
                );
                trial = Some(standing.ask(candidate));
            }
            Step::EndTrial(end) => match (trial.take(), end) {
                (Some(asked), None) => {
                    standing.spring_back(asked.candidate);
                    prop_assert_eq!(standing.at(), asked.candidate);
                    barred[asked.candidate] = None;
                }
                (Some(asked), Some(blow)) => {
                    standing.fail_trial(asked, blow, &config, now);
                    barred[asked.candidate] = standing.barred(asked.candidate, now);
                }
                (None, _) => {}
            },
            Step::DropTrial => {
                if trial.take().is_some() {
                    standing.drop_trial();
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any script of failures, late failures, successes and trials.
    /// Expected: the laws of the standing MUST hold.
    #[test]
    fn any_script_keeps_the_laws_of_the_standing(steps in steps()) {
        holds(&steps, |standing, now| standing.begin_trial(&config(), now))?;
    }
}

/// Scenario: the laws of the property above, held against two twins: one that knows no dwell, and one that forgets the
/// trial in flight.
/// Expected: MUST be rejected.
#[test]
fn a_standing_that_hurries_is_rejected() {
    let moved = Step::Fail(0, Blow::AtOnce(Some(Duration::ZERO)));
    let hurried = [moved, Step::Pass(10), Step::Fail(1, stated(0)), Step::BeginTrial];
    let no_dwell = FailoverConfig { dwell: None, ..config() };
    assert!(holds(&hurried, |standing, now| standing.begin_trial(&config(), now)).is_ok());
    assert!(holds(&hurried, |standing, now| standing.begin_trial(&no_dwell, now)).is_err());

    let twice = [moved, Step::Pass(50), Step::BeginTrial, Step::BeginTrial];
    let forgetful = |standing: &mut Standing, now| {
        standing.drop_trial();
        standing.begin_trial(&config(), now)
    };
    assert!(holds(&twice, |standing, now| standing.begin_trial(&config(), now)).is_ok());
    assert!(holds(&twice, forgetful).is_err());
}
