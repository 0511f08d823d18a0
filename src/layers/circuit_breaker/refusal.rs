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
    /// A refusal that names the circuit, its state, its failures, and the next try.
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
    let (state, next) = match facing.state {
        event::Circuit::HalfOpen => ("half-open", "when a probe reports"),
        event::Circuit::ForcedOpen => ("held open by hand", "when it is let go of"),
        event::Circuit::Closed => ("closed, and lets calls back in by parts", "as stated"),
        event::Circuit::Open | event::Circuit::Disabled | event::Circuit::Observe => ("open", "as stated"),
    };
    format!("{name} is {state}; failures: {}; next try: {next}", facing.failures)
}
