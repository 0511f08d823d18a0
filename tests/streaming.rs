//! Following a response to its end: replies and HTTP bodies, watched, clocked, cut and dropped.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use proptest::prelude::*;
use support::{Act, Log, Script, Stage, ask, fail, request};
use tokio::time::{Instant, advance};
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{
    Completion, End, Event, Head, Message, Observer, Outcome, Reply, Role, Sign, Stop, Usage, Watch,
};
use watertight::failure::{Clock, Code, Failure};
use watertight::layers::DualClockTimeoutLayer;
use watertight::layers::timeout::{Clocks, Crawl, DualClockTimeout, FirstClock, KeepAlive};
use watertight::observe::Follow;

/// What observers were told.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<Outcome>>>);

struct Counts(Told);

impl Observer for Counts {
    fn settle(self, how: End<'_>) {
        self.0.0.lock().unwrap().push(how.into());
    }
}

impl Told {
    fn watch(&self) -> Watch<Counts> {
        Watch::new(Counts(self.clone()))
    }

    fn all(&self) -> Vec<Outcome> {
        self.0.lock().unwrap().clone()
    }
}

/// One step of a stream, for any script.
#[derive(Clone, Debug)]
enum Step {
    Pending,
    Preamble,
    Output,
    KeepAlive,
    Error,
    End,
    Complete,
}

struct Steps(VecDeque<Step>);

impl Stream for Steps {
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(match self.0.pop_front() {
            Some(Step::Pending) => return Poll::Pending,
            Some(Step::Preamble) => Some(Ok(Event::Started { id: "i".into(), model: "m".into() })),
            Some(Step::Output) => Some(Ok(Event::text(0, "x"))),
            Some(Step::KeepAlive) => Some(Ok(Event::KeepAlive)),
            Some(Step::Error) => Some(Err(fail(Code::Transport))),
            Some(Step::Complete) => Some(Ok(completed())),
            Some(Step::End) | None => None,
        })
    }
}

fn completed() -> Event {
    let message = Message::new(Role::Assistant, Vec::new());
    Event::Completed(Box::new(Completion::new(
        message,
        Stop::End,
        Some(Usage { input: 3, ..Usage::default() }),
    )))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Pending),
        Just(Step::Preamble),
        Just(Step::Output),
        Just(Step::KeepAlive),
        Just(Step::Error),
        Just(Step::End),
        Just(Step::Complete),
    ];
    prop::collection::vec(step, 0..12)
}

/// Polls a stream so often, and drops it; what came after an end is counted.
fn poll(mut stream: impl Stream<Item = Result<Event, Failure>> + Unpin, polls: usize) -> usize {
    let (mut ended, mut after) = (false, 0);
    for _ in 0..polls {
        match Pin::new(&mut stream).poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {}
            Poll::Ready(Some(_)) if ended => after += 1,
            Poll::Ready(Some(item)) => ended = matches!(item, Err(_) | Ok(Event::Completed(_))),
            Poll::Ready(None) => ended = true,
        }
    }
    after
}

/// A watcher as it is often written: it counts each end it meets, and knows no drop. The law must reject it.
struct Twin<S>(S, Told);

impl<S: Stream<Item = Result<Event, Failure>> + Unpin> Stream for Twin<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = std::task::ready!(self.0.poll_next_unpin(cx));
        let outcome = match &item {
            Some(Ok(Event::Completed(_))) | None => Some(Outcome::Completed(None)),
            Some(Err(failure)) => Some(failure.into()),
            Some(Ok(_)) => None,
        };
        self.1.0.lock().unwrap().extend(outcome);
        Poll::Ready(item)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Scenario: any script of pending, preamble, output, keep-alive, error, end and completion, read ahead at any
    /// point or not, followed early and late, dropped after any number of polls.
    /// Expected: each observer MUST be settled exactly once, all alike; nothing MUST come after an end; what the commit
    /// point answered it MUST answer again.
    #[test]
    fn an_observer_is_settled_exactly_once(script in steps(), polls in 0..16_usize, ahead in 0..4_usize) {
        let told: [Told; 3] = Default::default();
        let mut reply = Reply::new(Head::default(), Steps(script.into())).follow(told[0].watch());
        let mut before = None;
        for _ in 0..ahead {
            let answer = match reply.poll_commit(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => Some(answer.map_err(|failure| failure.code())),
                Poll::Pending => None,
            };
            prop_assert!(before.is_none() || before == answer, "{:?}, then {:?}", before, answer);
            before = answer;
        }
        let reply = reply.follow(told[1].watch()).follow(told[2].watch());
        prop_assert_eq!(poll(reply, polls), 0);
        let first = told[0].all();
        prop_assert_eq!(first.len(), 1);
        prop_assert_eq!(&told[1].all(), &first);
        prop_assert_eq!(&told[2].all(), &first);
    }
}

