//! Whether to try again, and when: the judgement of one failure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::chat::Call;
use crate::event::{Facts, RetryRefusal};
use crate::failure::{Clock, Code, Failure};
use crate::time::{Instant, now};

use super::budget::RetryBudget;
use super::config::RetryConfig;
use super::snapshot::RetrySnapshot;

/// What all calls through a layer and its clones share.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: RetryConfig,
    pub(super) facts: Facts,
    calls: AtomicU64,
    shared: Mutex<Shared>,
}

#[derive(Debug)]
struct Shared {
    budget: Option<RetryBudget>,
    rng: fastrand::Rng,
}

/// What one call has behind it.
#[derive(Debug, Default)]
pub(super) struct Tries {
    pub(super) retries: u32,
    late: bool,
    before: Duration,
}

/// What is to be done about a failure.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Try again after this wait, but not after the last instant.
    Again { delay: Duration, until: Instant, last: Option<Instant>, token: Token },
    /// Not a failure that another try can help.
    Final,
    /// One that might, but not now.
    Refused(RetryRefusal),
}

/// A retry drawn from the budget; given back unless it is made.
#[derive(Debug)]
pub(super) struct Token(Option<(Arc<Plan>, Instant)>);

// === impl Plan ===

impl Plan {
    pub(super) fn new(config: RetryConfig, facts: Facts) -> Self {
        let rng = config.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let budget = config.budget.map(|budget| RetryBudget::new(budget, now()));
        Self { config, facts, calls: AtomicU64::new(0), shared: Mutex::new(Shared { budget, rng }) }
    }

    /// A call begins: it pays into the budget. No clock is read.
    pub(super) fn deposit(&self) {
        if self.config.budget.is_some() {
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The checks, in order: retryable, attempts, wait, deadline, budget.
    pub(super) fn judge(
        self: &Arc<Self>,
        failure: &Failure,
        call: Call,
        tries: &mut Tries,
        now: Instant,
    ) -> Verdict {
        let config = &self.config;
        let open = !failure.is_exhausted() && !failure.is_local() && failure.should_retry() != Some(false);
        if !(open && config.takes(failure.code(), failure.judgement().retry)) {
            return Verdict::Final;
        }
        let late = failure.code() == Code::Timeout(Clock::FirstOutput);
        if tries.retries >= config.retries || call.single || (late && tries.late) {
            return Verdict::Refused(RetryRefusal::Attempts);
        }
        if failure.retry_after().is_some_and(|wait| wait > config.max_retry_after) {
            return Verdict::Refused(RetryRefusal::Wait);
        }
        let delay = self.delay(failure, tries);
        let Some(until) = now.checked_add(delay) else { return Verdict::Refused(RetryRefusal::Wait) };
        // A deadline closer than the least attempt leaves no instant at all.
        let last = call.first_output_by().map(|by| by.checked_sub(config.min_attempt));
        if last.is_some_and(|last| last.is_none_or(|last| until > last)) {
            return Verdict::Refused(RetryRefusal::Deadline);
        }
        let Some(token) = self.draw(now) else { return Verdict::Refused(RetryRefusal::Budget) };
        tries.retries += 1;
        tries.late |= late;
        tries.before = delay;
        Verdict::Again { delay, until, last: last.flatten(), token }
    }

    pub(super) fn snapshot(&self, now: Instant) -> RetrySnapshot {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = self.calls.load(Ordering::Relaxed);
        let budget = shared.budget.as_ref().map(|budget| budget.look(calls, now));
        RetrySnapshot { policy: self.config.policy.clone(), budget }
    }

    fn delay(&self, failure: &Failure, tries: &Tries) -> Duration {
        let backoff = self.config.backoff();
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.retry_after() {
            Some(floor) if !floor.is_zero() => backoff.delay_from(floor, tries.retries, &mut shared.rng),
            _ => backoff.delay(tries.retries, tries.before, &mut shared.rng),
        }
    }

    fn draw(self: &Arc<Self>, now: Instant) -> Option<Token> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(budget) = &mut shared.budget else { return Some(Token(None)) };
        let calls = self.calls.swap(0, Ordering::Relaxed);
        budget.draw(calls, now).ok()?;
        Some(Token(Some((Arc::clone(self), now))))
    }
}

// === impl Token ===

impl Token {
    /// The retry is made.
    pub(super) fn spend(mut self) {
        self.0 = None;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if let Some((plan, drawn)) = self.0.take() {
            let mut shared = plan.shared.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(budget) = &mut shared.budget {
                budget.give_back(drawn);
            }
        }
    }
}
