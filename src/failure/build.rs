//! How a failure is made.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::limits::Limits;

use super::attempt::{Attempt, Skip};
use super::code::Code;
use super::judgement::Class;
use super::{BoxError, Failure, Inner, MAX_MESSAGE};

impl Failure {
    /// A failure told by the provider or the wire.
    #[must_use]
    pub fn new(code: Code, message: impl AsRef<str>) -> Self {
        Self(Arc::new(Inner {
            code,
            message: clip(message.as_ref()),
            status: None,
            provider: None,
            tool: None,
            model: None,
            retry_after: None,
            should_retry: None,
            local: code.class() == Class::Local,
            exhausted: false,
            skip: None,
            limits: Limits::default(),
            attempts: Vec::new(),
            source: None,
        }))
    }

    /// A refusal of our own: nothing was sent.
    #[must_use]
    pub fn local(code: Code, message: impl AsRef<str>) -> Self {
        let mut failure = Self::new(code, message);
        failure.edit().local = true;
        failure
    }

    /// An error nobody classified: [`Code::Transport`], with its source kept.
    #[must_use]
    pub fn stranger(error: impl Into<BoxError>) -> Self {
        let error = error.into();
        let message = error.to_string();
        Self::new(Code::Transport, message).with_source(error)
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.edit().status = Some(status);
        self
    }

    /// Adds the provider's name, unless one is known already.
    #[must_use]
    pub fn with_provider(mut self, provider: &Arc<str>) -> Self {
        if self.0.provider.is_none() {
            self.edit().provider = Some(Arc::clone(provider));
        }
        self
    }

    /// Says that a tool failed, by the name the model calls it by, unless one is known already. The degradation ladder
    /// then leaves the model alone, and the tool out.
    ///
    /// ```
    /// use watertight::failure::{Code, Failure};
    ///
    /// let failure = Failure::new(Code::Server, "no such page").with_tool("search");
    /// assert_eq!(failure.tool(), Some("search"));
    /// assert_eq!(failure.to_string(), "SERVER from tool:search: no such page");
    /// ```
    #[must_use]
    pub fn with_tool(mut self, tool: &str) -> Self {
        if self.0.tool.is_none() {
            let inner = self.edit();
            inner.tool = Some(tool.into());
            // Whoever the tool asked keeps the blame in words.
            inner.provider.get_or_insert_with(|| format!("tool:{tool}").into());
        }
        self
    }

    /// Adds the model that was asked, unless one is known already.
    #[must_use]
    pub fn with_model(mut self, model: &Arc<str>) -> Self {
        if self.0.model.is_none() {
            self.edit().model = Some(Arc::clone(model));
        }
        self
    }

    /// Adds the wait that was stated; `None` leaves what is known.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        // What says the same again is left as it is, and shared.
        if wait.is_some() && wait != self.0.retry_after {
            self.edit().retry_after = wait;
        }
        self
    }

    /// Adds the provider's own word on whether the same request may be tried again (`x-should-retry`).
    #[must_use]
    pub fn with_should_retry(mut self, word: Option<bool>) -> Self {
        self.edit().should_retry = word;
        self
    }

    /// Adds why a candidate was passed over.
    #[must_use]
    pub fn with_skip(mut self, skip: Skip) -> Self {
        self.edit().skip = Some(skip);
        self
    }

    /// Adds the limits seen beside the failure.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.edit().limits = limits;
        self
    }

    /// Adds the error beneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.edit().source = Some(Arc::from(source.into()));
        self
    }

    /// Adds the tries that came before, oldest first.
    #[must_use]
    pub fn with_attempts(mut self, attempts: Vec<Attempt>) -> Self {
        self.edit().attempts = attempts;
        self
    }

    /// Marks that retries were used up or refused here, so that a retry further out lets it pass.
    #[must_use]
    pub fn exhaust(mut self) -> Self {
        self.edit().exhausted = true;
        self
    }

    /// The parts, to change; copied first if a clone shares them.
    fn edit(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }
}

/// Cuts at a character, and takes control characters out so that a message stays one line.
fn clip(message: &str) -> Arc<str> {
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let message = &message[..end];
    // Nearly always: then it is copied once, and not looked at letter by letter.
    if message.bytes().all(|byte| byte >= b' ' && byte.is_ascii() && byte != 0x7f) {
        return message.trim().into();
    }
    let clean: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.trim().into()
}
