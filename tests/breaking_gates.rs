//! Attacks on gates: sinks and services that panic, configurations at the edge of arithmetic, keys without end, and
//! ledgers pushed out of their range.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use support::{Act, Log, Script, Stage, ask, facts, fail, request};
use tokio::time::{Instant, advance, timeout};
use tower::{Layer, Service, ServiceExt, service_fn};
use watertight::chat::{
    Ask, Cost, Dimension, End, Level, Limits, Observer, Request, ToolCall, ToolRequest, Window,
};
use watertight::event::{Circuit, Fact, Facts};
use watertight::failure::{Code, Failure};
use watertight::key::{Key, KeyBy};
use watertight::layers::bulkhead::{Budget, BudgetConfig, BulkheadConfig};
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::degradation::{DeferConfig, DeferQueue, JobStatus, MemoryQueue};
use watertight::layers::rate_limit::RateLimitConfig;
use watertight::layers::{BulkheadLayer, CircuitBreakerLayer, DegradationLayer, TokenAwareRateLimitLayer};
use watertight::observe::Plain;
use watertight::store::{Answer, Costs, Ledger, Memory, Quota, Short, Store};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn tool_request() -> ToolRequest {
    ToolRequest::new(ToolCall::default())
}

/// A sink that panics at each fact of this name.
fn panics_at(name: &'static str) -> Facts {
    Facts::to(move |fact: &Fact<'_>| assert!(fact.name() != name, "the sink panics"))
}

/// What a call came to, a panic of whatever it met included.
fn calls<S>(service: &mut S, request: Request) -> Result<bool, ()>
where
    S: Service<Request, Error = Failure>,
{
    catch_unwind(AssertUnwindSafe(|| {
        let answer = service.ready().now_or_never().unwrap().unwrap().call(request).now_or_never();
        matches!(answer, Some(Ok(_)))
    }))
    .map_err(drop)
}

// === what panics ===

/// Scenario: sinks that panic at every fact a gate tells on the way in, at the end, and in line; the calls go on.
/// Expected: no slot, no budget and no token MUST be lost, and the calls MUST be answered as if the sink were none.
#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_takes_no_slot_along() {
    for name in ["admitted", "released", "refused", "budget_warning", "calibrated", "transition", "probe"] {
        let facts = panics_at(name);
        let config = BulkheadConfig {
            max_concurrent: Some(1),
            max_waiting: 1,
            budget: Some(BudgetConfig { tokens: 1_000, ..BudgetConfig::default() }),
            ..BulkheadConfig::default()
        };
        let bulkhead = BulkheadLayer::new(config).unwrap().facts(&facts);
        let config =
            RateLimitConfig { max_concurrency: Some(1), tokens_per_minute: Some(60), ..RateLimitConfig::default() };
        let limit = TokenAwareRateLimitLayer::new(config).unwrap().facts(&facts);
        let breaker = CircuitBreakerLayer::default().facts(&facts);
        let stage = Stage::new("a", &Log::default(), [Script::says("word")]);
        let mut service = bulkhead.layer(limit.layer(breaker.layer(stage)));
        for n in 0..3 {
            let asked = request().attach(Cost { input: 1, output: Some(0) });
            assert_eq!(calls(&mut service, asked), Ok(true), "{name}: call {n}");
            assert_eq!(bulkhead.snapshot().states[0].in_flight, 0, "{name}");
            assert_eq!(limit.snapshot().keys[0].in_flight, 0, "{name}");
        }
        let dear = request().attach(Cost { input: 100_000, output: None });
        assert_eq!(calls(&mut service, dear), Ok(false), "{name}");
        assert_eq!(bulkhead.snapshot().states[0].in_flight, 0, "{name}");
    }
}

