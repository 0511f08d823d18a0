//! The end of a call as who made it sees it: told once, whatever it took to answer.

use std::sync::Arc;

use crate::chat::{Ask, CallId, Completion, Level, Outcome, Request};
use crate::event::Fact;
use crate::failure::Failure;

use super::ladder::Ladder;

/// Tells how a call ended: as it is told itself, or on drop as abandoned. It goes from the call's future on to its
/// stream, with the ladder that both need.
pub(super) struct Ending {
    pub(super) ladder: Arc<Ladder>,
    pub(super) call: CallId,
    /// How far the answer is from what was asked, as far as it is known.
    pub(super) level: Level,
    told: bool,
}

// === impl Ending ===

impl Ending {
    #[inline(always)]
    pub(super) fn new(ladder: Arc<Ladder>, request: &Request) -> Self {
        Self { ladder, call: request.call().id, level: Level::None, told: false }
    }

    /// The last event came.
    #[inline]
    pub(super) fn complete(&mut self, completion: &Completion) {
        self.level = completion.degradation().level;
        self.tell(Outcome::Completed(completion.usage));
    }

    /// There is no answer.
    #[cold]
    pub(super) fn fail(&mut self, failure: &Failure) {
        self.level = Level::None;
        self.tell(Outcome::from(failure));
    }

    /// A second time is no time.
    #[inline]
    fn tell(&mut self, outcome: Outcome) {
        if !std::mem::replace(&mut self.told, true) {
            let Self { call, level, .. } = *self;
            self.ladder.facts.emit(&Fact::Ended { call, outcome, level });
        }
    }
}

impl Drop for Ending {
    #[inline]
    fn drop(&mut self) {
        self.tell(Outcome::Abandoned);
    }
}
