//! What is asked.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;

use super::ask::{Ask, Cost};
use super::call::Call;
use super::estimate::{CountTokens, Memo, tokens};
use super::extra::Extra;
use super::message::{Message, Role};
use super::options::{Effort, Options, ReasoningOptions, Tool};
use super::protocol::Protocol;

/// A request to a model.
///
/// `Clone` copies a pointer and the small [`Call`], never the conversation; a change after that copies on write.
///
/// ```
/// use watertight::chat::Request;
///
/// let request = Request::new("small-model").system("Answer briefly.").user("Why is the sky blue?").streaming();
/// assert_eq!(request.messages.len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    call: Call,
    parts: Arc<Parts>,
}

/// The conversation and how to answer it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Parts {
    /// The model, in the caller's word; a profile may give it another name.
    pub model: String,
    /// The turns, system and developer turns among them.
    pub messages: Vec<Message>,
    /// The tools offered.
    pub tools: Vec<Tool>,
    /// Sampling and limits.
    pub options: Options,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// The protocol it was read from, if it was read from one.
    pub protocol: Option<Protocol>,
    /// What that protocol says beyond our words.
    pub extra: Extra,
    /// Whatever the caller attaches: identity, tags, clocks. Never sent.
    pub extensions: Extensions,
    /// The estimate of its tokens, made when it is first asked for.
    pub(crate) estimate: Memo,
}

// === impl Request ===

impl Request {
    /// An empty conversation with this model.
    #[must_use]
    pub fn new(model: impl Into<String>) -> Self {
        Self::from(Parts { model: model.into(), ..Parts::default() })
    }

    /// Adds a system turn.
    #[must_use]
    pub fn system(self, text: impl Into<String>) -> Self {
        self.message(Message::text(Role::System, text))
    }

    /// Adds a user turn.
    #[must_use]
    pub fn user(self, text: impl Into<String>) -> Self {
        self.message(Message::text(Role::User, text))
    }

    /// Adds an assistant turn.
    #[must_use]
    pub fn assistant(self, text: impl Into<String>) -> Self {
        self.message(Message::text(Role::Assistant, text))
    }

    /// Adds a turn.
    #[must_use]
    pub fn message(mut self, message: Message) -> Self {
        self.edit().messages.push(message);
        self
    }

    /// Offers a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.edit().tools.push(tool);
        self
    }

    /// Asks for a stream.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.edit().stream = true;
        self
    }

    /// Caps the output.
    #[must_use]
    pub fn max_output_tokens(mut self, tokens: u64) -> Self {
        self.edit().options.max_output_tokens = Some(tokens);
        self
    }

    /// Sets the sampling temperature.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.edit().options.temperature = Some(temperature);
        self
    }

    /// Asks for thinking.
    #[must_use]
    pub fn reasoning(mut self, effort: Effort) -> Self {
        self.edit().options.reasoning = Some(ReasoningOptions::new(effort));
        self
    }

    /// Attaches something to the call: an identity, a tag, clocks. It is never sent.
    #[must_use]
    pub fn attach<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.edit().extensions.insert(value);
        self
    }

    /// Counts the input exactly and attaches it, so that nothing is estimated. It reads the whole conversation: for a
    /// long one, not on a thread that others wait for.
    #[must_use]
    pub fn counted_by(self, counter: &dyn CountTokens) -> Self {
        let input = tokens(Some(counter), &self.messages, &self.tools);
        let output = self.options.max_output_tokens;
        self.attach(Cost { input, output })
    }

    /// Sets the deadline this far from now, for the whole call with its waits, retries and candidates.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.call.deadline = crate::time::now().checked_add(time);
        self
    }

    /// Forbids other candidates for this call.
    #[must_use]
    pub const fn without_failover(mut self) -> Self {
        self.call.failover = false;
        self
    }

    /// A copy with no tools offered.
    #[must_use]
    pub fn without_tools(mut self) -> Self {
        if !self.tools.is_empty() || self.options.tool_choice.is_some() {
            let parts = self.edit();
            parts.tools.clear();
            parts.options.tool_choice = None;
            parts.options.parallel_tool_calls = None;
        }
        self
    }

    /// The parts, to change; copied first if a clone shares them.
    pub fn edit(&mut self) -> &mut Parts {
        let parts = Arc::make_mut(&mut self.parts);
        parts.estimate = Memo::default();
        parts
    }
}

impl From<Parts> for Request {
    fn from(parts: Parts) -> Self {
        Self { call: Call::new(), parts: Arc::new(parts) }
    }
}

impl Deref for Request {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl Ask for Request {
    fn call(&self) -> Call {
        self.call
    }

    fn set_call(&mut self, call: Call) {
        self.call = call;
    }

    fn extensions(&self) -> Option<&Extensions> {
        Some(&self.parts.extensions)
    }

    fn is_stream(&self) -> bool {
        self.parts.stream
    }

    fn is_reasoning(&self) -> bool {
        let effort = self.parts.options.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_ref());
        effort.is_some_and(|effort| *effort != Effort::Off)
    }

    fn model(&self) -> Option<&str> {
        Some(&self.parts.model)
    }

    /// What was attached, else an estimate, made once for all who share the conversation.
    fn cost(&self) -> Cost {
        self.counted().unwrap_or_else(|| Cost {
            input: self.parts.estimate.get_or(|| tokens(None, &self.messages, &self.tools)),
            output: self.parts.options.max_output_tokens,
        })
    }

    fn size(&self) -> Option<usize> {
        Some(self.parts.messages.iter().map(Message::size).sum())
    }
}
