//! The clocks of one attempt, on a paused clock: what `streaming.rs` leaves, clock by clock.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use support::{Act, Log, Script, Stage, ask, fail, read, request};
use tokio::time::{Instant, advance, sleep};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use watertight::chat::{
    Ask, Call, End, Event, Head, Observer, Outcome, Reply, Request, Sign, ToolCall, ToolCallStart,
    ToolRequest, Watch,
};
use watertight::event::{Fact, Facts};
use watertight::failure::{Clock, Code, Failure};
use watertight::layers::DualClockTimeoutLayer;
use watertight::layers::timeout::{Clocks, Crawl, Expired, FirstClock, KeepAlive, TimeoutSnapshot};
use watertight::observe::Plain;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn layer(clocks: Clocks) -> DualClockTimeoutLayer {
    DualClockTimeoutLayer::new(clocks).unwrap()
}

/// Calls under these clocks, and tells the code of the end and when it came, in milliseconds.
async fn run(clocks: Clocks, script: Script, request: Request) -> (Option<Code>, u128) {
    let begun = Instant::now();
    let (_, end) = ask(&mut layer(clocks).layer(Stage::new("a", &Log::default(), [script])), request).await;
    (end.err().map(|failure| failure.code()), begun.elapsed().as_millis())
}

fn with(mut request: Request, change: impl FnOnce(&mut Call)) -> Request {
    let mut call = request.call();
    change(&mut call);
    request.set_call(call);
    request
}

/// Text every second, so often.
fn ticking(times: usize) -> Vec<Act> {
    (0..times).flat_map(|_| [Act::Wait(1000), Act::Text("x")]).collect()
}

type Events = stream::BoxStream<'static, Result<Event, Failure>>;

/// These events, each after so many milliseconds, then nothing for ever.
fn paced(events: Vec<(u64, Event)>) -> Events {
    let one = |(after, event)| async move {
        sleep(Duration::from_millis(after)).await;
        Ok(event)
    };
    stream::iter(events).then(one).chain(stream::pending()).boxed()
}

/// Scenario: a stream that is healthy for an hour; the same under a total, and under a deadline.
/// Expected: no clock MUST cut it but the total or the deadline, at the exact instant; outputs MUST move neither.
#[tokio::test(start_paused = true)]
async fn a_healthy_stream_ends_by_total_or_deadline_alone() {
    let endless = Clocks { total_stream: None, ..Clocks::interactive() };
    let mut hour = ticking(3600);
    hour.push(Act::Done);
    assert_eq!(run(endless, Script::body(hour.clone()), request()).await, (None, 3_600_000));
    let (code, at) = run(Clocks::interactive(), Script::body(hour.clone()), request()).await;
    assert_eq!((code, at), (Some(Code::Timeout(Clock::Total)), 30 * 60_000));
    let request = request().within(Duration::from_millis(7300));
    assert_eq!(run(endless, Script::body(hour), request).await, (Some(Code::Deadline), 7300));
}

/// Scenario: a call that is not streamed and never answered, with and without a deadline before its total.
/// Expected: MUST have neither clock 1 nor clock 2 nor silence; the sooner of the two MUST end it under its own name.
#[tokio::test(start_paused = true)]
async fn a_whole_answer_has_total_and_deadline_alone() {
    let whole = || Request::new("model").user("hello");
    let clocks = Clocks { silence: Some(seconds(1)), total: Some(seconds(20)), ..Clocks::interactive() };
    for hang in [Script::head([Act::Hang]), Script::body([Act::Preamble, Act::Hang])] {
        let total = run(clocks, hang.clone(), whole()).await;
        assert_eq!(total, (Some(Code::Timeout(Clock::Total)), 20_000));
        assert_eq!(run(clocks, hang.clone(), whole().within(seconds(6))).await, (Some(Code::Deadline), 6000));
        let off = Clocks::off();
        assert_eq!(run(off, hang, whole().within(seconds(6))).await, (Some(Code::Deadline), 6000));
    }
}

