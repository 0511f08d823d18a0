//! Attacks on gates: sinks and services that panic, configurations at the edge of arithmetic, keys without end, and
//! ledgers pushed out of their range.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use support::{Act, Log, Script, Stage, ask, facts, fail, request};
use tokio::time::{Instant, advance, timeout};
use tower::{Layer, Service, ServiceExt, service_fn};
use watertight::chat::{
    Completion, Cost, Dimension, Event, Head, Limits, Message, Reply, Request, Role, Stop, ToolCall,
    ToolRequest, Usage,
};
use watertight::event::{Circuit, Fact, Facts};
use watertight::failure::{Code, Failure};
use watertight::key::{Key, KeyBy};
use watertight::layers::bulkhead::{Budget, BudgetConfig, BulkheadConfig};
use watertight::layers::circuit_breaker::{CircuitBreakerConfig, SlowConfig};
use watertight::layers::degradation::{DeferConfig, DeferQueue, JobStatus, MemoryQueue};
use watertight::layers::rate_limit::{AdaptiveConfig, LimitProfile, RateLimitConfig};
use watertight::layers::{BulkheadLayer, CircuitBreakerLayer, DegradationLayer, TokenAwareRateLimitLayer};
use watertight::observe::Plain;
use watertight::store::{
    Ahead, Answer, Costs, Ledger, Level, Memory, MemoryLedger, Quota, Recalibrated, Short, Store,
};

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
        let config = RateLimitConfig {
            max_concurrency: Some(1),
            tokens_per_minute: Some(60),
            ..RateLimitConfig::default()
        };
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
        let down =
            Stage::new("a", &Log::default(), [Script::head([Act::Fail(slower)]), Script::says("word")]);
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
    assert_eq!(completion.degradation().level, watertight::chat::Level::Failed);
}

// === keys without end ===

/// Keys that none of those before has: as many as fill every lock of a small map several times over.
fn keys(from: &'static str) -> impl Iterator<Item = Request> {
    (0..1_000).map(move |n| request().attach(Key::new(format!("{from}-{n}"))))
}

/// Scenario: circuits by key with room for few. They open, some are tried and the trial is dropped, and then nobody
/// ever calls those keys again; a day later others come.
/// Expected: the new keys MUST be taken in; and while the circuits are fresh, none MUST be forgotten.
#[tokio::test(start_paused = true)]
async fn circuits_that_nobody_calls_again_make_room() {
    for tried in [false, true] {
        let config = CircuitBreakerConfig {
            key: KeyBy::Attached,
            max_keys: 64,
            failures: Some(1),
            jitter: 0.0,
            ..CircuitBreakerConfig::default()
        };
        let (facts, told) = facts();
        let breaker = CircuitBreakerLayer::new(config).unwrap().facts(&facts);
        let mut down = breaker.layer(Stage::new("a", &Log::default(), [Script::fails(Code::Server)]));
        let mut hang = breaker.layer(Stage::new("a", &Log::default(), [Script::head([Act::Hang])]));
        let mut up = breaker.layer(Stage::new("a", &Log::default(), [Script::says("word")]));
        for key in keys("old") {
            let _ = ask(&mut down, key).await;
        }
        if tried {
            advance(secs(31)).await;
            for key in keys("old") {
                let _ = hang.ready().await.unwrap().call(key).now_or_never();
            }
        }
        told.lock().unwrap().clear();
        let mut refused = 0;
        for key in keys("soon") {
            refused += usize::from(ask(&mut up, key).await.1.is_err());
        }
        assert_eq!(refused, 1_000, "all of them are sick");
        assert_eq!(told.lock().unwrap().iter().filter(|fact| *fact == "refused").count(), 1_000);
        for key in keys("new").take(100) {
            // What succeeded lately is not forgotten either.
            advance(secs(24 * 60 * 60)).await;
            let (_, end) = ask(&mut up, key).await;
            assert_eq!(end.map_err(|failure| failure.message().to_owned()), Ok(()), "tried: {tried}");
        }
    }
}

