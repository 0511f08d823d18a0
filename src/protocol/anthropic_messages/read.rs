//! A client's request.

use serde_json::{Map, Value};

use crate::chat::{
    CacheBreakpoint, Content, Effort, Extra, Media, Message, Options, Part, Parts, ReasoningOptions, Request,
    Role, Tool, ToolChoice, ToolResult,
};
use crate::failure::Failure;
use crate::protocol::json::{self, Fields, refuse};

use super::wire::{PROTOCOL, block};

/// Marks the turns that came from the `system` field, so that they go back there in the shape they had.
pub(super) const SYSTEM_FIELD: &str = "\u{0}system";

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
    let system = fields.take("system");
    let options = options(&mut fields)?;
    let mut messages = Vec::with_capacity(turns.len() + 1);
    if let Some(system) = system {
        let mut turn = Message::new(Role::System, content(system, "system")?);
        turn.extra.set(PROTOCOL, SYSTEM_FIELD, true);
        messages.push(turn);
    }
    for (at, turn) in turns.into_iter().enumerate() {
        messages.push(message(turn, &format!("messages[{at}]"))?);
    }
    let tools = tools.into_iter().enumerate().map(|(at, item)| tool(item, &format!("tools[{at}]")));
    let tools = tools.collect::<Result<_, _>>()?;
    let extra = Extra::rest(PROTOCOL, object);
    Ok(Parts { model, messages, tools, options, stream, protocol: Some(PROTOCOL), extra, ..Parts::default() }
        .into())
}

fn options(fields: &mut Fields<'_>) -> Result<Options, Failure> {
    let (tool_choice, parallel_tool_calls) = tool_choice(fields);
    Ok(Options {
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        top_k: fields.whole("top_k")?,
        max_output_tokens: fields.whole("max_tokens")?,
        stop: fields.strings("stop_sequences")?,
        seed: None,
        tool_choice,
        parallel_tool_calls,
        reasoning: reasoning(fields),
    })
}

/// Thinking is read for what it means, and stays where it stood.
fn reasoning(fields: &mut Fields<'_>) -> Option<ReasoningOptions> {
    let thinking = fields.peek("thinking").cloned().unwrap_or_default();
    let effort = fields.peek("output_config").and_then(|config| config.get("effort")?.as_str());
    let effort = effort.map(|word| Effort::Named(word.to_owned()));
    let effort = match thinking.get("type").and_then(Value::as_str) {
        Some("enabled") => {
            Some(Effort::Tokens(thinking.get("budget_tokens").and_then(Value::as_u64).unwrap_or_default()))
        }
        Some("disabled") => Some(Effort::Off),
        Some(_) => effort.or(Some(Effort::Adaptive)),
        None => effort,
    };
    effort.map(ReasoningOptions::new)
}

/// A choice that has no word of ours is put back.
fn tool_choice(fields: &mut Fields<'_>) -> (Option<ToolChoice>, Option<bool>) {
    let Some(Value::Object(mut object)) = fields.take("tool_choice") else { return (None, None) };
    let parallel = object.get("disable_parallel_tool_use").and_then(Value::as_bool).map(|off| !off);
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let choice = match (text("type"), text("name")) {
        (Some("auto"), _) => Some(ToolChoice::Auto),
        (Some("any"), _) => Some(ToolChoice::Required),
        (Some("none"), _) => Some(ToolChoice::None),
        (Some("tool"), Some(name)) => Some(ToolChoice::Named(name.to_owned())),
        _ => None,
    };
    object.retain(|name, _| !matches!(name.as_str(), "type" | "name" | "disable_parallel_tool_use"));
    if choice.is_none() || !object.is_empty() {
        fields.put("tool_choice", object.into());
    }
    (choice, parallel)
}

