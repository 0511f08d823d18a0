//! The rate limit: what calls reserve, how they are settled, who waits and who does not.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::future::{Future, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;
use support::{Act, Log, Script, Stage, facts, fail, read};
use tokio::time::{Instant, advance, sleep};
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{
    Ask, Completion, Cost, Dimension, Event, Head, Limits, Message, Reply, Request, Role, Stop, Usage,
};
use watertight::event::{Fact, Facts};
use watertight::failure::{Clock, Code, Failure};
use watertight::gate::Gate;
use watertight::key::{Caller, KeyBy};
use watertight::layers::TokenAwareRateLimitLayer;
use watertight::layers::rate_limit::{
    AdaptiveConfig, KeySnapshot, LimitProfile, Mode, RateLimit, RateLimitConfig, ReserveOutput,
};

/// A minute's quota of tokens that comes back one a second.
const SIXTY: u32 = 60;

fn limits(tokens: u32) -> RateLimitConfig {
    RateLimitConfig { tokens_per_minute: Some(tokens), ..RateLimitConfig::from_headers() }
}

fn layer(config: RateLimitConfig) -> TokenAwareRateLimitLayer {
    TokenAwareRateLimitLayer::new(config).unwrap()
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A call of so much input, and no output.
fn call(input: u64) -> Request {
    costing(input, Some(0))
}

/// A call behind which another candidate stands.
fn impatient(input: u64) -> Request {
    let mut request = call(input);
    let mut call = request.call();
    call.patient = false;
    request.set_call(call);
    request
}

fn costing(input: u64, output: Option<u64>) -> Request {
    Request::new("model").streaming().attach(Cost { input, output })
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

fn only(layer: &TokenAwareRateLimitLayer) -> KeySnapshot {
    layer.snapshot().keys.remove(0)
}

fn left(layer: &TokenAwareRateLimitLayer, dimension: Dimension) -> u64 {
    let levels = only(layer).levels;
    levels.iter().find(|level| level.dimension == dimension).unwrap().remaining
}

fn tokens(layer: &TokenAwareRateLimitLayer) -> u64 {
    left(layer, Dimension::Tokens)
}

/// Answers each call by one word, and says what it used.
#[derive(Clone, Default)]
struct Model {
    usage: Option<Usage>,
    limits: Limits,
    /// When calls came.
    calls: Arc<Mutex<Vec<Instant>>>,
}

impl Model {
    fn using(usage: Usage) -> Self {
        Self { usage: Some(usage), ..Self::default() }
    }

    fn times(&self, since: Instant) -> Vec<u64> {
        self.calls.lock().unwrap().iter().map(|at| at.duration_since(since).as_secs()).collect()
    }
}

type Answered = Reply<BoxStream<'static, Result<Event, Failure>>>;

impl Service<Request> for Model {
    type Response = Answered;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<Answered, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request) -> Self::Future {
        self.calls.lock().unwrap().push(Instant::now());
        let message = Message::text(Role::Assistant, "word");
        let end = Event::Completed(Box::new(Completion::new(message, Stop::End, self.usage)));
        let mut head = Head::of("model");
        head.limits = self.limits.clone();
        let events = stream::iter([Ok(Event::text(0, "word")), Ok(end)]).boxed();
        async { Ok(Reply::new(head, events)) }.boxed()
    }
}

async fn whole<S>(service: &Gate<S, RateLimit>, request: Request) -> Result<(), Failure>
where
    Gate<S, RateLimit>: Service<Request, Error = Failure> + Clone,
    <Gate<S, RateLimit> as Service<Request>>::Response:
        futures_util::Stream<Item = Result<Event, Failure>> + Unpin,
{
    read(service.clone().oneshot(request).await?).await.1
}

fn told(dimension: Dimension, limit: u64, remaining: u64, reset: Duration) -> Limits {
    let mut limits = Limits::default();
    let window = limits.entry(dimension);
    (window.limit, window.remaining, window.reset) = (Some(limit), Some(remaining), Some(reset));
    limits
}

/// Scenario: two callers with a minute's quota each; one spends all of it in calls of unequal cost.
/// Expected: a call MUST take what it costs, from its own key alone.
#[tokio::test(start_paused = true)]
async fn each_key_pays_for_its_own_calls_what_they_cost() {
    let layer = layer(RateLimitConfig { key: KeyBy::Caller, mode: Mode::Reject, ..limits(SIXTY) });
    let service = layer.layer(Model::default());
    let from = |name: &str, input| call(input).attach(Caller::new(name));
    let mut held = Vec::new();
    for (name, input, passes) in [
        ("a", 50, true),
        ("a", 11, false),
        ("a", 10, true),
        ("a", 1, false),
        ("b", 60, true),
        ("b", 1, false),
    ] {
        let answer = service.clone().oneshot(from(name, input)).await;
        assert_eq!(answer.is_ok(), passes, "{name} {input}");
        match answer {
            // Held, so that nothing comes back meanwhile.
            Ok(reply) => held.push(reply),
            Err(failure) => assert!(failure.code() == Code::LimiterFull && failure.is_local()),
        }
    }
    let names: Vec<_> = layer.snapshot().keys.into_iter().map(|key| key.key).collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| name.starts_with("rate_limit:")), "{names:?}");
}

/// Scenario: the quota is spent; a call comes that could pass in nine seconds, with a longest wait of five.
/// Expected: it MUST be refused at once, with the instant, and pass exactly then.
#[tokio::test(start_paused = true)]
async fn a_doomed_waiter_is_refused_at_once_with_the_instant() {
    let layer = layer(limits(SIXTY));
    let service = layer.layer(Model::using(usage(60, 0)));
    whole(&service, call(60)).await.unwrap();
    let start = Instant::now();
    let failure = whole(&service, call(9)).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(failure.code(), Code::LimiterFull);
    assert_eq!(failure.retry_after(), Some(secs(9)));
    advance(secs(9) - Duration::from_millis(1)).await;
    let waited = Instant::now();
    whole(&service, call(9)).await.unwrap();
    assert_eq!(waited.elapsed(), Duration::from_millis(1));
}

/// Scenario: services are polled ready and dropped, a hundred times.
/// Expected: nothing MUST be taken: the permit is taken by a call.
#[tokio::test(start_paused = true)]
async fn a_service_readied_and_dropped_holds_nothing() {
    let layer = layer(RateLimitConfig { max_concurrency: Some(1), ..limits(SIXTY) });
    for _ in 0..100 {
        let mut service = layer.layer(Model::default());
        let _ = ServiceExt::<Request>::ready(&mut service).await.unwrap();
    }
    let key = only(&layer);
    assert_eq!((key.in_flight, tokens(&layer)), (0, 60));
    whole(&layer.layer(Model::default()), call(1)).await.unwrap();
}

/// Scenario: ten requests a second's slice are declared, by a rate of six hundred a minute and a burst of a sixtieth;
/// calls come whenever they can, for ten seconds.
/// Expected: no window of a fifth of a second MUST see more than ten and what came back in it.
#[tokio::test(start_paused = true)]
async fn no_window_sees_two_bursts() {
    let config = RateLimitConfig {
        requests_per_minute: Some(600),
        burst: Some(1.0 / 60.0),
        mode: Mode::Reject,
        ..RateLimitConfig::from_headers()
    };
    let (layer, model) = (layer(config), Model::default());
    let service = layer.layer(model.clone());
    for _ in 0..1_000 {
        let _ = whole(&service, call(0)).await;
        if let Err(failure) = whole(&service, call(0)).await {
            advance(failure.retry_after().unwrap().min(Duration::from_millis(7))).await;
        }
    }
    let times = model.calls.lock().unwrap().clone();
    assert!(times.len() > 60, "{}", times.len());
    let most = times.iter().map(|from| {
        times.iter().filter(|at| *at >= from && at.duration_since(*from) < Duration::from_millis(200)).count()
    });
    assert!(most.max().unwrap() <= 12);
}

