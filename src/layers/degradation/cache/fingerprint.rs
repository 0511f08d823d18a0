//! What makes two requests the same: a hash of all that shapes an answer.
//!
//! Each field is written with its name and length before it, so that no two requests write the same bytes.

use std::fmt::{Debug, Write};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::chat::{Content, Extra, Message, Options, Part, Parts, Request, Role, Source, Tool};

/// Digits of a date at the end of a model's name: `20250514`, `2024-08-06`.
const DATE: usize = 8;

/// Writes fields into the hash.
struct Ink(Sha256);

/// The hash of a request in the scope of a caller.
pub(super) fn fingerprint(request: &Request, scope: &str) -> [u8; 32] {
    // Each field is named here, so that a new one is thought of. How an answer comes shapes nothing of it.
    let Parts { model, messages, tools, options, extra, stream: _, protocol: _, extensions: _, estimate: _ } =
        &**request;
    let mut ink = Ink(Sha256::new());
    ink.text("scope", scope);
    ink.text("model", family(model));
    ink.list("messages", messages, Ink::message);
    ink.list("tools", tools, Ink::tool);
    ink.options(options);
    ink.extra(extra);
    ink.0.finalize().into()
}

/// The model without its date: snapshots of one model are of one family.
fn family(model: &str) -> &str {
    let model = model.strip_suffix("-latest").unwrap_or(model);
    let end = model.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-').len();
    // A date begins behind the first dash or `@` of the tail; whatever stands before it is of the name.
    let tail = &model[end..];
    let mut starts =
        tail.match_indices('-').map(|(at, _)| at).chain((model[..end].ends_with('@')).then_some(0));
    let is_date = |at: &usize| {
        let digits = tail[*at..].chars().filter(char::is_ascii_digit).count();
        let groups = tail[*at..].trim_start_matches('-').split('-').map(str::len);
        digits == DATE && (groups.clone().eq([8]) || groups.eq([4, 2, 2]))
    };
    match starts.find(is_date) {
        Some(at) => model[..end + at].trim_end_matches('@'),
        None => model,
    }
}

// === impl Ink ===

impl Ink {
    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.0.update((name.len() as u64).to_le_bytes());
        self.0.update(name);
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn text(&mut self, name: &str, text: &str) {
        self.bytes(name, text.as_bytes());
    }

    /// A plain value, as it shows itself: numbers, names of variants, and options of them.
    fn plain(&mut self, name: &str, value: &impl Debug) {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(text, "{value:?}");
        self.text(name, &text);
    }

    fn list<T>(&mut self, name: &str, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.bytes(name, &(items.len() as u64).to_le_bytes());
        items.iter().for_each(|item| each(self, item));
    }

    fn message(&mut self, message: &Message) {
        // One role in two spellings is one.
        let role = if message.role == Role::Developer { Role::System } else { message.role };
        self.plain("role", &role);
        self.list("parts", &message.parts, Self::part);
        self.extra(&message.extra);
    }

    fn part(&mut self, part: &Part) {
        match &part.content {
            Content::Text(text) => self.text("text", text),
            Content::Refusal(text) => self.text("refusal", text),
            Content::Image(media) | Content::Audio(media) | Content::File(media) => {
                self.plain("media", &(&media.media_type, &media.name));
                match &media.source {
                    Source::Url(url) => self.text("url", url),
                    Source::Base64(data) => self.text("data", data),
                    Source::Id(id) => self.text("id", id),
                }
            }
            Content::ToolCall(call) => {
                self.text("call", &call.id);
                self.text("name", &call.name);
                self.text("arguments", &call.arguments);
            }
            Content::ToolResult(result) => {
                self.text("result", &result.id);
                self.plain("is_error", &result.is_error);
                self.list("parts", &result.parts, Self::part);
            }
            Content::Reasoning(reasoning) => {
                self.text("reasoning", &reasoning.text);
                self.plain("state", &(&reasoning.id, &reasoning.signature, &reasoning.encrypted));
            }
            Content::Other(protocol, value) => {
                self.text("other", protocol.as_str());
                self.value(value);
            }
        }
        self.extra(&part.extra);
    }

