//! Parts of a turn, both ways.

use serde_json::Value;

use crate::chat::{CacheBreakpoint, Content, Extra, Media, Part, Reasoning, Source};
use crate::protocol::json::{Fields, take_text};

use super::{CHAT, PLACE, lenient};

// --- in ---

/// Reads one element of a list of content.
pub(super) fn read(value: Value) -> Result<Part, String> {
    let Value::Object(mut fields) = value else { return Err("must be an object".to_owned()) };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let content = match kind.as_str() {
        "text" => take_text(&mut fields, "text").map(Content::Text),
        "refusal" => take_text(&mut fields, "refusal").map(Content::Refusal),
        "image_url" => image(&mut fields),
        "input_audio" => audio(&mut fields),
        "file" => file(&mut fields),
        "thinking" => thinking(&mut fields),
        _ => None,
    };
    let Some(content) = content else {
        return Ok(Content::Other(CHAT, Value::Object(fields)).into());
    };
    fields.remove("type");
    let cache = take_cache(&mut fields);
    let place = match content {
        Content::Refusal(_) => Some("content"),
        Content::Reasoning(_) => Some("thinking"),
        _ => None,
    };
    let mut part = Part { content, cache, extra: Extra::rest(CHAT, fields) };
    if let Some(place) = place {
        part.extra.set(CHAT, PLACE, place);
    }
    Ok(part)
}

/// Takes a cache breakpoint, if it says no more than we have words for.
pub(super) fn take_cache(fields: &mut Fields) -> Option<CacheBreakpoint> {
    let mark = fields.get("cache_control")?.as_object()?;
    let ttl = mark.get("ttl").and_then(Value::as_str).map(str::to_owned);
    let known = mark.get("type")? == "ephemeral" && mark.len() == 1 + usize::from(ttl.is_some());
    known.then(|| {
        fields.remove("cache_control");
        CacheBreakpoint { ttl }
    })
}

/// Takes the object `name` if it has the string field `inner`, and that string from it; its other fields stay.
fn take_inner(fields: &mut Fields, name: &str, inner: &str) -> Option<String> {
    let object = fields.get_mut(name)?.as_object_mut()?;
    let text = take_text(object, inner)?;
    if object.is_empty() {
        fields.remove(name);
    }
    Some(text)
}

fn image(fields: &mut Fields) -> Option<Content> {
    let url = match fields.get_mut("image_url")? {
        // The short spelling: an empty string stays to tell of it.
        Value::String(url) => std::mem::take(url),
        _ => take_inner(fields, "image_url", "url")?,
    };
    Some(Content::Image(located(url)))
}

fn audio(fields: &mut Fields) -> Option<Content> {
    let format = fields.get("input_audio")?.get("format")?.as_str()?.to_owned();
    let data = take_inner(fields, "input_audio", "data")?;
    take_inner(fields, "input_audio", "format");
    Some(Content::Audio(Media::base64(format, data)))
}

fn file(fields: &mut Fields) -> Option<Content> {
    let object = fields.get("file")?;
    let has = |name: &str| object.get(name).is_some_and(Value::is_string);
    let mut media = match (has("file_id"), has("file_data")) {
        (true, false) => Media::id(take_inner(fields, "file", "file_id")?),
        (false, true) => {
            let data = take_inner(fields, "file", "file_data")?;
            if data.starts_with("data:") || data.starts_with("http:") || data.starts_with("https:") {
                located(data)
            } else {
                Media { source: Source::Base64(data.into()), media_type: None, name: None }
            }
        }
        _ => return None,
    };
    media.name = take_inner(fields, "file", "filename");
    Some(Content::File(media))
}

fn thinking(fields: &mut Fields) -> Option<Content> {
    let value = Value::Object(std::mem::take(fields));
    let text = lenient::thoughts(&value)?;
    if value == thought(&text) {
        return Some(Content::Reasoning(Reasoning { text, ..Reasoning::default() }));
    }
    if let Value::Object(whole) = value {
        *fields = whole;
    }
    None
}

/// Media at an address, or in it.
fn located(url: String) -> Media {
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((media_type, data)) if !media_type.is_empty() => Media::base64(media_type, data),
        _ => Media::url(url),
    }
}

// --- out ---

