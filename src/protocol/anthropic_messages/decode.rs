//! A whole reply.

use http::StatusCode;
use serde_json::Value;

use crate::chat::{Completion, Extra, Message, Part, Role, Stop};
use crate::failure::{Code, Failure};
use crate::protocol::{errors, json};
use crate::time::Wall;

use super::wire::{self, CONTENT, Figures};
use super::{Fields, MESSAGES, part_in};

/// Reads a whole reply, as it comes without streaming. Blanks before it are skipped.
///
/// # Errors
/// The failure that the body tells of, or `INVALID_RESPONSE` if it is no reply at all.
pub fn decode(body: &[u8], wall: Wall) -> Result<Completion, Failure> {
    let value = json::whole(body).map_err(|failure| failure.with_status(StatusCode::OK))?;
    if is_error(&value, None) {
        return Err(errors::in_band(&value, wall.unix()));
    }
    let Value::Object(mut reply) = value else { return Err(invalid("the body is no reply")) };
    let stop = wire::stop(&reply);
    let parts = match reply.remove("content") {
        Some(Value::Array(blocks)) => blocks.into_iter().filter_map(spoken).collect(),
        Some(Value::String(text)) => vec![Part::text(text)],
        // A reply without content still says that it is one.
        None | Some(Value::Null) if stop.is_some() || reply.get("type").is_some_and(|it| it == "message") => {
            Vec::new()
        }
        _ => return Err(invalid("the reply has no content")),
    };
    let mut figures = Figures::default();
    if let Some(Value::Object(usage)) = reply.get_mut("usage") {
        figures.take(usage);
    }
    let message = Message::new(Role::Assistant, parts);
    let mut completion = Completion::new(message, stop.unwrap_or(Stop::Unknown), figures.usage());
    completion.id = name(&mut reply, "id");
    completion.model = name(&mut reply, "model");
    completion.extra = rest(reply);
    Ok(completion)
}

/// Whether a frame or a body tells of an error. Some send a bare one, which is an object with a message.
pub(super) fn is_error(value: &Value, event: Option<&str>) -> bool {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    if text("type").or(event).is_some_and(|kind| kind == "ping" || CONTENT.contains(&kind)) {
        return value.get("error").is_some() && errors::has_error(value);
    }
    let named = text("type").is_some_and(|kind| kind.contains("error"));
    let bare = text("message").is_some() && (named || value.get("code").is_some());
    bare || errors::has_error(value)
}

/// What is left of a reply after its known fields were taken out.
pub(super) fn rest(mut reply: Fields) -> Extra {
    for name in ["type", "role", "stop_reason", "stop_sequence"] {
        reply.remove(name);
    }
    reply.retain(|_, value| !value.is_null() && !value.as_object().is_some_and(Fields::is_empty));
    Extra::rest(MESSAGES, reply)
}

/// Takes an id or a model out of a reply; empty where it is no string.
pub(super) fn name(reply: &mut Fields, name: &str) -> Box<str> {
    match reply.remove(name) {
        Some(Value::String(text)) => text.into(),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => Box::default(),
    }
}

/// A failure of a reply that is none. It never shows what came instead.
pub(super) fn invalid(why: &str) -> Failure {
    Failure::new(Code::InvalidResponse, why).with_status(StatusCode::OK)
}

fn spoken(block: Value) -> Option<Part> {
    match block {
        Value::Object(fields) => Some(part_in::spoken(fields)),
        Value::String(text) => Some(Part::text(text)),
        _ => None,
    }
}
