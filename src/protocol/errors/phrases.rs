//! What errors say in prose, where no code says it. Matched in small letters, on fragments.

use crate::failure::Code;

/// Never an overflow, whatever else the text says.
const VETO: [&str; 4] = ["rate limit", "tokens per min", "quota", "requests per"];

/// The conversation is longer than the window.
const OVERFLOW: [&str; 22] = [
    "maximum context length",
    "context length exceeded",
    "context window",
    "exceeds the available context size",
    "larger than the max context size",
    "exceed context limit",
    "exceeds the context limit",
    "prompt is too long",
    "input is too long",
    "input tokens exceed",
    "input token count",
    "exceeds this limit even without any output",
    "maximum prompt length is",
    "reduce the length of the messages",
    "while limit is",
    "max_new_tokens` must be",
    "under the context length",
    "within the context length",
    "context_length",
    "too large for model with",
    "exceeds the model's context",
    "exceeds the maximum number of tokens allowed",
];

/// The account is spent.
const QUOTA: [&str; 14] = [
    "you have reached your specified",
    "insufficient balance",
    "insufficient credit",
    "insufficient_quota",
    "exceeded your current quota",
    "credit balance is too low",
    "billing hard limit",
    "check your plan and billing",
    "spend limit",
    "spending limit",
    "usage limit reached",
    "no credits",
    "out of credits",
    "limit: 0",
];

/// A filter refused.
const FILTER: [&str; 3] = ["content management policy", "content filter", "content policy"];

/// There is no capacity for now.
const OVERLOAD: [&str; 7] = [
    "overloaded",
    "engine is currently busy",
    "loading model",
    "no slot available",
    "at capacity",
    "capacity",
    "too busy",
];

/// What the text says, if it says anything known.
pub(super) fn judge(text: &str) -> Option<Code> {
    if any(text, &QUOTA) {
        Some(Code::QuotaExhausted)
    } else if overflow(text) {
        Some(Code::ContextLength)
    } else if any(text, &FILTER) {
        Some(Code::ContentFilter)
    } else {
        None
    }
}

/// Whether the text says that the conversation is longer than the window.
pub(super) fn overflow(text: &str) -> bool {
    let overflows = any(text, &OVERFLOW)
        || (text.contains("is too large") && text.contains("max_tokens"))
        || (text.contains("tokens") && text.contains("exceeds the model"));
    overflows && !any(text, &VETO)
}

/// Whether the text says that there is no capacity for now.
pub(super) fn overload(text: &str) -> bool {
    any(text, &OVERLOAD)
}

fn any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}