/// Scenario: a candidate that must bring its first output by an instant: it hangs before its head, sends preamble and
/// keep-alives only, is clocked by its head; it brings output in time; it was whole in time.
/// Expected: MUST be left then, as `TIMEOUT_FIRST_OUTPUT`; after the first output the instant MUST mean nothing.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_brings_nothing_in_time_is_left() {
    let soon = || with(request(), |call| call.commit_by = Some(Instant::now() + seconds(3)));
    let left = (Some(Code::Timeout(Clock::FirstOutput)), 3000);
    let shy = || Script::body([Act::Preamble, Act::Wait(1000), Act::KeepAlive, Act::Preamble, Act::Hang]);
    assert_eq!(run(Clocks::interactive(), Script::head([Act::Hang]), soon()).await, left);
    assert_eq!(run(Clocks::off(), shy(), soon()).await, left);
    let any = Clocks { keep_alive: KeepAlive::Any, ..Clocks::interactive() };
    assert_eq!(run(any, shy(), soon()).await, left);
    let by_head = Clocks { first: FirstClock::Byte, idle: None, ..Clocks::default() };
    assert_eq!(run(by_head, shy(), soon()).await, left);

    let bold = || Script::body([Act::Text("x"), Act::Wait(9000), Act::Text("y"), Act::Done]);
    assert_eq!(run(Clocks::default(), bold(), soon()).await, (None, 9000));
    let whole = with(Request::new("model").user("hello"), |call| call.commit_by = soon().call().commit_by);
    assert_eq!(run(Clocks::default(), bold(), whole).await, (None, 9000));
}

/// Scenario: outputs of every kind, each within clock 2 of the one before, while no text comes.
/// Expected: thoughts, refusals, tool calls and their arguments MUST stop clock 1 and restart clock 2; empty pieces,
/// usage and closes MUST do neither.
#[tokio::test(start_paused = true)]
async fn every_kind_of_content_is_output() {
    let outputs = vec![
        (4900, Event::Reasoning { index: 0, text: "hm".into() }),
        (1400, Event::Refusal { index: 1, text: "no".into() }),
        (1400, Event::ToolCall { index: 2, start: Box::new(ToolCallStart::new("c", "")) }),
        (1400, Event::ToolArguments { index: 2, text: "{".into() }),
    ];
    let others = vec![
        (1000, Event::text(0, "")),
        (100, Event::Reasoning { index: 1, text: String::new() }),
        (100, Event::ToolCall { index: 2, start: Box::default() }),
        (100, Event::ToolArguments { index: 2, text: String::new() }),
        (100, Event::Usage(Box::default())),
        (50, Event::Closed { index: 0, part: None }),
    ];
    for (events, clock, at) in
        [(outputs, Clock::Idle, 4900 + 3 * 1400 + 1500), (others, Clock::FirstOutput, 5000)]
    {
        let begun = Instant::now();
        let events = Arc::new(Mutex::new(Some(paced(events))));
        let service = service_fn(move |_: Request| {
            let reply = Reply::new(Head::default(), events.lock().unwrap().take().unwrap());
            std::future::ready(Ok::<_, Failure>(reply))
        });
        let (_, end) = ask(&mut layer(Clocks::interactive()).layer(service), request()).await;
        assert_eq!(end.unwrap_err().code(), Code::Timeout(clock));
        assert_eq!(begun.elapsed().as_millis(), at);
    }
}