/// Scenario: limits by key with room for few, whose provider tells each key a limit that is none of ours; those keys are
/// never called again, and a day later others come.
/// Expected: the new keys MUST be taken in; within the minute the told limits MUST not be forgotten.
#[tokio::test(start_paused = true)]
async fn told_limits_of_keys_that_nobody_calls_again_make_room() {
    let config = RateLimitConfig { key: KeyBy::Attached, max_keys: 64, ..RateLimitConfig::default() };
    let limit = TokenAwareRateLimitLayer::new(config).unwrap();
    let mut service = limit.layer(service_fn(async |_: Request| {
        let mut head = Head::of("a");
        let requests = head.limits.entry(Dimension::Requests);
        (requests.limit, requests.remaining) = (Some(60), Some(59));
        let end = Completion::new(Message::text(Role::Assistant, "word"), Stop::End, None);
        let end = Ok(Event::Completed(Box::new(end)));
        Ok::<_, Failure>(Reply::new(head, stream::iter([end])))
    }));
    let mut answered = async |from| {
        let mut answered = 0;
        for key in keys(from) {
            answered += usize::from(ask(&mut service, key).await.1.is_ok());
        }
        answered
    };
    assert_eq!(answered("old").await, 64);
    advance(secs(30)).await;
    assert_eq!(answered("soon").await, 0);
    advance(secs(24 * 60 * 60)).await;
    assert_eq!(answered("new").await, 64);
}

// === ledgers out of their range ===

fn ledger(quotas: &[Quota]) -> impl Ledger + use<> {
    Memory::default().open("key", quotas)
}

fn reserve(ledger: &impl Ledger, costs: &Costs, now: Instant) -> Result<(), Short> {
    match ledger.reserve(costs, now) {
        Answer::Now(answer) => answer,
        Answer::Later(_) => unreachable!("it is in memory"),
    }
}

const MANY: Costs = Costs { requests: u32::MAX, input: u32::MAX, output: u32::MAX, tokens: u32::MAX };
const NONE: Costs = Costs { requests: 0, input: 0, output: 0, tokens: 0 };
const ONE: Costs = Costs { requests: 1, input: 1, output: 1, tokens: 1 };

/// Scenario: debts and refunds of the largest figures there are, thousands of times, on the slowest quotas.
/// Expected: nothing MUST panic or turn into its opposite: debts refuse, refunds let in no more than a full bucket.
#[tokio::test(start_paused = true)]
async fn no_heap_of_debts_or_refunds_turns_a_ledger_over() {
    let day = [Quota::new(Dimension::TokensPerDay, 1), Quota::new(Dimension::RequestsPerDay, 1)];
    let (owing, spoilt) = (ledger(&day), ledger(&day));
    let now = Instant::now();
    for _ in 0..5_000 {
        owing.settle(&NONE, &MANY, || now);
        spoilt.settle(&MANY, &NONE, || now);
    }
    assert!(matches!(reserve(&owing, &ONE, now), Err(Short::Until(until)) if until > now + secs(86_400)));
    assert_eq!(owing.levels(now)[0].remaining, 0);
    assert_eq!(reserve(&spoilt, &ONE, now), Ok(()));
    assert!(matches!(reserve(&spoilt, &ONE, now), Err(Short::Until(_))));
}

fn told(limit: Option<u64>, remaining: u64, reset: Option<Duration>) -> Limits {
    let mut limits = Limits::default();
    let tokens = limits.entry(Dimension::Tokens);
    (tokens.limit, tokens.remaining, tokens.reset) = (limit, Some(remaining), reset);
    limits
}

