//! Ten minutes of 200 callers against a provider that holds them to a quota, on a paused clock.
//!
//! Run with `cargo test --test quota -- --nocapture` to see the table. Each row is the same traffic: calls of 200 to
//! 6,000 tokens of input and a cap of 256 to 2,048 on the output, of which a third to all is used; every caller asks
//! again as soon as it was answered, so that the quota is all that holds them back. Figures are of minutes 2 to 10.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic, and this one prints a table")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, LocalBoxFuture, join_all};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use governor::clock::{Clock, Reference};
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::{Instant, sleep, sleep_until};
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{
    BoxReply, Completion, Cost, Dimension, Event, Head, Limits, Message, Reply, Request, Role, Stop, Usage,
};
use watertight::failure::{Code, Failure};
use watertight::layers::TokenAwareRateLimitLayer;
use watertight::layers::rate_limit::RateLimitConfig;

const CALLERS: u64 = 200;
const LENGTH: Duration = Duration::from_secs(600);
const MINUTE: Duration = Duration::from_secs(60);

/// The provider's quotas a minute.
const REQUESTS: u32 = 260;
const TOKENS: u32 = 600_000;

/// How long a request travels before it is counted, in milliseconds.
const TRAVEL: std::ops::Range<u64> = 5..60;

/// What a call is, known to caller and provider.
#[derive(Clone, Copy, Debug)]
struct Size {
    input: u64,
    cap: u64,
    output: u64,
}

/// How a provider counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counting {
    /// A bucket of one minute's quota that fills steadily.
    Bucket,
    /// What was begun in the last sixty seconds.
    Window,
}

/// One dimension of a provider, counted in a way that shares nothing with what is tested.
#[derive(Debug)]
struct Meter {
    counting: Counting,
    quota: f64,
    /// What is in the bucket, and when that was so.
    level: f64,
    at: Instant,
    /// What was charged, when.
    charged: VecDeque<(Instant, u64, f64)>,
}

#[derive(Debug)]
struct Provider {
    requests: Meter,
    tokens: Meter,
    next: u64,
    start: Instant,
    dice: fastrand::Rng,
    tally: Tally,
}

/// What came of it, after the first minute.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    calls: u32,
    refused: u32,
    tokens: u64,
    /// Taken by others.
    others: u64,
}

#[derive(Clone, Debug)]
struct Emulator(Arc<Mutex<Provider>>);

type Answered = Reply<BoxStream<'static, Result<Event, Failure>>>;

// === impl Meter ===

impl Meter {
    fn new(counting: Counting, quota: u32) -> Self {
        let quota = f64::from(quota);
        Self { counting, quota, level: quota, at: Instant::now(), charged: VecDeque::new() }
    }

    fn left(&mut self) -> f64 {
        let now = Instant::now();
        match self.counting {
            Counting::Bucket => {
                let grown = now.duration_since(self.at).as_secs_f64() * self.quota / 60.0;
                (self.level, self.at) = ((self.level + grown).min(self.quota), now);
                self.level
            }
            Counting::Window => {
                while self.charged.front().is_some_and(|(at, ..)| now.duration_since(*at) >= MINUTE) {
                    self.charged.pop_front();
                }
                self.quota - self.charged.iter().map(|(.., cost)| cost).sum::<f64>()
            }
        }
    }

    /// Until so many are there.
    fn wait(&mut self, cost: f64) -> Duration {
        let mut missing = cost - self.left();
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        if self.counting == Counting::Bucket {
            return Duration::from_secs_f64(missing * 60.0 / self.quota);
        }
        let leaves = self.charged.iter().find(|(.., charged)| {
            missing -= charged;
            missing <= 0.0
        });
        leaves.map_or(MINUTE, |(at, ..)| (*at + MINUTE).duration_since(Instant::now()))
    }

    fn charge(&mut self, id: u64, cost: f64) {
        self.level -= cost;
        self.charged.push_back((Instant::now(), id, cost));
    }

    /// Corrects a charge to what it was in the end.
    fn correct(&mut self, id: u64, cost: f64) {
        let _ = self.left();
        if let Some((.., charged)) = self.charged.iter_mut().find(|(_, charge, _)| *charge == id) {
            self.level += *charged - cost;
            *charged = cost;
        }
        if self.counting == Counting::Bucket {
            self.charged.retain(|(_, charge, _)| *charge != id);
        }
    }

