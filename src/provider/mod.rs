//! With whom: profiles, and the service that sends one request a call.
//!
//! A [`Profile`] is data: an endpoint, a key, models with their window, price, limits and capabilities. Adding a
//! provider that is compatible with OpenAI or Anthropic is a file in TOML or JSON; the [`catalogue`] holds the
//! well-known ones. A [`Provider`] is the service over it. It sends exactly one HTTP request a call: no retry, no
//! timeout and no redirect of its own, and dropping the reply closes the request upstream.
//!
//! The HTTP client is a service too, `http::Request<Bytes>` to `http::Response<impl Body>`, so that layers for plain
//! HTTP fit between, and a script can stand in for it. [`HttpClient`] is reqwest's.

mod adapt;
mod body;
pub mod catalogue;
#[cfg(feature = "client")]
mod client;
mod endpoint;
mod events;
mod exchange;
mod fits;
mod limits;
mod model;
mod profile;
mod secret;
mod service;
mod settlement;
mod streaming;

#[cfg(feature = "client")]
pub use client::{ClientConfig, HttpBody, HttpClient};
pub use events::Events;
pub use exchange::ResponseFuture;
pub use fits::{Fits, FitsLayer, Fitting, PriceCeiling};
pub use model::{Capabilities, Model, ModelQuota, Price, Tier};
pub use profile::{Auth, Profile};
pub use secret::Secret;
pub use service::Provider;
pub use settlement::Settlement;