/// Scenario: a header that says nothing is left for centuries, where we have no quota of our own, and where we have.
/// Expected: it MUST be believed for no more than a day.
#[tokio::test(start_paused = true)]
async fn no_reset_stops_a_key_for_longer_than_a_day() {
    for quotas in [vec![], vec![Quota::new(Dimension::Tokens, 60)]] {
        for reset in [Duration::MAX, secs(999_999_999), secs(10 * 86_400)] {
            let ledger = ledger(&quotas);
            let now = Instant::now();
            ledger.calibrate(&told(Some(100), 0, Some(reset)), 0.0, now);
            assert!(reserve(&ledger, &ONE, now).is_err());
            assert_eq!(reserve(&ledger, &ONE, now + secs(86_400)), Ok(()), "{reset:?}, {quotas:?}");
        }
    }
}

/// Scenario: a limit of zero, told by a service of the user's own.
/// Expected: that dimension's figures MUST be left out.
#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_says_nothing() {
    for quotas in [vec![], vec![Quota::new(Dimension::Tokens, 60).guessed()]] {
        let (ledger, now) = (ledger(&quotas), Instant::now());
        assert!(ledger.calibrate(&told(Some(0), 0, Some(secs(60))), 0.0, now).is_empty());
        assert_eq!(reserve(&ledger, &ONE, now), Ok(()));
    }
}

/// Scenario: a call takes a thousand tokens of a dimension of which nothing is known; then ten are told to be left; then
/// the call gives its thousand back. Another takes six of the ten and gives them back.
/// Expected: what was never taken from the ten MUST not be given to them; the six MUST.
#[tokio::test(start_paused = true)]
async fn what_was_taken_before_a_figure_is_not_given_back_to_it() {
    let (ledger, now) = (ledger(&[]), Instant::now());
    let cost = |tokens| Costs { requests: 1, input: tokens, output: 0, tokens };
    reserve(&ledger, &cost(1_000), now).unwrap();
    ledger.calibrate(&told(Some(10_000), 10, Some(secs(60))), 0.0, now);
    ledger.settle(&cost(1_000), &NONE, || now);
    let left = || ledger.levels(now)[0].remaining;
    assert_eq!(left(), 10);
    reserve(&ledger, &cost(6), now).unwrap();
    assert_eq!(left(), 4);
    ledger.settle(&cost(6), &NONE, || now);
    assert_eq!(left(), 10);
}

// === budgets ===

/// Scenario: a call puts the whole of a window aside and hangs. A window later another uses three windows' worth. Only
/// then is the first dropped, unused.
/// Expected: what the first window had left MUST not pay for what was used after it.
#[tokio::test(start_paused = true)]
async fn a_window_that_is_long_over_pays_no_later_debt() {
    let config = BudgetConfig { tokens: 100, ..BudgetConfig::default() };
    let (mut budget, start) = (Budget::default(), Instant::now());
    let first = budget.reserve(&config, 90, start).unwrap();
    budget.reserve(&config, 300, start + secs(61)).unwrap();
    let debt = |budget: &mut Budget, at| {
        let state = budget.state(&config, start + secs(at));
        state.used + state.reserved
    };
    assert_eq!(debt(&mut budget, 122), 200);
    budget.settle(first, 0, || start + secs(122));
    assert_eq!(debt(&mut budget, 122), 200);
    // The debt of its own window is paid back, however late.
    let mut budget = Budget::default();
    let dear = budget.reserve(&config, 300, start).unwrap();
    assert_eq!(debt(&mut budget, 61), 200);
    budget.settle(dear, 50, || start + secs(61));
    assert_eq!(debt(&mut budget, 61), 0);
}

// === lines ===

