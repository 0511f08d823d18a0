//! OpenAI Chat Completions, as OpenAI and its many kin speak it.
//!
//! # What is put up with
//! | deviation | what is made of it |
//! |---|---|
//! | tool-call deltas without an index, with one index for all, with ids or names repeated or late | a known id is that call; a new id is a new call; no id and no index go to the call opened last; else the index decides |
//! | usage on every chunk, in `x_groq`, in an empty object, on the last chunk with choices | the last figures count |
//! | `finish_reason: ""`, `choices: []`, no `delta`, `content: null` | nothing was said |
//! | `error` as an object, as a string, inside a choice, before `[DONE]` | the failure it names; nothing heals it |
//! | `finish_reason: "error"` or `"insufficient_system_resource"` | `SERVER` |
//! | no `[DONE]`, or silence before it | complete, if there was a finish reason |
//! | `[DONE]` without a finish reason | complete with an unknown stop if there was output, else `TRUNCATED` |
//! | reasoning as `reasoning_content` or as `reasoning` | reasoning |
//!
//! Of several choices only the first is read.

mod decode;
mod encode;
mod read;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub use decode::decode;
pub use encode::encode;
pub use read::read;
pub use stream::Decoder;
