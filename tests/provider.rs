//! The provider service: one request a call, read to the last byte.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use tokio::time::Instant;
use tower::{Service, ServiceBuilder, ServiceExt};
use watertight::chat::{Ask, Content, Effort, Event, Message, Part, Protocol, Request, Role, Stop};
use watertight::event::{Change, Fact, Facts};
use watertight::failure::{Code, Failure, Skip};
use watertight::layers::TokenAwareRateLimitLayer;
use watertight::layers::rate_limit::{Mode, RateLimitConfig};
use watertight::provider::{
    Capabilities, FitsLayer, Model, Price, PriceCeiling, Profile, Provider, catalogue,
};
use watertight::testing::{BodyEnd, Journal, Player, Script, ScriptedReply, Step, Trouble, Wording};

const PROTOCOLS: [(Protocol, Wording); 3] = [
    (Protocol::OpenaiChat, Wording::Chat),
    (Protocol::OpenaiResponses, Wording::Responses),
    (Protocol::AnthropicMessages, Wording::Messages),
];

fn profile(protocol: Protocol) -> Profile {
    Profile::new("house", protocol, "http://house.test").with_key("sk-house-0123456789abcdef")
}

fn provider(profile: Profile, script: Script) -> (Provider<Player>, Journal) {
    let journal = Journal::new();
    (Provider::over(Player::new(script, &journal), profile).unwrap(), journal)
}

fn ask() -> Request {
    Request::new("small").user("hello").streaming().max_output_tokens(50)
}

async fn failure(profile: Profile, request: Request) -> Failure {
    let (provider, journal) = provider(profile, Script::new([ScriptedReply::new("never")]));
    let failure = provider.oneshot(request).await.unwrap_err();
    assert_eq!(journal.attempts(), 0, "nothing is sent");
    failure
}

/// Scenario: a reply is dropped after its first output, and a call before its head.
/// Expected: the request MUST be closed upstream at once.
#[tokio::test(start_paused = true)]
async fn dropping_a_reply_closes_the_request() {
    for (protocol, _) in PROTOCOLS {
        let script = Script::new([ScriptedReply::words("one two three four").pace(100)]).for_ever();
        let (provider, journal) = provider(profile(protocol), script);
        let mut reply = provider.clone().oneshot(ask()).await.unwrap();
        while !matches!(reply.next().await, Some(Ok(Event::Text { .. }))) {}
        assert_eq!(journal.open(), 1);
        drop(reply);
        assert_eq!(journal.open(), 0);
        let call = tokio::time::timeout(Duration::from_millis(1), provider.oneshot(ask())).await;
        drop(call);
        assert_eq!(journal.open(), 0);
    }
}

/// Scenario: the frames of the wire are wanted beside the events.
/// Expected: MUST be the bytes of the body, unchanged.
#[tokio::test(start_paused = true)]
async fn frames_are_the_bytes_that_came() {
    for (protocol, dialect) in PROTOCOLS {
        let answer = ScriptedReply::words("one two three").usage(3, 4);
        let sent: Vec<u8> =
            answer.streamed(dialect).chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect();
        let (provider, _) = provider(profile(protocol), Script::new([answer]));
        let mut request = ask();
        let mut call = request.call();
        call.frames = true;
        request.set_call(call);
        let mut reply = provider.oneshot(request).await.unwrap();
        let mut came = Vec::new();
        while let Some(event) = reply.next().await {
            if let Event::Frame(bytes) = event.unwrap() {
                came.extend_from_slice(&bytes);
            }
        }
        assert_eq!(Bytes::from(came), Bytes::from(sent), "{protocol:?}");
    }
}

