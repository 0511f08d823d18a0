//! Anthropic Messages, and everyone who speaks it.
//!
//! **Requests.** [`read`] keeps every field it has no word for, at every level, and [`encode`] writes it out again:
//! a request read here and sent here loses nothing. Where one meaning has several spellings (a single text as a
//! string or as a list of one block, `1` or `1.0`, thinking beside an effort) the spelling is kept in `extra` and
//! used as long as the meaning is unchanged. What may differ: the model is the target's; a cap on output is supplied
//! where there is none ([`DEFAULT_MAX_TOKENS`]), since the protocol demands one; a `tool_use` without `input` gets an
//! empty one.
//!
//! **System turns.** The `system` field is read as the first turn. Leading system and developer turns go there, later
//! ones stay turns of role `system`; those that were read from `messages` go back there, wherever they stand.
//!
//! **Turns.** Results of tools go into user turns: turns of role tool, and the user's words after them, become one.
//! Of a request of another protocol, any turns of one role that follow each other become one, empty text is left
//! out since it would be refused, and so is what only that protocol has. Characters that an id of a call may not have
//! here become `_`, in the call and its result alike.
//!
//! **Tool arguments.** `input` is an object, our arguments are a string. Arguments that are blank or `null` go out as
//! `{}`. Arguments that are no JSON object, as a model makes them when it is cut, go out whole under the one key
//! [`RAW_ARGUMENTS`]: the turn must go back for its result to make sense, and the model sees what it wrote. An
//! `input` that came as something else than an object goes out as it came.
//!
//! **Thinking.** `thinking` with its signature and `redacted_thinking` go back unmodified and in order, but only to
//! the instance that made them ([`Target::owns`]). Thinking without a signature goes back if it was read with the
//! request, or is labelled with the target's instance.
//!
//! **Media.** What the protocol cannot carry (sound, files that are no PDF, what lies at another provider under an
//! id) refuses the request here, so that a candidate that can is asked; it is never left out silently.
//!
//! **Replies.** A block keeps its index; a second block under a used index gets the next free one. Blocks we have no
//! word for are kept as they came, with their deltas taken in, and told whole when they close. Citations and other
//! unknown fields of a block stand in its `extra`, those of the reply in [`Completion::extra`]. Input tokens are the
//! sum of the three figures that are told; a later figure replaces an earlier one, but a zero takes back nothing.
//!
//! # What is put up with
//! | deviation | what is made of it |
//! |---|---|
//! | `ping`, unknown events, unknown deltas | the provider lives; nothing was said |
//! | event name without `type` in the data, or the reverse | the one that is there |
//! | `error` events, enveloped, bare (`{code, message, type}`) or as text | the failure they name |
//! | a tool's input whole in the block's start | the arguments, unless deltas follow |
//! | deltas after a block's stop; tool input for no block | nothing |
//! | text or thinking without a block's start | opens one |
//! | a block's start on an open index; no stop of a block | the block before closes; all close at the end |
//! | index missing | the block opened last |
//! | `message_stop` without a stop reason | complete, with [`Stop::Unknown`] |
//! | an end after the stop reason, without `message_stop` | complete if the dialect says so, else `TRUNCATED` |
//! | `[DONE]` | complete if there was a stop reason, else `TRUNCATED` |
//! | data that is no JSON | a sign of life if blank, of an unknown event or after the end of the answer; else `INVALID_RESPONSE`, since to skip it would lose a piece of the answer |
//! | `content` of a whole reply as a string, or null | one text, or none |
//! | usage of zeros only | not told |
//!
//! [`Target::owns`]: super::Target::owns
//! [`Completion::extra`]: crate::chat::Completion::extra
//! [`Stop::Unknown`]: crate::chat::Stop::Unknown

mod arguments;
mod block;
mod blocks;
mod decode;
mod delta;
mod encode;
mod envelope;
mod options;
mod part_in;
mod part_out;
mod read;
mod stream;
mod wire;

#[cfg(test)]
mod tests;

use crate::chat::Protocol;
use crate::protocol::json::Fields;

pub use arguments::RAW_ARGUMENTS;
pub use decode::decode;
pub use encode::encode;
pub use options::DEFAULT_MAX_TOKENS;
pub use read::read;
pub use stream::Decoder;

/// This protocol.
const MESSAGES: Protocol = Protocol::AnthropicMessages;

/// Our own note in `extra`: a content that would be a string came as a list. Never written.
const AS_BLOCKS: &str = "@blocks";

/// Our own note in `extra`: a system turn came among the turns. Never written.
const AS_TURN: &str = "@turn";
