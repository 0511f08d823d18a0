//! How many tokens a request is, about, without a tokenizer.
//!
//! Texts are counted by script, in characters to a token: 4 of Latin, 1.4 of Chinese, Japanese and Korean, 3 of other
//! scripts, 2.5 of JSON, 1.5 of base64 and hex. Pictures, sounds and files have a price of their own; their bytes are
//! never read as text. It errs on the dear side of today's tokenizers, and one pass over the text is all it takes.

use std::sync::OnceLock;

use serde_json::Value;

use super::media::{Media, Source};
use super::message::Message;
use super::options::Tool;
use super::part::{Content, Part};
use super::scripts::{JSON, LATIN, Scripts, per};

/// Tokens around a turn: role and separators.
const PER_MESSAGE: f64 = 4.0;

/// Tokens around a tool: it is written out for the model in a form of the provider's.
const PER_TOOL: f64 = 12.0;

/// Tokens of a picture. Providers count 85 to 3,000 by its size, which we do not know; a square of 1,024 is some 1,300.
const IMAGE: f64 = 1_300.0;

/// Tokens of a sound or a file that is not here.
const ELSEWHERE: f64 = 2_000.0;

/// Characters of base64 to a token of sound: ten tokens a second of compressed speech.
const SOUND: f64 = 2_000.0;

/// Characters of base64 to a token of a file: a page is about 70 kB and 1,500 tokens.
const FILE: f64 = 60.0;

/// Characters of encrypted thoughts to a token: base64 of text.
const ENCRYPTED: f64 = 5.0;

/// A text as long as this that is nothing but encoded bytes is some medium: it has a price, not a length.
const MEDIUM: usize = 4_096;

/// Counts the tokens of a text exactly, for one family of models.
pub trait CountTokens: Send + Sync {
    /// The tokens of this text.
    fn count(&self, text: &str) -> u64;
}

/// The estimate of a conversation, made once for all who share it. A copy to be changed has none.
#[derive(Debug, Default)]
pub(crate) struct Memo(OnceLock<u64>);

/// How texts are counted.
struct Scale<'a>(Option<&'a dyn CountTokens>);

// === impl Memo ===

impl Memo {
    pub(super) fn get_or(&self, estimate: impl FnOnce() -> u64) -> u64 {
        *self.0.get_or_init(estimate)
    }
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

// === impl Scale ===

impl Scale<'_> {
    fn message(&self, message: &Message) -> f64 {
        PER_MESSAGE + message.parts.iter().map(|part| self.part(part)).sum::<f64>()
    }

    fn part(&self, part: &Part) -> f64 {
        match &part.content {
            Content::Text(text) | Content::Refusal(text) => self.text(text),
            Content::Image(_) => IMAGE,
            Content::Audio(media) => medium(media, SOUND),
            Content::File(media) => medium(media, FILE),
            Content::ToolCall(call) => PER_MESSAGE + self.text(&call.name) + self.json(&call.arguments),
            Content::ToolResult(result) => {
                PER_MESSAGE + result.parts.iter().map(|part| self.part(part)).sum::<f64>()
            }
            Content::Reasoning(reasoning) => {
                let hidden = reasoning.encrypted.as_ref().map_or(0, String::len);
                self.text(&reasoning.text) + per(hidden, ENCRYPTED)
            }
            Content::Other(_, value) => self.value(value),
        }
    }

    fn tool(&self, tool: &Tool) -> f64 {
        let description = tool.description.as_deref().map_or(0.0, |text| self.text(text));
        let schema = tool.schema.as_ref().map_or(0.0, |schema| self.value(schema));
        let extra = tool.extra.kept().map_or(0.0, |(_, fields)| {
            fields.iter().map(|(name, value)| per(name.len(), JSON) + self.value(value)).sum()
        });
        PER_TOOL + self.text(&tool.name) + description + schema + extra
    }

    fn text(&self, text: &str) -> f64 {
        match self.0 {
            #[expect(clippy::cast_precision_loss, reason = "a count of tokens")]
            Some(counter) => counter.count(text) as f64,
            None if text.starts_with(['{', '[']) => Scripts::of(text).tokens(JSON),
            None => Scripts::of(text).tokens(LATIN),
        }
    }

    fn json(&self, text: &str) -> f64 {
        if self.0.is_some() { self.text(text) } else { Scripts::of(text).tokens(JSON) }
    }

    /// JSON by its compact length, without writing it.
    fn value(&self, value: &Value) -> f64 {
        match value {
            Value::Null | Value::Bool(_) => 1.0,
            Value::Number(_) => 2.0,
            Value::String(text) if is_medium(text) => IMAGE,
            Value::String(text) => 1.0 + self.json(text),
            Value::Array(values) => 1.0 + values.iter().map(|value| self.value(value)).sum::<f64>(),
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| 1.0 + self.json(name) + self.value(value);
                1.0 + fields.iter().map(field).sum::<f64>()
            }
        }
    }
}