/// Scenario: the bucket is empty; a call of forty comes, and behind it four callers that ask for one again and again.
/// Expected: the dear one MUST pass when forty have come back, and the cheap ones after it: nobody overtakes.
#[tokio::test(start_paused = true)]
async fn a_dear_call_is_not_starved_by_cheap_ones() {
    let layer = layer(RateLimitConfig { acquire_timeout: secs(600), ..limits(SIXTY) });
    let service = layer.layer(Model::using(usage(60, 0)));
    whole(&service, call(60)).await.unwrap();
    let start = Instant::now();
    let service = layer.layer(Model::using(usage(40, 0)));
    let dear = async {
        whole(&service, call(40)).await.unwrap();
        start.elapsed()
    };
    let cheap = layer.layer(Model::using(usage(1, 0)));
    let one = || async {
        for _ in 0..20 {
            whole(&cheap, call(1)).await.unwrap();
        }
        start.elapsed()
    };
    let (dear, cheap) = tokio::join!(dear, join_all((0..4).map(|_| one())));
    assert_eq!(dear, secs(40));
    assert_eq!(cheap.into_iter().max(), Some(secs(120)));
}

/// Scenario: eight stand at the head of the line while five are free; a call of one comes, patient or not.
/// Expected: the patient one MUST wait its turn and pass, and not be refused; the impatient one MUST learn when.
#[tokio::test(start_paused = true)]
async fn a_cheap_call_behind_a_dear_one_waits_its_turn() {
    let layer = layer(limits(SIXTY));
    whole(&layer.layer(Model::using(usage(55, 0))), call(55)).await.unwrap();
    let start = Instant::now();
    let service = layer.layer(Model::using(usage(8, 0)));
    let cheap = layer.layer(Model::using(usage(1, 0)));
    let (dear, one, hurried) = tokio::join!(
        whole(&service, call(8)).map(|end| end.map(|()| start.elapsed())),
        whole(&cheap, call(1)).map(|end| end.map(|()| start.elapsed())),
        whole(&cheap, impatient(1)),
    );
    assert_eq!(dear.unwrap(), secs(3));
    assert_eq!(one.unwrap(), secs(4));
    assert_eq!(hurried.unwrap_err().retry_after(), Some(secs(5)));
}

/// Scenario: a quota for two; five calls at once, none of which has ended.
/// Expected: exactly two MUST be sent: what is reserved counts before it is used.
#[tokio::test(start_paused = true)]
async fn calls_at_once_cannot_overshoot() {
    let layer = layer(RateLimitConfig { mode: Mode::Reject, ..limits(5_000) });
    let (log, hang) = (Log::default(), Script::body([Act::Text("a"), Act::Hang]));
    let service = layer.layer(Stage::new("stage", &log, [hang]));
    let calls = (0..5).map(|_| service.clone().oneshot(costing(10, Some(2_000))));
    let answers = join_all(calls).await;
    assert_eq!((log.calls().len(), answers.iter().filter(|answer| answer.is_ok()).count()), (2, 2));
}

/// Scenario: a provider says to come back after four seconds.
/// Expected: nothing MUST be sent before; the refusals say when; what was in the bucket is in it then, and no more.
#[tokio::test(start_paused = true)]
async fn a_stated_wait_is_obeyed() {
    let layer = layer(limits(SIXTY));
    let limited = fail(Code::RateLimited).with_retry_after(Some(secs(4)));
    let log = Log::default();
    let stage = Stage::new("stage", &log, [Script::head([Act::Fail(limited)]), Script::says("a")]);
    let service = layer.layer(stage);
    whole(&layer.layer(Model::using(usage(40, 0))), call(40)).await.unwrap();
    let start = Instant::now();
    assert_eq!(whole(&service, call(10)).await.unwrap_err().code(), Code::RateLimited);
    assert_eq!(whole(&service, impatient(5)).await.unwrap_err().retry_after(), Some(secs(4)));
    assert_eq!(only(&layer).frozen, Some(secs(4)));
    whole(&service, call(20)).await.unwrap();
    assert_eq!(start.elapsed(), secs(4), "the twenty that were left, and the ten given back");
    assert_eq!(log.calls().len(), 2);
}

/// Scenario: a call waits with a promise of four seconds; a freeze of a minute comes.
/// Expected: it MUST be refused the moment that is known, not after its longest wait.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_became_doomed_is_refused() {
    let layer = layer(limits(SIXTY));
    whole(&layer.layer(Model::using(usage(60, 0))), call(60)).await.unwrap();
    let limited = fail(Code::RateLimited).with_retry_after(Some(secs(60)));
    let script = Script::head([Act::Wait(1_000), Act::Fail(limited)]);
    let failing = layer.layer(Stage::new("stage", &Log::default(), [script]));
    advance(secs(1)).await;
    let start = Instant::now();
    let waiting = layer.layer(Model::default());
    let (_, doomed) = tokio::join!(whole(&failing, call(1)), whole(&waiting, call(4)));
    assert_eq!(doomed.unwrap_err().code(), Code::LimiterFull);
    assert_eq!(start.elapsed(), secs(1));
    assert_eq!(only(&layer).waiting, 0);
}

/// Scenario: a provider says slow_down, with no wait.
/// Expected: half the rate MUST be in force for a minute, then the whole.
#[tokio::test(start_paused = true)]
async fn a_provider_that_asks_for_less_gets_half_for_a_minute() {
    let layer = layer(limits(SIXTY));
    whole(&layer.layer(Model::using(usage(60, 0))), call(60)).await.unwrap();
    advance(secs(10)).await;
    let slow = Failure::new(Code::RateLimited, "slow_down: ramp");
    let service = layer.layer(Stage::new("stage", &Log::default(), [Script::head([Act::Fail(slow)])]));
    whole(&service, call(10)).await.unwrap_err();
    assert_eq!(tokens(&layer), 10);
    advance(secs(20)).await;
    assert_eq!(tokens(&layer), 20);
    advance(secs(50)).await;
    assert_eq!(tokens(&layer), 50);
}

/// What was told, in words, each with the freeze that the snapshot showed just then.
type Told = Arc<Mutex<Vec<(String, Option<Duration>)>>>;

/// A layer under these limits, and what it tells of freezes and slow times.
fn telling(config: RateLimitConfig) -> (TokenAwareRateLimitLayer, Told) {
    let told = Told::default();
    let this = Arc::new(OnceLock::<TokenAwareRateLimitLayer>::new());
    let (sink, seen) = (Arc::clone(&told), Arc::clone(&this));
    let facts = Facts::to(move |fact: &Fact<'_>| {
        if matches!(fact, Fact::Frozen { .. } | Fact::Slowed { .. }) {
            sink.lock().unwrap().push((fact.to_string(), only(seen.get().unwrap()).frozen));
        }
    });
    let layer = layer(config).named("provider:house").facts(&facts);
    this.set(layer.clone()).unwrap();
    (layer, told)
}

/// Scenario: calls in flight come back with stated waits: ten seconds, three, ten again, twenty, then none; and one that
/// never left. When the freeze is over, one of five seconds.
/// Expected: each wait that is longer than what is in force MUST be told, once it is, and none of the others.
#[tokio::test(start_paused = true)]
async fn a_freeze_is_told_when_it_is_news() {
    let (layer, told) = telling(limits(5_000));
    let limited = |wait: Option<u64>| fail(Code::RateLimited).with_retry_after(wait.map(secs));
    let local = Failure::local(Code::LimiterFull, "full").with_retry_after(Some(secs(99)));
    let ends =
        [limited(Some(10)), limited(Some(3)), limited(Some(10)), limited(Some(20)), limited(None), local];
    let scripts = ends.map(|end| Script::head([Act::Wait(1_000), Act::Fail(end)]));
    let service = layer.layer(Stage::new("stage", &Log::default(), scripts));
    join_all((0..6).map(|_| service.clone().oneshot(call(1)))).await;
    let frozen =
        |length| (format!("limiter provider:house: admits nothing for {length}.0s"), Some(secs(length)));
    assert_eq!(*told.lock().unwrap(), [frozen(10), frozen(20)]);
    advance(secs(21)).await;
    let again = Stage::new("stage", &Log::default(), [Script::head([Act::Fail(limited(Some(5)))])]);
    whole(&layer.layer(again), call(1)).await.unwrap_err();
    assert_eq!(told.lock().unwrap()[2..], [frozen(5)]);
}