/// Scenario: clocks in the order of their precedence: the layer's, those for reasoning, the request's own.
/// Expected: the request's own MUST come before both; reasoning MUST keep what keep-alives do in the layer.
#[tokio::test(start_paused = true)]
async fn the_clocks_of_the_request_come_first() {
    use watertight::chat::Effort;
    let own = Clocks { first_output: Some(seconds(2)), ..Clocks::default() };
    let thinking = || request().reasoning(Effort::Adaptive);
    let hang = || Script::head([Act::Hang]);
    let first = Some(Code::Timeout(Clock::FirstOutput));
    assert_eq!(run(Clocks::interactive(), hang(), request()).await, (first, 5000));
    assert_eq!(run(Clocks::interactive(), hang(), thinking()).await, (first, 300_000));
    assert_eq!(run(Clocks::interactive(), hang(), request().attach(own)).await, (first, 2000));
    assert_eq!(run(Clocks::interactive(), hang(), thinking().attach(own)).await, (first, 2000));

    let given = DualClockTimeoutLayer::with_reasoning(Clocks::default(), own).unwrap();
    let begun = Instant::now();
    ask(&mut given.layer(Stage::new("a", &Log::default(), [hang()])), thinking()).await.1.unwrap_err();
    assert_eq!(begun.elapsed(), seconds(2));

    let beats = (0..50).flat_map(|_| [Act::Wait(10_000), Act::KeepAlive]).chain([Act::Text("x"), Act::Done]);
    let any = Clocks { keep_alive: KeepAlive::Any, ..Clocks::interactive() };
    assert_eq!(run(any, Script::body(beats), thinking()).await, (None, 500_000));
}

/// Scenario: a request asks for reasoning where clocks are off, and where they are longer than those for reasoning.
/// Expected: what is off MUST stay off, and what is longer MUST stay longer.
#[tokio::test(start_paused = true)]
async fn reasoning_lengthens_clocks_and_switches_none_on() {
    use watertight::chat::Effort;
    let thinking = || request().reasoning(Effort::Adaptive);
    let late = Script::body([Act::Wait(10 * 60 * 60 * 1000), Act::Text("x"), Act::Done]);
    assert_eq!(run(Clocks::off(), late, thinking()).await.0, None);
    let long = Clocks { first_output: Some(seconds(900)), silence: None, ..Clocks::default() };
    let first = Some(Code::Timeout(Clock::FirstOutput));
    assert_eq!(run(long, Script::head([Act::Hang]), thinking()).await, (first, 900_000));
}

/// Scenario: streams come briskly where each request brings the same clocks of its own; then one at a tenth.
/// Expected: the usual rate MUST be learned over them, and the slow one be cut.
#[tokio::test(start_paused = true)]
async fn the_usual_rate_is_learned_over_requests_with_clocks_of_their_own() {
    let own = Clocks {
        crawl: Some(Crawl { window: seconds(1), cut: true, ..Crawl::default() }),
        ..Clocks::default()
    };
    let stream = |text, times: u32| {
        let pieces = (0..times).flat_map(|_| [Act::Wait(100), Act::Text(text)]);
        Script::body(pieces.chain([Act::Done]))
    };
    let brisk = stream("a piece of forty bytes, or nearly so many", 60);
    let scripts = std::iter::repeat_n(brisk, 8).chain([stream("x", 60)]);
    let layer = layer(Clocks::default());
    let mut service = layer.layer(Stage::new("", &Log::default(), scripts));
    assert_eq!(layer.snapshot().plain.usual_rate, None);
    for _ in 0..8 {
        ask(&mut service, request().attach(own)).await.1.unwrap();
    }
    assert!(ask(&mut service, request().attach(own)).await.1.is_err());
    let plain = layer.snapshot().plain;
    assert!(plain.usual_rate.is_some_and(|rate| (350.0..=450.0).contains(&rate)), "{plain:?}");
    assert_eq!(plain.expired.idle, 1);
}