/// Scenario: the law of the property above, held against the twin.
/// Expected: the twin MUST break it, on a drop and on an end that is met twice.
#[test]
fn a_watcher_that_counts_ends_and_knows_no_drop_is_rejected() {
    for script in [vec![Step::Output, Step::Pending], vec![Step::Complete, Step::End]] {
        let told = Told::default();
        poll(Twin(Steps(script.into()), told.clone()), 2);
        assert_ne!(told.all().len(), 1);
    }
}

/// Scenario: preamble and an output are read ahead, then the reply is asked again, followed, taken apart and wrapped.
/// Expected: the commit MUST be at once when asked again; the late observer MUST be shown what is held; nothing held
/// MUST be lost.
#[test]
fn what_is_held_survives_being_followed_split_and_wrapped() {
    struct Signs(Arc<Mutex<Vec<Sign>>>);
    impl Observer for Signs {
        fn see(&mut self, sign: Sign) {
            self.0.lock().unwrap().push(sign);
        }

        fn settle(self, _: End<'_>) {}
    }
    let script = [Step::Preamble, Step::KeepAlive, Step::Preamble, Step::Output, Step::Complete];
    let mut reply = Reply::new(Head::default(), Steps(script.to_vec().into()));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        assert!(matches!(reply.poll_commit(&mut cx), Poll::Ready(Ok(()))));
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reply = reply.follow(Watch::new(Signs(Arc::clone(&seen))));
    assert_eq!(*seen.lock().unwrap(), [Sign::Preamble, Sign::Preamble, Sign::Output(1)]);
    let (held, events) = reply.split();
    let reply = Reply::join(held, events).wrap(|events| events.map(|event| event)).wrap(|events| events);
    let events: Vec<_> = tokio_test::block_on(reply.collect_events());
    assert_eq!(events, ["started", "started", "text", "completed"]);
}

/// Scenario: an empty answer, or a failure, is read ahead to its end, and the reply is then wrapped once and twice.
/// Expected: MUST come to its end as it would have unwrapped, and nothing MUST come after it.
#[test]
fn a_reply_that_was_read_to_its_end_is_wrapped_and_ends_once() {
    for (end, expected) in
        [(Step::Complete, &["started", "completed"][..]), (Step::Output, &["started", "text", "other"])]
    {
        for wraps in 0..3 {
            let script = VecDeque::from([Step::Preamble, end.clone()]);
            let mut reply = Reply::new(Head::default(), Steps(script)).boxed();
            assert!(reply.poll_commit(&mut Context::from_waker(Waker::noop())).is_ready());
            for _ in 0..wraps {
                reply = reply.boxed();
            }
            assert_eq!(tokio_test::block_on(reply.collect_events()), expected, "wrapped {wraps} times");
        }
    }
}

/// The names of what comes.
trait CollectEvents {
    fn collect_events(self) -> impl Future<Output = Vec<&'static str>>;
}

impl<S: Stream<Item = Result<Event, Failure>> + Unpin> CollectEvents for S {
    async fn collect_events(self) -> Vec<&'static str> {
        let name = |event| match event {
            Ok(Event::Started { .. }) => "started",
            Ok(Event::Text { .. }) => "text",
            Ok(Event::Completed(_)) => "completed",
            _ => "other",
        };
        StreamExt::map(self, name).collect().await
    }
}

type Frames = StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Failure>>>>;