/// Scenario: calls in flight come back with slow_down, two at once and one ten seconds later; the last states a wait, too.
/// Expected: the slow time MUST be told when it begins and when it is made longer, and the freeze beside it.
#[tokio::test(start_paused = true)]
async fn a_slow_time_is_told_when_it_is_news() {
    let (layer, told) = telling(limits(5_000));
    let slow = || Failure::new(Code::RateLimited, "slow_down: ramp");
    let after = |wait, end| Script::head([Act::Wait(wait), Act::Fail(end)]);
    let scripts =
        [after(1_000, slow()), after(1_000, slow()), after(11_000, slow().with_retry_after(Some(secs(2))))];
    let service = layer.layer(Stage::new("stage", &Log::default(), scripts));
    join_all((0..3).map(|_| service.clone().oneshot(call(1)))).await;
    let slowed = ("limiter provider:house: goes on at 0.50 of its rates for 60.0s".to_owned(), None);
    let frozen = ("limiter provider:house: admits nothing for 2.0s".to_owned(), Some(secs(2)));
    assert_eq!(*told.lock().unwrap(), [slowed.clone(), slowed, frozen]);
}

/// Scenario: every way a call ends, each reserved at ten of input and thirty of output, on a quota of a hundred.
/// Expected: what stays taken MUST be usage, also where the call broke after it was told, else nothing, or input and the
/// output seen.
#[tokio::test(start_paused = true)]
async fn a_call_pays_for_what_it_used() {
    let server = || fail(Code::Server).with_status(http::StatusCode::INTERNAL_SERVER_ERROR);
    let cut = |acts: Vec<Act>| Script::body(acts);
    let rows = [
        ("no usage: input, and eight bytes seen", cut(vec![Act::Text("abc"), Act::Done]), 12, 1),
        ("cut after output", cut(vec![Act::Text("abc"), Act::End]), 12, 1),
        ("broken after output", cut(vec![Act::Text("abc"), Act::Fail(fail(Code::Transport))]), 12, 1),
        ("cut after usage", cut(vec![Act::Used(20, 1), Act::Text("abcdefghi"), Act::End]), 25, 1),
        ("broken after usage", cut(vec![Act::Used(20, 5), Act::Text("abc"), Act::Fail(server())]), 27, 1),
        ("broken after usage, before output", cut(vec![Act::Used(7, 1), Act::Fail(server())]), 8, 1),
        ("usage corrected", cut(vec![Act::Used(20, 1), Act::Text("a"), Act::Used(15, 9), Act::Done]), 24, 1),
        ("broken before output", cut(vec![Act::Preamble, Act::Fail(fail(Code::Transport))]), 0, 1),
        ("refused", Script::head([Act::Fail(server())]), 0, 1),
        ("refused after output", cut(vec![Act::Text("abc"), Act::Fail(server())]), 0, 1),
        ("never connected", Script::fails(Code::Connect), 0, 1),
        ("refused beneath", Script::fails(Code::CircuitOpen), 0, 0),
    ];
    for (what, script, used, requests) in rows {
        let config = RateLimitConfig { requests_per_minute: Some(60), burst: Some(1.0), ..limits(100) };
        let layer = layer(config);
        let service = layer.layer(Stage::new("stage", &Log::default(), [script]));
        let _ = whole(&service, costing(10, Some(30))).await;
        assert_eq!(tokens(&layer), 100 - used, "{what}");
        assert_eq!(left(&layer, Dimension::Requests), 60 - requests, "{what}");
        assert_eq!(only(&layer).in_flight, 0, "{what}");
    }
    for (usage, left) in [(usage(12, 3), 85), (usage(40, 50), 10), (usage(100, 100), 0)] {
        let layer = layer(limits(100));
        whole(&layer.layer(Model::using(usage)), costing(10, Some(30))).await.unwrap();
        assert_eq!(tokens(&layer), left);
    }
}

/// Scenario: a call dropped before its head, one after its head, and one after some output.
/// Expected: the first MUST have all back, its request too; the others pay input and the output seen, or what was told.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_pays_for_what_was_sent() {
    // By the day, so that nothing grows back meanwhile.
    let config = RateLimitConfig {
        tokens_per_day: Some(100),
        requests_per_day: Some(60),
        ..RateLimitConfig::from_headers()
    };
    let script = || Script {
        head: vec![Act::Wait(1_000)],
        body: vec![Act::Wait(1_000), Act::Text("abc"), Act::Wait(1_000), Act::Used(3, 2), Act::Hang],
    };
    for (after, used, requests) in [(500, 0, 0), (1_500, 10, 1), (2_500, 12, 1), (3_500, 5, 1)] {
        let layer = layer(config.clone());
        let service = layer.layer(Stage::new("stage", &Log::default(), [script()]));
        let call = whole(&service, costing(10, Some(30)));
        tokio::time::timeout(Duration::from_millis(after), call).await.unwrap_err();
        assert_eq!(left(&layer, Dimension::TokensPerDay), 100 - used, "after {after}");
        assert_eq!(left(&layer, Dimension::RequestsPerDay), 60 - requests, "after {after}");
        assert_eq!(only(&layer).in_flight, 0);
    }
}

/// Scenario: forty of fifty tokens of input came from a cache: on providers that charge for it and that do not, for a model
/// that is charged all the same, and where the configuration says otherwise.
/// Expected: the former MUST charge fifty, the latter ten; cache writes are charged by all.
#[tokio::test(start_paused = true)]
async fn cache_reads_are_charged_where_the_provider_does() {
    let usage = Usage { input: 50, cached_read: 40, cached_write: 5, output: 0, reasoning: 0 };
    let claude = "claude-sonnet-4-5";
    for (profile, model, charge_cache_reads, used) in [
        (LimitProfile::Anthropic, claude, None, 10),
        (LimitProfile::Anthropic, "claude-3-5-haiku-20241022", None, 50),
        (LimitProfile::Anthropic, claude, Some(true), 50),
        (LimitProfile::Groq, "model", None, 10),
        (LimitProfile::Openai, "model", None, 50),
        (LimitProfile::Openai, "model", Some(false), 10),
    ] {
        let config = RateLimitConfig {
            input_tokens_per_minute: Some(100),
            charge_cache_reads,
            ..RateLimitConfig::of(profile)
        };
        let call = |input| Request::new(model).streaming().attach(Cost { input, output: None });
        let layer = layer(config);
        whole(&layer.layer(Model::using(usage)), call(50)).await.unwrap();
        assert_eq!(left(&layer, Dimension::InputTokens), 100 - used);
        // Of a call that is let go of once that was told, too.
        let told = Event::Usage(Box::new(usage));
        let events = move || stream::iter([Ok(told.clone())]).chain(stream::pending()).boxed();
        let hanging = tower::service_fn(move |_: Request| {
            ready(Ok::<_, Failure>(Reply::new(Head::default(), events())))
        });
        let mut reply = layer.layer(hanging).oneshot(call(50)).await.unwrap();
        reply.next().await.unwrap().unwrap();
        drop(reply);
        assert_eq!(left(&layer, Dimension::InputTokens), 100 - 2 * used);
    }
}

