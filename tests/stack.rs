//! Layers together: what the order of a stack decides, and the canonical stack as a whole.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request as HttpRequest, Response};
use http_body_util::Full;
use support::{Act, Log, Script, Stage, ask, facts, fail, read, request};
use tokio::time::{Instant, advance};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};
use watertight::chat::{Cost, Event, Request, Tool};
use watertight::config::{ProviderConfig, StackConfig};
use watertight::event::{Circuit, Facts};
use watertight::failure::{Code, Failure};
use watertight::key::Caller;
use watertight::layers::bulkhead::{BudgetConfig, BulkheadConfig};
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::degradation::DegradationConfig;
use watertight::layers::failover::Candidate;
use watertight::layers::rate_limit::{Mode, RateLimitConfig};
use watertight::layers::reset::ResetConfig;
use watertight::layers::retry::{Jitter, RetryConfig};
use watertight::layers::timeout::{Clocks, Crawl};
use watertight::layers::{
    BulkheadLayer, CircuitBreakerLayer, DualClockTimeoutLayer, RetryLayer, TokenAwareRateLimitLayer,
};
use watertight::stack::{Layers, ServiceBuilderExt, Stack};

const SECOND: Duration = Duration::from_secs(1);

fn retry(retries: u32) -> RetryLayer {
    RetryLayer::new(RetryConfig { retries, jitter: Jitter::None, ..RetryConfig::default() }).unwrap()
}

fn breaker(failures: u32) -> CircuitBreakerLayer {
    let config = CircuitBreakerConfig {
        failures: Some(failures),
        ratio: None,
        jitter: 0.0,
        ..CircuitBreakerConfig::default()
    };
    CircuitBreakerLayer::new(config).unwrap()
}

fn state(layer: &CircuitBreakerLayer) -> Circuit {
    layer.handle().unwrap().snapshot().state
}

