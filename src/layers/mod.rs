//! The layers, a room each. They know no protocol and no HTTP client, and never each other.

pub mod degradation;
pub mod failover;
pub mod reset;
pub mod retry;
pub mod timeout;

pub use degradation::DegradationLayer;
pub use failover::FailoverLayer;
pub use reset::ResetLayer;
pub use retry::{RetryLayer, ShortenLayer};
pub use timeout::DualClockTimeoutLayer;
