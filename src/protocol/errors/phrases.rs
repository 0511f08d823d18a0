//! The words by which an error without a telling code is known. All in lower case, all fragments.

use crate::failure::Code;

/// A conversation longer than the window. A row matches if all its fragments are there.
const OVERFLOW: [&[&str]; 22] = [
    // OpenAI, Azure, DeepSeek, OpenRouter, vLLM, Mistral
    &["maximum context length"],
    // OpenAI Responses
    &["exceeds the context window"],
    &["exceeded the context window"],
    // Azure
    &["input tokens exceed the configured limit"],
    // Anthropic
    &["prompt is too long"],
    &["exceed context limit"],
    // vLLM
    &["prompt contains", "characters (more than"],
    &["max_tokens", "is too large:", " > "],
    &["max_completion_tokens", "is too large:", " > "],
    // llama.cpp
    &["exceeds the available context size"],
    &["is larger than the max context size"],
    // Groq
    &["reduce the length of the messages"],
    // Together
    &["max_tokens", "context length"],
    &["max_new_tokens", "context length"],
    &["tokens", "must not exceed", "max_new_tokens"],
    // Gemini
    &["input token count", "exceeds the maximum number of tokens"],
    // Bedrock
    &["input is too long for requested model"],
    // xAI, Cerebras, TGI
    &["maximum prompt length is"],
    &["current length is", "while limit is"],
    &["`inputs` tokens + `max_new_tokens` must be <="],
    // Scaleway and others that say it in their own words
    &["exceeds the maximum context"],
    &["exceeded maximum context window"],
];

/// What speaks of a rate though it counts tokens.
const NOT_OVERFLOW: [&str; 3] = ["rate limit", "tokens per min", "quota"];

/// Money or allowance that is spent.
const QUOTA: [&str; 5] = [
    // Anthropic's self-set limits, on a 400
    "specified api usage limits",
    "specified workspace api usage limits",
    // Anthropic, prepaid
    "credit balance is too low",
    // DeepSeek
    "insufficient balance",
    // OpenAI's billing, where a proxy dropped the code
    "check your plan and billing",
];

/// Gemini says that its plan and billing be checked on each rate limit too, but then also when to come back.
const NOT_QUOTA: &str = "retry in";

/// A filter that refused the request.
const FILTER: [&str; 3] = [
    // Azure
    "content management policy",
    // Anthropic
    "content filtering policy",
    // OpenAI
    "our safety system",
];

/// The code that the words stand for, if they are known.
pub(super) fn code(words: &str) -> Option<Code> {
    if QUOTA.iter().any(|phrase| words.contains(phrase)) && !words.contains(NOT_QUOTA) {
        Some(Code::QuotaExhausted)
    } else if is_overflow(words) {
        Some(Code::ContextLength)
    } else if FILTER.iter().any(|phrase| words.contains(phrase)) {
        Some(Code::ContentFilter)
    } else {
        None
    }
}

/// Whether the words say that the conversation is longer than the window.
pub(super) fn is_overflow(words: &str) -> bool {
    !NOT_OVERFLOW.iter().any(|phrase| words.contains(phrase))
        && OVERFLOW.iter().any(|row| row.iter().all(|phrase| words.contains(phrase)))
}
