//! The breaker at play on a paused clock: single plays here, and [random ones](laws) beside it.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::chat::{ToolCall, ToolRequest};
use crate::event::{Circuit, Facts};
use crate::failure::{Code, Failure};
use crate::gate::{Admission, Admit};
use crate::key::{Key, KeyBy};
use crate::observe::{End, Observer, Watch};
use crate::time::{Instant, now};

use super::*;

mod laws;
mod naive;

/// How long a throttled call is told to wait.
const THROTTLED: Duration = Duration::from_millis(700);

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// So many milliseconds pass.
    Wait(u64),
    /// A call asks to pass.
    Begin,
    /// One of the calls in flight ends.
    End(usize, How),
    /// A person takes it in hand.
    Hand(Hand),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hand {
    ForceOpen,
    Disable,
    Observe,
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Serves,
    Fails,
    Neutral,
    Throttled,
    Dropped,
}

/// A call in flight.
struct Out {
    trial: Trial,
    /// Whether it is a probe, and since when.
    probe: Option<Instant>,
    /// Whether a person took the circuit in hand since.
    before_hand: bool,
}

/// A breaker with its calls in flight.
struct Play {
    layer: CircuitBreakerLayer,
    breaker: CircuitBreaker,
    out: Vec<Out>,
}

impl Play {
    fn new(config: &CircuitBreakerConfig) -> Self {
        let layer = CircuitBreakerLayer::new(config.clone()).unwrap().facts(&Facts::from_fn(|_| {}));
        let breaker = tower_layer::Layer::layer(&layer, ()).admission().clone();
        Self { layer, breaker, out: Vec::new() }
    }

    fn ask(&self, key: &str) -> Option<Trial> {
        let request = ToolRequest::new(ToolCall::default()).attach(Key::new(key));
        match self.breaker.admit(&request) {
            Admit::Granted(trial) => Some(trial),
            Admit::Refused(_) => None,
            Admit::Wait(_) => unreachable!("a breaker never waits"),
        }
    }

    fn begin(&mut self) -> bool {
        let trial = self.ask("");
        let admitted = trial.is_some();
        if let Some(trial) = trial {
            let probe = trial.is_probe().then(now);
            self.out.push(Out { trial, probe, before_hand: false });
        }
        admitted
    }

    fn take(&mut self, at: usize) -> Option<Out> {
        (!self.out.is_empty()).then(|| self.out.swap_remove(at % self.out.len()))
    }

    fn hand(&mut self, hand: Hand) {
        let handle = self.layer.handle().unwrap();
        match hand {
            Hand::ForceOpen => handle.force_open(),
            Hand::Disable => handle.disable(),
            Hand::Observe => handle.observe(),
            Hand::Reset => handle.reset(),
        }
        self.out.iter_mut().for_each(|out| out.before_hand = true);
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Wait(ms) => wait(ms).await,
            Step::Begin => _ = self.begin(),
            Step::End(at, how) => {
                if let Some(out) = self.take(at) {
                    end(out.trial, how);
                }
            }
            Step::Hand(hand) => self.hand(hand),
        }
    }

    fn call(&self, how: How) {
        end(self.ask("").expect("it passes"), how);
    }

    fn look(&self) -> CircuitSnapshot {
        self.layer.handle().unwrap().snapshot()
    }
}

fn end(trial: Trial, how: How) {
    let failure = |code| Failure::new(code, "played");
    match how {
        How::Serves => trial.settle(End::Completed(None)),
        How::Fails => trial.settle(End::Failed(&failure(Code::Server))),
        How::Neutral => trial.settle(End::Failed(&failure(Code::InvalidRequest))),
        How::Throttled => {
            let failure = failure(Code::RateLimited).with_retry_after(Some(THROTTLED));
            trial.settle(End::Failed(&failure));
        }
        How::Dropped => drop(Watch::new(trial)),
    }
}

fn on_a_paused_clock<T>(play: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(play)
}

async fn wait(ms: u64) {
    tokio::time::advance(Duration::from_millis(ms)).await;
}

