//! Small questions to a frame of a stream, as the protocols ask them.

use http::StatusCode;
use serde_json::Value;

use crate::failure::{Code, Failure};

/// Names of events whose data may be anything, since they only say that the server lives.
const HEARTBEATS: [&str; 4] = ["heartbeat", "keep-alive", "keepalive", "ping"];

/// Whether an event only says that the server lives.
pub(super) fn is_heartbeat(event: Option<&str>) -> bool {
    event.is_some_and(|name| HEARTBEATS.contains(&name))
}

/// Reads JSON, in spite of bytes that are no text.
pub(super) fn json(data: &[u8]) -> Option<Value> {
    serde_json::from_slice(data).ok().or_else(|| serde_json::from_str(&String::from_utf8_lossy(data)).ok())
}

/// What a frame tells of which we know that it is an error: plain text is put where an error has its words. `None` for
/// a page of markup, which tells nothing.
#[cold]
pub(super) fn error(data: &[u8]) -> Option<Value> {
    match json(data) {
        Some(told @ (Value::Object(_) | Value::Array(_))) => Some(told),
        Some(Value::String(text)) => Some(Value::from_iter([("error", text)])),
        _ if data.starts_with(b"<") => None,
        _ => Some(Value::from_iter([("error", String::from_utf8_lossy(data).into_owned())])),
    }
}

/// The failure of a stream that ended before its answer did.
#[cold]
pub(super) fn truncated(why: &str) -> Failure {
    Failure::new(Code::Truncated, why).with_status(StatusCode::OK)
}