/// Scenario: a task that has used up what the runtime lets it do at once joins the line first; one that is fresh joins
/// it second.
/// Expected: the first MUST be let in first.
#[tokio::test(start_paused = true)]
async fn the_line_is_in_the_order_of_calls_whatever_the_runtime_lets_a_task_do() {
    let config = RateLimitConfig { max_concurrency: Some(1), ..RateLimitConfig::from_headers() };
    let limit = TokenAwareRateLimitLayer::new(config).unwrap();
    let log = Log::default();
    let stage =
        |name| Stage::new(name, &log, [Script::body([Act::Wait(1_000), Act::Text("word"), Act::Done])]);
    let mut held = limit.layer(stage("held"));
    let held = tokio::spawn(async move { ask(&mut held, request()).await.1 });
    tokio::task::yield_now().await;
    let mut waits = limit.layer(stage("waits"));
    let waits = tokio::spawn(async move { ask(&mut waits, request()).await.1 });
    tokio::task::yield_now().await;
    let (mut first, mut second) = (limit.layer(stage("first")), limit.layer(stage("second")));
    let first = tokio::spawn(async move {
        let service = first.ready().await.unwrap();
        // Whatever it may do in one go is done.
        std::future::poll_fn(|cx| {
            while tokio::task::coop::has_budget_remaining() {
                let spent = std::pin::pin!(tokio::task::coop::consume_budget()).as_mut().poll_unpin(cx);
                if spent.is_pending() {
                    break;
                }
            }
            std::task::Poll::Ready(())
        })
        .await;
        let call = service.call(request());
        support::read(call.await.unwrap()).await.1
    });
    let second = tokio::spawn(async move { ask(&mut second, request()).await.1 });
    for task in [held, waits, first, second] {
        timeout(secs(60), task).await.unwrap().unwrap().unwrap();
    }
    assert_eq!(log.calls(), ["held", "waits", "first", "second"]);
}

/// What happens once, in the middle of the next reservation.
type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Ledgers in memory, with a hook.
#[derive(Clone, Default)]
struct Hooked(Hook);

struct HookedLedger(MemoryLedger, Hook);

impl Store for Hooked {
    type Ledger = HookedLedger;

    fn open(&self, key: &str, quotas: &[Quota]) -> HookedLedger {
        HookedLedger(Memory::default().open(key, quotas), Arc::clone(&self.0))
    }
}

impl Ledger for HookedLedger {
    fn reserve(&self, costs: &Costs, now: Instant) -> Answer<Result<(), Short>> {
        let hook = self.1.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        self.0.reserve(costs, now)
    }

    fn promise(&self, costs: &Costs, ahead: &Ahead, now: Instant) -> Result<Instant, Short> {
        self.0.promise(costs, ahead, now)
    }

    fn settle(&self, reserved: &Costs, used: &Costs, clock: impl FnOnce() -> Instant) {
        self.0.settle(reserved, used, clock);
    }

    fn calibrate(&self, limits: &Limits, headroom: f64, now: Instant) -> Vec<Recalibrated> {
        self.0.calibrate(limits, headroom, now)
    }

    fn freeze(&self, until: Instant, now: Instant) -> bool {
        self.0.freeze(until, now)
    }

    fn slow_down(&self, share: f64, until: Instant, now: Instant) -> bool {
        self.0.slow_down(share, until, now)
    }

    fn used(&self, now: Instant) -> f64 {
        self.0.used(now)
    }

    fn capacity(&self, dimension: Dimension) -> Option<u64> {
        self.0.capacity(dimension)
    }

    fn levels(&self, now: Instant) -> Vec<Level> {
        self.0.levels(now)
    }

    fn frozen_until(&self, now: Instant) -> Option<Instant> {
        self.0.frozen_until(now)
    }

    fn is_as_new(&self, now: Instant) -> bool {
        self.0.is_as_new(now)
    }
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooked")
    }
}