fn body(frames: Vec<Result<&'static str, Failure>>) -> Frames {
    let frames: Vec<_> = frames.into_iter().map(|frame| frame.map(|data| Frame::data(data.into()))).collect();
    StreamBody::new(futures_util::stream::iter(frames))
}

/// Scenario: HTTP responses that end well, fail, are of a 5xx, are empty from the start, and are dropped.
/// Expected: a 204 MUST be completed at once; a 5xx MUST be settled only when its body has ended; each exactly once.
#[tokio::test]
async fn an_http_response_is_followed_to_its_end() {
    let respond = |status: StatusCode, body| {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        response
    };
    let told = Told::default();
    let read = respond(StatusCode::OK, body(vec![Ok("a"), Ok("b")])).follow(told.watch());
    assert_eq!(read.into_body().collect().await.unwrap().to_bytes(), "ab");
    assert_eq!(told.all(), [Outcome::Completed(None)]);

    let told = Told::default();
    let broken =
        respond(StatusCode::OK, body(vec![Ok("a"), Err(fail(Code::Transport))])).follow(told.watch());
    assert!(broken.into_body().collect().await.is_err());
    assert_eq!(told.all(), [Outcome::Failed(Code::Transport)]);

    let told = Told::default();
    let failed = respond(StatusCode::BAD_GATEWAY, body(vec![Ok("sorry")])).follow(told.watch());
    assert_eq!(told.all(), [], "the permit lasts as long as the body");
    assert_eq!(failed.into_body().collect().await.unwrap().to_bytes(), "sorry");
    assert_eq!(told.all(), [Outcome::Failed(Code::Server)]);

    let told = Told::default();
    let empty = Response::new(Empty::<Bytes>::new()).follow(told.watch());
    assert_eq!(told.all(), [Outcome::Completed(None)]);
    drop(empty);
    let once = Response::new(Full::new(Bytes::from("x"))).follow(told.watch());
    drop(once);
    assert_eq!(told.all(), [Outcome::Completed(None), Outcome::Abandoned]);
}

/// A consumer that stops once the body says that it has ended, as hyper does.
#[tokio::test]
async fn the_end_is_noticed_by_a_consumer_that_stops_early() {
    let told = Told::default();
    let mut watched = Response::new(Full::new(Bytes::from("x"))).follow(told.watch()).into_body();
    watched.frame().await.unwrap().unwrap();
    assert!(watched.is_end_stream());
    assert_eq!(told.all(), [Outcome::Completed(None)]);
}

fn clocked(clocks: Clocks, script: Script, log: &Log) -> DualClockTimeout<Stage> {
    DualClockTimeoutLayer::new(clocks).unwrap().layer(Stage::new("a", log, [script]))
}

/// Scenario: silence before the head, before the first output in spite of preamble, and between outputs.
/// Expected: each clock MUST run out at its exact length, name itself, and drop the upstream in the same poll.
#[tokio::test(start_paused = true)]
async fn clocks_run_out_exactly_and_let_go_at_once() {
    let clocks = Clocks { silence: Some(Duration::from_secs(3)), ..Clocks::interactive() };
    let preamble = Script::body([Act::Wait(2000), Act::Preamble, Act::Wait(2000), Act::Preamble, Act::Hang]);
    let stall = Script::body([Act::Text("x"), Act::Wait(1000), Act::Text("y"), Act::Hang]);
    for (script, clock, ms) in [
        (Script::head([Act::Hang]), Clock::Silence, 3000),
        (preamble, Clock::FirstOutput, 5000),
        (stall, Clock::Idle, 2500),
    ] {
        let log = Log::default();
        let begun = Instant::now();
        let (_, end) = ask(&mut clocked(clocks, script, &log), request()).await;
        assert_eq!(end.unwrap_err().code(), Code::Timeout(clock));
        assert_eq!(begun.elapsed(), Duration::from_millis(ms), "{clock:?}");
        assert_eq!(log.open(), 0);
    }
}

