//! Figures in an error's words: a wait, a limit, what was requested. The words are in lower case.

use std::time::Duration;

use crate::protocol::limits::{millis, quantity};

/// What a wait follows.
const LEADS: [&str; 4] = ["try again in", "retry after", "retry in", "try again after"];

/// Nanoseconds in a second.
const SECOND: u128 = 1_000_000_000;

/// The wait told in the words: "try again in 4.77s", "retry after 32 seconds", "retry in 1m30s".
pub(super) fn wait(words: &str) -> Option<Duration> {
    LEADS
        .iter()
        .find_map(|lead| words.match_indices(lead).find_map(|(at, _)| span(&words[at + lead.len()..])))
}

/// Whether more was requested than the limit is, so that no wait helps.
pub(super) fn asks_beyond_limit(words: &str) -> bool {
    let limit = figure_after(words, "limit");
    let asked = figure_after(words, "requested");
    limit.zip(asked).is_some_and(|(limit, asked)| limit > 0 && asked > limit)
}

/// Whether the limit is nothing at all: there is no quota to wait for.
pub(super) fn limit_is_zero(words: &str) -> bool {
    figures_after(words, "limit").any(|figure| figure == 0)
}

/// Quantities one after another.
fn span(text: &str) -> Option<Duration> {
    let (mut total, mut rest) = quantity(text.trim_start_matches(' '), unit)?;
    while let Some((more, after)) = quantity(rest.trim_start_matches(' '), unit) {
        total = total.checked_add(more)?;
        rest = after;
    }
    millis(total)
}

fn unit(word: &str) -> Option<u128> {
    Some(match word {
        "ms" | "millisecond" | "milliseconds" => SECOND / 1_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600 * SECOND,
        "d" | "day" | "days" => 86_400 * SECOND,
        _ => return None,
    })
}

fn figure_after(words: &str, lead: &str) -> Option<u64> {
    figures_after(words, lead).next()
}

/// The whole numbers right behind a word: "limit 30000", "limit: 30,000".
fn figures_after<'a>(words: &'a str, lead: &'a str) -> impl Iterator<Item = u64> + 'a {
    words.match_indices(lead).filter_map(move |(at, _)| figure(&words[at + lead.len()..]))
}

/// A whole number behind blanks or a colon, its thousands perhaps set off by commas; none with decimals.
fn figure(text: &str) -> Option<u64> {
    let text = text.trim_start_matches([' ', ':']);
    let mut figure = None::<u64>;
    let mut rest = text.bytes().peekable();
    while let Some(byte) = rest.next() {
        let digit_next = rest.peek().is_some_and(u8::is_ascii_digit);
        match byte {
            b'0'..=b'9' => {
                figure = Some(figure.unwrap_or(0).checked_mul(10)?.checked_add(u64::from(byte - b'0'))?);
            }
            b',' if figure.is_some() && digit_next => {}
            b'.' if digit_next => return None,
            _ => break,
        }
    }
    figure
}