    fn tell(&mut self, dimension: Dimension, limits: &mut Limits) {
        let left = self.left().max(0.0);
        let window = limits.entry(dimension);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let told = |figure: f64| Some(figure as u64);
        (window.limit, window.remaining) = (told(self.quota), told(left));
        window.reset = Some(Duration::from_secs_f64((self.quota - left) * 60.0 / self.quota));
    }
}

// === impl Provider ===

impl Provider {
    fn counts(&self) -> bool {
        self.start.elapsed() >= MINUTE
    }

    fn limits(&mut self) -> Limits {
        let mut limits = Limits::default();
        self.requests.tell(Dimension::Requests, &mut limits);
        self.tokens.tell(Dimension::Tokens, &mut limits);
        limits
    }

    #[allow(clippy::cast_precision_loss, reason = "a count of tokens")]
    fn admit(&mut self, size: Size) -> Result<u64, Failure> {
        let cost = (size.input + size.cap) as f64;
        let wait = self.requests.wait(1.0).max(self.tokens.wait(cost));
        let counts = self.counts();
        self.tally.calls += u32::from(counts);
        if wait > Duration::ZERO {
            self.tally.refused += u32::from(counts);
            // Whole seconds, as most providers say it.
            let wait = Duration::from_secs_f64(wait.as_secs_f64().ceil());
            let failure =
                Failure::new(Code::RateLimited, "too many tokens a minute").with_retry_after(Some(wait));
            return Err(failure.with_status(http::StatusCode::TOO_MANY_REQUESTS).with_limits(self.limits()));
        }
        self.next += 1;
        self.requests.charge(self.next, 1.0);
        self.tokens.charge(self.next, cost);
        if counts {
            self.tally.tokens += size.input + size.output;
        }
        Ok(self.next)
    }
}

// === impl Emulator ===

impl Emulator {
    fn new(counting: Counting) -> Self {
        Self(Arc::new(Mutex::new(Provider {
            requests: Meter::new(counting, REQUESTS),
            tokens: Meter::new(counting, TOKENS),
            next: 0,
            start: Instant::now(),
            dice: fastrand::Rng::with_seed(7),
            tally: Tally::default(),
        })))
    }

    fn ask<T>(&self, ask: impl FnOnce(&mut Provider) -> T) -> T {
        ask(&mut self.0.lock().unwrap())
    }

    /// Takes half of the quota, in pieces, past whoever is tested.
    async fn eat_half(self) {
        let dice = fastrand::Rng::with_seed(11);
        let mut dice = dice;
        loop {
            let piece = dice.u32(1_000..3_000);
            sleep(Duration::from_secs_f64(f64::from(piece) * 120.0 / f64::from(TOKENS))).await;
            self.ask(|provider| {
                if provider.tokens.wait(f64::from(piece)) == Duration::ZERO {
                    provider.tokens.level -= f64::from(piece);
                    if provider.counts() {
                        provider.tally.others += u64::from(piece);
                    }
                }
            });
        }
    }
}

impl Service<Request> for Emulator {
    type Response = Answered;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<Answered, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (emulator, size) = (self.clone(), *request.extensions.get::<Size>().unwrap());
        let (travel, first, rest) = self.ask(|provider| {
            let dice = &mut provider.dice;
            (dice.u64(TRAVEL), dice.u64(80..400), dice.u64(300..3_000))
        });
        async move {
            sleep(Duration::from_millis(travel)).await;
            let id = emulator.ask(|provider| provider.admit(size))?;
            let mut head = Head::of("emulator");
            head.limits = emulator.ask(Provider::limits);
            sleep(Duration::from_millis(first)).await;
            let text = stream::iter([Ok(Event::text(0, "word"))]);
            let end = stream::once(async move {
                sleep(Duration::from_millis(rest)).await;
                let Size { input, output, .. } = size;
                #[allow(clippy::cast_precision_loss, reason = "a count of tokens")]
                emulator.ask(|provider| provider.tokens.correct(id, (input + output) as f64));
                let usage = Usage { input, output, ..Usage::default() };
                let message = Message::text(Role::Assistant, "word");
                Ok(Event::Completed(Box::new(Completion::new(message, Stop::End, Some(usage)))))
            });
            Ok(Reply::new(head, text.chain(end).boxed()))
        }
        .boxed()
    }
}