impl std::fmt::Debug for HookedLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Scenario: a dear call holds the one slot for the moment in which it learns that its tokens are not there; just then a
/// cheap one comes, finds no slot and goes to the head of the line. The dear one is refused.
/// Expected: the cheap one MUST be let in at once, and not find out at the end of its wait that the slot was free.
#[tokio::test(start_paused = true)]
async fn a_slot_held_for_a_moment_is_not_missed_by_the_line() {
    let store = Hooked::default();
    let config = RateLimitConfig {
        max_concurrency: Some(1),
        tokens_per_minute: Some(60),
        ..RateLimitConfig::from_headers()
    };
    let limit = TokenAwareRateLimitLayer::with_store(store.clone(), config).unwrap();
    let layer = limit.clone();
    let asks = |input| {
        let service = service_fn(async |_: Request| Ok::<_, Failure>(Plain(())));
        let mut service = layer.layer(service);
        let asked = request().attach(Cost { input, output: Some(0) });
        let mut call = Box::pin(service.call(asked));
        let first = call.as_mut().now_or_never();
        (call, first)
    };
    assert!(asks(30).1.is_some());
    let waiting = Arc::new(Mutex::new(None));
    let (kept, cheap) = (Arc::clone(&waiting), limit.clone());
    *store.0.lock().unwrap() = Some(Box::new(move || {
        let service = service_fn(async |_: Request| Ok::<_, Failure>(Plain(())));
        let mut service = cheap.layer(service);
        let mut call = Box::pin(service.call(request().attach(Cost { input: 1, output: Some(0) })));
        assert!(call.as_mut().now_or_never().is_none(), "it finds no slot");
        *kept.lock().unwrap() = Some(call);
    }));
    // Sixty are back in half a minute, and nobody waits as long.
    assert!(asks(60).1.is_some_and(|answer| answer.is_err()));
    let call = waiting.lock().unwrap().take().unwrap();
    assert!(timeout(secs(1), call).await.unwrap().is_ok());
    assert_eq!(limit.snapshot().keys[0].in_flight, 0);
}

/// Scenario: threads race for the one slot of a limit, thousands of times; each gives it back at once.
/// Expected: nobody MUST be forgotten in line: all MUST be answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_is_forgotten_in_line_while_threads_race() {
    let config = RateLimitConfig { max_concurrency: Some(1), ..RateLimitConfig::from_headers() };
    let limit = TokenAwareRateLimitLayer::new(config).unwrap();
    let racers = (0..4).map(|_| {
        let mut service = limit.layer(service_fn(async |_: ToolRequest| Ok::<_, Failure>(Plain(()))));
        tokio::spawn(async move {
            for _ in 0..20_000 {
                service.ready().await.unwrap().call(tool_request()).await?;
            }
            Ok::<_, Failure>(())
        })
    });
    for racer in racers.collect::<Vec<_>>() {
        racer.await.unwrap().unwrap();
    }
    let snapshot = limit.snapshot().keys.remove(0);
    assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0));
}

// === whatever is valid ===

