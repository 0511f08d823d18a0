//! A case played: providers from its steps, the stack of the cases, its calls.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream::StreamExt;
use http_body::Body;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{
    Ask, Assembler, BoxReply, CallId, Completion, Event, Message, Protocol, Reply, Request,
};
use watertight::event::{Fact, Facts};
use watertight::failure::{BoxError, ConfigError, Failure};
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::failover::FailoverConfig;
use watertight::layers::rate_limit::{Mode, RateLimitConfig};
use watertight::layers::retry::{Jitter, RetryConfig};
use watertight::layers::timeout::{Clocks, KeepAlive};
use watertight::layers::{
    CircuitBreakerLayer, DualClockTimeoutLayer, FailoverLayer, RetryLayer, TokenAwareRateLimitLayer,
};
use watertight::protocol;
use watertight::provider::{HttpClient, Profile, Provider};
use watertight::testing::{Journal, Player, Script, Server};
use watertight::time::Wall;

use crate::case::{Call, Case, Config};
use crate::expect;

/// How long a case may take on the paused clock before it is said to hang.
const HANG: Duration = Duration::from_secs(24 * 60 * 60);

/// What came of one call.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) id: Option<CallId>,
    pub(crate) text: String,
    pub(crate) partial: Option<Message>,
    pub(crate) completion: Option<Completion>,
    pub(crate) failure: Option<Failure>,
    pub(crate) cancelled: bool,
    pub(crate) elapsed: Duration,
    /// Of each attempt: when it went out after the call was made, and when it ended.
    pub(crate) attempts: Vec<(Duration, Option<Duration>)>,
}

/// What the facts say of attempts, by call.
type Times = Arc<Mutex<Vec<(CallId, Instant, bool)>>>;

pub(crate) fn check(case: &Case, loopback: bool) -> Vec<String> {
    let runtime = |paused: bool| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(paused).build().expect("a runtime")
    };
    if loopback {
        runtime(false).block_on(over_loopback(case))
    } else {
        runtime(true).block_on(in_process(case))
    }
}

async fn in_process(case: &Case) -> Vec<String> {
    let journal = Journal::new();
    let player = |name: &str| {
        let player = Player::new(Script::of(name, &case.steps), &journal);
        (player, format!("http://{name}.test/v1"))
    };
    let clients = case.config.providers.iter().map(|name| player(name)).collect();
    match timeout(HANG, play(case, &journal, clients)).await {
        Ok(complaints) => complaints,
        Err(_) => vec!["hangs".into()],
    }
}

async fn over_loopback(case: &Case) -> Vec<String> {
    let journal = Journal::new();
    let client = HttpClient::new(&Default::default()).expect("a client");
    let mut servers = Vec::new();
    for name in &case.config.providers {
        let script = Script::of(name, &case.steps);
        servers.push(Server::start_with(script, &journal).await.expect("a server"));
    }
    let clients = servers.iter().map(|server| (client.clone(), format!("{}/v1", server.url()))).collect();
    timeout(Duration::from_secs(60), play(case, &journal, clients))
        .await
        .unwrap_or_else(|_| vec!["hangs".into()])
}

async fn play<C, B>(case: &Case, journal: &Journal, clients: Vec<(C, String)>) -> Vec<String>
where
    C: Service<http::Request<Bytes>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    C::Future: Send,
    C::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    let times = Times::default();
    let sink = Arc::clone(&times);
    let facts = Facts::to(move |fact: &Fact<'_>| {
        let mut times = sink.lock().expect("no panic before");
        match *fact {
            Fact::Attempt { call, .. } => times.push((call, Instant::now(), true)),
            Fact::Settled { call, .. } => times.push((call, Instant::now(), false)),
            _ => {}
        }
    });
    let service = match stack(case, clients, &facts) {
        Ok(service) => service,
        Err(error) => return vec![format!("cannot be built: {error}")],
    };
    let calls = if case.calls.is_empty() { vec![only_call(case)] } else { case.calls.clone() };
    let start = Instant::now();
    let one = |call: &Call| {
        let (case, service, call) = (case, service.clone(), call.clone());
        async move { (call.clone(), make(case, service, &call, start).await) }
    };
    let all = calls.iter().flat_map(|call| std::iter::repeat_n(call, call.repeat));
    let mut seen = join_all(all.map(one)).await;
    // Nothing may go out once the calls are over; three seconds is longer than any wait of the cases.
    sleep(Duration::from_secs(if tokio_is_paused() { 30 } else { 1 })).await;
    for (call, seen) in &mut seen {
        let times = times.lock().expect("no panic before");
        let begun = start + Duration::from_millis(call.at_ms);
        let own = times.iter().filter(|(id, ..)| Some(*id) == seen.id);
        for (_, at, begins) in own {
            let after = at.duration_since(begun);
            match seen.attempts.last_mut() {
                Some((_, end @ None)) if !begins => *end = Some(after),
                _ => seen.attempts.push((after, None)),
            }
        }
    }
    expect::check(case, &seen, journal)
}

