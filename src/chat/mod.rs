//! The words: what is asked ([`Request`]), what comes ([`Event`], [`Reply`]), what is left ([`Completion`]).
//!
//! They know no protocol's spelling. What a protocol says beyond them is kept as it came, in [`Extra`] and
//! [`Content::Other`], and goes out again to the same protocol only.

mod ask;
mod assemble;
mod call;
mod callbacks;
mod completion;
mod degradation;
mod estimate;
mod event;
mod extra;
mod head;
mod held;
mod media;
mod message;
mod options;
mod part;
mod protocol;
mod reply;
mod request;
mod scripts;
mod seen;
mod sign;
#[cfg(test)]
mod tests;
#[cfg(feature = "tiktoken")]
mod tiktoken;
mod tool_request;
mod usage;
mod watch;
mod watching;

pub use crate::limits::{Dimension, Limits, Window};

pub use ask::{Ask, Cost};
pub use assemble::Assembler;
pub use call::{Call, CallId};
pub use callbacks::Callbacks;
pub use completion::{Completion, Stop};
pub use degradation::{Degradation, Kept, Level, Ticket, Tried};
pub use estimate::CountTokens;
pub use event::{Event, Reset, ResetReason, ToolCallStart};
pub use extra::Extra;
pub use head::Head;
pub use held::Held;
pub use media::{Media, Source};
pub use message::{Message, Role};
pub use options::{Effort, Options, ReasoningOptions, Tool, ToolChoice};
pub use part::{CacheBreakpoint, Content, Part, Reasoning, ToolCall, ToolResult};
pub use protocol::Protocol;
pub use reply::{BoxEvents, BoxReply, Reply};
pub use request::{Parts, Request};
pub(crate) use seen::{Seen, tokens};
pub use sign::Sign;
#[cfg(feature = "tiktoken")]
pub use tiktoken::Tiktoken;
pub use tool_request::ToolRequest;
pub use usage::Usage;
pub use watch::{End, Observer, Outcome, Watch, Watchers};
pub use watching::Watching;