/// Scenario: a chat stream that goes silent after its finish reason, one that breaks there, one with neither.
/// Expected: MUST be a success after a second's grace; at once; a failure.
#[tokio::test(start_paused = true)]
async fn what_breaks_after_the_answer_breaks_nothing() {
    let answer = ScriptedReply::new("whole").streamed(Wording::Chat);
    let upto = answer
        .chunks
        .iter()
        .position(|chunk| chunk.data.windows(6).any(|window| window == b"\"stop\""))
        .unwrap();
    for (chunks, end, elapsed) in [
        (upto + 1, BodyEnd::Hang, Some(1000)),
        (upto + 1, BodyEnd::Reset, Some(0)),
        (upto, BodyEnd::Close, None),
    ] {
        let begun = Instant::now();
        let (provider, _) =
            provider(profile(Protocol::OpenaiChat), Script::new([answer.clone().cut(chunks).end(end)]));
        let end = provider.oneshot(ask()).await.unwrap().collect().await;
        match elapsed {
            Some(ms) => {
                assert_eq!(end.unwrap().stop, Stop::End);
                assert_eq!(begun.elapsed(), Duration::from_millis(ms));
            }
            None => assert_eq!(end.unwrap_err().code(), Code::Truncated),
        }
    }
}

/// Scenario: a stream was asked; a JSON reply, a JSON error and a page come instead, each with a 200.
/// Expected: the reply MUST be told in pieces; the error MUST have its class; the page MUST not be shown.
#[tokio::test(start_paused = true)]
async fn a_200_is_read_as_what_it_is() {
    let whole = ScriptedReply::new("whole").whole(Wording::Chat);
    let (service, _) = provider(profile(Protocol::OpenaiChat), Script::new([whole]));
    let events: Vec<_> = service.oneshot(ask()).await.unwrap().collect_all().await;
    assert!(
        events.iter().any(|event| matches!(event, Ok(Event::Text { text, .. }) if text == "whole")),
        "{events:?}"
    );
    assert!(matches!(events.last(), Some(Ok(Event::Completed(_)))));

    let error = Step::json(200, &json!({"error": {"message": "no", "code": "invalid_api_key"}}));
    let (service, _) = provider(profile(Protocol::OpenaiChat), Script::new([error]));
    let failure = service.oneshot(ask()).await.unwrap().collect().await.unwrap_err();
    assert_eq!(failure.code(), Code::Authentication);
    assert_eq!(failure.provider().map(AsRef::as_ref), Some("house"));

    let page =
        Step::status(200).header("content-type", "text/html").chunk(0, "<html><body>Welcome</body></html>");
    let (service, _) = provider(profile(Protocol::OpenaiChat), Script::new([page]));
    let failure = service.oneshot(ask()).await.unwrap().collect().await.unwrap_err();
    assert_eq!(failure.code(), Code::InvalidResponse);
    assert!(!failure.to_string().contains("Welcome"));
}

trait CollectAll {
    fn collect_all(self) -> impl Future<Output = Vec<Result<Event, Failure>>>;
}

impl<S: futures_util::Stream<Item = Result<Event, Failure>>> CollectAll for S {
    async fn collect_all(self) -> Vec<Result<Event, Failure>> {
        StreamExt::collect(self).await
    }
}

/// Scenario: keys in a profile, in a provider, and in what a provider says back.
/// Expected: MUST never show.
#[tokio::test(start_paused = true)]
async fn a_key_never_shows() {
    let says =
        Step::json(401, &json!({"error": {"message": "Wrong key: sk-house-fedcba9876543210", "type": "x"}}));
    let (provider, journal) = provider(profile(Protocol::OpenaiChat), Script::new([says]));
    let shown = format!(
        "{provider:?} {:?} {}",
        provider.profile(),
        serde_json::to_string(provider.profile()).unwrap()
    );
    let failure = provider.oneshot(ask()).await.unwrap_err();
    for text in [shown, failure.to_string(), format!("{failure:?}"), serde_json::to_string(&failure).unwrap()]
    {
        assert!(!text.contains("0123456789abcdef"), "{text}");
    }
    for text in [failure.to_string(), format!("{failure:?}"), serde_json::to_string(&failure).unwrap()] {
        assert!(!text.contains("fedcba9876543210"), "{text}");
    }
    assert_eq!(journal.seen()[0].header("authorization"), Some("Bearer sk-house-0123456789abcdef"));
}

