//! The circuit breaker over replies, HTTP bodies and plain results: what opens it, what heals it, and what must not.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http::{Request as HttpRequest, Response};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use support::{Act, Log, Script, Stage, ask, facts, fail, request};
use tokio::time::{advance, timeout};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use watertight::chat::{
    Ask, Completion, Cost, Event, Head, Message, Reply, Request, Role, Stop, ToolCall, ToolRequest, Usage,
};
use watertight::event::{Circuit, Fact, Facts};
use watertight::failure::{Breaker, Clock, Code, Failure};
use watertight::key::{Key, KeyBy};
use watertight::layers::circuit_breaker::{CircuitBreakerConfig, SlowConfig};
use watertight::layers::retry::RetryConfig;
use watertight::layers::timeout::Clocks;
use watertight::layers::{CircuitBreakerLayer, DualClockTimeoutLayer, RetryLayer};
use watertight::observe::Plain;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The defaults without chance.
fn plain() -> CircuitBreakerConfig {
    CircuitBreakerConfig { jitter: 0.0, ..CircuitBreakerConfig::default() }
}

fn breaker(config: CircuitBreakerConfig) -> CircuitBreakerLayer {
    CircuitBreakerLayer::new(config).unwrap().named("provider:p")
}

fn state(layer: &CircuitBreakerLayer) -> Circuit {
    layer.handle().unwrap().snapshot().state
}

/// A tool that answers as told, call after call; the last answer again and again.
fn tool(
    answers: impl IntoIterator<Item = Result<(), Failure>>,
) -> impl Service<ToolRequest, Response = Plain<()>, Error = Failure, Future: Unpin> + Clone {
    let answers: Arc<Mutex<VecDeque<_>>> = Arc::new(Mutex::new(answers.into_iter().collect()));
    service_fn(move |_: ToolRequest| {
        let mut answers = answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        std::future::ready(answer.unwrap_or(Ok(())).map(Plain))
    })
}

fn broken() -> Result<(), Failure> {
    Err(fail(Code::Server))
}

/// Calls a tool once.
fn call<S>(service: &mut S) -> Result<(), Code>
where
    S: Service<ToolRequest, Response = Plain<()>, Error = Failure>,
{
    try_call(service).map_err(|failure| failure.code())
}

fn try_call<S>(service: &mut S) -> Result<(), Failure>
where
    S: Service<ToolRequest, Response = Plain<()>, Error = Failure>,
{
    let request = ToolRequest::new(ToolCall::default());
    service.ready().now_or_never().unwrap()?.call(request).now_or_never().unwrap().map(|_| ())
}

/// Opens a circuit by a row of failures.
fn open<S>(service: &mut S)
where
    S: Service<ToolRequest, Response = Plain<()>, Error = Failure>,
{
    for _ in 0..5 {
        assert_eq!(call(service), Err(Code::Server));
    }
}

// === faults seen elsewhere ===

/// Scenario: 10,000 successes; a minute later the other side breaks.
/// Expected: ten failures MUST open it by the share alone: what was before the window weighs nothing.
#[tokio::test(start_paused = true)]
async fn many_successes_do_not_keep_it_closed() {
    let layer = breaker(CircuitBreakerConfig { failures: None, ..plain() });
    let answers = std::iter::repeat_n(Ok(()), 10_000).chain([broken()]);
    let mut service = layer.layer(tool(answers));
    for _ in 0..10_000 {
        assert_eq!(call(&mut service), Ok(()));
    }
    advance(secs(67)).await;
    for _ in 0..10 {
        assert_eq!(call(&mut service), Err(Code::Server));
    }
    assert_eq!(call(&mut service), Err(Code::CircuitOpen));
}

/// Scenario: half of the first ten outcomes fail.
/// Expected: MUST open at the tenth: it waits for `min_calls`, and for nothing else.
#[tokio::test(start_paused = true)]
async fn it_does_not_wait_for_a_full_window() {
    let layer = breaker(CircuitBreakerConfig { failures: None, ..plain() });
    let answers = (0..10).map(|n| if n < 5 { Ok(()) } else { broken() });
    let mut service = layer.layer(tool(answers));
    for _ in 0..9 {
        let _ = call(&mut service);
    }
    assert_eq!(state(&layer), Circuit::Closed);
    let _ = call(&mut service);
    assert_eq!(state(&layer), Circuit::Open);
}

/// Scenario: a call begins, the circuit opens, its rest passes, probes go out, and the old call succeeds; then the probes
/// do.
/// Expected: the old call MUST NOT count; the probes MUST close it.
#[tokio::test(start_paused = true)]
async fn a_call_from_before_does_not_close_it() {
    let layer = breaker(plain());
    let mut old = layer.layer(Stage::new("a", &Log::default(), [Script::says("x")]));
    let old = old.ready().await.unwrap().call(request()).await.unwrap();
    open(&mut layer.layer(tool([broken()])));
    advance(secs(30)).await;
    let mut stage = layer.layer(Stage::new("b", &Log::default(), [Script::says("x")]));
    let one = stage.ready().await.unwrap().call(request()).await.unwrap();
    let two = stage.ready().await.unwrap().call(request()).await.unwrap();
    assert!(support::read(old).await.1.is_ok());
    assert_eq!(layer.handle().unwrap().snapshot().probes, 2);
    assert!(support::read(one).await.1.is_ok());
    assert_eq!(state(&layer), Circuit::HalfOpen);
    assert!(support::read(two).await.1.is_ok());
    assert_eq!(state(&layer), Circuit::Closed);
}

