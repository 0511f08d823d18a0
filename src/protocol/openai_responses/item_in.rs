//! Input items, read into turns.

use serde_json::Value;

use crate::chat::{Content, Extra, Message, Part, Role, ToolResult};
use crate::failure::Failure;
use crate::protocol::json::{Fields, refuse, take_text};

use super::output::{call, reasoning};
use super::part;
use super::{ITEM, PLAIN, RESPONSES};

/// What one item adds to the conversation.
enum Read {
    /// A turn of its own.
    Turn(Message),
    /// Parts of a turn of the model.
    Model(Vec<Part>),
    /// A tool's result.
    Result(Part),
    /// What we have no word for. It stays where it stands, and parts no turn from its next.
    Other(Part),
}

/// Reads input items. Neighbours of the model make one turn, and so do neighbouring results.
pub(super) fn read(items: Vec<Value>, turns: &mut Vec<Message>) -> Result<(), Failure> {
    // The role of the turn that may still grow.
    let mut growing = None;
    for (i, value) in items.into_iter().enumerate() {
        let (role, parts) = match item(value, &format!("input[{i}]"))? {
            Read::Turn(turn) => {
                turns.push(turn);
                growing = None;
                continue;
            }
            Read::Model(parts) => (Role::Assistant, parts),
            Read::Result(part) => (Role::Tool, vec![part]),
            Read::Other(part) => (growing.unwrap_or(Role::Assistant), vec![part]),
        };
        match turns.last_mut() {
            Some(turn) if growing == Some(role) => turn.parts.extend(parts),
            _ => turns.push(Message::new(role, parts)),
        }
        growing = Some(role);
    }
    Ok(())
}

fn item(value: Value, place: &str) -> Result<Read, Failure> {
    let Value::Object(fields) = value else { return Err(refuse(place, "must be an object")) };
    let kind = fields.get("type").and_then(Value::as_str);
    let role = match fields.get("role").and_then(Value::as_str) {
        Some("system") => Some(Role::System),
        Some("developer") => Some(Role::Developer),
        Some("user") => Some(Role::User),
        Some("assistant") => Some(Role::Assistant),
        _ => None,
    };
    Ok(match (kind, role) {
        (None | Some("message"), Some(role)) => message(role, fields, place)?,
        (Some("function_call" | "custom_tool_call"), _) => {
            for name in ["call_id", "name"] {
                if !fields.get(name).is_some_and(Value::is_string) {
                    return Err(refuse(&format!("{place}.{name}"), "must be a string"));
                }
            }
            Read::Model(vec![call(fields)])
        }
        (Some("reasoning"), _) => Read::Model(vec![reasoning(fields)]),
        (Some("function_call_output" | "custom_tool_call_output"), _) => result(fields, place)?,
        (None, None) => return Err(refuse(place, "must have a type or a known role")),
        _ => Read::Other(Content::Other(RESPONSES, Value::Object(fields)).into()),
    })
}

fn message(role: Role, mut fields: Fields, place: &str) -> Result<Read, Failure> {
    fields.remove("role");
    let (mut parts, plain) = match fields.remove("content") {
        Some(Value::String(text)) => (vec![Part::text(text)], true),
        Some(Value::Array(parts)) => (parts.into_iter().map(part::read).collect(), false),
        _ => return Err(refuse(&format!("{place}.content"), "must be a string or a list of parts")),
    };
    Ok(match parts.first_mut() {
        Some(first) if role == Role::Assistant => {
            first.extra.set(RESPONSES, ITEM, fields);
            if plain {
                first.extra.set(RESPONSES, PLAIN, true);
            }
            Read::Model(parts)
        }
        _ => {
            let mut turn = Message::new(role, parts);
            turn.extra = Extra::rest(RESPONSES, fields);
            Read::Turn(turn)
        }
    })
}

fn result(mut fields: Fields, place: &str) -> Result<Read, Failure> {
    if fields.get("type").is_some_and(|kind| kind == "function_call_output") {
        fields.remove("type");
    }
    let id = take_text(&mut fields, "call_id");
    let id = id.ok_or_else(|| refuse(&format!("{place}.call_id"), "must be a string"))?;
    let parts = match fields.remove("output") {
        Some(Value::String(text)) => vec![Part::text(text)],
        Some(Value::Array(parts)) if !parts.is_empty() => parts.into_iter().map(part::read).collect(),
        Some(nothing @ Value::Array(_)) => {
            fields.insert("output".to_owned(), nothing);
            Vec::new()
        }
        _ => return Err(refuse(&format!("{place}.output"), "must be a string or a list of parts")),
    };
    let mut part = Part::from(Content::ToolResult(ToolResult { id, parts, is_error: false }));
    part.extra = Extra::rest(RESPONSES, fields);
    Ok(Read::Result(part))
}
