//! What a rung answers.

use crate::chat::{BoxReply, Degradation, Kept, Level, Ticket, Tried};

use super::canned;
use super::rung::Case;

/// An answer, and what it lacks.
#[derive(Debug)]
pub struct Answer {
    pub(super) reply: BoxReply,
    pub(super) lack: Lack,
}

/// What an answer lacks, and why it is as it is: what a rung writes into the record.
#[derive(Debug)]
pub(super) struct Lack {
    level: Level,
    quality: f64,
    missing: Vec<String>,
    message: String,
    by: Option<String>,
    kept: Option<Kept>,
    ticket: Option<Ticket>,
    contact: Option<String>,
}

// === impl Answer ===

impl Answer {
    /// This reply, so far from what was asked and worth so much, from 0 to 1.
    #[must_use]
    pub const fn new(reply: BoxReply, level: Level, quality: f64) -> Self {
        Self { reply, lack: Lack::new(level, quality) }
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
        self.lack.missing.push(component.into());
        self
    }

    /// What to tell the user.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.lack.message = message.into();
        self
    }

    /// Which of the rung's means answered.
    #[must_use]
    pub fn by(mut self, means: impl Into<String>) -> Self {
        self.lack.by = Some(means.into());
        self
    }

    /// It is of an earlier call.
    #[must_use]
    pub const fn kept(mut self, kept: Kept) -> Self {
        self.lack.kept = Some(kept);
        self
    }

    /// It is a promise.
    #[must_use]
    pub fn ticket(mut self, ticket: Ticket) -> Self {
        self.lack.ticket = Some(ticket);
        self
    }

    /// Whom a person may ask for help.
    #[must_use]
    pub fn contact(mut self, contact: Option<String>) -> Self {
        self.lack.contact = contact;
        self
    }

    /// It lacks this, too.
    pub(super) fn lacking(mut self, lack: Lack) -> Self {
        self.lack.add(lack);
        self
    }
}

// === impl Lack ===

impl Lack {
    const fn new(level: Level, quality: f64) -> Self {
        Self {
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

    /// That of an answer for which these tools were not offered: the second rung's, whoever leaves them out.
    pub(super) fn without(tools: &[String], quality: f64) -> Self {
        let names = tools.join(", ");
        Self {
            missing: tools.iter().map(|tool| format!("tool:{tool}")).collect(),
            message: format!("Answered without {names}, which cannot be used right now."),
            by: Some(names),
            ..Self::new(Level::Partial, quality)
        }
    }

    /// Adds another lack of the same answer. Whose answer it is does not change.
    fn add(&mut self, other: Self) {
        self.level = self.level.max(other.level);
        self.quality = self.quality.min(other.quality);
        self.missing.extend(other.missing);
        self.message = format!("{} {}", self.message, other.message);
    }

    /// Writes it into the record of an answer of this rung.
    pub(super) fn write(self, rung: &str, record: &mut Degradation) {
        record.fallback_chain.push(Tried::answered(rung, self.by));
        record.level = self.level;
        record.quality_estimate = self.quality;
        record.missing_components = self.missing;
        record.user_message = self.message;
        record.kept = self.kept;
        record.ticket = self.ticket;
        record.support_contact = self.contact;
    }
}
