//! Blocks, written.

use std::borrow::Cow;

use serde_json::Value;

use crate::chat::{
    CacheBreakpoint, Content, Extra, Media, Part, Parts, Protocol, Reasoning, Source, ToolCall, ToolResult,
};
use crate::protocol::Target;

use super::{AS_BLOCKS, AS_TURN, Fields, MESSAGES, arguments};

/// The first characters in base64 of what the protocol takes, and what that is.
const STARTS: [(&str, &str); 5] = [
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBERi0", PDF),
];

const PDF: &str = "application/pdf";

/// Writes the blocks of a request.
#[derive(Clone, Copy)]
pub(super) struct Writer<'a> {
    target: &'a Target<'a>,
    from: Option<Protocol>,
}

// === impl Writer ===

impl<'a> Writer<'a> {
    pub(super) fn new(parts: &Parts, target: &'a Target<'a>) -> Self {
        Self { target, from: parts.protocol }
    }

    /// Whether the request was read from this protocol.
    pub(super) fn is_native(self) -> bool {
        self.from == Some(MESSAGES)
    }

    /// Writes parts as blocks.
    ///
    /// # Errors
    /// The protocol cannot carry a part.
    pub(super) fn blocks(self, parts: &[Part]) -> Result<Vec<Value>, &'static str> {
        parts.iter().filter_map(|part| self.part(part).transpose()).collect()
    }

    /// Writes one part; `None` for what has no place here.
    fn part(self, part: &Part) -> Result<Option<Value>, &'static str> {
        let mut fields = match &part.content {
            Content::Text(text) | Content::Refusal(text) => {
                let kept = self.is_native() || part.extra.fields(MESSAGES).is_some();
                if text.is_empty() && !kept {
                    return Ok(None);
                }
                block("text", [("text", Value::from(text.as_str()))])
            }
            Content::Image(media) => block("image", [("source", self.source(media, "image/png")?)]),
            Content::File(media) => self.document(media)?,
            Content::ToolCall(call) => self.tool_use(call, &part.extra),
            Content::ToolResult(result) => self.tool_result(result, &part.extra)?,
            Content::Reasoning(reasoning) => match self.thinking(reasoning) {
                Some(fields) => fields,
                None => return Ok(None),
            },
            Content::Other(MESSAGES, value) => return Ok(Some(value.clone())),
            Content::Other(..) => return Ok(None),
            Content::Audio(_) => return Err("sound cannot be sent"),
        };
        // Thinking cannot be marked.
        if !matches!(part.content, Content::Reasoning(_)) {
            write_cache(part.cache.as_ref(), &mut fields);
        }
        write_rest(&part.extra, &mut fields);
        Ok(Some(Value::Object(fields)))
    }

    fn document(self, media: &Media) -> Result<Fields, &'static str> {
        let source = self.source(media, PDF)?;
        let other = source.get("media_type").is_some_and(|kind| kind != PDF);
        if other && !self.is_native() {
            return Err("a file that is no PDF cannot be sent");
        }
        let mut fields = block("document", [("source", source)]);
        fields.extend(media.name.as_ref().map(|name| ("title".to_owned(), Value::from(name.as_str()))));
        Ok(fields)
    }

    fn source(self, media: &Media, usual: &str) -> Result<Value, &'static str> {
        let fields = match &media.source {
            Source::Url(url) => block("url", [("url", Value::from(url.as_str()))]),
            Source::Id(_) if self.from.is_some_and(|from| from != MESSAGES) => {
                return Err("what lies at another provider under an id cannot be sent");
            }
            Source::Id(id) => block("file", [("file_id", Value::from(id.as_str()))]),
            Source::Base64(data) => {
                let mut fields = block("base64", [("data", Value::from(&**data))]);
                let media_type = media.media_type.as_deref().or_else(|| {
                    let start = STARTS.iter().find(|(start, _)| data.starts_with(start));
                    (!self.is_native()).then(|| start.map_or(usual, |(_, kind)| kind))
                });
                fields.extend(media_type.map(|kind| ("media_type".to_owned(), Value::from(kind))));
                fields
            }
        };
        Ok(Value::Object(fields))
    }

    fn tool_use(self, call: &ToolCall, extra: &Extra) -> Fields {
        let came = extra.get(MESSAGES, "input");
        let came = came.filter(|input| arguments::read(Some(input)) == call.arguments);
        let input = came.cloned().unwrap_or_else(|| arguments::write(&call.arguments));
        let mut fields = block("tool_use", [("input", input)]);
        for (name, text) in [("id", self.id(&call.id)), ("name", Cow::from(&call.name))] {
            if !text.is_empty() {
                fields.insert(name.to_owned(), Value::from(text));
            }
        }
        fields
    }

    /// An id as the protocol takes it: others allow more characters.
    fn id(self, id: &str) -> Cow<'_, str> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.is_native() || id.chars().all(fits) {
            return Cow::Borrowed(id);
        }
        id.chars().map(|c| if fits(c) { c } else { '_' }).collect()
    }

    fn tool_result(self, result: &ToolResult, extra: &Extra) -> Result<Fields, &'static str> {
        let mut fields = block("tool_result", []);
        if !result.id.is_empty() {
            fields.insert("tool_use_id".to_owned(), Value::from(self.id(&result.id)));
        }
        let marked = extra.get(MESSAGES, AS_BLOCKS).is_some();
        let single = result.parts.len() == 1;
        let mut blocks = Vec::with_capacity(result.parts.len());
        for part in &result.parts {
            match &part.content {
                // A tool that says nothing says so.
                Content::Text(text) if single && text.is_empty() => {
                    blocks.push(Value::Object(block("text", [("text", Value::from(""))])));
                }
                _ => blocks.extend(self.part(part)?),
            }
        }
        if !blocks.is_empty() || marked {
            fields.insert("content".to_owned(), content_of(blocks, marked));
        }
        if result.is_error {
            fields.insert("is_error".to_owned(), Value::Bool(true));
        }
        Ok(fields)
    }

    /// Thinking that this target made; `None` for any other.
    fn thinking(self, reasoning: &Reasoning) -> Option<Fields> {
        let labelled = reasoning.origin.is_some();
        let elsewhere = self.from.is_some_and(|from| from != MESSAGES) && !labelled;
        if elsewhere || reasoning.summary || reasoning.id.is_some() || !self.target.owns(reasoning) {
            return None;
        }
        if let Some(data) = &reasoning.encrypted {
            return Some(block("redacted_thinking", [("data", Value::from(data.as_str()))]));
        }
        let mut fields = block("thinking", [("thinking", Value::from(reasoning.text.as_str()))]);
        match &reasoning.signature {
            Some(signature) => {
                fields.insert("signature".to_owned(), Value::from(signature.as_str()));
            }
            None if labelled || self.is_native() => {}
            None => return None,
        }
        Some(fields)
    }
}

