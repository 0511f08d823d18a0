//! How often a provider is asked: retries in depth, beside budgets, deadlines, readiness and each other.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::Full;
use support::{Act, Log, Script, Stage, ask, fail, request};
use tokio::time::{Instant, advance, sleep, timeout};
use tower::limit::ConcurrencyLimit;
use tower::{BoxError, Layer, Service, ServiceExt};
use watertight::chat::{Ask, Request};
use watertight::event::{Fact, Facts, RetryRefusal};
use watertight::failure::{Clock, Code, Failure};
use watertight::layers::retry::{Jitter, RetryBudgetConfig, RetryConfig, RetryLayer, ShortenLayer};

const SECOND: Duration = Duration::from_secs(1);

fn config() -> RetryConfig {
    RetryConfig { jitter: Jitter::None, seed: Some(1), ..RetryConfig::default() }
}

fn layer(config: RetryConfig) -> RetryLayer {
    RetryLayer::new(config).unwrap()
}

fn fails_with(failure: Failure) -> Script {
    Script::head([Act::Fail(failure)])
}

/// A budget for this many retries and no more.
fn only(reserve: u32) -> Option<RetryBudgetConfig> {
    Some(RetryBudgetConfig { ratio: 1e-9, reserve, ..RetryBudgetConfig::default() })
}

/// What is told of retries, each in a word.
fn told() -> (Facts, Arc<Mutex<Vec<String>>>) {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&told);
    let met = Mutex::new(Vec::new());
    let facts = Facts::to(move |fact: &Fact<'_>| {
        // Ids are of the process, and other tests draw them, too: told by the order in which they are met.
        let id = |id: u64| {
            let mut met = met.lock().unwrap();
            met.iter().position(|known| *known == id).unwrap_or_else(|| {
                met.push(id);
                met.len() - 1
            })
        };
        let word = match fact {
            Fact::RetryPlanned { retry_id, provider, policy, failure, delay, attempt, of, .. } => format!(
                "{} planned: {policy}, {} of {}, {attempt} of {of} after {delay:?}",
                id(*retry_id),
                failure.code(),
                provider.unwrap_or_default()
            ),
            Fact::RetryStarted { retry_id, .. } => format!("{} started", id(*retry_id)),
            Fact::RetryRefused { reason, failure, .. } => format!("{}: {reason:?}", failure.code()),
            other => other.name().to_owned(),
        };
        sink.lock().unwrap().push(word);
    });
    (facts, told)
}

/// Scenario: two retries, then none left.
/// Expected: each MUST be told twice under one id, with its policy, provider, failure, wait and number; then why no more.
#[tokio::test(start_paused = true)]
async fn a_retry_is_told_when_planned_and_when_started() {
    let (facts, told) = told();
    let config = RetryConfig { policy: "mine".into(), retries: 2, ..config() };
    let stage = Stage::new("a", &Log::default(), [Script::fails(Code::Server)]);
    ask(&mut layer(config).facts(&facts).layer(stage), request()).await.1.unwrap_err();
    assert_eq!(
        *told.lock().unwrap(),
        [
            "0 planned: mine, SERVER of a, 1 of 2 after 1s",
            "0 started",
            "1 planned: mine, SERVER of a, 2 of 2 after 2s",
            "1 started",
            "SERVER: Attempts"
        ]
    );
}

/// Scenario: failures for which several checks say no at once.
/// Expected: the first in order MUST be told: retryable, attempts, wait, deadline, budget; with none of them, a retry.
#[tokio::test(start_paused = true)]
async fn the_checks_have_an_order() {
    let long = Some(Duration::from_secs(9897));
    let refused = |reason: RetryRefusal| vec![format!("RATE_LIMITED: {reason:?}")];
    for (code, retries, wait, deadline, reserve, expected) in [
        (Code::InvalidRequest, 0, long, true, 0, vec![]),
        (Code::RateLimited, 0, long, true, 0, refused(RetryRefusal::Attempts)),
        (Code::RateLimited, 3, long, true, 0, refused(RetryRefusal::Wait)),
        (Code::RateLimited, 3, None, true, 0, refused(RetryRefusal::Deadline)),
        (Code::RateLimited, 3, None, false, 0, refused(RetryRefusal::Budget)),
    ] {
        let (facts, told) = told();
        let config = RetryConfig { retries, budget: only(reserve), ..config() };
        let stage = Stage::new("a", &Log::default(), [fails_with(fail(code).with_retry_after(wait))]);
        let request = if deadline { request().within(SECOND) } else { request() };
        let begun = Instant::now();
        let failure = ask(&mut layer(config).facts(&facts).layer(stage), request).await.1.unwrap_err();
        assert_eq!((failure.code(), failure.retry_after()), (code, wait));
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(*told.lock().unwrap(), expected);
    }
}