    fn tool(&mut self, tool: &Tool) {
        self.text("tool", &tool.name);
        self.plain("description", &tool.description);
        self.value(tool.schema.as_ref().unwrap_or(&Value::Null));
        self.plain("strict", &tool.strict);
        self.extra(&tool.extra);
    }

    fn options(&mut self, options: &Options) {
        let Options {
            temperature,
            top_p,
            top_k,
            max_output_tokens,
            stop,
            seed,
            tool_choice,
            parallel_tool_calls,
            reasoning,
        } = options;
        self.plain("sampling", &(temperature, top_p, top_k, max_output_tokens, seed));
        self.list("stop", stop, |ink, text| ink.text("text", text));
        self.plain("tool_choice", &(tool_choice, parallel_tool_calls));
        self.plain("effort", &reasoning.as_ref().map(|reasoning| &reasoning.effort));
        self.extra(reasoning.as_ref().map_or(&Extra::NONE, |reasoning| &reasoning.extra));
    }

    fn extra(&mut self, extra: &Extra) {
        match extra.kept() {
            Some((protocol, fields)) => {
                self.text("extra", protocol.as_str());
                self.fields(fields);
            }
            None => self.text("extra", ""),
        }
    }

    /// An object by its keys in order: JSON says that none has one.
    fn fields(&mut self, fields: &Map<String, Value>) {
        let mut sorted: Vec<_> = fields.iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        self.list("object", &sorted, |ink, (key, value)| {
            ink.text("key", key);
            ink.value(value);
        });
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => self.fields(fields),
            Value::Array(items) => self.list("array", items, Self::value),
            other => self.text("json", &other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::chat::{Effort, Protocol};

    use super::*;

    fn base() -> Request {
        Request::new("m").system("be brief").user("hello")
    }

    /// Scenario: a request, and others that differ in one thing that shapes the answer.
    /// Expected: each MUST have a hash of its own; the stream switch and a repeat MUST not change it.
    #[test]
    fn whatever_shapes_the_answer_shapes_the_hash() {
        let mut extra = base();
        extra.edit().extra.set(Protocol::OpenaiChat, "response_format", json!({"type": "json_object"}));
        let others = [
            Request::new("n").system("be brief").user("hello"),
            Request::new("m").system("be brief").user("hello!"),
            Request::new("m").user("be brief").user("hello"),
            Request::new("m").system("be briefhello").user(""),
            Request::new("m").system("be brief").assistant("hello"),
            base().user("more"),
            base().temperature(0.5),
            base().max_output_tokens(5),
            base().reasoning(Effort::Adaptive),
            base().tool(Tool::new("t", "d", json!({}))),
            base().tool(Tool::new("t", "d", json!({"type": "object"}))),
            extra,
        ];
        let hash = |request: &Request| fingerprint(request, "caller");
        let mut all: Vec<_> = others.iter().chain([&base()]).map(hash).collect();
        all.push(fingerprint(&base(), "another"));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "two that differ hash alike");
        assert_eq!(hash(&base()), hash(&base().streaming()));
    }

    /// Scenario: an object of a protocol with its keys in two orders.
    /// Expected: MUST be the same request.
    #[test]
    fn the_order_of_keys_says_nothing() {
        let tool = |schema: &str| base().tool(Tool::new("t", "d", serde_json::from_str(schema).unwrap()));
        let [one, two] = [r#"{"a":{"x":1,"y":[2]},"b":3}"#, r#"{"b":3,"a":{"y":[2],"x":1}}"#].map(tool);
        assert_eq!(fingerprint(&one, ""), fingerprint(&two, ""));
    }

    /// Scenario: models with and without dates.
    /// Expected: a date MUST be left out, a number of the name MUST stay.
    #[test]
    fn a_family_is_a_model_without_its_date() {
        for (model, name) in [
            ("gpt-4o-2024-08-06", "gpt-4o"),
            ("claude-sonnet-4-20250514", "claude-sonnet-4"),
            ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
            ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
            ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
            ("gpt-4o", "gpt-4o"),
            ("gpt-5", "gpt-5"),
            ("llama-3-70", "llama-3-70"),
            ("", ""),
        ] {
            assert_eq!(family(model), name, "{model}");
        }
    }
}
