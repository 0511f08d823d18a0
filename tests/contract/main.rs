//! The laws of tower, and of this house, held to every layer: one table of layers, one function a law, and beside each
//! law the twins that break it and must be rejected.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    missing_debug_implementations,
    reason = "a test may panic, and reads better so"
)]

mod door;
mod laws;
mod rows;
#[path = "../support/mod.rs"]
mod support;
mod twins;

use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Body, Frame};
use laws::Verdict;
use rows::{Make, TABLE, lessons, stories};
use support::Script;
use tower::{Layer, Service};
use twins::{lesson, twin};
use watertight::chat::{Event, Reply, Request, ToolRequest};
use watertight::failure::{BoxError, Failure};
use watertight::layers::rate_limit::RateLimitConfig;
use watertight::layers::{
    BulkheadLayer, CircuitBreakerLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, ResetLayer,
    RetryLayer, TokenAwareRateLimitLayer,
};
use watertight::observe::Plain;

/// Holds every layer to a law, and rejects its twins.
fn hold(law: fn(Make) -> Verdict, broken: &[Make]) {
    for (name, make) in TABLE {
        assert_eq!(law(make), Ok(()), "{name}");
    }
    assert_eq!(law(twin::<{ twins::NONE }>), Ok(()), "the twin without a flaw");
    for (at, make) in broken.iter().enumerate() {
        assert!(law(*make).is_err(), "broken twin {at} passed");
    }
}

/// Scenario: a service behind a closed door is asked, woken, and called, twice.
/// Expected: each layer MUST be ready when its inner service is; one that does not ask, or asks once, MUST be rejected.
#[test]
fn readiness_is_asked_for_and_passed_on() {
    hold(
        laws::readiness_is_asked_for_and_passed_on,
        &[twin::<{ twins::EAGER }>, twin::<{ twins::REMEMBERS }>, twin::<{ twins::CALLS_A_CLONE }>],
    );
}

/// Scenario: a service is readied, the door closes, and a clone is asked.
/// Expected: the clone MUST wait, and the first MUST be called with the readiness it has; a twin whose clones share one
/// readiness, and one that calls a clone of what it polled, MUST be rejected.
#[test]
fn a_clone_starts_unready() {
    hold(
        laws::a_clone_starts_unready,
        &[twin::<{ twins::SHARES_READINESS }>, twin::<{ twins::CALLS_A_CLONE }>],
    );
}

/// Scenario: a hundred clones are readied and dropped.
/// Expected: nothing MUST be held, and a call MUST pass; a twin that takes its slot when it is polled MUST be rejected.
#[test]
fn a_service_readied_and_dropped_loses_nothing() {
    hold(laws::a_service_readied_and_dropped_loses_nothing, &[twin::<{ twins::TAKES_WHEN_READY }>]);
}

/// Scenario: a hundred clones are readied and kept, and another is called.
/// Expected: the call MUST pass; a twin that takes its slot when it is polled MUST be rejected.
#[test]
fn idle_readiness_blocks_nobody() {
    hold(laws::idle_readiness_blocks_nobody, &[twin::<{ twins::TAKES_WHEN_READY }>]);
}

/// Scenario: a call whose answer takes its time, alone and behind another.
/// Expected: it MUST be polled when something happens, and not between; a twin that wakes itself MUST be rejected.
#[test]
fn nobody_spins() {
    hold(laws::nobody_spins, &[twin::<{ twins::SPINS }>]);
}

/// Scenario: calls that are slow, fail, break, and wait beside another are dropped before their first poll, after every
/// poll, and after every event of their reply.
/// Expected: no call, slot, timer, waker or task MUST be left, and the next call MUST pass; twins that settle by a
/// callback, make the call in a task, and forget nobody in their line MUST be rejected.
#[test]
fn a_call_dropped_anywhere_gives_everything_back() {
    hold(
        laws::a_call_dropped_anywhere_gives_everything_back,
        &[twin::<{ twins::LEAKS }>, twin::<{ twins::SPAWNS }>, twin::<{ twins::LINGERS }>],
    );
}

/// Scenario: a failure of every code, before the head and within a stream.
/// Expected: it MUST come out with its code, its words and the error beneath; a twin that wraps it MUST be rejected.
#[test]
fn failures_pass_unwrapped() {
    hold(laws::failures_pass_unwrapped, &[twin::<{ twins::WRAPS }>]);
}

/// Scenario: a service that will never be ready.
/// Expected: its failure MUST be passed on, and it MUST NOT be called; twins that swallow it, or do not ask, MUST be
/// rejected.
#[test]
fn a_failed_readiness_is_passed_on() {
    hold(laws::a_failed_readiness_is_passed_on, &[twin::<{ twins::SWALLOWS }>, twin::<{ twins::EAGER }>]);
}

/// Scenario: a sink asks the layer that tells it a fact how it is, and calls through it.
/// Expected: it MUST be answered; a twin that tells under its lock MUST be rejected.
#[test]
fn a_sink_may_call_the_layer() {
    for (name, make, story) in stories() {
        assert_eq!(laws::a_sink_may_call_the_layer(make, &story), Ok(()), "{name}");
    }
    let says = Script::says("x");
    assert_eq!(laws::a_sink_may_call_the_layer(twin::<{ twins::NONE }>, &says), Ok(()));
    assert!(laws::a_sink_may_call_the_layer(twin::<{ twins::TELLS_UNDER_LOCK }>, &says).is_err());
}