/// Scenario: late first outputs, with another failure between.
/// Expected: a late first output MUST be tried again once a call, whatever lies between.
#[tokio::test(start_paused = true)]
async fn a_late_first_output_is_tried_again_once() {
    let log = Log::default();
    let late = || Script::fails(Code::Timeout(Clock::FirstOutput));
    let stage = Stage::new("a", &log, [late(), Script::fails(Code::Server), late(), Script::says("never")]);
    let failure = ask(&mut layer(config()).layer(stage), request()).await.1.unwrap_err();
    assert_eq!((failure.code(), log.calls().len()), (Code::Timeout(Clock::FirstOutput), 3));
    assert!(failure.is_exhausted());
}

/// Scenario: a call that gets a single attempt, and one whose first output must come before its retry could.
/// Expected: neither MUST be tried again.
#[tokio::test(start_paused = true)]
async fn a_single_call_and_a_short_share_are_heard() {
    for short in [false, true] {
        let log = Log::default();
        let mut request = request();
        let mut call = request.call();
        if short {
            call.commit_by = Some(Instant::now() + SECOND);
        } else {
            call.single = true;
        }
        request.set_call(call);
        let mut service = layer(config()).layer(Stage::new("a", &log, [Script::fails(Code::Server)]));
        let failure = ask(&mut service, request).await.1.unwrap_err();
        assert_eq!((failure.is_exhausted(), log.calls().len()), (true, 1));
    }
}

/// Scenario: every code fails for ever, under both presets.
/// Expected: `brisk` MUST try its own list twice again, `never_bill_twice` MUST not try what may have been billed.
#[tokio::test(start_paused = true)]
async fn presets_try_what_they_say() {
    for code in Code::ALL {
        for preset in [RetryConfig::brisk(), RetryConfig::never_bill_twice()] {
            let log = Log::default();
            let brisk = preset.policy == "brisk";
            let mut service = layer(RetryConfig { jitter: Jitter::None, ..preset }).layer(Stage::new(
                "a",
                &log,
                [Script::fails(code)],
            ));
            ask(&mut service, request()).await.1.unwrap_err();
            let in_list = match code {
                Code::EmptyResponse
                | Code::RateLimited
                | Code::Server
                | Code::Overloaded
                | Code::Transport
                | Code::Connect => true,
                Code::Timeout(clock) => clock != Clock::Total,
                _ => false,
            };
            let billed = matches!(code, Code::Timeout(clock) if clock != Clock::Connect)
                || matches!(code, Code::InvalidResponse | Code::RequestTimeout);
            let most = match code {
                Code::Timeout(Clock::FirstOutput) => 1,
                _ if brisk => 2,
                _ => 3,
            };
            let tried = if brisk { in_list } else { code.judgement().retry && !billed };
            assert_eq!(log.calls().len(), if tried { 1 + most } else { 1 }, "{code}, brisk: {brisk}");
        }
    }
}

/// Scenario: a retry around one that is stricter, or that tried before and then met what it does not try.
/// Expected: the outer MUST not try what the inner refused or gave up: attempts never multiply, nothing is billed twice.
#[tokio::test(start_paused = true)]
async fn an_outer_retry_respects_what_the_inner_refused() {
    let log = Log::default();
    let inner = layer(RetryConfig { jitter: Jitter::None, ..RetryConfig::never_bill_twice() });
    let stage = Stage::new("a", &log, [Script::fails(Code::Timeout(Clock::FirstOutput))]);
    let mut service = layer(config()).layer(inner.layer(stage));
    assert!(ask(&mut service, request()).await.1.unwrap_err().is_exhausted());
    assert_eq!(log.calls().len(), 1);

    let log = Log::default();
    let outer = layer(RetryConfig { only: Some(vec![Code::EmptyResponse]), ..config() });
    let scripts = [Script::fails(Code::Server), Script::fails(Code::EmptyResponse)];
    let mut service = outer.layer(layer(config()).layer(Stage::new("a", &log, scripts)));
    assert_eq!(ask(&mut service, request()).await.1.unwrap_err().code(), Code::EmptyResponse);
    assert_eq!(log.calls().len(), 2);
}

