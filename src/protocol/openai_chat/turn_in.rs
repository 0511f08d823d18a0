//! Turns, read.

use serde_json::Value;

use crate::chat::{Content, Extra, Message, Part, Reasoning, Role, ToolCall, ToolResult};
use crate::protocol::json::{Fields, take_text};

use super::{CHAT, PLACE, content};

/// Reads one turn.
pub(super) fn turn(mut fields: Fields) -> Result<Message, String> {
    let role = take_text(&mut fields, "role").ok_or("role: must be a string")?;
    match role.as_str() {
        "system" => said(Role::System, fields),
        "developer" => said(Role::Developer, fields),
        "user" => said(Role::User, fields),
        "assistant" => said(Role::Assistant, fields),
        "tool" => answered(fields),
        "function" => answered_by_name(fields),
        other => Err(format!("role: there is no role `{}`", other.chars().take(32).collect::<String>())),
    }
}

fn said(role: Role, mut fields: Fields) -> Result<Message, String> {
    let mut parts = Vec::new();
    if role == Role::Assistant {
        parts.extend(thought(&mut fields));
    }
    let (said, spelling) = content::take(&mut fields)?;
    parts.extend(said);
    if role == Role::Assistant {
        parts.extend(take_text(&mut fields, "refusal").map(|text| Part::from(Content::Refusal(text))));
        parts.extend(calls(&mut fields)?);
        parts.extend(legacy_call(&mut fields));
    }
    Ok(finish(role, parts, fields, spelling))
}

/// The answer of a tool.
fn answered(mut fields: Fields) -> Result<Message, String> {
    let id = take_text(&mut fields, "tool_call_id").ok_or("tool_call_id: must be a string")?;
    let (parts, spelling) = content::take(&mut fields)?;
    let result = Content::ToolResult(ToolResult { id, parts, is_error: false });
    Ok(finish(Role::Tool, vec![result.into()], fields, spelling))
}

/// The answer of a function in the older spelling, which knows it by its name only.
fn answered_by_name(mut fields: Fields) -> Result<Message, String> {
    let id = take_text(&mut fields, "name").ok_or("name: must be a string")?;
    let (parts, spelling) = content::take(&mut fields)?;
    let mut part = Part::from(Content::ToolResult(ToolResult { id, parts, is_error: false }));
    part.extra.set(CHAT, PLACE, "function");
    Ok(finish(Role::Tool, vec![part], fields, spelling))
}

fn finish(role: Role, parts: Vec<Part>, mut fields: Fields, spelling: Option<Value>) -> Message {
    fields.extend(spelling.map(|spelling| ("content".to_owned(), spelling)));
    let mut message = Message::new(role, parts);
    message.extra = Extra::rest(CHAT, fields);
    message
}

/// The thoughts beside the content. Where both names are there, the other stays as it came.
fn thought(fields: &mut Fields) -> Option<Part> {
    let usual = take_text(fields, "reasoning_content");
    let place = usual.is_none().then_some("reasoning");
    let text = usual.or_else(|| take_text(fields, "reasoning"))?;
    let mut part = Part::from(Content::Reasoning(Reasoning { text, ..Reasoning::default() }));
    if let Some(place) = place {
        part.extra.set(CHAT, PLACE, place);
    }
    Some(part)
}

fn calls(fields: &mut Fields) -> Result<Vec<Part>, String> {
    match fields.get("tool_calls") {
        Some(Value::Array(items)) if !items.is_empty() => {}
        None | Some(Value::Null | Value::Array(_)) => return Ok(Vec::new()),
        Some(_) => return Err("tool_calls: must be a list".to_owned()),
    }
    let Some(Value::Array(items)) = fields.remove("tool_calls") else { return Ok(Vec::new()) };
    let numbered = items.into_iter().enumerate();
    numbered
        .map(|(i, item)| call(item).ok_or_else(|| format!("tool_calls[{i}]: must be an object")))
        .collect()
}

/// A call of a function; any other call is kept as it came.
fn call(value: Value) -> Option<Part> {
    let Value::Object(mut fields) = value else { return None };
    let function = fields.get("type").is_none_or(|kind| kind == "function");
    let Some(Value::Object(mut inner)) =
        fields.remove("function").filter(|inner| function && inner.is_object())
    else {
        let mut part = Part::from(Content::Other(CHAT, Value::Object(fields)));
        part.extra.set(CHAT, PLACE, "tool_calls");
        return Some(part);
    };
    let named = fields.get("id").and_then(Value::as_str).is_some_and(|id| !id.is_empty());
    let id = named.then(|| take_text(&mut fields, "id")).flatten().unwrap_or_default();
    let name = take_text(&mut inner, "name").unwrap_or_default();
    let arguments = arguments(&mut inner);
    fields.remove("type");
    if !inner.is_empty() {
        fields.insert("function".to_owned(), Value::Object(inner));
    }
    let mut part = Part::from(Content::ToolCall(ToolCall { id, name, arguments }));
    part.extra = Extra::rest(CHAT, fields);
    Some(part)
}

/// A call in the older spelling: it has no id and takes its name for one.
fn legacy_call(fields: &mut Fields) -> Option<Part> {
    let call = fields.get_mut("function_call")?.as_object_mut().filter(|call| call.len() == 2)?;
    call.get("arguments").filter(|arguments| arguments.is_string())?;
    let name = take_text(call, "name")?;
    let arguments = arguments(call);
    fields.remove("function_call");
    let mut part = Part::from(Content::ToolCall(ToolCall { id: name.clone(), name, arguments }));
    part.extra.set(CHAT, PLACE, "function_call");
    Some(part)
}

fn arguments(function: &mut Fields) -> String {
    match function.remove("arguments") {
        Some(Value::String(text)) => text,
        None | Some(Value::Null) => String::new(),
        Some(whole) => whole.to_string(),
    }
}
