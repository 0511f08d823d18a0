//! Answers of earlier calls, on a paused clock.
#![cfg(feature = "cache")]
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use support::{fail, request};
use tokio::time::sleep;
use tower::{Layer, ServiceExt, service_fn};
use watertight::chat::{
    BoxReply, Completion, Content, Degradation, Event, Head, Level, Message, Part, Reply, Request, Role,
    Stop, ToolCall, Usage,
};
use watertight::failure::{Code, Failure};
use watertight::key::Caller;
use watertight::layers::DegradationLayer;
use watertight::layers::degradation::{
    AnswerCache, AnswerKey, CacheConfig, DegradationConfig, Finding, Similar,
};

fn ann() -> Request {
    request().attach(Caller::new("ann"))
}

fn bob() -> Request {
    request().attach(Caller::new("bob"))
}

fn cache(config: CacheConfig) -> AnswerCache {
    AnswerCache::new(config).unwrap()
}

fn layer(cache: &AnswerCache) -> DegradationLayer {
    let config = DegradationConfig { graceful: None, ..DegradationConfig::default() };
    DegradationLayer::new(config).unwrap().cached_answer(cache)
}

/// A whole answer of these parts.
fn answer(parts: Vec<Part>, stop: Stop) -> Completion {
    let usage = Usage { input: 9, output: 3, ..Usage::default() };
    Completion::new(Message::new(Role::Assistant, parts), stop, Some(usage))
}

/// Asks a stack whose model gives this answer.
async fn gives(layer: &DegradationLayer, request: Request, completion: Completion) {
    let model = service_fn(move |_| {
        let events = vec![Ok(Event::text(0, "..")), Ok(Event::Completed(Box::new(completion.clone())))];
        std::future::ready(Ok(Reply::new(Head::default(), futures_util::stream::iter(events))))
    });
    layer.layer(model).oneshot(request).await.unwrap().collect().await.unwrap();
}

async fn says(layer: &DegradationLayer, request: Request, text: &str) {
    gives(layer, request, answer(vec![Part::text(text)], Stop::End)).await;
}

/// Asks a stack whose model is down.
async fn down(layer: &DegradationLayer, request: Request) -> Result<(Completion, Vec<Event>), Failure> {
    let model = service_fn(|_| std::future::ready(Err::<BoxReply, _>(fail(Code::BudgetExhausted))));
    let reply = layer.layer(model).oneshot(request).await?;
    let events: Vec<Event> = reply.map(Result::unwrap).collect().await;
    match events.last() {
        Some(Event::Completed(completion)) => Ok(((**completion).clone(), events.clone())),
        other => panic!("{other:?}"),
    }
}

async fn text(layer: &DegradationLayer, request: Request) -> Option<String> {
    Some(down(layer, request).await.ok()?.0.message.to_text())
}

/// Scenario: an answer was given; then the same is asked while the model is down: soon, after its time, after a day.
/// Expected: MUST be the same answer with its age, fresh and then stale, and no tokens used; after a day there MUST be
/// none.
#[tokio::test(start_paused = true)]
async fn an_earlier_answer_is_served_with_its_age() {
    let layer = layer(&cache(CacheConfig::default()));
    says(&layer, ann(), "forty-two").await;
    sleep(Duration::from_secs(61)).await;
    let record = |completion: &Completion| completion.degradation().clone();
    let (fresh, events) = down(&layer, ann()).await.unwrap();
    assert_eq!((fresh.message.to_text().as_str(), fresh.usage), ("forty-two", Some(Usage::default())));
    assert!(matches!(&events[0], Event::Text { text, .. } if text == "forty-two"), "{events:?}");
    let kept = record(&fresh).kept.unwrap();
    assert_eq!((kept.age, kept.stale), (Duration::from_secs(61), false));
    assert_eq!(record(&fresh).level, Level::Fallback);
    assert!((record(&fresh).quality_estimate - 0.7).abs() < 1e-9);
    sleep(Duration::from_secs(539)).await;
    let (stale, _) = down(&layer, ann()).await.unwrap();
    assert!(record(&stale).kept.unwrap().stale);
    assert_eq!(record(&stale).missing_components, ["fresh_answer"]);
    assert!(record(&stale).user_message.contains("10 minutes ago"), "{}", record(&stale).user_message);
    sleep(Duration::from_secs(24 * 60 * 60 - 600)).await;
    assert_eq!(down(&layer, ann()).await.unwrap_err().code(), Code::BudgetExhausted);
}

/// Scenario: an answer was given to one caller; another asks, and one without a name; then all share.
/// Expected: MUST be served to nobody else, and nothing MUST be kept for the nameless; shared, to everybody.
#[tokio::test(start_paused = true)]
async fn an_answer_is_its_callers_own() {
    let own = layer(&cache(CacheConfig::default()));
    says(&own, ann(), "hers").await;
    assert_eq!(text(&own, bob()).await, None);
    says(&own, request(), "whose").await;
    assert_eq!((text(&own, request()).await, text(&own, ann()).await.as_deref()), (None, Some("hers")));
    let shared = layer(&cache(CacheConfig { shared: true, ..CacheConfig::default() }));
    says(&shared, ann(), "ours").await;
    for request in [ann(), bob(), request()] {
        assert_eq!(text(&shared, request).await.as_deref(), Some("ours"));
    }
}

