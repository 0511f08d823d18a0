//! What is left out of a call before it is made: optional tools that cannot be called now.

use std::sync::Arc;

use crate::chat::{CallId, Degradation, Request, Tried};
use crate::event::Fact;
use crate::failure::Failure;

use super::answer::Lack;
use super::ladder::{Ladder, Place, not_callable};
use super::tools::leave_out;

/// The second rung, taken before the call rather than after its failure: the tools that it is made without.
#[derive(Clone)]
pub(super) struct LeftOut {
    pub(super) tools: Vec<String>,
}

// === impl LeftOut ===

impl LeftOut {
    /// Takes the tools that cannot be called now out of a request, if it offers any; the ladder of the call knows them.
    pub(super) fn of(ladder: Arc<Ladder>, request: Request) -> (Arc<Ladder>, Request) {
        let tools = ladder.shut(&request);
        if tools.is_empty() {
            return (ladder, request);
        }
        let request = leave_out(request, &tools);
        (Arc::new(ladder.without(Self { tools })), request)
    }

    /// The call was answered without them: the record of it, as the second rung writes it.
    #[cold]
    pub(super) fn answered(&self, ladder: &Ladder, call: CallId) -> Degradation {
        let (rung, why) = (Place::SkipTool.as_str(), self.why());
        let mut record = Degradation::after(why.clone());
        Lack::without(&self.tools, ladder.config.quality.skip_tool).write(rung, &mut record);
        ladder.skipped.count(true);
        ladder.tell(call, rung, record.quality_estimate, &why);
        record
    }

    /// A call that was made without some failed, too.
    #[cold]
    pub(super) fn failed(ladder: &Ladder, call: CallId, failure: &Failure) {
        ladder.skipped.count(false);
        ladder.facts.emit(&Fact::Rung { call, rung: Place::SkipTool.as_str(), failure: Some(failure) });
    }

    /// What was tried of a call that failed with this: not the request as it was asked, but the one without them.
    pub(super) fn tried(&self, failure: &Failure) -> Vec<Tried> {
        let without = Tried::failed(Place::SkipTool.as_str(), Some(self.tools.join(", ")), failure);
        vec![Tried::failed("request", None, &self.why()), without]
    }

    /// Why the request could not be made as it was asked.
    fn why(&self) -> Failure {
        let failure = not_callable(&self.tools.join("`, `"));
        self.tools.iter().fold(failure, |failure, tool| failure.with_tool(tool))
    }
}
