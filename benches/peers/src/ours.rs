//! Our layers, as they are measured: each with a sink that hears every fact, as an application's would be.

use std::hint::black_box;
use std::time::Duration;

use futures_core::Stream;
use tower::{Layer, Service};
use watertight::chat::{Event, Reply, Request};
use watertight::event::Facts;
use watertight::failure::Failure;
use watertight::key::KeyBy;
use watertight::layers::bulkhead::BulkheadConfig;
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::rate_limit::{Mode, RateLimitConfig};
use watertight::layers::{
    BulkheadLayer, CircuitBreakerLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, RetryLayer,
    TokenAwareRateLimitLayer,
};

use crate::keys::MANY;

/// No key is given up for another while it is measured.
const MAX_KEYS: usize = 2 * MANY;

const LONG: Duration = Duration::from_secs(60 * 60);

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
pub fn limit(key_by: KeyBy, a_minute: u32, mode: Mode) -> TokenAwareRateLimitLayer {
    let config = RateLimitConfig {
        requests_per_minute: Some(a_minute),
        tokens_per_minute: Some(a_minute),
        burst: Some(1.0),
        mode,
        key_by,
        max_keys: MAX_KEYS,
        ..RateLimitConfig::default()
    };
    TokenAwareRateLimitLayer::new(config).expect("it can work").facts(&facts())
}

/// Ladder, bulkhead by caller, failover of three, and in each retry, breaker, limiter and clocks.
pub fn stack_of_seven<S, E>(
    service: S,
) -> impl Service<Request, Response: Stream<Item = Result<Event, Failure>> + Unpin, Error = Failure> + Clone + Send
where
    S: Service<Request, Response = Reply<E>, Error = Failure, Future: Send> + Clone + Send + Sync + 'static,
    E: Stream<Item = Result<Event, Failure>> + Unpin + Send + 'static,
{
    let facts = facts();
    let candidate = || {
        let clocks = DualClockTimeoutLayer::default().facts(&facts).layer(service.clone());
        let limited = limit(KeyBy::Nothing, u32::MAX, Mode::Wait).layer(clocks);
        RetryLayer::default().facts(&facts).layer(breaker(KeyBy::Nothing).layer(limited))
    };
    let failover = FailoverLayer::new([candidate(), candidate()]).facts(&facts).layer(candidate());
    let walled = wall(KeyBy::Caller, 1 << 20, 32).layer(failover);
    DegradationLayer::default().facts(&facts).layer(walled)
}
