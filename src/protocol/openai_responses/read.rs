//! A client's request.

use serde_json::Value;

use crate::chat::{Content, Extra, Message, Parts, Request, Role, Tool};
use crate::failure::Failure;
use crate::protocol::json::{self, Fields, refuse, take_text};

use super::{INPUT, INSTRUCTIONS, RESPONSES, item_in, options};

/// Whether the conversation, or an item of it, is held on the provider's server, so that no other can answer.
#[must_use]
pub fn is_stateful(parts: &Parts) -> bool {
    let held = |name: &str| parts.extra.get(RESPONSES, name).is_some_and(|value| !value.is_null());
    let mut said = parts.messages.iter().flat_map(|message| &message.parts);
    let is_reference = |content: &Content| match content {
        Content::Other(RESPONSES, item) => item.get("type").is_some_and(|kind| kind == "item_reference"),
        _ => false,
    };
    held("previous_response_id") || held("conversation") || said.any(|part| is_reference(&part.content))
}

/// Reads a client's request. What has no word of ours is kept where it stood.
///
/// # Errors
/// A local `INVALID_REQUEST` that names what is wrong and where.
pub fn read(body: &[u8]) -> Result<Request, Failure> {
    let mut fields = json::request(body)?;
    let mut parts = Parts { protocol: Some(RESPONSES), ..Parts::default() };
    parts.model = text(&mut fields, "model")?.unwrap_or_default();
    // Where it says no, that stays said.
    parts.stream = match fields.get("stream") {
        Some(Value::Bool(stream)) => *stream,
        None | Some(Value::Null) => false,
        Some(_) => return Err(refuse("stream", "must be true or false")),
    };
    if parts.stream {
        fields.remove("stream");
    }
    parts.options = options::take(&mut fields)?;
    if let Some(instructions) = text(&mut fields, "instructions")? {
        let mut turn = Message::text(Role::System, instructions);
        turn.extra.set(RESPONSES, INSTRUCTIONS, true);
        parts.messages.push(turn);
    }
    match fields.remove("input") {
        Some(Value::String(input)) => {
            let mut turn = Message::text(Role::User, input);
            turn.extra.set(RESPONSES, INPUT, true);
            parts.messages.push(turn);
        }
        Some(Value::Array(items)) if !items.is_empty() => item_in::read(items, &mut parts.messages)?,
        // A prompt or a conversation on the server may be all there is.
        None => {}
        Some(nothing @ (Value::Null | Value::Array(_))) => _ = fields.insert("input".to_owned(), nothing),
        Some(_) => return Err(refuse("input", "must be a string or a list of items")),
    }
    match fields.remove("tools") {
        Some(Value::Array(tools)) if !tools.is_empty() => {
            let tools = tools.into_iter().enumerate();
            parts.tools =
                tools.map(|(i, value)| tool(value, &format!("tools[{i}]"))).collect::<Result<_, _>>()?;
        }
        None => {}
        Some(nothing @ (Value::Null | Value::Array(_))) => _ = fields.insert("tools".to_owned(), nothing),
        Some(_) => return Err(refuse("tools", "must be a list")),
    }
    parts.extra = Extra::rest(RESPONSES, fields);
    Ok(parts.into())
}

/// A text; null stays as it came.
fn text(fields: &mut Fields, name: &str) -> Result<Option<String>, Failure> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(_)) => Ok(take_text(fields, name)),
        Some(_) => Err(refuse(name, "must be a string")),
    }
}

/// A function in our words; a tool of the provider's own whole as it came.
fn tool(value: Value, place: &str) -> Result<Tool, Failure> {
    let Value::Object(mut fields) = value else { return Err(refuse(place, "must be an object")) };
    let mut tool = Tool::new("", "", Value::Null);
    (tool.description, tool.schema) = (None, None);
    if fields.get("type").is_some_and(|kind| kind == "function") {
        fields.remove("type");
        let name = take_text(&mut fields, "name").filter(|name| !name.is_empty());
        tool.name = name.ok_or_else(|| refuse(place, "must have a name"))?;
        tool.description = take_text(&mut fields, "description");
        tool.schema = fields.remove("parameters");
        if let Some(Value::Bool(strict)) = fields.get("strict") {
            tool.strict = Some(*strict);
            fields.remove("strict");
        }
    }
    tool.extra = Extra::rest(RESPONSES, fields);
    Ok(tool)
}
