//! Attacks: what the layers must withstand from configurations, providers and callers that mean them no good.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, Ready, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt;
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame};
use tokio::time::{Instant, sleep, timeout};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{Ask, Call, Completion, Event, Head, Message, Protocol, Reply, Request, Role, Stop};
use watertight::failure::{Code, Failure};
use watertight::layers::failover::FailoverConfig;
use watertight::layers::reset::ResetConfig;
use watertight::layers::retry::{Backoff, Jitter, RetryBudget, RetryBudgetConfig, RetryConfig, ShortenLayer};
use watertight::layers::timeout::{Clocks, Crawl};
use watertight::layers::{DualClockTimeoutLayer, FailoverLayer, ResetLayer, RetryLayer};
use watertight::provider::{Profile, Provider};
use watertight::testing::{BodyEnd, Chunk, Journal, Player, Script, ScriptedReply, Step, Wording};

type Events = Pin<Box<dyn Stream<Item = Result<Event, Failure>> + Send + Sync>>;
type Told = Result<Reply<Events>, Failure>;
type Next = Poll<Option<Result<Bytes, Infallible>>>;
type Play = dyn Fn(usize, &Request) -> Answer + Send + Sync;
type Answer = Pin<Box<dyn Future<Output = Told> + Send + Sync>>;

/// A service that demands to be used as the contract says: readied before each call, never asked again once it
/// failed. It is ready at the second poll.
struct Strict {
    polls: u32,
    play: Arc<Play>,
    calls: Arc<AtomicUsize>,
}

