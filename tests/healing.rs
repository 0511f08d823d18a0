//! What was broken and is well again is used again, though nobody asks more of its breaker than whether it can be called.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::Stream;
use support::{Log, Script, Stage, ask, fail, request};
use tokio::time::{Instant, advance};
use tower::{Layer, Service, service_fn};
use watertight::chat::{Completion, Event, Head, Message, Reply, Request, Role, Stop};
use watertight::event::Circuit;
use watertight::failure::{Code, Failure};
use watertight::layers::circuit_breaker::{CircuitBreakerConfig, CircuitHandle};
use watertight::layers::degradation::{CallableWhen, DegradationConfig};
use watertight::layers::failover::FailoverConfig;
use watertight::layers::{CircuitBreakerLayer, DegradationLayer, FailoverLayer};

/// How long each play is, in calls a second apart, and when what is broken in it is well again.
const LENGTH: u64 = 240;
const HEALED: u64 = 20;

/// Who was asked, and in which second.
type Asked = Arc<Mutex<Vec<(&'static str, u64)>>>;

/// How a planner asks a breaker.
type Asks = fn(&CircuitHandle) -> bool;

/// One that takes what is not closed for what cannot be called: then nobody ever tries it.
const WAITS_FOR_CLOSED: Asks = |handle| handle.snapshot().state == Circuit::Closed;

fn breaker(name: &'static str) -> CircuitBreakerLayer {
    let config = CircuitBreakerConfig { jitter: 0.0, ..CircuitBreakerConfig::default() };
    CircuitBreakerLayer::new(config).unwrap().named(name)
}

/// Fails until it is well, and then says its name; who is asked, and in which second, goes into the list.
fn ill(
    name: &'static str,
    asked: &Asked,
) -> impl Service<
    Request,
    Response = Reply<impl Stream<Item = Result<Event, Failure>> + Unpin + Send + Sync + use<>>,
    Error = Failure,
    Future: Send + Unpin,
> + Clone
+ Send
+ Sync
+ use<> {
    let (asked, start) = (Arc::clone(asked), Instant::now());
    service_fn(move |_: Request| {
        let second = start.elapsed().as_secs();
        asked.lock().unwrap().push((name, second));
        let completion = Completion::new(Message::text(Role::Assistant, name), Stop::End, None);
        let events = vec![Ok(Event::text(0, name)), Ok(Event::Completed(Box::new(completion)))];
        let reply = Reply::new(Head::of(name), futures_util::stream::iter(events));
        std::future::ready(if second < HEALED { Err(fail(Code::Server)) } else { Ok(reply) })
    })
}

/// The seconds in which one was asked.
fn seconds(asked: &Asked, name: &str) -> Vec<u64> {
    asked.lock().unwrap().iter().filter(|(who, _)| *who == name).map(|(_, second)| *second).collect()
}

/// Calls a ladder whose first service never works each second. When its fallback model, behind a breaker, was asked, what
/// that breaker is at last, and the last answer.
async fn laddered(asks: Asks) -> (Vec<u64>, Circuit, String) {
    let (asked, breaker) = (Asked::default(), breaker("provider:small"));
    let handle = breaker.handle().unwrap();
    let config = DegradationConfig {
        fallback_models: vec!["small".to_owned()],
        graceful: None,
        max_partial: None,
        ..DegradationConfig::default()
    };
    let layer = DegradationLayer::new(config).unwrap();
    let layer = layer.model_callable("small", CallableWhen::new(move || asks(&handle))).unwrap();
    let layer = layer.fallback_model(breaker.layer(ill("small", &asked))).unwrap();
    let down = Stage::new("down", &Log::default(), [Script::fails(Code::Server)]);
    let (mut service, mut last) = (layer.layer(down), String::new());
    for _ in 0..LENGTH {
        last = ask(&mut service, request()).await.0;
        advance(Duration::from_secs(1)).await;
    }
    (seconds(&asked, "small"), breaker.handle().unwrap().snapshot().state, last)
}

/// Scenario: a ladder asks each second whether its fallback model, which fails for a while, can be called; and one that
/// waits for its breaker to be closed.
/// Expected: the model MUST be left alone while it rests, be tried when that is over, and answer again for good; with the
/// twin it MUST never be asked again.
#[tokio::test(start_paused = true)]
async fn a_fallback_model_that_is_well_is_used_again() {
    let (asked, state, last) = laddered(CircuitHandle::is_callable).await;
    assert_eq!(asked[..5], [0, 1, 2, 3, 4]);
    assert_eq!(asked[5..7], [34, 35], "two probes, as soon as the rest is over");
    assert_eq!((state, last.as_str()), (Circuit::Closed, "small"));
    let again = asked.iter().filter(|second| (60..).contains(*second)).count();
    assert_eq!(again, usize::try_from(LENGTH - 60).unwrap(), "each call, once the ramp is over");

    let (asked, state, last) = laddered(WAITS_FOR_CLOSED).await;
    assert_eq!((asked.len(), state, last.as_str()), (5, Circuit::Open, ""), "the twin");
}

/// Calls two candidates, each behind a breaker, each second in which a planner finds one callable. When the first and the
/// second were asked, what the breaker of the first is at last, and the last answer.
async fn failed_over(asks: Asks) -> ([Vec<u64>; 2], Circuit, String) {
    let (asked, names) = (Asked::default(), ["a", "b"]);
    let breakers = names.map(breaker);
    let handles = breakers.each_ref().map(|breaker| breaker.handle().unwrap());
    let candidate = |at: usize| breakers[at].layer(ill(names[at], &asked));
    let config = FailoverConfig { spring_back: Duration::from_secs(10), ..FailoverConfig::default() };
    let layer = FailoverLayer::new([candidate(1)]).named(names).unwrap().config(config).unwrap();
    let (mut service, mut last) = (layer.layer(candidate(0)), String::new());
    for _ in 0..LENGTH {
        if handles.iter().any(asks) {
            last = ask(&mut service, request()).await.0;
        }
        advance(Duration::from_secs(1)).await;
    }
    (names.map(|name| seconds(&asked, name)), handles[0].snapshot().state, last)
}

/// Scenario: a planner asks each second whether either of two candidates, both of which fail for a while, can be called,
/// and calls a failover over both only then; and one that waits for a breaker to be closed.
/// Expected: each MUST be left alone while it rests; the first MUST be tried again, and answer again for good, the second
/// no more; with the twin neither MUST ever be asked again.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_well_is_used_again() {
    let ([first, second], state, last) = failed_over(CircuitHandle::is_callable).await;
    let before = |asked: &[u64]| asked.iter().filter(|second| **second < HEALED).count();
    assert_eq!((before(&first), before(&second)), (5, 5), "{first:?} {second:?}");
    let rests = |asked: &[u64]| asked[5] >= asked[4] + 30;
    assert!(rests(&first) && rests(&second), "{first:?} {second:?}");
    assert_eq!((state, last.as_str()), (Circuit::Closed, "a"));
    let again = |asked: &[u64]| asked.iter().filter(|second| (100..).contains(*second)).count();
    assert_eq!((again(&first), again(&second)), (usize::try_from(LENGTH - 100).unwrap(), 0));

    let (asked, state, _) = failed_over(WAITS_FOR_CLOSED).await;
    assert_eq!((asked.map(|asked| asked.len()), state), ([5, 5], Circuit::Open), "the twin");
}
