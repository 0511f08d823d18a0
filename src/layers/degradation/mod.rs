//! Guards against having no answer.

#[cfg(feature = "cache")]
mod cache;
mod canned;
mod climb;
mod config;
mod defer;
mod future;
mod gathered;
mod graceful;
mod ladder;
mod layer;
mod models;
mod other;
mod partial;
mod route;
mod rung;
mod stream;
#[cfg(test)]
mod tests;
mod tools;

#[cfg(feature = "cache")]
pub use cache::{AnswerCache, AnswerKey, CacheConfig, Finding, Similar};
pub use config::{DegradationConfig, GracefulConfig, QualityConfig};
pub use defer::{DeferConfig, DeferQueue, Deferred, InLine, JobStatus, Looking, MemoryQueue};
pub use future::ResponseFuture;
pub use ladder::{Place, RungSnapshot, Snapshot};
pub use layer::{DegradationLayer, Degrading};
pub use rung::{Answer, Answering, Callable, Case, Consider, Needs, Rung};
pub use stream::Degraded;
