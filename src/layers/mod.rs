//! The layers, a room each. They know no protocol and no HTTP client, and never each other.

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
