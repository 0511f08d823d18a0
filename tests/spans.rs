//! The span of a request, as a collector sees it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use tower::ServiceExt;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use watertight::chat::{Protocol, Request};
use watertight::provider::{Profile, Provider};
use watertight::testing::{BodyEnd, Journal, Player, Script, ScriptedReply, Trouble, Wording};

/// Every field of every span, in the order they were written.
#[derive(Clone, Default)]
struct Fields(Arc<Mutex<BTreeMap<String, String>>>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        self.0.lock().unwrap().insert(field.name().to_owned(), value);
    }
}

impl<S: tracing::Subscriber> Layer<S> for Fields {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        attributes.record(&mut self.clone());
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut self.clone());
    }
}

async fn fields(script: Script) -> BTreeMap<String, String> {
    fields_of(Protocol::OpenaiChat, script).await
}

async fn fields_of(protocol: Protocol, script: Script) -> BTreeMap<String, String> {
    let fields = Fields::default();
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(fields.clone()));
    let profile = Profile::new("house", protocol, "http://house.test").with_key("sk-house-0123456789abcdef");
    let provider = Provider::over(Player::new(script, &Journal::new()), profile).unwrap();
    let request = Request::new("small").user("a secret question").streaming();
    if let Ok(reply) = provider.oneshot(request).await {
        let _ = reply.collect().await;
    }
    drop(guard);
    let known = fields.0.lock().unwrap();
    known.clone()
}

/// Scenario: an answer with usage, and a refusal.
/// Expected: the span MUST carry the names of the OpenTelemetry conventions, the usage or the error, and nothing of
/// the conversation or the key.
#[tokio::test(start_paused = true)]
async fn a_span_carries_the_conventional_names() {
    let told = fields(Script::new([ScriptedReply::words("one two").usage(12, 5)])).await;
    for (name, value) in [
        ("otel.name", "chat small"),
        ("otel.kind", "client"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "house"),
        ("gen_ai.request.model", "small"),
        ("gen_ai.usage.input_tokens", "12"),
        ("gen_ai.usage.output_tokens", "5"),
        ("gen_ai.usage.cache_read.input_tokens", "0"),
        ("server.address", "house.test"),
    ] {
        assert_eq!(told.get(name).map(String::as_str), Some(value), "{name} in {told:?}");
    }
    assert!(!told.contains_key("error.type"));
    assert!(told.contains_key("gen_ai.server.time_to_first_token"));

    let failed =
        fields(Script::new([Trouble::RateLimited { retry_after: None }.refused(Wording::Chat)])).await;
    assert_eq!(failed["error.type"], "RATE_LIMITED");
    assert_eq!(failed["otel.status_code"], "ERROR");
    for fields in [told, failed] {
        let all = format!("{fields:?}");
        assert!(!all.contains("secret") && !all.contains("sk-house"), "{all}");
    }
}

/// Scenario: a provider that tells its usage first breaks off in mid-answer.
/// Expected: the span MUST carry the input that was told beside the error.
#[tokio::test(start_paused = true)]
async fn a_span_of_a_broken_answer_carries_what_was_told() {
    let broken = ScriptedReply::words("one two three")
        .usage(12, 5)
        .streamed(Wording::Messages)
        .cut(4)
        .end(BodyEnd::Reset);
    let fields = fields_of(Protocol::AnthropicMessages, Script::new([broken])).await;
    assert_eq!(fields["gen_ai.usage.input_tokens"], "12", "{fields:?}");
    assert_eq!(fields["otel.status_code"], "ERROR");
}
