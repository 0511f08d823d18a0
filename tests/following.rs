//! Each part that follows a response, and each way in which one ends: replies and HTTP bodies.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use support::{Act, Log, Script, Stage, fail, request};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use watertight::chat::{End, Event, Observer, Outcome, Reply, Request, Watch, Watchers};
use watertight::failure::{Code, Failure};
use watertight::layers::reset::ResetConfig;
use watertight::layers::retry::RetryConfig;
use watertight::layers::{
    CircuitBreakerLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, ResetLayer, RetryLayer,
};
use watertight::observe::{Follow, failure_of};

/// What observers were told, and whether they were.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<Outcome>>>);

struct Tells(Told);

impl Observer for Tells {
    fn settle(self, how: End<'_>) {
        self.0.0.lock().unwrap().push(how.into());
    }
}

impl Told {
    fn watch(&self) -> Watch<Tells> {
        Watch::new(Tells(self.clone()))
    }

    fn all(&self) -> Vec<Outcome> {
        self.0.lock().unwrap().clone()
    }
}

/// How a caller goes about a response.
#[derive(Clone, Copy, Debug)]
enum Caller {
    Reads,
    LeavesAtOnce,
    LeavesMidway,
}

/// The ways in which a stream ends, as scripted and as its caller has it; and what observers must be told.
fn ends() -> [(Act, Caller, Outcome); 5] {
    [
        (Act::Done, Caller::Reads, Outcome::Completed(None)),
        (Act::Fail(fail(Code::Transport)), Caller::Reads, Outcome::Failed(Code::Transport)),
        (Act::End, Caller::Reads, Outcome::Truncated),
        (Act::Done, Caller::LeavesAtOnce, Outcome::Abandoned),
        (Act::Done, Caller::LeavesMidway, Outcome::Abandoned),
    ]
}

async fn consume(mut stream: impl Stream + Unpin, caller: Caller) {
    match caller {
        Caller::Reads => while stream.next().await.is_some() {},
        Caller::LeavesAtOnce => {}
        Caller::LeavesMidway => drop(stream.next().await),
    }
}

type Seen<S> = tower::util::MapResponse<Stage, S>;

/// Puts a layer on a stage that is watched from inside, watches it from outside, and ends it in each way.
async fn each_reply_end<S, F, L, E, W>(layer: impl Fn() -> L)
where
    L: Layer<tower::util::BoxCloneSyncService<Request, watertight::chat::BoxReply, Failure>, Service = S>,
    S: Service<Request, Response = Reply<E, W>, Error = Failure, Future = F>,
    F: Future<Output = Result<Reply<E, W>, Failure>>,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    for (end, caller, outcome) in ends() {
        let (log, inside, outside) = (Log::default(), Told::default(), Told::default());
        let script = Script::body([Act::Preamble, Act::Text("x"), Act::Text("y"), end.clone()]);
        let told = inside.clone();
        let stage: Seen<_> =
            Stage::new("a", &log, [script]).map_response(move |reply| reply.follow(told.watch()).boxed());
        let service = layer().layer(tower::util::BoxCloneSyncService::new(stage));
        let reply = service.oneshot(request()).await.unwrap().follow(outside.watch());
        consume(reply, caller).await;
        assert_eq!(inside.all(), [outcome], "inside, {end:?}, {caller:?}");
        assert_eq!(outside.all(), [outcome], "outside, {end:?}, {caller:?}");
        assert_eq!(log.open(), 0, "{end:?}, {caller:?}");
    }
}

/// Scenario: replies under each layer, ended by their end, an error, a bare end, a caller who leaves before the first
/// chunk and one who leaves midway.
/// Expected: observers inside and outside MUST be told the same end, once; nothing MUST be held after it.
#[tokio::test(start_paused = true)]
async fn every_layer_follows_a_reply_to_its_end() {
    each_reply_end(tower::layer::util::Identity::new).await;
    each_reply_end(DualClockTimeoutLayer::default).await;
    each_reply_end(CircuitBreakerLayer::default).await;
    each_reply_end(RetryLayer::default).await;
    each_reply_end(|| FailoverLayer::new([])).await;
    // A partial result is told to those outside as the failure that it stands for.
    each_reply_end(DegradationLayer::default).await;
    each_reply_end(|| ResetLayer::new(ResetConfig { resets: 0, ..ResetConfig::default() }).unwrap()).await;
}

/// One step of a body.
#[derive(Clone, Debug)]
enum Step {
    Pending,
    Data(&'static str),
    Trailers,
    Error,
}

/// A body that plays its steps, then is at its end; `hints` says whether it knows before it is asked.
#[derive(Clone, Debug)]
struct Scripted {
    steps: VecDeque<Step>,
    hints: bool,
    held: Arc<()>,
}

impl Scripted {
    fn new(steps: impl IntoIterator<Item = Step>, hints: bool) -> Self {
        Self { steps: steps.into_iter().collect(), hints, held: Arc::default() }
    }
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(match self.steps.pop_front() {
            Some(Step::Pending) => return Poll::Pending,
            Some(Step::Data(data)) => Some(Ok(Frame::data(data.into()))),
            Some(Step::Trailers) => Some(Ok(Frame::trailers(HeaderMap::new()))),
            Some(Step::Error) => {
                self.steps.clear();
                Some(Err("broken".into()))
            }
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.hints && self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.steps.len() as u64)
    }
}

/// Polls a body so often, as hyper does: not at all once it says that it has ended.
fn poll<B: Body>(body: B, polls: usize) {
    let mut body = Box::pin(body);
    for _ in 0..polls {
        if body.is_end_stream() {
            break;
        }
        let ended = match body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(frame) => frame.is_none_or(|frame| frame.is_err()),
            Poll::Pending => false,
        };
        if ended {
            break;
        }
    }
}

