//! What comes, piece by piece.

use bytes::Bytes;
use serde::Serialize;

use crate::failure::{Code, Failure};

use super::completion::Completion;
use super::part::{Content, Part, Reasoning};
use super::sign::Sign;
use super::usage::Usage;

/// One piece of a reply.
///
/// Blocks of the message (text, reasoning, tool calls) are addressed by an index that also gives their order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The provider began.
    Started {
        /// The provider's id of the reply; empty where it gave none.
        id: Box<str>,
        /// The model that answers, in the provider's word; empty where it gave none.
        model: Box<str>,
    },
    /// More text.
    Text {
        /// Which block.
        index: u32,
        /// What is new.
        text: String,
    },
    /// More thoughts.
    Reasoning {
        /// Which block.
        index: u32,
        /// What is new.
        text: String,
    },
    /// More of a refusal.
    Refusal {
        /// Which block.
        index: u32,
        /// What is new.
        text: String,
    },
    /// A tool call opens, or its id or name became known.
    ToolCall {
        /// Which block.
        index: u32,
        /// What is known of it.
        start: Box<ToolCallStart>,
    },
    /// More of a tool call's arguments.
    ToolArguments {
        /// Which block.
        index: u32,
        /// What is new.
        text: String,
    },
    /// A block closes. The first close of a block wins; nothing is added after it.
    Closed {
        /// Which block.
        index: u32,
        /// The block as a whole, where the protocol repeats it: it replaces what was gathered.
        part: Option<Box<Part>>,
    },
    /// The tokens known so far; they replace what was known before.
    Usage(Box<Usage>),
    /// The provider lives; nothing came.
    KeepAlive,
    /// Clocks found that the stream comes slower than it should. Told once a spell; nothing is lost.
    Crawling {
        /// Bytes of output a second.
        rate: f64,
    },
    /// The bytes of the frame that the events after it were read from; only if [`Call::frames`] asks for them.
    ///
    /// [`Call::frames`]: super::Call::frames
    Frame(Bytes),
    /// All deltas so far are void; the answer starts again.
    Reset(Box<Reset>),
    /// The end. Nothing comes after it.
    Completed(Box<Completion>),
}

/// What is known of a tool call when it opens. An empty field says nothing and overwrites nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCallStart {
    /// The id that the result must name.
    pub id: String,
    /// The tool.
    pub name: String,
}

/// Why a reply starts again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reset {
    /// The reason in one word.
    pub reason: ResetReason,
    /// The failure that ended the segment before.
    pub failure: Failure,
}

/// Why a reply starts again, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResetReason {
    /// The connection broke.
    Transport,
    /// The stream ended early.
    Truncated,
    /// A clock ran out.
    Timeout,
    /// The provider refused in mid-answer.
    RateLimited,
    /// The provider broke.
    Server,
    /// Tool-call markup inside the text.
    StrayToolCall,
    /// Nothing was in it.
    Empty,
    /// Another fault of the content.
    Semantic,
}

// === impl Event ===

impl Event {
    /// What its arrival means. Inlined, since each who watches asks it of each event.
    #[inline]
    #[must_use]
    pub fn sign(&self) -> Sign {
        match self {
            Self::Text { text, .. }
            | Self::Reasoning { text, .. }
            | Self::Refusal { text, .. }
            | Self::ToolArguments { text, .. } => {
                if text.is_empty() {
                    Sign::Preamble
                } else {
                    Sign::Output(u32::try_from(text.len()).unwrap_or(u32::MAX))
                }
            }
            Self::ToolCall { start, .. } if start.id.is_empty() && start.name.is_empty() => Sign::Preamble,
            Self::ToolCall { start, .. } => Sign::Output(u32::try_from(start.name.len()).unwrap_or(u32::MAX)),
            // A block of a kind we have no word for has no deltas: its close is all the output there is of it.
            Self::Closed { part: Some(part), .. } if matches!(part.content, Content::Other(..)) => {
                Sign::Output(1)
            }
            Self::Started { .. } | Self::Closed { .. } | Self::Usage(_) | Self::Frame(_) => Sign::Preamble,
            Self::KeepAlive => Sign::Liveness,
            Self::Crawling { .. } => Sign::Crawling,
            Self::Reset(_) => Sign::Reset,
            Self::Completed(completion) => Sign::End(completion.usage),
        }
    }

    /// More text for a block.
    #[must_use]
    pub fn text(index: u32, text: impl Into<String>) -> Self {
        Self::Text { index, text: text.into() }
    }

    /// What a stream tells of a whole block before it closes it: nothing, where the close is all that can be told.
    pub(crate) fn deltas(index: u32, whole: &Content) -> impl Iterator<Item = Self> {
        let (first, then) = match whole {
            Content::Text(text) => (Some(Self::text(index, text.as_str())), None),
            Content::Refusal(text) => (Some(Self::Refusal { index, text: text.clone() }), None),
            Content::Reasoning(Reasoning { text, .. }) => {
                (Some(Self::Reasoning { index, text: text.clone() }), None)
            }
            Content::ToolCall(call) => {
                let start = Box::new(ToolCallStart::new(call.id.as_str(), call.name.as_str()));
                let arguments = Self::ToolArguments { index, text: call.arguments.clone() };
                (Some(Self::ToolCall { index, start }), Some(arguments))
            }
            _ => (None, None),
        };
        first.into_iter().chain(then)
    }
}

// === impl ToolCallStart ===

impl ToolCallStart {
    /// An id and a name.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into() }
    }
}

// === impl Reset ===

impl Reset {
    /// A restart after this failure.
    #[must_use]
    pub fn after(failure: Failure) -> Self {
        let reason = match failure.code() {
            Code::Timeout(_) | Code::RequestTimeout => ResetReason::Timeout,
            Code::Truncated => ResetReason::Truncated,
            Code::RateLimited => ResetReason::RateLimited,
            Code::Overloaded | Code::Server | Code::Conflict => ResetReason::Server,
            Code::StrayToolCall => ResetReason::StrayToolCall,
            Code::EmptyResponse => ResetReason::Empty,
            Code::UnknownTool | Code::InvalidToolArguments | Code::Repetition => ResetReason::Semantic,
            _ => ResetReason::Transport,
        };
        Self { reason, failure }
    }
}
