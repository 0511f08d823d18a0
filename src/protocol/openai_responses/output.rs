//! What whole and streamed replies share: output items, figures, and the way a response ended.

use http::StatusCode;
use serde_json::Value;

use crate::chat::{Content, Extra, Part, Reasoning, Stop, ToolCall, Usage};
use crate::failure::{Code, Failure};
use crate::protocol::errors;
use crate::protocol::json::{Fields, string, take_text};
use crate::time::Wall;

use super::part;
use super::wire::whole;
use super::{ITEM, RESPONSES};

/// Fields of a response that only say again what was asked, or that have a word of ours.
const KNOWN: [&str; 30] = [
    "background",
    "error",
    "frequency_penalty",
    "id",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "object",
    "output",
    "output_text",
    "parallel_tool_calls",
    "presence_penalty",
    "prompt",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "usage",
    "user",
];

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Call,
    Reasoning,
    Other,
}

// === impl Kind ===

impl Kind {
    pub(super) fn of(item: &Value) -> Self {
        match string(item, "type") {
            "message" => Self::Message,
            "function_call" | "custom_tool_call" => Self::Call,
            "reasoning" => Self::Reasoning,
            _ => Self::Other,
        }
    }
}

/// The parts of an output item: a message has one for each of its own, any other item is one.
pub(super) fn parts(item: Value) -> Vec<Part> {
    match (Kind::of(&item), item) {
        (Kind::Message, Value::Object(fields)) => message(fields),
        (Kind::Call, Value::Object(fields)) => vec![call(fields)],
        (Kind::Reasoning, Value::Object(fields)) => vec![reasoning(fields)],
        (_, item) => vec![Content::Other(RESPONSES, item).into()],
    }
}

fn message(mut fields: Fields) -> Vec<Part> {
    let mut parts: Vec<Part> = match fields.remove("content") {
        Some(Value::Array(parts)) => parts.into_iter().map(part::read_output).collect(),
        Some(Value::String(text)) => vec![Part::text(text)],
        _ => Vec::new(),
    };
    fields.remove("role");
    if let Some(first) = parts.first_mut() {
        first.extra.set(RESPONSES, ITEM, fields);
    }
    parts
}

/// A call. Its results name the `call_id`; where there is none, its id must do.
pub(super) fn call(mut fields: Fields) -> Part {
    let custom = fields.get("type").is_some_and(|kind| kind == "custom_tool_call");
    if !custom {
        fields.remove("type");
    }
    let id = take_text(&mut fields, "call_id").filter(|id| !id.is_empty());
    let id = id.or_else(|| fields.get("id")?.as_str().map(str::to_owned)).unwrap_or_default();
    let name = take_text(&mut fields, "name").unwrap_or_default();
    let arguments = match fields.remove(if custom { "input" } else { "arguments" }) {
        Some(Value::String(text)) => text,
        None | Some(Value::Null) => String::new(),
        Some(object) => object.to_string(),
    };
    let mut part = Part::from(Content::ToolCall(ToolCall::new(id, name, arguments)));
    part.extra = Extra::rest(RESPONSES, fields);
    part
}

/// Reasoning: its thoughts if they are told, else the summary. Both stay beside it as they came, to go back so.
pub(super) fn reasoning(mut fields: Fields) -> Part {
    let (text, summary) = match texts(&fields, "content") {
        Some(text) => (text, false),
        None => (texts(&fields, "summary").unwrap_or_default(), true),
    };
    fields.remove("type");
    let reasoning = Reasoning {
        text,
        summary,
        id: take_text(&mut fields, "id"),
        encrypted: take_text(&mut fields, "encrypted_content"),
        ..Reasoning::default()
    };
    let mut part = Part::from(Content::Reasoning(reasoning));
    part.extra = Extra::rest(RESPONSES, fields);
    part
}

fn texts(fields: &Fields, name: &str) -> Option<String> {
    let texts: Vec<&str> =
        fields.get(name)?.as_array()?.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    let text = texts.join("\n\n");
    (!text.is_empty()).then_some(text)
}

/// The figures of a response; `None` if it tells none.
pub(super) fn usage(response: &Value) -> Option<Usage> {
    let usage = response.get("usage")?;
    let figure = |path: &str| usage.pointer(path).and_then(whole);
    let input = figure("/input_tokens").or_else(|| figure("/prompt_tokens"));
    let output = figure("/output_tokens").or_else(|| figure("/completion_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    Some(Usage {
        input: input.unwrap_or(0),
        cached_read: figure("/input_tokens_details/cached_tokens").unwrap_or(0),
        cached_write: figure("/input_tokens_details/cache_write_tokens").unwrap_or(0),
        output: output.unwrap_or(0),
        reasoning: figure("/output_tokens_details/reasoning_tokens").unwrap_or(0),
    })
}

/// How a response ended. `status` is what the stream's terminal event says of it; a whole reply says it itself.
///
/// # Errors
/// It failed or was cancelled.
pub(super) fn stop(response: &Value, status: &str, calls: bool, wall: Wall) -> Result<Stop, Failure> {
    let own = string(response, "status");
    if errors::has_error(response) {
        return Err(errors::in_band(response, wall.unix()));
    }
    let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str).unwrap_or_default();
    let incomplete = own == "incomplete" || status == "incomplete";
    match (own, reason) {
        ("failed" | "cancelled", _) => Err(unreasoned(own)),
        (_, "max_output_tokens" | "max_tokens" | "length") => Ok(Stop::Length),
        (_, "content_filter") => Ok(Stop::ContentFilter),
        (_, "") if incomplete => Ok(Stop::Unknown),
        (_, reason) if incomplete => Ok(Stop::Other(reason.into())),
        // A job in the background, which is asked for later.
        ("queued" | "in_progress", _) if status.is_empty() => Ok(Stop::Other(own.into())),
        _ if calls => Ok(Stop::ToolCalls),
        _ => Ok(Stop::End),
    }
}

/// The failure of a response that ended so and says no more.
pub(super) fn unreasoned(status: &str) -> Failure {
    let message = format!("the response ended as `{status}`, without a reason");
    Failure::new(Code::Server, message).with_status(StatusCode::OK)
}

/// What a response says beyond our words and the request.
pub(super) fn beside(response: Value) -> Extra {
    let Value::Object(fields) = response else { return Extra::NONE };
    let rest: Fields = fields
        .into_iter()
        .filter(|(name, value)| !value.is_null() && !KNOWN.contains(&name.as_str()))
        .collect();
    Extra::rest(RESPONSES, rest)
}
