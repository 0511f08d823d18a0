//! The canonical stack over providers of ours: what it takes from their profiles.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::Stream;
use support::{ask, facts};
use tokio::time::Instant;
use tower::{Service, ServiceExt};
use watertight::chat::{Dimension, Event, Level, Protocol, Request, Tool};
use watertight::config::StackConfig;
use watertight::event::Facts;
use watertight::failure::{ConfigError, Failure, Skip};
use watertight::layers::degradation::DegradationConfig;
use watertight::layers::rate_limit::{AdaptiveConfig, LimitProfile, RateLimitConfig};
use watertight::provider::{Capabilities, Model, ModelQuota, Profile, Provider};
use watertight::stack::{Layers, ProviderStack, StackOver};
use watertight::testing::{Journal, Player, Script, ScriptedReply, Trouble, Wording};

fn profile(name: &str, base_url: &str) -> Profile {
    Profile::new(name, Protocol::OpenaiChat, base_url).with_key("sk-house-0123456789abcdef")
}

/// A provider whose model calls no tools.
fn plain(name: &str) -> Profile {
    let capabilities = Capabilities { tools: false, ..Capabilities::default() };
    let model = Model { capabilities, ..Model::default() };
    Profile { models: BTreeMap::from([("model".to_owned(), model)]), ..profile(name, "http://house.test") }
}

/// Always says its name.
fn player(profile: Profile) -> Provider<Player> {
    let script = Script::new([ScriptedReply::words(&profile.name)]).for_ever();
    Provider::over(Player::new(script, &Journal::new()), profile).unwrap()
}

fn layers(rate_limit: RateLimitConfig, facts: &Facts) -> Layers {
    let degradation = DegradationConfig { graceful: None, ..DegradationConfig::default() };
    Layers::new(StackConfig { degradation, rate_limit, ..StackConfig::default() }, facts).unwrap()
}

fn stack(
    rate_limit: RateLimitConfig,
    profiles: impl IntoIterator<Item = Profile>,
    facts: &Facts,
) -> Result<ProviderStack<Player>, ConfigError> {
    layers(rate_limit, facts).over_providers(profiles.into_iter().map(player))
}

/// One call now, and the next in three seconds.
fn few() -> RateLimitConfig {
    RateLimitConfig { requests_per_minute: Some(20), burst: Some(0.05), ..RateLimitConfig::default() }
}

fn with_tool() -> Request {
    Request::new("model").user("hello").streaming().tool(Tool::new(
        "look",
        "looks",
        serde_json::json!({"type": "object"}),
    ))
}

/// Whether a call that the first provider cannot serve neither waits nor leaves a trace in what that one keeps.
async fn waits_for_nothing<C>(mut stack: StackOver<C>, alone: bool) -> bool
where
    StackOver<C>: Service<Request, Error = Failure> + Clone,
    <StackOver<C> as Service<Request>>::Response: Stream<Item = Result<Event, Failure>> + Unpin,
    C: Clone,
{
    let look = stack.clone();
    let seen = || {
        let first = look.snapshot().providers.remove(0);
        serde_json::json!([first.circuit_breaker, first.rate_limit.keys[0].waiting])
    };
    ask(&mut stack, Request::new("model").user("hello").streaming()).await.1.unwrap();
    let (before, start) = (seen(), Instant::now());
    let asked = async {
        let (text, end) = ask(&mut stack, with_tool()).await;
        match end {
            Ok(()) => !alone && text == "second",
            Err(failure) => alone && failure.skip() == Some(Skip::Capability),
        }
    };

    let (served, kept) = tokio::join!(asked, async { seen() == before });
    served && kept && start.elapsed() == Duration::ZERO && seen() == before
}

/// Scenario: a tool is offered to a model that calls none, whose limits are used up, so that whoever waits for them waits
/// for seconds: alone, and with another provider behind it.
/// Expected: it MUST be refused at once, and served by the other at once; line and circuit of the first MUST not be asked.
/// A stack that asks beneath them MUST be found out.
#[tokio::test(start_paused = true)]
async fn what_a_provider_cannot_serve_waits_for_nothing() {
    for alone in [true, false] {
        let profiles = || {
            let second = (!alone).then(|| profile("second", "http://house.test"));
            [plain("first")].into_iter().chain(second)
        };
        let ours = stack(few(), profiles(), &Facts::default()).unwrap();
        assert!(waits_for_nothing(ours, alone).await, "alone: {alone}");
    }
    let beneath = layers(few(), &Facts::default()).over([("first", player(plain("first")))]).unwrap();
    assert!(!waits_for_nothing(beneath, true).await, "the twin");
}