/// Scenario: a call that declares more than the bucket holds; one that declares nothing, on a bucket smaller than the
/// guess; one whose input alone is too large.
/// Expected: the first and the last MUST be refused at once for good; the second MUST pass.
#[tokio::test(start_paused = true)]
async fn a_declared_cost_above_the_capacity_is_refused_for_good() {
    let layer = layer(limits(100));
    let service = layer.layer(Model::using(usage(1, 1)));
    for request in [costing(1, Some(100)), costing(101, None)] {
        let failure = whole(&service, request).await.unwrap_err();
        assert_eq!(failure.code(), Code::CostAboveCapacity);
        assert!(failure.is_local());
        assert_eq!(failure.retry_after(), None);
    }
    whole(&service, costing(1, None)).await.unwrap();
    assert_eq!(tokens(&layer), 98);
}

/// Scenario: a deadline in two seconds, where the promise is three.
/// Expected: the call MUST be refused at once; with a deadline of four it waits and passes.
#[tokio::test(start_paused = true)]
async fn no_wait_runs_past_the_deadline() {
    let layer = layer(limits(SIXTY));
    let service = layer.layer(Model::using(usage(60, 0)));
    whole(&service, call(60)).await.unwrap();
    let start = Instant::now();
    let failure = whole(&service, call(3).within(secs(2))).await.unwrap_err();
    assert_eq!((failure.code(), failure.retry_after()), (Code::LimiterFull, Some(secs(3))));
    assert_eq!(start.elapsed(), Duration::ZERO);
    whole(&service, call(3).within(secs(4))).await.unwrap();
    assert_eq!(start.elapsed(), secs(3));
}

/// Scenario: two calls hold the two slots for a second and for two; three more come, then a tenth.
/// Expected: slots MUST come to those who wait in order, held to the end of the stream.
#[tokio::test(start_paused = true)]
async fn a_slot_is_held_to_the_end_of_the_stream() {
    let config = RateLimitConfig { max_concurrency: Some(2), ..RateLimitConfig::from_headers() };
    let layer = layer(config);
    let (log, script) = (Log::default(), Script::body([Act::Text("a"), Act::Wait(1_000), Act::Done]));
    let service = layer.layer(Stage::new("stage", &log, [script]));
    let start = Instant::now();
    let ends =
        join_all((0..6).map(|_| whole(&service, call(0)).map(|end| end.map(|()| start.elapsed())))).await;
    let ends: Vec<_> = ends.into_iter().map(|end| end.unwrap().as_secs()).collect();
    assert_eq!(ends, [1, 1, 2, 2, 3, 3]);
    assert_eq!(only(&layer).in_flight, 0);
    let begun: Vec<_> = log.times().iter().map(|at| at.duration_since(start).as_secs()).collect();
    assert_eq!(begun, [0, 0, 1, 1, 2, 2]);
}

/// Scenario: a line of as many as may wait, and one more.
/// Expected: it MUST be refused at once.
#[tokio::test(start_paused = true)]
async fn a_line_has_an_end() {
    let config =
        RateLimitConfig { max_waiting: 2, max_concurrency: Some(1), ..RateLimitConfig::from_headers() };
    let layer = layer(config);
    let hang = Script::body([Act::Text("a"), Act::Hang]);
    let service = layer.layer(Stage::new("stage", &Log::default(), [hang]));
    let held = service.clone().oneshot(call(0)).await.unwrap();
    let start = Instant::now();
    let ends = join_all((0..3).map(|_| whole(&service, call(0)).map(|end| (end, start.elapsed())))).await;
    drop(held);
    let times: Vec<_> = ends.iter().map(|(_, at)| at.as_secs()).collect();
    assert_eq!(times, [5, 5, 0]);
    assert!(
        ends.iter().all(|(end, _)| end.as_ref().is_err_and(|failure| failure.code() == Code::LimiterFull))
    );
}

/// Scenario: headers tell that none are left for seven seconds, in a dimension of no quota of ours; and that the limit
/// is half of what we thought, where a quota is declared.
/// Expected: the next call MUST wait for the reset; the declared limit MUST be halved; both are told.
#[tokio::test(start_paused = true)]
async fn headers_are_heeded() {
    let (facts, told_facts) = facts();
    let config = RateLimitConfig { acquire_timeout: secs(10), ..limits(1_000) };
    let layer = TokenAwareRateLimitLayer::new(config).unwrap().facts(&facts);
    let limits = told(Dimension::Requests, 60, 0, secs(7));
    let model = Model { limits, ..Model::default() };
    let service = layer.layer(model.clone());
    let start = Instant::now();
    whole(&service, call(1)).await.unwrap();
    whole(&service, call(1)).await.unwrap();
    assert_eq!(model.times(start), [0, 7]);
    let halving = Model { limits: told(Dimension::Tokens, 500, 500, secs(1)), ..Model::default() };
    advance(secs(7)).await;
    whole(&layer.layer(halving), call(1)).await.unwrap();
    let level = only(&layer).levels[0];
    assert_eq!((level.limit, level.capacity), (Some(500), Some(500)));
    let told_facts = told_facts.lock().unwrap();
    assert!(told_facts.iter().filter(|name| *name == "calibrated").count() >= 3, "{told_facts:?}");
}

/// Scenario: a refusal carries headers: two left until a reset in ten seconds.
/// Expected: MUST be heeded as those of a success are.
#[tokio::test(start_paused = true)]
async fn headers_beside_a_failure_are_heeded() {
    let layer = layer(limits(SIXTY));
    let failure = fail(Code::Server).with_limits(told(Dimension::Tokens, 60, 2, secs(10)));
    let service = layer.layer(Stage::new("stage", &Log::default(), [Script::head([Act::Fail(failure)])]));
    whole(&service, call(5)).await.unwrap_err();
    let level = only(&layer).levels[0];
    assert_eq!((level.remaining, level.reset), (2, Some(secs(10))));
    advance(secs(10)).await;
    assert_eq!(tokens(&layer), 60);
}

/// Scenario: where output is reserved: one bucket with a cap, without one, and by what was learned; two buckets.
/// Expected: MUST be input and cap; input and guess; input alone until twenty answers are known, then their usual
/// length; of output nothing, then the usual.
#[tokio::test(start_paused = true)]
async fn output_is_reserved_where_the_profile_says() {
    let hang = || Script::body([Act::Text("a"), Act::Hang]);
    let held = |layer: &TokenAwareRateLimitLayer, request| {
        let service = layer.layer(Stage::new("stage", &Log::default(), [hang()]));
        let reply = service.oneshot(request).now_or_never().unwrap().unwrap();
        let now = only(layer).levels;
        drop(reply);
        now
    };
    let declared = layer(limits(10_000));
    assert_eq!(held(&declared, costing(10, Some(500)))[0].remaining, 10_000 - 510);
    let fresh = layer(limits(10_000));
    assert_eq!(held(&fresh, costing(10, None))[0].remaining, 10_000 - 10 - 1_024);

    let learned = layer(RateLimitConfig { reserve_output: Some(ReserveOutput::Learned), ..limits(10_000) });
    let config = RateLimitConfig {
        output_tokens_per_minute: Some(10_000),
        ..RateLimitConfig::of(LimitProfile::Anthropic)
    };
    let apart = layer(config);
    assert_eq!(held(&learned, costing(10, Some(500)))[0].remaining, 10_000 - 10);
    let output = |levels: Vec<watertight::store::Level>| {
        levels.into_iter().find(|level| level.dimension == Dimension::OutputTokens).unwrap().remaining
    };
    assert_eq!(output(held(&apart, costing(10, Some(500)))), 10_000);
    for layer in [&learned, &apart, &fresh] {
        let service = layer.layer(Model::using(usage(10, 100)));
        for _ in 0..20 {
            whole(&service, costing(10, Some(100))).await.unwrap();
        }
        advance(secs(60)).await;
    }
    advance(secs(60)).await;
    assert_eq!(only(&learned).usual_output, Some(111));
    assert_eq!(held(&learned, costing(10, Some(500)))[0].remaining, 10_000 - 121);
    advance(secs(60)).await;
    assert_eq!(held(&learned, costing(10, Some(50)))[0].remaining, 10_000 - 60, "never more than the cap");
    assert_eq!(output(held(&apart, costing(10, Some(500)))), 10_000 - 111);
    assert_eq!(held(&fresh, costing(10, None))[0].remaining, 10_000 - 121);
}

