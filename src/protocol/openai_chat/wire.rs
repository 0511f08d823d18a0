//! What a chunk and a whole reply look like, read leniently.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use crate::chat::{Stop, Usage};

/// A chunk, or a whole reply: they differ in `delta` and `message`. Whatever is absent, null or of another kind is
/// read again the slow way.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    pub(super) usage: Option<WireUsage>,
    pub(super) x_groq: Option<Groq>,
    /// Anything here is an error; it is read again as a whole.
    pub(super) error: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Cow<'a, str>>,
    pub(super) error: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) reasoning: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) refusal: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<Fragment<'a>>>,
    #[serde(borrow)]
    pub(super) function_call: Option<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fragment<'a> {
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
    #[serde(borrow)]
    pub(super) custom: Option<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) arguments: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) input: Option<Cow<'a, str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Groq {
    pub(super) usage: Option<WireUsage>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<InputDetails>,
    completion_tokens_details: Option<OutputDetails>,
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

// === impl WireUsage ===

impl WireUsage {
    /// The figures, if there are any.
    pub(super) fn figures(&self) -> Option<Usage> {
        if self.prompt_tokens.is_none() && self.completion_tokens.is_none() {
            return None;
        }
        let input = self.prompt_tokens_details.clone().unwrap_or_default();
        let output = self.completion_tokens_details.clone().unwrap_or_default();
        Some(Usage {
            input: self.prompt_tokens.unwrap_or(0),
            cached_read: input.cached_tokens.or(self.prompt_cache_hit_tokens).unwrap_or(0),
            cached_write: input.cache_write_tokens.unwrap_or(0),
            output: self.completion_tokens.unwrap_or(0),
            reasoning: output.reasoning_tokens.unwrap_or(0),
        })
    }

    /// The figures of an object of any shape.
    pub(super) fn of(value: &Value) -> Option<Usage> {
        let at = |path: &str| value.pointer(path).and_then(Value::as_u64);
        let usage = Self {
            prompt_tokens: at("/prompt_tokens"),
            completion_tokens: at("/completion_tokens"),
            prompt_tokens_details: Some(InputDetails {
                cached_tokens: at("/prompt_tokens_details/cached_tokens"),
                cache_write_tokens: at("/prompt_tokens_details/cache_write_tokens"),
            }),
            completion_tokens_details: Some(OutputDetails {
                reasoning_tokens: at("/completion_tokens_details/reasoning_tokens"),
            }),
            prompt_cache_hit_tokens: at("/prompt_cache_hit_tokens"),
        };
        usage.figures()
    }
}

/// The stop that a finish reason means; `None` for the two that are failures.
pub(super) fn stop(reason: &str) -> Option<Stop> {
    Some(match reason {
        "stop" | "eos" | "end_turn" => Stop::End,
        "length" | "max_tokens" | "model_length" => Stop::Length,
        "tool_calls" | "function_call" | "tool_use" => Stop::ToolCalls,
        "content_filter" => Stop::ContentFilter,
        "error" | "insufficient_system_resource" => return None,
        other => Stop::Other(other.into()),
    })
}