/// Scenario: a layer is put on two services, and calls through the first teach it something.
/// Expected: the second MUST know; a twin that mints state for each service MUST be rejected.
#[test]
fn a_layer_applied_twice_shares_its_state() {
    for taught in lessons() {
        assert_eq!(laws::a_layer_applied_twice_shares_its_state(&taught), Ok(()), "{}", taught.name);
    }
    assert_eq!(laws::a_layer_applied_twice_shares_its_state(&lesson::<{ twins::NONE }>()), Ok(()));
    assert!(laws::a_layer_applied_twice_shares_its_state(&lesson::<{ twins::FRESH }>()).is_err());
}

/// What cannot be cloned: a response, its body, a stream.
#[derive(Debug)]
struct NotClone;

/// A service of such responses.
#[derive(Clone, Debug)]
struct Bare;

impl Body for NotClone {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(None)
    }
}

impl Stream for NotClone {
    type Item = Result<Event, Failure>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(None)
    }
}

macro_rules! answers {
    ($($request:ty => $response:ty, $error:ty, $make:expr;)*) => {$(
        impl Service<$request> for Bare {
            type Response = $response;
            type Error = $error;
            type Future = std::future::Ready<Result<$response, $error>>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), $error>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, _: $request) -> Self::Future {
                std::future::ready(Ok($make))
            }
        }
    )*};
}

answers! {
    Request => Reply<NotClone>, Failure, Reply::new(watertight::chat::Head::default(), NotClone);
    http::Request<Bytes> => http::Response<NotClone>, BoxError, http::Response::new(NotClone);
    ToolRequest => Plain<NotClone>, Failure, Plain(NotClone);
}

/// What a router asks of a layer, and of what it makes, whatever is answered.
fn fits<R, L>(layer: L) -> L
where
    L: Layer<Bare> + Clone + Send + Sync + 'static,
    L::Service: Service<R, Future: Send + 'static, Response: Send + 'static>,
    L::Service: Clone + Send + Sync + 'static + std::fmt::Debug,
{
    layer
}

/// Whether a type is `Clone`: what is inherent is found before what a trait lends.
macro_rules! is_clone {
    ($type:ty) => {{
        struct Asked<T>(PhantomData<T>);
        #[allow(dead_code, reason = "it is found only where the type is not")]
        trait Otherwise {
            const IS: bool = false;
        }
        impl<T> Otherwise for Asked<T> {}
        #[allow(dead_code, reason = "it is found only where the type is")]
        impl<T: Clone> Asked<T> {
            const IS: bool = true;
        }
        _ = Asked(PhantomData::<$type>);
        <Asked<$type>>::IS
    }};
}

/// A service whose derived clone asks for a clone of its answers.
#[derive(Clone)]
struct Derived<S, T>(S, PhantomData<T>);

/// Scenario: layers on a service of chat, HTTP and tool responses that cannot be cloned.
/// Expected: layers and services MUST be `Clone + Send + Sync + 'static` and their futures `Send` all the same, and
/// this compile; a twin whose derived clone leaks the bound MUST be told apart.
#[test]
fn no_bound_of_an_answer_leaks() {
    let clocks = DualClockTimeoutLayer::default();
    let clocks = fits::<http::Request<Bytes>, _>(fits::<Request, _>(clocks));
    let retry = RetryLayer::default();
    let retry = fits::<ToolRequest, _>(fits::<http::Request<Bytes>, _>(fits::<Request, _>(retry)));
    let failover = FailoverLayer::new([Bare]);
    let failover = fits::<ToolRequest, _>(fits::<http::Request<Bytes>, _>(fits::<Request, _>(failover)));
    let reset = fits::<Request, _>(ResetLayer::default());
    let breaker = CircuitBreakerLayer::default();
    let breaker = fits::<ToolRequest, _>(fits::<http::Request<Bytes>, _>(fits::<Request, _>(breaker)));
    let limit = TokenAwareRateLimitLayer::new(RateLimitConfig::default()).unwrap();
    let limit = fits::<ToolRequest, _>(fits::<http::Request<Bytes>, _>(fits::<Request, _>(limit)));
    let ladder = fits::<Request, _>(DegradationLayer::default());
    let bulkhead = BulkheadLayer::default();
    let bulkhead = fits::<ToolRequest, _>(fits::<http::Request<Bytes>, _>(fits::<Request, _>(bulkhead)));
    let stack = reset.layer(failover.layer(Bare));
    assert!(is_clone!(watertight::layers::failover::Failover<Bare>));
    assert!(!is_clone!(Derived<Bare, NotClone>));
    assert!(is_clone!(Derived<Bare, ()>), "the question tells them apart");
    drop((clocks.layer(Bare), retry.layer(Bare), bulkhead.layer(Bare), ladder.layer(stack)));
    drop((breaker.layer(Bare), limit.layer(Bare)));
}
