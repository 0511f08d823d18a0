//! A request, written.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::chat::{Content, Message, Parts, Tool};
use crate::failure::Failure;
use crate::protocol::Target;
use crate::protocol::json::{self, Fields};

use super::item_out::Items;
use super::part::write_rest;
use super::{INPUT, INSTRUCTIONS, RESPONSES, options};

/// Writes a request.
///
/// What was read from this protocol goes out as it came. Of another protocol's request, system turns become items of
/// that role, calls and results of tools items of their own, and what has no word here is left out.
///
/// # Errors
/// A local `INVALID_REQUEST`, if it cannot be written as JSON.
pub fn encode(parts: &Parts, target: &Target<'_>) -> Result<Bytes, Failure> {
    let native = parts.protocol == Some(RESPONSES);
    let mut fields = Fields::new();
    if !target.dialect.model_in_url {
        fields.insert("model".to_owned(), Value::from(target.model));
    }
    write_input(parts, target, &mut fields);
    let tools: Vec<Value> = parts.tools.iter().filter_map(|tool| write_tool(tool, native)).collect();
    if !tools.is_empty() {
        fields.insert("tools".to_owned(), Value::from(tools));
    }
    options::write(&parts.options, &parts.extra, native, &mut fields)?;
    if parts.stream {
        fields.insert("stream".to_owned(), Value::Bool(true));
    }
    for (name, value) in parts.extra.fields(RESPONSES).into_iter().flatten() {
        // Options of a stream are refused without one, and a choice among no tools is, too.
        let idle = name == "stream_options" && !parts.stream
            || name == "tool_choice" && !value.is_null() && !fields.contains_key("tools");
        if !idle && !options::is_spelling(name, value) {
            fields.entry(name.as_str()).or_insert_with(|| value.clone());
        }
    }
    json::write(&fields)
}

fn write_input(parts: &Parts, target: &Target<'_>, fields: &mut Fields) {
    let marked = |message: &Message, mark: &str| {
        let text = matches!(message.parts.as_slice(), [part] if matches!(part.content, Content::Text(_)));
        text && message.extra.get(RESPONSES, mark).is_some()
    };
    let instructions = parts.messages.iter().position(|message| marked(message, INSTRUCTIONS));
    let rest = parts.messages.len() - usize::from(instructions.is_some());
    let mut items = Items::new(parts, target);
    for (i, message) in parts.messages.iter().enumerate() {
        if instructions == Some(i) {
            fields.insert("instructions".to_owned(), Value::from(message.to_text()));
        } else if rest == 1 && marked(message, INPUT) {
            fields.insert("input".to_owned(), Value::from(message.to_text()));
        } else {
            items.turn(message);
        }
    }
    let items = items.finish();
    if !items.is_empty() {
        fields.insert("input".to_owned(), Value::from(items));
    }
}

/// A function, or a tool of this protocol's providers as it came. `None` for one of another's.
fn write_tool(tool: &Tool, native: bool) -> Option<Value> {
    let mut fields = Map::new();
    if !tool.name.is_empty() {
        fields.insert("type".to_owned(), Value::from("function"));
        fields.insert("name".to_owned(), Value::from(tool.name.as_str()));
        let strict = tool.strict.or(if native { None } else { Some(false) });
        let more = [
            ("description", tool.description.as_deref().map(Value::from)),
            ("parameters", tool.schema.clone().or_else(|| (!native).then(no_arguments))),
            ("strict", strict.map(Value::Bool)),
        ];
        fields.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    }
    write_rest(&tool.extra, true, &mut fields);
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// The schema of a tool that tells none: an object without fields.
fn no_arguments() -> Value {
    let none = Value::Object(Map::new());
    Value::from_iter([("type", Value::from("object")), ("properties", none)])
}
