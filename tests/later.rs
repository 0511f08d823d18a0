//! The rate limit over a store that answers later, as one across a network does.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::future::{Future, Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{BoxReply, Cost, Dimension, Head, Limits, Reply, Request};
use watertight::failure::{Code, Failure};
use watertight::layers::TokenAwareRateLimitLayer;
use watertight::layers::rate_limit::RateLimitConfig;
use watertight::store::{
    Ahead, Answer, Costs, Ledger, Level, Memory, MemoryLedger, Quota, Recalibrated, Short, Store,
};

/// How long a round trip to the store takes.
const TRIP: Duration = Duration::from_millis(50);

/// Keeps accounts a round trip away. The twin takes before anybody waits for its answer, and so takes also for a call
/// that is gone.
#[derive(Clone, Debug, Default)]
struct Far {
    near: Memory,
    twin: bool,
}

#[derive(Debug)]
struct FarLedger {
    near: Arc<MemoryLedger>,
    twin: bool,
}

impl Store for Far {
    type Ledger = FarLedger;

    fn open(&self, key: &str, quotas: &[Quota]) -> FarLedger {
        FarLedger { near: Arc::new(self.near.open(key, quotas)), twin: self.twin }
    }
}

fn now_of(answer: &Answer<Result<(), Short>>) -> Result<(), Short> {
    match answer {
        Answer::Now(answer) => *answer,
        Answer::Later(_) => unreachable!("memory answers at once"),
    }
}

impl Ledger for FarLedger {
    fn reserve(&self, costs: &Costs, now: Instant) -> Answer<Result<(), Short>> {
        let (near, costs) = (Arc::clone(&self.near), *costs);
        let early = self.twin.then(|| now_of(&near.reserve(&costs, now)));
        Answer::Later(Box::pin(async move {
            sleep(TRIP).await;
            early.unwrap_or_else(|| now_of(&near.reserve(&costs, Instant::now())))
        }))
    }

    fn promise(&self, costs: &Costs, ahead: &Ahead, now: Instant) -> Result<Instant, Short> {
        self.near.promise(costs, ahead, now)
    }

    fn settle(&self, reserved: &Costs, used: &Costs, clock: impl FnOnce() -> Instant) {
        self.near.settle(reserved, used, clock);
    }

    fn calibrate(&self, limits: &Limits, headroom: f64, now: Instant) -> Vec<Recalibrated> {
        self.near.calibrate(limits, headroom, now)
    }

    fn freeze(&self, until: Instant, now: Instant) -> bool {
        self.near.freeze(until, now)
    }

    fn slow_down(&self, share: f64, until: Instant, now: Instant) -> bool {
        self.near.slow_down(share, until, now)
    }

    fn used(&self, now: Instant) -> f64 {
        self.near.used(now)
    }

    fn capacity(&self, dimension: Dimension) -> Option<u64> {
        self.near.capacity(dimension)
    }

    fn levels(&self, now: Instant) -> Vec<Level> {
        self.near.levels(now)
    }

    fn frozen_until(&self, now: Instant) -> Option<Instant> {
        self.near.frozen_until(now)
    }

    fn is_as_new(&self, now: Instant) -> bool {
        self.near.is_as_new(now)
    }
}

/// Answers at once, and never ends.
#[derive(Clone, Copy)]
struct Model;

impl Service<Request> for Model {
    type Response = BoxReply;
    type Error = Failure;
    type Future = Ready<Result<BoxReply, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request) -> Self::Future {
        ready(Ok(Reply::new(Head::default(), Box::pin(futures_util::stream::pending()))))
    }
}

/// Sixty tokens a minute, and two calls in flight.
fn layer(twin: bool) -> TokenAwareRateLimitLayer<Far> {
    let config = RateLimitConfig {
        tokens_per_minute: Some(60),
        max_concurrency: Some(2),
        ..RateLimitConfig::from_headers()
    };
    TokenAwareRateLimitLayer::with_store(Far { twin, ..Far::default() }, config).unwrap()
}

fn call(input: u64) -> Request {
    Request::new("model").streaming().attach(Cost { input, output: Some(0) })
}

/// Tokens left, calls in flight, calls in line.
fn stands(layer: &TokenAwareRateLimitLayer<Far>) -> (u64, u32, usize) {
    let key = layer.snapshot().keys.remove(0);
    (key.levels[0].remaining, key.in_flight, key.waiting)
}

/// Scenario: two calls at once, of which the second must wait for one second's worth; both are held open.
/// Expected: each MUST be granted a round trip after it was its turn, in order, and both MUST be paid for once.
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_answer() {
    let layer = layer(false);
    let start = Instant::now();
    let ask = |cost| {
        let service = layer.layer(Model);
        async move { (service.oneshot(call(cost)).await.unwrap(), start.elapsed()) }
    };
    let granted = join_all([59, 2].map(ask)).await;
    assert_eq!(granted[0].1, TRIP);
    assert!((Duration::from_secs(1)..Duration::from_secs(2)).contains(&granted[1].1), "{:?}", granted[1].1);
    assert_eq!(stands(&layer), (0, 2, 0));
}

/// Scenario: a call that costs more than can ever be there; one that cannot pass in time.
/// Expected: each MUST be refused in its own words, the second at once and with the instant; nothing MUST be taken.
#[tokio::test(start_paused = true)]
async fn a_refusal_takes_nothing() {
    let layer = layer(false);
    let refused = |request| async { layer.layer(Model).oneshot(request).await.map(drop).unwrap_err() };
    assert_eq!(refused(call(61)).await.code(), Code::CostAboveCapacity);
    assert_eq!(stands(&layer), (60, 0, 0));
    let held = layer.layer(Model).oneshot(call(60)).await.unwrap();
    let start = Instant::now();
    let failure = refused(call(30)).await;
    assert_eq!((failure.code(), start.elapsed()), (Code::LimiterFull, Duration::ZERO));
    assert!(failure.retry_after().is_some_and(|wait| wait <= Duration::from_secs(30)));
    assert_eq!(stands(&layer), (0, 1, 0));
    drop(held);
}

/// Drops a call while its answer is on its way, after so many polls, and waits until the answer would be there.
async fn dropped(twin: bool, polls: usize) -> (u64, u32, usize) {
    let layer = layer(twin);
    let mut service = layer.layer(Model);
    {
        let mut call = pin!(service.ready().await.unwrap().call(call(20)));
        for _ in 0..polls {
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
    sleep(2 * TRIP).await;
    stands(&layer)
}

/// Scenario: a call is dropped before its answer came, at each poll; the same over a twin of the store that takes
/// before anybody waits for its answer.
/// Expected: no token, no slot and no place MUST stay taken; the twin MUST be caught.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_before_its_answer_takes_nothing() {
    for polls in 0..3 {
        assert_eq!(dropped(false, polls).await, (60, 0, 0), "after {polls} polls");
        assert_ne!(dropped(true, polls).await, (60, 0, 0), "the twin, after {polls} polls");
    }
}