/// Scenario: a provider bears ten calls at once and answers 429 beyond, without headers; forty are allowed.
/// Expected: the number found MUST come near ten, and grow again once the provider bears more.
#[tokio::test(start_paused = true)]
async fn the_number_at_once_is_found_by_trying() {
    let config = RateLimitConfig {
        max_concurrency: Some(40),
        adaptive: Some(AdaptiveConfig { late_first_output: Some(secs(3)), ..AdaptiveConfig::default() }),
        ..RateLimitConfig::from_headers()
    };
    let layer = layer(config);
    let limited = Script::head([Act::Wait(100), Act::Fail(fail(Code::RateLimited))]);
    let service = layer.layer(Stage::new("stage", &Log::default(), [limited]));
    for most in [30, 22, 16, 12] {
        let _ = join_all((0..40).map(|_| service.clone().oneshot(call(0)))).await;
        assert!(only(&layer).max_in_flight <= Some(most), "{:?}", only(&layer));
    }
    let found = only(&layer).max_in_flight.unwrap();
    let service = layer.layer(Model::default());
    for _ in 0..200 {
        whole(&service, call(0)).await.unwrap();
    }
    let grown = only(&layer).max_in_flight.unwrap();
    assert!(grown > found);
    let late = Script::body([Act::Wait(3_001), Act::Text("a"), Act::Done]);
    whole(&layer.layer(Stage::new("stage", &Log::default(), [late])), call(0)).await.unwrap();
    assert!(only(&layer).max_in_flight.unwrap() < grown, "late is too much, too");
}

/// Scenario: a call admitted at once, one after a wait, one refused; all end.
/// Expected: each MUST be told, with its wait, its end, or its failure.
#[tokio::test(start_paused = true)]
async fn admissions_ends_and_refusals_are_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let facts = Facts::to(move |fact: &Fact<'_>| {
        let line = match fact {
            Fact::Admitted { key, waited, .. } => format!("{key} admitted after {}", waited.as_secs()),
            Fact::Released { key, .. } => format!("{key} released"),
            Fact::Refused { key, failure, .. } => format!("{key} {}", failure.code()),
            other => other.name().to_owned(),
        };
        sink.lock().unwrap().push(line);
    });
    let layer = layer(limits(SIXTY)).named("provider:house").facts(&facts);
    let service = layer.layer(Model::using(usage(60, 0)));
    whole(&service, call(60)).await.unwrap();
    whole(&service, call(2)).await.unwrap();
    whole(&service, call(50)).await.unwrap_err();
    let expected = ["admitted after 0", "released", "admitted after 2", "released", "LIMITER_FULL"];
    let expected: Vec<_> = expected.iter().map(|line| format!("provider:house {line}")).collect();
    assert_eq!(*told.lock().unwrap(), expected);
}

/// A call that nobody counted, of a few dozen words.
fn uncounted() -> Request {
    Request::new("model").streaming().max_output_tokens(0).user("word ".repeat(100))
}

/// What an uncounted call takes from the bucket, while it is in flight.
fn reserves(layer: &TokenAwareRateLimitLayer, request: Request) -> u64 {
    let hang = Script::body([Act::Text("a"), Act::Hang]);
    let before = tokens(layer);
    let reply = layer.layer(Stage::new("stage", &Log::default(), [hang])).oneshot(request);
    let reply = reply.now_or_never().unwrap().unwrap();
    let taken = before - tokens(layer);
    drop(reply);
    taken
}

/// Scenario: nine calls that nobody counted, of which each had twice the input that was estimated; then the tenth.
/// Expected: the next call MUST reserve what was estimated up to then, and twice as much after; the snapshot MUST tell so.
#[tokio::test(start_paused = true)]
async fn ten_estimates_that_were_off_correct_the_next() {
    let layer = layer(limits(1_000_000));
    let raw = uncounted().cost().input;
    assert!(raw > 20, "{raw}");
    let service = layer.layer(Model::using(usage(2 * raw, 0)));
    for _ in 0..9 {
        assert_eq!(reserves(&layer, uncounted()), raw);
        whole(&service, uncounted()).await.unwrap();
    }
    assert!((only(&layer).estimate_factor - 1.0).abs() < f64::EPSILON);
    whole(&service, uncounted()).await.unwrap();
    assert!((only(&layer).estimate_factor - 2.0).abs() < f64::EPSILON, "{:?}", only(&layer));
    assert_eq!(reserves(&layer, uncounted()), 2 * raw);
    for _ in 0..100 {
        whole(&service, uncounted()).await.unwrap();
    }
    assert_eq!(reserves(&layer, uncounted()), 2 * raw, "what is right now is not corrected again");
}

/// Scenario: thirty calls with an attached cost that is far off; then estimates are corrected; then an attached cost.
/// Expected: nothing MUST be learned from what was counted, and what was counted MUST be reserved as it is.
#[tokio::test(start_paused = true)]
async fn what_was_counted_is_neither_learned_from_nor_corrected() {
    let layer = layer(limits(1_000_000));
    let service = layer.layer(Model::using(usage(500, 0)));
    for _ in 0..30 {
        whole(&service, call(50)).await.unwrap();
    }
    assert!((only(&layer).estimate_factor - 1.0).abs() < f64::EPSILON, "{:?}", only(&layer));
    let raw = uncounted().cost().input;
    let service = layer.layer(Model::using(usage(3 * raw, 0)));
    for _ in 0..10 {
        whole(&service, uncounted()).await.unwrap();
    }
    assert!((only(&layer).estimate_factor - 3.0).abs() < f64::EPSILON, "{:?}", only(&layer));
    assert_eq!((reserves(&layer, call(50)), reserves(&layer, uncounted())), (50, 3 * raw));
}

/// Scenario: forty calls at once whose estimates are all too low by half, so that thirty end after the factor moved.
/// Expected: it MUST be two: a call that was sent before it moved is not corrected for again.
#[tokio::test(start_paused = true)]
async fn calls_in_flight_when_the_factor_moves_do_not_move_it_again() {
    let layer = layer(limits(1_000_000));
    let service = layer.layer(Model::using(usage(2 * uncounted().cost().input, 0)));
    let replies = join_all((0..40).map(|_| service.clone().oneshot(uncounted()))).await;
    for reply in replies {
        read(reply.unwrap()).await.1.unwrap();
    }
    assert!((only(&layer).estimate_factor - 2.0).abs() < f64::EPSILON, "{:?}", only(&layer));
}

/// Scenario: calls taught to multiply estimates by eight; then one comes whose estimate fits the bucket, and eight times
/// as much does not.
/// Expected: it MUST be admitted once the bucket is full: refused for good it could never teach better.
#[tokio::test(start_paused = true)]
async fn a_correction_keeps_nobody_out_for_good() {
    let raw = uncounted().cost().input;
    for config in [
        limits(u32::try_from(raw * 3).unwrap()),
        RateLimitConfig {
            input_tokens_per_minute: u32::try_from(raw * 3).ok(),
            ..RateLimitConfig::from_headers()
        },
    ] {
        let layer = layer(config);
        let service = layer.layer(Model::using(usage(9 * raw, 0)));
        for _ in 0..10 {
            whole(&service, uncounted()).await.unwrap();
            advance(secs(240)).await;
        }
        assert!((only(&layer).estimate_factor - 8.0).abs() < f64::EPSILON, "{:?}", only(&layer));
        whole(&service, uncounted()).await.unwrap();
    }
}

