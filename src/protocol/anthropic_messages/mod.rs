//! Anthropic Messages.
//!
//! # What is put up with
//! | deviation | what is made of it |
//! |---|---|
//! | `ping`, unknown events and deltas | the provider lives; nothing was said |
//! | unknown blocks | kept as they came, whole at their stop |
//! | a tool's input whole in the block's start | the arguments |
//! | deltas after a block's stop | nothing |
//! | an `error` event with or without its envelope | the failure it names |
//! | an end after the stop reason, without `message_stop` | complete if the dialect says so, else `TRUNCATED` |
//! | `message_stop` without a stop reason | complete, with an unknown stop |
//! | `[DONE]` | as `message_stop`, if there was a stop reason |
//!
//! The three input figures of usage are summed, since together they are the input.

mod decode;
mod encode;
mod read;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub use decode::decode;
pub use encode::{DEFAULT_MAX_TOKENS, encode};
pub use read::read;
pub use stream::Decoder;