/// Scenario: answers that stopped early, were filtered, call a tool, say nothing, or are degraded themselves; a stream
/// that broke.
/// Expected: MUST not be kept.
#[tokio::test(start_paused = true)]
async fn only_whole_answers_are_kept() {
    let words = || vec![Part::text("words")];
    let calls = Content::ToolCall(ToolCall::new("1", "pay", "{}")).into();
    let mut degraded = answer(words(), Stop::End);
    degraded.degradation = Some(Box::new(Degradation::NONE));
    for completion in [
        answer(words(), Stop::ContentFilter),
        answer(words(), Stop::Unknown),
        answer(words(), Stop::Pause),
        answer(vec![calls], Stop::ToolCalls),
        answer(vec![], Stop::End),
        answer(vec![Part::text("")], Stop::End),
        degraded,
    ] {
        let cache = cache(CacheConfig::default());
        gives(&layer(&cache), ann(), completion.clone()).await;
        assert!(cache.is_empty(), "{completion:?}");
    }
    let cache = cache(CacheConfig::default());
    let broken = service_fn(|_| {
        let events = vec![Ok(Event::text(0, "half")), Err(fail(Code::Transport))];
        std::future::ready(Ok(Reply::new(Head::default(), futures_util::stream::iter(events))))
    });
    let reply = layer(&cache).layer(broken).oneshot(ann()).await.unwrap();
    assert_eq!(reply.collect().await.unwrap().degradation().level, Level::Partial);
    assert!(cache.is_empty());
}

/// Scenario: an answer is served from the cache, over and over.
/// Expected: it MUST grow older each time: what is served is not kept anew.
#[tokio::test(start_paused = true)]
async fn what_is_served_is_not_kept_anew() {
    let layer = layer(&cache(CacheConfig::default()));
    says(&layer, ann(), "once").await;
    for minutes in 1..4 {
        sleep(Duration::from_secs(60)).await;
        let kept = down(&layer, ann()).await.unwrap().0.degradation().kept.unwrap();
        assert_eq!(kept.age, Duration::from_secs(60 * minutes));
    }
}

/// Scenario: more answers than may be, by count and by bytes; a giant.
/// Expected: the bounds MUST hold, and the youngest be there; the giant MUST not be kept.
#[tokio::test(start_paused = true)]
async fn the_cache_is_bounded() {
    for config in [
        CacheConfig { max_answers: 8, ..CacheConfig::default() },
        CacheConfig { max_bytes: 8 * 1024 * 100, max_answers: 1_000_000, ..CacheConfig::default() },
    ] {
        let most = if config.max_answers == 8 { 8 } else { 100 };
        let cache = cache(config);
        let layer = layer(&cache);
        let long = "x".repeat(8 * 1024 - 512);
        let asks = |n: usize| ann().user(n.to_string());
        for n in 0..300 {
            says(&layer, asks(n), &long).await;
        }
        assert!(cache.len() <= most, "{}", cache.len());
        assert!(cache.len() >= most / 2, "{}", cache.len());
        assert!(text(&layer, asks(299)).await.is_some());
        assert!(text(&layer, asks(0)).await.is_none());
        cache.clear();
        assert!(cache.is_empty());
    }
    let small = cache(CacheConfig { max_bytes: 100 * 1024, ..CacheConfig::default() });
    says(&layer(&small), ann(), &"x".repeat(1024)).await;
    assert!(small.is_empty(), "more than a hundredth");
}

/// Remembers keys, and finds the first for whatever is asked.
#[derive(Clone, Default)]
struct First(Arc<Mutex<Vec<AnswerKey>>>);

impl Similar for First {
    fn learn(&self, _: &Request, key: AnswerKey) {
        self.0.lock().unwrap().push(key);
    }

    fn find<'a>(&'a self, _: &'a Request) -> Finding<'a> {
        let found = self.0.lock().unwrap().first().copied();
        Box::pin(std::future::ready(found))
    }
}

/// Scenario: a search for similar requests that finds one of the same caller, and one of another.
/// Expected: MUST be served its own; what is another's MUST not be, whatever is found.
#[tokio::test(start_paused = true)]
async fn a_similar_request_has_its_answer() {
    let layer = layer(&cache(CacheConfig::default()).similar(First::default()));
    says(&layer, ann(), "hers").await;
    assert_eq!(text(&layer, ann().user("in other words")).await.as_deref(), Some("hers"));
    assert_eq!(text(&layer, bob().user("in other words")).await, None);
}

/// Scenario: configurations that cannot work, and one as a file writes it.
/// Expected: MUST be refused with the name of the field; MUST be read back as it was.
#[test]
fn a_configuration_that_cannot_work_is_refused_by_name() {
    let config = CacheConfig::default;
    for (config, field) in [
        (CacheConfig { ttl: Duration::ZERO, ..config() }, "ttl"),
        (CacheConfig { keep: Duration::from_secs(1), ..config() }, "keep"),
        (CacheConfig { max_answers: 0, ..config() }, "max_answers"),
        (CacheConfig { max_bytes: 0, ..config() }, "max_bytes"),
    ] {
        assert_eq!(AnswerCache::new(config).unwrap_err().field, field);
    }
    let text = serde_json::to_string(&config()).unwrap();
    assert!(text.contains(r#""ttl":"10m""#) && text.contains(r#""keep":"1day""#), "{text}");
    assert_eq!(serde_json::from_str::<CacheConfig>(&text).unwrap(), config());
    assert!(serde_json::from_str::<CacheConfig>(r#"{"size":1}"#).is_err());
}
