//! How to talk: three protocols, no I/O.
//!
//! Each protocol's module offers the same four things: `read` (a client's request into our words), `encode` (our
//! words into a request), `decode` (a whole reply) and `Decoder` (a reply frame by frame). What they share stands
//! beside them: server-sent events, the classification of errors, the rate limits in headers, and the short way through
//! frames that differ in their text alone.
//!
//! Nothing unknown fails a call: fields, events, deltas, blocks and stop reasons we have no word for are kept as
//! they came and go out again to the same protocol.

pub mod anthropic_messages;
mod decoder;
pub mod errors;
mod field;
mod frames;
mod json;
pub mod limits;
pub mod openai_chat;
pub mod openai_responses;
pub mod sse;
mod target;
mod template;
#[cfg(test)]
mod tests;

pub use decoder::{Decoder, decode, encode, read};
pub use target::{Dialect, OutputCap, Target};
