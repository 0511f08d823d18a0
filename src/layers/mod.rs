//! The layers, a room each. They know no protocol and no HTTP client, and never each other.
//!
//! # Name and sink come first
//! A layer is finished before it is shared: `named`, `facts` and `config`, then clones, handles and `layer`. What all
//! calls share (slots, circuits, quotas, budgets, the standing of candidates) is kept with the name and the sink behind
//! one pointer, so that a call follows no second one. So a step that is taken later makes a layer whose state is new, and
//! leaves those that were made before as they are. Timeout and reset share nothing that could be lost, and the counts of
//! a degradation ladder go along.

pub mod bulkhead;
pub mod circuit_breaker;
pub mod degradation;
pub mod failover;
pub mod rate_limit;
pub mod reset;
pub mod retry;
pub mod timeout;

pub use bulkhead::BulkheadLayer;
pub use circuit_breaker::CircuitBreakerLayer;
pub use degradation::DegradationLayer;
pub use failover::FailoverLayer;
pub use rate_limit::TokenAwareRateLimitLayer;
pub use reset::ResetLayer;
pub use retry::{RetryLayer, ShortenLayer};
pub use timeout::DualClockTimeoutLayer;
