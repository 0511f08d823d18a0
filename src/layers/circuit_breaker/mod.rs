//! Circuit breaker.

mod circuit;
mod config;
mod defaults;
mod handle;
mod layer;
mod probes;
mod refusal;
mod rest;
mod rules;
mod signals;
mod state;
#[cfg(test)]
mod tests;
mod trial;
mod usual;
mod window;
mod word;
mod words;

pub use config::{CircuitBreakerConfig, SlowConfig};
pub use defaults::*;
pub use handle::{Callable, CircuitBreakerSnapshot, CircuitHandle, CircuitSnapshot};
pub use layer::{CircuitBreaker, CircuitBreakerLayer};
pub use trial::Trial;
pub use words::Verdict;