/// Scenario: a service beneath admits one call at a time.
/// Expected: a retry MUST have its place again, though the service is kept; and MUST wait for it where another has it.
#[tokio::test(start_paused = true)]
async fn a_retry_waits_until_it_is_ready() {
    let log = Log::default();
    let slow = Script { head: vec![Act::Wait(5000)], body: vec![Act::Text("slow"), Act::Done] };
    let stage = Stage::new("a", &log, [Script::fails(Code::Server), slow, Script::says("!")]);
    let mut service = layer(config()).layer(ConcurrencyLimit::new(stage, 1));
    let mut other = service.clone();
    let (one, two) = tokio::join!(timeout(60 * SECOND, ask(&mut service, request())), async {
        sleep(Duration::from_millis(10)).await;
        ask(&mut other, request()).await
    });
    assert_eq!((one.unwrap().0.as_str(), two.0.as_str()), ("a!", "aslow"));
    assert_eq!(log.calls().len(), 3);
}

/// Holds the one place of a service for so long.
async fn hold<S>(service: S, seconds: u32) -> impl Sized
where
    S: Service<Request, Error = Failure>,
{
    let mut held = service;
    let _ = held.ready().await.unwrap();
    sleep(seconds * SECOND).await;
    held
}

/// Scenario: a retry whose wait is over is dropped while it waits to be ready.
/// Expected: it was not made: the budget MUST have it back, and it MUST not be told as started.
#[tokio::test(start_paused = true)]
async fn a_retry_dropped_before_it_is_made_costs_nothing() {
    let (facts, told) = told();
    let stage = Stage::new("a", &Log::default(), [Script::fails(Code::Server)]);
    let limited = ConcurrencyLimit::new(stage, 1);
    let mut service = layer(RetryConfig { budget: only(1), ..config() }).facts(&facts).layer(limited.clone());
    let mut again = service.clone();
    tokio::join!(
        async {
            assert!(timeout(3 * SECOND, ask(&mut service, request())).await.is_err());
            // The place is free from the fifth second on.
            let _ = ask(&mut again, request()).await;
        },
        async {
            sleep(Duration::from_millis(10)).await;
            drop(hold(limited, 5).await);
        }
    );
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].starts_with("0 planned") && told[1].starts_with("1 planned"), "{told:?}");
    assert_eq!(told[2..], ["1 started", "SERVER: Budget"]);
}

/// Scenario: calls with retries, dropped at every half second.
/// Expected: as many MUST be told as started as were made, each planned before.
#[tokio::test(start_paused = true)]
async fn what_is_told_as_started_was_made() {
    for half_seconds in 0..20 {
        let (log, (facts, told)) = (Log::default(), told());
        let mut service =
            layer(config()).facts(&facts).layer(Stage::new("a", &log, [Script::fails(Code::Server)]));
        let _ = timeout(half_seconds * SECOND / 2, ask(&mut service, request())).await;
        let told = told.lock().unwrap();
        let count = |word: &str| told.iter().filter(|told| told.contains(word)).count();
        assert_eq!(count("started"), log.calls().len().saturating_sub(1));
        assert!(count("planned") - count("started") <= 1);
    }
}

/// Scenario: the place beneath is taken until long after the deadline, or until just before it.
/// Expected: no attempt MUST start with less than the minimum left, and the call MUST end by the deadline with its
/// failure.
#[tokio::test(start_paused = true)]
async fn readiness_that_comes_too_late_is_not_waited_for() {
    for (seconds, tries) in [(3, 2), (60, 1)] {
        let log = Log::default();
        let limited = ConcurrencyLimit::new(Stage::new("a", &log, [Script::fails(Code::Server)]), 1);
        let mut service = layer(config()).layer(limited.clone());
        let begun = Instant::now();
        let (_, failure) = tokio::join!(
            async {
                sleep(Duration::from_millis(10)).await;
                drop(hold(limited, seconds).await);
            },
            async {
                let failure = ask(&mut service, request().within(4 * SECOND)).await.1.unwrap_err();
                assert!(begun.elapsed() <= 4 * SECOND, "{:?}", begun.elapsed());
                failure
            }
        );
        assert_eq!((failure.code(), log.calls().len()), (Code::Server, tries));
        assert!(failure.is_exhausted());
        assert_eq!(failure.attempts().len(), tries - 1, "the failure itself is not among those before it");
    }
}

/// A service that is ready so many times, and breaks then.
#[derive(Clone)]
struct Breaks(Stage, Arc<AtomicUsize>);

