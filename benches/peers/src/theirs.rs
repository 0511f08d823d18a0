//! What the peers bring: each set so that the work passes, as ours is.

use std::future::Ready;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use failsafe::CircuitBreaker;
use governor::{Quota, RateLimiter};
use tower::limit::{ConcurrencyLimit, RateLimit};
use tower::retry::budget::{Budget, TpsBudget};
use tower::retry::{Policy, Retry};
use tower::timeout::Timeout;
use tower::{Layer, Service};
use tower_resilience_bulkhead::BulkheadLayer;
use tower_resilience_circuitbreaker::{CircuitBreakerLayer, SlidingWindowType};
use tower_resilience_fallback::FallbackLayer;
use tower_resilience_ratelimiter::RateLimiterLayer;
use tower_resilience_retry::RetryLayer;
use tower_resilience_timelimiter::TimeLimiterLayer;
use watertight::chat::Request;

use crate::measure::Contender;

/// So many that no measurement uses them up.
const PLENTY: usize = 1 << 40;
const MINUTE: Duration = Duration::from_secs(60);

/// Three retries within a budget: what tower's own documentation shows.
#[derive(Clone)]
pub struct Budgeted {
    left: usize,
    budget: Arc<TpsBudget>,
}

impl Budgeted {
    pub fn new() -> Self {
        Self { left: 3, budget: Arc::new(TpsBudget::default()) }
    }
}

impl<T, E> Policy<Request, T, E> for Budgeted {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut Request, result: &mut Result<T, E>) -> Option<Ready<()>> {
        match result {
            Ok(_) => {
                self.budget.deposit();
                None
            }
            Err(_) if self.left > 0 && self.budget.withdraw() => {
                self.left -= 1;
                Some(std::future::ready(()))
            }
            Err(_) => None,
        }
    }

    fn clone_request(&mut self, request: &Request) -> Option<Request> {
        Some(request.clone())
    }
}

pub fn tower_timeout<S>(service: S) -> Timeout<S> {
    Timeout::new(service, MINUTE)
}

pub fn tower_retry<S>(service: S) -> Retry<Budgeted, S> {
    Retry::new(Budgeted::new(), service)
}

pub fn tower_concurrency<S>(service: S) -> ConcurrencyLimit<S> {
    ConcurrencyLimit::new(service, 1 << 20)
}

pub fn tower_rate<S>(service: S) -> RateLimit<S> {
    RateLimit::new(service, tower::limit::rate::Rate::new(1 << 60, MINUTE))
}

pub fn breaker<S>(
    service: S,
) -> impl Service<Request, Response = S::Response, Error: std::fmt::Debug + Send, Future: Send> + Clone + Send
where
    S: Service<Request, Response: Send, Error: std::fmt::Debug + Send, Future: Send> + Clone + Send + 'static,
{
    let config = CircuitBreakerLayer::builder().sliding_window_size(100).failure_rate_threshold(0.5);
    config.build().expect("it can work").layer(service)
}

/// Over a stretch of time, short enough that its records stay few.
pub fn timed_breaker<S>(service: S) -> impl Service<Request> + Clone + Send
where
    S: Service<Request, Response: Send, Error: Send, Future: Send> + Clone + Send + 'static,
{
    let config = CircuitBreakerLayer::builder()
        .sliding_window_type(SlidingWindowType::TimeBased)
        .sliding_window_duration(Duration::from_millis(1))
        .failure_rate_threshold(0.5);
    config.build().expect("it can work").layer(service)
}

/// After two failures.
pub fn open_breaker<S>(service: S) -> impl Service<Request> + Clone + Send
where
    S: Service<Request, Response: Send, Error: Send, Future: Send> + Clone + Send + 'static,
{
    let config = CircuitBreakerLayer::builder()
        .sliding_window_size(2)
        .failure_rate_threshold(0.5)
        .wait_duration_in_open(60 * MINUTE);
    config.build().expect("it can work").layer(service)
}

pub fn bulkhead<S>(
    most: usize,
    service: S,
) -> impl Service<Request, Response = S::Response, Error: std::fmt::Debug + Send, Future: Send> + Clone + Send
where
    S: Service<Request, Response: Send, Error: std::fmt::Debug + Send, Future: Send> + Clone + Send + 'static,
{
    let config = BulkheadLayer::builder().max_concurrent_calls(most).reject_when_full();
    config.build().expect("it can work").layer(service)
}

pub fn limiter<S>(
    most: usize,
    service: S,
) -> impl Service<Request, Response = S::Response, Error: std::fmt::Debug + Send, Future: Send> + Clone + Send
where
    S: Service<Request, Response: Send, Error: std::fmt::Debug + Send, Future: Send> + Clone + Send + 'static,
{
    let config = RateLimiterLayer::builder()
        .limit_for_period(most)
        .refresh_period(60 * MINUTE)
        .timeout_duration(Duration::ZERO);
    config.build().expect("it can work").layer(service)
}