/// Scenario: configurations that could never work.
/// Expected: each MUST be refused, and its field named.
#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let refused = |config: CircuitBreakerConfig| CircuitBreakerLayer::new(config).unwrap_err().field;
    let off = || CircuitBreakerConfig::default();
    assert_eq!(refused(CircuitBreakerConfig { probes: 0, ..off() }), "probes");
    assert_eq!(refused(CircuitBreakerConfig { successes: 0, ..off() }), "successes");
    assert_eq!(refused(CircuitBreakerConfig { failures: Some(0), ..off() }), "failures");
    assert_eq!(refused(CircuitBreakerConfig { min_calls: 0, ..off() }), "min_calls");
    assert_eq!(refused(CircuitBreakerConfig { ratio: Some(0.0), ..off() }), "ratio");
    assert_eq!(refused(CircuitBreakerConfig { ratio: Some(f64::NAN), ..off() }), "ratio");
    assert_eq!(refused(CircuitBreakerConfig { rest: Duration::ZERO, ..off() }), "rest");
    assert_eq!(refused(CircuitBreakerConfig { max_rest: secs(1), ..off() }), "max_rest");
    assert_eq!(refused(CircuitBreakerConfig { lease: Duration::ZERO, ..off() }), "lease");
    assert_eq!(refused(CircuitBreakerConfig { ramp: Some(Duration::ZERO), ..off() }), "ramp");
    assert_eq!(refused(CircuitBreakerConfig { growth: 0.5, ..off() }), "growth");
    assert_eq!(refused(CircuitBreakerConfig { jitter: 1.5, ..off() }), "jitter");
    assert_eq!(refused(CircuitBreakerConfig { anomaly: Some(f64::INFINITY), ..off() }), "anomaly");
    assert_eq!(refused(CircuitBreakerConfig { waste_share: 1.1, ..off() }), "waste_share");
    assert_eq!(refused(CircuitBreakerConfig { waste_failures: 0, ..off() }), "waste_failures");
    for ramp_shares in [vec![], vec![0.0], vec![0.5, 0.1], vec![0.5, f64::NAN], vec![0.5; 101]] {
        assert_eq!(refused(CircuitBreakerConfig { ramp_shares, ..off() }), "ramp_shares");
    }
    let slow = Some(SlowConfig { first_output: secs(1), ratio: 2.0 });
    assert_eq!(refused(CircuitBreakerConfig { slow, ..off() }), "slow.ratio");
}