/// Scenario: a model that takes no temperature, caps its output, and demands a cap.
/// Expected: MUST be adapted, and each change told; the caller's request MUST stay as it was.
#[tokio::test(start_paused = true)]
async fn a_request_is_adapted_to_its_model_and_it_is_told() {
    let mut profile = profile(Protocol::OpenaiChat);
    let small = Model {
        id: Some("small-2026".into()),
        max_output: Some(20),
        default_output: Some(10),
        rejects: vec!["temperature".into()],
        ..Model::default()
    };
    profile.models.insert("small".into(), small);
    let (provider, journal) = provider(profile, Script::new([ScriptedReply::new("x")]).for_ever());
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let provider = provider.facts(&Facts::to(move |fact: &Fact<'_>| {
        if let Fact::Adapted { option, change, .. } = *fact {
            sink.lock().unwrap().push((option.to_owned(), change));
        }
    }));
    let request = ask().temperature(0.5);
    provider.clone().oneshot(request.clone()).await.unwrap();
    provider.oneshot(Request::new("small").user("x")).await.unwrap();
    assert_eq!(request.options.temperature, Some(0.5));
    let bodies: Vec<_> = journal.seen().iter().map(|seen| seen.json().unwrap()).collect();
    assert_eq!(bodies[0]["model"], "small-2026");
    assert_eq!((&bodies[0]["temperature"], &bodies[0]["max_completion_tokens"]), (&json!(null), &json!(20)));
    assert_eq!(bodies[1]["max_completion_tokens"], 10);
    let expected = [
        ("temperature", Change::Dropped),
        ("max_output_tokens", Change::Clamped),
        ("max_output_tokens", Change::Supplied),
    ];
    assert_eq!(*told.lock().unwrap(), expected.map(|(option, change)| (option.to_owned(), change)));
}

/// Scenario: requests that a provider cannot serve: too long, with pictures, with tools, too dear, of another
/// protocol, of a conversation held elsewhere.
/// Expected: MUST be refused locally with the reason, so that a failover skips them.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_served_is_refused_before_it_is_sent() {
    let with = |model: Model| {
        let mut profile = profile(Protocol::OpenaiChat);
        profile.models.insert("small".into(), model);
        profile
    };
    let none = Capabilities {
        images: false,
        tools: false,
        reasoning: false,
        streaming: false,
        ..Capabilities::default()
    };
    let cannot = || with(Model { capabilities: none, ..Model::default() });
    let picture = Message::new(
        Role::User,
        vec![Part::from(Content::Image(watertight::chat::Media::url("http://x.test/a.png")))],
    );
    let tool = watertight::chat::Tool::new("t", "d", json!({}));
    let price =
        Price { input: 1.0, output: 10.0, cached_read: None, cached_write: None, as_of: "2026-11-30".into() };
    let dear = with(Model { price: Some(price), ..Model::default() });
    let held = json!({"model": "small", "input": "x", "previous_response_id": "resp_1"}).to_string();
    let held = watertight::protocol::read(Protocol::OpenaiResponses, held.as_bytes()).unwrap();
    let mut same = held.clone();
    let mut call = same.call();
    call.same_protocol = true;
    same.set_call(call);
    let plain = || Request::new("small").user("x");
    for (profile, request, skip) in [
        (with(Model { window: Some(10), ..Model::default() }), plain().user("x".repeat(100)), Skip::Window),
        (cannot(), plain().message(picture), Skip::Capability),
        (cannot(), plain().tool(tool), Skip::Capability),
        (cannot(), plain().reasoning(Effort::Adaptive), Skip::Capability),
        (cannot(), plain().streaming(), Skip::Capability),
        (dear, plain().attach(PriceCeiling(5.0)), Skip::Price),
        (profile(Protocol::OpenaiChat), same, Skip::Protocol),
        (profile(Protocol::OpenaiChat), held, Skip::Stateful),
    ] {
        let failure = failure(profile, request).await;
        assert_eq!(failure.skip(), Some(skip), "{failure:?}");
        assert!(failure.is_local());
    }
}