/// Scenario: each clock runs out, most of them more than once, for requests of both kinds.
/// Expected: the layer's snapshot MUST count each by its name and kind, and show the clocks, as JSON too.
#[tokio::test(start_paused = true)]
async fn a_snapshot_counts_what_ran_out() {
    let clocks =
        Clocks { silence: Some(seconds(4)), total_stream: Some(seconds(9)), ..Clocks::interactive() };
    let layer = layer(clocks);
    let beats = || Script::body([Act::Wait(3000), Act::KeepAlive, Act::Wait(3000)]);
    let stalls = || Script::body([Act::Text("x"), Act::Hang]);
    let scripts = [
        Script::says("x"),
        Script::head([Act::Hang]),
        beats(),
        beats(),
        stalls(),
        stalls(),
        stalls(),
        Script::body(ticking(20)),
    ];
    let mut service = layer.layer(Stage::new("a", &Log::default(), scripts));
    for _ in 0..8 {
        let _ = ask(&mut service, request()).await;
    }
    let mut thinking = layer.layer(Stage::new("a", &Log::default(), [Script::head([Act::Hang])]));
    let thinks = request().reasoning(watertight::chat::Effort::Adaptive);
    let _ = ask(&mut thinking, thinks).await;
    let TimeoutSnapshot { plain, reasoning, .. } = layer.snapshot();
    let Expired { first_output, idle, silence, total, .. } = plain.expired;
    assert_eq!((first_output, idle, silence, total), (2, 3, 1, 1));
    assert_eq!(plain.clocks, clocks);
    assert_eq!(reasoning.expired.silence + reasoning.expired.first_output, 1);
    let shown = serde_json::to_value(layer.snapshot()).unwrap();
    assert_eq!(shown["plain"]["expired"]["idle"], 3);
    assert_eq!(shown["plain"]["clocks"]["silence"], "4s");
}

/// Scenario: a request brings clocks that cannot work; one of them would measure a rate over no time.
/// Expected: MUST be refused by the field's name before anything is sent, and never retried.
#[tokio::test(start_paused = true)]
async fn clocks_that_cannot_work_are_refused_unsent() {
    let crawl = Some(Crawl { window: Duration::ZERO, ..Crawl::default() });
    let broken =
        [Clocks { crawl, ..Clocks::default() }, Clocks { idle: Some(Duration::ZERO), ..Clocks::default() }];
    for (own, field) in broken.into_iter().zip(["`crawl.window`", "`idle`"]) {
        let log = Log::default();
        let script = Script::body([Act::Text("x"), Act::Hang]);
        let mut service = layer(Clocks::default()).layer(Stage::new("a", &log, [script]));
        let failure = ask(&mut service, request().attach(own)).await.1.unwrap_err();
        assert_eq!(failure.code(), Code::InvalidRequest);
        assert!(failure.is_local() && !failure.judgement().retry);
        assert!(failure.message().contains(field), "{failure}");
        assert_eq!(log.calls().len(), 0);
    }
}

/// Scenario: a consumer that leaves after `Pending`: once; twice with nothing between; twice with a keep-alive
/// between; for less than a scheduler may be late.
/// Expected: one new window for each time that something came, then the verdict; a short absence MUST grant none.
#[tokio::test(start_paused = true)]
async fn an_absent_consumer_is_granted_one_window() {
    let away = async |script: Script, absences: &[u64]| {
        let mut service = layer(Clocks::interactive()).layer(Stage::new("a", &Log::default(), [script]));
        let mut reply = service.ready().await.unwrap().call(request()).await.unwrap();
        reply.next().await.unwrap().unwrap();
        for absence in absences {
            match reply.next().now_or_never() {
                None | Some(Some(Ok(Event::KeepAlive))) => advance(Duration::from_millis(*absence)).await,
                Some(item) => return (item.unwrap().unwrap_err().code(), 0),
            }
        }
        let back = Instant::now();
        loop {
            match reply.next().await.unwrap() {
                Ok(event) => assert!(matches!(event, Event::KeepAlive)),
                Err(failure) => return (failure.code(), back.elapsed().as_millis()),
            }
        }
    };
    let stall = || Script::body([Act::Text("x"), Act::Hang]);
    let beat = Script::body([Act::Text("x"), Act::Wait(150_000), Act::KeepAlive, Act::Hang]);
    let idle = Code::Timeout(Clock::Idle);
    assert_eq!(away(stall(), &[100_000]).await, (idle, 1500), "one whole new window");
    assert_eq!(away(stall(), &[100_000, 100_000]).await, (idle, 0), "and no second");
    assert_eq!(away(stall(), &[1700]).await, (idle, 0), "nobody is 200 ms away");
    assert_eq!(away(stall(), &[1800]).await, (idle, 1500), "300 ms late is away");
    assert_eq!(away(beat, &[100_000, 100_000, 100_000]).await, (idle, 1500), "the keep-alive gave another");
}

