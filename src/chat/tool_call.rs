//! A call to a tool, and what the tool answered.

use super::message::Part;

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
