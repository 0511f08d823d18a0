//! Between two attempts: what is planned, waited for and readied.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tower_service::Service;

use crate::chat::Ask;
use crate::event::{Fact, RetryRefusal};
use crate::failure::{Attempt, Failure, Fault};
use crate::observe::Follow;
use crate::time::{Instant, Sleep, now, sleep_until};

use super::layer::Shared;
use super::plan::{Token, Tries, Verdict};

/// What only a call with retries needs.
pub(super) struct Again<S> {
    tries: Tries,
    attempts: Vec<Attempt>,
    planned: Option<Planned>,
    step: Step<S>,
}

/// A retry that is not made yet. Dropped, it costs nothing.
struct Planned {
    failure: Failure,
    retry_id: u64,
    token: Token,
    timer: Pin<Box<Sleep>>,
    /// The last instant at which it may start.
    last: Option<Instant>,
}

enum Step<S> {
    // => Readying
    Waiting,
    // => the call is made
    Readying { service: S },
}

/// Names retries within the process.
static RETRY_ID: AtomicU64 = AtomicU64::new(1);

// === impl Again ===

impl<S> Again<S> {
    /// Waits, readies a clone, and calls it.
    ///
    /// # Errors
    /// The failure of the attempt before if the clone was not ready in time; or the clone's own. No retry helps.
    pub(super) fn poll_call<R>(
        &mut self,
        shared: &Shared<S>,
        request: &R,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Future, Failure>>
    where
        S: Service<R, Error: Fault> + Clone,
        R: Ask + Clone,
    {
        loop {
            let planned = self.planned.as_mut().expect("a retry is planned before it is polled");
            match &mut self.step {
                Step::Waiting => {
                    ready!(planned.timer.as_mut().poll(cx));
                    if let Some(last) = planned.last {
                        planned.timer.as_mut().reset(last);
                    }
                    self.step = Step::Readying { service: shared.template.clone() };
                }
                Step::Readying { service } => {
                    match service.poll_ready(cx) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(error)) => {
                            self.note();
                            return Poll::Ready(Err(error.into_failure().exhaust()));
                        }
                        Poll::Pending if planned.last.is_none() => return Poll::Pending,
                        Poll::Pending => {
                            ready!(planned.timer.as_mut().poll(cx));
                            return Poll::Ready(Err(self.refuse(shared, request)));
                        }
                    }
                    if planned.last.is_some_and(|last| now() > last) {
                        return Poll::Ready(Err(self.refuse(shared, request)));
                    }
                    let (call, retry_id) = (request.call().id, planned.retry_id);
                    shared.plan.facts.emit(&Fact::RetryStarted { call, retry_id });
                    let call = service.call(numbered(request, self.tries.retries + 1));
                    if let Some(token) = self.note() {
                        token.spend();
                    }
                    return Poll::Ready(Ok(call));
                }
            }
        }
    }

    /// Puts the failure that the retry answers among the attempts before it.
    fn note(&mut self) -> Option<Token> {
        let Planned { failure, token, .. } = self.planned.take()?;
        self.attempts.extend_from_slice(failure.attempts());
        self.attempts.push(failure.as_attempt());
        Some(token)
    }

    /// The retry would start too late: the failure that it answers is the last.
    fn refuse<R: Ask>(&mut self, shared: &Shared<S>, request: &R) -> Failure {
        let failure = self.planned.take().expect("it is refused once").failure;
        let (call, reason) = (request.call().id, RetryRefusal::Deadline);
        shared.plan.facts.emit(&Fact::RetryRefused { call, failure: &failure, reason });
        failure.exhaust()
    }
}

/// Plans the retry of a failure, or says what goes up.
pub(super) fn plan<S, R: Ask>(
    shared: &Shared<S>,
    request: &R,
    again: &mut Option<Box<Again<S>>>,
    failure: Failure,
) -> Result<(), Failure> {
    let call = request.call();
    let mut tries = again.as_mut().map(|again| std::mem::take(&mut again.tries)).unwrap_or_default();
    match shared.plan.judge(&failure, call, &mut tries, now()) {
        Verdict::Again { delay, until, last, token } => {
            let retry_id = RETRY_ID.fetch_add(1, Ordering::Relaxed);
            shared.plan.facts.emit(&Fact::RetryPlanned {
                call: call.id,
                retry_id,
                provider: failure.provider().map(AsRef::as_ref),
                policy: &shared.plan.config.policy,
                failure: &failure,
                delay,
                attempt: tries.retries,
                of: shared.plan.config.retries,
            });
            let attempts = again.take().map(|again| again.attempts).unwrap_or_default();
            let planned =
                Some(Planned { failure, retry_id, token, timer: Box::pin(sleep_until(until)), last });
            *again = Some(Box::new(Again { tries, attempts, planned, step: Step::Waiting }));
            Ok(())
        }
        Verdict::Final => {
            // What was tried again, and what this retry alone will not try, no retry further out may try either.
            let tried = tries.retries > 0 || failure.judgement().retry;
            let failure = remembered(failure, again);
            Err(if tried { failure.exhaust() } else { failure })
        }
        Verdict::Refused(reason) => {
            shared.plan.facts.emit(&Fact::RetryRefused { call: call.id, failure: &failure, reason });
            Err(remembered(failure, again).exhaust())
        }
    }
}

/// Puts the attempts before a response into its head.
pub(super) fn remember<T: Follow, S>(response: &mut T, again: &mut Option<Box<Again<S>>>) {
    if let Some(again) = again.take() {
        response.remember(again.attempts);
    }
}

fn remembered<S>(failure: Failure, again: &mut Option<Box<Again<S>>>) -> Failure {
    let Some(again) = again.take() else { return failure };
    let mut attempts = again.attempts;
    attempts.extend_from_slice(failure.attempts());
    failure.with_attempts(attempts)
}

/// The request as the attempt of this number is to see it.
fn numbered<R: Ask + Clone>(request: &R, attempt: u32) -> R {
    let mut request = request.clone();
    let mut call = request.call();
    call.attempt = u16::try_from(attempt).unwrap_or(u16::MAX);
    request.set_call(call);
    request
}
