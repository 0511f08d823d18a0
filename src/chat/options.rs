//! Tools and options of a request.

use serde_json::Value;

use super::extra::Extra;
use super::part::CacheBreakpoint;

/// A tool offered to the model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tool {
    /// Its name; empty for a tool of the provider's own, which then stands whole in [`extra`](Self::extra).
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub schema: Option<Value>,
    /// Whether the provider must hold the model to the schema.
    pub strict: Option<bool>,
    /// The prompt up to here may be cached.
    pub cache: Option<CacheBreakpoint>,
    /// What the protocol says beyond that.
    pub extra: Extra,
}

/// Whether and which tool the model must call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// How hard the model should think, where a protocol knows words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effort {
    /// In the provider's word: `minimal`, `low`, `medium`, `high`, …
    Named(String),
    /// At most this many tokens.
    Tokens(u64),
    /// As the model sees fit.
    Adaptive,
    /// Not at all.
    Off,
}

/// What is asked of the model's thinking.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ReasoningOptions {
    /// How hard.
    pub effort: Option<Effort>,
    /// What the protocol says beyond that.
    pub extra: Extra,
}

/// Sampling and limits. An option that is `None` is not sent.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Sampling among the first k.
    pub top_k: Option<u64>,
    /// The most output tokens, reasoning included. Of several caps declared, the largest.
    pub max_output_tokens: Option<u64>,
    /// Texts that end the output.
    pub stop: Vec<String>,
    /// Seed of the sampling.
    pub seed: Option<i64>,
    /// Whether and which tool must be called.
    pub tool_choice: Option<ToolChoice>,
    /// Whether several tools may be called in one turn.
    pub parallel_tool_calls: Option<bool>,
    /// Thinking.
    pub reasoning: Option<ReasoningOptions>,
}

// === impl Tool ===

impl Tool {
    /// A tool with the JSON Schema of its arguments.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, schema: Value) -> Self {
        Self {
            name: name.into(),
            description: Some(description.into()),
            schema: Some(schema),
            strict: None,
            cache: None,
            extra: Extra::NONE,
        }
    }
}

// === impl ReasoningOptions ===

impl ReasoningOptions {
    /// Thinking of this effort.
    #[must_use]
    pub const fn new(effort: Effort) -> Self {
        Self { effort: Some(effort), extra: Extra::NONE }
    }
}