/// Scenario: providers at well-known addresses under names of their own, one at an address of the house that declares a
/// quota for its model, and one that declares nothing; a configuration that says something, too.
/// Expected: each limiter MUST start from what is known of its provider, and from the configuration first.
#[test]
fn limits_start_where_the_profile_says() {
    let quota = ModelQuota { tokens: Some(9_000), concurrency: Some(3), ..ModelQuota::default() };
    let mut house = profile("house", "http://house.test");
    house.models.insert("model".into(), Model { quota, ..Model::default() });
    let mut asked = house.clone().named("asked").asking("model");
    asked.models.insert("other".into(), Model::default());
    let profiles = [
        profile("north", "https://api.anthropic.com"),
        profile("south", "https://api.groq.com/openai/v1"),
        house,
        asked,
        profile("bare", "http://bare.test"),
    ];
    let stack = stack(RateLimitConfig::default(), profiles.clone(), &Facts::default()).unwrap();
    let limits = |stack: &ProviderStack<Player>, at: usize| {
        let key = stack.snapshot().providers[at].rate_limit.keys[0].clone();
        let levels = key.levels.iter().map(|level| (level.dimension, level.limit.unwrap()));
        (levels.collect::<Vec<_>>(), key.max_in_flight)
    };
    use Dimension::{InputTokens, Requests, Tokens};
    assert_eq!(limits(&stack, 0), (vec![(Requests, 400), (InputTokens, 400_000)], None));
    assert_eq!(limits(&stack, 1), (vec![], None));
    for declared in [2, 3] {
        assert_eq!(limits(&stack, declared), (vec![(Requests, 500), (Tokens, 9_000)], Some(3)));
    }
    assert_eq!(limits(&stack, 4), (vec![(Requests, 500)], Some(50)));

    let said = RateLimitConfig { tokens_per_minute: Some(70), ..RateLimitConfig::of(LimitProfile::Headers) };
    let stack = self::stack(said, profiles, &Facts::default()).unwrap();
    assert_eq!(limits(&stack, 0), (vec![(Tokens, 70)], None));
    assert_eq!(limits(&stack, 2), (vec![(Tokens, 70)], Some(3)));
}

/// Scenario: a call through a stack over a provider that was told of no sink.
/// Expected: the provider MUST tell the stack's; its name MUST be that of its profile, and two of one name be refused.
#[tokio::test(start_paused = true)]
async fn providers_are_part_of_their_stack() {
    let (sink, told) = facts();
    let mut stack = stack(RateLimitConfig::default(), [plain("first")], &sink).unwrap();
    ask(&mut stack, Request::new("model").user("hello").streaming()).await.1.unwrap();
    assert!(told.lock().unwrap().iter().any(|name| name == "settled"), "{told:?}");
    assert_eq!(&*stack.providers()[0].name, "first");
    assert!(self::stack(RateLimitConfig::default(), [plain("a"), plain("a")], &sink).is_err());
}

/// A profile whose one model bears so many calls at once.
fn bears(name: &str, concurrency: u64) -> Profile {
    let quota = ModelQuota { concurrency: Some(concurrency), ..ModelQuota::default() };
    let model = Model { quota, ..Model::default() };
    Profile { models: BTreeMap::from([("model".to_owned(), model)]), ..profile(name, "http://house.test") }
}

/// Scenario: a configuration that finds out how many calls in flight a provider bears, over providers one of which bears
/// less than its least, or of which nothing is known.
/// Expected: the error MUST name the field by its path, with the provider whose limits do not fit.
#[tokio::test(start_paused = true)]
async fn limits_of_a_profile_that_do_not_fit_are_named_by_their_path() {
    let adaptive = Some(AdaptiveConfig { min: 5, ..AdaptiveConfig::default() });
    let limits = RateLimitConfig { adaptive, ..RateLimitConfig::default() };
    for (odd, field) in [
        (bears("odd", 2), "providers.odd.rate_limit.adaptive.min"),
        (profile("odd", "https://api.openai.com/v1"), "providers.odd.rate_limit.adaptive"),
    ] {
        let error = stack(limits.clone(), [bears("even", 9), odd], &Facts::default()).unwrap_err();
        assert_eq!(error.field, field);
    }
    assert!(stack(limits, [bears("even", 9)], &Facts::default()).is_ok());
}

/// Scenario: profiles that declare nothing of anything a model may be asked.
/// Expected: each MUST be refused with the field's path, before anything stands over it.
#[test]
fn a_quota_of_nothing_is_refused() {
    let none = |edit: fn(&mut ModelQuota)| {
        let mut profile = bears("none", 1);
        edit(&mut profile.models.get_mut("model").unwrap().quota);
        profile.validate().unwrap_err().field
    };
    assert!(bears("one", 1).validate().is_ok());
    for (edit, field) in [
        ((|quota| quota.requests = Some(0)) as fn(&mut ModelQuota), "requests"),
        (|quota| quota.tokens = Some(0), "tokens"),
        (|quota| quota.input_tokens = Some(0), "input_tokens"),
        (|quota| quota.output_tokens = Some(0), "output_tokens"),
        (|quota| quota.requests_per_day = Some(0), "requests_per_day"),
        (|quota| quota.tokens_per_day = Some(0), "tokens_per_day"),
        (|quota| quota.concurrency = Some(0), "concurrency"),
    ] {
        assert_eq!(none(edit), format!("models.model.quota.{field}"));
    }
}

/// Scenario: three calls while the first provider is limited for a minute and the second answers by another model.
/// Expected: each answer MUST be told as a fallback, the later ones too, though nothing was tried for them before.
#[tokio::test(start_paused = true)]
async fn an_answer_by_another_model_is_one_for_as_long_as_the_outage_lasts() {
    let limited = Trouble::RateLimited { retry_after: Some(60) }.refused(Wording::Chat);
    let first = Player::new(Script::new([limited]).for_ever(), &Journal::new());
    let first = Provider::over(first, profile("first", "http://house.test").asking("large")).unwrap();
    let second = player(profile("second", "http://house.test").asking("small"));
    let layers = layers(RateLimitConfig::default(), &Facts::default());
    let mut stack = layers.over_providers([first, second]).unwrap();
    for call in 0..3 {
        let request = Request::new("any").user("hello");
        let reply = stack.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(reply.head().degradation().level, Level::Fallback, "call {call}");
        let completion = reply.collect().await.unwrap();
        assert_eq!(completion.degradation.unwrap().level, Level::Fallback, "call {call}");
    }
}