/// Whether virtual time is in force: a second of it takes no time.
fn tokio_is_paused() -> bool {
    std::env::var("FIELD_TRANSPORT").is_ok_and(|name| name == "loopback").then_some(()).is_none()
}

fn only_call(case: &Case) -> Call {
    let mut call: Call = serde_json::from_str("{}").expect("every field has a default");
    call.expect = case.expect.clone();
    call.expect.attempts = None;
    call
}

async fn make<S, T>(case: &Case, service: S, call: &Call, start: Instant) -> Seen
where
    S: Service<Request, Response = T, Error = Failure>,
    T: futures_util::Stream<Item = Result<Event, Failure>> + Unpin,
{
    sleep_until(start + Duration::from_millis(call.at_ms)).await;
    let begun = Instant::now();
    let mut seen = Seen::default();
    let body = call.request.as_ref().unwrap_or(&case.request).to_string();
    let request = match protocol::read(protocol_of(&case.protocol), body.as_bytes()) {
        Ok(request) => request.within(Duration::from_millis(case.config.deadline_ms)),
        Err(failure) => return Seen { failure: Some(failure), ..seen },
    };
    let request =
        if case.config.per_call.failover == Some(false) { request.without_failover() } else { request };
    seen.id = Some(request.call().id);
    let limit = call.cancel_after_ms.map_or(HANG, Duration::from_millis);
    seen.cancelled = timeout(limit, follow(case, service, call, request, &mut seen)).await.is_err();
    seen.elapsed = begun.elapsed();
    seen
}

async fn follow<S, T>(case: &Case, service: S, call: &Call, request: Request, seen: &mut Seen)
where
    S: Service<Request, Response = T, Error = Failure>,
    T: futures_util::Stream<Item = Result<Event, Failure>> + Unpin,
{
    let mut reply = match service.oneshot(request).await {
        Ok(reply) => reply,
        Err(failure) => return seen.failure = Some(failure),
    };
    if call.drop_unpolled {
        return;
    }
    let mut assembler = Assembler::new();
    let mut items = 0;
    while let Some(item) = reply.next().await {
        items += 1;
        match item {
            Ok(Event::Completed(completion)) => {
                // A whole answer has no pieces.
                if seen.text.is_empty() {
                    seen.text = completion.message.to_text();
                }
                seen.completion = Some(*completion);
            }
            Ok(event) => {
                if let Event::Text { text, .. } = &event {
                    seen.text.push_str(text);
                }
                assembler.push(&event);
            }
            Err(failure) => seen.failure = Some(failure),
        }
        if let Some(consumer) = &case.config.consumer
            && items == consumer.pause_after_items
        {
            sleep(Duration::from_millis(consumer.pause_ms)).await;
        }
    }
    seen.partial = Some(assembler.partial());
}

/// The stack of the cases: failover around retry, breaker, limiter and clocks around a provider.
fn stack<C, B>(
    case: &Case,
    clients: Vec<(C, String)>,
    facts: &Facts,
) -> Result<
    impl Service<
        Request,
        Response = impl futures_util::Stream<Item = Result<Event, Failure>> + Unpin,
        Error = Failure,
        Future = impl Future,
    > + Clone,
    ConfigError,
>
where
    C: Service<http::Request<Bytes>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    C::Future: Send,
    C::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    let config = &case.config;
    let wall = wall(config.now.as_deref());
    let mut candidates = Vec::new();
    for (name, (client, url)) in config.providers.iter().zip(clients) {
        let target = config.targets.get(name).cloned().unwrap_or_default();
        let spoken = protocol_of(target.protocol.as_deref().unwrap_or(&case.protocol));
        let url =
            if spoken == Protocol::AnthropicMessages { url.trim_end_matches("/v1").to_owned() } else { url };
        let mut profile =
            Profile::new(name.as_str(), spoken, url).with_key(target.key.as_deref().unwrap_or("key"));
        profile.default_model = target.model;
        let provider = Provider::over(client, profile)?.facts(facts).wall(wall);
        let (retry, breaker, clocks) = (RetryLayer::new(retry(config)?)?, breaker(config)?, clocks(config)?);
        let clocked = clocks.layer(provider);
        let limited = match limiter(config)? {
            Some(limits) => boxed(limits.layer(clocked)),
            None => boxed(clocked),
        };
        candidates.push(retry.layer(breaker.layer(limited)));
    }
    let first = candidates.remove(0);
    let failover = FailoverLayer::new(candidates).named(config.providers.iter().map(String::as_str))?;
    Ok(failover.config(failover_config(config))?.layer(first))
}