impl Strict {
    fn new(play: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        Self { polls: 0, play: Arc::new(play), calls: Arc::default() }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { polls: 0, play: Arc::clone(&self.play), calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request> for Strict {
    type Response = Reply<Events>;
    type Error = Failure;
    type Future = Answer;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.polls += 1;
        if self.polls > 1 {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, request: Request) -> Answer {
        assert!(std::mem::take(&mut self.polls) > 1, "called without being readied");
        (self.play)(self.calls.fetch_add(1, Ordering::Relaxed), &request)
    }
}

/// An answer: an item a poll, each after a poll that had to wait.
fn answer(events: impl IntoIterator<Item = Result<Event, Failure>>) -> Answer {
    let events: Vec<_> = events.into_iter().collect();
    Box::pin(async move {
        tokio::task::yield_now().await;
        let events = futures_util::stream::iter(events).then(|event| async {
            tokio::task::yield_now().await;
            event
        });
        Ok(Reply::new(Head::default(), Box::pin(events) as Events))
    })
}

fn refusal(failure: Failure) -> Answer {
    Box::pin(ready(Err(failure)))
}

fn failed(code: Code) -> Failure {
    Failure::new(code, "scripted")
}

fn done() -> Event {
    Event::Completed(Box::new(Completion::new(Message::text(Role::Assistant, "done"), Stop::End, None)))
}

fn started() -> Event {
    Event::Started { id: "1".into(), model: "m".into() }
}

fn ask() -> Request {
    Request::new("m").user("hello").streaming()
}

/// Runs on a thread of its own, so that what never comes back fails the test and does not hang it.
fn comes_back<F: Future>(paused: bool, make: impl FnOnce() -> F + Send + 'static) {
    let (told, hears) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(paused).build().expect("a runtime");
        runtime.block_on(make());
        told.send(()).expect("somebody waits");
    });
    hears.recv_timeout(Duration::from_secs(20)).expect("it comes back");
}

// === retry ===

/// Scenario: a proportional jitter on the longest wait there is, and with ratios that are none.
/// Expected: MUST saturate, never panic.
#[test]
fn a_jitter_saturates() {
    let mut rng = fastrand::Rng::with_seed(1);
    for ratio in [f64::MIN_POSITIVE, 0.1, 1.0, 7.0, -1.0, f64::NAN, f64::INFINITY] {
        for base in [Duration::from_nanos(1), Duration::from_secs(1), Duration::MAX] {
            let backoff = Backoff { base, cap: Duration::MAX, jitter: Jitter::Proportional(ratio) };
            for retry in [0, 1, 31, 32, u32::MAX] {
                let _ = backoff.delay(retry, Duration::MAX, &mut rng);
                let _ = backoff.delay_from(Duration::MAX, retry, &mut rng);
            }
        }
    }
}

/// Scenario: an outage under load; each of 200,000 calls fails and asks a budget that is spent.
/// Expected: the account MUST stay small: asking it costs the same at the end as at the beginning.
#[tokio::test(start_paused = true)]
async fn a_spent_budget_stays_cheap() {
    let config = RetryBudgetConfig { reserve: 0, ratio: 1e-9, ..RetryBudgetConfig::default() };
    let mut budget = RetryBudget::new(config, Instant::now());
    let (begun, step) = (Instant::now(), Duration::from_micros(50));
    for nth in 0..200_000 {
        let _ = budget.draw(1, begun + step * nth);
    }
    let size = format!("{budget:?}").len();
    assert!(size < 64 * 1024, "{size} bytes to tell of it");
}

/// Scenario: a retry whose wait is over, dropped while the service is not ready.
/// Expected: the budget MUST have its token back, since nothing was sent.
#[tokio::test(start_paused = true)]
async fn a_retry_dropped_before_it_is_ready_costs_nothing() {
    let inner = ConcurrencyLimit::new(Strict::new(|_, _| refusal(failed(Code::Server))), 1);
    let budget = RetryBudgetConfig { reserve: 1, ratio: 1e-9, window: Duration::from_secs(1_000) };
    let config = RetryConfig { budget: Some(budget), jitter: Jitter::None, ..RetryConfig::default() };
    let mut service = RetryLayer::new(config).expect("a layer").layer(inner.clone());
    for _ in 0..3 {
        let call = service.ready().await.expect("ready").call(ask());
        let mut hold = inner.clone();
        let mut call = pin!(call);
        assert!(timeout(Duration::from_millis(500), call.as_mut()).await.is_err(), "it waits");
        hold.ready().await.expect("the permit");
        assert!(timeout(Duration::from_secs(5), call.as_mut()).await.is_err(), "it was not refused a retry");
    }
}

// === clocks ===

/// Scenario: a crawl window of a nanosecond attached to the request, on the real clock and on a stopped one.
/// Expected: MUST come back from each poll. (A window of nothing is refused, and nothing is sent.)
#[test]
fn a_crawl_window_of_next_to_nothing_comes_back() {
    let window = Duration::from_nanos(1);
    for paused in [false, true] {
        comes_back(paused, move || async move {
            let stalled = |_: usize, _: &Request| -> Answer {
                let events = futures_util::stream::iter([Ok(Event::text(0, "a"))]);
                let events = events.chain(futures_util::stream::pending());
                Box::pin(ready(Ok(Reply::new(Head::default(), Box::pin(events) as Events))))
            };
            let clocks = Clocks {
                idle: Some(Duration::from_millis(300)),
                crawl: Some(Crawl { window, ..Crawl::default() }),
                ..Clocks::default()
            };
            let mut service = DualClockTimeoutLayer::default().layer(Strict::new(stalled));
            let reply = service.ready().await.expect("ready").call(ask().attach(clocks)).await;
            let failure = reply.expect("a reply").collect().await.expect_err("it stalls");
            assert_eq!(failure.code().as_str(), "TIMEOUT_IDLE");
        });
    }
}

/// Scenario: a stream that is never out of keep-alives, on a call with a deadline.
/// Expected: MUST end at the deadline, and other tasks MUST run meanwhile.
#[test]
fn a_flood_of_keep_alives_meets_the_deadline() {
    for retried in [false, true] {
        comes_back(false, move || async move {
            let flood = |_: usize, _: &Request| -> Answer {
                let events = futures_util::stream::repeat_with(|| Ok(Event::KeepAlive));
                Box::pin(ready(Ok(Reply::new(Head::default(), Box::pin(events) as Events))))
            };
            let timed = DualClockTimeoutLayer::default().layer(Strict::new(flood));
            let request = ask().within(Duration::from_millis(200));
            let failure = if retried {
                let service = RetryLayer::default().layer(timed);
                service.oneshot(request).await.expect_err("no output ever comes")
            } else {
                let reply = timed.oneshot(request).await.expect("a reply");
                reply.collect().await.expect_err("no output ever comes")
            };
            assert_eq!(failure.code(), Code::Deadline);
        });
    }
}

/// A body from a closure; polled after its end, it panics.
struct Wire<F>(Option<F>);

impl<F: FnMut(&mut Context<'_>) -> Next + Unpin> Body for Wire<F> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.0.as_mut().expect("polled after its end")(cx);
        if matches!(next, Poll::Ready(None)) {
            self.0 = None;
        }
        next.map(|next| next.map(|data| data.map(Frame::data)))
    }
}

/// A provider whose client answers with this status, kind and body.
fn over<B>(
    status: u16,
    kind: &'static str,
    body: impl Fn() -> B + Clone + Send + Sync + 'static,
) -> impl Service<
    Request,
    Response = Reply<
        impl Stream<Item = Result<Event, Failure>> + Unpin,
        impl watertight::observe::Watchers + Unpin,
    >,
    Error = Failure,
    Future: Send,