/// Scenario: keep-alives while nothing else comes.
/// Expected: ignored they MUST touch no clock of outputs; `extend_first` MUST push clock 1 only, `any` both; all MUST
/// push silence, and none the deadline.
#[tokio::test(start_paused = true)]
async fn keep_alives_move_only_the_clocks_they_are_told_to() {
    let beats = |mut acts: Vec<Act>| {
        for _ in 0..20 {
            acts.extend([Act::Wait(1000), Act::KeepAlive]);
        }
        acts.push(Act::Done);
        Script::body(acts)
    };
    let base = Clocks { silence: Some(Duration::from_secs(2)), ..Clocks::interactive() };
    for (keep_alive, first, then) in [
        (KeepAlive::Ignore, Some(5000), Some(1500)),
        (KeepAlive::ExtendFirst, None, Some(1500)),
        (KeepAlive::Any, None, None),
    ] {
        for (acts, expected) in [(vec![], first), (vec![Act::Text("x")], then)] {
            let begun = Instant::now();
            let clocks = Clocks { keep_alive, ..base };
            let (_, end) = ask(&mut clocked(clocks, beats(acts), &Log::default()), request()).await;
            let expired = end.err().map(|_| begun.elapsed().as_millis());
            assert_eq!(expired, expected, "{keep_alive:?}");
        }
    }
    let clocks = Clocks { keep_alive: KeepAlive::Any, ..base };
    let within = request().within(Duration::from_millis(3500));
    let failure = ask(&mut clocked(clocks, beats(vec![]), &Log::default()), within).await.1.unwrap_err();
    assert_eq!(failure.code(), Code::Deadline);
}

/// Scenario: a consumer that stays away between items, and one that leaves while it waits.
/// Expected: it MUST never be taken for a stalled provider; a timer found late MUST grant one whole new window, no more.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_away_is_no_stalled_provider() {
    let clocks = Clocks::interactive();
    let away = Duration::from_secs(100);
    let script = Script::body([Act::Text("x"), Act::Text("y"), Act::Done]);
    let mut service = clocked(clocks, script, &Log::default());
    let mut reply = service.ready().await.unwrap().call(request()).await.unwrap();
    while let Some(event) = reply.next().await {
        event.unwrap();
        advance(away).await;
    }

    let script = Script::body([Act::Text("x"), Act::Hang]);
    let mut service = clocked(clocks, script, &Log::default());
    let mut reply = service.ready().await.unwrap().call(request()).await.unwrap();
    reply.next().await.unwrap().unwrap();
    assert!(futures_util::FutureExt::now_or_never(reply.next()).is_none());
    advance(away).await;
    let back = Instant::now();
    assert_eq!(reply.next().await.unwrap().unwrap_err().code(), Code::Timeout(Clock::Idle));
    assert_eq!(back.elapsed(), Duration::from_millis(1500));
    assert!(reply.next().await.is_none());
}

/// Scenario: output that is ready in the same instant in which a clock runs out.
/// Expected: the output MUST win.
#[tokio::test(start_paused = true)]
async fn ready_data_beats_a_due_timer() {
    let script = Script::body([Act::Wait(5000), Act::Text("x"), Act::Wait(1500), Act::Text("y"), Act::Done]);
    assert!(ask(&mut clocked(Clocks::interactive(), script, &Log::default()), request()).await.1.is_ok());
}

/// Scenario: a call that is not streamed, one that asks for reasoning, one with clocks of its own, one that counts the
/// head as first.
/// Expected: MUST have total only; the clocks of reasoning; its own; clock 2 from the head on.
#[tokio::test(start_paused = true)]
async fn each_kind_of_call_has_its_clocks() {
    use watertight::chat::{Effort, Request};
    let hang = || Script::body([Act::Preamble, Act::Hang]);
    let second = Duration::from_secs(1);
    let own = Clocks { first_output: Some(second), ..Clocks::default() };
    for (clocks, request, clock, expected) in [
        (Clocks::interactive(), Request::new("m").user("x"), Clock::Total, 300 * second),
        (
            Clocks { silence: None, ..Clocks::interactive() },
            request().reasoning(Effort::Adaptive),
            Clock::FirstOutput,
            300 * second,
        ),
        (Clocks::interactive(), request().attach(own), Clock::FirstOutput, second),
        (
            Clocks { first: FirstClock::Byte, ..Clocks::interactive() },
            request(),
            Clock::Idle,
            Duration::from_millis(1500),
        ),
    ] {
        let begun = Instant::now();
        let failure = ask(&mut clocked(clocks, hang(), &Log::default()), request).await.1.unwrap_err();
        assert_eq!(failure.code(), Code::Timeout(clock));
        assert_eq!(begun.elapsed(), expected);
    }
}

