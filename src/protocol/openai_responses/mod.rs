//! OpenAI Responses, and everyone who speaks it.
//!
//! **Requests.** [`read`] keeps every field, item and tool it has no word for, and [`encode`] writes it out again where
//! it stood: a request read here and sent here loses nothing. `instructions` become a system turn that goes back where
//! it came from. Neighbouring items of the model (reasoning, message, calls) make one turn, neighbouring results of
//! tools another, so that other protocols find calls and results as they want them. What may differ:
//!
//! - a message of the model gets its `type`, since some servers tell it by that alone;
//! - arguments that came as an object go out as a string.
//!
//! A request of another protocol gets `strict: false` on tools that say nothing: here silence means strict.
//!
//! **What belongs to the provider.** Reasoning goes back only to the instance that made it ([`Target::owns`]). Where
//! some is left out, the ids of the items around it are left out too, since the provider looks for the reasoning
//! behind an id it knows. A conversation that is held there ([`is_stateful`]) has no other provider.
//!
//! **Replies.** A reply's message has the parts of all its items in order. The fields of a message item (id, status,
//! phase) are kept with its first part. Blocks are numbered by item and, within it, by part, with gaps. The reply's
//! echo of its request is dropped. Where reasoning comes both as thoughts and as a summary, the whole reply has the
//! thoughts.
//!
//! **What is put up with.**
//!
//! | deviation | what is made of it |
//! |---|---|
//! | no `sequence_number`, `output_index`, `content_index`, ids | what is there decides, else the item of that kind opened last |
//! | ids of one item that change from event to event | the index decides |
//! | one index for several items | their ids and `call_id`s tell them apart |
//! | no `type` | the event's name |
//! | `response.created` and `output_item.added` again, or never | the first counts; a delta opens its item itself |
//! | text or arguments only in `.done`, in the finished item, or at the end | what is missing is told as a delta |
//! | null, a number or nothing where a string belongs, figures as strings | read as what they mean |
//! | `keepalive`, unknown events | [`Event::KeepAlive`] |
//! | unknown items and parts | [`Content::Other`], whole when they are finished |
//! | `error` flat, nested, bare, in any frame; `response.failed`; status failed or cancelled in a 200 | the failure it names |
//! | `[DONE]` after the terminal event | never read; before it, the stream is `TRUNCATED` |
//!
//! A finished item is the authority on its block, since only there encrypted reasoning is whole; yet what was told is
//! not undone by an item that has none. The terminal event repeats the whole response: what came before it stands,
//! and only what never came is taken from it.
//!
//! **The end of a stream** is `response.completed`, `response.incomplete`, `response.failed` or an error, nothing else.
//! A frame that is no JSON is `INVALID_RESPONSE` wherever it comes: to skip it would lose a piece of the answer and
//! call the rest whole.
//!
//! [`Content::Other`]: crate::chat::Content::Other
//! [`Event::KeepAlive`]: crate::chat::Event::KeepAlive
//! [`Target::owns`]: super::Target::owns

mod decode;
mod encode;
mod fold;
mod item;
mod item_in;
mod item_out;
mod items;
mod options;
mod output;
mod part;
mod read;
mod stream;
mod wire;

#[cfg(test)]
mod tests;

use crate::chat::Protocol;

pub use decode::decode;
pub use encode::encode;
pub use read::{is_stateful, read};
pub use stream::Decoder;

/// This protocol.
const RESPONSES: Protocol = Protocol::OpenaiResponses;

/// Marks the turn that came from `instructions`.
const INSTRUCTIONS: &str = "\0instructions";

/// Marks the turn that was the whole `input`, as a string.
const INPUT: &str = "\0input";

/// Holds the fields of a message item of the model, with its first part.
const ITEM: &str = "\0item";

/// Marks the text that was the whole content of a message item of the model, as a string.
const PLAIN: &str = "\0plain";

/// Marks an unknown part of a message, to tell it from an unknown item.
const PART: &str = "\0part";