> + Clone
where
    B: Body<Data = Bytes, Error = Infallible> + Unpin + Send + 'static,
{
    let client = tower::service_fn(move |_: http::Request<Bytes>| {
        let mut response = Response::new(body());
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        response.headers_mut().insert("content-type", HeaderValue::from_static(kind));
        response.headers_mut().insert("retry-after", HeaderValue::from_static("7"));
        ready(Ok::<_, Infallible>(response))
    });
    Provider::over(client, profile()).expect("a provider")
}

fn profile() -> Profile {
    Profile::new("house", Protocol::OpenaiChat, "http://house.test/v1").with_key("k")
}

const WHOLE: &str = r#"{"id":"1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
const DELTA: &str = "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const STOP: &str =
    "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

/// These pieces, then the end.
fn pieces(pieces: &[&'static str]) -> Wire<impl FnMut(&mut Context<'_>) -> Next + Unpin + use<>> {
    let mut pieces: VecDeque<_> = pieces.iter().map(|piece| Bytes::from_static(piece.as_bytes())).collect();
    Wire(Some(move |_: &mut Context<'_>| Poll::Ready(pieces.pop_front().map(Ok))))
}

/// Scenario: bodies that panic when they are polled after their end, read as a whole and as streams with every end.
/// Expected: MUST never poll them again.
#[tokio::test(start_paused = true)]
async fn a_body_is_not_polled_after_its_end() {
    for (kind, parts) in [
        ("application/json", vec![WHOLE]),
        ("application/json", vec![]),
        ("text/event-stream", vec![DELTA, STOP]),
        ("text/event-stream", vec![DELTA, STOP, "data: [DONE]\n\n"]),
        ("text/event-stream", vec![DELTA, STOP, "data: [DONE]"]),
        ("text/event-stream", vec![DELTA]),
        ("text/event-stream", vec![]),
    ] {
        let parts = Arc::new(parts);
        let reply = over(200, kind, move || pieces(&parts)).oneshot(ask()).await.expect("a reply");
        let _ = reply.map(|event| event.map(drop)).collect::<Vec<_>>().await;
    }
}

/// Scenario: bodies of endless empty frames: a stream, a whole answer, an error; the call has a deadline.
/// Expected: other tasks MUST run meanwhile, and the call MUST end at its deadline.
#[test]
fn endless_empty_frames_leave_room_for_others() {
    for (status, kind) in [(200, "text/event-stream"), (200, "application/json"), (500, "text/plain")] {
        comes_back(false, move || async move {
            let empty = || Wire(Some(|_: &mut Context<'_>| Poll::Ready(Some(Ok(Bytes::new())))));
            let call = async {
                let reply = over(status, kind, empty).oneshot(ask()).await?;
                reply.collect().await
            };
            let call = timeout(Duration::from_millis(300), call).await;
            assert!(call.map_or(true, |reply| reply.is_err()));
        });
    }
}

/// Scenario: a 429 that states a wait, with a body that never ends. Expected: MUST be known by its status and its
/// stated wait before long, clocks or no clocks.
#[tokio::test(start_paused = true)]
async fn an_error_body_that_hangs_does_not_hide_the_status() {
    let body = || Wire(Some(|_: &mut Context<'_>| Poll::Pending));
    let call = over(429, "application/json", body).oneshot(ask());
    let failure =
        timeout(Duration::from_secs(60), call).await.expect("in time").map(drop).expect_err("a failure");
    assert_eq!(failure.code(), Code::RateLimited);
    assert_eq!(failure.retry_after(), Some(Duration::from_secs(7)));
}

/// Scenario: an error body that never ends and is never out of bytes. Expected: MUST be read up to a bound.
#[tokio::test(start_paused = true)]
async fn an_endless_error_body_is_read_up_to_a_bound() {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
    let body = move || {
        let (counter, chunk) = (Arc::clone(&counter), chunk.clone());
        Wire(Some(move |_: &mut Context<'_>| {
            counter.fetch_add(chunk.len(), Ordering::Relaxed);
            Poll::Ready(Some(Ok(chunk.clone())))
        }))
    };
    let failure = over(500, "text/plain", body).oneshot(ask()).await.map(drop).expect_err("a failure");
    assert_eq!(failure.code(), Code::Server);
    assert!(read.load(Ordering::Relaxed) <= 128 * 1024);
}

/// Scenario: an HTTP body that sends frames of no bytes for ever after its first. Expected: MUST be found idle.
#[tokio::test(start_paused = true)]
async fn empty_frames_are_no_output() {
    let inner = tower::service_fn(|_: http::Request<()>| {
        let (mut wait, mut first) = (Box::pin(sleep(Duration::from_secs(1))), true);
        let body = Wire(Some(move |cx: &mut Context<'_>| {
            if std::mem::take(&mut first) {
                return Poll::Ready(Some(Ok(Bytes::from_static(b"a"))));
            }
            std::task::ready!(wait.as_mut().poll(cx));
            wait = Box::pin(sleep(Duration::from_secs(1)));
            Poll::Ready(Some(Ok(Bytes::new())))
        }));
        ready(Ok::<_, Failure>(Response::new(body)))
    });
    let clocks = Clocks { idle: Some(Duration::from_secs(10)), ..Clocks::default() };
    let service = DualClockTimeoutLayer::new(clocks).expect("a layer").layer(inner);
    let mut body = service.oneshot(http::Request::new(())).await.expect("a response").into_body();
    let begun = Instant::now();
    let error = loop {
        match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.expect("it has no end") {
            Ok(_) => assert!(begun.elapsed() < Duration::from_secs(60), "it is never found idle"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("no further output"), "{error}");
}

/// Scenario: a reply that was read ahead to its first output below the clocks, then stalls.
/// Expected: MUST be found idle, not late.
#[tokio::test(start_paused = true)]
async fn what_was_read_ahead_below_the_clocks_counts_as_output() {
    let stalls = |_: usize, _: &Request| -> Answer {
        let events = futures_util::stream::iter([Ok(Event::text(0, "a"))]);
        let events = events.chain(futures_util::stream::pending());
        Box::pin(ready(Ok(Reply::new(Head::default(), Box::pin(events) as Events))))
    };
    let service = DualClockTimeoutLayer::default().layer(RetryLayer::default().layer(Strict::new(stalls)));
    let reply = service.oneshot(ask()).await.expect("a reply");
    let failure = reply.collect().await.expect_err("it stalls");
    assert_eq!(failure.code().as_str(), "TIMEOUT_IDLE");
}

// === reset ===

/// Scenario: reset above failover above retry; each stream dies after its only output, the last one ends well.
/// Expected: each death MUST be a reset, and the end MUST be a completion.
#[tokio::test(start_paused = true)]
async fn a_stream_that_dies_after_its_first_output_starts_over() {
    for outputs in 1..4 {
        let inner = Strict::new(move |nth, _| {
            let outputs = (0..outputs).map(|_| Ok(Event::text(0, "a")));
            let end = if nth < 2 { Err(failed(Code::Transport)) } else { Ok(done()) };
            answer([Ok(started())].into_iter().chain(outputs).chain([end]))
        });
        let retried = RetryLayer::default().layer(inner.clone());
        let failing = FailoverLayer::new([RetryLayer::default().layer(inner.clone())]).layer(retried);
        let config = ResetConfig { resets: 2, ..ResetConfig::default() };
        let service = ResetLayer::new(config).expect("a layer").layer(failing);
        let reply = service.oneshot(ask()).await.expect("a reply");
        let events: Vec<_> = StreamExt::collect(reply).await;
        let resets = events.iter().filter(|event| matches!(event, Ok(Event::Reset(_)))).count();
        assert_eq!(resets, 2, "{outputs} outputs: {events:?}");
        assert!(matches!(events.last(), Some(Ok(Event::Completed(_)))), "{events:?}");
        assert_eq!(inner.calls(), 3);
    }
}

// === failover ===

/// Scenario: candidates that each admit one call; the standing one is readied, then the call is a trial of another,
/// which fails. Expected: the call MUST get the place that was readied for it, not wait for itself.
#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_the_place_it_holds() {
    let a = Strict::new(|_, _| refusal(failed(Code::QuotaExhausted)));
    let b = Strict::new(|_, _| answer([Ok(Event::text(0, "b")), Ok(done())]));
    let layer = FailoverLayer::new([ConcurrencyLimit::new(b, 1)]);
    let mut service = layer.layer(ConcurrencyLimit::new(a.clone(), 1));
    for call in 0..3 {
        let request = service.ready().await.expect("ready").call(ask());
        let reply = timeout(Duration::from_secs(3_600), request).await;
        let reply = reply.unwrap_or_else(|_| panic!("call {call} hangs")).expect("a reply");
        reply.collect().await.expect("an answer");
        sleep(Duration::from_secs(400)).await;
    }
    assert_eq!(a.calls(), 3);
}

/// Scenario: a candidate that stated a wait of ten minutes; calls of before it end after it, well or badly.
/// Expected: the stated wait MUST hold all the same.
#[tokio::test(start_paused = true)]
async fn a_stated_wait_outlives_the_calls_of_before() {
    for well in [true, false] {
        let a = Strict::new(move |nth, _| {
            if nth == 3 {
                let wait = Some(Duration::from_secs(600));
                return refusal(failed(Code::RateLimited).with_retry_after(wait));
            }
            Box::pin(async move {
                let end = async move {
                    sleep(Duration::from_secs(5)).await;
                    if well { Ok(done()) } else { Err(failed(Code::Transport)) }
                };
                let mut end = Box::pin(end);
                let mut first = true;
                let events = futures_util::stream::poll_fn(move |cx| {
                    if std::mem::take(&mut first) {
                        return Poll::Ready(Some(Ok(Event::text(0, "a"))));
                    }
                    end.as_mut().poll(cx).map(Some)
                });
                Ok(Reply::new(Head::default(), Box::pin(SyncStream(Mutex::new(events))) as Events))
            })
        });
        let b = Strict::new(|_, _| answer([Ok(Event::text(0, "b")), Ok(done())]));
        let config =
            FailoverConfig { dwell: None, spring_back: Duration::from_secs(60), ..FailoverConfig::default() };
        let layer = FailoverLayer::new([b.clone()]).config(config).expect("a layer");
        let mut service = layer.layer(a.clone());
        let mut before = Vec::new();
        for _ in 0..3 {
            before.push(service.ready().await.expect("ready").call(ask()).await.expect("a reply"));
        }
        let spent = service.ready().await.expect("ready").call(ask()).await.expect("a reply");
        spent.collect().await.expect("b answers");
        for reply in before {
            assert_eq!(reply.collect().await.is_ok(), well);
        }
        sleep(Duration::from_secs(300)).await;
        let next = service.ready().await.expect("ready").call(ask()).await.expect("a reply");
        next.collect().await.expect("b answers");
        assert_eq!(a.calls(), 4, "asked within its stated wait (calls of before ended well: {well})");
    }
}

/// A stream in a mutex, for streams that are not `Sync`.
struct SyncStream<S>(Mutex<S>);

impl<S: Stream + Unpin> Stream for SyncStream<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        Pin::new(self.0.get_mut().expect("no panic before")).poll_next(cx)
    }
}

/// Scenario: over HTTP, a candidate fails two calls that may go nowhere else, and their bodies are read to the end.
/// Expected: it MUST count two failed calls, not four: the third call is still asked of it.
#[tokio::test(start_paused = true)]
async fn a_failed_call_counts_once() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let candidate = |name: &'static str| {
        let asked = Arc::clone(&asked);
        tower::service_fn(move |_: http::Request<()>| -> Ready<Result<_, Failure>> {
            asked.lock().expect("no panic before").push(name);
            let mut response = Response::new(pieces(&["busy"]));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            ready(Ok(response))
        })
    };
    let mut service = FailoverLayer::new([candidate("b")]).layer(candidate("a"));
    for _ in 0..3 {
        let mut request = http::Request::new(());
        let mut call = Call::new();
        call.failover = false;
        request.set_call(call);
        let mut body = service.ready().await.expect("ready").call(request).await.expect("words").into_body();
        while poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.is_some() {}
    }
    assert_eq!(*asked.lock().expect("no panic before"), ["a", "a", "a"]);
}

/// A service that cannot be readied, and must not be asked twice.
#[derive(Debug)]
struct Broken(bool);

impl Clone for Broken {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl Service<Request> for Broken {
    type Response = Reply<Events>;
    type Error = Failure;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        assert!(!std::mem::replace(&mut self.0, true), "readied again after it failed");
        Poll::Ready(Err(failed(Code::Connect)))
    }

    fn call(&mut self, _: Request) -> Answer {
        unreachable!("it is never ready")
    }
}

/// Scenario: candidates that fail when they are readied, readied twice and called.
/// Expected: a failed service MUST NOT be asked again, and the failures go up.
#[tokio::test(start_paused = true)]
async fn a_service_that_failed_is_let_go() {
    let mut service = FailoverLayer::new([Broken(false)]).layer(Broken(false));
    for _ in 0..2 {
        service.ready().await.expect("it is always ready");
    }
    let failure = service.call(ask()).await.expect_err("nobody can be asked");
    assert_eq!(failure.code(), Code::AllFailed);
}

// === profile ===

/// Scenario: paths and addresses that would be put together to another host, or lose the path.
/// Expected: MUST be refused.
#[test]
fn an_address_cannot_be_moved_by_its_path() {
    let with = |base: &str, path: Option<&str>| {
        let mut profile = profile().at(base);
        profile.path = path.map(Into::into);
        profile.validate()
    };
    assert!(with("https://house.test", Some("/chat")).is_ok());
    for (base, path) in [
        ("https://house.test", Some(".elsewhere.test/chat")),
        ("https://house.test", Some("@elsewhere.test/chat")),
        ("https://house.test/v1", Some("chat")),
        ("https://house.test/v1?version=1", None),
        ("https://house.test/v1#top", None),
    ] {
        assert!(with(base, path).is_err(), "{base} {path:?}");
    }
}

// === cancellation ===

/// Polls a future or a stream of calls so many times, then drops all of it. Says whether it was over before.
async fn drop_after(polls: usize, call: impl Future) -> bool {
    let mut call = Box::pin(call);
    for _ in 0..polls {
        let over = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        if over {
            return true;
        }
        sleep(Duration::from_millis(100)).await;
    }
    false
}

/// Scenario: the whole stack over three scripted candidates (one breaks in mid-stream, one is overloaded, one serves
/// slowly), dropped after every number of polls. Expected: no upstream body MUST stay open, and the next call MUST be
/// served: no trial, no token and no place is lost.
#[tokio::test(start_paused = true)]
async fn a_drop_at_any_poll_leaves_nothing_open() {
    let mut polls = 0;
    loop {
        let journal = Journal::new();
        let stream = |words: &str| ScriptedReply::words(words).streamed(Wording::Chat).pace(150);
        let candidate = |name: &str, lines: Vec<Step>| {
            let player = Player::new(Script::new(lines).named(name).for_ever(), &journal);
            let provider = Provider::over(player, profile().named(name)).expect("a provider");
            let config =
                RetryConfig { retries: 1, base: Duration::from_millis(300), ..RetryConfig::default() };
            let retried = RetryLayer::new(config).expect("a layer");
            let clocks = Clocks { first_output: Some(Duration::from_secs(2)), ..Clocks::default() };
            let clocked = DualClockTimeoutLayer::new(clocks).expect("a layer").layer(provider);
            retried.layer(ConcurrencyLimit::new(clocked, 2))
        };
        let busy = Step::status(503).after(120).chunk(200, "busy");
        let breaks = stream("one two three").cut(3).end(BodyEnd::Reset);
        let a = candidate("a", vec![breaks.clone(), Step::hang().after(50), busy.clone()]);
        let b = candidate("b", vec![busy.clone(), breaks, stream("four five")]);
        let c = candidate("c", vec![stream("six seven")]);
        let config =
            FailoverConfig { spring_back: Duration::from_secs(2), dwell: None, ..FailoverConfig::eager() };
        let failing = FailoverLayer::new([b, c]).config(config).expect("a layer").layer(a);
        let resetting = ResetLayer::new(ResetConfig { resets: 5, ..ResetConfig::default() });
        let mut service = resetting.expect("a layer").layer(failing);
        let mut over = true;
        for _ in 0..3 {
            let call = service.ready().await.expect("ready").call(ask());
            over &= drop_after(polls, async { call.await?.collect().await }).await;
            assert_eq!(journal.open(), 0, "after {polls} polls");
            sleep(Duration::from_secs(3)).await;
        }
        for _ in 0..3 {
            let call = async { service.ready().await?.call(ask()).await?.collect().await };
            let served = timeout(Duration::from_secs(3_600), call).await.expect("it does not hang");
            served.unwrap_or_else(|failure| panic!("after {polls} polls: {failure}"));
            assert_eq!(journal.open(), 0, "after {polls} polls");
            sleep(Duration::from_secs(3)).await;
        }
        if over {
            break;
        }
        polls += 1;
    }
    assert!(polls > 20, "only {polls} polls");
}

/// Scenario: a stream cut at every byte, closed, broken or left hanging there, and read under clocks.
/// Expected: MUST end with a completion only when the answer was whole, else with a failure, and nothing stays open.
#[tokio::test(start_paused = true)]
async fn a_stream_torn_at_any_byte_ends() {
    for spoken in [Wording::Chat, Wording::Messages, Wording::Responses] {
        let protocol = match spoken {
            Wording::Messages => Protocol::AnthropicMessages,
            Wording::Responses => Protocol::OpenaiResponses,
            _ => Protocol::OpenaiChat,
        };
        let whole = ScriptedReply::words("na\u{ef}ve two").usage(3, 2).streamed(spoken);
        let bytes: Vec<u8> = whole.chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect();
        for cut in 0..=bytes.len() {
            for end in [BodyEnd::Close, BodyEnd::Reset, BodyEnd::Hang] {
                let journal = Journal::new();
                let mut step = whole.clone().end(end);
                step.chunks = vec![Chunk::new(0, bytes[..cut].to_vec())];
                let player = Player::new(Script::new([step]), &journal);
                let mut profile = profile();
                profile.protocol = protocol;
                let provider = Provider::over(player, profile).expect("a provider");
                let service = DualClockTimeoutLayer::default().layer(provider);
                let mut reply = service.oneshot(ask()).await.expect("a head");
                let mut ends = 0;
                let read = async {
                    while let Some(event) = reply.next().await {
                        assert_eq!(ends, 0, "something after the end, cut at {cut}");
                        ends += usize::from(matches!(event, Err(_) | Ok(Event::Completed(_))));
                    }
                };
                timeout(Duration::from_secs(600), read).await.expect("it ends");
                assert_eq!(ends, 1, "cut at {cut}, {end:?}");
                assert!(reply.next().await.is_none());
                assert_eq!(journal.open(), 0, "cut at {cut}, {end:?}");
            }
        }
    }
}

/// Scenario: a consumer that leaves for hours in mid-stream, its data and its end waiting meanwhile.
/// Expected: MUST be given all of it, since no clock runs out on data that is there.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_was_away_finds_all_of_it() {
    let journal = Journal::new();
    let step = ScriptedReply::words("one two three four").streamed(Wording::Chat).pace(1_000);
    let provider = Provider::over(Player::new(Script::new([step]), &journal), profile()).expect("a provider");
    let service = DualClockTimeoutLayer::default().layer(provider);
    let mut reply = service.oneshot(ask()).await.expect("a head");
    reply.next().await.expect("an event").expect("no failure");
    sleep(Duration::from_secs(5 * 3_600)).await;
    let whole = reply.collect().await.expect("all of it");
    assert_eq!(whole.message.to_text(), "one two three four");
}

/// Scenario: a thousand candidates that all refuse, one candidate, two failovers nested, retries in retries, and a
/// deadline that is past. Expected: MUST come back, each candidate asked once.
#[tokio::test(start_paused = true)]
async fn absurd_stacks_come_back() {
    let refuses = |code| Strict::new(move |_, _| refusal(failed(code)));
    let one = refuses(Code::Overloaded);
    let layer = FailoverLayer::new(std::iter::repeat_n(one.clone(), 999));
    let failure = layer.layer(one.clone()).oneshot(ask()).await.expect_err("nobody serves");
    assert_eq!((failure.code(), one.calls()), (Code::AllFailed, 1_000));

    let alone = refuses(Code::Overloaded);
    let mut service = FailoverLayer::new([]).layer(alone.clone());
    for _ in 0..20 {
        let failure = service.ready().await.expect("ready").call(ask()).await.expect_err("it refuses");
        assert_eq!(failure.code(), Code::Overloaded);
    }
    assert_eq!(alone.calls(), 20);

    let deep = refuses(Code::Server);
    let config =
        RetryConfig { retries: u32::MAX, budget: None, min_attempt: Duration::MAX, ..RetryConfig::default() };
    let inner = RetryLayer::default().layer(deep.clone());
    let failure = RetryLayer::new(config).expect("a layer").layer(inner).oneshot(ask()).await;
    assert_eq!((failure.expect_err("it refuses").code(), deep.calls()), (Code::Server, 4));

    let (a, b) = (refuses(Code::Server), Strict::new(|_, _| answer([Ok(done())])));
    let inner = FailoverLayer::new([b.clone()]).layer(a.clone());
    let mut nested = FailoverLayer::new([inner.clone()]).layer(inner);
    let past = nested.ready().await.expect("ready").call(ask().within(Duration::ZERO)).await;
    let past = past.err().map(|failure| failure.code());
    assert_eq!((past, a.calls()), (Some(Code::Server), 1));
    for _ in 0..9 {
        let reply = nested.ready().await.expect("ready").call(ask()).await.expect("b serves");
        reply.collect().await.expect("an answer");
    }
}

/// Scenario: a failure that passes, under every layer at once, over a service that keeps its contract to the letter.
/// Expected: MUST be readied before each call, and served.
#[tokio::test(start_paused = true)]
async fn every_layer_readies_before_it_calls() {
    let inner = Strict::new(|nth, _| match nth {
        0 | 2 => refusal(failed(Code::Overloaded)),
        1 => refusal(failed(Code::ContextLength)),
        3 => answer([Ok(Event::text(0, "a")), Err(failed(Code::Transport))]),
        _ => answer([Ok(done())]),
    });
    let shorter = async |request: Request, _: Failure| {
        Some(
            Request::new("m")
                .user("h")
                .within(request.call().deadline.map_or(Duration::from_secs(60), |at| at - Instant::now()))
                .streaming(),
        )
    };
    let clocked = DualClockTimeoutLayer::default();
    let retried = RetryLayer::default().layer(clocked.layer(inner.clone()).map_response(boxed));
    let short = ShortenLayer::new(shorter).layer(retried);
    let failing = FailoverLayer::new([short.clone()]).layer(short).map_response(boxed);
    let reply = ResetLayer::default().layer(failing).oneshot(ask()).await.expect("a reply");
    reply.collect().await.expect("an answer");
    assert_eq!(inner.calls(), 5);
}

fn boxed<S>(reply: S) -> Reply<Events>
where
    S: Stream<Item = Result<Event, Failure>> + Send + Sync + Unpin + 'static,
{
    Reply::new(Head::default(), Box::pin(reply) as Events)
}

/// Scenario: 100,000 events of preamble before anything, then a stall. Expected: MUST be taken as begun, with few
/// held back.
#[tokio::test(start_paused = true)]
async fn a_flood_of_preamble_is_not_hoarded() {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    let inner = Strict::new(move |_, _| {
        let counter = Arc::clone(&counter);
        let events = futures_util::stream::repeat_with(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(started())
        });
        let events = events.take(100_000).chain(futures_util::stream::pending());
        Box::pin(ready(Ok(Reply::new(Head::default(), Box::pin(events) as Events))))
    });
    let service = RetryLayer::default().layer(DualClockTimeoutLayer::default().layer(inner));
    let reply = service.oneshot(ask()).await.expect("it is taken as begun");
    assert!(read.load(Ordering::Relaxed) < 200);
    let failure = reply.collect().await.expect_err("it stalls");
    assert_eq!(failure.code().as_str(), "TIMEOUT_FIRST_OUTPUT");
}