/// Scenario: a header halves a declared limit and tells less than is left; one tells of a dimension without a quota.
/// Expected: the facts MUST tell the limit and what is left, each in its place, and be told of the key.
#[tokio::test(start_paused = true)]
async fn a_calibration_is_told_with_its_figures() {
    let told_facts = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told_facts);
    let facts = Facts::to(move |fact: &Fact<'_>| {
        if let Fact::Calibrated { key, dimension, limit, remaining } = fact {
            sink.lock().unwrap().push(((*key).to_owned(), *dimension, *limit, *remaining));
        }
    });
    let layer = layer(limits(1_000)).named("provider:a").facts(&facts);
    let mut limits = told(Dimension::Tokens, 500, 123, secs(9));
    let window = limits.entry(Dimension::Requests);
    (window.limit, window.remaining, window.reset) = (Some(60), Some(7), Some(secs(3)));
    let service = layer.layer(Model { limits, usage: Some(usage(1, 0)), ..Model::default() });
    whole(&service, call(1)).await.unwrap();
    let mut told_facts = told_facts.lock().unwrap().clone();
    told_facts.sort_by_key(|(_, dimension, ..)| *dimension == Dimension::Requests);
    let a = || "provider:a".to_owned();
    assert_eq!(told_facts, [(a(), Dimension::Tokens, 500, 123), (a(), Dimension::Requests, 60, 7)]);
}

/// Scenario: a refusal with a stated wait of a year, and a header that tells a reset in a year.
/// Expected: nothing MUST be admitted for a day, and then all: what is longer is no rate limit.
#[tokio::test(start_paused = true)]
async fn a_stated_year_is_a_day() {
    let (year, day) = (secs(365 * 24 * 60 * 60), secs(24 * 60 * 60));
    let stated = fail(Code::RateLimited).with_retry_after(Some(year));
    let reset = fail(Code::Server).with_limits(told(Dimension::Requests, 60, 0, year));
    for (failure, frozen) in [(stated, Some(day)), (reset, None)] {
        let layer = layer(limits(SIXTY));
        let stage = Stage::new("stage", &Log::default(), [Script::head([Act::Fail(failure)])]);
        whole(&layer.layer(stage), call(1)).await.unwrap_err();
        assert_eq!(only(&layer).frozen, frozen);
        let service = layer.layer(Model::default());
        assert_eq!(whole(&service, call(1)).await.unwrap_err().retry_after(), Some(day));
        advance(day - Duration::from_millis(1)).await;
        whole(&service, impatient(1)).await.unwrap_err();
        advance(Duration::from_millis(1)).await;
        whole(&service, impatient(1)).await.unwrap();
    }
}

/// Scenario: a call ends in each way there is, where the number at once is tried out; forty are allowed.
/// Expected: a 429, a 503 and an overload MUST cut the number to three quarters, with whatever status; nothing else MUST:
/// no other failure of the provider, no refusal of ours, no time that ran out, no caller that went.
#[tokio::test(start_paused = true)]
async fn an_overload_and_nothing_else_cuts_the_number_at_once() {
    let with = |code, status| fail(code).with_status(http::StatusCode::from_u16(status).unwrap());
    let (cut, same) = (30, 40);
    let rows = [
        (fail(Code::RateLimited), cut),
        (with(Code::RateLimited, 429), cut),
        (fail(Code::Overloaded), cut),
        (with(Code::Overloaded, 529), cut),
        (with(Code::Server, 503), cut),
        (fail(Code::Server), same),
        (with(Code::Server, 500), same),
        (with(Code::Server, 502), same),
        (with(Code::QuotaExhausted, 429), same),
        (with(Code::InvalidRequest, 400), same),
        (with(Code::Authentication, 401), same),
        (fail(Code::Transport), same),
        (fail(Code::Connect), same),
        (fail(Code::Timeout(Clock::FirstOutput)), same),
        (fail(Code::Timeout(Clock::Total)), same),
        (Failure::local(Code::CircuitOpen, "refused beneath"), same),
        (Failure::local(Code::BulkheadFull, "refused beneath"), same),
        (Failure::local(Code::LimiterFull, "refused beneath"), same),
    ];
    let config = RateLimitConfig {
        max_concurrency: Some(40),
        adaptive: Some(AdaptiveConfig::default()),
        ..RateLimitConfig::from_headers()
    };
    for (failure, most) in rows {
        for script in [
            Script::head([Act::Fail(failure.clone())]),
            Script::body([Act::Text("a"), Act::Fail(failure.clone())]),
        ] {
            let layer = layer(config.clone());
            whole(&layer.layer(Stage::new("stage", &Log::default(), [script])), call(0)).await.unwrap_err();
            assert_eq!(only(&layer).max_in_flight, Some(most), "{failure:?}");
        }
    }
    let layer = layer(config);
    let hang = Script { head: vec![Act::Wait(10)], body: vec![Act::Text("a"), Act::Hang] };
    let service = layer.layer(Stage::new("stage", &Log::default(), [hang]));
    for after in [5, 20] {
        let call = whole(&service, call(0));
        tokio::time::timeout(Duration::from_millis(after), call).await.unwrap_err();
    }
    assert_eq!(only(&layer).max_in_flight, Some(same), "who went away says nothing of the provider");
}

/// Scenario: the table of defaults in the docs of the room, and the one of its profiles.
/// Expected: each MUST say what the code does.
#[test]
fn the_printed_defaults_are_the_defaults() {
    let config = RateLimitConfig::default();
    let secs = |wait: Duration| wait.as_secs();
    let rows = [
        format!("| `profile` | `{}` |", word(&config.profile)),
        format!("| `acquire_timeout` | {} s |", secs(config.acquire_timeout)),
        format!("| `mode` | `{}` |", word(&config.mode)),
        format!("| `max_waiting` | {} |", thousands(config.max_waiting as u64)),
        format!("| `output_guess` | {} |", thousands(config.output_guess.into())),
        format!(
            "| `slow_down_share`, `slow_down_for` | {}, {} min |",
            config.slow_down_share,
            secs(config.slow_down_for) / 60
        ),
        format!(
            "| `adaptive.min`, `adaptive.backoff` | {}, {} |",
            { AdaptiveConfig::default().min },
            AdaptiveConfig::default().backoff
        ),
        format!("| `key` | `{}` |", word(&config.key)),
        format!("| `max_keys` | {} |", thousands(config.max_keys as u64)),
        "| `burst` | a period's quota, of requests a sixth |".into(),
        "| `headroom` | none |".into(),
        "| `adaptive` | off |".into(),
    ];
    let docs = include_str!("../src/layers/rate_limit/mod.rs");
    for row in &rows {
        assert!(docs.contains(row.as_str()), "{row}");
    }
    let table = docs.split("# Defaults").nth(1).unwrap().split("//!\n").next().unwrap();
    let printed = table.lines().filter(|line| line.starts_with("//! | `")).count();
    assert_eq!(printed, rows.len(), "a row is not compared");
    assert!(config.burst.is_none() && config.headroom.is_none() && config.adaptive.is_none());
    let sixth = layer(RateLimitConfig { requests_per_minute: Some(600), ..limits(1_000) });
    let capacities: Vec<_> = only(&sixth).levels.iter().map(|level| level.capacity.unwrap()).collect();
    assert_eq!(capacities, [100, 1_000]);
}