/// Scenario: a service and a stream that are always ready, with no runtime around.
/// Expected: MUST need neither a clock nor a timer, which would panic here.
#[test]
fn what_is_always_ready_needs_no_timer() {
    let reply = || {
        Reply::new(
            Head::default(),
            Steps(vec![Step::Output; 60].into_iter().chain([Step::Complete]).collect()),
        )
    };
    let service =
        tower::service_fn(move |_: watertight::chat::Request| std::future::ready(Ok::<_, Failure>(reply())));
    let service = DualClockTimeoutLayer::default().layer(service);
    let reply = futures_util::FutureExt::now_or_never(service.oneshot(request())).unwrap().unwrap();
    assert_eq!(poll(reply, 200), 0);
}

/// Scenario: an HTTP body that stalls after a frame, under the same layer.
/// Expected: MUST fail with the clock's failure, and be empty after it.
#[tokio::test(start_paused = true)]
async fn an_http_body_has_the_same_clocks() {
    let frames = futures_util::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("x")))]);
    let stalls = StreamBody::new(frames.chain(futures_util::stream::pending()));
    let stalls = Arc::new(Mutex::new(Some(stalls)));
    let service = tower::service_fn(move |_: http::Request<()>| {
        let body = stalls.lock().unwrap().take().expect("it is asked once");
        std::future::ready(Ok::<_, tower::BoxError>(Response::new(body)))
    });
    let service = DualClockTimeoutLayer::new(Clocks::interactive()).unwrap().layer(service);
    let mut body = service.oneshot(http::Request::new(())).await.unwrap().into_body();
    let begun = Instant::now();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "x");
    let error = body.frame().await.unwrap().unwrap_err();
    let failure = error.downcast_ref::<Failure>().expect("a failure of ours");
    assert_eq!(failure.code(), Code::Timeout(Clock::Idle));
    assert_eq!(begun.elapsed(), Duration::from_millis(1500));
    assert!(body.frame().await.is_none());
    assert!(body.is_end_stream());
}

/// Scenario: a stream under the least rate; then, where streams usually come briskly, one above the least rate but at
/// less than a tenth of the usual one.
/// Expected: both MUST be told and, since it is asked for, cut; the same stream MUST pass where nothing is learned yet.
#[tokio::test(start_paused = true)]
async fn a_stream_that_crawls_is_told_and_cut() {
    const PIECE: &str = "a piece of forty bytes, or nearly so many";
    let second = Duration::from_secs(1);
    let crawl = Some(Crawl { window: second, cut: true, ..Crawl::default() });
    let clocks = Clocks { crawl, ..Clocks::default() };
    let stream = |every, text, times| {
        let pieces = (0..times).flat_map(|_| [Act::Wait(every), Act::Text(text)]);
        Script::body(pieces.chain([Act::Done]))
    };
    let (slow, brisk) = (stream(100, "x", 50), stream(100, PIECE, 400));
    let (facts, told) = support::facts();
    let layer = DualClockTimeoutLayer::with_reasoning(clocks, clocks).unwrap().facts(&facts);
    let scripts = [slow.clone(), brisk, slow, stream(5000, "x", 3)];
    let mut service = layer.layer(Stage::new("", &Log::default(), scripts));
    assert!(ask(&mut service, request()).await.1.is_ok());
    assert!(ask(&mut service, request()).await.1.is_ok());
    for _ in 0..2 {
        let failure = ask(&mut service, request()).await.1.unwrap_err();
        assert_eq!(failure.code(), Code::Timeout(Clock::Idle));
    }
    assert_eq!(*told.lock().unwrap(), ["crawling", "timed_out", "crawling", "timed_out"]);
}