pub fn time_limiter<S>(
    service: S,
) -> impl Service<Request, Response = S::Response, Error: std::fmt::Debug + Send, Future: Send> + Clone + Send
where
    S: Service<Request, Response: Send, Error: std::fmt::Debug + Send, Future: Send> + Clone + Send + 'static,
{
    TimeLimiterLayer::builder().timeout_duration(MINUTE).cancel_running_future(true).build().layer(service)
}

pub fn retry<S, T, E>(
    service: S,
) -> impl Service<Request, Response = T, Error = E, Future: Send> + Clone + Send
where
    S: Service<Request, Response = T, Error = E, Future: Send> + Clone + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    RetryLayer::<Request, T, E>::builder().max_attempts(4).build().layer(service)
}

pub fn fallback<S, T, E>(value: T, service: S) -> impl Service<Request, Response = T> + Clone + Send
where
    S: Service<Request, Response = T, Error = E, Future: Send> + Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    FallbackLayer::<Request, T, E>::value(value).layer(service)
}

/// Retry, breaker, limiter, bulkhead and clock: the order that keeps each of them of use.
pub fn stack_of_five<S>(
    service: S,
) -> impl Service<Request, Response = S::Response, Error: std::fmt::Debug> + Clone + Send
where
    S: Service<Request, Response: Send, Error: std::fmt::Debug + Send, Future: Send> + Clone + Send + 'static,
{
    retry(breaker(limiter(PLENTY, bulkhead(1 << 20, time_limiter(service)))))
}

/// Clock, retry, bulkhead and, since it cannot be cloned, the limiter around them all.
pub fn tower_stack_of_four<S>(service: S) -> impl Service<Request, Response = S::Response> + Send
where
    S: Service<Request, Response: Send, Error: Into<tower::BoxError> + Send, Future: Send>
        + Clone
        + Send
        + 'static,
{
    tower_rate(tower_timeout(tower_retry(tower_concurrency(service))))
}

/// So many that no measurement uses them up.
pub fn plenty() -> usize {
    PLENTY
}

/// Closed, and called directly, with nothing around it.
pub fn failsafe(name: &'static str) -> Contender {
    let breaker = failsafe::Config::new().build();
    Contender::direct(name, move || {
        let breaker = breaker.clone();
        move |calls| {
            for call in 0..calls {
                assert!(breaker.call(|| Ok::<_, ()>(black_box(call))).is_ok());
            }
        }
    })
}

/// Closed, and called directly, with nothing around it.
pub fn recloser(name: &'static str) -> Contender {
    let breaker = Arc::new(recloser::Recloser::custom().build());
    Contender::direct(name, move || {
        let breaker = Arc::clone(&breaker);
        move |calls| {
            for call in 0..calls {
                assert!(breaker.call(|| Ok::<_, ()>(black_box(call))).is_ok());
            }
        }
    })
}

/// Opened by one failure after the other.
pub fn open_failsafe(name: &'static str) -> Contender {
    let rest = failsafe::backoff::constant(60 * MINUTE);
    let policy = failsafe::failure_policy::consecutive_failures(1, rest);
    let breaker = failsafe::Config::new().failure_policy(policy).build();
    assert!(breaker.call(|| Err::<(), _>(())).is_err());
    Contender::direct(name, move || {
        let breaker = breaker.clone();
        move |calls| {
            for call in 0..calls {
                assert!(breaker.call(|| Ok::<_, ()>(black_box(call))).is_err());
            }
        }
    })
}

/// Opened by one failure after the other.
pub fn open_recloser(name: &'static str) -> Contender {
    let breaker = recloser::Recloser::custom().closed_len(2).open_wait(60 * MINUTE).build();
    let breaker = Arc::new(breaker);
    for _ in 0..10 {
        assert!(breaker.call(|| Err::<(), _>(())).is_err());
    }
    Contender::direct(name, move || {
        let breaker = Arc::clone(&breaker);
        move |calls| {
            for call in 0..calls {
                assert!(breaker.call(|| Ok::<_, ()>(black_box(call))).is_err());
            }
        }
    })
}

/// A direct limiter, checked with nothing around it; `passes` or is used up.
pub fn governor(name: &'static str, passes: bool) -> Contender {
    let (each, one) = (NonZeroU32::new(1_000_000_000).expect("not zero"), NonZeroU32::MIN);
    let quota = if passes { Quota::per_second(each) } else { Quota::per_hour(one) };
    let limiter = Arc::new(RateLimiter::direct(quota));
    _ = limiter.check();
    Contender::direct(name, move || {
        let limiter = Arc::clone(&limiter);
        move |checks| {
            for _ in 0..checks {
                assert_eq!(black_box(limiter.check()).is_ok(), passes);
            }
        }
    })
}