/// Scenario: the table of guesses in the docs of the profiles.
/// Expected: each MUST be what a layer of that profile starts from.
#[test]
fn the_printed_guesses_are_the_guesses() {
    use LimitProfile::{Anthropic, Deepseek, Headers, Openai, Unknown};
    let docs = include_str!("../src/layers/rate_limit/profile.rs");
    for profile in [Openai, Anthropic, Deepseek, Unknown, Headers] {
        let key = only(&layer(RateLimitConfig::of(profile)));
        let limit = |dimension| {
            let level = key.levels.iter().find(|level| level.dimension == dimension);
            level.map(|level| thousands(level.limit.unwrap()))
        };
        let none = || "–".to_owned();
        let input = limit(Dimension::InputTokens).map(|input| format!("{input} of input"));
        let row = format!(
            "/// | `{}` | {} | {} | {} |",
            word(&profile),
            limit(Dimension::Requests).unwrap_or_else(none),
            limit(Dimension::Tokens).or(input).unwrap_or_else(none),
            key.max_in_flight.map_or_else(none, |most| most.to_string()),
        );
        assert!(docs.contains(&row), "{row}");
    }
}

/// A value as the file format writes it.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

/// A number as the docs print it.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}

/// What a random caller does.
#[derive(Clone, Copy, Debug)]
struct Guest {
    /// When it comes, in milliseconds.
    at: u64,
    cost: u64,
    /// When it goes away by itself, if it does.
    leaves: Option<u64>,
    /// How much of what it reserved it used, in percent.
    used: u64,
}

fn callers() -> impl Strategy<Value = Vec<Guest>> {
    let leaves = proptest::option::weighted(0.4, 0_u64..8_000);
    let caller = (0_u64..30_000, 1_u64..60, leaves, 0_u64..150);
    let caller = caller.prop_map(|(at, cost, leaves, used)| Guest { at, cost, leaves, used });
    proptest::collection::vec(caller, 1..40)
}

/// What came of a run of callers, by their numbers.
#[derive(Debug, Default)]
struct Ran {
    /// In the order they came.
    order: Vec<usize>,
    /// In the order they were granted.
    granted: Vec<usize>,
    /// Who waited, and was refused all the same.
    vainly: Vec<usize>,
    /// Who stayed, and was neither granted nor refused.
    forgotten: Vec<usize>,
}

/// Runs callers against a limit on a clock of its own. Gives what came of them, what the limit shows in the end, and
/// what is in its bucket ten minutes later.
fn run(callers: &[Guest], config: RateLimitConfig) -> (Ran, KeySnapshot, u64) {
    let clock =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    clock.block_on(async {
        let layer = layer(config);
        let ran = Mutex::new(Ran::default());
        let mut order: Vec<usize> = (0..callers.len()).collect();
        order.sort_by_key(|n| callers[*n].at);
        let tasks = order.iter().map(|n| {
            let (caller, n, ran, layer) = (callers[*n], *n, &ran, layer.clone());
            let model = Model::using(usage(caller.cost * caller.used / 100, 0));
            async move {
                sleep(Duration::from_millis(caller.at)).await;
                let (service, came) = (layer.layer(model), Instant::now());
                let whole = async {
                    let Ok(reply) = service.oneshot(call(caller.cost)).await else {
                        if came.elapsed() > Duration::ZERO {
                            ran.lock().unwrap().vainly.push(n);
                        }
                        return;
                    };
                    ran.lock().unwrap().granted.push(n);
                    sleep(Duration::from_millis(caller.cost * 20)).await;
                    let _ = read(reply).await;
                };
                let leaves = Duration::from_millis(caller.leaves.unwrap_or(1_000_000));
                let end = tokio::time::timeout(leaves, whole).await;
                if end.is_err() && caller.leaves.is_none() {
                    ran.lock().unwrap().forgotten.push(n);
                }
            }
        });
        join_all(tasks).await;
        let key = only(&layer);
        advance(secs(600)).await;
        let left = tokens(&layer);
        (Ran { order, ..ran.into_inner().unwrap() }, key, left)
    })
}

/// The law of the line: grants follow arrivals.
fn follows_arrivals(ran: &Ran) -> bool {
    ran.order.iter().filter(|n| ran.granted.contains(n)).eq(&ran.granted)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: forty callers of any cost at any time; some go away, some are refused, some use more than they said.
    /// Expected: who is granted MUST be granted in the order of arrival; in the end nobody MUST be in line or in flight,
    /// and the bucket MUST be full again.
    #[test]
    fn grants_follow_arrivals_and_nothing_leaks(callers in callers()) {
        let (ran, key, left) = run(&callers, limits(SIXTY));
        prop_assert!(follows_arrivals(&ran), "{ran:?}");
        prop_assert_eq!((key.in_flight, key.waiting), (0, 0));
        prop_assert_eq!(left, 60);
    }

    /// Scenario: the same, but nobody uses more than was said, so that no promise is broken by a debt.
    /// Expected: whoever is refused MUST be refused the moment it comes: nobody waits in vain.
    #[test]
    fn nobody_waits_in_vain(callers in callers()) {
        let callers: Vec<_> = callers.into_iter().map(|caller| Guest { used: caller.used.min(100), ..caller }).collect();
        let (ran, ..) = run(&callers, limits(SIXTY));
        prop_assert!(ran.vainly.is_empty(), "{ran:?}");
    }

    /// Scenario: the same with two slots, so that grants hang on others' ends, and race timeouts and drops.
    /// Expected: the same; and whoever stays MUST be granted or refused, never left waiting.
    #[test]
    fn a_grant_that_races_a_drop_is_not_lost(callers in callers()) {
        let config = RateLimitConfig { max_concurrency: Some(2), acquire_timeout: secs(2), ..limits(100_000) };
        let (ran, key, _) = run(&callers, config);
        prop_assert!(follows_arrivals(&ran), "{ran:?}");
        prop_assert!(ran.forgotten.is_empty(), "{ran:?}");
        prop_assert_eq!((key.in_flight, key.waiting), (0, 0));
    }
}

/// Scenario: the law that nobody waits in vain, held against a limit whose promise is unknown: one slot, held for long.
/// Expected: it MUST be caught: two wait, and are refused in the end.
#[test]
fn a_limiter_that_promises_nothing_is_rejected() {
    let guest = |at, cost| Guest { at, cost, leaves: None, used: 100 };
    let callers = [guest(0, 500), guest(10, 1), guest(20, 1)];
    let slot = RateLimitConfig { max_concurrency: Some(1), ..limits(100_000) };
    assert_eq!(run(&callers, slot).0.vainly, [1, 2]);
    let tokens = [guest(0, 60), guest(10, 10), guest(20, 1)];
    assert!(run(&tokens, limits(SIXTY)).0.vainly.is_empty());
}

/// The twin: a limiter that asks again and again, whoever comes first being served.
async fn scrambled(costs: &[u64]) -> Ran {
    let layer = layer(RateLimitConfig { mode: Mode::Reject, ..limits(SIXTY) });
    let service = layer.layer(Model::using(usage(60, 0)));
    whole(&service, call(60)).await.unwrap();
    let granted = Mutex::new(Vec::new());
    let ask = |(n, cost): (usize, &u64)| {
        let (service, cost, granted) = (layer.layer(Model::using(usage(*cost, 0))), *cost, &granted);
        async move {
            while whole(&service, call(cost)).await.is_err() {
                sleep(Duration::from_millis(100)).await;
            }
            granted.lock().unwrap().push(n);
        }
    };
    join_all(costs.iter().enumerate().map(ask)).await;
    Ran { order: (0..costs.len()).collect(), granted: granted.into_inner().unwrap(), ..Ran::default() }
}

/// Scenario: the law of order, held against a twin that polls a limit that keeps no line.
/// Expected: the twin MUST be caught serving the cheap first, and the line MUST not.
#[tokio::test(start_paused = true)]
async fn a_limiter_without_a_line_is_rejected() {
    let costs = [40, 1, 1, 50, 1];
    let twin = scrambled(&costs).await;
    assert!(twin.granted.len() == costs.len() && !follows_arrivals(&twin), "{twin:?}");
    let layer = layer(RateLimitConfig { acquire_timeout: secs(600), ..limits(SIXTY) });
    whole(&layer.layer(Model::using(usage(60, 0))), call(60)).await.unwrap();
    let start = Instant::now();
    let model = Model::default();
    let ask = |cost| {
        let service = layer.layer(Model { usage: Some(usage(cost, 0)), ..model.clone() });
        async move { whole(&service, call(cost)).await.unwrap() }
    };
    join_all(costs.map(ask)).await;
    assert_eq!(model.times(start), [40, 41, 42, 92, 93]);
}

