//! Layers that keep LLM and agent calls alive, honest and within budget.

#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
