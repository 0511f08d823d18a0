#![cfg_attr(feature = "client", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "client"),
    doc = "Composable `tower::Layer`s that keep LLM and agent calls alive, honest and within budget."
)]

pub mod chat;
pub mod config;
pub mod event;
pub mod failure;
pub mod gate;
pub mod key;
pub mod keyed;
pub mod layers;
mod limits;
pub mod observe;
mod off;
mod once;
#[cfg(feature = "protocols")]
pub mod protocol;
#[cfg(feature = "protocols")]
pub mod provider;
pub mod stack;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
