//! Faults that layers of this kind are known to have, each as a law that ours keep.
//!
//! Most laws stand in the room they concern; [`LAWS`] says where, and a test looks that they still do. Those that
//! concern several rooms at once, or threads, are below.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::path::Path;
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use support::{Body, Log, Script, Stage, ask, read, request};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{Event, Reply, Request, Watchers};
use watertight::failure::{Code, Failure};
use watertight::key::{Caller, KeyBy};
use watertight::layers::bulkhead::{
    BudgetConfig as Budget, BulkheadConfig, DEFAULT_MAX_CONCURRENT, DEFAULT_MAX_WAIT,
};
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::rate_limit::{Mode, RateLimitConfig};
use watertight::layers::retry::{Jitter, RetryBudgetConfig, RetryConfig};
use watertight::layers::{
    BulkheadLayer, CircuitBreakerLayer, FailoverLayer, RetryLayer, TokenAwareRateLimitLayer,
};

/// The law, and the test that holds us to it.
const LAWS: [(&str, &str, &str); 33] = [
    ("An old success does not delay opening.", BREAKER, "many_successes_do_not_keep_it_closed"),
    ("A minimum of calls is enough to open.", BREAKER, "it_does_not_wait_for_a_full_window"),
    ("An outcome costs the same whatever came before.", WINDOW, "what_is_kept_and_looked_at_does_not_grow"),
    ("Nothing is kept of an outcome but a count.", SIGNALS, "what_is_kept_does_not_grow_with_outcomes"),
    ("A window holds what it says, and no more.", WINDOW, "it_holds_what_a_list_of_all_holds"),
    ("What heals is used again by who only asks.", HEALING, "a_fallback_model_that_is_well_is_used_again"),
    ("What heals is used again by who only asks.", HEALING, "a_candidate_that_is_well_is_used_again"),
    ("What heals is used again by who only asks.", BREAKER, "a_planner_that_only_asks_lets_it_heal"),
    ("Every refusal says when to come back.", BREAKER, "a_key_too_many_is_told_when_to_come_back"),
    ("A call from before does not close the circuit.", BREAKER, "a_call_from_before_does_not_close_it"),
    (
        "What can never pass a call is no configuration.",
        BREAKER,
        "a_configuration_that_cannot_work_is_refused",
    ),
    ("A call that is cut from outside is seen.", BREAKER, "calls_that_are_cut_are_seen"),
    ("Each state is told as what it is.", BREAKER, "each_state_shows_as_it_is"),
    ("A stated wait is obeyed by who tries again.", RETRY, "a_stated_wait_is_a_floor_and_has_a_ceiling"),
    ("What cannot help is not tried again.", RETRY, "what_passes_is_tried_again_after_growing_waits"),
    ("A refusal says when to come back.", BREAKER, "a_refusal_says_what_and_when"),
    ("A refusal says when to come back.", LIMITER, "a_doomed_waiter_is_refused_at_once_with_the_instant"),
    ("A failure keeps the error beneath it.", CONTRACT, "failures_pass_unwrapped"),
    ("A layer asks nothing of an answer.", CONTRACT, "no_bound_of_an_answer_leaks"),
    (
        "Calls pay what they cost, each key its own.",
        LIMITER,
        "each_key_pays_for_its_own_calls_what_they_cost",
    ),
    ("Readiness that is not used costs nothing.", CONTRACT, "a_service_readied_and_dropped_loses_nothing"),
    ("Readiness that is kept blocks nobody.", CONTRACT, "idle_readiness_blocks_nobody"),
    ("Who waits is not polled.", CONTRACT, "nobody_spins"),
    ("A layer applied again is the same layer.", CONTRACT, "a_layer_applied_twice_shares_its_state"),
    ("No stretch of time sees two bursts.", LIMITER, "no_window_sees_two_bursts"),
    ("A dear call is not starved.", LIMITER, "a_dear_call_is_not_starved_by_cheap_ones"),
    ("Calls at once do not overshoot.", LIMITER, "calls_at_once_cannot_overshoot"),
    ("Rests shrink again.", BREAKER, "rests_grow_shrink_and_obey"),
    ("A rest heeds a stated wait.", BREAKER, "a_stated_wait_pauses_and_does_not_count"),
    ("A mark at the head of a stream is skipped.", SSE, "one_leading_mark_is_skipped"),
    ("Bytes that are no text do not end a stream.", SSE, "text_is_decoded_after_framing"),
    ("A large event is read in linear time.", SSE, "a_frame_is_a_slice_and_a_large_one_is_linear"),
    ("A slot lasts to the end of the answer.", LIMITER, "a_slot_is_held_to_the_end_of_the_stream"),
];

const BREAKER: &str = "tests/circuit_breaker.rs";
const CONTRACT: &str = "tests/contract/main.rs";
const HEALING: &str = "tests/healing.rs";
const LIMITER: &str = "tests/rate_limit.rs";
const RETRY: &str = "tests/retry.rs";
const SIGNALS: &str = "src/layers/circuit_breaker/signals.rs";
const SSE: &str = "src/protocol/sse/tests.rs";
const WINDOW: &str = "src/layers/circuit_breaker/window.rs";

