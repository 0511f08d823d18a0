//! Messages and their parts.

use std::sync::Arc;

use serde_json::Value;

use super::extra::Extra;
use super::media::Media;
use super::protocol::Protocol;
use super::tool_call::{ToolCall, ToolResult};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The operator, anywhere in the conversation.
    System,
    /// The operator, in the newer spelling of some protocols.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool. Where a protocol has no such role, its results go into a user turn.
    Tool,
}

/// One turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// What the protocol says beyond that.
    pub extra: Extra,
}

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

// === impl Message ===

impl Message {
    /// A turn of these parts.
    #[must_use]
    pub const fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, extra: Extra::NONE }
    }

    /// A turn of text.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self::new(role, vec![Part::text(text)])
    }

    /// The results of tools, as one turn.
    #[must_use]
    pub fn tool_results(results: impl IntoIterator<Item = ToolResult>) -> Self {
        Self::new(Role::Tool, results.into_iter().map(|result| Content::ToolResult(result).into()).collect())
    }

    /// All text of the turn, joined.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match &part.content {
                Content::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The tool calls of the turn, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match &part.content {
            Content::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Gives tool calls that got no arguments the empty object: what reads them expects JSON.
    pub(crate) fn fill_arguments(&mut self) {
        for part in &mut self.parts {
            if let Content::ToolCall(call) = &mut part.content
                && call.arguments.is_empty()
            {
                call.arguments.push_str("{}");
            }
        }
    }

    /// Bytes of text, media and arguments in the turn.
    #[must_use]
    pub fn size(&self) -> usize {
        self.parts.iter().map(Part::size).sum()
    }

    /// Whether the turn holds no text, refusal, reasoning, media or tool call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| match &part.content {
            Content::Text(text) | Content::Refusal(text) => text.is_empty(),
            Content::Reasoning(reasoning) => reasoning.text.is_empty() && reasoning.encrypted.is_none(),
            _ => false,
        })
    }
}

// === impl Part ===

impl Part {
    /// A part of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text(text.into()).into()
    }

    fn size(&self) -> usize {
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
