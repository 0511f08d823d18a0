//! Clocks as they show themselves.

use serde::Serialize;

use crate::failure::Clock;

use super::clocks::Clocks;

/// The clocks of a layer, and what they did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TimeoutSnapshot {
    /// For plain requests.
    pub plain: ClocksSnapshot,
    /// For requests that ask for reasoning.
    pub reasoning: ClocksSnapshot,
}

/// The clocks for requests of one kind, and what they did. Requests that bring clocks of their own count as plain ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClocksSnapshot {
    /// The clocks.
    pub clocks: Clocks,
    /// How often they ran out.
    pub expired: Expired,
    /// Bytes of output a second that streams usually come at, where a crawl is looked for and enough are known.
    pub usual_rate: Option<f64>,
}

/// How often each clock ran out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Expired {
    /// To the first output.
    pub first_output: u64,
    /// Between outputs; streams that were cut because they crawled count here.
    pub idle: u64,
    /// Without a byte of any kind.
    pub silence: u64,
    /// The whole attempt.
    pub total: u64,
}

// === impl Expired ===

impl Expired {
    /// One more ran out.
    pub(super) const fn count(&mut self, clock: Clock) {
        match clock {
            Clock::FirstOutput => self.first_output += 1,
            Clock::Idle => self.idle += 1,
            Clock::Silence => self.silence += 1,
            Clock::Total => self.total += 1,
            // A connection is the client's to wait for.
            Clock::Connect => {}
        }
    }
}
