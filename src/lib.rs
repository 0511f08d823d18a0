//! Layers that keep LLM and agent calls alive, honest and within budget.

pub mod chat;
pub mod event;
pub mod failure;
pub mod layers;
pub mod observe;
#[cfg(feature = "protocols")]
pub mod protocol;
#[cfg(feature = "protocols")]
pub mod provider;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
