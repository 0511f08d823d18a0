//! Guards against a stream that dies in the middle, where the caller can start the answer over.
//!
//! # How it decides
//! It is the one exception to the rule that nothing is replayed after the first output, and it is opt-in: a caller
//! that asks for it must be able to throw away what it has shown. When a stream fails after output with a failure
//! that a retry may help, the caller gets [`Event::Reset`] (all deltas so far are void), then, after a wait, a fresh
//! stream. A failure that no retry can help goes up as it is, with no reset. Failures before the first output are
//! not its business: retry and failover see to them.
//!
//! A *segment* runs from the start or a reset to the next reset or the end.
//!
//! # States
//! ```text
//! Streaming --(retryable failure after output, resets left)--> Event::Reset, Waiting
//! Waiting --(delay over)--> Readying --> Calling --(response)--> Streaming
//! Streaming --(any other failure)--> done        Waiting, Readying, Calling --(failure)--> done
//! ```
//!
//! # Defaults
//! | field | default | why |
//! |---|---|---|
//! | `resets` | 1 | each costs the whole answer again |
//! | `delay` | 1 s | as the first wait of a retry; a stated wait replaces it |
//! | `max_retry_after` | 30 s | longer stated waits are not slept: the failure goes up |
//!
//! The bound over all attempts is `(1 + resets) × candidates × (1 + retries)`.
//!
//! # Streams
//! The response is wrapped; what the inner stream held is kept. The dead stream is dropped, and so settled, before
//! the reset is told.
//!
//! # Cost
//! One allocation a call, and a copy of the request and the service, for the case that the stream dies; with
//! `resets = 0` none of it.
//!
//! # Cancellation
//! Dropping the reply drops the stream, the wait, or the call that is under way.
//!
//! # Order
//! Right: outside failover, since a fresh start should have all candidates, retries, breakers and limits again.
//! Wrong: inside it; then a fresh start could not leave the provider that just died. A [`Stack`](crate::stack::Stack)
//! has it there where its configuration has a section `reset`.
//!
//! # Example
//! ```
//! use tower::ServiceBuilder;
//! use watertight::layers::reset::{ResetConfig, ResetLayer};
//!
//! # fn main() -> Result<(), watertight::failure::ConfigError> {
//! let with_defaults = ServiceBuilder::new().layer(ResetLayer::default());
//! let customised = ServiceBuilder::new().layer(ResetLayer::new(ResetConfig { resets: 2, ..ResetConfig::default() })?);
//! # Ok(()) }
//! ```
//!
//! # What it does not do
//! It does not go on where the old stream stopped: no two answers are ever joined. It works on replies only; an HTTP
//! body cannot say that what it sent is void.
//!
//! [`Event::Reset`]: crate::chat::Event::Reset

mod config;
mod layer;
mod restarting;
#[cfg(test)]
mod tests;

pub use config::ResetConfig;
pub use layer::{ResetLayer, Resetting, ResponseFuture};
pub use restarting::Restarting;
