//! What is left: a whole reply.

use super::degradation::Degradation;
use super::extra::Extra;
use super::message::Message;
use super::usage::Usage;
use super::watch::End;

/// A whole reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Completion {
    /// What the model said.
    pub message: Message,
    /// Why it stopped.
    pub stop: Stop,
    /// What it used; `None` where the provider did not say.
    pub usage: Option<Usage>,
    /// The provider's id of the reply; empty where it gave none.
    pub id: Box<str>,
    /// The model that answered, in the provider's word; empty where it gave none.
    pub model: Box<str>,
    /// What the protocol says beyond that.
    pub extra: Extra,
    /// What it lacks, where it is less than was asked. See [`degradation`](Self::degradation()).
    pub degradation: Option<Box<Degradation>>,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// It was done.
    End,
    /// The cap on output tokens.
    Length,
    /// It waits for the results of tools.
    ToolCalls,
    /// A filter cut it.
    ContentFilter,
    /// It declined.
    Refusal,
    /// One of the texts that end the output.
    StopSequence(Option<Box<str>>),
    /// It pauses; sent back as it is, it goes on.
    Pause,
    /// The window is full.
    Window,
    /// The stream ended properly and gave no reason.
    Unknown,
    /// A reason we have no word for.
    Other(Box<str>),
}

// === impl Completion ===

impl Completion {
    /// A whole reply with nothing told beside it.
    #[must_use]
    pub fn new(message: Message, stop: Stop, usage: Option<Usage>) -> Self {
        Self {
            message,
            stop,
            usage,
            id: Box::default(),
            model: Box::default(),
            extra: Extra::NONE,
            degradation: None,
        }
    }

    /// What it lacks: nothing, where no record says otherwise.
    #[must_use]
    pub fn degradation(&self) -> &Degradation {
        Degradation::of(self.degradation.as_deref())
    }

    /// The end of the call as its observers are told it: a ladder's answer is the failure that it stands for, since
    /// nobody may take it for a success of whom he watches.
    pub(super) fn end(&self) -> End<'_> {
        self.degradation().cause().map_or(End::Completed(self.usage), End::from)
    }
}

// === impl Stop ===

impl Stop {
    /// The stable name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::End => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::StopSequence(_) => "stop_sequence",
            Self::Pause => "pause",
            Self::Window => "window",
            Self::Unknown => "unknown",
            Self::Other(reason) => reason,
        }
    }
}
