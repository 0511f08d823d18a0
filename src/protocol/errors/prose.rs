//! Waits and figures inside sentences, and keys taken out of them.

use std::time::Duration;

/// What stands before a wait.
const HINTS: [&str; 5] = ["try again in", "retry after", "retry in", "retry-after:", "available in"];

/// The wait a sentence states: `try again in 4.77s`, `retry after 30 seconds`, `in 6m0s`, `in 250ms`.
pub(super) fn wait(message: &str) -> Option<Duration> {
    let text = message.to_ascii_lowercase();
    HINTS.iter().find_map(|hint| {
        let at = text.find(hint)? + hint.len();
        duration(text[at..].trim_start())
    })
}

/// A duration at the start of a text: numbers with units, one after the other.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum: Option<Duration> = None;
    loop {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let Ok(number) = rest[..digits].trim_end_matches('.').parse::<f64>() else { break };
        let after = rest[digits..].trim_start();
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &after[..letters] {
            "ms" | "millisecond" | "milliseconds" => 1e-3,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        let part = Duration::try_from_secs_f64(number * unit).ok()?;
        sum = Some(sum.unwrap_or_default().checked_add(part)?);
        rest = after[letters..].trim_start();
    }
    sum
}

/// Whether a text says that the request alone is larger than the limit: `Limit 30000, Requested 30601`.
pub(super) fn asks_more_than_the_limit(text: &str) -> bool {
    let limit = figure(text, "limit ").or_else(|| figure(text, "limit: "));
    let requested = figure(text, "requested ").or_else(|| figure(text, "requested: "));
    limit.zip(requested).is_some_and(|(limit, requested)| requested > limit && limit > 0)
}

/// The first number after a word.
fn figure(text: &str, word: &str) -> Option<u64> {
    text.match_indices(word).find_map(|(at, _)| {
        let rest = &text[at + word.len()..];
        let digits: String =
            rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
        digits.parse().ok()
    })
}

/// Takes out what looks like a key: long words that begin as keys do, and whatever follows `Bearer`.
pub(super) fn redact(message: &str) -> String {
    const STARTS: [&str; 7] = ["sk-", "sk_", "gsk_", "xai-", "key-", "pk-", "AIza"];
    let mut out = String::with_capacity(message.len());
    let mut bearer = false;
    for word in message.split_inclusive(|c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | '(' | ')' | ':' | '=')
    }) {
        let core = word.trim_end_matches(|c: char| {
            !c.is_ascii_alphanumeric() && c != '-' && c != '_' && c != '*' && c != '.'
        });
        let secret = core.len() > 6 && (bearer || STARTS.iter().any(|start| core.starts_with(start)));
        if secret {
            out.push('…');
            out.push_str(&word[core.len()..]);
        } else {
            out.push_str(word);
        }
        bearer = core.eq_ignore_ascii_case("bearer") || (bearer && core.is_empty());
    }
    out
}
