//! What an error of a provider means: one classification for error statuses, error objects inside a 200, and error
//! frames inside a stream.
//!
//! The class is what the first of these answers:
//! 1. 413, and a 429 whose text asks for more than the limit: their code is not trusted;
//! 2. a specific code or type in the body;
//! 3. the phrases of [`phrases`], only on 400, 402, 403, 422, 429 and on errors without a status;
//! 4. the status, an unknown one by its family; inside a stream a code of 400 to 599 stands for it;
//! 5. a generic type or code. An error inside a stream that says nothing known is `SERVER`.
//!
//! The wait is what the first of these reads: the headers, a field of the body, the prose.

mod object;
mod phrases;
mod prose;
#[cfg(test)]
mod tests;

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::failure::{Code, Failure, stated_wait};

use object::ErrorObject;

/// The most of a body that is parsed: no error object is larger, and some servers echo the request.
const MAX_BODY: usize = 64 * 1024;

/// Classifies an error response.
///
/// `unix` is the wall time, for dates.
#[must_use]
pub fn classify(status: StatusCode, headers: &HeaderMap, body: &[u8], unix: Duration) -> Failure {
    let body = &body[..body.len().min(MAX_BODY)];
    let parsed: Option<Value> = serde_json::from_slice(body.trim_ascii()).ok();
    let error = parsed.as_ref().map(ErrorObject::of).unwrap_or_default();
    let code = if parsed.is_none() && status == StatusCode::FORBIDDEN && is_page(body) {
        Code::Blocked
    } else {
        judge(&error, Some(status), headers.contains_key("retry-after"))
    };
    let message = match (&parsed, error.message) {
        (Some(_), Some(message)) => error.worded(message),
        _ => fallback(status, body),
    };
    let wait =
        stated_wait(headers, unix).or_else(|| error.wait(unix)).or_else(|| prose::wait(error.message?));
    let word = headers.get("x-should-retry").and_then(|value| match value.as_bytes() {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    });
    Failure::new(code, prose::redact(&message))
        .with_status(status)
        .with_retry_after(wait)
        .with_should_retry(word)
}

/// Classifies an error that came with a 200: an error object in place of a reply, or an error frame of a stream.
///
/// It takes the whole object or frame: `{"error": …}`, `{"type": "error", …}` nested or flat, a failed response of
/// Responses, or the bare error.
#[must_use]
pub fn in_band(frame: &Value, unix: Duration) -> Failure {
    let error = ErrorObject::of(frame);
    let code = judge(&error, error.status(), false);
    let message =
        error.message.map_or_else(|| "an error without a message".to_owned(), |text| error.worded(text));
    let wait = error.wait(unix).or_else(|| prose::wait(error.message?));
    Failure::new(code, prose::redact(&message)).with_status(StatusCode::OK).with_retry_after(wait)
}

/// Whether an object carries an error in place of what was asked: a truthy `error`.
#[must_use]
pub fn has_error(object: &Value) -> bool {
    match object.get("error") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(_) => true,
    }
}

/// The five questions, in order.
fn judge(error: &ErrorObject<'_>, status: Option<StatusCode>, waits: bool) -> Code {
    let number = status.map(|status| status.as_u16());
    let text = error.message.unwrap_or_default().to_ascii_lowercase();
    if number == Some(413) || (number == Some(429) && prose::asks_more_than_the_limit(&text)) {
        return if phrases::overflow(&text) { Code::ContextLength } else { Code::PayloadTooLarge };
    }
    if number == Some(402) && error.is_in_flight() && waits {
        return Code::RateLimited;
    }
    error
        .specific()
        .or_else(|| {
            matches!(number, None | Some(400 | 402 | 403 | 422 | 429)).then(|| phrases::judge(&text))?
        })
        .or_else(|| match number {
            Some(503) if phrases::overload(&text) => Some(Code::Overloaded),
            _ => Code::of_status(status?),
        })
        .or_else(|| error.generic())
        .unwrap_or(Code::Server)
}

fn is_page(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'<')
}

/// What is said where the body says nothing readable: never the page itself.
fn fallback(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let reason = status.canonical_reason().unwrap_or("an unnamed status");
    if text.is_empty() {
        format!("{reason}, with an empty body")
    } else if is_page(body) || text.contains('<') {
        format!("{reason}, with a page in place of an error")
    } else {
        text.chars().take(200).collect()
    }
}
