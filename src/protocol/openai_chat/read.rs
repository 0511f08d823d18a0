//! A client's request.

use serde_json::{Map, Value};

use crate::chat::{
    CacheBreakpoint, Content, Effort, Extra, Media, Message, Options, Part, Parts, Protocol, Reasoning,
    ReasoningOptions, Request, Role, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use crate::failure::Failure;
use crate::protocol::json::{self, Fields, refuse};

const PROTOCOL: Protocol = Protocol::OpenaiChat;

/// Reads a client's request. Fields without a word of ours are kept where they stood.
///
/// # Errors
/// A local `INVALID_REQUEST` that names what is wrong and where.
pub fn read(body: &[u8]) -> Result<Request, Failure> {
    let mut object = json::request(body)?;
    let mut fields = Fields::new(&mut object, "");
    let model = fields.string("model")?.unwrap_or_default();
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let turns = fields.array("messages")?.ok_or_else(|| refuse("messages", "is missing"))?;
    let tools = fields.array("tools")?.unwrap_or_default();
    let options = options(&mut fields)?;
    let messages = turns.into_iter().enumerate().map(|(at, turn)| message(turn, &format!("messages[{at}]")));
    let messages = messages.collect::<Result<_, _>>()?;
    let tools = tools.into_iter().enumerate().map(|(at, item)| tool(item, &format!("tools[{at}]")));
    let tools = tools.collect::<Result<_, _>>()?;
    let extra = Extra::rest(PROTOCOL, object);
    Ok(Parts { model, messages, tools, options, stream, protocol: Some(PROTOCOL), extra, ..Parts::default() }
        .into())
}

fn options(fields: &mut Fields<'_>) -> Result<Options, Failure> {
    // Both caps stay beside the larger, so that they go out under the names they came by.
    let caps = [fields.whole("max_tokens")?, fields.whole("max_completion_tokens")?];
    for (name, cap) in ["max_tokens", "max_completion_tokens"].into_iter().zip(caps) {
        if let Some(cap) = cap {
            fields.put(name, cap.into());
        }
    }
    let effort = fields.string("reasoning_effort")?;
    Ok(Options {
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        top_k: fields.whole("top_k")?,
        max_output_tokens: caps.into_iter().flatten().max(),
        stop: fields.strings_kept("stop")?,
        seed: fields.integer("seed")?,
        tool_choice: tool_choice(fields),
        parallel_tool_calls: fields.boolean("parallel_tool_calls")?,
        reasoning: effort.map(|effort| ReasoningOptions::new(named(effort))),
    })
}

fn named(effort: String) -> Effort {
    if effort == "none" { Effort::Off } else { Effort::Named(effort) }
}

/// A choice that has no word of ours is put back.
fn tool_choice(fields: &mut Fields<'_>) -> Option<ToolChoice> {
    let value = fields.take("tool_choice")?;
    let choice = match value.as_str() {
        Some("auto") => Some(ToolChoice::Auto),
        Some("none") => Some(ToolChoice::None),
        Some("required") => Some(ToolChoice::Required),
        _ => value
            .pointer("/function/name")
            .and_then(Value::as_str)
            .map(|name| ToolChoice::Named(name.to_owned())),
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
    if object.get("type").and_then(Value::as_str).unwrap_or("function") == "function"
        && let Some(Value::Object(mut function)) = object.remove("function")
    {
        object.remove("type");
        let place = format!("{place}.function");
        let mut fields = Fields::new(&mut function, &place);
        tool.name = fields.string("name")?.ok_or_else(|| refuse(&place, "has no name"))?;
        tool.description = fields.string("description")?;
        tool.schema = fields.take("parameters");
        tool.strict = fields.boolean("strict")?;
        if !function.is_empty() {
            object.insert("function".into(), function.into());
        }
        tool.cache = cache(&mut object);
    }
    tool.extra = Extra::rest(PROTOCOL, object);
    Ok(tool)
}

fn message(turn: Value, place: &str) -> Result<Message, Failure> {
    let Value::Object(mut object) = turn else { return Err(refuse(place, "must be an object")) };
    let mut fields = Fields::new(&mut object, place);
    let role = match fields.string("role")?.as_deref() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        Some(other) => return Err(refuse(&format!("{place}.role"), &format!("is unknown: `{other}`"))),
        None => return Err(refuse(&format!("{place}.role"), "is missing")),
    };
    let mut parts = Vec::new();
    if role == Role::Assistant
        && let Some(text) = fields.string("reasoning_content")?
    {
        parts.push(Content::Reasoning(Reasoning { text, ..Reasoning::default() }).into());
    }
    let content = content(fields.take("content"), place)?;
    if role == Role::Tool {
        let id = fields.string("tool_call_id")?.ok_or_else(|| refuse(place, "has no tool_call_id"))?;
        parts.push(Content::ToolResult(ToolResult { id, parts: content, is_error: false }).into());
    } else {
        parts.extend(content);
    }
    if let Some(text) = fields.string("refusal")? {
        parts.push(Content::Refusal(text).into());
    }
    for call in fields.array("tool_calls")?.into_iter().flatten() {
        parts.push(tool_call(call));
    }
    let mut message = Message::new(role, parts);
    message.extra = Extra::rest(PROTOCOL, object);
    Ok(message)
}

/// A call to a function; any other call is kept as it came.
fn tool_call(call: Value) -> Part {
    let text = |path: &str| call.pointer(path).and_then(Value::as_str);
    let (Some(id), Some(name), Some(arguments)) =
        (text("/id"), text("/function/name"), text("/function/arguments"))
    else {
        return Content::Other(PROTOCOL, call).into();
    };
    let mut part = Part::from(Content::ToolCall(ToolCall::new(id, name, arguments)));
    if let Value::Object(mut object) = call {
        object.retain(|name, _| !matches!(name.as_str(), "id" | "type" | "function"));
        part.extra = Extra::rest(PROTOCOL, object);
    }
    part
}

fn content(content: Option<Value>, place: &str) -> Result<Vec<Part>, Failure> {
    match content {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![Part::text(text)]),
        Some(Value::Array(items)) => items
            .into_iter()
            .enumerate()
            .map(|(at, item)| part(item, &format!("{place}.content[{at}]")))
            .collect(),
        Some(_) => Err(refuse(&format!("{place}.content"), "must be a string or parts")),
    }
}