/// Scenario: the consumer was away past the deadline, past the total, and past the instant of the first output.
/// Expected: MUST grant nothing there: those are the caller's own time.
#[tokio::test(start_paused = true)]
async fn no_absence_moves_the_callers_own_time() {
    type Demand = fn(&mut Call, Option<Instant>);
    let soon = || Some(Instant::now() + seconds(3));
    let demands: [(Demand, Code); 3] = [
        (|call, soon| call.deadline = soon, Code::Deadline),
        (|_, _| {}, Code::Timeout(Clock::Total)),
        (|call, soon| call.commit_by = soon, Code::Timeout(Clock::FirstOutput)),
    ];
    for (demand, code) in demands {
        let request = with(request(), |call| demand(call, soon()));
        let clocks = Clocks { total_stream: Some(seconds(4)), ..Clocks::interactive() };
        let stage = Stage::new("a", &Log::default(), [Script::body([Act::Preamble, Act::Hang])]);
        let mut service = layer(clocks).layer(stage);
        let mut reply = service.ready().await.unwrap().call(request).await.unwrap();
        assert!(matches!(reply.next().await, Some(Ok(Event::Started { .. }))));
        assert!(reply.next().now_or_never().is_none());
        advance(seconds(100)).await;
        assert_eq!(reply.next().now_or_never().unwrap().unwrap().unwrap_err().code(), code);
    }
}

/// What was told of clocks: the clock or the rate, and over which time.
fn told() -> (Facts, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let facts = Facts::to(move |fact: &Fact<'_>| {
        sink.lock().unwrap().push(match fact {
            Fact::TimedOut { clock, after, .. } => format!("{clock:?} {after:?}"),
            Fact::Crawling { rate, .. } => format!("crawling {rate}"),
            fact => fact.name().to_owned(),
        });
    });
    (facts, told)
}

/// Scenario: each clock runs out; the deadline passes; an answer is in time.
/// Expected: each expiry MUST be told once with its clock and length, and its failure MUST say both; the rest MUST
/// tell nothing.
#[tokio::test(start_paused = true)]
async fn an_expiry_is_told_with_its_clock_and_length() {
    let clocks =
        Clocks { silence: Some(seconds(4)), total_stream: Some(seconds(9)), ..Clocks::interactive() };
    let beats = [Act::Wait(3000), Act::KeepAlive, Act::Wait(3000)];
    for (script, fact, words) in [
        (Script::head([Act::Hang]), Some("Silence 4s"), "TIMEOUT_SILENCE: not a byte within 4s"),
        (Script::body(beats), Some("FirstOutput 5s"), "TIMEOUT_FIRST_OUTPUT: no output within 5s"),
        (
            Script::body([Act::Text("x"), Act::Hang]),
            Some("Idle 1.5s"),
            "TIMEOUT_IDLE: no further output within 1.5s",
        ),
        (Script::body(ticking(20)), Some("Total 9s"), "TIMEOUT_TOTAL: no end within 9s"),
        (Script::says("x"), None, ""),
    ] {
        let (facts, told) = told();
        let mut service = layer(clocks).facts(&facts).layer(Stage::new("a", &Log::default(), [script]));
        let (_, end) = ask(&mut service, request()).await;
        assert_eq!(end.err().map(|failure| failure.to_string()).unwrap_or_default(), words);
        assert_eq!(told.lock().unwrap().iter().map(String::as_str).collect::<Vec<_>>(), Vec::from_iter(fact));
    }
    let (facts, told) = told();
    let mut service =
        layer(clocks).facts(&facts).layer(Stage::new("a", &Log::default(), [Script::head([Act::Hang])]));
    ask(&mut service, request().within(seconds(1))).await.1.unwrap_err();
    assert!(told.lock().unwrap().is_empty());
}

