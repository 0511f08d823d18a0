//! What a layer costs over a service that is always ready, and what a chunk costs on its way through.
//!
//! Run: `cargo bench --bench layers`. All rows are of one run: read their differences to `bare`, and the
//! allocations, which are exact. A call is a request cloned from a template, answered with a reply, and dropped.

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
use watertight::key::{Caller, KeyBy};
use watertight::layers::bulkhead::BulkheadConfig;
use watertight::layers::{BulkheadLayer, DualClockTimeoutLayer, FailoverLayer, ResetLayer, RetryLayer};
use watertight::observe::Plain;

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

/// Chunks of a drained stream.
const CHUNKS: usize = 10_000;

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

/// Answers with what it was given.
struct Once<T>(Option<T>);

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

/// Calls of one thread between two looks at the clock: so many that two threads are at it at the same time.
const ROUND: usize = 20_000;

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

/// The same without its facts: what they cost where nobody listens is the difference.
#[divan::bench(threads = [1, 2])]
fn round_bulkhead_untold(bencher: Bencher<'_, '_>) {
    let layer = BulkheadLayer::default().facts(&Facts::from_fn(|_| ()));
    rounds(bencher, &layer.layer(Nought), plain_request);
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

#[divan::bench]
fn call_reset(bencher: Bencher<'_, '_>) {
    calls(bencher, ResetLayer::default().layer(Always));
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