/// A caller: asks again as soon as it was answered, and comes back when it is told to.
async fn caller<F>(seed: u64, call: F)
where
    F: Fn(Request, Size) -> LocalBoxFuture<'static, Result<BoxReply, Failure>>,
{
    let mut dice = fastrand::Rng::with_seed(seed);
    loop {
        let cap = dice.u64(256..=2_048);
        let size = Size { input: dice.u64(200..=6_000), cap, output: dice.u64(cap / 3..=cap) };
        let cost = Cost { input: size.input, output: Some(size.cap) };
        let request = Request::new("model").streaming().attach(size).attach(cost);
        let wait = match call(request, size).await {
            Ok(reply) => reply.collect().await.err().map(|_| Duration::from_secs(1)),
            Err(failure) => Some(failure.retry_after().unwrap_or(Duration::from_secs(1))),
        };
        if let Some(wait) = wait {
            sleep(wait).await;
        }
    }
}

/// Runs the callers for ten minutes, and tells what the provider saw.
async fn run<F>(emulator: &Emulator, others: bool, call: F) -> Tally
where
    F: Fn(Request, Size) -> LocalBoxFuture<'static, Result<BoxReply, Failure>> + Clone,
{
    let end = Instant::now() + LENGTH;
    let callers = join_all((0..CALLERS).map(|seed| caller(seed, call.clone())));
    let eater = async {
        if others {
            emulator.clone().eat_half().await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = callers => unreachable!("callers never stop"),
        () = eater => unreachable!("nor does the other client"),
        () = sleep_until(end) => {}
    }
    emulator.ask(|provider| provider.tally)
}

async fn limited(counting: Counting, others: bool, config: RateLimitConfig) -> Tally {
    let emulator = Emulator::new(counting);
    let layer = TokenAwareRateLimitLayer::new(config).unwrap();
    let service = layer.layer(emulator.clone());
    let tally = run(&emulator, others, move |request, _| {
        let service = service.clone();
        async move { Ok(service.oneshot(request).await?.boxed()) }.boxed_local()
    })
    .await;
    let key = layer.snapshot().keys.remove(0);
    assert_eq!((key.in_flight, key.waiting), (0, 0), "nothing is left behind");
    tally
}

/// Tower's own: so many requests a minute, and it knows no tokens.
async fn tower(counting: Counting, others: bool) -> Tally {
    let emulator = Emulator::new(counting);
    let limit = tower::limit::RateLimitLayer::new(REQUESTS.into(), MINUTE).layer(emulator.clone());
    let service = tower::buffer::Buffer::new(limit, 1_024);
    run(&emulator, others, move |request, _| {
        let service = service.clone();
        let answer = service.oneshot(request);
        async move {
            match answer.await {
                Ok(reply) => Ok(reply.boxed()),
                Err(error) => Err(error.downcast_ref::<Failure>().unwrap().clone()),
            }
        }
        .boxed_local()
    })
    .await
}

/// A clock for a limiter that asks one.
#[derive(Clone, Copy, Debug)]
struct Paused(Instant);

impl Clock for Paused {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.elapsed())
    }
}

/// Bare governor, asked for input and cap; whoever is refused comes again when it says.
async fn governor(counting: Counting, others: bool) -> Tally {
    let emulator = Emulator::new(counting);
    let clock = Paused(Instant::now());
    let quota = Quota::with_period(MINUTE / TOKENS).unwrap().allow_burst(TOKENS.try_into().unwrap());
    let limiter: RateLimiter<NotKeyed, InMemoryState, Paused> =
        RateLimiter::new(quota, InMemoryState::default(), clock);
    let limiter = Arc::new(limiter);
    let service = emulator.clone();
    run(&emulator, others, move |request, size| {
        let (service, limiter) = (service.clone(), Arc::clone(&limiter));
        async move {
            let cost = u32::try_from(size.input + size.cap).unwrap().try_into().unwrap();
            while let Err(until) = limiter.check_n(cost).unwrap() {
                let wait = until.earliest_possible().duration_since(clock.now());
                sleep(Duration::from(wait) + Duration::from_millis(1)).await;
            }
            Ok(service.oneshot(request).await?.boxed())
        }
        .boxed_local()
    })
    .await
}

// === impl Tally ===

impl Tally {
    /// 429s to a hundred calls.
    fn refused(&self) -> f64 {
        100.0 * f64::from(self.refused) / f64::from(self.calls.max(1))
    }

