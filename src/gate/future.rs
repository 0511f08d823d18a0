//! A call through a gate.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::failure::{Code, Failure, Fault};
use crate::observe::{End, Follow, Observer, Watch};

use super::admission::Waiting;

pin_project! {
    /// A call through a gate.
    pub struct ResponseFuture<S: Service<R>, R, P: Observer> {
        #[pin]
        state: State<S, R, P>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S: Service<R>, R, P: Observer> {
        // => done
        Calling { #[pin] call: S::Future, permit: Option<Watch<P>> },
        // => Calling | done
        Admitting { line: Box<Line<S, R, P>> },
        // => done
        Refused { failure: Option<Failure> },
    }
}

/// A call that waits for its permit, and then for its service.
struct Line<S, R, P: Observer> {
    /// Before the permit.
    wait: Option<Waiting<P>>,
    permit: Option<Watch<P>>,
    /// Not ready before the permit is there.
    service: S,
    request: Option<R>,
}

// === impl ResponseFuture ===

impl<S: Service<R>, R, P: Observer> ResponseFuture<S, R, P> {
    #[inline(always)]
    pub(super) fn calling(call: S::Future, permit: Watch<P>) -> Self {
        Self { state: State::calling(call, permit) }
    }

    pub(super) const fn refused(failure: Failure) -> Self {
        Self { state: State::Refused { failure: Some(failure) } }
    }

    #[cold]
    pub(super) fn waiting(wait: Waiting<P>, service: S, request: R) -> Self {
        let line = Line { wait: Some(wait), permit: None, service, request: Some(request) };
        Self { state: State::Admitting { line: Box::new(line) } }
    }
}

impl<S: Service<R>, R, P: Observer> State<S, R, P> {
    /// A call of its own, so that what is large is moved to its place, and not there by way of another.
    #[inline(never)]
    fn calling(call: S::Future, permit: Watch<P>) -> Self {
        Self::Calling { call, permit: Some(permit) }
    }
}

impl<S, R, P> Future for ResponseFuture<S, R, P>
where
    S: Service<R>,
    S::Response: Follow,
    S::Error: Fault,
    P: Observer,
{
    type Output = Result<<S::Response as Follow>::Followed<P>, S::Error>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Calling { call, permit } => {
                    // Taken apart in one look: a response is large, and each name that it is given moves it.
                    return match call.poll(cx) {
                        Poll::Ready(Ok(response)) => Poll::Ready(Ok(response.follow(held(permit)))),
                        Poll::Ready(Err(error)) => Poll::Ready(Err(failed(error, held(permit)))),
                        Poll::Pending => Poll::Pending,
                    };
                }
                StateProj::Admitting { line } => {
                    let (call, permit) = ready!(line.poll(cx))?;
                    state.set(State::Calling { call, permit: Some(permit) });
                }
                StateProj::Refused { failure } => {
                    let failure = failure.take().expect("polled after it was ready");
                    return Poll::Ready(Err(S::Error::from(failure)));
                }
            }
        }
    }
}

impl<S: Service<R>, R, P: Observer> fmt::Debug for ResponseFuture<S, R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

#[inline(always)]
fn held<P: Observer>(permit: &mut Option<Watch<P>>) -> Watch<P> {
    permit.take().expect("polled after it was ready")
}

/// Tells the permit why its call failed.
fn failed<E: Fault, P: Observer>(error: E, mut permit: Watch<P>) -> E {
    match error.failure() {
        Some(failure) => permit.settle(End::from(failure)),
        None => permit.settle(End::Failed(&Failure::new(Code::Transport, "an error of an unknown kind"))),
    }
    error
}

// === impl Line ===

impl<S, R, P> Line<S, R, P>
where
    S: Service<R>,
    S::Error: Fault,
    P: Observer,
{
    #[cold]
    #[expect(clippy::type_complexity, reason = "a call with its permit, taken apart at once")]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(S::Future, Watch<P>), S::Error>> {
        if let Some(wait) = &mut self.wait {
            let granted = ready!(wait.as_mut().poll(cx));
            self.wait = None;
            self.permit = Some(Watch::new(granted?));
        }
        let ready = ready!(self.service.poll_ready(cx));
        let permit = self.permit.take().expect("polled after it was ready");
        if let Err(error) = ready {
            return Poll::Ready(Err(failed(error, permit)));
        }
        let request = self.request.take().expect("it waits until now");
        Poll::Ready(Ok((self.service.call(request), permit)))
    }
}