fn hows() -> impl Strategy<Value = How> {
    prop_oneof![
        4 => Just(How::Serves),
        4 => Just(How::Fails),
        1 => Just(How::Neutral),
        1 => Just(How::Throttled),
        1 => Just(How::Dropped),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    steps_of(1_500, 4)
}

/// Plays with waits up to so many milliseconds, in which a person interferes so often among 200 steps.
fn steps_of(longest: u64, hands: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => (0..longest).prop_map(Step::Wait),
        100 => Just(Step::Begin),
        60 => (any::<usize>(), hows()).prop_map(|(at, how)| Step::End(at, how)),
        hands => a_hand().prop_map(Step::Hand),
    ];
    prop::collection::vec(step, 1..120)
}

/// Mostly one that lets the circuit go on.
fn a_hand() -> impl Strategy<Value = Hand> {
    prop_oneof![
        1 => Just(Hand::ForceOpen),
        1 => Just(Hand::Disable),
        2 => Just(Hand::Observe),
        6 => Just(Hand::Reset),
    ]
}

/// Rests, leases and ramps that steps of a second meet from all sides.
fn quick() -> CircuitBreakerConfig {
    let ms = Duration::from_millis;
    CircuitBreakerConfig {
        failures: Some(3),
        rest: ms(2_000),
        max_rest: ms(8_000),
        window: ms(10_000),
        failures_within: ms(5_000),
        lease: ms(3_000),
        ramp: Some(ms(2_000)),
        seed: Some(5),
        ..CircuitBreakerConfig::default()
    }
}

/// Whether a law holds for every play.
fn holds<V: std::fmt::Debug>(plays: impl Strategy<Value = V>, law: impl Fn(V) -> bool) -> bool {
    let config = Config { cases: 400, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(Default::default()),
    );
    runner.run(&plays, |play| if law(play) { Ok(()) } else { Err(TestCaseError::fail("broken")) }).is_ok()
}

/// How many of eight threads that ask a half-open circuit at once are let through, at most and at least.
fn let_through(probes: u32) -> (usize, usize) {
    let rest = Duration::from_nanos(1);
    let config = CircuitBreakerConfig { failures: Some(1), rest, growth: 1.0, probes, ..quick() };
    let play = Play::new(&CircuitBreakerConfig { lease: Duration::from_secs(3600), ..config });
    let rounds = (0..200).map(|_| {
        play.layer.handle().unwrap().reset();
        play.call(How::Fails);
        let (start, finish) = (std::sync::Barrier::new(8), std::sync::Barrier::new(8));
        std::thread::scope(|scope| {
            let ask = || {
                start.wait();
                let trial = play.ask("").map(Watch::new);
                finish.wait();
                usize::from(trial.is_some())
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        })
    });
    let rounds: Vec<usize> = rounds.collect();
    assert_eq!(play.look().probes, 0);
    (rounds.iter().copied().max().unwrap(), rounds.iter().copied().min().unwrap())
}

/// Scenario: eight threads ask a half-open circuit in the same instant, again and again; and one with a place more.
/// Expected: exactly as many MUST pass as there are places; the twin MUST be found out.
#[test]
fn threads_that_ask_at_once_share_the_places() {
    assert_eq!(let_through(2), (2, 2));
    assert_ne!(let_through(3), (2, 2), "the twin");
}

/// Scenario: four threads succeed 5,000 times each, in one bucket; then failures come, one by one.
/// Expected: it MUST open when they are as many as the successes, and not one earlier: none was lost.
#[test]
fn no_success_of_any_thread_is_lost() {
    let window = Duration::from_secs(24 * 60 * 60);
    let play = Play::new(&CircuitBreakerConfig { failures: None, window, ..CircuitBreakerConfig::default() });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5_000).for_each(|_| play.call(How::Serves)));
        }
    });
    (0..19_999).for_each(|_| play.call(How::Fails));
    assert_eq!(play.look().state, Circuit::Closed);
    play.call(How::Fails);
    assert_eq!(play.look().state, Circuit::Open);
}

