//! What a layer costs over a service that is always ready, and what a chunk costs on its way through.
//!
//! Run: `cargo bench --bench layers`. All rows are of one run: read their differences to `bare`, and the
//! allocations, which are exact. A call is a request cloned from a template, answered with a reply, and dropped.

use std::cell::RefCell;
use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use divan::Bencher;
use divan::counter::ItemsCount;
use futures_util::Stream;
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service};
use watertight::chat::{End, Event, Head, Observer, Reply, Request, Watch};
use watertight::event::Facts;
use watertight::failure::Failure;
use watertight::gate::{Admission, Admit, Gate};
use watertight::key::{Caller, KeyBy};
use watertight::layers::bulkhead::BulkheadConfig;
use watertight::layers::circuit_breaker::{CircuitBreakerConfig, CircuitBreakerLayer};
use watertight::layers::degradation::DegradationConfig;
use watertight::layers::rate_limit::{Mode, RateLimit, RateLimitConfig};
use watertight::layers::{
    BulkheadLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, ResetLayer, RetryLayer,
    TokenAwareRateLimitLayer,
};
use watertight::observe::Plain;

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

/// Chunks of a drained stream.
const CHUNKS: usize = 10_000;

/// Calls of a thread in one sample, so that threads meet.
const BATCH: usize = 10_000;

const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

fn main() {
    // Clocks look at the time, and let others have their turn, after so many chunks without a wait.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    divan::main();
}

/// Answers at once. The only allocation of a call is the reply's own.
#[derive(Clone, Copy)]
struct Always;

/// Outputs made beforehand, so that only their way costs, and their drop.
struct Chunks(std::vec::IntoIter<Event>);

impl Service<Request> for Always {
    type Response = Reply<Chunks>;
    type Error = Failure;
    type Future = Ready<Result<Reply<Chunks>, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        black_box(request);
        ready(Ok(Reply::new(Head::default(), Chunks(Vec::new().into_iter()))))
    }
}

impl Stream for Chunks {
    type Item = Result<Event, Failure>;

    /// Without chunks it is a stream that began, so that a commit is at once.
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.0.next();
        Poll::Ready(Some(Ok(next.unwrap_or_else(|| Event::text(0, "x")))))
    }
}

/// An observer that counts nothing.
struct Nothing;

impl Observer for Nothing {
    fn settle(self, how: End<'_>) {
        black_box(how);
    }
}

/// Answers at once, with all there is.
#[derive(Clone, Copy)]
struct Whole;

impl Service<Request> for Whole {
    type Response = Plain<()>;
    type Error = Failure;
    type Future = Ready<Result<Plain<()>, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        black_box(request);
        ready(Ok(Plain(())))
    }
}

/// Admits every call.
#[derive(Clone, Copy)]
struct Open;

impl<R> Admission<R> for Open {
    type Permit = Nothing;

    fn admit(&self, _: &R) -> Admit<Nothing> {
        Admit::Granted(Nothing)
    }
}

fn breaker(config: CircuitBreakerConfig) -> CircuitBreakerLayer {
    CircuitBreakerLayer::new(config).expect("it can work")
}

/// Calls from each thread, on a clone of the service; requests are each thread's own.
fn shared_calls<S>(bencher: Bencher<'_, '_>, service: S)
where
    S: Service<Request> + Clone + Sync,
{
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| (service.clone(), Request::new("model").user("hello")))
        .bench_values(|(mut service, request)| {
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..BATCH {
                let call = pin!(service.call(request.clone()));
                assert!(black_box(call.poll(&mut cx)).is_ready());
            }
        });
}

fn calls<S>(bencher: Bencher<'_, '_>, mut service: S)
where
    S: Service<Request>,
{
    let request = Request::new("model").user("hello").streaming();
    let mut cx = Context::from_waker(Waker::noop());
    bencher.bench_local(|| {
        assert!(service.poll_ready(&mut cx).is_ready());
        let call = pin!(service.call(request.clone()));
        assert!(black_box(call.poll(&mut cx)).is_ready());
    });
}

/// Drains a reply of [`CHUNKS`] outputs.
fn drain<T>(bencher: Bencher<'_, '_>, wrap: impl Fn(Reply<Chunks>) -> T)
where
    T: Stream<Item = Result<Event, Failure>> + Unpin,
{
    let chunk = || Event::text(0, "x");
    let reply =
        || Reply::new(Head::default(), Chunks((0..CHUNKS).map(|_| chunk()).collect::<Vec<_>>().into_iter()));
    bencher.counter(ItemsCount::new(CHUNKS)).with_inputs(|| wrap(reply())).bench_local_values(|mut reply| {
        let mut cx = Context::from_waker(Waker::noop());
        let mut left = CHUNKS;
        while left > 0 {
            left -= usize::from(black_box(Pin::new(&mut reply).poll_next(&mut cx)).is_ready());
        }
    });
}

