//! Our layers, as they are measured: each with a sink that hears every fact, as an application's would be.

use std::hint::black_box;
use std::time::Duration;

use futures_core::Stream;
use tower::{Layer, Service};
use watertight::chat::{Event, Reply, Request};
use watertight::event::Facts;
use watertight::failure::Failure;
use watertight::gate::Gate;
use watertight::key::KeyBy;
use watertight::layers::bulkhead::{Bulkhead, BulkheadConfig};
use watertight::layers::circuit_breaker::{CircuitBreaker, CircuitBreakerConfig};
use watertight::layers::degradation::Degrading;
use watertight::layers::failover::Failover;
use watertight::layers::rate_limit::{Mode, RateLimit, RateLimitConfig};
use watertight::layers::retry::Retry;
use watertight::layers::timeout::DualClockTimeout;
use watertight::layers::{
    BulkheadLayer, CircuitBreakerLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, RetryLayer,
    TokenAwareRateLimitLayer,
};

use crate::keys::MANY;
use crate::measure::Contender;
use crate::work::answers;

/// No key is given up for another while it is measured.
const MAX_KEYS: usize = 2 * MANY;

const LONG: Duration = Duration::from_secs(60 * 60);

/// What stands behind a failover.
type Candidate<S> = Retry<Gate<Gate<DualClockTimeout<S>, RateLimit>, CircuitBreaker>>;

/// All layers but the ladder.
pub type Six<S> = Gate<Failover<Candidate<S>>, Bulkhead>;

/// A stack: its name, the bytes of a call and of its answer, and how to measure it.
pub type Step = (&'static str, usize, usize, Contender);

/// A sink that hears every fact.
pub fn facts() -> Facts {
    Facts::from_fn(|fact| {
        black_box(fact);
    })
}

/// At most so many calls of each caller, or of all.
pub fn wall(key: KeyBy, max_concurrent: u32, max_waiting: u32) -> BulkheadLayer {
    let max_concurrent = Some(max_concurrent);
    let config =
        BulkheadConfig { key, max_concurrent, max_waiting, max_keys: MAX_KEYS, ..BulkheadConfig::default() };
    BulkheadLayer::new(config).expect("it can work").facts(&facts())
}

/// As it is by default, save that it does not close again while it is measured.
pub fn breaker(key: KeyBy) -> CircuitBreakerLayer {
    let config = CircuitBreakerConfig {
        key,
        max_keys: MAX_KEYS,
        rest: LONG,
        max_rest: LONG,
        ..CircuitBreakerConfig::default()
    };
    CircuitBreakerLayer::new(config).expect("it can work").facts(&facts())
}

/// So many requests and tokens a minute, with the whole of both at once.
pub fn limit(key: KeyBy, a_minute: u32, mode: Mode) -> TokenAwareRateLimitLayer {
    let config = RateLimitConfig {
        requests_per_minute: Some(a_minute),
        tokens_per_minute: Some(u32::MAX),
        burst: Some(1.0),
        mode,
        key,
        max_keys: MAX_KEYS,
        ..RateLimitConfig::default()
    };
    TokenAwareRateLimitLayer::new(config).expect("it can work").facts(&facts())
}

/// Bulkhead by caller, failover of three, and in each retry, breaker, limiter and clocks.
pub fn stack_of_six<S: Clone>(service: S) -> Six<S> {
    let facts = facts();
    let candidate = || {
        let clocks = DualClockTimeoutLayer::default().facts(&facts).layer(service.clone());
        let limited = limit(KeyBy::Nothing, u32::MAX, Mode::Wait).layer(clocks);
        RetryLayer::default().facts(&facts).layer(breaker(KeyBy::Nothing).layer(limited))
    };
    let failover = FailoverLayer::new([candidate(), candidate()]).facts(&facts).layer(candidate());
    wall(KeyBy::Caller, 1 << 20, 32).layer(failover)
}

/// The ladder above them.
pub fn stack_of_seven<S: Clone>(service: S) -> Degrading<Six<S>> {
    DegradationLayer::default().facts(&facts()).layer(stack_of_six(service))
}

/// The stack of seven, layer by layer: the bytes of a call and of its answer, and how to measure it.
pub fn steps<S, E>(service: S) -> Vec<Step>
where
    S: Service<Request, Response = Reply<E>, Error = Failure> + Clone + Send + Sync + 'static,
    E: Stream<Item = Result<Event, Failure>> + Unpin + Send + 'static,
{
    let facts = facts();
    let clocks = DualClockTimeoutLayer::default().facts(&facts).layer(service.clone());
    let limited = limit(KeyBy::Nothing, u32::MAX, Mode::Wait).layer(clocks.clone());
    let broken = breaker(KeyBy::Nothing).layer(limited.clone());
    let retried = RetryLayer::default().facts(&facts).layer(broken.clone());
    let others = [retried.clone(), retried.clone()];
    let failing = FailoverLayer::new(others).facts(&facts).layer(retried.clone());
    let walled = wall(KeyBy::Caller, 1 << 20, 32).layer(failing.clone());
    let all = DegradationLayer::default().facts(&facts).layer(walled.clone());
    vec![
        step("bare", service),
        step("ours: clocks", clocks),
        step("ours: and limiter", limited),
        step("ours: and breaker", broken),
        step("ours: and retry", retried),
        step("ours: and failover", failing),
        step("ours: and bulkhead by caller", walled),
        step("ours: and ladder", all),
    ]
}

fn step<S, T>(name: &'static str, service: S) -> Step
where
    S: Service<Request, Response = T> + Clone + Send + 'static,
    T: Stream<Item = Result<Event, Failure>> + Unpin,
{
    let contender = answers(name, move || service.clone());
    (name, size_of::<S::Future>(), size_of::<T>(), contender)
}
