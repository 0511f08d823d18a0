//! What an error's body is before anybody asks what it means.

use http::HeaderMap;
use serde_json::Value;

/// How much of a body is read. A validation error can echo the whole prompt, which is megabytes.
const READ: usize = 64 * 1024;

/// How much of a body that is plain text is taken for its message.
const PLAIN: usize = 2 * 1024;

/// An error's body.
#[derive(Debug)]
pub(super) enum Body {
    /// It tells something: JSON, or a line of plain text.
    Told(Value),
    /// A page of HTML, never shown.
    Page,
    /// Nothing.
    Empty,
    /// JSON cut short or broken, or bytes that are no text.
    Broken,
}

// === impl Body ===

impl Body {
    /// What is said instead of a message.
    pub(super) const fn excuse(&self) -> &'static str {
        match self {
            Self::Told(_) => "",
            Self::Page => "a page of HTML instead of an error",
            Self::Empty => "no body",
            Self::Broken => "a body that cannot be read",
        }
    }
}

/// Sorts a body. The content type is asked last, since it may lie.
pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Body {
    let body = &body[..body.len().min(READ)];
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii();
    let body = frame(body).unwrap_or(body);
    match body.first() {
        None => Body::Empty,
        Some(b'<') => Body::Page,
        Some(b'{' | b'[') => json(body).map_or(Body::Broken, Body::Told),
        Some(_) if says_html(headers) => Body::Page,
        Some(b'"') => json(body).map_or(Body::Broken, Body::Told),
        Some(_) => plain(body),
    }
}

/// The first value; what follows it is let be.
fn json(body: &[u8]) -> Option<Value> {
    serde_json::Deserializer::from_slice(body).into_iter().next()?.ok()
}

/// The data of an error that came as a server-sent event, though the status was not a 200.
fn frame(body: &[u8]) -> Option<&[u8]> {
    if !body.starts_with(b"event:") && !body.starts_with(b"data:") {
        return None;
    }
    let data = body.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data:"))?;
    Some(data.trim_ascii())
}

fn plain(body: &[u8]) -> Body {
    let text = String::from_utf8_lossy(&body[..body.len().min(PLAIN)]);
    let clipped = body.len() > PLAIN;
    let text = if clipped { text.trim_end_matches('\u{fffd}') } else { &text };
    let readable = !text.contains(|c: char| c == '\u{fffd}' || c.is_control() && !c.is_whitespace());
    if readable { Body::Told(Value::String(text.to_owned())) } else { Body::Broken }
}

fn says_html(headers: &HeaderMap) -> bool {
    let kind = headers.get(http::header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    kind.get(..9).is_some_and(|head| head.eq_ignore_ascii_case(b"text/html"))
}