fn clocked(reply: Reply<Chunks>) -> impl Stream<Item = Result<Event, Failure>> + Unpin {
    let mut service = DualClockTimeoutLayer::default().layer(Once(Some(reply)));
    let call = pin!(service.call(Request::new("model").streaming()));
    match call.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(reply)) => reply,
        _ => unreachable!("it answers at once"),
    }
}

fn degrading(
    reply: Reply<Chunks>,
    config: DegradationConfig,
) -> impl Stream<Item = Result<Event, Failure>> + Unpin {
    let mut service = DegradationLayer::new(config).expect("it works").layer(Once(Some(reply)));
    let call = pin!(service.call(Request::new("model").streaming()));
    match call.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(reply)) => reply,
        _ => unreachable!("it answers at once"),
    }
}

/// Answers with what it was given.
struct Once<T>(Option<T>);

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl<T> Service<Request> for Once<T> {
    type Response = T;
    type Error = Failure;
    type Future = Ready<Result<T, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request) -> Self::Future {
        ready(Ok(self.0.take().expect("it is asked once")))
    }
}

/// Answers at once with nothing, and allocates nothing: for what many threads do at once.
#[derive(Clone, Copy)]
struct Nought;

impl Service<Request> for Nought {
    type Response = Plain<()>;
    type Error = Failure;
    type Future = Ready<Result<Plain<()>, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        black_box(request);
        ready(Ok(Plain(())))
    }
}

/// Calls of one thread between two looks at the clock.
const ROUND: usize = 1_000;

/// Calls from as many threads as the row says, each with a clone of the service and a request of its own. Read the time
/// of an item: a call of one of them.
fn rounds<S>(bencher: Bencher<'_, '_>, service: &S, request: impl Fn() -> Request + Sync)
where
    S: Service<Request> + Clone + Sync,
{
    bencher.counter(ItemsCount::new(ROUND)).bench(|| {
        let (mut service, request) = (service.clone(), request());
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..ROUND {
            assert!(service.poll_ready(&mut cx).is_ready());
            let call = pin!(service.call(request.clone()));
            assert!(black_box(call.poll(&mut cx)).is_ready());
        }
    });
}

fn plain_request() -> Request {
    Request::new("model").user("hello").streaming()
}

fn bulkhead(config: BulkheadConfig) -> BulkheadLayer {
    BulkheadLayer::new(config).expect("it can work")
}

/// A bulkhead keyed by caller that knows so many of them.
fn callers(known: usize) -> impl Service<Request> + Clone + Sync {
    let layer = bulkhead(BulkheadConfig { key: KeyBy::Caller, ..BulkheadConfig::default() });
    let mut service = layer.layer(Nought);
    let mut cx = Context::from_waker(Waker::noop());
    for caller in 0..known {
        let request = plain_request().attach(Caller::new(format!("user-{caller}")));
        assert!(pin!(service.call(request)).poll(&mut cx).is_ready());
    }
    service
}

#[divan::bench(threads = [1, 2])]
fn round_bare(bencher: Bencher<'_, '_>) {
    rounds(bencher, &Nought, plain_request);
}

#[divan::bench(threads = [1, 2])]
fn round_bulkhead(bencher: Bencher<'_, '_>) {
    rounds(bencher, &BulkheadLayer::default().layer(Nought), plain_request);
}

#[divan::bench(threads = [1, 2])]
fn round_tower_concurrency_limit(bencher: Bencher<'_, '_>) {
    rounds(bencher, &ConcurrencyLimitLayer::new(8).layer(Nought), plain_request);
}

#[divan::bench(threads = [1, 2])]
fn round_bulkhead_with_budget(bencher: Bencher<'_, '_>) {
    let config = BulkheadConfig { key: KeyBy::Nothing, ..BulkheadConfig::users() };
    rounds(bencher, &bulkhead(config).layer(Nought), plain_request);
}

#[divan::bench(threads = [1, 2], args = [1, 1_000_000])]
fn round_bulkhead_one_hot_key_of(bencher: Bencher<'_, '_>, known: usize) {
    rounds(bencher, &callers(known), || plain_request().attach(Caller::new("user-0")));
}