/// Scenario: a stream of one byte a second; then a fast spell, then slow again; a consumer that is away.
/// Expected: MUST be told once a spell; cut only where that is configured, and at the window's end; absence MUST say
/// nothing.
#[tokio::test(start_paused = true)]
async fn a_crawl_is_told_once_a_spell_and_cut_on_demand() {
    let crawl = Crawl { tokens_per_second: 0.5, window: seconds(10), cut: false };
    let crawling = |crawl| Clocks { crawl: Some(crawl), ..Clocks::default() };
    let run = async |clocks: Clocks, acts: Vec<Act>| {
        let (facts, told) = told();
        let mut service =
            layer(clocks).facts(&facts).layer(Stage::new("", &Log::default(), [Script::body(acts)]));
        let begun = Instant::now();
        let end = ask(&mut service, request()).await.1;
        let told = told.lock().unwrap().clone();
        (end.err().map(|failure| failure.to_string()), begun.elapsed().as_secs(), told)
    };
    let slow = || ticking(35);
    let fast = || (0..25).flat_map(|_| [Act::Wait(1000), Act::Text("four of them")]);
    let (end, _, facts) = run(crawling(crawl), slow().into_iter().chain([Act::Done]).collect()).await;
    assert_eq!((end, facts), (None, vec!["crawling 1".to_owned()]));
    let spells = slow().into_iter().chain(fast()).chain(slow()).chain([Act::Done]).collect();
    let (end, _, facts) = run(crawling(crawl), spells).await;
    assert_eq!((end, facts.len()), (None, 2), "{facts:?}");
    let (_, _, facts) = run(crawling(crawl), fast().chain([Act::Done]).collect()).await;
    assert!(facts.is_empty(), "{facts:?}");

    let (end, at, facts) = run(crawling(Crawl { cut: true, ..crawl }), slow()).await;
    assert_eq!(end.unwrap(), "TIMEOUT_IDLE: 1.0 bytes of output a second over 10s");
    assert_eq!((at, facts), (11, vec!["crawling 1".to_owned(), "Idle 10s".to_owned()]));

    let (facts, told) = told();
    let clocks = Clocks { idle: None, silence: None, ..crawling(Crawl { cut: true, ..crawl }) };
    let stage = Stage::new("", &Log::default(), [Script::body([Act::Text("x"), Act::Hang])]);
    let mut service = layer(clocks).facts(&facts).layer(stage);
    let mut reply = service.ready().await.unwrap().call(request()).await.unwrap();
    reply.next().await.unwrap().unwrap();
    assert!(reply.next().now_or_never().is_none());
    advance(seconds(100)).await;
    assert!(reply.next().now_or_never().is_none(), "nothing was fetched, and nobody is slow");
    assert!(told.lock().unwrap().is_empty());
}

/// Scenario: observers on both sides of the clocks when one runs out.
/// Expected: the one inside MUST see that its caller left, the one outside MUST see the failure, each once.
#[tokio::test(start_paused = true)]
async fn each_side_of_a_clock_is_told_its_own_end() {
    struct Told(Arc<Mutex<Vec<Outcome>>>);
    impl Observer for Told {
        fn settle(self, how: End<'_>) {
            self.0.lock().unwrap().push(how.into());
        }
    }
    let [inside, outside]: [Arc<Mutex<Vec<Outcome>>>; 2] = Default::default();
    let stage = Stage::new("a", &Log::default(), [Script::body([Act::Text("x"), Act::Hang])]);
    let seen = Arc::clone(&inside);
    let watched = stage.map_response(move |reply| reply.follow(Watch::new(Told(Arc::clone(&seen)))));
    let reply = layer(Clocks::interactive()).layer(watched).oneshot(request()).await.unwrap();
    let (_, end) = read(reply.follow(Watch::new(Told(Arc::clone(&outside))))).await;
    end.unwrap_err();
    assert_eq!(*inside.lock().unwrap(), [Outcome::Abandoned]);
    assert_eq!(*outside.lock().unwrap(), [Outcome::Failed(Code::Timeout(Clock::Idle))]);
}

/// Frames that come after so many milliseconds each, then nothing for ever.
fn frames(after: Vec<u64>) -> StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, BoxError>>> {
    let frame = |after| async move {
        sleep(Duration::from_millis(after)).await;
        Ok(Frame::data(Bytes::from_static(b"x")))
    };
    StreamBody::new(stream::iter(after).then(frame).chain(stream::pending()).boxed())
}

