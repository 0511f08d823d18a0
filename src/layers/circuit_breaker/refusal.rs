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
    pub(super) fn of(
        &mut self,
        facing: Facing,
        wait: Option<Duration>,
        name: impl FnOnce() -> String,
    ) -> Failure {
        match &self.0 {
            Some((before, failure)) if *before == facing => failure.clone().with_retry_after(wait),
            _ => {
                let failure = Failure::local(Code::CircuitOpen, words(&name(), facing));
                self.0 = Some((facing, failure.clone()));
                failure.with_retry_after(wait)
            }
        }
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
