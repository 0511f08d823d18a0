//! What failover remembers between calls: who stands, who rests, whose trial is due.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use support::{Act, Log, Script, Stage, ask, facts, fail, request};
use tokio::time::{Instant, advance, sleep, timeout};
use tower::limit::ConcurrencyLimit;
use tower::{BoxError, Layer, Service, ServiceExt};
use watertight::chat::Request;
use watertight::failure::{Code, Failure, Skip};
use watertight::layers::FailoverLayer;
use watertight::layers::failover::{Candidate, Failover, FailoverConfig, WhenAllRest};

const MINUTE: Duration = Duration::from_secs(60);
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Candidates a, b, c that play their scripts.
fn stack(log: &Log, config: FailoverConfig, scripts: [Vec<Script>; 3]) -> Failover<Stage> {
    let [a, b, c] = [0, 1, 2].map(|at| Stage::new(NAMES[at], log, scripts[at].clone()));
    FailoverLayer::new([b, c]).named(NAMES).unwrap().config(config).unwrap().layer(a)
}

/// Candidates a and b that play their scripts.
fn pair(log: &Log, config: FailoverConfig, scripts: [Vec<Script>; 2]) -> Failover<Stage> {
    let [a, b] = [0, 1].map(|at| Stage::new(NAMES[at], log, scripts[at].clone()));
    FailoverLayer::new([b]).named(["a", "b"]).unwrap().config(config).unwrap().layer(a)
}

fn down() -> Vec<Script> {
    vec![Script::fails(Code::Server)]
}

fn up() -> Vec<Script> {
    vec![Script::says("!")]
}

fn fails_with(failure: Failure) -> Script {
    Script::head([Act::Fail(failure)])
}

/// A refusal for now, with the wait that was stated.
fn limited(seconds: u64) -> Script {
    fails_with(fail(Code::RateLimited).with_retry_after(Some(Duration::from_secs(seconds))))
}

fn count(log: &Log, name: &str) -> usize {
    log.calls().iter().filter(|asked| **asked == name).count()
}

/// Scenario: the standing candidate admits one call at a time and was readied for this call; the call is the trial of
/// another, and the trial fails.
/// Expected: MUST be answered by the standing one: the readiness that was not used MUST not keep the call out.
#[tokio::test(start_paused = true)]
async fn a_readiness_that_is_not_used_is_given_back() {
    let log = Log::default();
    let limited = |name, scripts: Vec<Script>| ConcurrencyLimit::new(Stage::new(name, &log, scripts), 1);
    let config = FailoverConfig { spring_back: MINUTE, ..FailoverConfig::eager() };
    let layer = FailoverLayer::new([limited("b", up())]).config(config).unwrap();
    let mut service = layer.layer(limited("a", down()));
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    advance(MINUTE).await;
    let answer = timeout(MINUTE, ask(&mut service, request())).await;
    assert_eq!(answer.expect("it waits for itself").0, "b!");
    assert_eq!(log.calls(), ["a", "b", "a", "b"]);
}

/// Scenario: the candidate admits one call at a time and is busy; a service that is kept asked it to be ready, and is
/// called.
/// Expected: MUST be answered once the other call is over: nobody but the call MUST stand in line.
#[tokio::test(start_paused = true)]
async fn a_call_takes_the_place_in_line_along() {
    let log = Log::default();
    let slow = Script { head: vec![Act::Wait(1000)], body: vec![Act::Text("!"), Act::Done] };
    let layer = FailoverLayer::new([]);
    let mut one = layer.layer(ConcurrencyLimit::new(Stage::new("a", &log, [slow]), 1));
    let mut two = one.clone();
    let (first, second) = tokio::join!(ask(&mut one, request()), async {
        sleep(Duration::from_millis(10)).await;
        timeout(MINUTE, ask(&mut two, request())).await
    });
    assert_eq!(first.0, "a!");
    assert_eq!(second.expect("it stands in line behind itself").0, "a!");
}