impl Service<Request> for Breaks {
    type Response = <Stage as Service<Request>>::Response;
    type Error = Failure;
    type Future = <Stage as Service<Request>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => self.0.poll_ready(cx),
            Err(_) => Poll::Ready(Err(fail(Code::Connect))),
        }
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.0.call(request)
    }
}

/// Scenario: the service beneath breaks for good while a retry readies it; a retry stands outside.
/// Expected: its failure MUST come with the attempts before it, and MUST be final for the outer retry, too.
#[tokio::test(start_paused = true)]
async fn a_service_that_breaks_before_a_retry_is_final() {
    let log = Log::default();
    let broken = Breaks(Stage::new("a", &log, [Script::fails(Code::Server)]), Arc::new(AtomicUsize::new(2)));
    let mut service = layer(config()).layer(layer(config()).layer(broken));
    let failure = ask(&mut service, request()).await.1.unwrap_err();
    assert_eq!(failure.code(), Code::Connect);
    let before: Vec<_> = failure.attempts().iter().map(|attempt| attempt.code).collect();
    assert_eq!((before, log.calls().len()), (vec![Code::Server; 2], 2));
    assert!(failure.is_exhausted());
}

/// Scenario: clones of a service, services of one layer, and services of two layers.
/// Expected: the first two MUST share one budget, the last have one each.
#[tokio::test(start_paused = true)]
async fn a_budget_is_shared_by_all_that_came_of_a_layer() {
    let log = Log::default();
    let config = RetryConfig { budget: only(3), retries: 2, ..config() };
    let stage = || Stage::new("a", &log, [Script::fails(Code::Server)]);
    let shared = layer(config.clone());
    let mut one = shared.layer(stage());
    let (mut clone, mut two) = (one.clone(), shared.clone().layer(stage()));
    let mut calls = Vec::new();
    for service in [&mut one, &mut clone, &mut two, &mut layer(config).layer(stage())] {
        let before = log.calls().len();
        ask(service, request()).await.1.unwrap_err();
        calls.push(log.calls().len() - before);
    }
    assert_eq!(calls, [3, 2, 1, 3]);
}

/// Scenario: many calls are answered for an hour, with no failure; then the provider is down.
/// Expected: the calls of the last seconds MUST pay for retries, not those of the hour.
#[tokio::test(start_paused = true)]
async fn an_hour_of_calls_does_not_pay_for_a_storm() {
    let log = Log::default();
    let mut scripts = vec![Script::says("!"); 3600];
    scripts.push(Script::fails(Code::Server));
    let budget = Some(RetryBudgetConfig { ratio: 0.2, reserve: 10, window: 10 * SECOND });
    let config = RetryConfig { budget, retries: 100, base: Duration::from_nanos(1), ..config() };
    let mut service = layer(config).layer(Stage::new("a", &log, scripts));
    for _ in 0..3600 {
        ask(&mut service, request()).await.1.unwrap();
        advance(SECOND).await;
    }
    let before = log.calls().len();
    ask(&mut service, request()).await.1.unwrap_err();
    let retries = log.calls().len() - before - 1;
    assert!((10..=13).contains(&retries), "{retries} retries beside 10 calls of the last 10 s");
}

/// Scenario: an HTTP server answers 503 with `Retry-After`, in seconds and in milliseconds, then 200.
/// Expected: MUST not come back sooner than stated; over the maximum the response MUST go up at once.
#[tokio::test(start_paused = true)]
async fn the_wait_of_an_http_response_is_a_floor() {
    for (name, value, at_least, tries) in [
        ("retry-after", "7", 7 * SECOND, 2),
        ("retry-after-ms", "2500", 5 * SECOND / 2, 2),
        ("retry-after", "9897", Duration::ZERO, 1),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&count);
        let server = tower::service_fn(move |_: http::Request<()>| {
            let status = if asked.fetch_add(1, Ordering::SeqCst) == 0 { 503 } else { 200 };
            let response = http::Response::builder().status(status).header(name, value);
            std::future::ready(Ok::<_, BoxError>(response.body(Full::new(Bytes::new())).unwrap()))
        });
        let begun = Instant::now();
        layer(RetryConfig::default()).layer(server).oneshot(http::Request::new(())).await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), tries);
        assert!(begun.elapsed() >= at_least);
    }
}