/// Scenario: two calls at a bulkhead and at a limit of one, where the sink panics when the second is let in out of the
/// line; and a wait dropped while a panic unwinds.
/// Expected: the second MUST be answered, and all counts MUST end at zero.
#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_at_a_grant_out_of_the_line_loses_nothing() {
    let facts = panics_at("admitted");
    let config = BulkheadConfig { max_concurrent: Some(1), ..BulkheadConfig::default() };
    let bulkhead = BulkheadLayer::new(config).unwrap().facts(&facts);
    let config = RateLimitConfig { max_concurrency: Some(1), ..RateLimitConfig::from_headers() };
    let limit = TokenAwareRateLimitLayer::new(config).unwrap().facts(&facts);
    let slow = Script::body([Act::Wait(1_000), Act::Text("word"), Act::Done]);
    let stage = || Stage::new("a", &Log::default(), [slow.clone()]);
    let (mut one, mut two) = (bulkhead.layer(stage()), bulkhead.layer(stage()));
    let ends = tokio::join!(ask(&mut one, request()), ask(&mut two, request()));
    assert!(ends.0.1.is_ok() && ends.1.1.is_ok());
    assert_eq!(bulkhead.snapshot().states[0].in_flight, 0);
    let (mut one, mut two) = (limit.layer(stage()), limit.layer(stage()));
    let ends = tokio::join!(ask(&mut one, request()), ask(&mut two, request()));
    assert!(ends.0.1.is_ok() && ends.1.1.is_ok());
    assert_eq!(limit.snapshot().keys[0].in_flight, 0);
}

/// Scenario: a service whose `call` panics at once, behind each gate.
/// Expected: the panic MUST go up, and nothing MUST be held any more.
#[tokio::test(start_paused = true)]
async fn a_service_that_panics_in_its_call_holds_nothing() {
    fn service() -> impl Service<ToolRequest, Response = Plain<()>, Error = Failure> + Clone {
        service_fn(|_: ToolRequest| -> std::future::Ready<Result<Plain<()>, Failure>> { panic!("at once") })
    }
    let bulkhead = BulkheadLayer::default();
    let limit = TokenAwareRateLimitLayer::default();
    let mut guarded = bulkhead.layer(limit.layer(service()));
    for _ in 0..20 {
        let call = catch_unwind(AssertUnwindSafe(|| drop(guarded.call(tool_request()))));
        assert!(call.is_err());
    }
    assert_eq!(bulkhead.snapshot().states[0].in_flight, 0);
    assert_eq!(limit.snapshot().keys[0].in_flight, 0);
    // A probe whose call panics gives its place back.
    let config = CircuitBreakerConfig { jitter: 0.0, probes: 1, ..CircuitBreakerConfig::default() };
    let breaker = CircuitBreakerLayer::new(config).unwrap();
    let mut sick = breaker.layer(service_fn(async |_: ToolRequest| Err::<Plain<()>, _>(fail(Code::Server))));
    for _ in 0..5 {
        assert!(sick.ready().await.unwrap().call(tool_request()).await.is_err());
    }
    advance(secs(31)).await;
    let mut probing = breaker.layer(service());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(probing.call(tool_request())))).is_err());
    assert_eq!(breaker.handle().unwrap().snapshot().probes, 0);
}

// === configurations at the edge ===

/// Scenario: a limit whose callers may wait for ever, and three calls where one passes at a time.
/// Expected: the longest wait there is MUST be a wait, not a refusal.
#[tokio::test(start_paused = true)]
async fn who_may_wait_for_ever_waits() {
    let config = RateLimitConfig {
        tokens_per_minute: Some(60),
        acquire_timeout: Duration::MAX,
        slow_down_for: Duration::MAX,
        ..RateLimitConfig::from_headers()
    };
    let limit = TokenAwareRateLimitLayer::new(config).unwrap();
    let stage = Stage::new("a", &Log::default(), [Script::says("word")]);
    let start = Instant::now();
    for _ in 0..3 {
        let asked = request().attach(Cost { input: 60, output: Some(0) });
        let (_, end) = ask(&mut limit.layer(stage.clone()), asked).await;
        assert_eq!(end.map_err(|failure| failure.code()), Ok(()));
    }
    assert!(start.elapsed() >= secs(100));
}