    /// Of nine minutes' quota, in percent.
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    fn used(&self) -> f64 {
        100.0 * self.tokens as f64 / (f64::from(TOKENS) * 9.0)
    }

    #[allow(clippy::cast_precision_loss, reason = "a share")]
    fn others(&self) -> f64 {
        100.0 * self.others as f64 / (f64::from(TOKENS) * 9.0)
    }

    fn print(&self, provider: &str, limiter: &str) {
        println!(
            "| {provider} | {limiter} | {} | {} | {:.2} % | {:.1} % | {:.1} % |",
            self.calls,
            self.refused,
            self.refused(),
            self.used(),
            self.others(),
        );
    }
}

/// The quota as it is. The line is as long as there are callers, and they are patient.
fn config() -> RateLimitConfig {
    RateLimitConfig {
        requests_per_minute: Some(REQUESTS),
        tokens_per_minute: Some(TOKENS),
        acquire_timeout: LENGTH,
        ..RateLimitConfig::from_headers()
    }
}

fn share(of: u32, percent: u32) -> Option<u32> {
    Some(of / 100 * percent)
}

/// Scenario: a provider with a bucket of one minute's quota. Ours is declared as it is, with a burst of 95 %: a request
/// travels, so that the provider's bucket begins to fill a little later than ours.
/// Expected: no 429 MUST come in ten minutes, and at least 98 % of the quota be used. Beside it, what it is with nothing but
/// the quota told.
#[tokio::test(start_paused = true)]
async fn a_bucket_is_used_up_without_a_429() {
    println!(
        "| provider | limiter | calls | 429s | of calls | used | by others |\n|---|---|--:|--:|--:|--:|--:|"
    );
    let ours = limited(Counting::Bucket, false, RateLimitConfig { burst: Some(0.95), ..config() }).await;
    ours.print("bucket", "watertight");
    let plain = limited(Counting::Bucket, false, config()).await;
    plain.print("bucket", "watertight, nothing but the quota told");
    tower(Counting::Bucket, false).await.print("bucket", "tower RateLimit");
    governor(Counting::Bucket, false).await.print("bucket", "governor");
    assert_eq!(ours.refused, 0);
    assert!(ours.used() >= 98.0, "{}", ours.used());
}

/// Scenario: a provider that counts the last sixty seconds. A burst and a minute's growth must fit its window together:
/// 97 % of the quota as the rate, and a burst of 2 % of that, which is a little more than the dearest call.
/// Expected: at most one call in 200 MUST meet a 429, and at least 95 % of the quota be used.
#[tokio::test(start_paused = true)]
async fn a_sliding_window_is_used_up_with_hardly_a_429() {
    let config = RateLimitConfig {
        requests_per_minute: share(REQUESTS, 97),
        tokens_per_minute: share(TOKENS, 97),
        burst: Some(0.02),
        ..config()
    };
    let ours = limited(Counting::Window, false, config).await;
    ours.print("window", "watertight");
    let plain = limited(Counting::Window, false, self::config()).await;
    plain.print("window", "watertight, nothing but the quota told");
    tower(Counting::Window, false).await.print("window", "tower RateLimit");
    governor(Counting::Window, false).await.print("window", "governor");
    assert!(ours.refused() <= 0.5, "{}", ours.refused());
    assert!(ours.used() >= 95.0, "{}", ours.used());
}

/// Scenario: a bucket of which another client eats half, unseen. The quota is declared as it is; 4 % of it is left to
/// the other for the time between a header and the next call.
/// Expected: at most one call in 100 MUST meet a 429 once headers calibrated it, and the two together use the quota up.
#[tokio::test(start_paused = true)]
async fn half_a_quota_is_found_by_its_headers() {
    let ours = limited(Counting::Bucket, true, RateLimitConfig { headroom: Some(0.04), ..config() }).await;
    ours.print("bucket, half", "watertight");
    let plain = limited(Counting::Bucket, true, config()).await;
    plain.print("bucket, half", "watertight, nothing but the quota told");
    tower(Counting::Bucket, true).await.print("bucket, half", "tower RateLimit");
    governor(Counting::Bucket, true).await.print("bucket, half", "governor");
    assert!(ours.refused() <= 1.0, "{}", ours.refused());
    assert!(ours.used() + ours.others() >= 95.0, "{} and {}", ours.used(), ours.others());
}