fn tool(item: Value, place: &str) -> Result<Tool, Failure> {
    let Value::Object(mut object) = item else { return Err(refuse(place, "must be an object")) };
    let mut tool = Tool::new("", "", Value::Null);
    (tool.description, tool.schema) = (None, None);
    // A tool of the provider's own has a type of its own, and no schema.
    let own = object.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "custom");
    if !own {
        let mut fields = Fields::new(&mut object, place);
        tool.name = fields.string("name")?.ok_or_else(|| refuse(place, "has no name"))?;
        tool.description = fields.string("description")?;
        tool.schema = fields.take("input_schema");
        tool.strict = fields.boolean("strict")?;
        tool.cache = cache(&mut object);
    }
    tool.extra = Extra::rest(PROTOCOL, object);
    Ok(tool)
}

fn message(turn: Value, place: &str) -> Result<Message, Failure> {
    let Value::Object(mut object) = turn else { return Err(refuse(place, "must be an object")) };
    let mut fields = Fields::new(&mut object, place);
    let role = match fields.string("role")?.as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        Some(other) => return Err(refuse(&format!("{place}.role"), &format!("is unknown: `{other}`"))),
        None => return Err(refuse(&format!("{place}.role"), "is missing")),
    };
    let parts = match fields.take("content") {
        Some(value) => content(value, &format!("{place}.content"))?,
        None => return Err(refuse(&format!("{place}.content"), "is missing")),
    };
    let mut message = Message::new(role, parts);
    message.extra = Extra::rest(PROTOCOL, object);
    Ok(message)
}

fn content(content: Value, place: &str) -> Result<Vec<Part>, Failure> {
    match content {
        Value::String(text) => Ok(vec![Part::text(text)]),
        Value::Array(items) => {
            items.into_iter().enumerate().map(|(at, item)| part(item, &format!("{place}[{at}]"))).collect()
        }
        _ => Err(refuse(place, "must be a string or blocks")),
    }
}

fn part(item: Value, place: &str) -> Result<Part, Failure> {
    let Value::Object(mut object) = item else { return Err(refuse(place, "must be an object")) };
    let kind = object.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let content = match kind.as_str() {
        "image" => media(&mut object).map(Content::Image),
        "document" => media(&mut object).map(Content::File),
        "tool_result" => Some(Content::ToolResult(tool_result(&mut object, place)?)),
        _ => return Ok(block(object)),
    };
    let Some(content) = content else { return Ok(Content::Other(PROTOCOL, object.into()).into()) };
    object.remove("type");
    let mut part = Part::from(content);
    part.cache = cache(&mut object);
    part.extra = Extra::rest(PROTOCOL, object);
    Ok(part)
}

fn tool_result(object: &mut Map<String, Value>, place: &str) -> Result<ToolResult, Failure> {
    let mut fields = Fields::new(object, place);
    let id = fields.string("tool_use_id")?.ok_or_else(|| refuse(place, "has no tool_use_id"))?;
    let parts =
        fields.take("content").map_or(Ok(Vec::new()), |value| content(value, &format!("{place}.content")))?;
    // A plain `false` is kept, so that it goes out again.
    let is_error = fields.peek("is_error") == Some(&Value::Bool(true)) && fields.take("is_error").is_some();
    Ok(ToolResult { id, parts, is_error })
}

/// The source of a picture or document; one of another kind is kept as it came.
fn media(object: &mut Map<String, Value>) -> Option<Media> {
    let source = object.get("source")?.as_object()?;
    let text = |name: &str| source.get(name).and_then(Value::as_str);
    let (mut media, known) = match text("type")? {
        "base64" => (Media::base64(text("media_type")?, text("data")?), 3),
        "url" => (Media::url(text("url")?), 2),
        "file" => (Media::id(text("file_id")?), 2),
        _ => return None,
    };
    if source.len() != known {
        return None;
    }
    object.remove("source");
    if let Some(Value::String(title)) = object.get("title") {
        media.name = Some(title.clone());
        object.remove("title");
    }
    Some(media)
}

/// A cache breakpoint; one with more in it is kept as it came.
pub(super) fn cache(object: &mut Map<String, Value>) -> Option<CacheBreakpoint> {
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
