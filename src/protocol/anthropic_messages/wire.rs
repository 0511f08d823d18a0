//! What whole and streamed replies share: usage, stop reasons, indices.

use serde_json::Value;

use crate::chat::{Stop, Usage};

use super::Fields;

/// What carries an answer, whole or in events: data of these that cannot be read is a piece of it lost.
pub(super) const CONTENT: [&str; 7] = [
    "content_block_delta",
    "content_block_start",
    "content_block_stop",
    "message",
    "message_delta",
    "message_start",
    "message_stop",
];

/// Usage as it grows: a later figure replaces an earlier one, what is not told stays, and a zero takes back nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    input: u64,
    cache_write: u64,
    cache_read: u64,
    output: u64,
    thinking: u64,
}

// === impl Figures ===

impl Figures {
    /// Takes in what is told, out of the object that tells it.
    pub(super) fn take(&mut self, usage: &mut Fields) {
        let mut update = |known: &mut u64, name: &str| {
            if let Some(told) = usage.remove(name).and_then(|told| told.as_u64()).filter(|told| *told > 0) {
                *known = told;
            }
        };
        update(&mut self.input, "input_tokens");
        update(&mut self.cache_write, "cache_creation_input_tokens");
        update(&mut self.cache_read, "cache_read_input_tokens");
        update(&mut self.output, "output_tokens");
        let thought =
            usage.get("output_tokens_details").and_then(|details| details.get("thinking_tokens")?.as_u64());
        if let Some(told) = thought.filter(|told| *told > 0) {
            self.thinking = told;
        }
    }

    /// The usage, if any was told.
    pub(super) fn usage(&self) -> Option<Usage> {
        let input = self.input.saturating_add(self.cache_write).saturating_add(self.cache_read);
        (input > 0 || self.output > 0).then_some(Usage {
            input,
            cached_read: self.cache_read,
            cached_write: self.cache_write,
            output: self.output,
            reasoning: self.thinking,
        })
    }
}

/// The index of a block, which some send as a string.
pub(super) fn index(frame: &Value) -> Option<u64> {
    let index = frame.get("index")?;
    index.as_u64().or_else(|| index.as_str()?.parse().ok())
}

/// A stop reason in our words; `None` if there is none.
pub(super) fn stop(fields: &Fields) -> Option<Stop> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let reason = text("stop_reason").filter(|reason| !reason.is_empty())?;
    Some(match reason {
        "end_turn" => Stop::End,
        "max_tokens" => Stop::Length,
        "stop_sequence" => Stop::StopSequence(text("stop_sequence").map(Into::into)),
        "tool_use" => Stop::ToolCalls,
        "pause_turn" => Stop::Pause,
        "refusal" => Stop::Refusal,
        "model_context_window_exceeded" => Stop::Window,
        other => Stop::Other(other.into()),
    })
}