/// Scenario: every duration of a breaker as long as can be, with chance and without, and rests that grow without end.
/// Expected: a valid configuration MUST never panic, whatever opens, and it MUST open.
#[tokio::test(start_paused = true)]
async fn a_breaker_of_endless_durations_opens() {
    for jitter in [0.0, 1e-300, 0.2, 1.0] {
        let config = CircuitBreakerConfig {
            rest: Duration::MAX,
            max_rest: Duration::MAX,
            failures_within: Duration::MAX,
            window: Duration::MAX,
            forgive: Duration::MAX,
            quota_rest: Duration::MAX,
            max_stated: Duration::MAX,
            lease: Duration::MAX,
            ramp: Some(Duration::MAX),
            growth: f64::MAX,
            jitter,
            seed: Some(1),
            ..CircuitBreakerConfig::default()
        };
        let breaker = CircuitBreakerLayer::new(config).unwrap();
        let failing = fail(Code::Server).with_retry_after(Some(Duration::MAX));
        let mut service = breaker.layer(service_fn(move |_: ToolRequest| {
            std::future::ready(Err::<Plain<()>, _>(failing.clone()))
        }));
        for _ in 0..5 {
            assert!(service.ready().await.unwrap().call(tool_request()).await.is_err());
        }
        let snapshot = breaker.handle().unwrap().snapshot();
        assert_eq!(snapshot.state, Circuit::Open, "{jitter}");
    }
}

/// Scenario: a provider that asks to slow down, and shares of a rate so small that no number holds what they come to.
/// Expected: nothing MUST panic, the next call MUST be refused or wait, and after the slow time all MUST be as before.
#[tokio::test(start_paused = true)]
async fn a_rate_slowed_down_to_nearly_nothing_comes_back() {
    for share in [f64::MIN_POSITIVE, 1e-300, 1e-18, 1e-9] {
        let config = RateLimitConfig {
            tokens_per_minute: Some(600),
            requests_per_day: Some(1_000),
            slow_down_share: share,
            ..RateLimitConfig::from_headers()
        };
        let limit = TokenAwareRateLimitLayer::new(config).unwrap();
        let slower = Failure::new(Code::RateLimited, "slow_down: too fast");
        let down = Stage::new("a", &Log::default(), [Script::head([Act::Fail(slower)]), Script::says("word")]);
        let mut service = limit.layer(down);
        let asked = |input| request().attach(Cost { input, output: Some(0) });
        assert!(ask(&mut service, asked(600)).await.1.is_err());
        for _ in 0..3 {
            let _ = ask(&mut service, asked(600)).await;
        }
        advance(secs(24 * 60 * 60)).await;
        assert!(ask(&mut service, asked(600)).await.1.is_ok(), "{share}");
    }
}

/// Scenario: a deferred job that fails once, in a line that is to wait for ever before it tries again; and one that was
/// told to come back in more time than there is.
/// Expected: neither MUST be tried again at once.
#[tokio::test(start_paused = true)]
async fn a_job_that_may_wait_for_ever_is_not_tried_at_once() {
    for (again, stated) in [(Duration::MAX, None), (secs(1), Some(Duration::MAX))] {
        let queue = MemoryQueue::new(DeferConfig { again, tries: 100, ..DeferConfig::default() }).unwrap();
        let log = Log::default();
        let failure = fail(Code::Server).with_retry_after(stated);
        let worker = tokio::spawn(queue.worker(Stage::new("a", &log, [Script::head([Act::Fail(failure)])])));
        let ticket = queue.defer(request(), None).await.unwrap();
        tokio::time::sleep(secs(3_600)).await;
        assert_eq!(log.calls().len(), 1, "{again:?}, {stated:?}");
        assert!(matches!(queue.ask(&ticket.id, None), JobStatus::Pending(_)));
        worker.abort();
    }
}

/// Scenario: a failure that says to come back in more seconds than there are, at a ladder with words at its end.
/// Expected: the words MUST come.
#[tokio::test(start_paused = true)]
async fn words_are_found_for_a_wait_without_end() {
    let failure = fail(Code::Overloaded).with_retry_after(Some(Duration::MAX));
    let stage = Stage::new("a", &Log::default(), [Script::head([Act::Fail(failure)])]);
    let reply = DegradationLayer::default().layer(stage).oneshot(request()).await.unwrap();
    let completion = reply.collect().await.unwrap();
    assert_eq!(completion.degradation().level, Level::Failed);
}