/// Every slot is taken, and nobody may wait.
#[divan::bench(threads = [1, 2])]
fn round_bulkhead_refusal(bencher: Bencher<'_, '_>) {
    let config = BulkheadConfig { max_concurrent: Some(1), max_waiting: 0, ..BulkheadConfig::default() };
    let layer = bulkhead(config);
    let mut held = layer.layer(Always);
    let mut call = pin!(held.call(plain_request()));
    let reply = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(reply, Poll::Ready(Ok(_))), "the slot is free, and kept with the reply");
    rounds(bencher, &layer.layer(Nought), plain_request);
    drop(reply);
}

#[divan::bench]
fn call_bulkhead(bencher: Bencher<'_, '_>) {
    calls(bencher, BulkheadLayer::default().layer(Always));
}

#[divan::bench]
fn call_bare(bencher: Bencher<'_, '_>) {
    calls(bencher, Always);
}

#[divan::bench]
fn call_timeout(bencher: Bencher<'_, '_>) {
    calls(bencher, DualClockTimeoutLayer::default().layer(Always));
}

/// A reply that is dropped before its end: the breaker neither reads the clock nor counts.
#[divan::bench]
fn call_breaker_abandoned(bencher: Bencher<'_, '_>) {
    calls(bencher, CircuitBreakerLayer::default().layer(Always));
}

/// The bare service whose response is whole when it comes. The rows below it are to be read against it.
#[divan::bench]
fn whole_bare(bencher: Bencher<'_, '_>) {
    calls(bencher, Whole);
}

/// A gate whose permit is nothing.
#[divan::bench]
fn whole_gate(bencher: Bencher<'_, '_>) {
    calls(bencher, Gate::new(Whole, Open));
}

#[divan::bench]
fn whole_breaker(bencher: Bencher<'_, '_>) {
    calls(bencher, CircuitBreakerLayer::default().layer(Whole));
}

/// Without a share to keep there is no clock to read.
#[divan::bench]
fn whole_breaker_by_row_alone(bencher: Bencher<'_, '_>) {
    calls(
        bencher,
        breaker(CircuitBreakerConfig { ratio: None, ..CircuitBreakerConfig::default() }).layer(Whole),
    );
}

#[divan::bench]
fn whole_breaker_keyed(bencher: Bencher<'_, '_>) {
    calls(
        bencher,
        breaker(CircuitBreakerConfig { key: KeyBy::Model, ..CircuitBreakerConfig::default() }).layer(Whole),
    );
}

#[divan::bench]
fn whole_breaker_refuses(bencher: Bencher<'_, '_>) {
    let layer = CircuitBreakerLayer::default();
    layer.handle().expect("the one circuit").force_open();
    calls(bencher, layer.layer(Whole));
}

#[divan::bench]
fn whole_breaker_rests(bencher: Bencher<'_, '_>) {
    let config = CircuitBreakerConfig { failures: Some(1), rest: DAY, max_rest: DAY, ..Default::default() };
    let layer = breaker(config);
    let mut cx = Context::from_waker(Waker::noop());
    let failing = tower::service_fn(|_: Request| {
        ready(Err::<Plain<()>, _>(Failure::new(watertight::failure::Code::Server, "broke")))
    });
    let mut failing = layer.layer(failing);
    assert!(pin!(failing.call(Request::new("model"))).poll(&mut cx).is_ready());
    calls(bencher, layer.layer(Whole));
}

#[divan::bench(threads = 2)]
fn threads_bare(bencher: Bencher<'_, '_>) {
    shared_calls(bencher, Whole);
}

#[divan::bench(threads = 2)]
fn threads_breaker(bencher: Bencher<'_, '_>) {
    shared_calls(bencher, CircuitBreakerLayer::default().layer(Whole));
}

#[divan::bench]
fn call_retry_committed(bencher: Bencher<'_, '_>) {
    calls(bencher, RetryLayer::default().layer(Always));
}

/// The bare service and the commit point, which retry and failover share: an event is made, held and dropped, and
/// the second allocation is that event's. The two rows below it are to be read against it.
#[divan::bench]
fn call_committed(bencher: Bencher<'_, '_>) {
    let request = Request::new("model").user("hello").streaming();
    let mut cx = Context::from_waker(Waker::noop());
    bencher.bench_local(|| {
        let call = pin!(Always.call(request.clone()));
        let Poll::Ready(Ok(mut reply)) = call.poll(&mut cx) else { unreachable!("it answers at once") };
        assert!(reply.poll_commit(&mut cx).is_ready());
        black_box(reply);
    });
}