/// The input tokens of a conversation, by this counter or estimated; at least 1.
pub(super) fn tokens(counter: Option<&dyn CountTokens>, messages: &[Message], tools: &[Tool]) -> u64 {
    let scale = Scale(counter);
    let messages: f64 = messages.iter().map(|message| scale.message(message)).sum();
    let tools: f64 = tools.iter().map(|tool| scale.tool(tool)).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a sum of lengths")]
    let tokens = (messages + tools).ceil() as u64;
    tokens.max(1)
}

/// Tokens of media: by their length, where they are here.
fn medium(media: &Media, per_token: f64) -> f64 {
    match &media.source {
        Source::Base64(data) => per(data.len(), per_token).max(PER_MESSAGE),
        Source::Url(_) | Source::Id(_) => ELSEWHERE,
    }
}

/// Whether a text is no text, but a picture or a sound inside JSON.
fn is_medium(text: &str) -> bool {
    text.starts_with("data:") || (text.len() >= MEDIUM && !text.contains([' ', '\n', ',']) && text.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Ask, Cost, Request, Role, ToolCall, ToolResult};

    fn tokens(request: &Request) -> u64 {
        request.cost().input
    }

    fn text(text: &str) -> u64 {
        // The turn's own four are taken off.
        tokens(&Request::new("model").user(text)).saturating_sub(4)
    }

    /// Scenario: texts of known token counts, as two vocabularies of today count them: low and high.
    /// Expected: the estimate MUST be no lower than four fifths of the lower, nor above twice the higher.
    #[test]
    fn an_estimate_is_near_what_tokenizers_count() {
        let hex = "3f786850e387550fdab836ed7e6dc881de23001b";
        let base64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk";
        let rows = [
            ("The quick brown fox jumps over the lazy dog, and nobody minds.", 14, 14),
            ("春天来了，万物复苏，大地一片生机勃勃的景象。", 18, 27),
            ("吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。", 24, 36),
            ("Съешь же ещё этих мягких французских булок, да выпей чаю", 13, 26),
            (r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#, 18, 22),
            (hex, 24, 27),
            (base64, 38, 44),
        ];
        for (sample, low, high) in rows {
            let estimated = text(sample);
            assert!(estimated * 5 >= low * 4 && estimated <= high * 2, "{sample}: {estimated}");
        }
    }

    /// Scenario: a picture of 200,000 characters of base64, as a picture, in a tool's result, and as a part of a
    /// protocol that has no word of ours.
    /// Expected: MUST be the price of a picture, and never its length.
    #[test]
    fn the_bytes_of_a_picture_are_no_text() {
        let data = "A".repeat(200_000);
        let image = || Part::from(Content::Image(Media::base64("image/png", data.as_str())));
        let mut result = ToolResult::text("1", "");
        result.parts.push(image());
        let other = serde_json::json!({ "type": "picture", "url": format!("data:image/png;base64,{data}"), "raw": data });
        let contents = [
            image(),
            Content::ToolResult(result).into(),
            Content::Other(crate::chat::Protocol::OpenaiChat, other).into(),
        ];
        for part in contents {
            let estimated = tokens(&Request::new("model").message(Message::new(Role::User, vec![part])));
            assert!((1_000..3_000).contains(&estimated), "{estimated}");
        }
    }

    /// Scenario: nothing; an empty turn; a tool; a tool call.
    /// Expected: MUST be at least one, small for what is empty, and count tools and arguments.
    #[test]
    fn nothing_costs_at_least_one_and_tools_are_counted() {
        assert_eq!(tokens(&Request::new("model")), 1);
        assert_eq!(tokens(&Request::new("model").user("")), 4);
        let schema = serde_json::json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        let tool = Tool::new("weather", "Tells the weather of a city.", schema);
        assert!((25..60).contains(&tokens(&Request::new("model").tool(tool))));
        let call = Content::ToolCall(ToolCall::new("1", "weather", r#"{"city":"Oslo"}"#));
        let called = Request::new("model").message(Message::new(Role::Assistant, vec![call.into()]));
        assert!((12..30).contains(&tokens(&called)));
    }

    /// Counts calls, not tokens.
    struct Words(std::sync::atomic::AtomicU64);

    impl CountTokens for Words {
        fn count(&self, text: &str) -> u64 {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            text.split_whitespace().count() as u64
        }
    }

    /// Scenario: a request that was estimated is shared, then changed; one is counted exactly.
    /// Expected: the change MUST be counted, too; what was counted MUST win over any estimate.
    #[test]
    fn an_estimate_follows_a_change_and_yields_to_a_count() {
        let mut request = Request::new("model").user("one two three four").max_output_tokens(7);
        let before = tokens(&request);
        let shared = request.clone();
        request.edit().messages.push(Message::text(Role::User, "five ".repeat(100)));
        assert!(tokens(&request) > before + 100);
        assert_eq!(tokens(&shared), before);
        assert_eq!((shared.cost().output, shared.counted()), (Some(7), None));

        let counter = Words(Default::default());
        let counted = shared.counted_by(&counter);
        assert_eq!(counted.cost(), Cost { input: 8, output: Some(7) });
        assert_eq!(counted.counted(), Some(counted.cost()));
        assert_eq!(counter.0.into_inner(), 1);
    }
}