/// Scenario: a fit on top of a limiter whose budget is small: a request that asks what the model cannot do, and one
/// that fits.
/// Expected: the first MUST be refused, locally and with its reason, before anything is reserved; the second MUST pass.
#[tokio::test(start_paused = true)]
async fn what_does_not_fit_reserves_nothing() {
    let capabilities = Capabilities { streaming: false, ..Capabilities::default() };
    let mut profile = profile(Protocol::OpenaiChat);
    profile.models.insert("small".into(), Model { capabilities, ..Model::default() });
    let limits = RateLimitConfig {
        requests_per_minute: Some(1),
        burst: Some(1.0),
        mode: Mode::Reject,
        ..RateLimitConfig::from_headers()
    };
    let limits = TokenAwareRateLimitLayer::new(limits).unwrap();
    let (own, journal) = provider(profile.clone(), Script::new([ScriptedReply::new("Aye.")]));
    let mut service = ServiceBuilder::new().layer(FitsLayer::new(&profile)).layer(limits).service(own);
    for _ in 0..3 {
        let call = service.ready().await.unwrap().call(ask());
        let failure = call.await.map(|_| ()).unwrap_err();
        assert_eq!((failure.skip(), failure.is_local()), (Some(Skip::Capability), true));
        assert_eq!(failure.provider().map(AsRef::as_ref), Some("house"));
    }
    let plain = Request::new("small").user("hello");
    let reply = service.ready().await.unwrap().call(plain).await.unwrap();
    assert_eq!(reply.collect().await.unwrap().message.to_text(), "Aye.");
    assert_eq!(journal.attempts(), 1);
}

/// Scenario: thinking that another provider instance made, and this one's own.
/// Expected: only its own MUST go back.
#[tokio::test(start_paused = true)]
async fn replay_state_goes_back_only_to_its_maker() {
    let thinks = json!({"id": "m", "type": "message", "role": "assistant", "model": "small", "stop_reason": "end_turn",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "signed"}, {"type": "text", "text": "so"}]});
    let script = || Script::new([Step::json(200, &thinks)]).for_ever();
    let maker = |key: &str| provider(profile(Protocol::AnthropicMessages).with_key(key), script());
    let ((one, journal), (other, elsewhere)) = (maker("key-of-one"), maker("key-of-another"));
    let plain = || Request::new("small").user("x");
    let said = one.clone().oneshot(plain()).await.unwrap().collect().await.unwrap().message;
    let again = plain().message(said).user("go on");
    one.oneshot(again.clone()).await.unwrap();
    other.oneshot(again).await.unwrap();
    assert!(journal.seen()[1].json().unwrap().to_string().contains("signed"));
    assert!(!elsewhere.seen()[0].json().unwrap().to_string().contains("signed"));
}

/// Scenario: profiles that cannot work.
/// Expected: MUST be refused with the name of the field; an unknown field MUST be, too.
#[test]
fn a_profile_that_cannot_work_is_refused_by_name() {
    let wrong = |change: fn(&mut Profile)| {
        let mut profile = profile(Protocol::OpenaiChat);
        change(&mut profile);
        let journal = Journal::new();
        Provider::over(Player::new(Script::new([Trouble::BadKey]), &journal), profile).unwrap_err().field
    };
    assert_eq!(wrong(|profile| profile.name.clear()), "name");
    assert_eq!(wrong(|profile| profile.base_url = "house.test".into()), "base_url");
    assert_eq!(wrong(|profile| profile.key = None), "key");
    assert_eq!(wrong(|profile| drop(profile.headers.insert("a b".into(), "x".into()))), "headers.a b");
    let rejects = Model { rejects: vec!["temprature".into()], ..Model::default() };
    let mut misspelt = profile(Protocol::OpenaiChat);
    misspelt.models.insert("small".into(), rejects);
    let player = Player::new(Script::new([Trouble::BadKey]), &Journal::new());
    assert_eq!(Provider::over(player, misspelt).unwrap_err().field, "models.small.rejects");
    let unknown = Profile::from_toml(
        "name = \"x\"\nprotocol = \"openai_chat\"\nbase_url = \"http://x.test\"\nmodle = 1",
    );
    assert!(unknown.unwrap_err().reason.contains("modle"));
    assert!(catalogue::get("nobody").unwrap_err().reason.contains("openai"));
    let azure = catalogue::get("azure").unwrap().at("https://mine.example.test").with_key("k");
    assert_eq!(Profile::from_json(&serde_json::to_string(&azure).unwrap()).unwrap().query, azure.query);
}