#[divan::bench]
fn call_failover_committed(bencher: Bencher<'_, '_>) {
    calls(bencher, FailoverLayer::new([Always, Always]).layer(Always));
}

/// With the rungs that are there by default; it commits, too.
#[divan::bench]
fn call_degradation_committed(bencher: Bencher<'_, '_>) {
    calls(bencher, DegradationLayer::default().layer(Always));
}

#[divan::bench]
fn call_reset(bencher: Bencher<'_, '_>) {
    calls(bencher, ResetLayer::default().layer(Always));
}

fn limits(tokens: u32) -> TokenAwareRateLimitLayer {
    let config = RateLimitConfig {
        requests_per_minute: Some(u32::MAX),
        tokens_per_minute: Some(tokens),
        mode: Mode::Reject,
        ..RateLimitConfig::from_headers()
    };
    TokenAwareRateLimitLayer::new(config).expect("it can work").facts(&Facts::from_fn(|_| {}))
}

/// Two dimensions: reserved, one clock read, and settled when the reply is dropped.
#[divan::bench]
fn call_rate_limit(bencher: Bencher<'_, '_>) {
    calls(bencher, limits(u32::MAX).layer(Always));
}

/// The same quota asked by many threads; each has a service and a request of its own.
#[divan::bench(threads = [1, 2])]
fn call_rate_limit_shared(bencher: Bencher<'_, '_>) {
    thread_local! {
        static OWN: RefCell<Option<(Gate<Always, RateLimit>, Request)>> = const { RefCell::new(None) };
    }
    let service = limits(u32::MAX).layer(Always);
    bencher.bench(|| {
        OWN.with_borrow_mut(|own| {
            let request = || Request::new("model").user("hello").streaming();
            let (service, request) = own.get_or_insert_with(|| (service.clone(), request()));
            let call = pin!(service.call(request.clone()));
            assert!(black_box(call.poll(&mut Context::from_waker(Waker::noop()))).is_ready());
        });
    });
}

/// A refusal by a quota that is spent: the failure is one allocation, and its words another.
#[divan::bench]
fn refuse_rate_limit(bencher: Bencher<'_, '_>) {
    let layer = limits(60);
    let mut cx = Context::from_waker(Waker::noop());
    let request = Request::new("model").user("hello").max_output_tokens(40).streaming();
    let mut service = layer.layer(Always);
    let held = pin!(service.call(request.clone())).poll(&mut cx);
    bencher.bench_local(|| {
        let call = pin!(service.call(request.clone()));
        assert!(matches!(black_box(call.poll(&mut cx)), Poll::Ready(Err(_))));
    });
    drop(held);
}

#[divan::bench]
fn call_stack_committed(bencher: Bencher<'_, '_>) {
    let candidate = || RetryLayer::default().layer(DualClockTimeoutLayer::default().layer(Always));
    calls(bencher, FailoverLayer::new([candidate(), candidate()]).layer(candidate()));
}

#[divan::bench]
fn chunk_bare(bencher: Bencher<'_, '_>) {
    drain(bencher, |reply| reply);
}

#[divan::bench]
fn chunk_observed(bencher: Bencher<'_, '_>) {
    drain(bencher, |reply| reply.follow(Watch::new(Nothing)));
}

/// What came is gathered, so that it is there when the stream breaks.
#[divan::bench]
fn chunk_degradation(bencher: Bencher<'_, '_>) {
    drain(bencher, |reply| degrading(reply, DegradationConfig::default()));
}

#[divan::bench]
fn chunk_degradation_without_partial(bencher: Bencher<'_, '_>) {
    let config = || DegradationConfig { max_partial: None, ..DegradationConfig::default() };
    drain(bencher, |reply| degrading(reply, config()));
}

#[divan::bench]
fn chunk_rate_limit(bencher: Bencher<'_, '_>) {
    drain(bencher, |reply| {
        let mut service = limits(u32::MAX).layer(Once(Some(reply)));
        let call = pin!(service.call(Request::new("model").streaming()));
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(reply)) => reply,
            _ => unreachable!("it answers at once"),
        }
    });
}

#[divan::bench]
fn chunk_timeout(bencher: Bencher<'_, '_>) {
    drain(bencher, clocked);
}

#[divan::bench]
fn chunk_timeout_and_observed(bencher: Bencher<'_, '_>) {
    drain(bencher, |reply| {
        let mut service = DualClockTimeoutLayer::default().layer(Once(Some(reply)));
        let call = pin!(service.call(Request::new("model").streaming()));
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(reply)) => reply.follow(Watch::new(Nothing)),
            _ => unreachable!("it answers at once"),
        }
    });
}
