//! Guards against failures that pass: tries the same provider again, before the first output.
//!
//! # How it decides
//! A failed attempt is judged by [`Code::judgement`] and by the provider's own word (`x-should-retry`). The checks,
//! in order: is it before the first output? retryable? attempts left? is a stated wait within `max_retry_after`,
//! and does the deadline leave the wait and `min_attempt`? does the budget pay? If any says no, the failure goes up
//! at once, carrying the attempts before it and the stated wait. Unless no retry anywhere could help it, it is marked
//! [exhausted](crate::failure::Failure::is_exhausted), so that a retry further out lets it pass: attempts add up and
//! never multiply, and what one retry must not try, no other tries.
//!
//! The wait is `base` doubled each time up to `cap`, with jitter. A wait the provider stated replaces it and is a
//! floor: `floor + uniform(0, max(d, floor / 10))`, never below. [`Jitter`] has the formulas.
//!
//! A `TIMEOUT_FIRST_OUTPUT` is retried once per call at most: a prefill that was too long once will be too long again.
//!
//! The budget is shared by all calls through the layer and its clones: retries may be 20 % of the calls of the last
//! 10 s plus 10. It is drawn last, counted while waiting, and given back if the retry is not made.
//!
//! # States
//! ```text
//! Calling --(response)--> Committing --(first output)--> done: the response goes up
//! Calling, Committing --(failure, judged retryable)--> Waiting --(delay over)--> Readying --(ready)--> Calling
//! Calling, Committing --(any other failure)--> done: the failure goes up
//! Readying --(broken, or not ready while the deadline leaves `min_attempt`)--> done: the failure goes up
//! ```
//!
//! # Defaults
//! | field | default | why |
//! |---|---|---|
//! | `retries` | 3 | 1, 2 and 4 s span most rate-limit windows of a second slice and most restarts |
//! | `base` | 1 s | what providers advise for a first wait |
//! | `cap` | 30 s | longer waits belong to failover or to the caller |
//! | `jitter` | additive | a wait is never shorter than it should be |
//! | `max_retry_after` | 30 s | longer stated waits are better spent elsewhere |
//! | `min_attempt` | 250 ms | an attempt with less time left cannot have an answer |
//! | `budget` | 20 % of 10 s, and 10 | the ratio and the reserve of Finagle's and tower's budgets |
//!
//! Presets: [`RetryConfig::brisk`], [`RetryConfig::never_bill_twice`].
//!
//! # Streams
//! The retry lasts until the first output, not until the response head: it reads the stream ahead to that point, and
//! holds the preamble back. After it nothing is replayed; the stream goes to the caller as it is.
//!
//! # Cancellation
//! Dropping the future during an attempt drops the attempt; before the next one is made nothing more is sent and the
//! budget has its token back.
//!
//! # Order
//! Right: outside breaker and limiter, so that every attempt asks them and is counted by them.
//! Wrong: outside failover, where one call would be tried `candidates × (1 + retries)²` times; the mark on exhausted
//! failures prevents it, and then it does nothing.
//!
//! # Readiness
//! A retry is made on a clone of the service, readied anew: what must be counted over all of them belongs in an `Arc`.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use tower::ServiceBuilder;
//! use watertight::layers::retry::{RetryConfig, RetryLayer};
//!
//! # fn main() -> Result<(), watertight::failure::ConfigError> {
//! let with_defaults = ServiceBuilder::new().layer(RetryLayer::default());
//!
//! let config = RetryConfig { retries: 5, base: Duration::from_millis(200), ..RetryConfig::default() };
//! let customised = ServiceBuilder::new().layer(RetryLayer::new(config)?);
//! # Ok(()) }
//! ```
//!
//! # What it does not do
//! It does not look into the answer, and it asks no other provider. A request that met `CONTEXT_LENGTH` can be made
//! smaller and tried once more by a [`ShortenLayer`], which counts apart.
//!
//! [`Code::judgement`]: crate::failure::Code::judgement

mod again;
mod backoff;
mod budget;
mod config;
mod future;
mod layer;
mod plan;
mod shorten;
mod shortening;
mod snapshot;
#[cfg(test)]
mod tests;

pub use backoff::{Backoff, Jitter};
pub use budget::{RetriesSpent, RetryBudget, RetryBudgetConfig};
pub use config::RetryConfig;
pub use future::ResponseFuture;
pub use layer::{Retry, RetryLayer};
pub use shorten::{Shorten, ShortenLayer, Shortening};
pub use shortening::ShortenFuture;
pub use snapshot::{RetryBudgetSnapshot, RetrySnapshot};
