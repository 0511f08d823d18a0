//! The rate limits in a response's headers, in every spelling we know.
//!
//! | spoken by | headers | reset |
//! |---|---|---|
//! | OpenAI, Azure, Groq, GitHub Models | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, `…-project-tokens` | Go duration, or seconds |
//! | Anthropic | `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}` | RFC 3339 |
//! | Mistral | `x-ratelimit-{limit,remaining}-{req,tokens}-minute` | none |
//! | Together | `x-ratelimit-{limit,remaining,reset}`, `x-tokenlimit-{limit,remaining}`, also `…-dynamic` | seconds |
//! | OpenRouter | `x-ratelimit-{limit,remaining,reset}` | an instant |
//!
//! What is absent stays unknown. A limit that is zero, negative or unreadable takes the figures beside it along.
//! `remaining` is held within 0 and the limit. Where two headers speak of one dimension, the tighter one counts.
//! Budgets that hold for a part of the traffic only (Anthropic's priority tier and fast mode, Mistral's month) are
//! left out.
//!
//! Two things the headers do not say. Whether `requests` are a minute's or a day's is the provider's habit: see
//! [`daily_requests`]. And the bare names of Together count by the second, those of OpenRouter by the minute or the
//! day; they are told apart by their reset. A limit by the second is not kept, since it is none by the minute.

mod reset;
#[cfg(test)]
mod tests;

use std::time::Duration;

use http::HeaderMap;

use crate::chat::{Dimension, Limits, Window};

pub use reset::parse_reset;
pub(super) use reset::{millis, quantity};

/// The headers of one dimension in one spelling. A name that is empty is not spoken there.
struct Names {
    dimension: Dimension,
    limit: &'static str,
    remaining: &'static str,
    reset: &'static str,
    /// The length of the window: stands for the reset where that is not told.
    period: &'static str,
}

/// Every spelling with a dimension in its name.
const SPELLINGS: [Names; 10] = [
    Names::new(
        Dimension::Requests,
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
        "x-ratelimit-renewalperiod-requests",
    ),
    Names::new(
        Dimension::Tokens,
        "x-ratelimit-limit-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
        "x-ratelimit-renewalperiod-tokens",
    ),
    Names::new(
        Dimension::Tokens,
        "x-ratelimit-limit-project-tokens",
        "x-ratelimit-remaining-project-tokens",
        "x-ratelimit-reset-project-tokens",
        "",
    ),
    Names::new(
        Dimension::Tokens,
        "x-ratelimit-limit-tokens_usage_based",
        "x-ratelimit-remaining-tokens_usage_based",
        "x-ratelimit-reset-tokens_usage_based",
        "",
    ),
    Names::new(
        Dimension::Requests,
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
        "",
    ),
    Names::new(
        Dimension::Tokens,
        "anthropic-ratelimit-tokens-limit",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
        "",
    ),
    Names::new(
        Dimension::InputTokens,
        "anthropic-ratelimit-input-tokens-limit",
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
        "",
    ),
    Names::new(
        Dimension::OutputTokens,
        "anthropic-ratelimit-output-tokens-limit",
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
        "",
    ),
    Names::new(
        Dimension::Requests,
        "x-ratelimit-limit-req-minute",
        "x-ratelimit-remaining-req-minute",
        "",
        "",
    ),
    Names::new(
        Dimension::Tokens,
        "x-ratelimit-limit-tokens-minute",
        "x-ratelimit-remaining-tokens-minute",
        "",
        "",
    ),
];

/// The spellings that name no period: Together's, and on requests OpenRouter's too.
const BARE: [Names; 4] = [
    Names::new(Dimension::Requests, "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", ""),
    Names::new(
        Dimension::Requests,
        "x-ratelimit-limit-dynamic",
        "x-ratelimit-remaining-dynamic",
        "x-ratelimit-reset-dynamic",
        "",
    ),
    Names::new(Dimension::Tokens, "x-tokenlimit-limit", "x-tokenlimit-remaining", "x-ratelimit-reset", ""),
    Names::new(
        Dimension::Tokens,
        "x-tokenlimit-limit-dynamic",
        "x-tokenlimit-remaining-dynamic",
        "x-ratelimit-reset-dynamic",
        "",
    ),
];

