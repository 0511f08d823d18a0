//! The rate limits that responses tell in their headers.
//!
//! Each dimension stands for itself: an absent header stays unknown; a limit that is zero, negative or unreadable
//! drops that dimension; what remains is clamped to the limit, and a negative remainder is zero. A reset is the time
//! until the limit is full again, not until the next request is allowed.

use std::time::Duration;

use http::HeaderMap;

use crate::chat::{Dimension, Limits, Window};

/// Names of the headers of one dimension: limit, remaining, reset.
type Names = (Dimension, &'static str, &'static str, &'static str);

/// The families of headers, those of a whole minute or of no stated period first.
const FAMILIES: [Names; 11] = [
    (
        Dimension::Requests,
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ),
    (
        Dimension::Tokens,
        "x-ratelimit-limit-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
    ),
    (
        Dimension::Tokens,
        "x-ratelimit-limit-project-tokens",
        "x-ratelimit-remaining-project-tokens",
        "x-ratelimit-reset-project-tokens",
    ),
    (
        Dimension::Requests,
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ),
    (
        Dimension::Tokens,
        "anthropic-ratelimit-tokens-limit",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ),
    (
        Dimension::InputTokens,
        "anthropic-ratelimit-input-tokens-limit",
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ),
    (
        Dimension::OutputTokens,
        "anthropic-ratelimit-output-tokens-limit",
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ),
    (Dimension::Tokens, "x-ratelimit-limit-tokens-minute", "x-ratelimit-remaining-tokens-minute", ""),
    (Dimension::Requests, "x-ratelimit-limit-req-minute", "x-ratelimit-remaining-req-minute", ""),
    (Dimension::Requests, "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
    (Dimension::Tokens, "x-tokenlimit-limit", "x-tokenlimit-remaining", ""),
];

/// Seconds below this are a wait, above it a date: no wait is thirty years long.
const EARLIEST_DATE: f64 = 1e9;

/// Dates below this are in seconds, above it in milliseconds.
const EARLIEST_MILLIS: f64 = 1e12;

/// Reads the limits that a response tells. `daily_requests`: this provider's request limits are per day.
#[must_use]
pub fn read(headers: &HeaderMap, unix: Duration, daily_requests: bool) -> Limits {
    let mut limits = Limits::default();
    for (dimension, limit, remaining, reset) in FAMILIES {
        let Some(told) = window(headers, unix, (dimension, limit, remaining, reset)) else { continue };
        let dimension = match dimension {
            Dimension::Requests if daily_requests => Dimension::RequestsPerDay,
            other => other,
        };
        let known = limits.entry(dimension);
        // Two families that tell of one dimension: the one with less left is in force.
        let tighter = match (known.remaining, told.remaining) {
            (Some(known), Some(told)) => told < known,
            (known, told) => known.is_none() || told.is_some(),
        };
        if tighter {
            *known = Window { dimension, ..told };
        }
    }
    limits
}

fn window(
    headers: &HeaderMap,
    unix: Duration,
    (dimension, limit, remaining, reset): Names,
) -> Option<Window> {
    let text = |name: &str| headers.get(name).filter(|_| !name.is_empty())?.to_str().ok();
    let mut window = Window::unknown(dimension);
    window.limit = match text(limit) {
        None => None,
        Some(limit) => Some(u64::try_from(integer(limit)?).ok().filter(|limit| *limit > 0)?),
    };
    window.remaining = text(remaining).and_then(integer).map(|remaining| {
        let remaining = u64::try_from(remaining).unwrap_or(0);
        window.limit.map_or(remaining, |limit| remaining.min(limit))
    });
    window.reset = text(reset).and_then(|reset| parse_reset(reset, unix));
    (window != Window::unknown(dimension)).then_some(window)
}

/// A whole number, with thousands separators or without.
fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.contains(',') { text.replace(',', "").parse().ok() } else { text.parse().ok() }
}

/// Reads a reset: a Go duration (`6m0s`, `120ms`), bare seconds, a date of RFC 3339, or an epoch in seconds or
/// milliseconds. The whole text must be one of them. It is rounded up to milliseconds, and zero when it is past.
#[must_use]
pub fn parse_reset(text: &str, unix: Duration) -> Option<Duration> {
    let text = text.trim();
    let wait = if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        let number: f64 = text.parse().ok()?;
        if number < EARLIEST_DATE {
            Duration::try_from_secs_f64(number).ok()?
        } else {
            let seconds = if number < EARLIEST_MILLIS { number } else { number / 1e3 };
            Duration::try_from_secs_f64(seconds).ok()?.saturating_sub(unix)
        }
    } else {
        go_duration(text).or_else(|| date(text, unix))?
    };
    let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).ok()?;
    Some(Duration::from_millis(millis))
}

fn date(text: &str, unix: Duration) -> Option<Duration> {
    let date: jiff::Timestamp = text.parse().ok()?;
    let at = date.duration_since(jiff::Timestamp::UNIX_EPOCH);
    Some(Duration::try_from(at).unwrap_or_default().saturating_sub(unix))
}

/// Numbers with units, one after the other, and nothing else.
fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (length, unit) =
            [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)]
                .iter()
                .find_map(|(name, unit)| rest.starts_with(name).then_some((name.len(), *unit)))?;
        rest = &rest[length..];
        sum = sum.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
    }
    (!text.is_empty()).then_some(sum)
}
