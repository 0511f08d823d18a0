//! Blocks, read.

use serde_json::Value;

use crate::chat::{CacheBreakpoint, Content, Extra, Media, Part, Reasoning, Source, ToolCall, ToolResult};
use crate::protocol::json::take_text;

use super::{AS_BLOCKS, Fields, MESSAGES, arguments};

/// Reads one block of a request. One that does not fit its kind, or whose kind is unknown, is kept as it came.
pub(super) fn part(mut fields: Fields) -> Part {
    let Some(content) = content(&mut fields) else {
        return Content::Other(MESSAGES, Value::Object(fields)).into();
    };
    fields.remove("type");
    let cache = cache(&mut fields);
    Part { content, cache, extra: Extra::rest(MESSAGES, fields) }
}

/// Reads one block of a reply: what is null is absent, and text that is absent is empty.
pub(super) fn spoken(mut fields: Fields) -> Part {
    let kind = match fields.get("type").and_then(Value::as_str) {
        Some(kind @ ("text" | "thinking")) => Some(kind.to_owned()),
        Some("tool_use" | "redacted_thinking") => None,
        _ => return part(fields),
    };
    fields.retain(|_, value| !value.is_null());
    if let Some(name) = kind
        && !fields.get(&name).is_some_and(Value::is_string)
    {
        fields.insert(name, Value::from(""));
    }
    part(fields)
}

/// Reads content: a string, or a list of blocks. Says whether it is a list that would be written as a string.
///
/// # Errors
/// Where and why it is neither.
pub(super) fn parts(content: Value, place: &str) -> Result<(Vec<Part>, bool), String> {
    let items = match content {
        Value::String(text) => return Ok((vec![Part::text(text)], false)),
        Value::Array(items) => items,
        _ => return Err(format!("{place}: must be a string or a list of blocks")),
    };
    let mut parts = Vec::with_capacity(items.len());
    for (i, item) in items.into_iter().enumerate() {
        let Value::Object(fields) = item else {
            return Err(format!("{place}[{i}]: must be an object"));
        };
        parts.push(part(fields));
    }
    let plain = match parts.as_slice() {
        [Part { content: Content::Text(_), cache: None, extra }] => *extra == Extra::NONE,
        _ => false,
    };
    Ok((parts, plain))
}

/// A cache breakpoint. What it says beyond that stays where it stood.
pub(super) fn cache(fields: &mut Fields) -> Option<CacheBreakpoint> {
    let mark = fields.get_mut("cache_control")?.as_object_mut()?;
    if mark.get("type")? != "ephemeral" {
        return None;
    }
    mark.remove("type");
    let ttl = take_text(mark, "ttl");
    if mark.is_empty() {
        fields.remove("cache_control");
    }
    Some(CacheBreakpoint { ttl })
}

/// What a block is; `None`, with nothing taken, if we have no word for it.
fn content(fields: &mut Fields) -> Option<Content> {
    match fields.get("type")?.as_str()? {
        "text" => take_text(fields, "text").map(Content::Text),
        "image" => media(fields).map(Content::Image),
        "document" => {
            let mut media = media(fields)?;
            media.name = take_text(fields, "title");
            Some(Content::File(media))
        }
        "tool_use" => Some(Content::ToolCall(tool_use(fields))),
        "tool_result" => tool_result(fields).map(Content::ToolResult),
        "thinking" => take_text(fields, "thinking").map(|text| {
            let signature = take_text(fields, "signature");
            Content::Reasoning(Reasoning { text, signature, ..Reasoning::default() })
        }),
        "redacted_thinking" => take_text(fields, "data")
            .map(|data| Content::Reasoning(Reasoning { encrypted: Some(data), ..Reasoning::default() })),
        _ => None,
    }
}

/// The source of a picture or document. What it says beyond that stays where it stood.
fn media(fields: &mut Fields) -> Option<Media> {
    let source = fields.get_mut("source")?.as_object_mut()?;
    let name = match source.get("type")?.as_str()? {
        "base64" => "data",
        "url" => "url",
        "file" => "file_id",
        _ => return None,
    };
    let told = take_text(source, name)?;
    let media = match name {
        "data" => {
            let media_type = take_text(source, "media_type");
            Media { source: Source::Base64(told.into()), media_type, name: None }
        }
        "url" => Media::url(told),
        _ => Media::id(told),
    };
    source.remove("type");
    if source.is_empty() {
        fields.remove("source");
    }
    Some(media)
}

/// A call. An input that is no object stays, to be written so again.
fn tool_use(fields: &mut Fields) -> ToolCall {
    let arguments = arguments::read(fields.get("input"));
    if fields.get("input").is_some_and(Value::is_object) {
        fields.remove("input");
    }
    ToolCall::new(take_name(fields, "id"), take_name(fields, "name"), arguments)
}

fn tool_result(fields: &mut Fields) -> Option<ToolResult> {
    if !fields.get("tool_use_id").is_some_and(|id| id.is_string() || id.is_number()) {
        return None;
    }
    let fits = match fields.get("content") {
        None | Some(Value::Null) => None,
        Some(Value::String(_)) => Some(true),
        Some(Value::Array(items)) => Some(items.iter().all(Value::is_object)),
        Some(_) => Some(false),
    };
    let (parts, plain) = match fits {
        None => (Vec::new(), false),
        Some(true) => parts(fields.remove("content").unwrap_or_default(), "").ok()?,
        Some(false) => return None,
    };
    if plain || fits.is_some() && parts.is_empty() {
        fields.insert(AS_BLOCKS.to_owned(), Value::Bool(true));
    }
    let is_error = fields.get("is_error") == Some(&Value::Bool(true));
    if is_error {
        fields.remove("is_error");
    }
    Some(ToolResult { id: take_name(fields, "tool_use_id"), parts, is_error })
}

/// Takes an id or a name, which some send as a number. An empty one stays, to be written so again.
fn take_name(fields: &mut Fields, name: &str) -> String {
    match fields.get(name) {
        Some(Value::Number(number)) => {
            let number = number.to_string();
            fields.remove(name);
            number
        }
        Some(Value::String(text)) if !text.is_empty() => take_text(fields, name).unwrap_or_default(),
        _ => String::new(),
    }
}