/// Scenario: a configuration written as JSON, and one with a field that does not exist.
/// Expected: the first MUST read back as it was, the second MUST be refused.
#[test]
fn a_configuration_is_read_as_written() {
    let config = CircuitBreakerConfig {
        slow: Some(SlowConfig { first_output: secs(3), ratio: 0.5 }),
        ..CircuitBreakerConfig::frugal()
    };
    let text = serde_json::to_string(&config).unwrap();
    assert!(text.contains(r#""rest":"30s""#), "{text}");
    assert_eq!(serde_json::from_str::<CircuitBreakerConfig>(&text).unwrap(), config);
    assert_eq!(serde_json::from_str::<CircuitBreakerConfig>("{}").unwrap(), CircuitBreakerConfig::default());
    assert!(serde_json::from_str::<CircuitBreakerConfig>(r#"{"trips":1}"#).is_err());
}

/// Scenario: calls that never answer: five cut by a clock inside the breaker; and fifty dropped by a timeout outside it.
/// Expected: the first MUST open it. The others MUST be told as abandoned, each of them, and count as nothing.
#[tokio::test(start_paused = true)]
async fn calls_that_are_cut_are_seen() {
    let hangs = || Stage::new("a", &Log::default(), [Script::head([Act::Hang])]);
    let layer = breaker(plain());
    let clocks = DualClockTimeoutLayer::new(Clocks::interactive()).unwrap();
    let mut inside = layer.layer(clocks.layer(hangs()));
    for _ in 0..5 {
        let (_, end) = ask(&mut inside, request()).await;
        assert_eq!(end.unwrap_err().code(), Code::Timeout(Clock::FirstOutput));
    }
    assert_eq!(state(&layer), Circuit::Open);

    let (facts, told) = facts();
    let layer = breaker(plain()).facts(&facts);
    let mut outside = layer.layer(hangs());
    for _ in 0..50 {
        let call = outside.ready().await.unwrap().call(request());
        assert!(timeout(secs(1), call).await.is_err());
    }
    let told = told.lock().unwrap();
    assert_eq!(told.iter().filter(|name| *name == "released").count(), 50);
    let snapshot = layer.handle().unwrap().snapshot();
    assert_eq!((snapshot.state, snapshot.failures, snapshot.last_outcome), (Circuit::Closed, 0, None));
}

/// Scenario: one whole cycle.
/// Expected: the snapshot MUST show each state as it is; the transitions MUST be told in order, each with its cause.
#[tokio::test(start_paused = true)]
async fn each_state_shows_as_it_is() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let facts = Facts::from_fn(move |fact| match *fact {
        Fact::Transition { from, to, cause, rest, key } => {
            assert_eq!(key, "provider:p");
            sink.lock().unwrap().push((from, to, cause.to_owned(), rest));
        }
        Fact::Admitted { .. } | Fact::Released { .. } | Fact::Probe { .. } | Fact::Refused { .. } => {}
        ref other => panic!("{other:?}"),
    });
    let layer = breaker(plain()).facts(&facts);
    assert_eq!(state(&layer), Circuit::Closed);
    open(&mut layer.layer(tool([broken()])));
    let snapshot = layer.handle().unwrap().snapshot();
    assert_eq!((snapshot.state, snapshot.failures, snapshot.level), (Circuit::Open, 5, 1));
    assert_eq!(snapshot.next_try, Some(secs(30)));
    advance(secs(30)).await;
    let mut healed = layer.layer(tool([Ok(())]));
    assert_eq!(call(&mut healed), Ok(()));
    let snapshot = layer.handle().unwrap().snapshot();
    assert_eq!((snapshot.state, snapshot.open_since), (Circuit::HalfOpen, Some(secs(30))));
    let json = serde_json::to_value(layer.snapshot()).unwrap();
    assert_eq!(json["circuits"][0]["state"], "half_open");
    assert_eq!(json["circuits"][0]["key"], "provider:p");
    assert_eq!(json["circuits"][0]["last_outcome"], "success");
    assert_eq!(call(&mut healed), Ok(()));
    assert_eq!(state(&layer), Circuit::Closed);
    let expected = [
        (Circuit::Closed, Circuit::Open, "failures_in_a_row".to_owned(), Some(secs(30))),
        (Circuit::Open, Circuit::HalfOpen, "rest_over".to_owned(), None),
        (Circuit::HalfOpen, Circuit::Closed, "recovered".to_owned(), None),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}

/// Scenario: a service whose response and error cannot be cloned.
/// Expected: the breaker over it MUST be `Clone`, as the layer is.
#[tokio::test(start_paused = true)]
async fn a_clone_asks_nothing_of_the_response() {
    struct Unique;
    let service = service_fn(|_: ToolRequest| async { Ok::<_, Failure>(Plain(Unique)) });
    let layer = CircuitBreakerLayer::default().clone();
    let service = layer.layer(service);
    assert!(service.clone().oneshot(ToolRequest::new(ToolCall::default())).await.is_ok());
    assert!(service.oneshot(ToolRequest::new(ToolCall::default())).await.is_ok());
}

/// Scenario: a layer applied anew for each call, as routers do.
/// Expected: MUST open all the same.
#[tokio::test(start_paused = true)]
async fn applied_anew_it_keeps_its_state() {
    let layer = breaker(plain());
    for _ in 0..5 {
        assert_eq!(call(&mut layer.clone().layer(tool([broken()]))), Err(Code::Server));
    }
    assert_eq!(call(&mut layer.layer(tool([Ok(())]))), Err(Code::CircuitOpen));
}

/// Scenario: it opens thrice in a row; then it is healthy for two minutes and opens again; then the failures state a wait
/// that is longer than the rest.
/// Expected: rests MUST double, shrink by two steps, and be no shorter than what was stated.
#[tokio::test(start_paused = true)]
async fn rests_grow_shrink_and_obey() {
    let layer = breaker(CircuitBreakerConfig { ramp: None, ..plain() });
    let (mut sick, mut well) = (layer.layer(tool([broken()])), layer.layer(tool([Ok(())])));
    let next = || layer.handle().unwrap().snapshot().next_try;
    open(&mut sick);
    for rest in [30, 60, 120] {
        assert_eq!(next(), Some(secs(rest)));
        advance(secs(rest)).await;
        if rest < 120 {
            assert_eq!(call(&mut sick), Err(Code::Server), "a probe fails");
        }
    }
    assert_eq!((call(&mut well), call(&mut well)), (Ok(()), Ok(())));
    advance(secs(120)).await;
    open(&mut sick);
    assert_eq!(next(), Some(secs(60)), "one step is left");
    layer.handle().unwrap().reset();
    let stated = || Err(fail(Code::Overloaded).with_retry_after(Some(secs(100))));
    let mut busy = layer.layer(tool([stated()]));
    (0..5).for_each(|_| assert_eq!(call(&mut busy), Err(Code::Overloaded)));
    assert_eq!(next(), Some(secs(100)));
}

// === what counts ===

/// Scenario: streams that end in each way, five of each.
/// Expected: errors before and after the first output and bare ends MUST open it; ends, drops and errors of the caller's
/// own MUST NOT.
#[tokio::test(start_paused = true)]
async fn a_stream_is_judged_at_its_end() {
    let cut = || Act::Fail(fail(Code::Transport));
    for (script, leaves, opens) in [
        (Script::head([cut()]), false, true),
        (Script::body([Act::Preamble, cut()]), false, true),
        (Script::body([Act::Text("x"), cut()]), false, true),
        (Script::body([Act::Text("x"), Act::End]), false, true),
        (Script::body([Act::Text("x"), Act::Done]), false, false),
        (Script::body([Act::Text("x"), cut()]), true, false),
        (Script::fails(Code::InvalidRequest), false, false),
        (Script::fails(Code::Conflict), false, false),
        (Script::fails(Code::Deadline), false, false),
        (Script::fails(Code::LimiterFull), false, false),
        (Script::fails(Code::EmptyResponse), false, true),
    ] {
        let layer = breaker(plain());
        let mut service = layer.layer(Stage::new("a", &Log::default(), [script.clone()]));
        for _ in 0..5 {
            if leaves {
                drop(service.ready().await.unwrap().call(request()).await);
            } else {
                let _ = ask(&mut service, request()).await;
            }
        }
        assert_eq!(state(&layer) == Circuit::Open, opens, "{script:?}, {leaves}");
    }
}

/// Scenario: neutral ends between failures.
/// Expected: they MUST neither end the row nor weigh in the share.
#[tokio::test(start_paused = true)]
async fn neutral_ends_hide_nothing() {
    let layer = breaker(plain());
    let answers = (0..9).map(|n| if n % 2 == 0 { broken() } else { Err(fail(Code::InvalidRequest)) });
    let mut service = layer.layer(tool(answers));
    (0..9).for_each(|_| assert!(call(&mut service).is_err()));
    assert_eq!(state(&layer), Circuit::Open);
}

/// Scenario: the total clock runs out, before any output and after it.
/// Expected: only the first MUST count.
#[tokio::test(start_paused = true)]
async fn a_total_timeout_counts_without_output_alone() {
    for (acts, opens) in [(vec![Act::Hang], true), (vec![Act::Text("x"), Act::Hang], false)] {
        let clocks = Clocks { total: Some(secs(9)), total_stream: Some(secs(9)), ..Clocks::off() };
        let layer = breaker(plain());
        let stage = Stage::new("a", &Log::default(), [Script::body(acts)]);
        let mut service =
            layer.layer(DualClockTimeoutLayer::with_reasoning(clocks, clocks).unwrap().layer(stage));
        for _ in 0..5 {
            let (_, end) = ask(&mut service, request()).await;
            assert_eq!(end.unwrap_err().code(), Code::Timeout(Clock::Total));
        }
        assert_eq!(state(&layer) == Circuit::Open, opens);
    }
}

fn http(
    response: impl Fn() -> Response<http_body_util::combinators::BoxBody<Bytes, BoxError>> + Clone,
) -> impl Service<
    HttpRequest<()>,
    Response = Response<http_body_util::combinators::BoxBody<Bytes, BoxError>>,
    Error = BoxError,
> + Clone {
    service_fn(move |_: HttpRequest<()>| std::future::ready(Ok::<_, BoxError>(response())))
}

fn never(error: Infallible) -> BoxError {
    match error {}
}

fn answer(
    status: u16,
    body: &'static str,
) -> Response<http_body_util::combinators::BoxBody<Bytes, BoxError>> {
    let body = Full::new(Bytes::from_static(body.as_bytes())).map_err(never).boxed();
    Response::builder().status(status).body(body).unwrap()
}

/// Scenario: HTTP responses of each kind, read to their end, five of each: 503 with a body, 404, 200, and a 200 whose
/// body breaks.
/// Expected: the first and the last MUST open it, and the others not.
#[tokio::test(start_paused = true)]
async fn http_bodies_are_judged_at_their_end() {
    let cut = || {
        let frames = [Ok(http_body::Frame::data(Bytes::from_static(b"x"))), Err(BoxError::from("cut"))];
        Response::new(BodyExt::boxed(StreamBody::new(stream::iter(frames))))
    };
    type Make = fn() -> Response<http_body_util::combinators::BoxBody<Bytes, BoxError>>;
    let makes: [(Make, bool); 4] = [
        (|| answer(503, "busy"), true),
        (|| answer(404, "none"), false),
        (|| answer(200, "fine"), false),
        (cut, true),
    ];
    for (make, opens) in makes {
        let layer = breaker(plain());
        let mut service = layer.layer(http(make));
        for _ in 0..5 {
            let response = service.ready().await.unwrap().call(HttpRequest::new(())).await.unwrap();
            let _ = response.into_body().collect().await;
        }
        assert_eq!(state(&layer) == Circuit::Open, opens, "{:?}", make().status());
    }
}

/// Scenario: a probe is answered 204, which has no body that anyone polls; another is dropped midway.
/// Expected: the first MUST count as a success; the second MUST give its place back and decide nothing.
#[tokio::test(start_paused = true)]
async fn an_http_probe_counts_without_a_body_and_is_neutral_when_dropped() {
    let layer = breaker(plain());
    open(&mut layer.layer(tool([broken()])));
    advance(secs(30)).await;
    let mut dropped = layer.layer(http(|| answer(200, "fine")));
    let response = dropped.ready().await.unwrap().call(HttpRequest::new(())).await.unwrap();
    assert_eq!(layer.handle().unwrap().snapshot().probes, 1);
    drop(response);
    assert_eq!(layer.handle().unwrap().snapshot().probes, 0);
    let empty = || Response::builder().status(204).body(Empty::new().map_err(never).boxed()).unwrap();
    let mut service = layer.layer(http(empty));
    for _ in 0..2 {
        assert_eq!(state(&layer), Circuit::HalfOpen);
        drop(service.ready().await.unwrap().call(HttpRequest::new(())).await.unwrap());
    }
    assert_eq!(state(&layer), Circuit::Closed);
}

// === pauses and quotas ===

/// Scenario: a rate limit that states ten seconds, and one that states nothing.
/// Expected: the first MUST keep calls out for ten seconds and not count; then calls MUST pass without probes. The second
/// MUST do nothing.
#[tokio::test(start_paused = true)]
async fn a_stated_wait_pauses_and_does_not_count() {
    let layer = breaker(plain());
    let limited = |wait| Err(fail(Code::RateLimited).with_retry_after(wait));
    let mut service = layer.layer(tool([limited(None), limited(Some(secs(10))), Ok(())]));
    assert_eq!(call(&mut service), Err(Code::RateLimited));
    assert_eq!(call(&mut service), Err(Code::RateLimited));
    assert!(!layer.callable().is_callable(""));
    advance(secs(4)).await;
    let refused = try_call(&mut service).unwrap_err();
    assert_eq!((refused.code(), refused.retry_after()), (Code::CircuitOpen, Some(secs(6))));
    let snapshot = layer.handle().unwrap().snapshot();
    assert_eq!((snapshot.state, snapshot.failures, snapshot.level), (Circuit::Open, 0, 0));
    advance(secs(6)).await;
    assert!(layer.callable().is_callable(""));
    (0..20).for_each(|_| assert_eq!(call(&mut service), Ok(())));
    assert_eq!(state(&layer), Circuit::Closed);
}

/// Scenario: an account without quota, with and without a stated time; and rate limits that are counted.
/// Expected: it MUST rest until then, else for long, and be tried by probes; the counted ones MUST open it at the fifth.
#[tokio::test(start_paused = true)]
async fn an_empty_account_rests_and_is_tried() {
    for (wait, rest) in [(None, 15 * 60), (Some(secs(90)), 90)] {
        let layer = breaker(plain());
        let spent = Err(fail(Code::QuotaExhausted).with_retry_after(wait));
        let mut service = layer.layer(tool([spent, Ok(())]));
        assert_eq!(call(&mut service), Err(Code::QuotaExhausted));
        let snapshot = layer.handle().unwrap().snapshot();
        assert_eq!((snapshot.next_try, snapshot.failures, snapshot.level), (Some(secs(rest)), 0, 0));
        advance(secs(rest)).await;
        assert_eq!(call(&mut service), Ok(()));
        assert_eq!(state(&layer), Circuit::HalfOpen);
    }
    let layer = breaker(CircuitBreakerConfig { count_rate_limited: true, ..plain() });
    let mut service = layer.layer(tool([Err(fail(Code::RateLimited))]));
    (0..5).for_each(|_| assert_eq!(call(&mut service), Err(Code::RateLimited)));
    assert_eq!(call(&mut service), Err(Code::CircuitOpen));
}

/// Scenario: an hour is stated by a rate limit, by failures that open, by an empty account and by a throttled probe,
/// where a minute is the longest that is believed; and two days, by default.
/// Expected: each MUST be a minute, and the last a day.
#[tokio::test(start_paused = true)]
async fn a_stated_wait_is_believed_up_to_a_limit() {
    const DAY: u64 = 24 * 60 * 60;
    let stated = |code, wait| fail(code).with_retry_after(Some(secs(wait)));
    for (max_stated, said, believed) in [(secs(60), 3600, 60), (plain().max_stated, 2 * DAY, DAY)] {
        for (code, calls) in [(Code::RateLimited, 1), (Code::Overloaded, 5), (Code::QuotaExhausted, 1)] {
            let layer = breaker(CircuitBreakerConfig { max_stated, ..plain() });
            let mut service = layer.layer(tool([Err(stated(code, said))]));
            (0..calls).for_each(|_| assert_eq!(call(&mut service), Err(code)));
            assert_eq!(layer.handle().unwrap().snapshot().next_try, Some(secs(believed)), "{code}");
        }
        for code in [Code::RateLimited, Code::Overloaded, Code::QuotaExhausted] {
            let layer = breaker(CircuitBreakerConfig { max_stated, ..plain() });
            open(&mut layer.layer(tool([broken()])));
            advance(secs(30)).await;
            assert_eq!(call(&mut layer.layer(tool([Err(stated(code, said))]))), Err(code));
            assert_eq!(layer.handle().unwrap().snapshot().next_try, Some(secs(believed)), "{code}, a probe");
        }
    }
}

/// Scenario: each failure by which a whole answer is useless, five times, where that counts and where it does not; and in
/// a circuit that is tried.
/// Expected: it MUST open only where it counts, and a probe decide nothing where it does not.
#[tokio::test(start_paused = true)]
async fn useless_answers_count_where_they_are_asked_to() {
    let useless = || Code::ALL.into_iter().filter(|code| code.judgement().breaker == Breaker::Semantic);
    assert!(useless().count() > 1);
    for (code, semantic) in useless().flat_map(|code| [(code, true), (code, false)]) {
        let layer = breaker(CircuitBreakerConfig { semantic, ..plain() });
        let mut service = layer.layer(tool([Err(fail(code))]));
        (0..5).for_each(|_| assert_eq!(call(&mut service), Err(code)));
        let snapshot = layer.handle().unwrap().snapshot();
        let expected = if semantic { (Circuit::Open, 5) } else { (Circuit::Closed, 0) };
        assert_eq!((snapshot.state, snapshot.failures), expected, "{code}");
        layer.handle().unwrap().reset();
        open(&mut layer.layer(tool([broken()])));
        advance(secs(30)).await;
        assert_eq!(call(&mut service), Err(code));
        assert_eq!(state(&layer), if semantic { Circuit::Open } else { Circuit::HalfOpen }, "{code}");
    }
}

// === healing ===

/// Scenario: probes whose first output comes after six seconds, or after four, where five are late; and the same where
/// nobody asks.
/// Expected: a late one MUST open it for longer though it ends well; the others MUST heal it.
#[tokio::test(start_paused = true)]
async fn a_slow_probe_opens_again() {
    for (wait, asked, healed) in [(6_000, true, false), (4_000, true, true), (6_000, false, true)] {
        let causes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&causes);
        let facts = Facts::from_fn(move |fact| {
            if let Fact::Transition { cause, .. } = *fact {
                sink.lock().unwrap().push(cause.to_owned());
            }
        });
        let slow = asked.then_some(SlowConfig { first_output: secs(5), ratio: 1.0 });
        let layer = breaker(CircuitBreakerConfig { slow, successes: 1, ..plain() }).facts(&facts);
        open(&mut layer.layer(tool([broken()])));
        advance(secs(30)).await;
        let script = Script::body([Act::Wait(wait), Act::Text("x"), Act::Done]);
        let mut service = layer.layer(Stage::new("a", &Log::default(), [script]));
        ask(&mut service, request()).await.1.unwrap();
        let snapshot = layer.handle().unwrap().snapshot();
        let (expected, last) = if healed {
            ((Circuit::Closed, None), "recovered")
        } else {
            ((Circuit::Open, Some(secs(60))), "slow_probe")
        };
        assert_eq!((snapshot.state, snapshot.next_try), expected, "{wait} ms");
        assert_eq!(causes.lock().unwrap().last().unwrap(), last);
    }
}

/// Scenario: probes that end in each way.
/// Expected: a failure MUST open it for longer; a throttled one until the stated time; a neutral one and a dropped one
/// MUST give their place back and leave it half-open.
#[tokio::test(start_paused = true)]
async fn a_probe_decides_by_its_end() {
    let stated = fail(Code::RateLimited).with_retry_after(Some(secs(77)));
    for (end, state_after, wait) in [
        (Some(fail(Code::Server)), Circuit::Open, Some(60)),
        (Some(stated), Circuit::Open, Some(77)),
        (Some(fail(Code::RateLimited)), Circuit::Open, Some(30)),
        (Some(fail(Code::QuotaExhausted)), Circuit::Open, Some(900)),
        (Some(fail(Code::NotFound)), Circuit::HalfOpen, None),
        (None, Circuit::HalfOpen, None),
    ] {
        let layer = breaker(plain());
        open(&mut layer.layer(tool([broken()])));
        advance(secs(30)).await;
        match &end {
            Some(failure) => assert!(call(&mut layer.layer(tool([Err(failure.clone())]))).is_err()),
            None => {
                let hangs = Stage::new("a", &Log::default(), [Script::head([Act::Hang])]);
                drop(layer.layer(hangs).ready().await.unwrap().call(request()));
            }
        }
        let snapshot = layer.handle().unwrap().snapshot();
        let expected = (state_after, wait.map(secs), 0);
        assert_eq!((snapshot.state, snapshot.next_try, snapshot.probes), expected, "{end:?}");
    }
}

/// Scenario: a planner calls only what it is told to be callable, and the other side heals.
/// Expected: the circuit MUST be used again, and close.
#[tokio::test(start_paused = true)]
async fn a_planner_that_only_asks_lets_it_heal() {
    let layer = breaker(plain());
    let callable = layer.callable();
    let answers = std::iter::repeat_n(broken(), 5).chain([Ok(())]);
    let mut service = layer.layer(tool(answers));
    let (mut made, mut skipped) = (0, 0);
    for _ in 0..120 {
        if callable.is_callable("") {
            made += 1;
            assert_ne!(call(&mut service), Err(Code::CircuitOpen), "what is callable is not refused");
        } else {
            skipped += 1;
        }
        advance(secs(1)).await;
    }
    assert_eq!(state(&layer), Circuit::Closed);
    assert!(made > 60 && skipped >= 29, "{made} made, {skipped} skipped");
}

/// Scenario: a circuit that closed, and a hundred calls in each part of the ramp.
/// Expected: about a tenth, a half, and all MUST pass; who is refused MUST be told when more do.
#[tokio::test(start_paused = true)]
async fn calls_come_back_by_parts() {
    let layer = breaker(plain());
    open(&mut layer.layer(tool([broken()])));
    advance(secs(30)).await;
    let mut service = layer.layer(tool([Ok(())]));
    let mut passed = || (0..100).filter(|_| call(&mut service).is_ok()).count();
    assert_eq!(passed(), 2 + 10, "two probes, and a tenth of the others");
    advance(secs(8)).await;
    assert_eq!(passed(), 50);
    advance(secs(7)).await;
    assert_eq!(passed(), 100);
}

/// Scenario: a circuit that was away for half a second only, with a ramp of fifteen; calls one after the other.
/// Expected: it MUST come back no slower than it was away, show that it does, and say a wait of no more than that.
#[tokio::test(start_paused = true)]
async fn what_was_away_shortly_is_back_shortly() {
    let rest = Duration::from_millis(500);
    let layer = breaker(CircuitBreakerConfig { rest, max_rest: rest, ..plain() });
    open(&mut layer.layer(tool([broken()])));
    advance(rest).await;
    let mut service = layer.layer(tool([Ok(())]));
    let refused = (0..4).find_map(|_| try_call(&mut service).err()).unwrap();
    assert!(refused.retry_after().unwrap() <= rest, "{refused}");
    assert!(layer.handle().unwrap().snapshot().ramping);
    advance(rest).await;
    assert!((0..10).all(|_| call(&mut service).is_ok()));
    assert!(!layer.handle().unwrap().snapshot().ramping);
}

// === refusals, keys, hands ===

/// Scenario: calls refused by an open, a half-open and a forced circuit.
/// Expected: each MUST be local, name the circuit, its state and failures, and say when to come back, where anybody knows.
#[tokio::test(start_paused = true)]
async fn a_refusal_says_what_and_when() {
    let layer = breaker(CircuitBreakerConfig { probes: 1, ..plain() });
    let mut service = layer.layer(tool([broken()]));
    open(&mut service);
    advance(secs(10)).await;
    for _ in 0..2 {
        let refused = try_call(&mut service).unwrap_err();
        assert!(refused.is_local());
        assert_eq!((refused.code(), refused.retry_after()), (Code::CircuitOpen, Some(secs(20))));
        assert_eq!(refused.message(), "provider:p is open; failures: 5");
    }
    advance(secs(20)).await;
    let mut hangs = layer.layer(Stage::new("a", &Log::default(), [Script::head([Act::Hang])]));
    let probe = hangs.ready().await.unwrap().call(request());
    let refused = try_call(&mut service).unwrap_err();
    assert!(refused.message().contains("half-open") && refused.retry_after() == Some(secs(1)), "{refused}");
    drop(probe);
    layer.handle().unwrap().force_open();
    let refused = try_call(&mut service).unwrap_err();
    assert!(refused.message().contains("by hand") && refused.retry_after().is_none(), "{refused}");
}

/// Scenario: three failures, then a stated wait, during which a call in flight fails, too; then an opening with five, a
/// recovery, and a stated wait; an empty account after two failures; and a circuit with a past that is held open by
/// hand, reset, and paused.
/// Expected: each refusal and snapshot MUST tell the failures on record then: none of an opening before, and none that
/// the hand made it forget.
#[tokio::test(start_paused = true)]
async fn failures_are_told_as_they_are_on_record() {
    let layer = breaker(CircuitBreakerConfig { ramp: None, ..plain() });
    let handle = layer.handle().unwrap();
    let limited = || Err(fail(Code::RateLimited).with_retry_after(Some(secs(10))));
    let told = |words: &str, failures: u32| {
        let refused = try_call(&mut layer.layer(tool([Ok(())]))).unwrap_err();
        assert_eq!(refused.message(), format!("provider:p {words}; failures: {failures}"));
        assert_eq!(handle.snapshot().failures, failures);
    };
    let mut late = layer.layer(Stage::new("a", &Log::default(), [Script::fails(Code::Server)]));
    let late = late.ready().await.unwrap().call(request());
    let mut service = layer.layer(tool([broken(), broken(), broken(), limited()]));
    (0..4).for_each(|_| assert!(call(&mut service).is_err()));
    told("is open", 3);
    assert!(late.await.is_err());
    told("is open", 4);
    advance(secs(10)).await;
    assert_eq!(call(&mut layer.layer(tool([broken()]))), Err(Code::Server));
    told("is open", 5);
    advance(secs(30)).await;
    let mut service = layer.layer(tool([Ok(()), Ok(()), limited()]));
    (0..3).for_each(|_| _ = call(&mut service));
    told("is open", 0);

    handle.reset();
    let mut service = layer.layer(tool([broken(), broken(), Err(fail(Code::QuotaExhausted))]));
    (0..3).for_each(|_| assert!(call(&mut service).is_err()));
    told("is open", 2);
    handle.force_open();
    told("is held open by hand", 0);
    handle.reset();
    assert_eq!(handle.snapshot().failures, 0);
    assert_eq!(call(&mut layer.layer(tool([limited()]))), Err(Code::RateLimited));
    told("is open", 0);
}

/// Scenario: four failures, and a success half a minute later; then four more, and nobody calls for an hour.
/// Expected: a failure MUST be on record for as long as it can weigh, and no longer.
#[tokio::test(start_paused = true)]
async fn failures_on_record_grow_old() {
    let layer = breaker(plain());
    let failures = || layer.handle().unwrap().snapshot().failures;
    let (mut sick, mut well) = (layer.layer(tool([broken()])), layer.layer(tool([Ok(())])));
    (0..4).for_each(|_| assert_eq!(call(&mut sick), Err(Code::Server)));
    advance(secs(30)).await;
    assert_eq!(call(&mut well), Ok(()));
    assert_eq!(failures(), 4, "in the window");
    advance(secs(31)).await;
    assert_eq!(failures(), 0, "out of it, though a success is not");
    (0..4).for_each(|_| assert_eq!(call(&mut sick), Err(Code::Server)));
    advance(secs(3600)).await;
    assert_eq!(failures(), 0, "a row too long ago to be one");
}

/// Scenario: keys that are held open until there is no room for one more; then a call of that one.
/// Expected: MUST be refused, with the time after which it is worth asking again.
#[tokio::test(start_paused = true)]
async fn a_key_too_many_is_told_when_to_come_back() {
    let layer = breaker(CircuitBreakerConfig { key: KeyBy::Attached, max_keys: 1, ..plain() });
    let held = |key: &String| layer.handle_of(key).map(|handle| handle.force_open()).is_ok();
    let key = (0..).map(|n| n.to_string()).find(|key| !held(key)).unwrap();
    let asked = ToolRequest::new(ToolCall::default()).attach(Key::new(key));
    let refused = layer.layer(tool([Ok(())])).oneshot(asked).await.unwrap_err();
    assert!(refused.is_local() && refused.message().contains("too many keys"), "{refused}");
    assert_eq!((refused.code(), refused.retry_after()), (Code::CircuitOpen, Some(secs(1))));
}

/// Scenario: calls of two keys, one of which fails.
/// Expected: only that one MUST be refused, under its own name.
#[tokio::test(start_paused = true)]
async fn keys_are_told_apart() {
    let layer = breaker(CircuitBreakerConfig { key: KeyBy::Attached, ..plain() });
    let asked = |key: &str| ToolRequest::new(ToolCall::default()).attach(Key::new(key));
    for _ in 0..5 {
        assert!(layer.layer(tool([broken()])).oneshot(asked("a")).await.is_err());
    }
    let refused = layer.layer(tool([Ok(())])).oneshot(asked("a")).await.unwrap_err();
    assert!(refused.message().starts_with("provider:p:a is open"), "{refused}");
    assert!(layer.layer(tool([Ok(())])).oneshot(asked("b")).await.is_ok());
    assert!(!layer.callable().is_callable("a") && layer.callable().is_callable("b"));
    let keys: Vec<_> = layer.snapshot().circuits.into_iter().map(|circuit| circuit.key).collect();
    assert_eq!(keys, ["provider:p:a"]);
}

/// Scenario: a circuit held open, switched off, only observing, and reset, all by hand.
/// Expected: MUST refuse; pass and count nothing; pass and count and never open; and be as new.
#[tokio::test(start_paused = true)]
async fn it_obeys_the_hand() {
    let layer = breaker(plain());
    let handle = layer.handle().unwrap();
    let mut service = layer.layer(tool([broken()]));
    handle.force_open();
    assert_eq!(call(&mut service), Err(Code::CircuitOpen));
    advance(secs(24 * 60 * 60)).await;
    assert_eq!(call(&mut service), Err(Code::CircuitOpen));
    assert!(!handle.is_callable());
    handle.disable();
    (0..30).for_each(|_| assert_eq!(call(&mut service), Err(Code::Server)));
    assert_eq!((handle.snapshot().state, handle.snapshot().failures), (Circuit::Disabled, 0));
    handle.observe();
    (0..12).for_each(|_| assert_eq!(call(&mut service), Err(Code::Server)));
    let snapshot = handle.snapshot();
    assert_eq!((snapshot.state, snapshot.failures, snapshot.would_have_opened), (Circuit::Observe, 2, 2));
    handle.reset();
    assert_eq!((handle.snapshot().state, handle.snapshot().failures), (Circuit::Closed, 0));
    open(&mut service);
    assert_eq!(call(&mut service), Err(Code::CircuitOpen));
}

// === tokens and time ===

/// Scenario: a stream of 8,000 bytes that breaks, its input told as 4,000 tokens; one that told the provider's own count
/// and breaks before any output; the first amount in a body of HTTP 500; and a stream that breaks before any output.
/// Expected: only the first two burnt tokens, and MUST open it at once.
#[tokio::test(start_paused = true)]
async fn a_call_that_burnt_much_opens_at_once() {
    const LONG: &str = match std::str::from_utf8(&[b'x'; 8_000]) {
        Ok(text) => text,
        Err(_) => "",
    };
    let frugal = || breaker(CircuitBreakerConfig { jitter: 0.0, ..CircuitBreakerConfig::frugal() });
    let cost = Cost { input: 4_000, output: None };
    for (acts, opens) in [
        (vec![Act::Text(LONG)], true),
        (vec![Act::Used(6_000, 1)], true),
        (vec![Act::Used(60, 1)], false),
        (vec![Act::Preamble], false),
    ] {
        let layer = frugal();
        let script = Script::body(acts.into_iter().chain([Act::Fail(fail(Code::Transport))]));
        let mut service = layer.layer(Stage::new("a", &Log::default(), [script]));
        let _ = ask(&mut service, request().attach(cost)).await;
        assert_eq!(state(&layer) == Circuit::Open, opens);
    }
    let layer = frugal();
    let mut service = layer.layer(http(|| answer(500, LONG)));
    let mut request = HttpRequest::new(());
    request.extensions_mut().insert(cost);
    let response = service.ready().await.unwrap().call(request).await.unwrap();
    response.into_body().collect().await.unwrap();
    let snapshot = layer.handle().unwrap().snapshot();
    assert_eq!((snapshot.state, snapshot.failures), (Circuit::Closed, 1));
}

/// Scenario: ten streams, every second of which has its first output after six seconds, and all of which end well.
/// Expected: MUST open where five seconds are late, and not where it is not asked.
#[tokio::test(start_paused = true)]
async fn late_first_outputs_open_it() {
    for asked in [true, false] {
        let slow = asked.then_some(SlowConfig { first_output: secs(5), ratio: 0.5 });
        let layer = breaker(CircuitBreakerConfig { slow, ..plain() });
        let scripts = (0..10).map(|n| {
            let wait = if n % 2 == 1 { 6_000 } else { 10 };
            Script::body([Act::Wait(wait), Act::Text("x"), Act::Wait(9_000), Act::Done])
        });
        let stage = Stage::new("a", &Log::default(), scripts);
        let mut service = layer.layer(stage);
        let calls: Vec<_> =
            (0..10).map(|_| service.ready().now_or_never().unwrap().unwrap().call(request())).collect();
        let read = calls.into_iter().map(|call| async { support::read(call.await.unwrap()).await });
        let read = futures_util::future::join_all(read).await;
        assert!(read.iter().all(|(_, end)| end.is_ok()));
        assert_eq!(state(&layer) == Circuit::Open, asked);
    }
}

/// Scenario: twenty calls served from a cache, then three that are not; then one that takes a hundred times as much.
/// Expected: the loss MUST be told once; the last call MUST open it.
#[tokio::test(start_paused = true)]
async fn a_lost_cache_is_told_and_a_strange_call_opens() {
    let (facts, told) = facts();
    let config = CircuitBreakerConfig { jitter: 0.0, ..CircuitBreakerConfig::frugal() };
    let layer = breaker(config).facts(&facts);
    let service = service_fn(|request: Request| async move {
        let usage = Ask::extensions(&request).and_then(|attached| attached.get::<Usage>()).copied();
        let completion = Completion::new(Message::text(Role::Assistant, "x"), Stop::End, usage);
        let end = Ok::<_, Failure>(Event::Completed(Box::new(completion)));
        Ok::<_, Failure>(Reply::new(Head::default(), stream::iter([end])))
    });
    let mut service = layer.layer(service);
    let usage = |input, cached_read| Usage { input, cached_read, output: 100, ..Usage::default() };
    let lost = || told.lock().unwrap().iter().filter(|name| *name == "cache_lost").count();
    for n in 0..23 {
        let usage = usage(1_000, if n < 20 { 900 } else { 0 });
        assert!(ask(&mut service, request().attach(usage)).await.1.is_ok());
        assert_eq!(lost(), usize::from(n == 22));
    }
    assert_eq!(state(&layer), Circuit::Closed);
    assert!(ask(&mut service, request().attach(usage(100_000, 0))).await.1.is_ok());
    assert_eq!(state(&layer), Circuit::Open);
}

// === with others ===

/// Scenario: a retry outside the breaker, and one inside it, over a provider that always fails.
/// Expected: outside, each attempt MUST count, and the series MUST stop the moment it opens; inside, a call MUST be one
/// verdict. No refusal of our own MUST count anywhere.
#[tokio::test(start_paused = true)]
async fn each_attempt_asks_where_retry_is_outside() {
    let retry = || {
        let config = RetryConfig { retries: 9, budget: None, seed: Some(1), ..RetryConfig::brisk() };
        RetryLayer::new(config).unwrap()
    };
    let (log, layer) = (Log::default(), breaker(plain()));
    let stage = || Stage::new("a", &log, [Script::fails(Code::Server)]);
    let mut outside = retry().layer(layer.layer(stage()));
    let (_, end) = ask(&mut outside, request()).await;
    assert_eq!(end.unwrap_err().code(), Code::CircuitOpen);
    assert_eq!(log.calls().len(), 5);

    let (outer, inner) = (breaker(plain()), breaker(plain()));
    let mut both = outer.layer(inner.layer(tool([broken()])));
    inner.handle().unwrap().force_open();
    (0..30).for_each(|_| assert_eq!(call(&mut both), Err(Code::CircuitOpen)));
    assert_eq!(outer.handle().unwrap().snapshot().failures, 0);

    let layer = breaker(plain());
    let mut inside = layer.layer(retry().layer(stage()));
    let _ = ask(&mut inside, request()).await;
    assert_eq!(layer.handle().unwrap().snapshot().failures, 1);
}

/// Scenario: the facts of an admitted call, of a refused one, and of a probe.
/// Expected: MUST be told in this order, and nothing else.
#[tokio::test(start_paused = true)]
async fn every_decision_is_told() {
    let (facts, told) = facts();
    let layer = breaker(CircuitBreakerConfig { failures: Some(1), ..plain() }).facts(&facts);
    let mut service = layer.layer(tool([broken(), Ok(())]));
    let _ = (call(&mut service), call(&mut service));
    advance(secs(30)).await;
    let _ = call(&mut service);
    let told = told.lock().unwrap().join(" ");
    assert_eq!(told, "admitted transition released refused transition probe admitted released");
}
