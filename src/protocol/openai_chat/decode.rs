//! A whole reply.

use http::StatusCode;
use serde_json::Value;

use crate::chat::{Completion, Content, Extra, Message, Part, Reasoning, Role, Stop};
use crate::failure::{Code, Failure};
use crate::protocol::errors;
use crate::protocol::json::Fields;
use crate::time::Wall;

use super::{CHAT, PLACE, lenient, turn_in};

/// Reads a whole reply, as it comes without streaming.
///
/// # Errors
/// The body tells of an error, or it is no reply at all (`INVALID_RESPONSE`).
pub fn decode(body: &[u8], wall: Wall) -> Result<Completion, Failure> {
    let body = body.trim_ascii_start();
    let value: Value = serde_json::from_slice(body).map_err(|_| broken(body))?;
    if let Some(error) = lenient::error_in(&value) {
        return Err(errors::in_band(error, wall.unix()));
    }
    let Value::Object(mut reply) = value else { return Err(broken(body)) };
    let Some(Value::Array(choices)) = reply.remove("choices") else { return Err(no_choice()) };
    let first = choices.into_iter().find(|choice| {
        let index = choice.get("index").and_then(Value::as_u64);
        choice.is_object() && index.unwrap_or(0) == 0
    });
    let Some(Value::Object(mut choice)) = first else { return Err(no_choice()) };
    let stop = match choice.get("finish_reason").and_then(Value::as_str) {
        None | Some("") => Stop::Unknown,
        Some(reason) => stop_of(reason)?,
    };
    let message = match choice.remove("message") {
        Some(Value::Object(message)) => spoken(message)?,
        _ => Message::new(Role::Assistant, Vec::new()),
    };
    let groq = reply.get("x_groq").and_then(|aside| aside.get("usage"));
    let places = [reply.get("usage"), groq, choice.get("usage")];
    let usage = places.into_iter().find_map(|usage| lenient::figures(usage)?.usage());
    let mut completion = Completion::new(message, stop, usage);
    completion.id = take_text(&mut reply, "id");
    completion.model = take_text(&mut reply, "model");
    reply.retain(|name, value| name != "usage" && !value.is_null());
    if let Some(logprobs) = choice.remove("logprobs").filter(|logprobs| !logprobs.is_null()) {
        reply.insert("logprobs".to_owned(), logprobs);
    }
    completion.extra = Extra::rest(CHAT, reply);
    settle(&mut completion);
    Ok(completion)
}

/// A finish reason in our words.
pub(super) fn stop_of(reason: &str) -> Result<Stop, Failure> {
    Ok(match reason {
        "stop" | "eos" | "end_turn" => Stop::End,
        "length" | "max_tokens" => Stop::Length,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "content_filter" => Stop::ContentFilter,
        "model_length" => Stop::Window,
        "error" | "insufficient_system_resource" => {
            let message = format!("the provider stopped with the finish reason `{reason}`");
            return Err(Failure::new(Code::Server, message).with_status(StatusCode::OK));
        }
        other => Stop::Other(other.into()),
    })
}

/// Makes a turn that ended plainly with tool calls wait for them.
pub(super) fn settle(completion: &mut Completion) {
    if completion.stop == Stop::End && completion.message.tool_calls().next().is_some() {
        completion.stop = Stop::ToolCalls;
    }
}

/// The failure of something that is not the protocol. What it is instead is never shown.
pub(super) fn broken(data: &[u8]) -> Failure {
    let message = match data.trim_ascii() {
        [] => "the answer is empty",
        [b'<', ..] => "the answer is a page of markup, not JSON",
        [b'{' | b'[', ..] => "the answer is broken JSON",
        _ => "the answer is not JSON",
    };
    Failure::new(Code::InvalidResponse, message).with_status(StatusCode::OK)
}

fn no_choice() -> Failure {
    Failure::new(Code::InvalidResponse, "the answer holds no choice").with_status(StatusCode::OK)
}

/// The turn of a reply: as one of a request, save what is empty or says nothing.
fn spoken(mut message: Fields) -> Result<Message, Failure> {
    message.retain(|name, value| match value {
        Value::Null => false,
        Value::Array(calls) => !(calls.is_empty() && name == "tool_calls"),
        _ => true,
    });
    message.insert("role".to_owned(), Value::from("assistant"));
    // Text between thoughts may come as anything; only strings and lists are content.
    if !message.get("content").is_some_and(|content| content.is_string() || content.is_array()) {
        message.remove("content");
    }
    let mut turn = turn_in::turn(message).map_err(|why| {
        Failure::new(Code::InvalidResponse, format!("choices[0].message: {why}")).with_status(StatusCode::OK)
    })?;
    let calls = turn.tool_calls().next().is_some();
    let details = turn.extra.get(CHAT, "reasoning_details").is_some();
    turn.parts.retain(|part| match &part.content {
        Content::Text(text) | Content::Refusal(text) => !text.is_empty(),
        Content::Reasoning(reasoning) => calls || details || !reasoning.text.is_empty(),
        _ => true,
    });
    let thought = turn.parts.iter().any(|part| matches!(part.content, Content::Reasoning(_)));
    if details && !thought {
        let mut part = Part::from(Content::Reasoning(Reasoning::default()));
        part.extra.set(CHAT, PLACE, "reasoning");
        turn.parts.insert(0, part);
    }
    turn.fill_arguments();
    // How an absent content was spelled is of no use for the way back.
    if let Some(mut fields) = turn.extra.fields(CHAT).cloned() {
        fields.remove("content");
        turn.extra = Extra::rest(CHAT, fields);
    }
    Ok(turn)
}

fn take_text(reply: &mut Fields, name: &str) -> Box<str> {
    match reply.remove(name) {
        Some(Value::String(text)) => text.into(),
        _ => Box::default(),
    }
}