/// A service that breaks when it is asked to be ready, and must not be asked again then.
#[derive(Clone)]
struct Broken(Stage, bool);

impl Service<Request> for Broken {
    type Response = <Stage as Service<Request>>::Response;
    type Error = Failure;
    type Future = <Stage as Service<Request>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.0.name == "b" {
            return self.0.poll_ready(cx);
        }
        assert!(!self.1, "asked again after it broke");
        self.1 = true;
        Poll::Ready(Err(fail(Code::Connect)))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.0.call(request)
    }
}

/// Scenario: a candidate breaks when it is asked to be ready.
/// Expected: the instance that broke MUST be thrown away; the call MUST be answered elsewhere, and it MUST count.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_breaks_in_readiness_is_failed_over() {
    let log = Log::default();
    let service = |name| Broken(Stage::new(name, &log, up()), false);
    let mut service = FailoverLayer::new([service("b")]).layer(service("a"));
    for _ in 0..4 {
        assert_eq!(ask(&mut service, request()).await.0, "b!");
    }
    assert_eq!(service.ready().await.unwrap().call(request()).await.unwrap().head().attempts.len(), 0);
}

/// Scenario: a long stream of a candidate ends well after another call of it was told to wait.
/// Expected: MUST not end its rest: until the stated wait is over it MUST not be asked.
#[tokio::test(start_paused = true)]
async fn a_stream_begun_before_the_rest_does_not_end_it() {
    let log = Log::default();
    let long = Script::body([Act::Text("!"), Act::Wait(5000), Act::Done]);
    let mut service =
        pair(&log, FailoverConfig::default(), [vec![long, limited(300), Script::says("?")], up()]);
    let mut other = service.clone();
    let (stream, _) = tokio::join!(ask(&mut service, request()), ask(&mut other, request()));
    assert_eq!(stream.0, "a!");
    advance(Duration::from_secs(290)).await;
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    advance(Duration::from_secs(10)).await;
    assert_eq!(ask(&mut service, request()).await.0, "a?");
}

/// Scenario: calls in flight at a candidate fail after another was told to wait for long.
/// Expected: the wait that was stated MUST stand; until then it MUST not be asked.
#[tokio::test(start_paused = true)]
async fn a_later_failure_does_not_shorten_a_stated_wait() {
    for late in [
        fail(Code::Server),
        fail(Code::QuotaExhausted),
        fail(Code::RateLimited).with_retry_after(Some(MINUTE)),
    ] {
        let log = Log::default();
        let slow = Script::head([Act::Wait(1000), Act::Fail(late.clone())]);
        let scripts = [vec![slow, limited(900), Script::says("!")], up()];
        let mut service = pair(&log, FailoverConfig::eager(), scripts);
        let mut other = service.clone();
        let _ = tokio::join!(ask(&mut service, request()), ask(&mut other, request()));
        for _ in 0..14 {
            advance(MINUTE).await;
            assert_eq!(ask(&mut service, request()).await.0, "b!", "after {late}");
        }
        advance(MINUTE).await;
        assert_eq!(ask(&mut service, request()).await.0, "a!", "after {late}");
    }
}

/// Scenario: a candidate is told anew how long to wait, by a call that was asked in its rest.
/// Expected: the newest word MUST stand, though it is shorter.
#[tokio::test(start_paused = true)]
async fn the_newest_word_on_the_wait_stands() {
    let log = Log::default();
    let config = FailoverConfig { dwell: None, ..FailoverConfig::default() };
    let mut service =
        pair(&log, config, [vec![limited(400), limited(20), Script::says("!")], vec![limited(500)]]);
    ask(&mut service, request()).await.1.unwrap_err();
    // All rest: the earliest is asked all the same.
    ask(&mut service, request()).await.1.unwrap_err();
    assert_eq!(log.calls(), ["a", "b", "a"]);
    advance(Duration::from_secs(20)).await;
    assert_eq!(ask(&mut service, request()).await.0, "a!");
}

