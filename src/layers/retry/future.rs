//! A call and its retries.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::chat::Ask;
use crate::event::Fact;
use crate::failure::{Attempt, Failure, Fault};
use crate::observe::Follow;
use crate::time::{Sleep, now, sleep_until};

use super::layer::Shared;
use super::plan::{Token, Tries, Verdict};

pin_project! {
    /// A call and its retries.
    pub struct ResponseFuture<S: Service<R>, R> {
        shared: Arc<Shared<S>>,
        request: R,
        #[pin]
        state: State<S::Future, S::Response>,
        again: Option<Box<Again<S>>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, T> {
        // => Committing | Between | done
        Calling { #[pin] call: F },
        // => Between | done
        Committing { response: Option<T> },
        // Waiting or readying, in `again`. => Calling
        Between,
    }
}

/// What only a call with retries needs.
struct Again<S> {
    tries: Tries,
    attempts: Vec<Attempt>,
    step: Step<S>,
}

enum Step<S> {
    Idle,
    Waiting { timer: Pin<Box<Sleep>>, token: Token, retry_id: u64 },
    Readying { service: S, token: Token },
}

/// Names retries within the process.
static RETRY_ID: AtomicU64 = AtomicU64::new(1);

// === impl ResponseFuture ===

impl<S: Service<R>, R> ResponseFuture<S, R> {
    pub(super) const fn new(shared: Arc<Shared<S>>, request: R, call: S::Future) -> Self {
        Self { shared, request, state: State::Calling { call }, again: None }
    }
}

impl<S, R> Future for ResponseFuture<S, R>
where
    S: Service<R> + Clone,
    S::Response: Follow,
    S::Error: Fault,
    R: Ask + Clone,
{
    type Output = Result<S::Response, S::Error>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let (failure, response) = match this.state.as_mut().project() {
                StateProj::Calling { call } => match ready!(call.poll(cx)) {
                    Ok(mut response) => match response.poll_commit(cx) {
                        Poll::Ready(Ok(())) => return Poll::Ready(Ok(remembering(response, this.again))),
                        Poll::Ready(Err(failure)) => (failure, Some(response)),
                        Poll::Pending => {
                            this.state.set(State::Committing { response: Some(response) });
                            return Poll::Pending;
                        }
                    },
                    Err(error) => (error.into_failure(), None),
                },
                StateProj::Committing { response } => {
                    let held = response.as_mut().expect("polled after it was ready");
                    let committed = ready!(held.poll_commit(cx));
                    let response = response.take().expect("it was there a line above");
                    match committed {
                        Ok(()) => return Poll::Ready(Ok(remembering(response, this.again))),
                        Err(failure) => (failure, Some(response)),
                    }
                }
                StateProj::Between => {
                    let again = this.again.as_mut().expect("made before the state is entered");
                    let call = ready!(again.poll_call(this.shared, this.request, cx))?;
                    this.state.set(State::Calling { call });
                    continue;
                }
            };
            if let Err(failure) = plan(this.shared, this.request, this.again, failure) {
                return Poll::Ready(match response {
                    Some(response) => response.give_up(failure).map_err(S::Error::from),
                    None => Err(S::Error::from(failure)),
                });
            }
            this.state.set(State::Between);
        }
    }
}

impl<S: Service<R>, R> fmt::Debug for ResponseFuture<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

// === impl Again ===

impl<S> Again<S> {
    /// Waits, readies a clone, and calls it.
    fn poll_call<R>(
        &mut self,
        shared: &Shared<S>,
        request: &R,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Future, S::Error>>
    where
        S: Service<R> + Clone,
        R: Ask + Clone,
    {
        loop {
            match &mut self.step {
                // Waiting => Readying
                Step::Waiting { timer, .. } => {
                    ready!(timer.as_mut().poll(cx));
                    let service = shared.template.clone();
                    if let Step::Waiting { token, retry_id, .. } =
                        std::mem::replace(&mut self.step, Step::Idle)
                    {
                        self.step = Step::Readying { service, token };
                        let call = request.call().id;
                        shared.plan.facts.emit(&Fact::RetryStarted { call, retry_id });
                    }
                }
                // Readying => Idle, with the call made
                Step::Readying { service, .. } => {
                    ready!(service.poll_ready(cx))?;
                    let mut request = request.clone();
                    let mut call = request.call();
                    call.attempt = u16::try_from(self.tries.retries + 1).unwrap_or(u16::MAX);
                    request.set_call(call);
                    let call = service.call(request);
                    if let Step::Readying { token, .. } = std::mem::replace(&mut self.step, Step::Idle) {
                        token.spend();
                    }
                    return Poll::Ready(Ok(call));
                }
                Step::Idle => unreachable!("a step is set before it is polled"),
            }
        }
    }
}

/// Plans the retry of a failure, or says what goes up.
fn plan<S, R: Ask>(
    shared: &Shared<S>,
    request: &R,
    again: &mut Option<Box<Again<S>>>,
    failure: Failure,
) -> Result<(), Failure> {
    let call = request.call();
    let mut tries = again.as_mut().map(|again| std::mem::take(&mut again.tries)).unwrap_or_default();
    match shared.plan.judge(&failure, call, &mut tries, now()) {
        Verdict::Again { delay, until, token } => {
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
            let mut attempts = again.take().map(|again| again.attempts).unwrap_or_default();
            attempts.extend_from_slice(failure.attempts());
            attempts.push(failure.as_attempt());
            let step = Step::Waiting { timer: Box::pin(sleep_until(until)), token, retry_id };
            *again = Some(Box::new(Again { tries, attempts, step }));
            Ok(())
        }
        Verdict::Final => Err(remembered(failure, again)),
        Verdict::Refused(reason) => {
            shared.plan.facts.emit(&Fact::RetryRefused { call: call.id, failure: &failure, reason });
            Err(remembered(failure, again).exhaust())
        }
    }
}

fn remembering<T: Follow, S>(mut response: T, again: &mut Option<Box<Again<S>>>) -> T {
    if let Some(again) = again.take() {
        response.remember(again.attempts);
    }
    response
}

fn remembered<S>(failure: Failure, again: &mut Option<Box<Again<S>>>) -> Failure {
    let Some(again) = again.take() else { return failure };
    let mut attempts = again.attempts;
    attempts.extend_from_slice(failure.attempts());
    failure.with_attempts(attempts)
}