/// Scenario: HTTP bodies under each clock: no head, no frame, a stall, a deadline, and an instant for the first
/// output that passes after the head.
/// Expected: the clock's failure at its exact length; the instant MUST not cut a response that was handed up.
#[tokio::test(start_paused = true)]
async fn http_bodies_run_on_the_same_clocks() {
    let run = async |after: Option<Vec<u64>>, change: fn(&mut Call)| {
        let service = service_fn(move |_: http::Request<()>| {
            let body = after.clone().map(frames);
            async {
                match body {
                    Some(body) => Ok::<_, BoxError>(Response::new(body)),
                    None => std::future::pending().await,
                }
            }
        });
        let (mut request, mut call) = (http::Request::new(()), Call::new());
        change(&mut call);
        request.set_call(call);
        let begun = Instant::now();
        let end = match layer(Clocks::interactive()).layer(service).oneshot(request).await {
            Ok(response) => BodyExt::collect(response.into_body()).await.map(drop),
            Err(error) => Err(error),
        };
        let failure = *end.unwrap_err().downcast::<Failure>().unwrap();
        (failure.code(), begun.elapsed().as_millis())
    };
    let (first, idle) = (Code::Timeout(Clock::FirstOutput), Code::Timeout(Clock::Idle));
    let soon: fn(&mut Call) = |call| call.commit_by = Some(Instant::now() + seconds(2));
    assert_eq!(run(None, |_| {}).await, (first, 5000));
    assert_eq!(run(Some(vec![]), |_| {}).await, (first, 5000));
    assert_eq!(run(Some(vec![4900, 1400]), |_| {}).await, (idle, 4900 + 1400 + 1500));
    assert_eq!(
        run(Some(vec![]), |call| call.deadline = Some(Instant::now() + seconds(3))).await.0,
        Code::Deadline
    );
    assert_eq!(run(None, soon).await, (first, 2000));
    assert_eq!(run(Some(vec![4900]), soon).await, (idle, 4900 + 1500));
}

/// Scenario: clocks are put on a service that is not ready, and on one that fails by itself.
/// Expected: readiness and failures MUST pass as they are.
#[tokio::test(start_paused = true)]
async fn readiness_and_failures_pass_as_they_are() {
    let (mut mock, mut handle) =
        tower_test::mock::spawn_with(|mock: tower_test::mock::Mock<Request, Reply<Events>>| {
            layer(Clocks::interactive()).layer(mock)
        });
    handle.allow(0);
    assert!(mock.poll_ready().is_pending());
    handle.allow(1);
    assert!(mock.poll_ready().is_ready());
    assert_eq!(
        run(Clocks::default(), Script::fails(Code::Conflict), request()).await.0,
        Some(Code::Conflict)
    );
    let late = Script::body([Act::Text("x"), Act::Fail(fail(Code::Overloaded))]);
    assert_eq!(run(Clocks::default(), late, request()).await.0, Some(Code::Overloaded));
}

/// Any script of a call: waits, preamble, keep-alives, output, an end of some kind or none.
fn scripts() -> impl Strategy<Value = (Vec<Act>, usize)> {
    let act = prop_oneof![
        (1..4000_u64).prop_map(Act::Wait),
        Just(Act::Preamble),
        Just(Act::KeepAlive),
        Just(Act::Text("x")),
        Just(Act::Done),
        Just(Act::End),
        Just(Act::Hang),
        Just(Act::Fail(fail(Code::Transport))),
    ];
    (prop::collection::vec(act, 0..10), 0..14_usize)
}

type Stack = fn(Stage) -> tower::util::BoxService<Request, Events, Failure>;