/// Numbers that are drawn from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn of<T: Copy>(&mut self, any: &[T]) -> T {
        any[usize::try_from(self.roll(any.len() as u64)).unwrap()]
    }

    fn count(&mut self) -> u32 {
        self.of(&[1, 2, 7, 60, 1_000, 1_000_000, u32::MAX / 2, u32::MAX - 1, u32::MAX])
    }

    fn tokens(&mut self) -> u64 {
        self.of(&[0, 1, 59, 4_096, 1 << 31, u64::from(u32::MAX), 1 << 53, u64::MAX - 1, u64::MAX])
    }

    fn time(&mut self) -> Duration {
        let day = secs(86_400);
        self.of(&[
            Duration::from_nanos(1),
            Duration::from_millis(1),
            secs(1),
            secs(60),
            day,
            400 * day,
            Duration::MAX,
        ])
    }

    fn share(&mut self) -> f64 {
        self.of(&[f64::MIN_POSITIVE, 1e-9, 0.01, 0.5, 1.0])
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.roll(2) == 0).then(|| make(self))
    }

    fn key(&mut self) -> KeyBy {
        self.of(&[KeyBy::Nothing, KeyBy::Attached, KeyBy::Model, KeyBy::Caller])
    }

    fn limit(&mut self) -> RateLimitConfig {
        RateLimitConfig {
            profile: self.of(&[
                LimitProfile::Openai,
                LimitProfile::Anthropic,
                LimitProfile::Deepseek,
                LimitProfile::Headers,
            ]),
            requests_per_minute: self.maybe(Self::count),
            tokens_per_minute: self.maybe(Self::count),
            input_tokens_per_minute: self.maybe(Self::count),
            output_tokens_per_minute: self.maybe(Self::count),
            requests_per_day: self.maybe(Self::count),
            tokens_per_day: self.maybe(Self::count),
            max_concurrency: self.maybe(Self::count),
            burst: self.maybe(Self::share),
            initial_fill: self.maybe(Self::share),
            acquire_timeout: self.time(),
            max_waiting: self.of(&[1, 3, usize::MAX]),
            output_guess: self.count(),
            headroom: self.maybe(Self::share),
            slow_down_share: self.share(),
            slow_down_for: self.time(),
            adaptive: self.maybe(|dice| AdaptiveConfig {
                min: 1,
                backoff: dice.share(),
                late_first_output: dice.maybe(Self::time),
            }),
            key: self.key(),
            max_keys: self.of(&[1, 64, usize::MAX]),
            ..RateLimitConfig::default()
        }
    }

    fn bulkhead(&mut self) -> BulkheadConfig {
        BulkheadConfig {
            key: self.key(),
            max_concurrent: self.maybe(Self::count),
            max_waiting: self.of(&[0, 1, u32::MAX]),
            max_wait: self.time(),
            budget: self.maybe(|dice| BudgetConfig {
                tokens: dice.tokens(),
                window: dice.time(),
                warn_at: dice.maybe(Self::share),
                strict: dice.roll(2) == 0,
            }),
            max_keys: self.of(&[1, 64, usize::MAX]),
        }
    }

    fn breaker(&mut self) -> CircuitBreakerConfig {
        let rest = self.time();
        CircuitBreakerConfig {
            key: self.key(),
            max_keys: self.of(&[1, 64, usize::MAX]),
            failures: self.maybe(|dice| dice.of(&[1, 2, 10_000])),
            failures_within: self.time(),
            ratio: self.maybe(Self::share),
            min_calls: self.count(),
            window: self.time(),
            slow: self.maybe(|dice| SlowConfig { first_output: dice.time(), ratio: dice.share() }),
            count_rate_limited: self.roll(2) == 0,
            token_trip: self.maybe(|dice| dice.tokens().max(1)),
            waste_budget: self.maybe(|dice| dice.tokens().max(1)),
            anomaly: self.maybe(|dice| dice.of(&[1.0, 10.0, f64::MAX])),
            cache_lost: self.roll(2) == 0,
            rest,
            growth: self.of(&[1.0, 2.0, 1e300, f64::MAX]),
            max_rest: rest.max(self.time()),
            forgive: self.time(),
            jitter: self.of(&[0.0, f64::MIN_POSITIVE, 0.2, 1.0]),
            quota_rest: self.time(),
            max_stated: self.time(),
            probes: self.of(&[1, 2, 10_000]),
            successes: self.count(),
            lease: self.time(),
            ramp: self.maybe(Self::time),
            seed: Some(self.roll(9)),
            ..CircuitBreakerConfig::default()
        }
    }

    fn limits(&mut self) -> Limits {
        let mut limits = Limits::default();
        for dimension in
            [Dimension::Requests, Dimension::Tokens, Dimension::InputTokens, Dimension::TokensPerDay]
        {
            if self.roll(3) == 0 {
                let window = limits.entry(dimension);
                window.limit = self.maybe(Self::tokens);
                window.remaining = self.maybe(Self::tokens);
                window.reset = self.maybe(Self::time);
            }
        }
        limits
    }

    fn failure(&mut self) -> Failure {
        let code = self.of(&[Code::RateLimited, Code::QuotaExhausted, Code::Server, Code::InvalidRequest]);
        let words = self.of(&["slow_down", "scripted"]);
        Failure::new(code, words).with_retry_after(self.maybe(Self::time)).with_limits(self.limits())
    }

    /// What one call meets: its stream, and where it stops.
    fn reply(&mut self) -> Result<(Head, Vec<Result<Event, Failure>>), Failure> {
        if self.roll(3) == 0 {
            return Err(self.failure());
        }
        let mut head = Head::of("a");
        head.limits = self.limits();
        let mut events: Vec<_> = (0..self.roll(3)).map(|_| Ok(Event::text(0, "word"))).collect();
        match self.roll(3) {
            0 => {}
            1 => events.push(Err(self.failure())),
            _ => {
                let [input, output, cached_read, cached_write] = [(); 4].map(|()| self.tokens());
                let usage =
                    self.maybe(|_| Usage { input, output, cached_read, cached_write, ..Usage::default() });
                let message = Message::text(Role::Assistant, "word");
                events.push(Ok(Event::Completed(Box::new(Completion::new(message, Stop::End, usage)))));
            }
        }
        Ok((head, events))
    }
}

