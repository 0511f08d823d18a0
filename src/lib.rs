//! Layers that keep LLM and agent calls alive, honest and within budget.

#[cfg(feature = "protocols")]
pub mod protocol;
