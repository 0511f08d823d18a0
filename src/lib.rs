//! Layers that keep LLM and agent calls alive, honest and within budget.

pub mod chat;
pub mod failure;
#[cfg(feature = "protocols")]
pub mod protocol;
pub mod time;