/// Scenario: trials that fail in every way a provider can, with no windows named.
/// Expected: the caller MUST have the standing candidate's answer, whatever the code; and the standing one MUST be
/// asked as one with nobody behind it: with all the time that is left, and with patience.
#[tokio::test(start_paused = true)]
async fn no_failure_of_a_trial_is_seen() {
    for code in Code::ALL {
        let log = Log::default();
        let scripts = [vec![Script::fails(Code::Server), Script::fails(code)], up()];
        let mut service = pair(&log, FailoverConfig::eager(), scripts);
        ask(&mut service, request()).await.1.unwrap();
        advance(FailoverConfig::eager().spring_back).await;
        let (text, end) = ask(&mut service, request().within(MINUTE)).await;
        assert_eq!(text, "b!", "{code}: {end:?}");
        let [.., trial, standing] = log.seen()[..] else { unreachable!() };
        assert!(trial.single && !trial.patient && trial.commit_by.is_some());
        assert!(!standing.single && standing.patient && standing.commit_by.is_none(), "{standing:?}");
    }
}

/// Scenario: a trial fails, and all others were told to wait.
/// Expected: the one that recovers first MUST be asked, as if there had been no trial.
#[tokio::test(start_paused = true)]
async fn a_trial_does_not_use_up_the_last_resort() {
    let log = Log::default();
    let first = vec![Script::fails(Code::NotFound), limited(60), Script::fails(Code::Server)];
    let mut service = pair(&log, FailoverConfig::default(), [first, vec![limited(500), Script::says("!")]]);
    for _ in 0..2 {
        ask(&mut service, request()).await.1.unwrap_err();
    }
    assert_eq!(log.calls(), ["a", "b", "a"]);
    advance(MINUTE).await;
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    assert_eq!(log.calls(), ["a", "b", "a", "a", "b"]);
}

/// Scenario: one HTTP candidate of two answers 503 and the caller switched failover off, call after call.
/// Expected: each call MUST count once: two do not move the standing candidate, three do.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_given_up_counts_once() {
    let answers = |status: u16| {
        tower::service_fn(move |_: http::Request<()>| {
            let response = http::Response::builder().status(status).body(Full::new(Bytes::from("words")));
            std::future::ready(Ok::<http::Response<Full<Bytes>>, BoxError>(response.unwrap()))
        })
    };
    let mut service = FailoverLayer::new([answers(200)]).layer(answers(503));
    for status in [503, 503, 503, 200] {
        use watertight::chat::Ask;
        let mut request = http::Request::new(());
        let mut call = request.call();
        call.failover = false;
        request.set_call(call);
        let response = service.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(response.status(), status);
        let words: Result<_, BoxError> = response.into_body().collect().await;
        assert_eq!(words.unwrap().to_bytes(), "words");
    }
}

/// Scenario: the key of the first candidate is refused, call after call.
/// Expected: where the code was not allowed to go on, it MUST not move calls away behind the caller's back either;
/// where it was, it MUST count like others.
#[tokio::test(start_paused = true)]
async fn what_may_not_go_on_moves_nothing() {
    for code in [Code::Authentication, Code::Permission, Code::ContentFilter, Code::InvalidRequest] {
        let log = Log::default();
        let mut service = pair(&log, FailoverConfig::eager(), [vec![Script::fails(code)], up()]);
        for _ in 0..5 {
            assert_eq!(ask(&mut service, request()).await.1.unwrap_err().code(), code);
        }
    }
    let log = Log::default();
    let config = FailoverConfig { also: vec![Code::Authentication], ..FailoverConfig::default() };
    let mut service = pair(&log, config, [vec![Script::fails(Code::Authentication)], up()]);
    for _ in 0..5 {
        assert_eq!(ask(&mut service, request()).await.0, "b!");
    }
    assert_eq!(count(&log, "a"), 3);
}

