//! What a rung answers.

use crate::chat::{BoxReply, Kept, Level, Ticket};

use super::canned;
use super::rung::Case;

/// An answer, and what it lacks.
#[derive(Debug)]
pub struct Answer {
    pub(super) reply: BoxReply,
    pub(super) level: Level,
    pub(super) quality: f64,
    pub(super) missing: Vec<String>,
    pub(super) message: String,
    pub(super) by: Option<String>,
    pub(super) kept: Option<Kept>,
    pub(super) ticket: Option<Ticket>,
    pub(super) contact: Option<String>,
}

// === impl Answer ===

impl Answer {
    /// This reply, so far from what was asked and worth so much, from 0 to 1.
    #[must_use]
    pub const fn new(reply: BoxReply, level: Level, quality: f64) -> Self {
        Self {
            reply,
            level,
            quality,
            missing: Vec::new(),
            message: String::new(),
            by: None,
            kept: None,
            ticket: None,
            contact: None,
        }
    }

    /// These words, which are told to the user, too.
    #[must_use]
    pub fn text(case: &Case, level: Level, quality: f64, text: impl Into<String>) -> Self {
        let text = text.into();
        let answer = Self::new(canned::words(&case.request, &text), level, quality);
        answer.message(text)
    }

    /// Names something that is not in it.
    #[must_use]
    pub fn missing(mut self, component: impl Into<String>) -> Self {
        self.missing.push(component.into());
        self
    }

    /// What to tell the user.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Which of the rung's means answered.
    #[must_use]
    pub fn by(mut self, means: impl Into<String>) -> Self {
        self.by = Some(means.into());
        self
    }

    /// It is of an earlier call.
    #[must_use]
    pub const fn kept(mut self, kept: Kept) -> Self {
        self.kept = Some(kept);
        self
    }

    /// It is a promise.
    #[must_use]
    pub fn ticket(mut self, ticket: Ticket) -> Self {
        self.ticket = Some(ticket);
        self
    }

    /// Whom a person may ask for help.
    #[must_use]
    pub fn contact(mut self, contact: Option<String>) -> Self {
        self.contact = contact;
        self
    }
}
