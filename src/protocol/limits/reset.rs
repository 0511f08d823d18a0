//! When a limit is full again: Go durations, seconds, RFC 3339, instants since the epoch.

use std::time::Duration;

/// Nanoseconds in a millisecond: everything told is rounded up to whole ones.
const MILLI: u128 = 1_000_000;

/// Nanoseconds in a second.
const SECOND: u128 = 1_000 * MILLI;

/// From this on a bare number is an instant in seconds since the epoch; below it is a wait of seconds. A wait of a
/// thousand million seconds is 31 years.
const EPOCH_SECONDS: u128 = 1_000_000_000;

/// From this on a bare number is an instant in milliseconds since the epoch.
const EPOCH_MILLIS: u128 = 1_000_000_000_000;

/// The last millisecond of the year 9999: what lies later is no date.
const LAST_MILLI: u128 = 253_402_300_799_999;

/// The most digits read before the point; more is no figure anybody means.
const DIGITS: usize = 18;

/// The digits read behind the point; the rest is less than a nanosecond.
const DECIMALS: usize = 9;

/// Reads a reset: a Go duration (`6m0s`, `17ms`), bare seconds, an instant in RFC 3339, or one in seconds or
/// milliseconds since the epoch.
///
/// The whole value must be one of these. A wait is rounded up to the millisecond, an instant that is past is zero,
/// and what cannot be read is `None`, never zero.
#[must_use]
pub fn parse_reset(value: &str, unix: Duration) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    let bare = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if bare { number(value, unix) } else { go_duration(value).or_else(|| rfc3339(value, unix)) }
}

/// A decimal with its unit at the head of a text: nanoseconds, rounded up, and what follows. `unit` says how many
/// nanoseconds a word stands for.
pub(in crate::protocol) fn quantity(text: &str, unit: impl Fn(&str) -> Option<u128>) -> Option<(u128, &str)> {
    let (whole, decimals, rest) = decimal(text)?;
    let rest = rest.trim_start_matches(' ');
    let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let (word, rest) = rest.split_at(end);
    Some((scaled(whole, decimals, unit(word)?)?, rest))
}

/// Whole milliseconds, rounded up.
pub(in crate::protocol) fn millis(nanos: u128) -> Option<Duration> {
    u64::try_from(nanos.div_ceil(MILLI)).ok().map(Duration::from_millis)
}

/// A bare number, by its size.
fn number(value: &str, unix: Duration) -> Option<Duration> {
    let (whole, decimals, rest) = decimal(value)?;
    if !rest.is_empty() {
        return None;
    }
    match scaled(whole, "", 1)? {
        size if size < EPOCH_SECONDS => millis(scaled(whole, decimals, SECOND)?),
        size if size < EPOCH_MILLIS => until(scaled(whole, decimals, SECOND)?, unix),
        size if size <= LAST_MILLI => until(scaled(whole, decimals, MILLI)?, unix),
        _ => None,
    }
}

/// A duration as Go prints it: numbers and units without blanks between them.
fn go_duration(value: &str) -> Option<Duration> {
    let mut rest = value;
    let mut total = 0_u128;
    while !rest.is_empty() {
        if rest.contains(' ') {
            return None;
        }
        let (nanos, after) = quantity(rest, go_unit)?;
        total = total.checked_add(nanos)?;
        rest = after;
    }
    (!value.is_empty()).then(|| millis(total))?
}

fn go_unit(word: &str) -> Option<u128> {
    Some(match word {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => MILLI,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        _ => return None,
    })
}

/// An instant in RFC 3339, which has four digits of year, a date, a time and an offset.
fn rfc3339(value: &str, unix: Duration) -> Option<Duration> {
    let bytes = value.as_bytes();
    let dated = bytes.get(..4)?.iter().all(u8::is_ascii_digit) && bytes.get(4) == Some(&b'-');
    let timed = matches!(bytes.get(10), Some(b'T' | b't' | b' '));
    let instant: jiff::Timestamp = (dated && timed && !value.contains('[')).then(|| value.parse().ok())??;
    until(u128::try_from(instant.as_nanosecond()).unwrap_or(0), unix)
}

/// From now until an instant since the epoch.
fn until(instant: u128, unix: Duration) -> Option<Duration> {
    millis(instant.saturating_sub(unix.as_nanos()))
}

/// Digits, then perhaps a point and digits: both parts and what follows. A point that no digit follows is not
/// part of it: it ends a sentence.
fn decimal(text: &str) -> Option<(&str, &str, &str)> {
    let (whole, rest) = digits(text);
    if whole.is_empty() {
        return None;
    }
    match rest.strip_prefix('.').map(digits) {
        Some((decimals, after)) if !decimals.is_empty() => Some((whole, decimals, after)),
        _ => Some((whole, "", rest)),
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

/// A decimal times its unit, rounded up. In whole numbers, so that 179.56 s is 179,560 ms and not one more.
fn scaled(whole: &str, decimals: &str, unit: u128) -> Option<u128> {
    let decimals = &decimals[..decimals.len().min(DECIMALS)];
    let whole = whole.trim_start_matches('0');
    if whole.len() > DIGITS {
        return None;
    }
    let mut figure = 0_u128;
    for digit in whole.bytes().chain(decimals.bytes()) {
        figure = figure * 10 + u128::from(digit - b'0');
    }
    let places = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
    Some(figure.checked_mul(unit)?.div_ceil(places))
}
