//! A whole reply.

use serde_json::Value;

use crate::chat::{Completion, Content, Extra, Message, Part, Reasoning, Role, Stop, ToolCall, Usage};
use crate::failure::{Code, Failure};
use crate::protocol::errors;
use crate::protocol::json::{self, string};
use crate::time::Wall;

use super::wire::{WireUsage, stop};

/// Reads a whole reply. Blanks before it are skipped; only the first choice is read.
///
/// # Errors
/// The failure that it carries, or `INVALID_RESPONSE` for what is not a reply.
pub fn decode(body: &[u8], wall: Wall) -> Result<Completion, Failure> {
    let reply = json::whole(body)?;
    if errors::has_error(&reply) {
        return Err(errors::in_band(&reply, wall.unix()));
    }
    let Some(choice) = reply.pointer("/choices/0") else {
        return Err(match reply.get("object").and_then(Value::as_str) {
            Some("error") => errors::in_band(&reply, wall.unix()),
            _ => Failure::new(Code::InvalidResponse, "the reply has no choices"),
        });
    };
    if errors::has_error(choice) {
        return Err(errors::in_band(&reply, wall.unix()));
    }
    let reason = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
    let message = choice.get("message").map_or_else(|| Message::new(Role::Assistant, Vec::new()), message);
    let calls = message.tool_calls().next().is_some();
    let stop = match stop(reason) {
        None => {
            return Err(Failure::new(Code::Server, format!("the provider ended the answer with `{reason}`")));
        }
        Some(Stop::Other(reason)) if reason.is_empty() => {
            if calls {
                Stop::ToolCalls
            } else {
                Stop::Unknown
            }
        }
        Some(stop) => stop,
    };
    Ok(Completion {
        message,
        stop,
        usage: usage(&reply),
        id: string(&reply, "id").into(),
        model: string(&reply, "model").into(),
        extra: Extra::NONE,
    })
}

fn usage(reply: &Value) -> Option<Usage> {
    let places = [reply.get("usage"), reply.pointer("/x_groq/usage")];
    places.into_iter().flatten().find_map(WireUsage::of)
}

/// The parts of an assistant's turn: reasoning, text, refusal, tool calls.
pub(super) fn message(message: &Value) -> Message {
    let said = |name: &str| message.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut parts: Vec<Part> = Vec::new();
    if let Some(text) = said("reasoning_content").or_else(|| said("reasoning")) {
        parts.push(Content::Reasoning(Reasoning { text: text.to_owned(), ..Reasoning::default() }).into());
    }
    match message.get("content") {
        Some(Value::String(text)) if !text.is_empty() => parts.push(Part::text(text.as_str())),
        Some(Value::Array(items)) => {
            let texts = items.iter().filter_map(|item| item.get("text")?.as_str());
            parts.extend(texts.map(Part::text));
        }
        _ => {}
    }
    if let Some(text) = said("refusal") {
        parts.push(Content::Refusal(text.to_owned()).into());
    }
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    parts.extend(calls.map(|call| Content::ToolCall(tool_call(call)).into()));
    if let Some(function) = message.get("function_call").filter(|function| function.is_object()) {
        let call = ToolCall::new("", string(function, "name"), arguments(function.get("arguments")));
        parts.push(Content::ToolCall(call).into());
    }
    Message::new(Role::Assistant, parts)
}

fn tool_call(call: &Value) -> ToolCall {
    let function = call.get("function").or_else(|| call.get("custom")).unwrap_or(&Value::Null);
    let given = function.get("arguments").or_else(|| function.get("input"));
    ToolCall::new(string(call, "id"), string(function, "name"), arguments(given))
}

/// Arguments as the string that came; an object is written out, and none are `{}`.
fn arguments(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(object @ Value::Object(_)) => object.to_string(),
        _ => "{}".to_owned(),
    }
}