/// A body, whether it knows its end, whether its response is a 5xx, and how often it is polled.
type Any = (Vec<Step>, bool, bool, usize);

/// Any of them.
fn bodies() -> impl Strategy<Value = Any> {
    let step =
        prop_oneof![Just(Step::Pending), Just(Step::Data("x")), Just(Step::Data("")), Just(Step::Trailers)];
    let steps = (prop::collection::vec(step, 0..8), any::<bool>()).prop_map(|(mut steps, breaks)| {
        steps.extend(breaks.then_some(Step::Error));
        steps
    });
    (steps, any::<bool>(), any::<bool>(), 0..12_usize)
}

type Watching = fn(Response<Scripted>, &[Told; 3], usize);

/// The law: for any body and any number of polls, each observer is told once, and what happened.
fn each_is_told_once(watching: Watching) -> Result<(), TestError<Any>> {
    let config = Config { failure_persistence: None, ..Config::with_cases(256) };
    TestRunner::new(config).run(&bodies(), |(steps, hints, fails, polls)| {
        let told: [Told; 3] = Default::default();
        let mut response = Response::new(Scripted::new(steps.clone(), hints));
        *response.status_mut() = if fails { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
        watching(response, &told, polls);
        // One more poll than steps meets the end, where the body does not say so before.
        let met_end = polls > steps.len() || (hints && polls >= steps.len());
        let outcome = match steps.iter().position(|step| matches!(step, Step::Error)) {
            Some(at) if polls > at => Outcome::Failed(Code::Transport),
            _ if fails => Outcome::Failed(Code::Server),
            None if met_end => Outcome::Completed(None),
            _ => Outcome::Abandoned,
        };
        for told in &told {
            prop_assert_eq!(told.all(), vec![outcome]);
        }
        Ok(())
    })
}

/// Scenario: any body of pending, data, empty data, trailers and an error, under three observers, polled any number of
/// times, by a consumer that heeds `is_end_stream`.
/// Expected: each MUST be told once what happened; a watcher that waits for the last poll, and one that settles a 5xx
/// at its head, MUST be rejected.
#[test]
fn observers_of_a_body_are_told_exactly_once() {
    each_is_told_once(|response, [a, b, c], polls| {
        let response = response.follow(a.watch()).follow(b.watch()).follow(c.watch());
        poll(response.into_body(), polls);
    })
    .unwrap();
    each_is_told_once(|response, told, polls| {
        let verdict = failure_of(&response);
        let cut = fail(Code::Transport);
        let mut watches = told.each_ref().map(Told::watch);
        let mut body = response.into_body();
        for _ in 0..polls {
            let polled = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(frame) = polled {
                match frame {
                    Some(Ok(_)) if body.is_end_stream() => break,
                    Some(Ok(_)) => {}
                    Some(Err(_)) => {
                        watches.iter_mut().for_each(|watch| watch.settle(End::Failed(&cut)));
                    }
                    None => watches.iter_mut().for_each(|watch| {
                        watch.settle(verdict.as_ref().map_or(End::Completed(None), End::from));
                    }),
                }
            }
        }
    })
    .unwrap_err();
    each_is_told_once(|response, told, polls| {
        if let Some(failure) = failure_of(&response) {
            told.iter().for_each(|told| told.watch().settle(End::from(&failure)));
            poll(response.into_body(), polls);
        } else {
            let [a, b, c] = told;
            let response = response.follow(a.watch()).follow(b.watch()).follow(c.watch());
            poll(response.into_body(), polls);
        }
    })
    .unwrap_err();
}

/// Puts a layer on a service whose bodies are watched from inside, watches them from outside, and ends them.
async fn each_body_end<L, S, B>(layer: impl Fn() -> L)
where
    L: Layer<Inner, Service = S>,
    S: Service<http::Request<Bytes>, Response = Response<B>, Error = BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError> + std::fmt::Debug,
{
    let data = || [Step::Data("x"), Step::Data("y")];
    for (status, breaks, caller, outcome) in [
        (200, false, Caller::Reads, Outcome::Completed(None)),
        (404, false, Caller::Reads, Outcome::Completed(None)),
        (501, false, Caller::Reads, Outcome::Failed(Code::Server)),
        (200, true, Caller::Reads, Outcome::Failed(Code::Transport)),
        (200, false, Caller::LeavesAtOnce, Outcome::Abandoned),
        (200, false, Caller::LeavesMidway, Outcome::Abandoned),
    ] {
        let (inside, outside) = (Told::default(), Told::default());
        let body = Scripted::new(data().into_iter().chain(breaks.then_some(Step::Error)), false);
        let (held, told) = (Arc::downgrade(&body.held), inside.clone());
        let body = Arc::new(Mutex::new(Some(body)));
        let service: Inner =
            tower::util::BoxCloneSyncService::new(service_fn(move |_: http::Request<Bytes>| {
                let body = body.lock().unwrap().take().expect("it is asked once");
                let response = Response::builder().status(status).body(body).unwrap().follow(told.watch());
                std::future::ready(Ok(response.map(http_body_util::combinators::UnsyncBoxBody::new)))
            }));
        let response = layer().layer(service).oneshot(http::Request::new(Bytes::new())).await;
        let body = Box::pin(response.map_err(|_| "it answers").unwrap().follow(outside.watch()).into_body());
        consume(http_body_util::BodyStream::new(body), caller).await;
        assert_eq!(inside.all(), [outcome], "inside, {status}, {caller:?}");
        assert_eq!(outside.all(), [outcome], "outside, {status}, {caller:?}");
        assert_eq!(held.strong_count(), 0, "{status}, {caller:?}");
    }
}

type Inner = tower::util::BoxCloneSyncService<
    http::Request<Bytes>,
    Response<http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>>,
    BoxError,
>;

/// Scenario: HTTP responses under each layer: whole, a client's fault, a 5xx, broken, left before the first chunk, left
/// midway.
/// Expected: observers on both sides MUST be told the same, once; a 5xx MUST be followed to its end; nothing is held.
#[tokio::test(start_paused = true)]
async fn every_layer_follows_a_body_to_its_end() {
    each_body_end(tower::layer::util::Identity::new).await;
    each_body_end(DualClockTimeoutLayer::default).await;
    each_body_end(CircuitBreakerLayer::default).await;
    each_body_end(|| FailoverLayer::new([])).await;
    each_body_end(|| RetryLayer::new(RetryConfig { retries: 0, ..RetryConfig::default() }).unwrap()).await;
}

/// Scenario: responses of every kind of status, with and without a stated wait, and one that was given up with its
/// failure beside it.
/// Expected: 408, 425, 429 and 5xx MUST be failures with their wait; any other status MUST be the server's answer.
#[tokio::test(start_paused = true)]
async fn an_http_response_is_judged_by_its_status_alone() {
    let rows = [
        (200, None),
        (204, None),
        (304, None),
        (400, None),
        (401, None),
        (404, None),
        (409, None),
        (408, Some(Code::RequestTimeout)),
        (425, Some(Code::Conflict)),
        (429, Some(Code::RateLimited)),
        (500, Some(Code::Server)),
        (503, Some(Code::Server)),
        (529, Some(Code::Overloaded)),
    ];
    for (status, code) in rows {
        let response = Response::builder().status(status).header("retry-after", "2").body(()).unwrap();
        let failure = failure_of(&response);
        assert_eq!(failure.as_ref().map(Failure::code), code, "{status}");
        if let Some(failure) = failure {
            assert_eq!(failure.status().unwrap(), status);
            assert_eq!(failure.retry_after(), Some(std::time::Duration::from_secs(2)));
        }
    }
    let response = Response::builder().status(503).body(http_body_util::Empty::<Bytes>::new()).unwrap();
    let given_up = response.give_up(fail(Code::AllFailed).exhaust()).unwrap();
    let failure = failure_of(&given_up).unwrap();
    assert!(failure.code() == Code::AllFailed && failure.is_exhausted());
}

/// Scenario: a watched and clocked body is asked its size and whether it has ended.
/// Expected: MUST say what the body beneath says; after an error of a failure of ours, its outcome MUST be the failure's.
#[test]
fn what_a_body_says_of_itself_is_passed_on() {
    let told = Told::default();
    let body = Scripted::new([Step::Data("x"), Step::Trailers], true);
    let mut watched = Box::pin(Response::new(body).follow(told.watch()).into_body());
    assert_eq!(watched.size_hint().exact(), Some(2));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(watched.as_mut().poll_frame(&mut cx).is_ready());
    assert!(!watched.is_end_stream());
    assert_eq!(told.all(), []);
    let trailers = watched.as_mut().poll_frame(&mut cx);
    assert!(matches!(trailers, Poll::Ready(Some(Ok(frame))) if frame.is_trailers()));
    assert!(watched.is_end_stream());
    assert_eq!(told.all(), [Outcome::Completed(None)]);

    for (code, outcome) in [
        (Code::Truncated, Outcome::Truncated),
        (Code::Cancelled, Outcome::Abandoned),
        (Code::Overloaded, Outcome::Failed(Code::Overloaded)),
    ] {
        let told = Told::default();
        let frames = futures_util::stream::iter([Err::<Frame<Bytes>, _>(fail(code))]);
        let body = http_body_util::StreamBody::new(frames);
        poll(Response::new(body).follow(told.watch()).into_body(), 1);
        assert_eq!(told.all(), [outcome]);
    }
}
