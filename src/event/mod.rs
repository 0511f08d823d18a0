//! Every fact the parts know, on one page, and where facts go.
//!
//! Facts are told at decisions and endings, never per chunk and never under a lock. Give each layer and the provider
//! the same [`Facts`]; whoever is given none tells `tracing`.
//!
//! A clock that runs out tells [`Fact::TimedOut`] and drops the attempt, so that the provider beneath it settles as
//! abandoned. Calls over plain HTTP are numbered only if their request carries a [`Call`](crate::chat::Call).

mod fact;
#[cfg(feature = "metrics")]
pub mod metrics;
mod show;
mod sink;
#[cfg(test)]
mod tests;
mod tracing;
mod words;

pub use self::tracing::Tracing;
pub use fact::Fact;
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
pub use sink::{Facts, Sink};
pub use words::{Change, Circuit, RetryRefusal};