/// Scenario: calls move from a to b, and shortly before a's trial is due from b to c.
/// Expected: c MUST be stayed at for the whole dwell before the trial.
#[tokio::test(start_paused = true)]
async fn every_stay_lasts_a_dwell() {
    let log = Log::default();
    let scripts = [
        vec![Script::fails(Code::Server), Script::says("!")],
        vec![Script::says("!"), Script::fails(Code::Server)],
        up(),
    ];
    let config = FailoverConfig { spring_back: MINUTE, ..FailoverConfig::eager() };
    let dwell = config.dwell.unwrap();
    let mut service = stack(&log, config, scripts);
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    advance(MINUTE - Duration::from_secs(1)).await;
    assert_eq!(ask(&mut service, request()).await.0, "c!");
    advance(dwell - Duration::from_millis(1)).await;
    assert_eq!(ask(&mut service, request()).await.0, "c!");
    advance(Duration::from_millis(1)).await;
    assert_eq!(ask(&mut service, request()).await.0, "a!");
}

/// Scenario: a wait of a second was stated.
/// Expected: the trial MUST come after the dwell, not after the second; and where the dwell is off, after the second.
#[tokio::test(start_paused = true)]
async fn a_short_stated_wait_waits_for_the_dwell() {
    for (dwell, rest) in [(Some(Duration::from_secs(30)), 30), (None, 1)] {
        let log = Log::default();
        let config = FailoverConfig { dwell, ..FailoverConfig::default() };
        let mut service = pair(&log, config, [vec![limited(1), Script::says("!")], up()]);
        ask(&mut service, request()).await.1.unwrap();
        advance(Duration::from_secs(rest) - Duration::from_millis(1)).await;
        assert_eq!(ask(&mut service, request()).await.0, "b!");
        advance(Duration::from_millis(1)).await;
        assert_eq!(ask(&mut service, request()).await.0, "a!");
    }
}

/// Scenario: an open breaker refuses with the instant of its next try.
/// Expected: new calls MUST move at once, and the trial be due then, sooner than the ordinary rest.
#[tokio::test(start_paused = true)]
async fn an_open_breaker_moves_at_once_and_names_the_trial() {
    let log = Log::default();
    let open = Failure::local(Code::CircuitOpen, "open")
        .with_skip(Skip::NotCallable)
        .with_retry_after(Some(Duration::from_secs(45)));
    let mut service =
        pair(&log, FailoverConfig::default(), [vec![fails_with(open), Script::says("!")], up()]);
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    advance(Duration::from_secs(44)).await;
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    assert_eq!(count(&log, "a"), 1);
    advance(Duration::from_secs(1)).await;
    assert_eq!(ask(&mut service, request()).await.0, "a!");
}

/// Scenario: a stream breaks in the middle, with a wait stated; without one.
/// Expected: with one, the next call MUST go to the other candidate until the wait is over; without, it is one failed
/// call of three.
#[tokio::test(start_paused = true)]
async fn a_wait_stated_in_mid_stream_moves_at_once() {
    for (wait, next) in [(Some(Duration::from_secs(60)), "b!"), (None, "a!")] {
        let log = Log::default();
        let busy = Failure::new(Code::Overloaded, "busy").with_retry_after(wait);
        let broken = Script::body([Act::Text("half"), Act::Fail(busy)]);
        let mut service = pair(&log, FailoverConfig::default(), [vec![broken, Script::says("!")], up()]);
        let (text, end) = ask(&mut service, request()).await;
        assert_eq!((text, end.unwrap_err().code()), ("ahalf".to_owned(), Code::Overloaded));
        assert_eq!(ask(&mut service, request()).await.0, next);
    }
}

