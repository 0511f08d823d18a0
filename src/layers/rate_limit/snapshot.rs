//! What a rate limit shows of itself.

use std::time::Duration;

use serde::Serialize;

use crate::store::Level;

/// A rate limit, as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RateLimitSnapshot {
    /// The layer's name.
    pub name: Box<str>,
    /// Each key; the one state of a layer that tells no calls apart is one.
    pub keys: Vec<KeySnapshot>,
}

/// One key, as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KeySnapshot {
    /// The key, as facts show it.
    pub key: Box<str>,
    /// Calls in flight.
    pub in_flight: u32,
    /// The most of them, for now.
    pub max_in_flight: Option<u32>,
    /// Calls in line.
    pub waiting: usize,
    /// How long nothing is admitted still.
    pub frozen: Option<Duration>,
    /// How full each dimension is.
    pub levels: Vec<Level>,
    /// The output that 95 % of the answers stayed below, once known.
    pub usual_output: Option<u32>,
    /// By what estimates of the input are multiplied.
    pub estimate_factor: f64,
}