/// Scenario: a call is told to wait and is never polled again; then it is dropped.
/// Expected: those behind it MUST get their turn, at the latest when it is dropped, and nothing MUST stay.
#[tokio::test(start_paused = true)]
async fn a_waiter_dropped_at_any_poll_leaves_the_line() {
    let layer = layer(RateLimitConfig { acquire_timeout: secs(100), ..limits(SIXTY) });
    whole(&layer.layer(Model::using(usage(60, 0))), call(60)).await.unwrap();
    for polls in 0..3 {
        let mut head = layer.layer(Model::default());
        let mut held = Box::pin(head.ready().await.unwrap().call(call(5)));
        for _ in 0..polls {
            assert!(held.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let service = layer.layer(Model::using(usage(1, 0)));
        let mut behind = pin!(whole(&service, call(1)));
        assert!(behind.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(only(&layer).waiting, 2);
        drop(held);
        let start = Instant::now();
        behind.await.unwrap();
        assert_eq!(start.elapsed(), secs(1), "after {polls} polls");
        assert_eq!((only(&layer).waiting, only(&layer).in_flight), (0, 0));
    }
}

/// The twin: slots that are handed to who waits, and are lost where nobody takes them.
#[derive(Default)]
struct Handed {
    taken: Mutex<bool>,
    line: Mutex<Vec<tokio::sync::oneshot::Sender<()>>>,
}

/// A slot of the twin, until it is dropped.
struct Handing<'a>(&'a Handed);

impl Handed {
    async fn take(&self) -> Handing<'_> {
        if std::mem::replace(&mut *self.taken.lock().unwrap(), true) {
            let (hand, handed) = tokio::sync::oneshot::channel();
            self.line.lock().unwrap().push(hand);
            handed.await.unwrap();
        }
        Handing(self)
    }
}

impl Drop for Handing<'_> {
    fn drop(&mut self) {
        // Whoever is told may be gone before it looks.
        let told = self.0.line.lock().unwrap().drain(..).any(|hand| hand.send(()).is_ok());
        *self.0.taken.lock().unwrap() = told;
    }
}

/// The law of a slot that comes back while a call waits for it that is dropped before it is polled again: the next has
/// it at once.
fn passes_it_on<F: Future>(ask: impl Fn() -> F) -> bool {
    let held = ask().now_or_never().unwrap();
    let mut waiter = Box::pin(ask());
    assert!(waiter.as_mut().now_or_never().is_none());
    drop(held);
    drop(waiter);
    ask().now_or_never().is_some()
}

/// Scenario: the law of the slot that is passed on, held against a limit of one slot, and a twin that hands slots over.
/// Expected: the limit MUST keep it; the twin MUST be caught losing the slot.
#[tokio::test(start_paused = true)]
async fn a_limiter_that_loses_a_grant_is_rejected() {
    let layer = layer(RateLimitConfig { max_concurrency: Some(1), ..limits(SIXTY) });
    assert!(passes_it_on(|| layer.layer(Model::default()).oneshot(call(1))));
    let twin = Handed::default();
    assert!(!passes_it_on(|| twin.take()), "the twin has not lost it");
}

/// Scenario: `layer()` called twice, and clones.
/// Expected: all MUST share one state.
#[tokio::test(start_paused = true)]
async fn what_a_layer_makes_shares_its_state() {
    let layer = layer(RateLimitConfig { mode: Mode::Reject, ..limits(SIXTY) });
    whole(&layer.layer(Model::using(usage(60, 0))), call(60)).await.unwrap();
    whole(&layer.clone().layer(Model::default()), call(1)).await.unwrap_err();
    assert!(layer.is_near_limit(0.85));
    advance(secs(15)).await;
    assert!(!layer.is_near_limit(0.85));
    assert!(layer.is_near_limit(0.75));
}

/// Scenario: configurations that cannot work, and one in full, as TOML.
/// Expected: each MUST be refused by the name of its field; the full one MUST be read.
#[test]
fn a_configuration_is_checked() {
    let base = RateLimitConfig::default;
    let rows = [
        ("tokens_per_minute", RateLimitConfig { tokens_per_minute: Some(0), ..base() }),
        ("max_concurrency", RateLimitConfig { max_concurrency: Some(0), ..base() }),
        ("acquire_timeout", RateLimitConfig { acquire_timeout: Duration::ZERO, ..base() }),
        ("burst", RateLimitConfig { burst: Some(1.5), ..base() }),
        ("initial_fill", RateLimitConfig { initial_fill: Some(0.0), ..base() }),
        ("headroom", RateLimitConfig { headroom: Some(f64::NAN), ..base() }),
        ("slow_down_share", RateLimitConfig { slow_down_share: 0.0, ..base() }),
        ("max_waiting", RateLimitConfig { max_waiting: 0, ..base() }),
        ("max_keys", RateLimitConfig { max_keys: 0, ..base() }),
        (
            "adaptive",
            RateLimitConfig { adaptive: Some(AdaptiveConfig::default()), ..RateLimitConfig::from_headers() },
        ),
        (
            "adaptive.min",
            RateLimitConfig { adaptive: Some(AdaptiveConfig { min: 0, ..Default::default() }), ..base() },
        ),
    ];
    for (field, config) in rows {
        assert_eq!(TokenAwareRateLimitLayer::new(config).unwrap_err().field, field);
    }
    let text = r#"{
        "profile": "openai", "tokens_per_minute": 30000, "burst": 0.5, "mode": "reject",
        "acquire_timeout": "2s", "reserve_output": "learned", "key": "model",
        "adaptive": { "min": 2, "late_first_output": "10s" }, "max_concurrency": 4
    }"#;
    let config: RateLimitConfig = serde_json::from_str(text).unwrap();
    assert_eq!(config.acquire_timeout, secs(2));
    assert!(TokenAwareRateLimitLayer::new(config).is_ok());
    assert!(serde_json::from_str::<RateLimitConfig>(r#"{ "tokens": 1 }"#).is_err());
}

/// Scenario: the profiles.
/// Expected: their limits MUST be what is written of them, and be raised by a header.
#[tokio::test(start_paused = true)]
async fn a_profile_is_a_guess_that_headers_correct() {
    use Dimension::{InputTokens, Requests, Tokens};
    let levels = |profile| {
        let layer = layer(RateLimitConfig::of(profile));
        let levels: Vec<_> =
            only(&layer).levels.iter().map(|level| (level.dimension, level.limit.unwrap())).collect();
        (levels, only(&layer).max_in_flight)
    };
    assert_eq!(levels(LimitProfile::Openai), (vec![(Requests, 500), (Tokens, 1_000_000)], None));
    assert_eq!(levels(LimitProfile::Anthropic), (vec![(Requests, 400), (InputTokens, 400_000)], None));
    assert_eq!(levels(LimitProfile::Deepseek), (vec![(Requests, 300), (Tokens, 500_000)], Some(10)));
    assert_eq!(levels(LimitProfile::Unknown), (vec![(Requests, 500)], Some(50)));
    assert_eq!(levels(LimitProfile::Headers), (vec![], None));
    let layer = layer(RateLimitConfig::of(LimitProfile::Openai));
    let limits = told(Requests, 10_000, 9_999, Duration::from_millis(6));
    whole(&layer.layer(Model { limits, ..Model::default() }), call(1)).await.unwrap();
    assert_eq!(only(&layer).levels[0].limit, Some(10_000));
}
