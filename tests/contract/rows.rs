//! The table: each layer as the laws see it.

use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::{FutureExt, Stream};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{BoxReply, Event, Reply, Request, Watchers};
use watertight::event::Facts;
use watertight::failure::{Code, Failure};
use watertight::key::KeyBy;
use watertight::layers::bulkhead::{BulkheadConfig, StateSnapshot};
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::degradation::DegradationConfig;
use watertight::layers::rate_limit::RateLimitConfig;
use watertight::layers::reset::ResetConfig;
use watertight::layers::retry::{Jitter, RetryBudgetConfig, RetryConfig};
use watertight::layers::timeout::Clocks;
use watertight::layers::{
    BulkheadLayer, CircuitBreakerLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, ResetLayer,
    RetryLayer, TokenAwareRateLimitLayer,
};

use crate::door::Door;
use crate::support::{Act, Script, fail, request};

/// A service whose type is not spelled.
pub type Svc = BoxCloneSyncService<Request, BoxReply, Failure>;

/// A layer, as the laws see it.
#[expect(clippy::struct_excessive_bools, reason = "columns of a table, and no state")]
pub struct Row {
    /// Puts the layer on a stage. Each time it is the same layer.
    pub wrap: Box<dyn Fn(Door) -> Svc + Send + Sync>,
    /// How many calls the layer counts as in flight, or in line.
    pub held: Box<dyn Fn() -> usize + Send + Sync>,
    /// Whether it counts them at all.
    pub counts: bool,
    /// Whether it is ready only when what it stands on is. A failover never is: another candidate may be.
    pub presses: bool,
    /// Whether another may answer in the place of what failed.
    pub replaces: bool,
    /// Whether it is broken when what it stands on is. Where others may answer, the call is told, and not whoever asks.
    pub breaks: bool,
}

/// Makes a row of a fresh layer that tells its facts to this sink.
pub type Make = fn(&Facts) -> Row;

/// Every layer.
pub const TABLE: [(&str, Make); 12] = [
    ("timeout", timeout),
    ("retry", retry),
    ("failover", failover),
    ("failover of two", failover_of_two),
    ("reset", reset),
    ("bulkhead", bulkhead),
    ("bulkhead by key", bulkhead_by_key),
    ("circuit breaker", breaker),
    ("circuit breaker, half-open", half_open_breaker),
    ("rate limit", limiter),
    ("degradation", degradation),
    ("degradation, out of rungs", bare_degradation),
];

/// A layer that remembers: so many calls of this kind teach it something, and then a call through a second service,
/// which would say these lines, reaches its stage so often.
pub struct Lesson {
    pub name: &'static str,
    pub make: Make,
    pub first: Script,
    pub calls: usize,
    pub second: Script,
    pub reaches: usize,
}

/// What the layers that remember are taught. Clocks and resets remember nothing from call to call.
pub fn lessons() -> Vec<Lesson> {
    let fails = || Script::fails(Code::Server);
    vec![
        // The reserve of the budget is spent, so that no failure is tried again.
        Lesson { name: "retry", make: retry, first: fails(), calls: 5, second: fails(), reaches: 1 },
        // The first candidate is moved off, so that nobody asks it.
        Lesson {
            name: "failover of two",
            make: failover_of_two,
            first: fails(),
            calls: 3,
            second: Script::says("x"),
            reaches: 0,
        },
        // Its slot is taken, and the second waits in line until it is refused.
        Lesson {
            name: "bulkhead",
            make: bulkhead,
            first: Script::says("x"),
            calls: 1,
            second: Script::says("x"),
            reaches: 0,
        },
        Lesson {
            name: "bulkhead by key",
            make: bulkhead_by_key,
            first: Script::says("x"),
            calls: 1,
            second: Script::says("x"),
            reaches: 0,
        },
        // It opens.
        Lesson {
            name: "circuit breaker",
            make: breaker,
            first: fails(),
            calls: 2,
            second: Script::says("x"),
            reaches: 0,
        },
        Lesson {
            name: "circuit breaker, half-open",
            make: half_open_breaker,
            first: Script::says("x"),
            calls: 1,
            second: Script::says("x"),
            reaches: 0,
        },
        // As with the bulkhead.
        Lesson {
            name: "rate limit",
            make: limiter,
            first: Script::says("x"),
            calls: 1,
            second: Script::says("x"),
            reaches: 0,
        },
    ]
}

/// What makes each layer tell facts.
pub fn stories() -> Vec<(&'static str, Make, Script)> {
    let fails = || Script::fails(Code::Server);
    vec![
        ("timeout", timeout, Script::head([Act::Hang])),
        ("retry", retry, fails()),
        ("failover of two", failover_of_two, fails()),
        ("reset", reset, Script::body([Act::Text("x"), Act::Fail(fail(Code::Transport))])),
        ("bulkhead", bulkhead, Script::says("x")),
        ("bulkhead by key", bulkhead_by_key, Script::says("x")),
        ("circuit breaker", breaker, fails()),
        ("circuit breaker, half-open", half_open_breaker, fails()),
        ("rate limit", limiter, Script::says("x")),
        ("degradation", degradation, fails()),
    ]
}