/// Plays one seed: layers of the wildest valid configurations, and forty calls through them, some held, some dropped.
/// Tells what is still held when all is dropped; a twin forgets its streams in place of dropping them.
async fn wild(seed: u64, forgets: bool) -> (u64, usize) {
    let mut dice = Dice(seed);
    let bulkhead = BulkheadLayer::new(dice.bulkhead());
    let (limit, breaker) =
        (TokenAwareRateLimitLayer::new(dice.limit()), CircuitBreakerLayer::new(dice.breaker()));
    let (Ok(bulkhead), Ok(limit), Ok(breaker)) = (bulkhead, limit, breaker) else { return (0, 0) };
    let (mut held, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        let reply = dice.reply();
        let service = service_fn(move |_: Request| {
            let reply = reply.clone();
            async move { reply.map(|(head, events)| Reply::new(head, stream::iter(events))) }
        });
        let mut service = bulkhead.layer(breaker.layer(limit.layer(service)));
        let mut asked = Request::new(dice.of(&["m", "n", ""])).streaming();
        if let Some(input) = dice.maybe(Dice::tokens) {
            asked = asked.attach(Cost { input, output: dice.maybe(Dice::tokens) });
        }
        let asked = asked.attach(Key::new(dice.of(&["a", "b", "c", ""])));
        let mut call = Box::pin(service.ready().await.unwrap().call(asked));
        match call.as_mut().now_or_never() {
            Some(Ok(mut reply)) => {
                for _ in 0..dice.roll(4) {
                    let _ = reply.next().now_or_never();
                }
                if dice.roll(3) == 0 {
                    streams.push(reply);
                }
            }
            Some(Err(_)) => {}
            None => held.push(call),
        }
        if dice.roll(4) == 0 && !held.is_empty() {
            let at = usize::try_from(dice.roll(held.len() as u64)).unwrap();
            let mut call = held.swap_remove(at);
            drop(call.as_mut().now_or_never());
        }
        advance(dice.time().min(secs(400 * 86_400))).await;
        let _ = (bulkhead.snapshot(), limit.snapshot(), breaker.snapshot(), limit.is_near_limit(0.85));
    }
    drop(held);
    if forgets {
        Box::leak(Box::new(streams));
    } else {
        drop(streams);
    }
    let slots: u64 =
        bulkhead.snapshot().states.iter().map(|state| u64::from(state.in_flight + state.waiting)).sum();
    let limited = limit.snapshot().keys;
    let limited: u64 = limited.iter().map(|key| u64::from(key.in_flight) + key.waiting as u64).sum();
    let probes = breaker.snapshot().circuits.iter().map(|circuit| circuit.probes).sum();
    (slots + limited, probes)
}

