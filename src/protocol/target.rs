//! For whom a request is written.

use serde::{Deserialize, Serialize};

use crate::chat::Reasoning;

/// What differs between providers of one protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent habits of a provider, not a state")]
pub struct Dialect {
    /// The name of the cap on output in Chat Completions; `None` writes the name it was read with, and
    /// `max_completion_tokens` where there was none.
    pub output_cap: Option<OutputCap>,
    /// Whether a streamed chat asks for usage (`stream_options.include_usage`). On by default: without it a
    /// stream never says what it used. Off where a provider rejects the option or sends usage unasked.
    pub ask_usage: bool,
    /// Whether a Messages stream may end after its stop reason, without `message_stop`. Off by default: the first
    /// party always sends it; some compatible servers do not.
    pub stop_reason_ends: bool,
    /// Whether the model in the body is left out, since the address names it (Azure deployments).
    pub model_in_url: bool,
    /// Whether a chat may carry cache breakpoints (`cache_control`, as OpenRouter takes it) that were not read from
    /// one. Off by default: the first party refuses the field, and caches by itself.
    pub cache_marks: bool,
}

/// The name of the cap on output in Chat Completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutputCap {
    /// The older name, which most compatible providers know.
    MaxTokens,
    /// The newer name, which reasoning models of OpenAI demand.
    MaxCompletionTokens,
}

/// For whom a request is written.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Target<'a> {
    /// The model, in the provider's word.
    pub model: &'a str,
    /// What differs there.
    pub dialect: &'a Dialect,
    /// The provider instance (profile and credential), whose own replay state is sent back to it.
    pub instance: Option<&'a str>,
    /// Whether replay state that names no instance is taken for its own.
    pub owns_unlabelled: bool,
}

// === impl Dialect ===

impl Default for Dialect {
    fn default() -> Self {
        Self {
            output_cap: None,
            ask_usage: true,
            stop_reason_ends: false,
            model_in_url: false,
            cache_marks: false,
        }
    }
}

// === impl Target ===

impl<'a> Target<'a> {
    /// A target of this model that takes replay state as it comes: the first candidate.
    #[must_use]
    pub const fn new(model: &'a str, dialect: &'a Dialect) -> Self {
        Self { model, dialect, instance: None, owns_unlabelled: true }
    }

    /// Whether the target made this replay state, so that it may be sent back to it.
    #[must_use]
    pub fn owns(&self, reasoning: &Reasoning) -> bool {
        match (&reasoning.origin, self.instance) {
            (None, _) => self.owns_unlabelled,
            (Some(origin), Some(instance)) => origin.as_ref() == instance,
            (Some(_), None) => false,
        }
    }
}
