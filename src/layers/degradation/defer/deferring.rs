//! The rung.

use std::sync::Arc;

use crate::chat::Level;
use crate::failure::{Code, Failure};

use super::super::answer::Answer;
use super::super::graceful::spoken;
use super::super::ladder::Place;
use super::super::rung::{Answering, Case, Consider, Rung};
use super::queue::{DeferQueue, Deferred};

/// Puts the call in line.
pub(in super::super) struct Deferring {
    queue: Arc<dyn DeferQueue>,
    quality: f64,
}

// === impl Deferring ===

impl Deferring {
    pub(in super::super) const fn new(queue: Arc<dyn DeferQueue>, quality: f64) -> Self {
        Self { queue, quality }
    }
}

impl Rung for Deferring {
    fn name(&self) -> &str {
        Place::Deferred.as_str()
    }

    /// A job in line again would never end, and one that no wait helps would wait for nothing.
    fn consider(&self, case: &Case) -> Consider {
        let again = case.request().extensions.get::<Deferred>().is_some();
        if again || !waiting_helps(case.failure()) { Consider::Pass } else { Consider::Try }
    }

    fn try_answer<'a>(&'a self, case: &'a mut Case) -> Answering<'a> {
        Box::pin(async move {
            let ticket = self.queue.defer(case.request().clone(), case.failure().retry_after()).await?;
            let text = format!(
                "Your request is number {} in line, and will be answered in about {}. Ask for it as {}.",
                ticket.position,
                spoken(ticket.wait),
                ticket.id
            );
            let answer = Answer::text(case, Level::Deferred, self.quality, text);
            Ok(answer.missing("answer").by(ticket.id.clone()).ticket(ticket))
        })
    }
}

/// Whether the same call may be answered later.
pub(super) fn waiting_helps(failure: &Failure) -> bool {
    use crate::failure::Class::{Aggregate, Deadline, Local, Malformed, Network, Quota, Transient};
    match failure.code() {
        Code::CostAboveCapacity => false,
        code => {
            matches!(code.class(), Aggregate | Deadline | Local | Malformed | Network | Quota | Transient)
        }
    }
}