/// Blocks as content: a single plain text as a string, unless it came as a list.
pub(super) fn content_of(mut blocks: Vec<Value>, as_blocks: bool) -> Value {
    if let ([Value::Object(only)], false) = (blocks.as_mut_slice(), as_blocks)
        && only.len() == 2
        && only.get("type").is_some_and(|kind| kind == "text")
        && let Some(text @ Value::String(_)) = only.get_mut("text")
    {
        return text.take();
    }
    Value::Array(blocks)
}

/// Writes a cache breakpoint.
pub(super) fn write_cache(cache: Option<&CacheBreakpoint>, fields: &mut Fields) {
    if let Some(CacheBreakpoint { ttl }) = cache {
        let ttl = ttl.as_ref().map(|ttl| ("ttl", Value::from(ttl.as_str())));
        fields.insert("cache_control".to_owned(), Value::Object(block("ephemeral", ttl)));
    }
}

/// Writes what was kept, save our own notes. What was kept of a source or breakpoint goes into it, or nowhere.
pub(super) fn write_rest(extra: &Extra, fields: &mut Fields) {
    for (name, value) in extra.fields(MESSAGES).into_iter().flatten() {
        match (fields.get_mut(name), value) {
            (Some(Value::Object(object)), Value::Object(kept))
                if name == "source" || name == "cache_control" =>
            {
                for (name, value) in kept {
                    object.entry(name).or_insert_with(|| value.clone());
                }
            }
            (Some(_), _) => {}
            (None, Value::Object(kept)) if name == "cache_control" && !kept.contains_key("type") => {}
            (None, _) if name == AS_BLOCKS || name == AS_TURN => {}
            (None, value) => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

fn block(kind: &str, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Fields {
    let kind = ("type", Value::from(kind));
    std::iter::once(kind).chain(fields).map(|(name, value)| (name.to_owned(), value)).collect()
}
