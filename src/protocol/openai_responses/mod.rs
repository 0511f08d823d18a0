//! OpenAI Responses.
//!
//! # What is put up with
//! | deviation | what is made of it |
//! |---|---|
//! | events and items without `output_index`, `sequence_number`, `content_index` | the item's id decides, else the item opened last |
//! | `response.created` more than once | the first counts |
//! | text or arguments only in `.done` or in the finished item | what is missing is told as a delta |
//! | `keepalive` and unknown events | the provider lives; nothing was said |
//! | unknown items | kept as they came, whole when they are done |
//! | `error` flat or nested, `response.failed` | the failure it names |
//! | `[DONE]` | nothing |
//!
//! A finished item is the authority on its block, since only there encrypted reasoning is whole. The terminal event
//! repeats the whole response; what came before it is kept, and only what never came is taken from it.

mod decode;
mod encode;
mod read;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub use decode::decode;
pub use encode::encode;
pub use read::{is_stateful, read};
pub use stream::Decoder;