/// Scenario: hundreds of stacks of gates whose configurations are as wild as validation lets them be, under calls, usage
/// figures, headers and stated waits of any size, with years between calls.
/// Expected: nothing MUST panic, and when all calls are gone nothing MUST be held; a twin that forgets
/// a stream MUST be found out.
#[tokio::test(start_paused = true)]
async fn whatever_is_valid_neither_panics_nor_leaks() {
    let mut found = false;
    for seed in 0..400 {
        assert_eq!(wild(seed, false).await, (0, 0), "seed {seed}");
        found |= wild(seed, true).await != (0, 0);
    }
    assert!(found, "the twin");
}

/// What a ledger went through: reservations, debts, refunds, headers, freezes and slow times, drawn from a seed.
fn worn(seed: u64, start: Instant) -> (impl Ledger, Instant) {
    let mut dice = Dice(seed);
    let small = |n: u64| u32::try_from(n).unwrap();
    let quotas = [
        Quota::new(Dimension::Tokens, 1 + small(dice.roll(5_000))),
        Quota::new(Dimension::Requests, 1 + small(dice.roll(500))),
        Quota::new(Dimension::TokensPerDay, 1_000 + small(dice.roll(50_000))),
    ];
    let kept = usize::try_from(dice.roll(4)).unwrap();
    let (ledger, mut now) = (ledger(&quotas[..kept]), start);
    for _ in 0..3 + dice.roll(30) {
        let tokens = small(dice.roll(2_000));
        let costs = Costs { requests: 1, input: tokens, output: 0, tokens };
        let soon = now + Duration::from_millis(dice.roll(60_000));
        match dice.roll(9) {
            0..=2 => drop(reserve(&ledger, &costs, now)),
            3 => ledger.settle(&NONE, &costs, || now),
            4 => ledger.settle(&costs, &NONE, || now),
            5 => {
                let reset = dice.maybe(|dice| Duration::from_millis(dice.roll(90_000)));
                let limit = dice.maybe(|dice| 1 + dice.roll(4_000));
                let mut limits = told(limit, dice.roll(3_000), reset);
                limits.entry(Dimension::InputTokens).remaining = dice.maybe(|dice| dice.roll(3_000));
                drop(ledger.calibrate(&limits, 0.0, now));
            }
            6 => drop(ledger.freeze(soon, now)),
            7 => drop(ledger.slow_down(f64::from(small(1 + dice.roll(9))) / 10.0, soon, now)),
            _ => now += Duration::from_millis(dice.roll(20_000)),
        }
    }
    (ledger, now)
}

/// Whether a refusal that says `T` is one until then, to the nanosecond, and no longer.
fn is_exact(seed: u64, start: Instant, from: fn(Duration) -> Duration) -> bool {
    let tokens = 1 + u32::try_from(seed % 700).unwrap();
    let costs = Costs { requests: 1, input: tokens, output: 0, tokens };
    let after = |wait| {
        let (ledger, now) = worn(seed, start);
        (reserve(&ledger, &costs, now + wait), now)
    };
    let (Err(Short::Until(until)), now) = after(Duration::ZERO) else { return true };
    let wait = from(until.duration_since(now));
    let early = wait.saturating_sub(Duration::from_nanos(1));
    after(wait).0.is_ok() && (early.is_zero() || after(early).0.is_err())
}

/// Scenario: thousands of ledgers after whatever they went through, and a call that is refused until an instant; and the
/// same with instants that are a nanosecond off, either way.
/// Expected: the call MUST be granted then, and not before; the twins MUST be found out.
#[tokio::test(start_paused = true)]
async fn refused_until_is_until_whatever_came_before() {
    let start = Instant::now();
    for seed in 0..6_000 {
        assert!(is_exact(seed, start, |wait| wait), "seed {seed}");
    }
    assert!((0..100).any(|seed| !is_exact(seed, start, |wait| wait.saturating_sub(Duration::from_nanos(1)))));
    assert!((0..100).any(|seed| !is_exact(seed, start, |wait| wait + Duration::from_nanos(1))));
}