/// A stack of these providers, whose ladder lets failures go up.
fn stack(config: StackConfig, facts: &Facts, providers: Vec<(&'static str, Stage)>) -> Stack<Stage> {
    let degradation = DegradationConfig { graceful: None, ..DegradationConfig::default() };
    let retry = RetryConfig { jitter: Jitter::None, ..config.retry.clone() };
    Layers::new(StackConfig { degradation, retry, ..config }, facts).unwrap().over(providers).unwrap()
}

/// Scenario: a provider that fails for ever, under a breaker that opens after three failures: the breaker inside retry,
/// and outside of it.
/// Expected: inside, it MUST open within the first call and stop its retries; outside, each call with all its retries
/// MUST be one failure.
#[tokio::test(start_paused = true)]
async fn a_breaker_inside_retry_counts_attempts_and_outside_counts_calls() {
    let log = Log::default();
    let stage = || Stage::new("a", &log, [Script::fails(Code::Server)]);
    let inside = breaker(3);
    let mut service =
        ServiceBuilder::new().retrying(retry(5)).circuit_breaker(inside.clone()).service(stage());
    let (_, end) = ask(&mut service, request()).await;
    assert_eq!(end.unwrap_err().code(), Code::CircuitOpen);
    assert_eq!((log.calls().len(), state(&inside)), (3, Circuit::Open));

    let outside = breaker(3);
    let mut service =
        ServiceBuilder::new().circuit_breaker(outside.clone()).retrying(retry(1)).service(stage());
    for calls in 1..=3 {
        assert_eq!(state(&outside), Circuit::Closed);
        assert_eq!(ask(&mut service, request()).await.1.unwrap_err().code(), Code::Server);
        assert_eq!(log.calls().len(), 3 + 2 * calls);
    }
    assert_eq!(state(&outside), Circuit::Open);
}

/// Scenario: an HTTP service answers 503 with a body that a retry lets go of unread, three times.
/// Expected: each attempt MUST count against the breaker inside the retry.
#[tokio::test(start_paused = true)]
async fn a_response_that_a_retry_lets_go_of_is_a_failure() {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let service = tower::service_fn(move |_: HttpRequest<Bytes>| {
        seen.fetch_add(1, Ordering::SeqCst);
        let body = Full::new(Bytes::from_static(b"not now"));
        ready(Ok::<_, BoxError>(Response::builder().status(503).body(body).unwrap()))
    });
    let breaker = breaker(3);
    let mut service =
        ServiceBuilder::new().retrying(retry(9)).circuit_breaker(breaker.clone()).service(service);
    let request = HttpRequest::get("http://local.test/").body(Bytes::new()).unwrap();
    let error = service.ready().await.unwrap().call(request).await.map(|_| ()).unwrap_err();
    assert_eq!(error.downcast_ref::<Failure>().unwrap().code(), Code::CircuitOpen);
    assert_eq!((count.load(Ordering::SeqCst), state(&breaker)), (3, Circuit::Open));
}

/// Scenario: a provider that fails twice and then answers, under a limit of three requests: the limiter inside retry,
/// and outside of it.
/// Expected: inside, every attempt MUST pay; outside, the call MUST pay once.
#[tokio::test(start_paused = true)]
async fn a_limiter_inside_retry_charges_attempts_and_outside_charges_calls() {
    let limits = || {
        let config = RateLimitConfig {
            requests_per_minute: Some(3),
            burst: Some(1.0),
            mode: Mode::Reject,
            ..RateLimitConfig::from_headers()
        };
        TokenAwareRateLimitLayer::new(config).unwrap()
    };
    let scripts = || [Script::fails(Code::Server), Script::fails(Code::Server), Script::says("!")];
    let log = Log::default();
    let stage = || Stage::new("a", &log, scripts());
    let mut inside = ServiceBuilder::new().retrying(retry(2)).token_rate_limit(limits()).service(stage());
    ask(&mut inside, request()).await.1.unwrap();
    let (_, end) = ask(&mut inside, request()).await;
    let refused = end.unwrap_err();
    // Two waits of the retry gave back a little of a token a twentieth of a second.
    assert_eq!((refused.code(), refused.is_local()), (Code::LimiterFull, true));
    assert_eq!(log.calls().len(), 3);

    let mut outside = ServiceBuilder::new().token_rate_limit(limits()).retrying(retry(2)).service(stage());
    for _ in 0..3 {
        ask(&mut outside, request()).await.1.unwrap();
    }
    assert_eq!(ask(&mut outside, request()).await.1.unwrap_err().code(), Code::LimiterFull);
}

/// Scenario: a call waits in a limiter's line for longer than the first clock: the clocks inside the limiter, and
/// outside of it.
/// Expected: inside, the call MUST be answered; outside, the wait MUST be taken for a slow provider.
#[tokio::test(start_paused = true)]
async fn clocks_inside_a_limiter_do_not_time_its_line() {
    let limits = || {
        let config = RateLimitConfig {
            requests_per_minute: Some(20),
            burst: Some(0.05),
            ..RateLimitConfig::from_headers()
        };
        TokenAwareRateLimitLayer::new(config).unwrap()
    };
    let clocks = || {
        let clocks = Clocks { first_output: Some(SECOND), ..Clocks::default() };
        DualClockTimeoutLayer::new(clocks).unwrap()
    };
    let log = Log::default();
    let stage = || Stage::new("a", &log, [Script::says("!")]);
    let mut right =
        ServiceBuilder::new().token_rate_limit(limits()).dual_clock_timeout(clocks()).service(stage());
    ask(&mut right, request()).await.1.unwrap();
    let began = Instant::now();
    ask(&mut right, request()).await.1.unwrap();
    assert_eq!(began.elapsed(), 3 * SECOND, "one in three seconds");

    let mut wrong =
        ServiceBuilder::new().dual_clock_timeout(clocks()).token_rate_limit(limits()).service(stage());
    ask(&mut wrong, request()).await.1.unwrap();
    let (_, end) = ask(&mut wrong, request()).await;
    assert!(matches!(end.unwrap_err().code(), Code::Timeout(_) | Code::LimiterFull));
}

/// Scenario: streams that come at a crawl and complete, under clocks inside a breaker that opens after two failures;
/// and one that comes at an ordinary pace.
/// Expected: the crawl MUST be told among the events, take nothing of the answer, and count as a failure at its end.
#[tokio::test(start_paused = true)]
async fn a_stream_that_crawls_counts_as_a_failure() {
    let crawl = Crawl { tokens_per_second: 0.5, window: 10 * SECOND, cut: false };
    let clocks = Clocks { crawl: Some(crawl), ..Clocks::default() };
    let slow = (0..30).flat_map(|_| [Act::Wait(1_000), Act::Text(".")]).chain([Act::Done]);
    let brisk = (0..30).flat_map(|_| [Act::Wait(1_000), Act::Text("four of them")]).chain([Act::Done]);
    for (acts, crawls) in [(slow.collect::<Vec<_>>(), true), (brisk.collect(), false)] {
        let breaker = breaker(2);
        let log = Log::default();
        let mut service = ServiceBuilder::new()
            .circuit_breaker(breaker.clone())
            .dual_clock_timeout(DualClockTimeoutLayer::new(clocks).unwrap())
            .service(Stage::new("", &log, [Script::body(acts)]));
        for _ in 0..2 {
            assert_eq!(state(&breaker), Circuit::Closed);
            let mut reply = service.ready().await.unwrap().call(request()).await.unwrap();
            let (mut texts, mut told) = (0, 0);
            while let Some(event) = reply.next().await {
                match event.unwrap() {
                    Event::Text { .. } => texts += 1,
                    Event::Crawling { .. } => told += 1,
                    _ => {}
                }
            }
            assert_eq!((texts, told), (30, usize::from(crawls)));
        }
        assert_eq!(state(&breaker) == Circuit::Open, crawls);
    }
}

/// Scenario: the whole stack while its first provider fails, opens, rests, and comes back.
/// Expected: no caller MUST see a failure; the open circuit MUST be passed over unpaid; after its rest the first
/// provider MUST serve again, though nobody but calls asked.
#[tokio::test(start_paused = true)]
async fn a_healed_provider_is_used_again() {
    let log = Log::default();
    let down = std::iter::repeat_n(Script::fails(Code::Server), 5);
    let first = Stage::new("a", &log, down.chain([Script::says("!")]));
    let second = Stage::new("b", &log, [Script::says("!")]);
    let (facts, told) = facts();
    let config =
        StackConfig { retry: RetryConfig { retries: 0, ..RetryConfig::default() }, ..StackConfig::default() };
    let mut stack = stack(config, &facts, vec![("a", first), ("b", second)]);
    for _ in 0..8 {
        assert_eq!(ask(&mut stack, request()).await.0, "b!");
        advance(Duration::from_millis(1)).await;
    }
    let asked = log.calls().iter().filter(|name| **name == "a").count();
    assert!((3..=5).contains(&asked), "{asked} attempts before it was left alone");
    let mut healed = None;
    for second in 0..1_800 {
        advance(SECOND).await;
        if ask(&mut stack, request()).await.0 == "a!" {
            healed = Some(second);
            break;
        }
    }
    assert!(healed.is_some(), "it never came back");
    assert!(told.lock().unwrap().iter().any(|name| name == "sprung_back"));
    assert_eq!(log.open(), 0);
}

/// Scenario: a stream dies after its first output, with a section for resets and without; the provider behind is well.
/// Expected: without, what came MUST be a partial answer; with it the caller MUST be told that all so far is void, and get a whole
/// answer, all within one slot and one end; where the second dies, too, what came of that MUST be the partial answer.
#[tokio::test(start_paused = true)]
async fn a_stream_starts_over_where_the_configuration_says_so() {
    let dies = || Script::body([Act::Text("half"), Act::Fail(fail(Code::Transport))]);
    let only_one = ResetConfig::default();
    for (reset, scripts, words, told_names) in [
        (None, vec![dies(), Script::says("whole")], vec!["ahalf", "partial"], vec!["ended"]),
        (
            Some(only_one.clone()),
            vec![dies(), Script::says("whole")],
            vec!["ahalf", "reset", "awhole", "none"],
            vec!["reset", "ended"],
        ),
        (
            Some(only_one),
            vec![dies(), dies()],
            vec!["ahalf", "reset", "ahalf", "partial"],
            vec!["reset", "ended"],
        ),
    ] {
        let log = Log::default();
        let (facts, told) = facts();
        let bulkhead = BulkheadConfig { max_concurrent: Some(1), ..BulkheadConfig::users() };
        let config = StackConfig { reset, bulkhead, ..StackConfig::default() };
        let mut stack = stack(config, &facts, vec![("a", Stage::new("a", &log, scripts))]);
        let reply = stack.ready().await.unwrap().call(request()).await.unwrap();
        let word = |item| match item {
            Ok(Event::Text { text, .. }) => text,
            Ok(Event::Reset(_)) => "reset".to_owned(),
            Ok(Event::Completed(last)) => last.degradation().level.as_str().to_owned(),
            Ok(other) => format!("{other:?}"),
            Err(failure) => Failure::code(&failure).to_string(),
        };
        let seen: Vec<_> = reply.map(word).collect().await;
        assert_eq!(seen, words);
        let told = told.lock().unwrap();
        let of_the_call = told.iter().filter(|name| ["reset", "ended"].contains(&name.as_str()));
        assert_eq!(of_the_call.collect::<Vec<_>>(), told_names);
        assert_eq!(log.open(), 0);
        assert!(stack.snapshot().bulkhead.states.iter().all(|state| state.in_flight == 0));
    }
}

/// Scenario: a provider finds a request too long, and the smaller one fits, fails once, or is too long, too; another
/// provider stands behind.
/// Expected: the smaller one MUST be tried at the same provider, with retries of its own, before the other is asked; what
/// is too long twice MUST go on to the other, whose window is larger.
#[tokio::test(start_paused = true)]
async fn a_request_is_made_smaller_where_the_stack_is_told_how() {
    let long = || Script::fails(Code::ContextLength);
    for (scripts, asked, answer) in [
        (vec![long(), Script::says("!")], vec!["a", "a"], "a!"),
        (vec![long(), Script::fails(Code::Server), Script::says("!")], vec!["a", "a", "a"], "a!"),
        (vec![long(), long()], vec!["a", "a", "b"], "b!"),
    ] {
        let log = Log::default();
        let sizes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let smaller = move |mut request: Request, _: Failure| {
            seen.lock().unwrap().push(request.messages.len());
            let old = request.messages.len() / 2;
            request.edit().messages.drain(..old);
            ready(Some(request))
        };
        let providers = [("a", scripts, 10_000), ("b", vec![Script::says("!")], 20_000)];
        let providers = providers.map(|(name, scripts, window)| {
            (Candidate::new(name).window(window), Stage::new(name, &log, scripts))
        });
        let retry = RetryConfig { jitter: Jitter::None, ..RetryConfig::default() };
        let layers = Layers::new(StackConfig { retry, ..StackConfig::default() }, &Facts::default());
        let mut stack = layers.unwrap().over_shortening(providers, smaller).unwrap();
        let request = request().user("one").user("two").user("three");
        let turns = request.messages.len();
        assert_eq!(ask(&mut stack, request).await.0, answer);
        assert_eq!(log.calls(), asked);
        assert_eq!(*sizes.lock().unwrap(), [turns], "it is made smaller once");
        assert_eq!(stack.providers().len(), 2);
    }
}

/// Scenario: a caller holds its one slot by a stream it reads slowly; another caller comes, and the first again.
/// Expected: a slot MUST be held to the last event, and MUST be the caller's own.
#[tokio::test(start_paused = true)]
async fn a_slot_lasts_as_long_as_its_stream() {
    let log = Log::default();
    let stage = Stage::new("a", &log, [Script::body([Act::Text("1"), Act::Text("2"), Act::Done])]);
    let bulkhead = BulkheadConfig { max_concurrent: Some(1), max_waiting: 0, ..BulkheadConfig::users() };
    let config = StackConfig { bulkhead, ..StackConfig::default() };
    let mut stack = stack(config, &Facts::default(), vec![("a", stage)]);
    let by = |caller: &'static str| request().attach(Caller::new(caller));
    let mut held = stack.ready().await.unwrap().call(by("ann")).await.unwrap();
    held.next().await.unwrap().unwrap();
    let refused = ask(&mut stack, by("ann")).await.1.unwrap_err();
    assert_eq!((refused.code(), refused.is_local()), (Code::BulkheadFull, true));
    ask(&mut stack, by("bob")).await.1.unwrap();
    read(held).await.1.unwrap();
    ask(&mut stack, by("ann")).await.1.unwrap();
    let snapshot = stack.snapshot();
    assert!(snapshot.bulkhead.states.iter().all(|state| state.in_flight == 0), "{snapshot:?}");
}

/// Scenario: everything in the stack refuses in turn: the budget, the limits, the circuit.
/// Expected: each refusal MUST be local, say when to come back, and charge nothing to the provider; the words of the
/// ladder MUST answer where they are on.
#[tokio::test(start_paused = true)]
async fn refusals_are_local_and_say_when_to_come_back() {
    let log = Log::default();
    let stage = || Stage::new("a", &log, [Script::says("!")]);
    let budget = Some(BudgetConfig { tokens: 100, ..BudgetConfig::default() });
    let config = StackConfig {
        bulkhead: BulkheadConfig { budget, ..BulkheadConfig::users() },
        ..StackConfig::default()
    };
    let cost = Cost { input: 90, output: Some(10) };
    let mut stack_of_budget = stack(config.clone(), &Facts::default(), vec![("a", stage())]);
    ask(&mut stack_of_budget, request().attach(cost)).await.1.unwrap();
    let refused = ask(&mut stack_of_budget, request().attach(cost)).await.1.unwrap_err();
    assert_eq!(refused.code(), Code::BudgetExhausted);
    assert!(refused.is_local() && refused.retry_after().is_some());

    let mut stack_of_limits = {
        let rate_limit = RateLimitConfig {
            requests_per_minute: Some(1),
            burst: Some(1.0),
            mode: Mode::Reject,
            ..RateLimitConfig::from_headers()
        };
        stack(StackConfig { rate_limit, ..StackConfig::default() }, &Facts::default(), vec![("a", stage())])
    };
    ask(&mut stack_of_limits, request()).await.1.unwrap();
    let refused = ask(&mut stack_of_limits, request()).await.1.unwrap_err();
    assert_eq!(refused.code(), Code::LimiterFull);
    assert!(refused.is_local() && refused.retry_after().is_some());
    let circuit = stack_of_limits.providers()[0].circuit_breaker.handle().unwrap().snapshot();
    assert_eq!((circuit.state, circuit.failures), (Circuit::Closed, 0));

    let calls = log.calls().len();
    let layers = Layers::new(config, &Facts::default()).unwrap();
    let mut kind = layers.over([("a", stage())]).unwrap();
    kind.providers()[0].circuit_breaker.handle().unwrap().force_open();
    let reply = kind.ready().await.unwrap().call(request()).await.unwrap();
    let completion = reply.collect().await.unwrap();
    assert!(!completion.message.to_text().is_empty());
    assert_eq!(log.calls().len(), calls, "nobody was asked");
}

/// Scenario: one provider has limits of its own; the configuration names one that is not there; two have one name.
/// Expected: its own MUST be taken, and what is not there MUST be refused by its path.
#[tokio::test(start_paused = true)]
async fn one_provider_has_what_is_its_own() {
    let log = Log::default();
    let stage = |name| Stage::new(name, &log, [Script::says("!")]);
    let own = RateLimitConfig { requests_per_minute: Some(7), ..RateLimitConfig::default() };
    let mut config = StackConfig::default();
    config
        .providers
        .insert("b".into(), ProviderConfig { rate_limit: Some(own), ..ProviderConfig::default() });
    let stack = stack(config.clone(), &Facts::default(), vec![("a", stage("a")), ("b", stage("b"))]);
    let limit = |at: usize| {
        let snapshot = stack.providers()[at].rate_limit.snapshot();
        snapshot.keys[0].levels[0].limit
    };
    assert_ne!(limit(0), limit(1));
    assert_eq!(limit(1), Some(7));

    let layers = || Layers::new(config.clone(), &Facts::default()).unwrap();
    let missing = layers().over([("a", stage("a"))]).map(|_| ()).unwrap_err();
    assert_eq!(missing.field, "providers.b");
    assert!(layers().over([("b", stage("b")), ("b", stage("b"))]).is_err());
    assert!(Layers::new(StackConfig::default(), &Facts::default()).unwrap().over::<&str, Stage>([]).is_err());
}

/// Scenario: calls to a stack of three providers are dropped at every poll, before and in mid-stream.
/// Expected: nothing MUST be held after the drop: no slot, no reservation, no probe, no call upstream.
#[tokio::test(start_paused = true)]
async fn a_stack_dropped_at_any_poll_holds_nothing() {
    for polls in 0..40 {
        let log = Log::default();
        let slow = |name| {
            let steps =
                [Act::Wait(200), Act::Preamble, Act::Wait(200), Act::Text("!"), Act::Wait(200), Act::Done];
            Stage::new(
                name,
                &log,
                [Script::fails(Code::Server), Script { head: vec![Act::Wait(100)], body: steps.to_vec() }],
            )
        };
        let mut stack = stack(
            StackConfig::default(),
            &Facts::default(),
            ["a", "b", "c"].map(|name| (name, slow(name))).into(),
        );
        let mut call = Box::pin(async {
            let reply = stack.ready().await.unwrap().call(request().attach(Caller::new("ann"))).await;
            if let Ok(mut reply) = reply {
                while reply.next().await.is_some() {}
            }
        });
        for _ in 0..polls {
            if futures_util::FutureExt::now_or_never(call.as_mut()).is_some() {
                break;
            }
            advance(Duration::from_millis(100)).await;
        }
        drop(call);
        assert_eq!(log.open(), 0, "after {polls} polls");
        let snapshot = stack.snapshot();
        assert!(snapshot.bulkhead.states.iter().all(|state| state.in_flight == 0 && state.waiting == 0));
        for provider in &snapshot.providers {
            let keys = &provider.rate_limit.keys;
            assert!(keys.iter().all(|key| key.in_flight == 0 && key.waiting == 0), "after {polls} polls");
            assert!(provider.circuit_breaker.circuits.iter().all(|circuit| circuit.probes == 0));
        }
    }
}

/// Scenario: a stack's snapshot, and that of one whose circuit is open.
/// Expected: MUST serialise, and name what it shows.
#[tokio::test(start_paused = true)]
async fn a_snapshot_serialises() {
    let log = Log::default();
    let stack = stack(
        StackConfig::default(),
        &Facts::default(),
        vec![("a", Stage::new("a", &log, [Script::says("!")]))],
    );
    stack.providers()[0].circuit_breaker.handle().unwrap().force_open();
    let json = serde_json::to_value(stack.snapshot()).unwrap();
    assert_eq!(json["providers"][0]["name"], "a");
    assert_eq!(json["providers"][0]["circuit_breaker"]["circuits"][0]["key"], "provider:a");
    assert_eq!(json["providers"][0]["circuit_breaker"]["circuits"][0]["state"], "forced_open");
    assert!(json["bulkhead"]["name"].is_string());
    assert_eq!(json["providers"][0]["retry"]["budget"]["left"], 10);
    assert_eq!(json["failover"]["standing"], "a");
}

/// Scenario: a layer that is put on twice, and the stack's clones.
/// Expected: MUST share one state.
#[tokio::test(start_paused = true)]
async fn clones_of_a_stack_share_its_state() {
    let log = Log::default();
    let bulkhead = BulkheadLayer::new(BulkheadConfig {
        max_concurrent: Some(1),
        max_waiting: 0,
        ..BulkheadConfig::default()
    });
    let bulkhead = bulkhead.unwrap();
    let stage = Stage::new("a", &log, [Script::body([Act::Text("1"), Act::Hang])]);
    let (mut one, mut two) = (bulkhead.layer(stage.clone()), bulkhead.clone().layer(stage));
    let held: Result<_, Failure> = one.ready().await.unwrap().call(request()).await;
    let refused: Result<_, Failure> = two.ready().await.unwrap().call(Request::new("m").user("x")).await;
    assert_eq!(refused.map(|_| ()).unwrap_err().code(), Code::BulkheadFull);
    drop(held);
    assert!(two.ready().await.unwrap().call(request()).await.is_ok());
}

/// Scenario: a bulkhead for one call at a time, and a ladder whose fallback model, or model without a tool, is at work; the
/// same with a service that was given to the ladder alone.
/// Expected: inside the stack's bulkhead it MUST hold the caller's place until its stream is over, so that a second call
/// is refused; given to the ladder alone it MUST be seen to hold none.
#[tokio::test(start_paused = true)]
async fn a_rung_that_asks_a_model_holds_the_callers_place() {
    let slow = || Stage::new("b", &Log::default(), [Script::body([Act::Text("!"), Act::Hang])]);
    let layers = || {
        let degradation = DegradationConfig {
            graceful: None,
            fallback_models: vec!["small".into()],
            optional_tools: vec!["search".into()],
            ..DegradationConfig::default()
        };
        let bulkhead =
            BulkheadConfig { max_concurrent: Some(1), max_waiting: 0, ..BulkheadConfig::default() };
        let retry = RetryConfig { retries: 0, ..RetryConfig::default() };
        Layers::new(StackConfig { degradation, bulkhead, retry, ..StackConfig::default() }, &Facts::default())
            .unwrap()
    };
    let down = || Stage::new("b", &Log::default(), [Script::fails(Code::Server)]);
    let model = || layers().fallback_model(slow()).unwrap().skip_tool(slow()).unwrap();
    let tool = || layers().fallback_model(down()).unwrap().skip_tool(slow()).unwrap();
    let mut alone = layers().skip_tool(slow()).unwrap();
    alone.degradation = alone.degradation.fallback_model(slow()).unwrap();
    let offered = || request().tool(Tool::new("search", "", serde_json::json!({"type": "object"})));
    let about_tools = || fail(Code::InvalidToolArguments);
    for (layers, failure, held) in
        [(model(), fail(Code::Server), 1), (tool(), about_tools(), 1), (alone, fail(Code::Server), 0)]
    {
        let failing = Script::head([Act::Fail(failure)]);
        let first = Stage::new("a", &Log::default(), [failing.clone(), Script::says("!")]);
        let mut stack = layers.over([("a", first)]).unwrap();
        let reply = stack.ready().await.unwrap().call(offered()).await.unwrap();
        assert!(reply.head().degradation().is_degraded());
        let in_flight = |stack: &Stack<Stage>| -> u32 {
            stack.snapshot().bulkhead.states.iter().map(|state| state.in_flight).sum()
        };
        assert_eq!(in_flight(&stack), held);
        let second = ask(&mut stack, request()).await.1;
        assert_eq!(second.err().map(|failure| failure.code()), (held == 1).then_some(Code::BulkheadFull));
        drop(reply);
        assert_eq!(in_flight(&stack), 0);
        assert!(ask(&mut stack, request()).await.1.is_ok());
    }
}