/// Threads that draw on one account at once, the calls of each, and the retries that they have among them.
const THREADS: usize = 4;
const CALLS: usize = 20;
const RESERVE: u32 = 10;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Whether a source holds a test of this name.
fn holds(source: &str, test: &str) -> bool {
    source.contains(&format!("fn {test}("))
}

/// Scenario: the table of laws.
/// Expected: each MUST be held by a test where the table says; a test that is not there MUST be missed.
#[test]
fn each_law_is_held_where_it_is_said_to_be() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (law, file, test) in LAWS {
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(holds(&source, test), "{law} {file} has no {test}");
        assert!(!holds(&source, &format!("{test}_no_more")));
    }
}

/// A retry with a reserve of so many, and nothing else.
fn reserve(retries: u32) -> RetryLayer {
    let budget = RetryBudgetConfig { ratio: f64::MIN_POSITIVE, reserve: retries, window: HOUR };
    let config = RetryConfig {
        retries: 1,
        base: Duration::from_millis(1),
        jitter: Jitter::None,
        budget: Some(budget),
        ..RetryConfig::default()
    };
    RetryLayer::new(config).unwrap()
}

/// Calls what always fails, from several threads at once, each with a layer of these. The retries that were made.
fn retries(layers: [RetryLayer; THREADS]) -> usize {
    let log = Log::default();
    std::thread::scope(|scope| {
        for layer in layers {
            let log = &log;
            scope.spawn(move || {
                let clock =
                    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
                clock.unwrap().block_on(async {
                    let mut service = layer.layer(Stage::new("a", log, [Script::fails(Code::Server)]));
                    for _ in 0..CALLS {
                        ask(&mut service, request()).await.1.unwrap_err();
                    }
                });
            });
        }
    });
    log.calls().len() - THREADS * CALLS
}

/// Scenario: four threads make 20 calls each that fail, with a reserve of 10 retries among them.
/// Expected: 10 retries MUST be made; four layers, each with a reserve of its own, MUST be told apart.
#[test]
fn a_retry_budget_is_not_overdrawn_by_threads() {
    let shared = reserve(RESERVE);
    assert_eq!(retries([(); THREADS].map(|()| shared.clone())), RESERVE as usize);
    assert_eq!(retries([(); THREADS].map(|()| reserve(RESERVE))), THREADS * RESERVE as usize);
}

/// What a call through a retry and a failover over this gate is refused with, once these calls were made and kept.
async fn refusal<S, E, W>(gate: impl Layer<Stage, Service = S>, script: Script, before: usize) -> Failure
where
    S: Service<Request, Response = Reply<E, W>, Error = Failure> + Clone,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    let log = Log::default();
    let mut gate = gate.layer(Stage::new("a", &log, [script]));
    let mut kept = Vec::new();
    for _ in 0..before {
        kept.push(gate.ready().await.unwrap().call(request()).await);
    }
    refused_through(gate, &log, request(), kept).await
}

/// What a call through a retry and a failover over this gate is refused with, while these are kept.
async fn refused_through<S, E, W, H>(gate: S, log: &Log, request: Request, kept: H) -> Failure
where
    S: Service<Request, Response = Reply<E, W>, Error = Failure> + Clone,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    let sent = log.calls().len();
    let start = Instant::now();
    let stack = FailoverLayer::new([]).layer(RetryLayer::default().layer(gate));
    let refused = stack.oneshot(request).await.unwrap_err();
    assert_eq!(log.calls().len(), sent, "{refused:?}: it was sent all the same");
    assert_eq!(start.elapsed(), Duration::ZERO, "{refused:?}: it was tried again");
    drop(kept);
    refused
}

