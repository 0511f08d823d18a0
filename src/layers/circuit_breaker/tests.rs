//! The laws of the breaker, held to random plays on a paused clock. Beside each stands a twin that breaks it.

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

use super::window::BUCKETS;
use super::*;

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// So many milliseconds pass.
    Wait(u64),
    /// A call asks to pass.
    Begin,
    /// One of the calls in flight ends.
    End(usize, How),
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
            self.out.push(Out { trial, probe });
        }
        admitted
    }

    fn take(&mut self, at: usize) -> Option<Out> {
        (!self.out.is_empty()).then(|| self.out.swap_remove(at % self.out.len()))
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
            let failure = failure(Code::RateLimited).with_retry_after(Some(Duration::from_millis(700)));
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
    let step = prop_oneof![
        2 => (0_u64..1_500).prop_map(Step::Wait),
        5 => Just(Step::Begin),
        3 => (any::<usize>(), hows()).prop_map(|(at, how)| Step::End(at, how)),
    ];
    prop::collection::vec(step, 1..120)
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

/// Every outcome with its time, judged anew each time.
struct Naive {
    /// Counted from when the circuit was made.
    all: Vec<(Duration, bool)>,
    buckets: u64,
    failures: usize,
}

impl Naive {
    fn is_sick(&self, config: &CircuitBreakerConfig) -> bool {
        let Some((last, true)) = self.all.last() else { return false };
        let row: Vec<_> =
            self.all.iter().rev().take_while(|(_, failed)| *failed).take(self.failures).collect();
        if row.len() == self.failures && *last - row[row.len() - 1].0 <= config.failures_within {
            return true;
        }
        let width = config.window.as_nanos() / BUCKETS as u128;
        let bucket = |at: Duration| at.as_nanos() / width;
        let within = |at: Duration| bucket(at) + u128::from(self.buckets) > bucket(*last);
        let recent: Vec<_> = self.all.iter().filter(|(at, _)| within(*at)).collect();
        let failed = recent.iter().filter(|(_, failed)| *failed).count();
        recent.len() >= config.min_calls as usize && 2 * failed >= recent.len()
    }
}

/// Whether the breaker opens exactly when the naive judge says so.
fn agrees(outcomes: Vec<(u64, bool)>, buckets: u64, failures: usize) -> bool {
    on_a_paused_clock(async {
        let config = CircuitBreakerConfig { failures: Some(4), ..CircuitBreakerConfig::default() };
        let (play, start) = (Play::new(&config), now());
        let mut naive = Naive { all: Vec::new(), buckets, failures };
        for (ms, failed) in outcomes {
            wait(ms).await;
            play.call(if failed { How::Fails } else { How::Serves });
            naive.all.push((now() - start, failed));
            let (open, sick) = (play.look().state == Circuit::Open, naive.is_sick(&config));
            if open != sick {
                return false;
            }
            if open {
                return true;
            }
        }
        true
    })
}

/// Scenario: outcomes at any distance; a judge that remembers them all; and judges that forget a bucket too late, or
/// want a failure more.
/// Expected: it MUST open exactly when the first judge says so; the others MUST be found out.
#[test]
fn it_opens_exactly_when_a_naive_judge_says_so() {
    let outcomes = || prop::collection::vec((0_u64..15_000, prop::bool::weighted(0.45)), 1..80);
    assert!(holds(outcomes(), |play| agrees(play, BUCKETS as u64, 4)));
    assert!(!holds(outcomes(), |play| agrees(play, BUCKETS as u64 + 1, 4)), "the twin that forgets late");
    assert!(!holds(outcomes(), |play| agrees(play, BUCKETS as u64, 5)), "the twin that is patient");
}

/// Plays, and looks after each step whether what may be is so.
fn play(config: &CircuitBreakerConfig, steps: Vec<Step>, may_be: impl Fn(&Play) -> bool) -> bool {
    on_a_paused_clock(async {
        let mut play = Play::new(config);
        for step in steps {
            match step {
                Step::Wait(ms) => wait(ms).await,
                Step::Begin => _ = play.begin(),
                Step::End(at, how) => {
                    if let Some(out) = play.take(at) {
                        end(out.trial, how);
                    }
                }
            }
            if !may_be(&play) {
                return false;
            }
        }
        true
    })
}

/// Scenario: any interleaving of calls, ends and time; and the same with one place more than is allowed for.
/// Expected: never MUST more probes be out, their leases running, than there are places; the twin MUST be found out.
#[test]
fn never_are_there_more_probes_than_places() {
    let config = quick();
    let in_flight = |play: &Play| {
        let leased = |since: Instant| now() - since < Duration::from_millis(3_000);
        let generation = play.breaker.generation();
        let is_probe = |out: &&Out| out.probe.is_some_and(leased) && out.trial.generation() == generation;
        play.out.iter().filter(is_probe).count()
    };
    assert!(holds(steps(), |steps| play(&config, steps, |play| in_flight(play) <= 2)));
    let wide = CircuitBreakerConfig { probes: 3, ..config };
    assert!(!holds(steps(), |steps| play(&wide, steps, |play| in_flight(play) <= 2)), "the twin");
}

/// Ends calls of older generations, and looks whether anything changes. The twin takes them for calls of the present.
fn old_calls_change_nothing(steps: Vec<Step>, forge: bool) -> bool {
    on_a_paused_clock(async {
        let mut play = Play::new(&quick());
        for step in steps {
            match step {
                Step::Wait(ms) => wait(ms).await,
                Step::Begin => _ = play.begin(),
                Step::End(at, how) => {
                    let Some(mut out) = play.take(at) else { continue };
                    let (generation, before) = (play.breaker.generation(), play.look());
                    let is_old = out.trial.generation() != generation;
                    if is_old && forge {
                        out.trial.forge(generation);
                    }
                    end(out.trial, how);
                    if is_old && play.look() != before {
                        return false;
                    }
                }
            }
        }
        true
    })
}

/// Scenario: calls that end after the circuit changed; and a breaker that takes them for calls of the present.
/// Expected: the circuit MUST stay what it is; the twin MUST be found out.
#[test]
fn calls_of_older_generations_change_nothing() {
    assert!(holds(steps(), |steps| old_calls_change_nothing(steps, false)));
    assert!(!holds(steps(), |steps| old_calls_change_nothing(steps, true)), "the twin");
}

/// Probes that never report, begun at these distances; a call a lease after the latest.
fn frees_itself(lease: Duration, waits: Vec<u64>) -> bool {
    on_a_paused_clock(async {
        let mut play = Play::new(&CircuitBreakerConfig { lease, ..quick() });
        (0..3).for_each(|_| play.call(How::Fails));
        wait(2_000).await;
        for ms in waits {
            play.begin();
            wait(ms).await;
        }
        play.begin();
        wait(3_000).await;
        play.layer.handle().unwrap().is_callable() && play.begin()
    })
}

/// Scenario: a half-open circuit whose probes never report; and a lease that is longer than is allowed for.
/// Expected: after a lease a call MUST pass; the twin MUST be found out.
#[test]
fn a_half_open_circuit_frees_itself_within_the_lease() {
    let waits = || prop::collection::vec(0_u64..4_000, 0..6);
    assert!(holds(waits(), |waits| frees_itself(Duration::from_secs(3), waits)));
    assert!(!holds(waits(), |waits| frees_itself(Duration::from_secs(30), waits)), "the twin");
}

/// Whether another key looks as if nobody called it, whatever happens to this one.
fn leaves_others_alone(key: KeyBy, steps: Vec<Step>) -> bool {
    let config = CircuitBreakerConfig { key, ..quick() };
    play(&config, steps, |play| {
        let other = play.layer.handle_of("other").unwrap();
        other.is_callable() && other.snapshot().is_plain() && play.layer.callable().is_callable("unknown")
    })
}

/// Scenario: any play on one key; and a breaker that does not tell keys apart.
/// Expected: another key MUST NOT notice; the twin MUST be found out.
#[test]
fn one_key_never_changes_another() {
    assert!(holds(steps(), |steps| leaves_others_alone(KeyBy::Attached, steps)));
    assert!(!holds(steps(), |steps| leaves_others_alone(KeyBy::Nothing, steps)), "the twin");
}

/// Plays, drops whatever is in flight, and looks for probes. The twin keeps what it should drop.
fn drops_all(steps: Vec<Step>, leak: bool) -> bool {
    on_a_paused_clock(async {
        let mut play = Play::new(&quick());
        for step in steps {
            match step {
                Step::Wait(ms) => wait(ms).await,
                Step::Begin => _ = play.begin(),
                Step::End(at, how) => {
                    if let Some(out) = play.take(at) {
                        end(out.trial, how);
                    }
                }
            }
        }
        if !leak {
            play.out.drain(..).for_each(|out| end(out.trial, How::Dropped));
        }
        play.look().probes == 0
    })
}

/// Scenario: any play, and all calls in flight dropped at its end; and one that does not drop them.
/// Expected: no probe MUST be out; the twin MUST be found out.
#[test]
fn no_probe_is_out_once_all_is_dropped() {
    assert!(holds(steps(), |steps| drops_all(steps, false)));
    assert!(!holds(steps(), |steps| drops_all(steps, true)), "the twin");
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
