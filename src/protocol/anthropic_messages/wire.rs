//! What both whole and streamed replies hold: blocks, usage, stop reasons.

use serde_json::{Map, Value};

use crate::chat::{Content, Extra, Part, Protocol, Reasoning, Stop, ToolCall, Usage};
use crate::protocol::json::string;

pub(super) const PROTOCOL: Protocol = Protocol::AnthropicMessages;

/// Usage as it grows: a later figure replaces an earlier one, and what is not told stays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    input: Option<u64>,
    cache_write: Option<u64>,
    cache_read: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

// === impl Figures ===

impl Figures {
    pub(super) fn update(&mut self, usage: &Value) {
        let figure = |path: &str| usage.pointer(path).and_then(Value::as_u64);
        self.input = figure("/input_tokens").or(self.input);
        self.cache_write = figure("/cache_creation_input_tokens").or(self.cache_write);
        self.cache_read = figure("/cache_read_input_tokens").or(self.cache_read);
        self.output = figure("/output_tokens").or(self.output);
        self.thinking = figure("/output_tokens_details/thinking_tokens").or(self.thinking);
    }

    /// The usage, if any figure was told.
    pub(super) fn usage(&self) -> Option<Usage> {
        if self.input.is_none() && self.output.is_none() {
            return None;
        }
        let (read, write) = (self.cache_read.unwrap_or(0), self.cache_write.unwrap_or(0));
        Some(Usage {
            input: self.input.unwrap_or(0).saturating_add(read).saturating_add(write),
            cached_read: read,
            cached_write: write,
            output: self.output.unwrap_or(0),
            reasoning: self.thinking.unwrap_or(0),
        })
    }
}

/// The stop that a stop reason means.
pub(super) fn stop(reason: &str, sequence: Option<&str>) -> Stop {
    match reason {
        "end_turn" => Stop::End,
        "max_tokens" => Stop::Length,
        "stop_sequence" => Stop::StopSequence(sequence.map(Into::into)),
        "tool_use" => Stop::ToolCalls,
        "pause_turn" => Stop::Pause,
        "refusal" => Stop::Refusal,
        "model_context_window_exceeded" => Stop::Window,
        other => Stop::Other(other.into()),
    }
}

/// A block of an assistant's turn.
pub(super) fn block(mut object: Map<String, Value>) -> Part {
    let whole = Value::Object(object);
    let take = |name: &str| string(&whole, name).to_owned();
    let some = |name: &str| Some(take(name)).filter(|text| !text.is_empty());
    let (content, known): (Content, &[&str]) = match string(&whole, "type") {
        "text" => (Content::Text(take("text")), &["type", "text"]),
        "tool_use" => {
            let input = whole.get("input").map_or_else(|| "{}".to_owned(), Value::to_string);
            (
                Content::ToolCall(ToolCall::new(take("id"), take("name"), input)),
                &["type", "id", "name", "input"],
            )
        }
        "thinking" => {
            let reasoning =
                Reasoning { text: take("thinking"), signature: some("signature"), ..Reasoning::default() };
            (Content::Reasoning(reasoning), &["type", "thinking", "signature"])
        }
        "redacted_thinking" => {
            let reasoning = Reasoning { encrypted: Some(take("data")), ..Reasoning::default() };
            (Content::Reasoning(reasoning), &["type", "data"])
        }
        _ => return Content::Other(PROTOCOL, whole).into(),
    };
    let mut part = Part::from(content);
    object = match whole {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    object.retain(|name, _| !known.contains(&name.as_str()));
    part.cache = super::read::cache(&mut object);
    part.extra = Extra::rest(PROTOCOL, object);
    part
}