/// Scenario: one frame of 17 MiB, in one piece and in many. Expected: MUST be refused at its limit, the body closed.
#[tokio::test(start_paused = true)]
async fn a_frame_of_many_mebibytes_is_refused() {
    for piece in [17 << 20, 64 << 10] {
        let journal = Journal::new();
        let mut step = Step::sse(["[DONE]"]).end(BodyEnd::Hang);
        let data = Bytes::from([&b"data: "[..], &vec![b'x'; 17 << 20]].concat());
        step.chunks = data.chunks(piece).map(|part| Chunk::new(0, data.slice_ref(part))).collect();
        let provider = Provider::over(Player::new(Script::new([step]), &journal), profile());
        let reply = provider.expect("a provider").oneshot(ask()).await.expect("a head");
        let failure = reply.collect().await.expect_err("it is too large");
        assert_eq!((failure.code(), journal.open()), (Code::InvalidResponse, 0));
    }
}

/// Scenario: the longest of every wait and clock. Expected: MUST be served as with none.
#[tokio::test(start_paused = true)]
async fn the_longest_waits_are_no_waits() {
    let inner = Strict::new(|nth, _| match nth {
        0 => refusal(failed(Code::RateLimited).with_retry_after(Some(Duration::MAX))),
        _ => answer([Ok(Event::text(0, "a")), Ok(done())]),
    });
    let max = Some(Duration::MAX);
    let clocks = Clocks {
        first_output: max,
        idle: max,
        silence: max,
        total: max,
        total_stream: max,
        crawl: Some(Crawl { window: Duration::MAX, ..Crawl::default() }),
        ..Clocks::default()
    };
    let retry = RetryConfig { max_retry_after: Duration::MAX, cap: Duration::MAX, ..RetryConfig::default() };
    let config = FailoverConfig {
        spring_back: Duration::MAX,
        dwell: Some(Duration::MAX),
        min_share: Duration::MAX,
        max_first_output: max,
        ..FailoverConfig::default()
    };
    let timed = DualClockTimeoutLayer::new(clocks).expect("a layer").layer(inner);
    let retried = RetryLayer::new(retry).expect("a layer").layer(timed);
    let layer = FailoverLayer::new([retried.clone()]).config(config).expect("a layer");
    let mut service = layer.layer(retried);
    for _ in 0..3 {
        let request = ask().within(Duration::from_secs(u64::from(u32::MAX)));
        let reply = service.ready().await.expect("ready").call(request).await.expect("a reply");
        reply.collect().await.expect("an answer");
    }
}
