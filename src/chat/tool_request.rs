//! What a tool is asked.

use std::time::Duration;

use http::Extensions;

use super::ask::Ask;
use super::call::Call;
use super::part::ToolCall;

/// A call of a tool, as a tool's service takes it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolRequest {
    /// What the model asked.
    pub tool: ToolCall,
    /// Whatever the caller attaches: identity, session, tags.
    pub extensions: Extensions,
    call: Call,
}

// === impl ToolRequest ===

impl ToolRequest {
    /// A request to do what the model asked.
    #[must_use]
    pub fn new(tool: ToolCall) -> Self {
        Self { tool, extensions: Extensions::new(), call: Call::new() }
    }

    /// Attaches something to the call: an identity, a session.
    #[must_use]
    pub fn attach<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Sets the deadline this far from now.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.call.deadline = crate::time::now().checked_add(time);
        self
    }
}

impl Ask for ToolRequest {
    fn call(&self) -> Call {
        self.call
    }

    fn set_call(&mut self, call: Call) {
        self.call = call;
    }

    fn extensions(&self) -> Option<&Extensions> {
        Some(&self.extensions)
    }

    /// A tool answers at once or not at all.
    fn is_stream(&self) -> bool {
        false
    }

    fn tool(&self) -> Option<&str> {
        Some(&self.tool.name)
    }
}