/// The law: dropped after any number of polls, before or after the head, a call holds nothing any more; and a call
/// that ended holds nothing even before it is dropped.
fn a_drop_leaves_nothing_held(stack: Stack) -> Result<(), TestError<(Vec<Act>, usize)>> {
    let config = Config { failure_persistence: None, ..Config::with_cases(128) };
    let strategy = scripts();
    TestRunner::new(config).run(&strategy, |(acts, polls)| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        runtime.block_on(async {
            let log = Log::default();
            let cut = acts.len() / 2;
            let script = Script { head: acts[..cut].to_vec(), body: acts[cut..].to_vec() };
            let mut service = stack(Stage::new("a", &log, [script]));
            let mut cx = Context::from_waker(Waker::noop());
            let mut call = service.ready().await.unwrap().call(request());
            let mut left = polls;
            let mut head = None;
            while left > 0 && head.is_none() {
                head = match call.poll_unpin(&mut cx) {
                    std::task::Poll::Ready(head) => Some(head),
                    std::task::Poll::Pending => None,
                };
                left -= 1;
                tokio::task::yield_now().await;
                advance(Duration::from_millis(700)).await;
            }
            drop(call);
            if let Some(Ok(mut reply)) = head {
                let mut ended = false;
                for _ in 0..left {
                    if let std::task::Poll::Ready(item) = reply.poll_next_unpin(&mut cx) {
                        prop_assert!(!ended || item.is_none(), "something came after the end");
                        ended |=
                            !matches!(item, Some(Ok(ref event)) if !matches!(event.sign(), Sign::End(_)));
                    }
                    advance(Duration::from_millis(700)).await;
                }
                drop(reply);
            }
            prop_assert_eq!(log.open(), 0);
            Ok(())
        })
    })
}

/// Scenario: any script, dropped at any poll.
/// Expected: nothing MUST be held; a timeout that leaves its attempt to a task of its own MUST be rejected.
#[test]
fn dropping_at_any_poll_leaves_nothing_held() {
    a_drop_leaves_nothing_held(|stage| {
        let clocked = layer(Clocks::interactive()).layer(stage);
        tower::util::BoxService::new(clocked.map_response(StreamExt::boxed))
    })
    .unwrap();
    a_drop_leaves_nothing_held(|stage| {
        let spawning = service_fn(move |request| {
            let call = tokio::spawn(stage.clone().oneshot(request));
            async { call.await.unwrap().map(StreamExt::boxed) }
        });
        tower::util::BoxService::new(spawning)
    })
    .unwrap_err();
}

/// Scenario: a stream that is always ready, fetched long after every clock was due; the same past its deadline.
/// Expected: what is ready MUST beat the clocks of a stalled provider; the deadline MUST hold all the same, soon.
#[tokio::test(start_paused = true)]
async fn what_is_ready_beats_all_but_the_callers_own_time() {
    let fetch = async |request: Request| {
        let acts = vec![Act::Text("x"); 500].into_iter().chain([Act::Done]);
        let stage = Stage::new("", &Log::default(), [Script::body(acts)]);
        let mut service = layer(Clocks::interactive()).layer(stage);
        let mut reply = service.ready().await.unwrap().call(request).await.unwrap();
        reply.next().await.unwrap().unwrap();
        advance(seconds(1000)).await;
        let (text, end) = read(reply).await;
        (text.len(), end.err().map(|failure| failure.code()))
    };
    assert_eq!(fetch(request()).await, (499, None));
    let (ready, code) = fetch(request().within(seconds(1))).await;
    assert!(ready < 100 && code == Some(Code::Deadline), "{ready} came, then {code:?}");
}

/// Scenario: a tool that answers in time, and one that never does, under the clock of what is not streamed.
/// Expected: the first MUST be answered; the second MUST be cut by that clock.
#[tokio::test(start_paused = true)]
async fn a_tool_has_the_clock_of_the_whole() {
    let clocks = Clocks { total: Some(seconds(2)), ..Clocks::default() };
    for (takes, ends) in [(1, true), (3, false)] {
        let tool = service_fn(move |_: ToolRequest| async move {
            sleep(seconds(takes)).await;
            Ok::<_, Failure>(Plain("done"))
        });
        let call = layer(clocks).layer(tool).oneshot(ToolRequest::new(ToolCall::new("1", "t", "{}")));
        match call.await {
            Ok(done) => assert!(ends && *done == "done"),
            Err(failure) => assert!(!ends && failure.code() == Code::Timeout(Clock::Total)),
        }
    }
}
