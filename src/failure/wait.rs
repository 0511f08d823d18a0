//! The wait a response states in its headers.

use std::time::Duration;

use http::HeaderMap;

/// When a refused call is to come back where nobody can say how long others stay: the first wait of a retry, soon enough
/// and no storm.
pub(crate) const COME_BACK: Duration = Duration::from_secs(1);

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
        let date = httpdate::HttpDate::from(httpdate::parse_http_date(trim(value)).ok()?);
        let at: Duration = since_epoch(date)?;
        // Rounded up: waking in the last part of the second before the date would be too early.
        let wait = at.saturating_sub(unix);
        Some(Duration::from_millis(u64::try_from(wait.as_nanos().div_ceil(1_000_000)).ok()?))
    })
}

/// A plain decimal of this unit, in seconds. No sign, no exponent, no words.
fn seconds(value: &str, unit: f64) -> Option<Duration> {
    let value = trim(value);
    let plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = plain.then(|| value.parse::<f64>().ok())??;
    Duration::try_from_secs_f64(number * unit).ok()
}

/// Takes off the blanks that HTTP allows around a value, and no others.
fn trim(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// The time of an HTTP date since the Unix epoch.
fn since_epoch(date: httpdate::HttpDate) -> Option<Duration> {
    #[expect(clippy::disallowed_types, reason = "the date type of the parser; no clock is read")]
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    #[expect(clippy::disallowed_types, reason = "as above")]
    let at = std::time::SystemTime::from(date);
    at.duration_since(epoch).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// 2025-03-01T12:00:00Z.
    const NOW: Duration = Duration::from_secs(1_740_830_400);

    /// Scenario: every value seen in the wild or feared, read at noon on 1 March 2025.
    /// Expected: MUST be the wait in milliseconds; words, signs, infinities and impossible dates are absent.
    #[test]
    fn a_retry_after_is_read_or_absent() {
        let rows = [
            ("2", Some(2_000)),
            ("0", Some(0)),
            ("  3 ", Some(3_000)),
            ("1.5", Some(1_500)),
            ("86400", Some(86_400_000)),
            ("-1", None),
            ("-0.5", None),
            ("abc", None),
            ("", None),
            (".", None),
            ("1.2.3", None),
            ("1e3", None),
            ("inf", None),
            ("nan", None),
            ("5 seconds", None),
            ("\u{a0}3", None),
            ("99999999999999999999999999", None),
            ("Sat, 01 Mar 2025 12:00:05 GMT", Some(5_000)),
            ("Saturday, 01-Mar-25 12:00:05 GMT", Some(5_000)),
            ("Sat Mar  1 12:00:05 2025", Some(5_000)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(0)),
            ("Sat, 32 Mar 2025 12:00:00 GMT", None),
        ];
        for (value, millis) in rows {
            assert_eq!(parse_retry_after(value, NOW), millis.map(Duration::from_millis), "{value:?}");
        }
    }

    /// Scenario: a date five seconds ahead, read three tenths of a millisecond after the full second.
    /// Expected: MUST round up, so that nobody wakes before the date.
    #[test]
    fn a_date_rounds_up() {
        let now = NOW + Duration::from_micros(300);
        let wait = parse_retry_after("Sat, 01 Mar 2025 12:00:05 GMT", now);
        assert_eq!(wait, Some(Duration::from_millis(5_000)));
    }

    /// Scenario: both headers; milliseconds that cannot be read; bytes that are not ASCII.
    /// Expected: MUST take milliseconds first, seconds where they cannot be read, nothing where neither can.
    #[test]
    fn milliseconds_come_first() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_static("5"));
        headers.insert("retry-after-ms", HeaderValue::from_static("300"));
        assert_eq!(stated_wait(&headers, NOW), Some(Duration::from_millis(300)));
        headers.insert("retry-after-ms", HeaderValue::from_static("soon"));
        assert_eq!(stated_wait(&headers, NOW), Some(Duration::from_secs(5)));
        headers.insert("retry-after", HeaderValue::from_bytes(b"\xc2\xa03").unwrap());
        assert_eq!(stated_wait(&headers, NOW), None);
    }
}
