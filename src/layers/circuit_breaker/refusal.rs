//! The words of refusals.

use std::time::Duration;

use crate::event;
use crate::failure::{Code, Failure};

/// What a refused call faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facing {
    pub(super) generation: u16,
    pub(super) state: event::Circuit,
    pub(super) failures: u32,
}

/// The last refusal: while a circuit stays as it is, every call is refused in the same words, which are not written
/// anew.
#[derive(Debug, Default)]
pub(super) struct Refusal(Option<(Facing, Failure)>);

// === impl Refusal ===

impl Refusal {
    /// A refusal that names the circuit, its state and its failures, and carries the time until the next try.
    pub(super) fn of(&mut self, facing: Facing, wait: Option<Duration>, name: &str) -> Failure {
        let known = self.0.take().filter(|(before, _)| *before == facing);
        let failure = known
            .map_or_else(|| Failure::local(Code::CircuitOpen, words(name, facing)), |(_, failure)| failure);
        // Where whoever was refused before has let go of it, nothing is copied. A state that names no time never does.
        let failure = failure.with_retry_after(wait);
        self.0 = Some((facing, failure.clone()));
        failure
    }
}

fn words(name: &str, facing: Facing) -> String {
    let state = match facing.state {
        event::Circuit::HalfOpen => "half-open, and its probes are out",
        event::Circuit::ForcedOpen => "held open by hand",
        event::Circuit::Closed => "closed, and lets calls back in by parts",
        event::Circuit::Open | event::Circuit::Disabled | event::Circuit::Observe => "open",
    };
    format!("{name} is {state}; failures: {}", facing.failures)
}
