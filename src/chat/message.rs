//! Messages.

use super::extra::Extra;
use super::part::{Content, Part, ToolCall, ToolResult};

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
