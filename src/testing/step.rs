//! What one request meets, byte for byte.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::format::RawStep;

/// The provider a step or script belongs to when it names none.
pub(super) const PRIMARY: &str = "primary";

/// What one request meets, byte for byte.
///
/// Deserialises from the case format; unknown keys, unusable headers and a chunk with no data are refused.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "RawStep")]
pub struct Step {
    /// Whose step it is.
    pub provider: String,
    /// What becomes of the connection.
    pub connect: Connect,
    /// The wait before the response head, or before the break.
    pub delay: Duration,
    /// The status of the head.
    pub status: StatusCode,
    /// The headers of the head; values may be any bytes a header can hold.
    pub headers: HeaderMap,
    /// The body, in the pieces it is sent in.
    pub chunks: Vec<Chunk>,
    /// What follows the last chunk.
    pub end: BodyEnd,
    /// How many equal steps this one stands for.
    pub repeat: NonZeroU32,
    /// Whether a [`Server`](super::Server) packs the body, each chunk flushed on its own.
    pub gzip: bool,
}

/// A piece of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The wait since the chunk before, or since the head.
    pub after: Duration,
    /// The bytes; none at all is a wait and nothing else.
    pub data: Bytes,
    /// Whether each byte is sent alone.
    pub bytewise: bool,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Connect {
    /// It is accepted and answered.
    #[default]
    Ok,
    /// It is refused.
    Refuse,
    /// It is accepted, and broken before a response head.
    Reset,
}

/// What follows the last chunk of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BodyEnd {
    /// The body ends as it should.
    #[default]
    Close,
    /// The link breaks.
    Reset,
    /// Nothing, for as long as the client stays.
    Hang,
}

// === impl Step ===

impl Step {
    /// An empty reply with this status.
    ///
    /// # Panics
    /// If `status` is not a status code (100 to 999).
    #[must_use]
    pub fn status(status: u16) -> Self {
        let status = StatusCode::from_u16(status).expect("a status is a number from 100 to 999");
        Self { status, ..Self::default() }
    }

    /// A whole JSON reply.
    ///
    /// # Panics
    /// If `status` is not a status code (100 to 999).
    #[must_use]
    pub fn json(status: u16, value: &Value) -> Self {
        Self::status(status).header("content-type", "application/json").chunk(0, value.to_string())
    }

    /// A stream of server-sent events with one `data` line each: text may be JSON, `[DONE]`, or anything else.
    #[must_use]
    pub fn sse<T: AsRef<str>>(data: impl IntoIterator<Item = T>) -> Self {
        let chunks = data.into_iter().map(|text| Chunk::new(0, format!("data: {}\n\n", text.as_ref())));
        Self::stream(chunks.collect())
    }

    /// A connection that is refused.
    #[must_use]
    pub fn refuse() -> Self {
        Self { connect: Connect::Refuse, ..Self::default() }
    }

    /// A connection that is accepted, and broken before a response head.
    #[must_use]
    pub fn reset() -> Self {
        Self { connect: Connect::Reset, ..Self::default() }
    }

    /// A stream whose head arrives and whose first byte never does.
    #[must_use]
    pub fn hang() -> Self {
        Self::stream(Vec::new()).end(BodyEnd::Hang)
    }

    /// An event stream of these chunks.
    pub(super) fn stream(chunks: Vec<Chunk>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        Self { headers, chunks, ..Self::default() }
    }

    /// The same after a wait of so many milliseconds before the head (or the break).
    #[must_use]
    pub fn after(mut self, ms: u64) -> Self {
        self.delay = Duration::from_millis(ms);
        self
    }

    /// The same with one more header; a name given twice is sent twice.
    ///
    /// # Panics
    /// If the name or the value is none that HTTP allows.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
        self.headers.append(name, HeaderValue::from_bytes(value.as_ref()).expect("a header value"));
        self
    }

    /// The same with one more chunk, so many milliseconds after the one before.
    #[must_use]
    pub fn chunk(mut self, after_ms: u64, data: impl Into<Bytes>) -> Self {
        self.chunks.push(Chunk::new(after_ms, data));
        self
    }

    /// The same with so many milliseconds before each chunk.
    #[must_use]
    pub fn pace(mut self, ms: u64) -> Self {
        self.chunks.iter_mut().for_each(|chunk| chunk.after = Duration::from_millis(ms));
        self
    }

    /// The same with each byte sent alone.
    #[must_use]
    pub fn bytewise(mut self) -> Self {
        self.chunks.iter_mut().for_each(|chunk| chunk.bytewise = true);
        self
    }

    /// The same with only the first `chunks` chunks: with [`BodyEnd::Close`] a bare end, with [`BodyEnd::Reset`] a cut.
    #[must_use]
    pub fn cut(mut self, chunks: usize) -> Self {
        self.chunks.truncate(chunks);
        self
    }

    /// The same with another end.
    #[must_use]
    pub fn end(mut self, end: BodyEnd) -> Self {
        self.end = end;
        self
    }

    /// The same, packed by a [`Server`](super::Server).
    #[must_use]
    pub fn gzip(mut self) -> Self {
        self.gzip = true;
        self
    }
}

impl Default for Step {
    /// An empty 200 of the primary provider, at once, properly ended.
    fn default() -> Self {
        Self {
            provider: PRIMARY.to_owned(),
            connect: Connect::Ok,
            delay: Duration::ZERO,
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            chunks: Vec::new(),
            end: BodyEnd::Close,
            repeat: NonZeroU32::MIN,
            gzip: false,
        }
    }
}

// === impl Chunk ===

impl Chunk {
    /// These bytes, so many milliseconds after the chunk before.
    pub fn new(after_ms: u64, data: impl Into<Bytes>) -> Self {
        Self { after: Duration::from_millis(after_ms), data: data.into(), bytewise: false }
    }
}
