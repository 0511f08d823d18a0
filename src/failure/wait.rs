//! The wait a response states in its headers.

use std::time::Duration;

use http::HeaderMap;

/// The wait stated in the headers: `retry-after-ms` first, then `retry-after`.
///
/// `unix` is the wall time, for the date forms. What cannot be read is absent.
#[must_use]
pub fn stated_wait(headers: &HeaderMap, unix: Duration) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let millis = text("retry-after-ms").and_then(|value| seconds(value, 1e-3));
    millis.or_else(|| text("retry-after").and_then(|value| parse_retry_after(value, unix)))
}

/// Reads a `Retry-After` value: seconds (a decimal is taken, since the official clients take it) or one of the
/// three HTTP date forms. A date that is past is zero; anything else is `None`.
#[must_use]
pub fn parse_retry_after(value: &str, unix: Duration) -> Option<Duration> {
    seconds(value, 1.0).or_else(|| {
        let date = httpdate::HttpDate::from(httpdate::parse_http_date(value.trim()).ok()?);
        let at: Duration = since_epoch(date)?;
        // Rounded up: waking in the last part of the second before the date would be too early.
        let wait = at.saturating_sub(unix);
        Some(Duration::from_millis(u64::try_from(wait.as_nanos().div_ceil(1_000_000)).ok()?))
    })
}

/// A plain decimal of this unit, in seconds. No sign, no exponent, no words.
fn seconds(value: &str, unit: f64) -> Option<Duration> {
    let value = value.trim();
    let plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = plain.then(|| value.parse::<f64>().ok())??;
    Duration::try_from_secs_f64(number * unit).ok()
}

/// The time of an HTTP date since the Unix epoch.
fn since_epoch(date: httpdate::HttpDate) -> Option<Duration> {
    #[expect(clippy::disallowed_types, reason = "the date type of the parser; no clock is read")]
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    #[expect(clippy::disallowed_types, reason = "as above")]
    let at = std::time::SystemTime::from(date);
    at.duration_since(epoch).ok()
}
