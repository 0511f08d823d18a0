//! A client's request.

use serde_json::{Map, Value};

use crate::chat::{
    Content, Effort, Extra, Media, Message, Options, Part, Parts, ReasoningOptions, Request, Role, Tool,
    ToolCall, ToolChoice, ToolResult,
};
use crate::failure::Failure;
use crate::protocol::json::{self, Fields, refuse};

use super::wire::{PROTOCOL, reasoning, rest};

/// Marks the turn that came from `instructions`, so that it goes back there.
pub(super) const INSTRUCTIONS: &str = "\u{0}instructions";

/// Marks the turn that was the whole `input`, as a string.
pub(super) const PLAIN_INPUT: &str = "\u{0}input";

/// Whether the conversation is held on the provider's server, so that no other can answer.
#[must_use]
pub fn is_stateful(parts: &Parts) -> bool {
    let held = |name: &str| parts.extra.get(PROTOCOL, name).is_some_and(|value| !value.is_null());
    held("previous_response_id") || held("conversation")
}

/// Reads a client's request. Fields and items without a word of ours are kept where they stood.
///
/// # Errors
/// A local `INVALID_REQUEST` that names what is wrong and where.
pub fn read(body: &[u8]) -> Result<Request, Failure> {
    let mut object = json::request(body)?;
    let mut fields = Fields::new(&mut object, "");
    let model = fields.string("model")?.unwrap_or_default();
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let tools = fields.array("tools")?.unwrap_or_default();
    let options = options(&mut fields)?;
    let mut messages = Vec::new();
    if let Some(text) = fields.string("instructions")? {
        let mut turn = Message::text(Role::System, text);
        turn.extra.set(PROTOCOL, INSTRUCTIONS, true);
        messages.push(turn);
    }
    match fields.take("input") {
        Some(Value::String(text)) => {
            let mut turn = Message::text(Role::User, text);
            turn.extra.set(PROTOCOL, PLAIN_INPUT, true);
            messages.push(turn);
        }
        Some(Value::Array(items)) => {
            for (at, item) in items.into_iter().enumerate() {
                messages.push(self::item(item, &format!("input[{at}]"))?);
            }
        }
        // A prompt or a conversation on the server may be all there is.
        None => {}
        Some(_) => return Err(refuse("input", "must be a string or items")),
    }
    let tools = tools.into_iter().enumerate().map(|(at, item)| tool(item, &format!("tools[{at}]")));
    let tools = tools.collect::<Result<_, _>>()?;
    let extra = Extra::rest(PROTOCOL, object);
    Ok(Parts { model, messages, tools, options, stream, protocol: Some(PROTOCOL), extra, ..Parts::default() }
        .into())
}

fn options(fields: &mut Fields<'_>) -> Result<Options, Failure> {
    // Reasoning is read for what it means, and stays where it stood.
    let effort = fields.peek("reasoning").and_then(|reasoning| reasoning.get("effort")?.as_str());
    let effort = effort.map(|word| if word == "none" { Effort::Off } else { Effort::Named(word.to_owned()) });
    Ok(Options {
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        max_output_tokens: fields.whole("max_output_tokens")?,
        parallel_tool_calls: fields.boolean("parallel_tool_calls")?,
        tool_choice: tool_choice(fields),
        reasoning: effort.map(ReasoningOptions::new),
        ..Options::default()
    })
}

/// A choice that has no word of ours is put back.
fn tool_choice(fields: &mut Fields<'_>) -> Option<ToolChoice> {
    let value = fields.take("tool_choice")?;
    let function = value.get("type").and_then(Value::as_str) == Some("function");
    let choice = match (value.as_str(), value.get("name").and_then(Value::as_str)) {
        (Some("auto"), _) => Some(ToolChoice::Auto),
        (Some("none"), _) => Some(ToolChoice::None),
        (Some("required"), _) => Some(ToolChoice::Required),
        (None, Some(name)) if function => Some(ToolChoice::Named(name.to_owned())),
        _ => None,
    };
    if choice.is_none() {
        fields.put("tool_choice", value);
    }
    choice
}

fn tool(item: Value, place: &str) -> Result<Tool, Failure> {
    let Value::Object(mut object) = item else { return Err(refuse(place, "must be an object")) };
    let mut tool = Tool::new("", "", Value::Null);
    (tool.description, tool.schema) = (None, None);
    if object.get("type").and_then(Value::as_str) == Some("function") {
        object.remove("type");
        let mut fields = Fields::new(&mut object, place);
        tool.name = fields.string("name")?.ok_or_else(|| refuse(place, "has no name"))?;
        tool.description = fields.string("description")?;
        tool.schema = fields.take("parameters");
        tool.strict = fields.boolean("strict")?;
    }
    tool.extra = Extra::rest(PROTOCOL, object);
    Ok(tool)
}