fn part(item: Value, place: &str) -> Result<Part, Failure> {
    let Value::Object(mut object) = item else { return Err(refuse(place, "must be an object")) };
    let kind = object.get("type").and_then(Value::as_str).unwrap_or("text").to_owned();
    let content = match kind.as_str() {
        "text" => take_text(&mut object, "text").map(Content::Text),
        "refusal" => take_text(&mut object, "refusal").map(Content::Refusal),
        "image_url" => take_object(&mut object, "image_url", image).map(Content::Image),
        "input_audio" => take_object(&mut object, "input_audio", audio).map(Content::Audio),
        "file" => take_object(&mut object, "file", file).map(Content::File),
        _ => None,
    };
    let Some(content) = content else { return Ok(Content::Other(PROTOCOL, object.into()).into()) };
    object.remove("type");
    let mut part = Part::from(content);
    part.cache = cache(&mut object);
    part.extra = Extra::rest(PROTOCOL, object);
    Ok(part)
}

fn take_text(object: &mut Map<String, Value>, name: &str) -> Option<String> {
    object.get(name)?.as_str()?;
    match object.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Reads an inner object; what is left of it stays.
fn take_object(
    object: &mut Map<String, Value>,
    name: &str,
    read: impl FnOnce(&mut Map<String, Value>) -> Option<Media>,
) -> Option<Media> {
    let inner = object.get_mut(name)?.as_object_mut()?;
    let media = read(inner)?;
    if inner.is_empty() {
        object.remove(name);
    }
    Some(media)
}

fn image(inner: &mut Map<String, Value>) -> Option<Media> {
    let url = take_text(inner, "url")?;
    Some(match url.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
        Some((media_type, data)) => Media::base64(media_type, data),
        None => Media::url(url),
    })
}

fn audio(inner: &mut Map<String, Value>) -> Option<Media> {
    let data = take_text(inner, "data")?;
    Some(Media::base64(take_text(inner, "format").unwrap_or_default(), data))
}

fn file(inner: &mut Map<String, Value>) -> Option<Media> {
    let name = take_text(inner, "filename");
    let mut media = if let Some(id) = take_text(inner, "file_id") {
        Media::id(id)
    } else {
        let data = take_text(inner, "file_data")?;
        match data.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
            Some((media_type, data)) => Media::base64(media_type, data),
            None => Media { source: Source::Base64(data.into()), ..Media::url("") },
        }
    };
    media.name = name;
    Some(media)
}

/// A cache breakpoint as gateways to other providers spell it.
fn cache(object: &mut Map<String, Value>) -> Option<CacheBreakpoint> {
    let mark = object.get("cache_control")?.as_object()?;
    let plain = mark.iter().all(|(name, value)| match name.as_str() {
        "type" => value == "ephemeral",
        "ttl" => value.is_string(),
        _ => false,
    });
    let ttl = mark.get("ttl").and_then(Value::as_str).map(str::to_owned);
    if plain {
        object.remove("cache_control");
    }
    plain.then_some(CacheBreakpoint { ttl })
}
