//! OpenAI Chat Completions, and everyone who speaks it.
//!
//! **Requests.** [`read`] keeps every field it has no word for, at every level, and [`encode`] writes it out again:
//! a request read here and sent here loses nothing. Where one meaning has several spellings (a single text as a
//! string or as a list of one part, `stop` as a string, both names of the cap on output, `reasoning_effort` or
//! `reasoning`) the spelling is kept in `extra` and used as long as the meaning is unchanged. What may differ:
//!
//! - a streamed request asks for usage if the dialect says so, whatever it said itself;
//! - `stream_options` go out with `stream: true` only, since they are refused without it;
//! - arguments of a call that came as an object, or not at all, go out as a string; a tool or call without a
//!   `type` gets one.
//!
//! **Thoughts.** `reasoning_content` (or `reasoning`, or Mistral's `thinking` parts) goes back under the name it came
//! with, and only to the instance that made it ([`Target::owns`]): read with the request from this protocol, or
//! labelled with the target's instance. Some providers refuse a turn of tool calls that comes back without it, even
//! when it is empty; therefore an empty one is kept there. Thoughts with a signature or in cipher belong to other
//! protocols and are left out. `reasoning_details` follow the same rule.
//!
//! **Cache breakpoints.** `cache_control` on parts and tools is read as a breakpoint. It goes out if the request was
//! read here, or if the dialect takes it ([`Dialect::cache_marks`]); the first party refuses the field.
//!
//! **Replies.** Block 0 is reasoning, 1 text, 2 refusal; tool calls follow from 16 on, in the order of their wire
//! indices. Only choice 0 is folded. A turn of tool calls that ends with `stop`, as a forced tool does, stops with
//! [`Stop::ToolCalls`].
//!
//! **The end of a stream.** The first finish reason that is not empty settles it; then only usage and `[DONE]` are
//! awaited, and an end or garbage there is a success, while an error frame still fails it. `[DONE]` without a finish
//! reason completes with [`Stop::Unknown`] if there was output with no half arguments in it, else it is
//! `TRUNCATED`. A frame that is no JSON before the finish reason is `INVALID_RESPONSE`: to skip it would lose
//! a piece of the answer and call the rest whole.
//!
//! Sound is not folded: its deltas are signs of life.
//!
//! [`Target::owns`]: super::Target::owns
//! [`Dialect::cache_marks`]: super::Dialect::cache_marks
//! [`Stop::ToolCalls`]: crate::chat::Stop::ToolCalls
//! [`Stop::Unknown`]: crate::chat::Stop::Unknown

mod calls;
mod content;
mod decode;
mod details;
mod encode;
mod fold;
mod lenient;
mod options;
mod part;
mod read;
mod stream;
mod turn_in;
mod turn_out;
mod voice;
mod wire;

#[cfg(test)]
mod tests;

use crate::chat::Protocol;

pub use decode::decode;
pub use encode::encode;
pub use read::read;
pub use stream::Decoder;

/// This protocol.
const CHAT: Protocol = Protocol::OpenaiChat;

/// The field of a part's `extra` that tells where in its turn the part stood, if not at its usual place: the name of
/// the field on the wire. No wire has a field of this name, and it is never written.
const PLACE: &str = "@";