/// A number of this many digits is an instant, as in [`parse_reset`]; seconds to wait have fewer.
const INSTANT_DIGITS: usize = 10;

/// A window that is full again later than this is a day's, not a minute's.
const MINUTE: Duration = Duration::from_secs(60);

/// Reads all limits told in the headers; `unix` is the wall time, for resets told as an instant.
#[must_use]
pub fn read(headers: &HeaderMap, unix: Duration) -> Limits {
    let mut limits = Limits::default();
    for names in &SPELLINGS {
        note(&mut limits, names.window(headers, unix));
    }
    for names in &BARE {
        note(&mut limits, names.window(headers, unix).map(|window| names.by_reset(window, headers)));
    }
    limits
}

/// Takes requests for a day's: for a provider whose `requests` headers count by the day (Groq).
#[must_use]
pub fn daily_requests(limits: &Limits) -> Limits {
    let mut daily = Limits::default();
    for window in limits.windows() {
        let dimension = match window.dimension {
            Dimension::Requests => Dimension::RequestsPerDay,
            other => other,
        };
        note(&mut daily, Some(Window { dimension, ..*window }));
    }
    daily
}

// === impl Names ===

impl Names {
    const fn new(
        dimension: Dimension,
        limit: &'static str,
        remaining: &'static str,
        reset: &'static str,
        period: &'static str,
    ) -> Self {
        Self { dimension, limit, remaining, reset, period }
    }

    /// What the headers say of this dimension, if anything that counts.
    fn window(&self, headers: &HeaderMap, unix: Duration) -> Option<Window> {
        let limit = match text(headers, self.limit) {
            Some(told) => Some(whole(told).and_then(|limit| u64::try_from(limit).ok()).filter(|&l| l > 0)?),
            None => None,
        };
        let remaining = text(headers, self.remaining)
            .and_then(whole)
            .map(|left| u64::try_from(left).unwrap_or(0).min(limit.unwrap_or(u64::MAX)));
        if limit.is_none() && remaining.is_none() {
            return None;
        }
        let reset = text(headers, self.reset)
            .and_then(|told| parse_reset(told, unix))
            .or_else(|| text(headers, self.period).and_then(|told| parse_reset(told, unix)));
        Some(Window { limit, remaining, reset, ..Window::unknown(self.dimension) })
    }

    /// Settles whose a bare window is: told to be full at an instant it is OpenRouter's, by the minute or the day;
    /// else it is Together's, by the second, and its limit says nothing by the minute.
    fn by_reset(&self, window: Window, headers: &HeaderMap) -> Window {
        let instant = text(headers, self.reset)
            .is_some_and(|told| told.bytes().take_while(u8::is_ascii_digit).count() >= INSTANT_DIGITS);
        if !instant {
            return Window { limit: None, ..window };
        }
        let dimension = match window.dimension {
            Dimension::Requests if window.reset > Some(MINUTE) => Dimension::RequestsPerDay,
            Dimension::Tokens if window.reset > Some(MINUTE) => Dimension::TokensPerDay,
            other => other,
        };
        Window { dimension, ..window }
    }
}

/// Keeps a window, or the tighter of two on one dimension.
fn note(limits: &mut Limits, window: Option<Window>) {
    let Some(window) = window.filter(|w| w.limit.is_some() || w.remaining.is_some()) else { return };
    let known = limits.entry(window.dimension);
    let untold = known.limit.is_none() && known.remaining.is_none();
    if untold || tightness(&window) < tightness(known) {
        *known = window;
    }
}

/// What is left first, what there can be second; the unknown is no limit.
fn tightness(window: &Window) -> (u64, u64) {
    (window.remaining.unwrap_or(u64::MAX), window.limit.unwrap_or(u64::MAX))
}

/// A header's text; an empty one is absent, and so is one that is not ASCII.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty()).then_some(value)
}

/// A whole number, also a negative one and one with its thousands set off by commas.
fn whole(told: &str) -> Option<i64> {
    let digits = told.strip_prefix('-').unwrap_or(told);
    let mut groups = digits.split(',');
    let head = groups.next()?;
    let grouped = digits.contains(',');
    let sound = !head.is_empty()
        && (!grouped || head.len() <= 3)
        && groups.all(|group| group.len() == 3)
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
    sound.then(|| told.replace(',', "").parse().ok())?
}