/// One input item is one turn.
fn item(item: Value, place: &str) -> Result<Message, Failure> {
    let Value::Object(object) = &item else { return Err(refuse(place, "must be an object")) };
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    match (text("type"), text("role")) {
        (None | Some("message"), Some(_)) => message(item, place),
        (Some("function_call"), _) => {
            let call = ToolCall::new(
                text("call_id").ok_or_else(|| refuse(place, "has no call_id"))?,
                text("name").ok_or_else(|| refuse(place, "has no name"))?,
                text("arguments").unwrap_or_default(),
            );
            let mut part = Part::from(Content::ToolCall(call));
            part.extra = rest(&item, &["type", "call_id", "name", "arguments"]);
            Ok(Message::new(Role::Assistant, vec![part]))
        }
        (Some("function_call_output"), _) => tool_result(&item, place),
        (Some("reasoning"), _) => Ok(Message::new(Role::Assistant, vec![reasoning(&item)])),
        (None, None) => Err(refuse(place, "has neither a type nor a role")),
        _ => Ok(Message::new(Role::User, vec![Content::Other(PROTOCOL, item).into()])),
    }
}

fn tool_result(item: &Value, place: &str) -> Result<Message, Failure> {
    let id = item.get("call_id").and_then(Value::as_str).ok_or_else(|| refuse(place, "has no call_id"))?;
    let parts = match item.get("output") {
        Some(Value::String(text)) => vec![Part::text(text.as_str())],
        Some(Value::Array(items)) => items.iter().cloned().map(part).collect(),
        _ => return Err(refuse(&format!("{place}.output"), "must be a string or parts")),
    };
    let result = ToolResult { id: id.to_owned(), parts, is_error: false };
    let mut out = Part::from(Content::ToolResult(result));
    out.extra = rest(item, &["type", "call_id", "output"]);
    Ok(Message::new(Role::Tool, vec![out]))
}

fn message(item: Value, place: &str) -> Result<Message, Failure> {
    let Value::Object(mut object) = item else { return Err(refuse(place, "must be an object")) };
    let mut fields = Fields::new(&mut object, place);
    let role = match fields.string("role")?.as_deref() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        other => {
            let other = other.unwrap_or_default();
            return Err(refuse(&format!("{place}.role"), &format!("is unknown: `{other}`")));
        }
    };
    let parts = match fields.take("content") {
        Some(Value::String(text)) => vec![Part::text(text)],
        Some(Value::Array(items)) => items.into_iter().map(part).collect(),
        _ => return Err(refuse(&format!("{place}.content"), "must be a string or parts")),
    };
    let mut message = Message::new(role, parts);
    message.extra = Extra::rest(PROTOCOL, object);
    Ok(message)
}

/// A part of a turn; its type is kept, since input and output spell text differently.
fn part(item: Value) -> Part {
    let Value::Object(mut object) = item else { return Content::Other(PROTOCOL, item).into() };
    let content = match object.get("type").and_then(Value::as_str) {
        Some("input_text" | "output_text" | "text") => take(&mut object, "text").map(Content::Text),
        Some("refusal") => take(&mut object, "refusal").map(Content::Refusal),
        Some("input_image") => image(&mut object).map(Content::Image),
        Some("input_file") => file(&mut object).map(Content::File),
        _ => None,
    };
    let Some(content) = content else { return Content::Other(PROTOCOL, object.into()).into() };
    let mut part = Part::from(content);
    part.extra = Extra::rest(PROTOCOL, object);
    part
}

fn take(object: &mut Map<String, Value>, name: &str) -> Option<String> {
    object.get(name)?.as_str()?;
    match object.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn image(object: &mut Map<String, Value>) -> Option<Media> {
    if let Some(id) = take(object, "file_id") {
        return Some(Media::id(id));
    }
    let url = take(object, "image_url")?;
    Some(match url.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
        Some((media_type, data)) => Media::base64(media_type, data),
        None => Media::url(url),
    })
}

fn file(object: &mut Map<String, Value>) -> Option<Media> {
    let mut media = if let Some(id) = take(object, "file_id") {
        Media::id(id)
    } else if let Some(url) = take(object, "file_url") {
        Media::url(url)
    } else {
        let data = object.get("file_data")?.as_str()?;
        let (media_type, data) = data.strip_prefix("data:")?.split_once(";base64,")?;
        let media = Media::base64(media_type, data);
        object.remove("file_data");
        media
    };
    media.name = take(object, "filename");
    Some(media)
}