fn timeout(facts: &Facts) -> Row {
    let clocks = Clocks { first_output: Some(Duration::from_secs(5)), ..Clocks::default() };
    row(DualClockTimeoutLayer::new(clocks).unwrap().facts(facts))
}

fn retry(facts: &Facts) -> Row {
    let budget = RetryBudgetConfig { ratio: 0.001, reserve: 5, ..RetryBudgetConfig::default() };
    let config = RetryConfig {
        retries: 1,
        base: Duration::from_millis(20),
        jitter: Jitter::None,
        budget: Some(budget),
        ..RetryConfig::default()
    };
    row(RetryLayer::new(config).unwrap().facts(facts))
}

fn failover(facts: &Facts) -> Row {
    Row { presses: false, breaks: false, ..row(FailoverLayer::new([]).facts(facts)) }
}

/// Behind the stage stands another that always answers.
fn failover_of_two(facts: &Facts) -> Row {
    let other = Door::new([Script::says("y")]);
    Row { presses: false, replaces: true, breaks: false, ..row(FailoverLayer::new([other]).facts(facts)) }
}

fn reset(facts: &Facts) -> Row {
    let config = ResetConfig { resets: 1, delay: Duration::from_millis(20), ..ResetConfig::default() };
    row(ResetLayer::new(config).unwrap().facts(facts))
}

fn bulkhead(facts: &Facts) -> Row {
    walled(KeyBy::Nothing, facts)
}

fn bulkhead_by_key(facts: &Facts) -> Row {
    walled(KeyBy::Model, facts)
}

/// One slot, and a short line.
fn walled(key: KeyBy, facts: &Facts) -> Row {
    let config = BulkheadConfig {
        key,
        max_concurrent: Some(1),
        max_waiting: 2,
        max_wait: Duration::from_millis(100),
        ..BulkheadConfig::default()
    };
    let layer = BulkheadLayer::new(config).unwrap().facts(facts);
    let handle = layer.handle();
    let held = move || {
        let count = |state: &StateSnapshot| (state.in_flight + state.waiting) as usize;
        handle.snapshot().states.iter().map(count).sum()
    };
    Row { held: Box::new(held), counts: true, ..row(layer) }
}

/// It opens at the second failure.
fn breaker(facts: &Facts) -> Row {
    row(broken_at(2, facts))
}

/// It has opened, and its rest is over as soon as the clock moves.
fn half_open_breaker(facts: &Facts) -> Row {
    let layer = broken_at(1, facts);
    let mut service = layer.layer(Door::new([Script::fails(Code::Server)]));
    assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(service.call(request()).now_or_never().unwrap().is_err());
    let handle = layer.clone();
    let held = move || handle.snapshot().circuits.iter().map(|circuit| circuit.probes).sum();
    Row { held: Box::new(held), counts: true, ..row(layer) }
}

fn broken_at(failures: u32, facts: &Facts) -> CircuitBreakerLayer {
    let config = CircuitBreakerConfig {
        failures: Some(failures),
        rest: Duration::from_millis(1),
        max_rest: Duration::from_millis(1),
        jitter: 0.0,
        probes: 1,
        ramp: None,
        ..CircuitBreakerConfig::default()
    };
    CircuitBreakerLayer::new(config).unwrap().facts(facts)
}

/// One call at a time, and a short wait.
fn limiter(facts: &Facts) -> Row {
    let config = RateLimitConfig {
        requests_per_minute: Some(6_000),
        tokens_per_minute: Some(6_000_000),
        max_concurrency: Some(1),
        acquire_timeout: Duration::from_millis(100),
        ..RateLimitConfig::default()
    };
    let layer = TokenAwareRateLimitLayer::new(config).unwrap().facts(facts);
    let handle = layer.clone();
    let held = move || handle.snapshot().keys.iter().map(|key| key.in_flight as usize + key.waiting).sum();
    Row { held: Box::new(held), counts: true, ..row(layer) }
}

/// Where nothing helps it says so in words.
fn degradation(facts: &Facts) -> Row {
    Row { replaces: true, breaks: false, ..row(DegradationLayer::default().facts(facts)) }
}

fn bare_degradation(facts: &Facts) -> Row {
    let config = DegradationConfig { graceful: None, max_partial: None, ..DegradationConfig::default() };
    Row { breaks: false, ..row(DegradationLayer::new(config).unwrap().facts(facts)) }
}

/// A layer that counts no calls.
pub fn row<L, E, W>(layer: L) -> Row
where
    L: Layer<Door> + Send + Sync + 'static,
    L::Service: Service<Request, Response = Reply<E, W>, Error = Failure, Future: Send>,
    L::Service: Clone + Send + Sync + 'static,
    E: Stream<Item = Result<Event, Failure>> + Send + Unpin + 'static,
    W: Watchers + Send + Unpin + 'static,
{
    let wrap = move |door| BoxCloneSyncService::new(layer.layer(door).map_response(Reply::boxed));
    Row {
        wrap: Box::new(wrap),
        held: Box::new(|| 0),
        counts: false,
        presses: true,
        replaces: false,
        breaks: true,
    }
}
