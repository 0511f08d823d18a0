//! What each gate costs alone, admitted and refused, by key, and with two threads at it.
//!
//! Run: `cargo bench --bench gates`. A sample is so many calls that two threads run beside each other for most of it, on
//! a machine with two free cores; read the rate of items, and take a row with two threads beside the same with one.
//! Allocations are of a whole sample, and exact. The sink hears every fact, as an application's would.

use std::fmt::Debug;
use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use tower::{Layer, Service};
use watertight::chat::{Cost, Request};
use watertight::event::Facts;
use watertight::failure::{Code, Failure};
use watertight::key::{Caller, KeyBy};
use watertight::layers::bulkhead::BulkheadConfig;
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::rate_limit::{Mode, RateLimitConfig};
use watertight::layers::{BulkheadLayer, CircuitBreakerLayer, TokenAwareRateLimitLayer};
use watertight::observe::Plain;

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

/// Calls of a sample: some milliseconds, long beside the start of two threads.
const CALLS: u32 = 50_000;

/// Keys beside the hot one.
const MANY: usize = 1_000_000;

/// Nothing opens, fills up or is given up while it is measured.
const LONG: Duration = Duration::from_secs(60 * 60);

const GATES: [Which; 3] = [Which::Bulkhead, Which::CircuitBreaker, Which::RateLimit];

fn main() {
    divan::main();
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Bulkhead,
    CircuitBreaker,
    RateLimit,
}

/// What happens in a row, and before it.
#[derive(Clone, Copy)]
struct Row {
    key: KeyBy,
    /// Whether calls are refused.
    refuses: bool,
    others: usize,
}

/// Answers at once, or never does, or fails.
#[derive(Clone, Copy)]
struct Value {
    fails: bool,
}

impl Service<Request> for Value {
    type Response = Plain<u64>;
    type Error = Failure;
    type Future = Ready<Result<Plain<u64>, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        black_box(request);
        ready(if self.fails { Err(Failure::new(Code::Server, "down")) } else { Ok(Plain(1)) })
    }
}

fn request(caller: &str) -> Request {
    let cost = Cost { input: 1, output: Some(1) };
    Request::new("model").user("hello").attach(Caller::new(caller)).attach(cost)
}

fn facts() -> Facts {
    Facts::from_fn(|fact| {
        black_box(fact);
    })
}

fn bulkhead(row: Row) -> BulkheadLayer {
    let max_concurrent = Some(if row.refuses { 1 } else { 1 << 20 });
    let config = BulkheadConfig {
        key: row.key,
        max_keys: 2 * MANY,
        max_concurrent,
        max_waiting: 0,
        ..BulkheadConfig::default()
    };
    BulkheadLayer::new(config).expect("it can work").facts(&facts())
}

fn breaker(row: Row) -> CircuitBreakerLayer {
    let (rest, max_rest, max_keys) = (LONG, LONG, 2 * MANY);
    let config =
        CircuitBreakerConfig { key: row.key, max_keys, rest, max_rest, ..CircuitBreakerConfig::default() };
    CircuitBreakerLayer::new(config).expect("it can work").facts(&facts())
}

fn limiter(row: Row) -> TokenAwareRateLimitLayer {
    let a_minute = Some(if row.refuses { 1 } else { u32::MAX });
    let config = RateLimitConfig {
        requests_per_minute: a_minute,
        tokens_per_minute: Some(u32::MAX),
        burst: Some(1.0),
        mode: Mode::Reject,
        key: row.key,
        max_keys: 2 * MANY,
        ..RateLimitConfig::default()
    };
    TokenAwareRateLimitLayer::new(config).expect("it can work").facts(&facts())
}

fn bench(bencher: Bencher<'_, '_>, which: Which, row: Row) {
    // Failures open the circuit, and change nothing for the other two.
    let service = Value { fails: row.refuses };
    match which {
        Which::Bulkhead => calls(bencher, bulkhead(row).layer(service), row),
        Which::CircuitBreaker => calls(bencher, breaker(row).layer(service), row),
        Which::RateLimit => calls(bencher, limiter(row).layer(service), row),
    }
}

fn calls<S>(bencher: Bencher<'_, '_>, mut service: S, row: Row)
where
    S: Service<Request, Error: Debug, Future: Send> + Clone + Send + Sync,
{
    let mut cx = Context::from_waker(Waker::noop());
    for other in 0..row.others {
        let call = pin!(service.call(request(&format!("user-{other}"))));
        assert!(call.poll(&mut cx).is_ready());
    }
    // One call that is never polled keeps its slot; the others use up the rest.
    let held = row.refuses.then(|| service.call(request("user-17")));
    for _ in 0..if row.refuses { 100 } else { 0 } {
        assert!(pin!(service.call(request("user-17"))).poll(&mut cx).is_ready());
    }
    // Each worker has a conversation of its own: to count its readers is no cost of a gate.
    let worker = || (service.clone(), request("user-17"));
    bencher.counter(ItemsCount::new(CALLS)).with_inputs(worker).bench_values(|(mut service, request)| {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..CALLS {
            assert!(service.poll_ready(&mut cx).is_ready());
            let call = pin!(service.call(request.clone()));
            assert!(
                black_box(call.poll(&mut cx)).map(|answer| answer.is_err() == row.refuses)
                    == Poll::Ready(true)
            );
        }
    });
    drop(held);
}

#[divan::bench(args = GATES, threads = [1, 2], sample_size = 1)]
fn admitted(bencher: Bencher<'_, '_>, which: Which) {
    bench(bencher, which, Row { key: KeyBy::Nothing, refuses: false, others: 0 });
}

#[divan::bench(args = GATES, threads = [1, 2], sample_size = 1)]
fn refused(bencher: Bencher<'_, '_>, which: Which) {
    bench(bencher, which, Row { key: KeyBy::Nothing, refuses: true, others: 0 });
}

#[divan::bench(args = GATES, threads = [1, 2], sample_size = 1)]
fn hot_key(bencher: Bencher<'_, '_>, which: Which) {
    bench(bencher, which, Row { key: KeyBy::Caller, refuses: false, others: 0 });
}

#[divan::bench(args = GATES, threads = [1, 2], sample_size = 1)]
fn hot_key_refused(bencher: Bencher<'_, '_>, which: Which) {
    bench(bencher, which, Row { key: KeyBy::Caller, refuses: true, others: 0 });
}

#[divan::bench(args = GATES, threads = [1, 2], sample_size = 1)]
fn hot_key_among_a_million(bencher: Bencher<'_, '_>, which: Which) {
    bench(bencher, which, Row { key: KeyBy::Caller, refuses: false, others: MANY });
}