/// Scenario: the trial of a candidate that rested is refused locally: with a wait, without one.
/// Expected: the next trial MUST be due then, the dwell at the least, and not after a whole rest.
#[tokio::test(start_paused = true)]
async fn a_trial_refused_locally_costs_no_whole_rest() {
    for (wait, due) in [(Some(Duration::from_secs(40)), 40), (None, 30)] {
        let log = Log::default();
        let quota = Script::head([Act::Fail(Failure::new(Code::QuotaExhausted, "empty"))]);
        let full = Failure::local(Code::LimiterFull, "full").with_retry_after(wait);
        let scripts = vec![quota, fails_with(full), Script::says("!")];
        let mut service = pair(&log, FailoverConfig::default(), [scripts, up()]);
        assert_eq!(ask(&mut service, request()).await.0, "b!");
        advance(Duration::from_secs(300)).await;
        assert_eq!(ask(&mut service, request()).await.0, "b!", "the trial was refused");
        advance(Duration::from_secs(due) - Duration::from_millis(1)).await;
        assert_eq!(ask(&mut service, request()).await.0, "b!");
        advance(Duration::from_millis(1)).await;
        assert_eq!(ask(&mut service, request()).await.0, "a!");
        assert_eq!(count(&log, "a"), 3);
    }
}