/// Writes one element of a list of content; `None` for what is no content, or another protocol's.
///
/// # Errors
/// The protocol has no such media.
pub(super) fn write(part: &Part, marks: bool, native: bool) -> Result<Option<Value>, &'static str> {
    let (kind, value) = match &part.content {
        Content::Text(text) => ("text", Value::from(text.as_str())),
        Content::Refusal(text) => ("refusal", Value::from(text.as_str())),
        Content::Image(media) => ("image_url", image_url(media, part.extra.get(CHAT, "image_url"))?),
        Content::Audio(media) => ("input_audio", input_audio(media)?),
        Content::File(media) => ("file", file_object(media, native)),
        Content::Reasoning(reasoning) => return Ok(Some(thought(&reasoning.text))),
        Content::Other(CHAT, value) => return Ok(Some(value.clone())),
        Content::Other(..) | Content::ToolCall(_) | Content::ToolResult(_) => return Ok(None),
    };
    let mut fields = Fields::new();
    fields.insert("type".to_owned(), Value::from(kind));
    fields.insert(kind.to_owned(), value);
    write_cache(part.cache.as_ref(), marks, &mut fields);
    write_rest(&part.extra, &mut fields);
    Ok(Some(Value::Object(fields)))
}

/// Writes a cache breakpoint, where those go out.
pub(super) fn write_cache(cache: Option<&CacheBreakpoint>, marks: bool, fields: &mut Fields) {
    if let Some(CacheBreakpoint { ttl }) = cache.filter(|_| marks) {
        let mut mark = Fields::from_iter([("type".to_owned(), Value::from("ephemeral"))]);
        mark.extend(ttl.as_ref().map(|ttl| ("ttl".to_owned(), Value::from(ttl.as_str()))));
        fields.insert("cache_control".to_owned(), Value::Object(mark));
    }
}

/// Writes what was kept of a part or tool, save our own note of its place. An object that is there already takes in
/// the fields that were kept of it.
pub(super) fn write_rest(extra: &Extra, fields: &mut Fields) {
    for (name, value) in extra.fields(CHAT).into_iter().flatten().filter(|(name, _)| *name != PLACE) {
        match (fields.get_mut(name), value) {
            (None, value) => {
                fields.insert(name.clone(), value.clone());
            }
            (Some(Value::Object(object)), Value::Object(kept)) => {
                for (name, value) in kept {
                    object.entry(name).or_insert_with(|| value.clone());
                }
            }
            (Some(_), _) => {}
        }
    }
}

fn image_url(media: &Media, kept: Option<&Value>) -> Result<Value, &'static str> {
    let url = match &media.source {
        Source::Url(url) => url.clone(),
        Source::Base64(data) => data_url(media.media_type.as_deref().unwrap_or("image/png"), data),
        Source::Id(_) => return Err("a picture held by another provider cannot be sent"),
    };
    Ok(match kept {
        Some(Value::String(_)) => Value::from(url),
        _ => Value::from_iter([("url", url)]),
    })
}

fn input_audio(media: &Media) -> Result<Value, &'static str> {
    let Source::Base64(data) = &media.source else { return Err("sound must be sent in base64") };
    let named = media.media_type.as_deref().unwrap_or("wav");
    let format = match named.strip_prefix("audio/").unwrap_or(named) {
        "mpeg" | "mpga" => "mp3",
        "wave" | "x-wav" | "vnd.wave" => "wav",
        format => format,
    };
    Ok(Value::from_iter([("data", &**data), ("format", format)]))
}

fn file_object(media: &Media, native: bool) -> Value {
    let mut fields = Fields::new();
    match (&media.source, &media.media_type) {
        (Source::Id(id), _) => fields.insert("file_id".to_owned(), Value::from(id.as_str())),
        (Source::Url(url), _) => fields.insert("file_data".to_owned(), Value::from(url.as_str())),
        (Source::Base64(data), Some(kind)) => {
            fields.insert("file_data".to_owned(), Value::from(data_url(kind, data)))
        }
        (Source::Base64(data), None) => fields.insert("file_data".to_owned(), Value::from(&**data)),
    };
    // A file in the request must have a name.
    let unnamed = !native && matches!(media.source, Source::Base64(_));
    let name = match (&media.name, media.media_type.as_deref()) {
        (Some(name), _) => Some(name.as_str()),
        (None, Some("application/pdf")) if unnamed => Some("file.pdf"),
        (None, _) => unnamed.then_some("file"),
    };
    fields.extend(name.map(|name| ("filename".to_owned(), Value::from(name))));
    Value::Object(fields)
}

fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

/// Thoughts as a part of the content.
fn thought(text: &str) -> Value {
    let piece = Value::from_iter([("type", "text"), ("text", text)]);
    Value::from_iter([("type", Value::from("thinking")), ("thinking", Value::from(vec![piece]))])
}
