//! What is known of a model.

use serde::{Deserialize, Serialize};

use crate::layers::timeout::Clocks;

/// What is known of a model. What is `None` is not known, and nothing is refused or clamped for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Its name at the provider; `None` where it is the name it is asked by.
    pub id: Option<String>,
    /// Tokens its window holds, input and output together.
    pub window: Option<u64>,
    /// The most output tokens it gives; a larger cap is lowered to it.
    pub max_output: Option<u64>,
    /// The cap supplied where a request has none and the model demands one.
    pub default_output: Option<u64>,
    /// What it costs.
    pub price: Option<Price>,
    /// Its price class.
    pub tier: Option<Tier>,
    /// How much of it may be used.
    pub quota: ModelQuota,
    /// What it can do.
    pub capabilities: Capabilities,
    /// How long it may take; `None` leaves it to the layer.
    pub clocks: Option<Clocks>,
    /// Whether it thinks first, so that its first output comes late.
    pub reasons: bool,
    /// Options it does not take: `temperature`, `top_p`, `top_k`, `stop`, `seed`, `parallel_tool_calls`,
    /// `tool_choice`, `reasoning`. They are left out, and the fact is told.
    pub rejects: Vec<String>,
}

/// What a million tokens cost, in US dollars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that no cache held.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from a cache; `None` where it costs as other input.
    #[serde(default)]
    pub cached_read: Option<f64>,
    /// Input written to a cache; `None` where it costs as other input.
    #[serde(default)]
    pub cached_write: Option<f64>,
    /// The day the price was read, as `2026-11-30`.
    pub as_of: String,
}

/// The price class of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tier {
    /// The dearest.
    Premium,
    /// Between.
    Standard,
    /// The cheapest.
    Budget,
}

/// How much of a model may be used, as the provider sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelQuota {
    /// Requests a minute.
    pub requests: Option<u64>,
    /// Tokens of both kinds a minute.
    pub tokens: Option<u64>,
    /// Input tokens a minute.
    pub input_tokens: Option<u64>,
    /// Output tokens a minute.
    pub output_tokens: Option<u64>,
    /// Requests a day.
    pub requests_per_day: Option<u64>,
    /// Tokens a day.
    pub tokens_per_day: Option<u64>,
    /// Calls at once.
    pub concurrency: Option<u64>,
}

/// What a model can do. Everything, unless it is said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "one answer for each thing a request may ask")]
pub struct Capabilities {
    /// Reads pictures.
    pub images: bool,
    /// Hears sound.
    pub audio: bool,
    /// Reads files.
    pub files: bool,
    /// Calls tools.
    pub tools: bool,
    /// Thinks when asked to.
    pub reasoning: bool,
    /// Streams.
    pub streaming: bool,
}

// === impl Price ===

impl Price {
    /// What a reply cost.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "money for people, not an account")]
    pub fn of(&self, usage: &crate::chat::Usage) -> f64 {
        let read = usage.cached_read as f64;
        let write = usage.cached_write as f64;
        let plain = usage.input.saturating_sub(usage.cached_read + usage.cached_write) as f64;
        let input = plain * self.input
            + read * self.cached_read.unwrap_or(self.input)
            + write * self.cached_write.unwrap_or(self.input);
        (input + usage.output as f64 * self.output) / 1e6
    }
}

// === impl Capabilities ===

impl Default for Capabilities {
    fn default() -> Self {
        Self { images: true, audio: true, files: true, tools: true, reasoning: true, streaming: true }
    }
}