/// Scenario: a request that is too long; the shortener builds a new one.
/// Expected: it MUST stay the same call, with its deadline; what came before MUST stand in the head of the answer, or
/// beside the failure.
#[tokio::test(start_paused = true)]
async fn a_shortened_request_stays_the_same_call() {
    for last in [Script::says("!"), Script::fails(Code::ContextLength)] {
        let log = Log::default();
        let stage = Stage::new("a", &log, [Script::fails(Code::ContextLength), last.clone()]);
        let shorten = |_: Request, _: Failure| async { Some(Request::new("model").user("hi")) };
        let service = ShortenLayer::new(shorten).layer(layer(config()).layer(stage));
        let request = request().within(60 * SECOND);
        let call = request.call();
        let attempts = match service.oneshot(request).await {
            Ok(reply) => reply.head().attempts.clone(),
            Err(failure) => failure.attempts().to_vec(),
        };
        let codes: Vec<_> = attempts.iter().map(|attempt| attempt.code).collect();
        assert_eq!(codes, [Code::ContextLength], "{last:?}");
        let seen = log.seen();
        assert_eq!((seen[1].id, seen[1].deadline), (call.id, call.deadline));
        assert_eq!(seen.len(), 2);
    }
}

/// Scenario: a single attempt is all the call gets; the shortening takes longer than the deadline; the refusal is ours.
/// Expected: MUST not be tried again, and the failure MUST come as it is.
#[tokio::test(start_paused = true)]
async fn a_shortened_request_is_not_sent_where_none_may_be() {
    for (single, takes, failure) in [
        (true, 0, fail(Code::ContextLength)),
        (false, 5, fail(Code::ContextLength)),
        (false, 0, Failure::local(Code::ContextLength, "it does not fit")),
    ] {
        let log = Log::default();
        let shorten = move |_: Request, _: Failure| async move {
            sleep(takes * SECOND).await;
            Some(Request::new("model").user("hi"))
        };
        let mut service = ShortenLayer::new(shorten).layer(Stage::new("a", &log, [fails_with(failure)]));
        let mut request = request().within(4 * SECOND);
        let mut call = request.call();
        call.single = single;
        request.set_call(call);
        let begun = Instant::now();
        let failure = ask(&mut service, request).await.1.unwrap_err();
        assert_eq!((failure.code(), log.calls().len()), (Code::ContextLength, 1), "single: {single}");
        assert!(begun.elapsed() <= 4 * SECOND);
    }
}

/// Scenario: retries beneath use up their attempts on the smaller request.
/// Expected: the extra attempt MUST be outside the count: as many retries again.
#[tokio::test(start_paused = true)]
async fn shortening_counts_apart() {
    let log = Log::default();
    let scripts =
        [Script::fails(Code::Server), Script::fails(Code::ContextLength), Script::fails(Code::Server)];
    let shorten = |_: Request, _: Failure| async { Some(Request::new("model").user("hi")) };
    let mut service = ShortenLayer::new(shorten).layer(layer(config()).layer(Stage::new("a", &log, scripts)));
    assert_eq!(ask(&mut service, request()).await.1.unwrap_err().code(), Code::Server);
    assert_eq!(log.calls().len(), 2 + 4);
}

/// Scenario: a shortened call, dropped after every millisecond: in the call, while it is made smaller, and after.
/// Expected: nothing MUST stay open, and nothing more MUST be sent.
#[tokio::test(start_paused = true)]
async fn a_shortening_dropped_at_any_poll_holds_nothing() {
    let slow = |act| Script { head: vec![Act::Wait(3)], body: vec![Act::Preamble, Act::Wait(3), act] };
    for ms in 0..24 {
        let log = Log::default();
        let shorten = |_: Request, _: Failure| async {
            sleep(Duration::from_millis(5)).await;
            Some(Request::new("model").user("hi"))
        };
        let stage = Stage::new("a", &log, [slow(Act::Fail(fail(Code::ContextLength))), slow(Act::Done)]);
        let mut service = ShortenLayer::new(shorten).layer(stage);
        let _ = timeout(Duration::from_millis(ms), ask(&mut service, request())).await;
        assert_eq!(log.open(), 0, "dropped after {ms} ms");
        let sent = log.calls().len();
        sleep(60 * SECOND).await;
        assert_eq!(log.calls().len(), sent);
    }
}

/// Scenario: a future that was never polled is dropped.
/// Expected: the call that was made MUST be let go, and nothing else made.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_polled_holds_nothing() {
    let log = Log::default();
    let mut service = layer(config()).layer(Stage::new("a", &log, [Script::fails(Code::Server)]));
    let call = service.ready().now_or_never().unwrap().unwrap().call(request());
    assert_eq!(log.open(), 1);
    drop(call);
    assert_eq!((log.open(), log.calls().len()), (0, 1));
}
