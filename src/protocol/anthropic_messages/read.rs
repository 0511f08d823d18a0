//! A client's request.

use serde_json::Value;

use crate::chat::{Extra, Message, Parts, Request, Role, Tool};
use crate::failure::{Code, Failure};
use crate::protocol::json::{self, take_text};

use super::{AS_BLOCKS, AS_TURN, Fields, MESSAGES, options, part_in};

/// Reads a client's request. What has no word of ours is kept where it stood.
///
/// # Errors
/// A local `INVALID_REQUEST` that names what is wrong and where. Only what the words cannot hold at all is refused;
/// the rest is for the provider to judge.
pub fn read(body: &[u8]) -> Result<Request, Failure> {
    let mut fields = json::request(body)?;
    let parts = parts(&mut fields).map_err(|why| Failure::local(Code::InvalidRequest, why))?;
    Ok(Parts { extra: Extra::rest(MESSAGES, fields), ..parts }.into())
}

fn parts(fields: &mut Fields) -> Result<Parts, String> {
    let mut parts = Parts { protocol: Some(MESSAGES), ..Parts::default() };
    match fields.remove("model") {
        None => {}
        Some(Value::String(model)) => parts.model = model,
        Some(_) => return Err("model: must be a string".to_owned()),
    }
    match fields.get("stream") {
        None | Some(Value::Bool(false) | Value::Null) => {}
        Some(Value::Bool(true)) => {
            parts.stream = true;
            fields.remove("stream");
        }
        Some(_) => return Err("stream: must be true or false".to_owned()),
    }
    if let Some(system) = take(fields, "system") {
        parts.messages.push(system_field(system)?);
    }
    let Some(Value::Array(turns)) = fields.remove("messages") else {
        return Err("messages: must be a list".to_owned());
    };
    for (i, turn) in turns.into_iter().enumerate() {
        parts.messages.push(message(turn, &format!("messages[{i}]"))?);
    }
    match take(fields, "tools") {
        None => {}
        // An empty list is no word of ours: it stays.
        Some(Value::Array(items)) if items.is_empty() => {
            fields.insert("tools".to_owned(), Value::Array(items));
        }
        Some(Value::Array(items)) => {
            let tools = items.into_iter().enumerate().map(|(i, item)| tool(item, &format!("tools[{i}]")));
            parts.tools = tools.collect::<Result<_, _>>()?;
        }
        Some(_) => return Err("tools: must be a list".to_owned()),
    }
    parts.options = options::take(fields);
    Ok(parts)
}

/// Takes a field, unless it is null, which stays.
fn take(fields: &mut Fields, name: &str) -> Option<Value> {
    fields.get(name).filter(|value| !value.is_null())?;
    fields.remove(name)
}

fn system_field(system: Value) -> Result<Message, String> {
    let (parts, plain) = part_in::parts(system, "system")?;
    let mut message = Message::new(Role::System, parts);
    if plain {
        message.extra.set(MESSAGES, AS_BLOCKS, true);
    }
    Ok(message)
}

fn message(turn: Value, place: &str) -> Result<Message, String> {
    let Value::Object(mut fields) = turn else { return Err(format!("{place}: must be an object")) };
    let role = match fields.get("role").and_then(Value::as_str) {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        Some(other) => return Err(format!("{place}.role: is unknown: `{other}`")),
        None => return Err(format!("{place}.role: must be a string")),
    };
    let content = fields.remove("content").unwrap_or_default();
    let (parts, plain) = part_in::parts(content, &format!("{place}.content"))?;
    fields.remove("role");
    let mut message = Message::new(role, parts);
    message.extra = Extra::rest(MESSAGES, fields);
    if plain {
        message.extra.set(MESSAGES, AS_BLOCKS, true);
    }
    if role == Role::System {
        message.extra.set(MESSAGES, AS_TURN, true);
    }
    Ok(message)
}

/// Reads a tool. One of a type of its own, which has no schema, is kept whole.
fn tool(item: Value, place: &str) -> Result<Tool, String> {
    let Value::Object(mut fields) = item else { return Err(format!("{place}: must be an object")) };
    let typed = fields.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "custom");
    let schema = fields.get("input_schema").is_some_and(|schema| !schema.is_null());
    let mut tool = Tool::new("", "", Value::Null);
    (tool.description, tool.schema) = (None, None);
    if !typed || schema {
        let name = take_text(&mut fields, "name").filter(|name| !name.is_empty());
        tool.name = name.ok_or_else(|| format!("{place}.name: must be a name"))?;
        tool.description = take_text(&mut fields, "description");
        tool.schema = take(&mut fields, "input_schema");
        tool.strict = fields.get("strict").and_then(Value::as_bool);
        if tool.strict.is_some() {
            fields.remove("strict");
        }
        tool.cache = part_in::cache(&mut fields);
    }
    tool.extra = Extra::rest(MESSAGES, fields);
    Ok(tool)
}
