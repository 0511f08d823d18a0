//! What a layer costs over a service that is always ready, and what a chunk costs on its way through.
//!
//! Run: `cargo bench --bench layers`. All rows are of one run: read their differences to `bare`, and the
//! allocations, which are exact. A call is a request cloned from a template, answered with a reply, and dropped.
//!
//! The times alone, a line for each row: `cargo bench --bench layers 2>/dev/null | grep '─ '`.

use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use divan::Bencher;
use divan::counter::ItemsCount;
use futures_util::Stream;
use tower::{Layer, Service};
use watertight::chat::{End, Event, Head, Observer, Reply, Request, Watch, Watching};
use watertight::config::StackConfig;
use watertight::event::Facts;
use watertight::failure::Failure;
use watertight::layers::rate_limit::{Mode, RateLimitConfig};
use watertight::layers::timeout::Timed;
use watertight::layers::{
    DegradationLayer, DualClockTimeoutLayer, FailoverLayer, ResetLayer, RetryLayer, TokenAwareRateLimitLayer,
};
use watertight::stack::Layers;

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

/// Calls of a sample: so many that reading the clock does not show.
const CALLS: u32 = 1000;

/// Chunks of a drained stream: few enough to stay in the nearest caches, so that no row pays for memory.
const CHUNKS: usize = 1000;

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
            // Looked at where it lies, as callers do: to move it here would be a cost of the bench's own.
            let polled = Pin::new(&mut reply).poll_next(&mut cx);
            left -= usize::from(black_box(&polled).is_ready());
        }
    });
}

/// So many requests a minute, and tokens without end; nobody waits.
fn quota(requests: u32) -> RateLimitConfig {
    RateLimitConfig {
        requests_per_minute: Some(requests),
        tokens_per_minute: Some(u32::MAX),
        burst: Some(1.0),
        mode: Mode::Reject,
        ..RateLimitConfig::default()
    }
}

fn limits(requests: u32) -> TokenAwareRateLimitLayer {
    TokenAwareRateLimitLayer::new(quota(requests))
        .expect("it can work")
        .facts(&Facts::from_fn(|fact| _ = black_box(fact)))
}

fn clocked(reply: Reply<Chunks>) -> Reply<Timed<Watching<Chunks>>> {
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

#[divan::bench(sample_size = CALLS)]
fn call_bare(bencher: Bencher<'_, '_>) {
    calls(bencher, Always);
}

#[divan::bench(sample_size = CALLS)]
fn call_timeout(bencher: Bencher<'_, '_>) {
    calls(bencher, DualClockTimeoutLayer::default().layer(Always));
}

#[divan::bench(sample_size = CALLS)]
fn call_retry_committed(bencher: Bencher<'_, '_>) {
    calls(bencher, RetryLayer::default().layer(Always));
}

/// The bare service and the commit point, which retry and failover share: an event is made, held and dropped, and
/// the second allocation is that event's. The two rows below it are to be read against it.
#[divan::bench(sample_size = CALLS)]
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

#[divan::bench(sample_size = CALLS)]
fn call_failover_committed(bencher: Bencher<'_, '_>) {
    calls(bencher, FailoverLayer::new([Always, Always]).layer(Always));
}

/// Two dimensions and a bound of calls in flight, none of which is ever short.
#[divan::bench(sample_size = CALLS)]
fn call_rate_limit(bencher: Bencher<'_, '_>) {
    calls(bencher, limits(u32::MAX).layer(Always));
}

/// All calls but one a minute are refused, with the instant.
#[divan::bench(sample_size = CALLS)]
fn call_rate_limit_refused(bencher: Bencher<'_, '_>) {
    calls(bencher, limits(1).layer(Always));
}

/// The end of each call is told; who listens does nothing with it.
#[divan::bench(sample_size = CALLS)]
fn call_degradation(bencher: Bencher<'_, '_>) {
    let facts = Facts::from_fn(|fact| _ = black_box(fact));
    calls(bencher, DegradationLayer::default().facts(&facts).layer(Always));
}

#[divan::bench(sample_size = CALLS)]
fn call_reset(bencher: Bencher<'_, '_>) {
    calls(bencher, ResetLayer::default().layer(Always));
}

#[divan::bench(sample_size = CALLS)]
fn call_stack_committed(bencher: Bencher<'_, '_>) {
    let candidate = || RetryLayer::default().layer(DualClockTimeoutLayer::default().layer(Always));
    calls(bencher, FailoverLayer::new([candidate(), candidate()]).layer(candidate()));
}

/// All layers of a stack as a file without a word has them, but for budget and quota, which so many calls would spend.
#[divan::bench(sample_size = CALLS)]
fn call_whole_stack(bencher: Bencher<'_, '_>) {
    let mut config = StackConfig { rate_limit: quota(u32::MAX), ..StackConfig::default() };
    config.bulkhead.budget = None;
    let facts = Facts::from_fn(|fact| _ = black_box(fact));
    let layers = Layers::new(config, &facts).expect("it can work");
    calls(bencher, layers.over([("east", Always), ("west", Always)]).expect("it can work"));
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
    drain(bencher, |reply| clocked(reply).follow(Watch::new(Nothing)));
}

/// As beneath a stack of gates: each follows the reply with an observer of its own, beside the stream.
#[divan::bench]
fn chunk_timeout_and_four_observed(bencher: Bencher<'_, '_>) {
    let watch = || Watch::new(Nothing);
    drain(bencher, |reply| clocked(reply).follow(watch()).follow(watch()).follow(watch()).follow(watch()));
}
