//! The account of one request, closed once.

use std::sync::Arc;
use std::time::Duration;

use crate::chat::{CallId, End, Observer, Sign};
use crate::event::{Fact, Facts};
use crate::time::{Instant, now};

/// Tells how one request to a provider ended: [`Fact::Settled`].
#[derive(Debug)]
pub struct Settlement {
    facts: Facts,
    call: CallId,
    provider: Arc<str>,
    started: Instant,
    first_output: Option<Duration>,
}

// === impl Settlement ===

impl Settlement {
    pub(super) fn new(facts: &Facts, call: CallId, provider: &Arc<str>) -> Self {
        let (facts, provider) = (facts.clone(), Arc::clone(provider));
        Self { facts, call, provider, started: now(), first_output: None }
    }
}

impl Observer for Settlement {
    fn see(&mut self, sign: Sign) {
        if self.first_output.is_none() && matches!(sign, Sign::Output(_)) {
            self.first_output = Some(self.started.elapsed());
        }
    }

    fn settle(self, how: End<'_>) {
        let usage = match how {
            End::Completed(usage) => usage,
            End::Failed(_) | End::Abandoned => None,
        };
        self.facts.emit(&Fact::Settled {
            call: self.call,
            provider: &self.provider,
            outcome: how.into(),
            usage,
            first_output: self.first_output,
            elapsed: self.started.elapsed(),
        });
    }
}
