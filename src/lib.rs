//! Layers that keep LLM and agent calls alive, honest and within budget.

pub mod time;
