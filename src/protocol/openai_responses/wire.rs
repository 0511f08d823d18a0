//! What both whole and streamed replies hold: output items, usage, the way a response ended.

use serde_json::{Map, Value};

use crate::chat::{Content, Extra, Part, Protocol, Reasoning, Stop, ToolCall, Usage};
use crate::failure::Failure;
use crate::protocol::errors;
use crate::protocol::json::string;
use crate::time::Wall;

pub(super) const PROTOCOL: Protocol = Protocol::OpenaiResponses;

/// The parts of an output item: a message has one for each of its own parts, any other item is one.
pub(super) fn parts(item: &Value) -> Vec<Part> {
    match string(item, "type") {
        "message" => {
            let content = item.get("content").and_then(Value::as_array).into_iter().flatten();
            content.map(message_part).collect()
        }
        "function_call" | "custom_tool_call" => vec![call(item)],
        "reasoning" => vec![reasoning(item)],
        _ => vec![Content::Other(PROTOCOL, item.clone()).into()],
    }
}

fn message_part(part: &Value) -> Part {
    match string(part, "type") {
        "output_text" | "text" => Part::text(string(part, "text")),
        "refusal" => Content::Refusal(string(part, "refusal").to_owned()).into(),
        _ => Content::Other(PROTOCOL, part.clone()).into(),
    }
}

/// A call; its own id and status are kept beside it.
pub(super) fn call(item: &Value) -> Part {
    let arguments =
        [string(item, "arguments"), string(item, "input")].into_iter().find(|text| !text.is_empty());
    let call = ToolCall::new(string(item, "call_id"), string(item, "name"), arguments.unwrap_or("{}"));
    let mut part = Part::from(Content::ToolCall(call));
    let custom = string(item, "type") == "custom_tool_call";
    part.extra = rest(
        item,
        if custom { &["call_id", "name", "input"] } else { &["type", "call_id", "name", "arguments"] },
    );
    part
}

/// Reasoning: its text if it is told, else the summary; what only the provider can read is kept.
pub(super) fn reasoning(item: &Value) -> Part {
    let texts = |name: &str| -> Option<String> {
        let items = item.get(name)?.as_array()?;
        let texts: Vec<&str> = items.iter().filter_map(|part| part.get("text")?.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    };
    let (text, summary) = match texts("content") {
        Some(text) => (text, false),
        None => (texts("summary").unwrap_or_default(), true),
    };
    let some = |name: &str| Some(string(item, name).to_owned()).filter(|text| !text.is_empty());
    let reasoning = Reasoning {
        text,
        summary,
        id: some("id"),
        encrypted: some("encrypted_content"),
        ..Reasoning::default()
    };
    let mut part = Part::from(Content::Reasoning(reasoning));
    part.extra = rest(item, &["type", "id", "encrypted_content"]);
    part
}

pub(super) fn rest(item: &Value, known: &[&str]) -> Extra {
    let Value::Object(fields) = item else { return Extra::NONE };
    let rest: Map<String, Value> = fields
        .iter()
        .filter(|(name, _)| !known.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    Extra::rest(PROTOCOL, rest)
}

/// The figures of a response.
pub(super) fn usage(response: &Value) -> Option<Usage> {
    let usage = response.get("usage")?;
    let figure = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    if figure("/input_tokens").is_none() && figure("/output_tokens").is_none() {
        return None;
    }
    Some(Usage {
        input: figure("/input_tokens").unwrap_or(0),
        cached_read: figure("/input_tokens_details/cached_tokens").unwrap_or(0),
        cached_write: figure("/input_tokens_details/cache_write_tokens").unwrap_or(0),
        output: figure("/output_tokens").unwrap_or(0),
        reasoning: figure("/output_tokens_details/reasoning_tokens").unwrap_or(0),
    })
}

/// How a response ended.
pub(super) fn stop(response: &Value, calls: bool, wall: Wall) -> Result<Stop, Failure> {
    let status = string(response, "status");
    let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str).unwrap_or_default();
    match (status, reason) {
        ("failed" | "cancelled", _) => Err(errors::in_band(response, wall.unix())),
        (_, _) if errors::has_error(response) => Err(errors::in_band(response, wall.unix())),
        (_, "max_output_tokens" | "max_tokens") => Ok(Stop::Length),
        (_, "content_filter") => Ok(Stop::ContentFilter),
        ("incomplete", "") => Ok(Stop::Unknown),
        ("incomplete", other) => Ok(Stop::Other(other.into())),
        _ if calls => Ok(Stop::ToolCalls),
        _ => Ok(Stop::End),
    }
}