/// Scenario: the first candidate is told to wait, and calls move; then the wait is over.
/// Expected: the snapshot MUST say where calls begin, who rests, and for how long; looking MUST change nothing.
#[tokio::test(start_paused = true)]
async fn a_snapshot_says_who_stands_and_who_rests() {
    let log = Log::default();
    let busy = Failure::new(Code::Overloaded, "busy").with_retry_after(Some(Duration::from_secs(60)));
    let first = Stage::new("a", &log, [Script::head([Act::Fail(busy)]), Script::says("!")]);
    let second = Stage::new("b", &log, [Script::says("!")]);
    let layer = FailoverLayer::new([second]).named(["a", "b"]).unwrap();
    let mut service = layer.layer(first);
    assert_eq!(&*layer.snapshot().standing, "a");
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    advance(Duration::from_secs(20)).await;
    for _ in 0..2 {
        let snapshot = layer.snapshot();
        assert_eq!((&*snapshot.standing, snapshot.trial), ("b", false));
        assert_eq!(snapshot.candidates[0].rests_for, Some(Duration::from_secs(40)));
        assert_eq!(snapshot.candidates[0].told_to_wait, Some(Duration::from_secs(40)));
        assert_eq!(snapshot.candidates[1].rests_for, None);
        assert!(serde_json::to_string(&snapshot).unwrap().contains(r#""rests_for":"40s""#));
    }
    advance(Duration::from_secs(40)).await;
    assert_eq!(ask(&mut service, request()).await.0, "a!");
    assert_eq!(&*layer.snapshot().standing, "a");
}

/// Scenario: two failed calls, one that is answered, two failed calls.
/// Expected: MUST not move: they are not three in a row.
#[tokio::test(start_paused = true)]
async fn a_success_between_failures_breaks_the_row() {
    let log = Log::default();
    let failed = || Script::fails(Code::Server);
    let scripts = vec![failed(), failed(), Script::says("!"), failed(), failed(), Script::says("!")];
    let mut service = pair(&log, FailoverConfig::default(), [scripts, up()]);
    for answer in ["b!", "b!", "a!", "b!", "b!", "a!"] {
        assert_eq!(ask(&mut service, request()).await.0, answer);
    }
}

/// Scenario: a stream that the caller drops in the middle, call after call.
/// Expected: MUST say nothing: neither a failure nor a success.
#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_says_nothing() {
    let log = Log::default();
    let left = || Script::body([Act::Text("!"), Act::Hang]);
    let failed = || Script::fails(Code::Server);
    let scripts = vec![failed(), failed(), left(), left(), left(), left(), failed(), Script::says("never")];
    let mut service = pair(&log, FailoverConfig::default(), [scripts, up()]);
    for _ in 0..2 {
        ask(&mut service, request()).await.1.unwrap();
    }
    for _ in 0..4 {
        drop(service.ready().await.unwrap().call(request()).await.unwrap());
    }
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    assert_eq!(count(&log, "a"), 7, "the row of failures goes on where it was");
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    assert_eq!(count(&log, "a"), 7, "and the third moved");
}

/// Scenario: a slow candidate, with others behind that may be asked, and with others behind that were told to wait.
/// Expected: MUST be passed over in favour of the first; MUST be asked before the second.
#[tokio::test(start_paused = true)]
async fn a_slow_candidate_is_better_than_one_that_was_told_to_wait() {
    let slow = || Script::body([Act::Wait(3000), Act::Text("!"), Act::Done]);
    let config = |when_all_rest| FailoverConfig {
        max_first_output: Some(Duration::from_secs(1)),
        when_all_rest,
        ..FailoverConfig::default()
    };
    let log = Log::default();
    let mut service = pair(&log, config(WhenAllRest::Earliest), [vec![slow()], up()]);
    assert_eq!(ask(&mut service, request()).await.0, "a!");
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    advance(FailoverConfig::default().spring_back).await;
    assert_eq!(ask(&mut service, request()).await.0, "a!", "the measure is forgotten after a rest");

    for rule in [WhenAllRest::Earliest, WhenAllRest::FailFast] {
        let log = Log::default();
        let mut service = pair(&log, config(rule), [vec![slow()], vec![limited(100)]]);
        ask(&mut service, request()).await.1.unwrap();
        // Passed over, and b is told to wait.
        ask(&mut service, request()).await.1.unwrap_err();
        assert_eq!(ask(&mut service, request()).await.0, "a!", "{rule:?}");
        assert_eq!(log.calls(), ["a", "b", "a"]);
    }
}

/// Scenario: a candidate below was told to wait, for longer than the rest of the one above.
/// Expected: MUST be passed over until that wait is over, with its reason, and asked again then.
#[tokio::test(start_paused = true)]
async fn who_was_told_to_wait_is_passed_over_until_then() {
    let log = Log::default();
    let scripts = [vec![Script::fails(Code::NotFound)], vec![limited(100), Script::says("!")], up()];
    let mut service = stack(&log, FailoverConfig::default(), scripts);
    assert_eq!(ask(&mut service, request()).await.0, "c!");
    advance(Duration::from_secs(99)).await;
    let reply = service.ready().await.unwrap().call(request()).await.unwrap();
    let skips: Vec<_> = reply.head().attempts.iter().map(|attempt| (attempt.code, attempt.skip)).collect();
    assert_eq!(skips, [(Code::NotFound, None), (Code::LimiterFull, Some(Skip::Resting))]);
    drop(reply);
    advance(Duration::from_secs(1)).await;
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    assert_eq!(log.calls(), ["a", "b", "c", "a", "c", "a", "b"]);
}

/// Scenario: failover is switched off for calls while a trial is due.
/// Expected: MUST be no trial, and MUST not use up its slot.
#[tokio::test(start_paused = true)]
async fn a_call_without_failover_is_no_trial() {
    let log = Log::default();
    let mut service =
        pair(&log, FailoverConfig::eager(), [vec![Script::fails(Code::Server), Script::says("!")], up()]);
    ask(&mut service, request()).await.1.unwrap();
    advance(FailoverConfig::eager().spring_back).await;
    assert_eq!(ask(&mut service, request().without_failover()).await.0, "b!");
    assert_eq!(ask(&mut service, request()).await.0, "a!");
}

/// Scenario: a trial is dropped after every millisecond of its way.
/// Expected: nothing MUST stay open, and the next call MUST be the trial again, or find it decided.
#[tokio::test(start_paused = true)]
async fn a_trial_dropped_at_any_poll_gives_its_slot_back() {
    for ms in 0..12 {
        let log = Log::default();
        let slow = Script {
            head: vec![Act::Wait(3)],
            body: vec![Act::Preamble, Act::Wait(3), Act::Text("!"), Act::Wait(3), Act::Done],
        };
        let mut service =
            pair(&log, FailoverConfig::eager(), [vec![Script::fails(Code::Server), slow], up()]);
        ask(&mut service, request()).await.1.unwrap();
        advance(FailoverConfig::eager().spring_back).await;
        let _ = timeout(Duration::from_millis(ms), ask(&mut service, request())).await;
        assert_eq!(log.open(), 0, "dropped after {ms} ms");
        assert_eq!(ask(&mut service, request()).await.0, "a!", "dropped after {ms} ms");
    }
}

/// Scenario: a candidate that is tried fails over and over, then works.
/// Expected: MUST be told: one trial a rest, and one spring-back at the end.
#[tokio::test(start_paused = true)]
async fn trials_are_told() {
    let log = Log::default();
    let (facts, told) = facts();
    let config = FailoverConfig { spring_back: MINUTE, ..FailoverConfig::eager() };
    let scripts = [Script::fails(Code::Server), Script::fails(Code::Server), Script::says("!")];
    let [a, b] = [Stage::new("a", &log, scripts), Stage::new("b", &log, up())];
    let mut service = FailoverLayer::new([b]).config(config).unwrap().facts(&facts).layer(a);
    for _ in 0..3 {
        ask(&mut service, request()).await.1.unwrap();
        advance(MINUTE).await;
    }
    assert_eq!(
        *told.lock().unwrap(),
        ["moved", "failed_over", "trial", "failed_over", "trial", "sprung_back"]
    );
}

/// Scenario: two calls are in flight at a candidate when a third moves calls away, and fail later.
/// Expected: MUST move nothing twice: b MUST go on standing.
#[tokio::test(start_paused = true)]
async fn failures_of_old_calls_do_not_move_the_new_candidate() {
    let log = Log::default();
    let (facts, told) = facts();
    let slow = || Script::head([Act::Wait(100), Act::Fail(fail(Code::Server))]);
    let [a, b, c] = [
        Stage::new("a", &log, [slow(), slow(), Script::fails(Code::Server)]),
        Stage::new("b", &log, up()),
        Stage::new("c", &log, up()),
    ];
    let layer = FailoverLayer::new([b, c]).config(FailoverConfig::eager()).unwrap().facts(&facts);
    let mut one = layer.layer(a);
    let (mut two, mut three) = (one.clone(), one.clone());
    let _ = tokio::join!(ask(&mut one, request()), ask(&mut two, request()), ask(&mut three, request()));
    assert_eq!(ask(&mut one, request()).await.0, "b!");
    assert_eq!(told.lock().unwrap().iter().filter(|name| *name == "moved").count(), 1);
}

/// Scenario: a conversation that is too long for the first candidate; the others hold less, as much, or nobody knows.
/// Expected: MUST go to none of them, and the failure MUST come out as it is.
#[tokio::test(start_paused = true)]
async fn only_a_window_known_to_be_larger_is_asked() {
    for windows in [[Some(8), Some(8), Some(4)], [Some(8), None, None], [None, Some(9), Some(9)]] {
        let log = Log::default();
        let scripts = [vec![Script::fails(Code::ContextLength)], up(), up()];
        let [a, b, c] = [0, 1, 2].map(|at| Stage::new(NAMES[at], &log, scripts[at].clone()));
        let candidates = [0, 1, 2].map(|at: usize| {
            let candidate = Candidate::new(NAMES[at]);
            match windows[at] {
                Some(window) => candidate.window(window),
                None => candidate,
            }
        });
        let mut service = FailoverLayer::new([b, c]).named(candidates).unwrap().layer(a);
        assert_eq!(ask(&mut service, request()).await.1.unwrap_err().code(), Code::ContextLength);
        assert_eq!(log.calls(), ["a"], "{windows:?}");
    }
}

/// Scenario: a conversation that is too long for the first candidate; the larger one fails or was told to wait, and a
/// smaller one stands behind it.
/// Expected: the smaller one MUST not be asked.
#[tokio::test(start_paused = true)]
async fn what_was_too_long_goes_to_no_smaller_window_later() {
    for larger in [vec![Script::fails(Code::Server)], vec![limited(300)]] {
        let log = Log::default();
        let scripts = [vec![Script::fails(Code::ContextLength)], larger, up()];
        let [a, b, c] = [0, 1, 2].map(|at| Stage::new(NAMES[at], &log, scripts[at].clone()));
        let candidates =
            [("a", 8), ("b", 16), ("c", 8)].map(|(name, window)| Candidate::new(name).window(window));
        let mut service = FailoverLayer::new([b, c]).named(candidates).unwrap().layer(a);
        for _ in 0..2 {
            assert_eq!(ask(&mut service, request()).await.1.unwrap_err().code(), Code::AllFailed);
        }
        assert_eq!(count(&log, "c"), 0);
    }
}

/// Scenario: a deadline shorter than the shares of those behind.
/// Expected: each MUST have an equal part of it.
#[tokio::test(start_paused = true)]
async fn a_short_deadline_is_shared_equally() {
    let log = Log::default();
    let begun = Instant::now();
    let mut service = stack(&log, FailoverConfig::default(), [down(), down(), up()]);
    ask(&mut service, request().within(Duration::from_secs(9))).await.1.unwrap();
    let by: Vec<_> =
        log.seen().iter().map(|call| call.commit_by.map(|by| (by - begun).as_millis())).collect();
    // 9 s for three: 3 s each. Then 9 s for two, since nothing was used: 4.5 s each.
    assert_eq!(by, [Some(3000), Some(4500), None]);
}

/// Scenario: the deadline passes while the first candidate is asked.
/// Expected: nobody else MUST be asked.
#[tokio::test(start_paused = true)]
async fn nobody_is_asked_after_the_deadline() {
    let log = Log::default();
    let slow = vec![Script::head([Act::Wait(2000), Act::Fail(fail(Code::Server))])];
    let mut service = stack(&log, FailoverConfig::default(), [slow, up(), up()]);
    let failure = ask(&mut service, request().within(Duration::from_secs(1))).await.1.unwrap_err();
    assert_eq!((failure.code(), log.calls()), (Code::Server, vec!["a"]));
}

/// Scenario: the second candidate fails with what no other can help.
/// Expected: the pass MUST end there with that failure, and the first MUST stand in its history.
#[tokio::test(start_paused = true)]
async fn a_failure_that_ends_the_pass_comes_with_what_was_before() {
    let log = Log::default();
    let mut service =
        stack(&log, FailoverConfig::default(), [down(), vec![Script::fails(Code::InvalidRequest)], up()]);
    let failure = ask(&mut service, request()).await.1.unwrap_err();
    assert_eq!(failure.code(), Code::InvalidRequest);
    let before: Vec<_> = failure.attempts().iter().map(|attempt| attempt.code).collect();
    assert_eq!((before, log.calls()), (vec![Code::Server], vec!["a", "b"]));
}

/// Scenario: calls begin at the second candidate, and it fails.
/// Expected: those below it MUST be asked before those above.
#[tokio::test(start_paused = true)]
async fn a_pass_goes_down_then_to_the_top() {
    let log = Log::default();
    let scripts = [down(), vec![Script::says("!"), Script::fails(Code::Server)], down()];
    let config = FailoverConfig { move_off_after: 1, ..FailoverConfig::default() };
    let mut service = stack(&log, config, scripts);
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    assert_eq!(ask(&mut service, request()).await.1.unwrap_err().code(), Code::AllFailed);
    assert_eq!(log.calls(), ["a", "b", "b", "c", "a"]);
}