/// Scenario: 50,000 outcomes of a key that only observes.
/// Expected: what is remembered MUST NOT grow with them.
#[test]
fn what_is_remembered_does_not_grow() {
    on_a_paused_clock(async {
        let play = Play::new(&CircuitBreakerConfig { failures: Some(7), ..CircuitBreakerConfig::default() });
        play.layer.handle().unwrap().observe();
        for n in 0..50_000 {
            wait(1).await;
            play.call(if n % 3 == 0 { How::Serves } else { How::Fails });
        }
        let look = play.look();
        assert!(look.would_have_opened > 1_000, "{look:?}");
        assert!(look.failures <= 10, "each verdict begins anew: {look:?}");
    });
}

/// Scenario: one key that is called once and left alone, one that fails and is left alone for a day, one that is held
/// open.
/// Expected: a new one MUST be able to stand in the place of the first two, and not of the third, nor of a fresh failure
/// or a circuit that is tried.
#[test]
fn only_keys_with_nothing_to_tell_are_idle() {
    use crate::keyed::Idle;
    on_a_paused_clock(async {
        let config = CircuitBreakerConfig { key: KeyBy::Attached, ..CircuitBreakerConfig::default() };
        let play = Play::new(&config);
        end(play.ask("served").unwrap(), How::Serves);
        (0..5).for_each(|_| end(play.ask("failed").unwrap(), How::Fails));
        play.layer.handle_of("forced").unwrap().force_open();
        let idle = |key: &str| play.breaker.states().get(key).unwrap().is_idle();
        assert!(!idle("served") && !idle("failed") && !idle("forced"), "each counts still");
        wait(61_000).await;
        assert!(idle("served"));
        assert!(!idle("failed"), "it is open");
        wait(24 * 60 * 60 * 1_000).await;
        assert!(idle("failed"), "nobody asked for it in a day, and maybe nobody ever will");
        assert!(!idle("forced"));
        let probe = play.ask("failed").unwrap();
        assert!(!idle("failed"), "it is tried");
        end(probe, How::Serves);
        end(play.ask("failed").unwrap(), How::Serves);
        wait(61_000).await;
        assert!(idle("failed"), "it healed");
        assert!(!idle("forced"));
    });
}

/// Scenario: what a key takes in memory while it is idle.
/// Expected: with a key of sixteen bytes and its place in the map it MUST stay within 200 bytes.
#[test]
fn an_idle_key_is_small() {
    let state = size_of::<state::State>() + 2 * size_of::<usize>();
    let name = 2 * size_of::<usize>() + 16;
    // A place in the list, which grows by doubling, and four bytes and a tag in the index, at most half empty.
    let place = 2 * (size_of::<(std::sync::Arc<str>, std::sync::Arc<state::State>)>() + 5);
    assert!(state + name + place <= 200, "{state} + {name} + {place}");
}

/// Scenario: the table of defaults in the docs of the room.
/// Expected: MUST tell the values of the code.
#[test]
fn the_docs_tell_the_defaults() {
    let docs = include_str!("mod.rs");
    let config = CircuitBreakerConfig::default();
    let (min, secs) = (|wait: Duration| wait.as_secs() / 60, |wait: Duration| wait.as_secs());
    let share = |at: usize| config.ramp_shares[at] * 100.0;
    let rows = [
        format!("| {} in {} s |", config.failures.unwrap(), secs(config.failures_within)),
        format!(
            "| {} % of {} in {} s |",
            config.ratio.unwrap() * 100.0,
            config.min_calls,
            secs(config.window)
        ),
        format!("| {} s, × {}, {} min |", secs(config.rest), config.growth, min(config.max_rest)),
        format!("| `forgive` | {} s |", secs(config.forgive)),
        format!("| `jitter` | {} |", config.jitter),
        format!("| {} min, {} h |", min(config.quota_rest), min(config.max_stated) / 60),
        format!("| {}, {}, {} s |", config.probes, config.successes, secs(config.lease)),
        format!("| {} s, {} % and {} % |", secs(config.ramp.unwrap()), share(0), share(1)),
        format!("| {}, {} % |", config.waste_failures, config.waste_share * 100.0),
    ];
    for row in rows {
        assert!(docs.contains(&row), "{row}");
    }
    assert!(config.semantic && config.slow.is_none() && config.token_trip.is_none());
}
