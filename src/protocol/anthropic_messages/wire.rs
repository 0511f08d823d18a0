//! The frame that comes most, read in one pass and borrowed from its bytes; usage and stop reasons.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::chat::{Stop, Usage};

use super::Fields;

/// A frame that adds to a block. Strict: what does not fit is read again, leniently.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    pub(super) error: Option<IgnoredAny>,
}

/// What is new.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    partial_json: Option<Str<'a>>,
    #[serde(borrow)]
    thinking: Option<Str<'a>>,
    #[serde(borrow)]
    signature: Option<Str<'a>>,
}

/// A string, borrowed unless it holds escapes.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// What a delta of a kind we know adds.
#[derive(Debug)]
pub(super) enum Said<'a> {
    Text(Cow<'a, str>),
    Arguments(Cow<'a, str>),
    Thinking(Cow<'a, str>),
    Signature(Cow<'a, str>),
}

/// Usage as it grows: a later figure replaces an earlier one, what is not told stays, and a zero takes back nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    input: u64,
    cache_write: u64,
    cache_read: u64,
    output: u64,
    thinking: u64,
}

// === impl Delta ===

impl<'a> Delta<'a> {
    /// What it adds; `None` for a kind we do not know. One that names no kind is known by its field.
    pub(super) fn said(self) -> Option<Said<'a>> {
        let said = |text: Option<Str<'a>>| text.unwrap_or_default().0;
        Some(match self.kind.as_ref().map(|kind| &*kind.0) {
            Some("text_delta") => Said::Text(said(self.text)),
            Some("input_json_delta") => Said::Arguments(said(self.partial_json)),
            Some("thinking_delta") => Said::Thinking(said(self.thinking)),
            Some("signature_delta") => Said::Signature(said(self.signature)),
            Some(_) => return None,
            None => {
                let text = self.text.map(|text| Said::Text(text.0));
                let arguments = || self.partial_json.map(|text| Said::Arguments(text.0));
                let thinking = || self.thinking.map(|text| Said::Thinking(text.0));
                let signature = || self.signature.map(|text| Said::Signature(text.0));
                text.or_else(arguments).or_else(thinking).or_else(signature)?
            }
        })
    }
}

// === impl Frame ===

impl<'a> Frame<'a> {
    /// Reads a frame of any shape.
    pub(super) fn lenient(frame: &'a Value) -> Self {
        let text = |at: &'a Value, name: &str| Some(Str(Cow::Borrowed(at.get(name)?.as_str()?)));
        let delta = frame.get("delta").map(|delta| Delta {
            kind: text(delta, "type"),
            text: text(delta, "text"),
            partial_json: text(delta, "partial_json"),
            thinking: text(delta, "thinking"),
            signature: text(delta, "signature"),
        });
        Self { kind: text(frame, "type"), index: index(frame), delta, error: None }
    }
}

/// The index of a block, which some send as a string.
pub(super) fn index(frame: &Value) -> Option<u64> {
    let index = frame.get("index")?;
    index.as_u64().or_else(|| index.as_str()?.parse().ok())
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