/// Every refusal of a gate of ours: how it came, who refused, and when to come back where that is known.
async fn refusals() -> Vec<(&'static str, Failure, Code, Option<Duration>)> {
    let (says, fails) = (|| Script::says("x"), Script::fails(Code::Server));
    let circuit = CircuitBreakerConfig { failures: Some(1), jitter: 0.0, ..CircuitBreakerConfig::default() };
    let circuit = CircuitBreakerLayer::new(circuit).unwrap().named("provider:a");
    let wall = |config| BulkheadLayer::new(config).unwrap().named("provider:a");
    let limits = |config| TokenAwareRateLimitLayer::new(config).unwrap().named("provider:a");
    let one = || BulkheadConfig { max_concurrent: Some(1), max_waiting: 0, ..BulkheadConfig::default() };
    let slot = || RateLimitConfig { max_concurrency: Some(1), ..RateLimitConfig::from_headers() };
    let used_up =
        RateLimitConfig { requests_per_minute: Some(1), mode: Mode::Reject, burst: Some(1.0), ..slot() };
    let used_up = RateLimitConfig { max_concurrency: None, ..used_up };
    let budget = BulkheadConfig {
        budget: Some(Budget { tokens: 1, strict: false, ..Budget::default() }),
        max_concurrent: None,
        ..one()
    };
    let (limiter, bulkhead) = (Code::LimiterFull, Code::BulkheadFull);
    let secs = |secs| Some(Duration::from_secs(secs));
    vec![
        ("an open circuit", refusal(circuit, fails, 1).await, Code::CircuitOpen, secs(30)),
        ("a full bulkhead", refusal(wall(one()), says(), 1).await, bulkhead, None),
        ("a spent budget", refusal(wall(budget), says(), 1).await, Code::BudgetExhausted, None),
        ("a limit used up", refusal(limits(used_up), says(), 1).await, limiter, secs(60)),
        (
            "a limiter that lacks only a slot",
            refusal(limits(RateLimitConfig { mode: Mode::Reject, ..slot() }), says(), 1).await,
            limiter,
            secs(1),
        ),
        (
            "a limiter's full line",
            full_line(limits(RateLimitConfig { max_waiting: 1, ..slot() })).await,
            limiter,
            secs(1),
        ),
        (
            "a bulkhead's full line",
            full_line(wall(BulkheadConfig { max_waiting: 1, ..one() })).await,
            bulkhead,
            None,
        ),
        (
            "too many keys of a limiter",
            too_many_keys(limits(RateLimitConfig { key: KeyBy::Caller, max_keys: 1, ..slot() })).await,
            limiter,
            secs(1),
        ),
        (
            "too many keys of a bulkhead",
            too_many_keys(wall(BulkheadConfig { key: KeyBy::Caller, max_keys: 1, ..one() })).await,
            bulkhead,
            secs(1),
        ),
    ]
}

/// What a call is refused with where one is at work and one waits for its slot.
async fn full_line<S, W>(gate: impl Layer<Stage, Service = S>) -> Failure
where
    S: Service<Request, Response = Reply<Body, W>, Error = Failure> + Clone,
    W: Watchers + Unpin,
{
    let log = Log::default();
    let service = gate.layer(Stage::new("a", &log, [Script::says("x")]));
    let held = service.clone().oneshot(request()).await.unwrap();
    let mut waiting = Box::pin(service.clone().oneshot(request()));
    assert!(waiting.as_mut().now_or_never().is_none(), "there is a place in line");
    refused_through(service, &log, request(), (held, waiting)).await
}

/// What a call is refused with where each key that may be is in use.
async fn too_many_keys<S, W>(gate: impl Layer<Stage, Service = S>) -> Failure
where
    S: Service<Request, Response = Reply<Body, W>, Error = Failure> + Clone,
    W: Watchers + Unpin,
{
    let log = Log::default();
    let service = gate.layer(Stage::new("a", &log, [Script::says("x")]));
    let mut held = Vec::new();
    // The map is in parts, each of which holds a key at least.
    for caller in 0..10_000 {
        let request = request().attach(Caller::new(format!("caller-{caller}")));
        match service.clone().oneshot(request.clone()).await {
            Ok(reply) => held.push(reply),
            Err(_) => return refused_through(service, &log, request, held).await,
        }
    }
    panic!("as many keys as one likes");
}

/// Scenario: an open breaker, a bulkhead and a limiter refuse a call beneath a retry and a failover, for each reason
/// that they have: no slot, no place in line, a quota or a budget used up, too many keys.
/// Expected: the refusal MUST come up at once as it is: ours, with its code, the name of who refused, and when to
/// come back, which is never at once; and nothing MUST be sent.
#[tokio::test(start_paused = true)]
async fn every_refusal_comes_up_whole() {
    for (what, refused, code, wait) in refusals().await {
        assert_eq!(refused.code(), code, "{what}");
        assert!(refused.is_local() && !refused.judgement().retry, "{what}: {refused:?}");
        assert!(refused.message().contains("provider:a"), "{what}: {refused:?}");
        let told = refused.retry_after().unwrap_or_else(|| panic!("{what}: {refused:?} says not when"));
        assert!(wait.is_none_or(|wait| told == wait) && !told.is_zero(), "{what}: {told:?}");
    }
}

/// Scenario: as many replies as a bulkhead has slots are held half read; one more call comes; then one reply is read
/// to its end.
/// Expected: the call MUST wait while all are held, though their heads came long ago, and no longer than the longest
/// wait by default; the next MUST pass once a reply has ended.
#[tokio::test(start_paused = true)]
async fn a_slot_lasts_to_the_last_event_and_nobody_waits_for_ever() {
    let log = Log::default();
    let mut service = BulkheadLayer::default().layer(Stage::new("a", &log, [Script::says("x")]));
    let mut held = Vec::new();
    for _ in 0..DEFAULT_MAX_CONCURRENT {
        let mut reply = service.ready().await.unwrap().call(request()).await.unwrap();
        reply.next().await.unwrap().unwrap();
        held.push(reply);
    }
    let start = Instant::now();
    let refused = service.ready().await.unwrap().call(request()).await.unwrap_err();
    assert_eq!((refused.code(), start.elapsed()), (Code::BulkheadFull, DEFAULT_MAX_WAIT));
    read(held.pop().unwrap()).await.1.unwrap();
    let start = Instant::now();
    ask(&mut service, request()).await.1.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}
