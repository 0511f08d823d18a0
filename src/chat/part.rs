//! The parts of a message.

use std::sync::Arc;

use serde_json::Value;

use super::extra::Extra;
use super::media::Media;
use super::protocol::Protocol;

/// One part of a turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Part {
    /// What it is.
    pub content: Content,
    /// The prompt up to here may be cached.
    pub cache: Option<CacheBreakpoint>,
    /// What the protocol says beyond that.
    pub extra: Extra,
}

/// What a part is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(String),
    /// The model declines, in words.
    Refusal(String),
    /// A picture.
    Image(Media),
    /// Sound.
    Audio(Media),
    /// A file.
    File(Media),
    /// The model calls a tool.
    ToolCall(ToolCall),
    /// A tool answers.
    ToolResult(ToolResult),
    /// The model thinks.
    Reasoning(Reasoning),
    /// A part of a protocol that has no word of ours; it goes out to that protocol only.
    Other(Protocol, Value),
}

/// A call to a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The id that the result must name.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as the string that came: JSON, or what the model made of it.
    pub arguments: String,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The answer.
    pub parts: Vec<Part>,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// What the model thought, and the state a provider wants back unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reasoning {
    /// The thoughts, or a summary of them.
    pub text: String,
    /// Whether [`text`](Self::text) is a summary.
    pub summary: bool,
    /// The id of the item, where the protocol gives one.
    pub id: Option<String>,
    /// The provider's signature under the thoughts.
    pub signature: Option<String>,
    /// Thoughts only the provider can read.
    pub encrypted: Option<String>,
    /// The provider instance that made it. State goes back to that instance only; state that names none belongs
    /// to the first candidate.
    pub origin: Option<Arc<str>>,
}

/// A mark that the prompt up to here may be cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheBreakpoint {
    /// How long, in the protocol's words (`5m`, `1h`).
    pub ttl: Option<String>,
}

// === impl Part ===

impl Part {
    /// A part of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text(text.into()).into()
    }

    /// Bytes of text, media and arguments.
    pub(super) fn size(&self) -> usize {
        match &self.content {
            Content::Text(text) | Content::Refusal(text) => text.len(),
            Content::Image(media) | Content::Audio(media) | Content::File(media) => media.size(),
            Content::ToolCall(call) => call.name.len() + call.arguments.len(),
            Content::ToolResult(result) => result.parts.iter().map(Self::size).sum(),
            Content::Reasoning(reasoning) => {
                reasoning.text.len() + reasoning.encrypted.as_ref().map_or(0, String::len)
            }
            Content::Other(_, value) => value.to_string().len(),
        }
    }

    /// Marks that the prompt up to here may be cached.
    #[must_use]
    pub fn cached(mut self) -> Self {
        self.cache = Some(CacheBreakpoint::default());
        self
    }
}

impl From<Content> for Part {
    fn from(content: Content) -> Self {
        Self { content, cache: None, extra: Extra::NONE }
    }
}

// === impl ToolCall ===

impl ToolCall {
    /// A call.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into() }
    }
}

// === impl ToolResult ===

impl ToolResult {
    /// An answer in text.
    #[must_use]
    pub fn text(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: id.into(), parts: vec![Part::text(text)], is_error: false }
    }

    /// Marks that the tool failed.
    #[must_use]
    pub const fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }
}