pub(crate) fn retry(config: &Config) -> Result<RetryConfig, ConfigError> {
    let retries = config.max_attempts.checked_sub(1);
    let retries = retries.ok_or_else(|| ConfigError::new("max_attempts", "must be at least 1"))?;
    Ok(RetryConfig {
        retries,
        base: Duration::from_millis(config.backoff.base_ms),
        cap: Duration::from_millis(config.backoff.cap_ms),
        jitter: if config.backoff.jitter == "full" { Jitter::Full } else { Jitter::None },
        max_retry_after: Duration::from_millis(config.max_retry_after_ms),
        budget: None,
        seed: Some(7),
        ..RetryConfig::default()
    })
}

/// Forgets the type of a candidate's layers.
fn boxed<S, E, W>(service: S) -> BoxCloneSyncService<Request, BoxReply, Failure>
where
    S: Service<Request, Response = Reply<E, W>, Error = Failure> + Clone + Send + Sync + 'static,
    S::Future: Send,
    E: futures_util::Stream<Item = Result<Event, Failure>> + Unpin + Send + 'static,
    W: watertight::observe::Watchers + Unpin + Send + 'static,
{
    BoxCloneSyncService::new(service.map_response(Reply::boxed))
}

fn limiter(config: &Config) -> Result<Option<TokenAwareRateLimitLayer>, ConfigError> {
    let Some(limiter) = &config.limiter else { return Ok(None) };
    if limiter.from_headers == limiter.tokens_per_minute.is_some() {
        return Err(ConfigError::new("limiter", "has a quota of its own, or none"));
    }
    let whole = limiter.tokens_per_minute.map_or(1.0, f64::from);
    let limits = RateLimitConfig {
        tokens_per_minute: limiter.tokens_per_minute,
        initial_fill: limiter.initial_fill.map(|filled| f64::from(filled) / whole),
        mode: match limiter.mode.as_deref() {
            None | Some("wait") => Mode::Wait,
            Some("reject") => Mode::Reject,
            Some(other) => return Err(ConfigError::new("limiter.mode", format!("is not known: {other}"))),
        },
        ..RateLimitConfig::from_headers()
    };
    TokenAwareRateLimitLayer::new(limits).map(Some)
}

/// The failure-rate rule alone. A case without a breaker has one that is switched off.
pub(crate) fn breaker(config: &Config) -> Result<CircuitBreakerLayer, ConfigError> {
    let Some(breaker) = config.breaker else {
        let layer = CircuitBreakerLayer::default();
        layer.handle().expect("the one circuit").disable();
        return Ok(layer);
    };
    let rest = Duration::from_millis(breaker.open_ms);
    let clocks =
        Duration::from_millis(config.ttfb_ms.unwrap_or_default().max(config.idle_ms.unwrap_or_default()));
    CircuitBreakerLayer::new(CircuitBreakerConfig {
        failures: None,
        ratio: Some(breaker.failure_ratio),
        min_calls: breaker.min_calls,
        rest,
        max_rest: rest,
        growth: 1.0,
        jitter: 0.0,
        probes: breaker.half_open_max,
        successes: 1,
        lease: rest.max(clocks),
        ramp: None,
        ..CircuitBreakerConfig::default()
    })
}

pub(crate) fn clocks(config: &Config) -> Result<DualClockTimeoutLayer, ConfigError> {
    let clocks = Clocks {
        first_output: config.ttfb_ms.map(Duration::from_millis),
        idle: config.idle_ms.map(Duration::from_millis),
        keep_alive: match config.keepalive.as_str() {
            "extend_first" => KeepAlive::ExtendFirst,
            "any" => KeepAlive::Any,
            _ => KeepAlive::Ignore,
        },
        ..Clocks::off()
    };
    DualClockTimeoutLayer::with_reasoning(clocks, clocks)
}

pub(crate) fn failover_config(config: &Config) -> FailoverConfig {
    let product = FailoverConfig::default();
    let spring_back = config.cooldown_ms.map_or(product.spring_back, Duration::from_millis);
    FailoverConfig { spring_back, dwell: None, move_off_after: 1, ..product }
}

pub(crate) fn wall(now: Option<&str>) -> Wall {
    now.map_or_else(Wall::system, |now| {
        let date: jiff::Timestamp = now.parse().expect("a date");
        Wall::at(Duration::from_millis(u64::try_from(date.as_millisecond()).expect("after 1970")))
    })
}

pub(crate) fn protocol_of(name: &str) -> Protocol {
    match name {
        "openai-chat" => Protocol::OpenaiChat,
        "openai-responses" => Protocol::OpenaiResponses,
        "anthropic-messages" => Protocol::AnthropicMessages,
        other => panic!("no protocol is called {other}"),
    }
}
