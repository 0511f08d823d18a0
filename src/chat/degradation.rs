//! What a reply lacks, where it is less than was asked.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Code, Failure};

/// What a reply lacks, and what was tried before it: the record of a degradation ladder.
///
/// It stands in the head of a reply and in its last event, and is never sent on a wire as part of the message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Degradation {
    /// How far the answer is from what was asked.
    pub level: Level,
    /// What is not in it: `tool:search`, `rest_of_answer`, `answer`.
    pub missing_components: Vec<String>,
    /// How much it is worth, from 0 to 1. An estimate by the kind of answer, not by its content.
    pub quality_estimate: f64,
    /// What was tried, in order, the one that answered last.
    pub fallback_chain: Vec<Tried>,
    /// What to tell the user; empty where nothing is to be told.
    pub user_message: String,
    /// The age of an answer that was kept from an earlier call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// The place in line of a call that is answered later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<Ticket>,
    /// Whom a person may ask for help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub support_contact: Option<String>,
    /// Why the whole could not be had. Told to whoever watches the reply from outside, in place of a success.
    #[serde(skip)]
    cause: Option<Cause>,
}

/// How far an answer is from what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Level {
    /// It is what was asked.
    #[default]
    None,
    /// A part of it: a tool was left out, or the stream ended early.
    Partial,
    /// Another's: of another model, or of an earlier call.
    Fallback,
    /// It comes later.
    Deferred,
    /// There is none; only words.
    Failed,
}

/// One thing that was tried for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tried {
    /// Which rung; `request` is the call as it was asked.
    pub rung: String,
    /// Which of the rung's means: a model, a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why it could not help; `None` where it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Code>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The age of an answer that was kept from an earlier call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Kept {
    /// How long ago it was given.
    #[serde(with = "humantime_serde")]
    pub age: Duration,
    /// Whether that is longer than answers are taken for fresh.
    pub stale: bool,
}

/// The place in line of a call that is answered later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ticket {
    /// The name to ask for the answer by.
    pub id: String,
    /// How many come before it, and itself: 1 is next.
    pub position: usize,
    /// When it is likely to be answered.
    #[serde(with = "humantime_serde")]
    pub wait: Duration,
}

/// A failure beside a record. Two are alike if their codes are: failures carry histories that nobody compares.
#[derive(Clone, Debug)]
struct Cause(Failure);

// === impl Degradation ===

impl Degradation {
    /// Nothing is missing.
    pub const NONE: Self = Self {
        level: Level::None,
        missing_components: Vec::new(),
        quality_estimate: 1.0,
        fallback_chain: Vec::new(),
        user_message: String::new(),
        kept: None,
        ticket: None,
        support_contact: None,
        cause: None,
    };

    /// Whether the answer is less than was asked.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.level != Level::None
    }

    /// Why the whole could not be had, where a ladder answered in its place.
    #[must_use]
    pub fn cause(&self) -> Option<&Failure> {
        self.cause.as_ref().map(|cause| &cause.0)
    }

    /// A record that begins with the failure of the call as it was asked.
    #[must_use]
    pub(crate) fn after(failure: Failure) -> Self {
        let tried = Tried::failed("request", None, &failure);
        Self { fallback_chain: vec![tried], cause: Some(Cause(failure)), ..Self::NONE }
    }

    /// The record of an answer that failed, too: the one who gave it is noted with this.
    #[must_use]
    pub(crate) fn and_then(mut self, failure: &Failure) -> Self {
        if let Some(last) = self.fallback_chain.last_mut() {
            last.failure = Some(failure.code());
            failure.message().clone_into(&mut last.reason);
        }
        self.cause.get_or_insert_with(|| Cause(failure.clone()));
        self
    }

    /// The record of an answer that stands for this failure.
    #[must_use]
    pub(crate) fn caused_by(mut self, failure: &Failure) -> Self {
        self.cause = Some(Cause(failure.clone()));
        self
    }

    /// The record of an answer that lacks what both say: this one, and one from beneath, who was asked later. What was
    /// told to whoever watches beneath is told above, too.
    #[must_use]
    pub(crate) fn beside(mut self, beneath: Self) -> Self {
        self.level = self.level.max(beneath.level);
        self.quality_estimate = self.quality_estimate.min(beneath.quality_estimate);
        for missing in beneath.missing_components {
            if !self.missing_components.contains(&missing) {
                self.missing_components.push(missing);
            }
        }
        self.fallback_chain.extend(beneath.fallback_chain);
        self.user_message = format!("{} {}", beneath.user_message, self.user_message).trim().to_owned();
        self.kept = beneath.kept.or(self.kept);
        self.ticket = beneath.ticket.or(self.ticket);
        self.support_contact = beneath.support_contact.or(self.support_contact);
        self.cause = beneath.cause.or(self.cause);
        self
    }

    /// The record, or that of a whole answer where there is none.
    pub(super) fn of(record: Option<&Self>) -> &Self {
        static NONE: Degradation = Degradation::NONE;
        record.unwrap_or(&NONE)
    }
}

impl Default for Degradation {
    fn default() -> Self {
        Self::NONE
    }
}

// === impl Level ===

impl Level {
    /// The stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Partial => "partial",
            Self::Fallback => "fallback",
            Self::Deferred => "deferred",
            Self::Failed => "failed",
        }
    }
}

// === impl Tried ===

impl Tried {
    /// It failed with this.
    #[must_use]
    pub fn failed(rung: impl Into<String>, by: Option<String>, failure: &Failure) -> Self {
        let reason = failure.message().to_owned();
        Self { rung: rung.into(), by, failure: Some(failure.code()), reason }
    }

    /// It answered.
    #[must_use]
    pub fn answered(rung: impl Into<String>, by: Option<String>) -> Self {
        Self { rung: rung.into(), by, failure: None, reason: String::new() }
    }
}

// === impl Kept ===

impl Kept {
    /// So old, and beyond its time or not.
    #[must_use]
    pub const fn new(age: Duration, stale: bool) -> Self {
        Self { age, stale }
    }
}

// === impl Ticket ===

impl Ticket {
    /// The name, the place, and the likely wait.
    #[must_use]
    pub fn new(id: impl Into<String>, position: usize, wait: Duration) -> Self {
        Self { id: id.into(), position, wait }
    }
}

// === impl Cause ===

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.0.code() == other.0.code()
    }
}
