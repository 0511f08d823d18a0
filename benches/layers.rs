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
use tower::{Layer, Service};
use watertight::chat::{End, Event, Head, Observer, Reply, Request, Watch};
use watertight::event::Facts;
use watertight::failure::Failure;
use watertight::gate::Gate;
use watertight::layers::rate_limit::{Mode, RateLimit, RateLimitConfig};
use watertight::layers::{
    DualClockTimeoutLayer, FailoverLayer, ResetLayer, RetryLayer, TokenAwareRateLimitLayer,
};

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
