//! What a provider's error is: one [`Failure`] from a status, headers and a body, or from an error inside a stream.
//!
//! The code is that of the first of these that answers:
//!
//! 1. *Too large whatever the wait*: a 413, and a 429 that says more was requested than the limit is. Their code
//!    is not trusted, since it speaks of a rate. `CONTEXT_LENGTH` if the words say so, else `PAYLOAD_TOO_LARGE`.
//! 2. *A specific code or type* in the body, on any status and inside a 200.
//! 3. *Words*, but only on 400, 402, 403, 422, 429 and on errors without a status: a 5xx that quotes such a phrase
//!    is still a broken provider.
//! 4. *The status*. In a stream a code of 400 to 599, integer or string, stands for it.
//! 5. *A generic code or type*, which several statuses share.
//!
//! An error inside a stream that says nothing known is `SERVER`. The wait is the first that reads: the headers,
//! the body's fields, its words. `x-should-retry` changes no code; it is kept beside it.
//!
//! The message is the provider's, led by its code. Pages of HTML and whatever looks like a key are taken out.

mod body;
mod clean;
mod names;
mod phrases;
mod prose;
#[cfg(test)]
mod tests;
mod told;

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use self::body::Body;
use self::told::Told;
use super::limits;
use crate::failure::{Code, Failure, stated_wait};

pub use self::told::has_error;

/// The statuses on which words are believed.
const WORDED: [u16; 5] = [400, 402, 403, 422, 429];

/// What speaks for one code or another.
struct Evidence<'a> {
    /// The HTTP status, or the code in a stream that stands for it.
    status: Option<StatusCode>,
    told: &'a Told<'a>,
    wait: Option<Duration>,
}

/// Classifies an HTTP error response.
///
/// `unix` is the wall time, for waits told as a date. A body of any size and any bytes will do; the first 64 KiB
/// are read. A status below 400 is judged by its body alone.
#[must_use]
pub fn classify(status: StatusCode, headers: &HeaderMap, body: &[u8], unix: Duration) -> Failure {
    let wait = stated_wait(headers, unix);
    let word = text(headers, "x-should-retry").and_then(yes_or_no);
    let told_status = (status.as_u16() >= 400).then_some(status);
    let failure = match body::read(headers, body) {
        Body::Told(value) => {
            let told = Told::new(&value);
            let wait = wait.or_else(|| told.wait(unix));
            let evidence = Evidence { status: told_status.or_else(|| told.status()), told: &told, wait };
            let edge = status == StatusCode::FORBIDDEN && (is_challenge(headers) || told.is_edge());
            let code = if edge { Code::Blocked } else { evidence.judge() };
            Failure::new(code, clean::message(&told))
                .with_retry_after(wait)
                .with_should_retry(word.or_else(|| told.retryable()))
        }
        unreadable => Failure::new(of_unreadable(status, headers, &unreadable), unreadable.excuse())
            .with_retry_after(wait)
            .with_should_retry(word),
    };
    failure.with_status(status).with_limits(limits::read(headers, unix))
}

/// Classifies an error inside a 200: a stream's frame, or a whole body, that carries one.
///
/// Takes the whole frame in any shape: `error` as an object, a string or beside an event type, flat, inside
/// `response` or a choice, or in an array. The failure's status is the 200 it came with.
#[must_use]
pub fn in_band(frame: &Value, unix: Duration) -> Failure {
    let told = Told::new(frame);
    let wait = told.wait(unix);
    let code = Evidence { status: told.status(), told: &told, wait }.judge();
    Failure::new(code, clean::message(&told))
        .with_status(StatusCode::OK)
        .with_retry_after(wait)
        .with_should_retry(told.retryable())
}

// === impl Evidence ===

impl Evidence<'_> {
    fn judge(&self) -> Code {
        self.too_large()
            .or_else(|| self.specific())
            .or_else(|| self.words())
            .or_else(|| self.status.and_then(Code::of_status))
            .or_else(|| self.told.names().find_map(names::generic))
            .unwrap_or(Code::Server)
    }

    /// Step 1: larger than the provider ever takes at once.
    fn too_large(&self) -> Option<Code> {
        let throttled = match self.status {
            Some(status) => status == StatusCode::TOO_MANY_REQUESTS,
            None => self.told.names().any(names::is_rate),
        };
        let refused = self.status == Some(StatusCode::PAYLOAD_TOO_LARGE)
            || throttled && prose::asks_beyond_limit(self.told.words());
        let overflows =
            phrases::is_overflow(self.told.words()) && !self.told.names().any(names::is_not_overflow);
        refused.then_some(if overflows { Code::ContextLength } else { Code::PayloadTooLarge })
    }

    /// Step 2: a code or type that means one thing. A spent quota outweighs what stands beside it.
    fn specific(&self) -> Option<Code> {
        if self.is_in_flight() {
            return Some(Code::RateLimited);
        }
        if self.is_spent_budget() {
            return Some(Code::QuotaExhausted);
        }
        let mut codes = self.told.names().filter_map(names::specific);
        let first = codes.next()?;
        let quota = first == Code::QuotaExhausted
            || codes.any(|code| code == Code::QuotaExhausted)
            || first == Code::RateLimited && prose::limit_is_zero(self.told.words());
        Some(if quota { Code::QuotaExhausted } else { first })
    }

    /// Step 3: what the words say, where words are believed.
    fn words(&self) -> Option<Code> {
        if self.status.is_some_and(|status| !WORDED.contains(&status.as_u16())) {
            return None;
        }
        let throttled = self.status == Some(StatusCode::TOO_MANY_REQUESTS);
        let words = self.told.words();
        if throttled && prose::limit_is_zero(words) {
            return Some(Code::QuotaExhausted);
        }
        phrases::code(words)
    }

    /// OpenRouter's 402 for costs still in flight: it passes by itself, if it says when.
    fn is_in_flight(&self) -> bool {
        let unpaid = self.status == Some(StatusCode::PAYMENT_REQUIRED);
        unpaid && self.wait.is_some() && self.told.names().any(|name| name == names::IN_FLIGHT)
    }

    /// OpenRouter's 403 for a budget that is spent: a refusal that says when it ends.
    fn is_spent_budget(&self) -> bool {
        self.status == Some(StatusCode::FORBIDDEN) && self.told.has_end()
    }
}

/// What an answer that tells nothing is: by its status, and a 403 with a page or a challenge is the edge's.
fn of_unreadable(status: StatusCode, headers: &HeaderMap, body: &Body) -> Code {
    match Code::of_status(status) {
        Some(Code::Permission) if matches!(body, Body::Page) || is_challenge(headers) => Code::Blocked,
        Some(code) => code,
        None => Code::InvalidResponse,
    }
}

/// Whether Cloudflare says that it asks for a browser.
fn is_challenge(headers: &HeaderMap) -> bool {
    headers.contains_key("cf-mitigated")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn yes_or_no(word: &str) -> Option<bool> {
    match word.trim() {
        word if word.eq_ignore_ascii_case("true") => Some(true),
        word if word.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}
