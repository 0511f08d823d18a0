//! A call and its retries.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::chat::Ask;
use crate::failure::Fault;
use crate::observe::{Committing, Fallen, Follow, Look};

use super::again::{Again, plan, remember};
use super::layer::Shared;

pin_project! {
    /// A call and its retries.
    #[project = CallProj]
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
        // => Between | done
        Calling { #[pin] call: Committing<F, T> },
        // Waiting or readying, in `again`. => Calling | done
        Between,
    }
}

// === impl ResponseFuture ===

impl<S: Service<R>, R> ResponseFuture<S, R> {
    pub(super) const fn new(shared: Arc<Shared<S>>, request: R, call: S::Future) -> Self {
        Self { shared, request, state: State::Calling { call: Committing::new(call) }, again: None }
    }
}

impl<S, R> Future for ResponseFuture<S, R>
where
    S: Service<R, Response: Follow, Error: Fault> + Clone,
    R: Ask + Clone,
{
    type Output = Result<S::Response, S::Error>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut polled = this.poll_attempt(cx);
        let look = this.look(&mut polled, cx);
        if this.again.is_some() || matches!(look, Look::Failed(_)) {
            this.go_on(&mut polled, look, cx);
        }
        polled
    }
}

impl<S: Service<R>, R> fmt::Debug for ResponseFuture<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

// === impl CallProj ===

impl<S, R> CallProj<'_, S, R>
where
    S: Service<R, Response: Follow, Error: Fault> + Clone,
    R: Ask + Clone,
{
    /// The answer of the attempt that runs, or of the next one once its wait is over.
    #[inline(always)]
    fn poll_attempt(&mut self, cx: &mut Context<'_>) -> Poll<Result<S::Response, S::Error>> {
        if let StateProj::Between = self.state.as_mut().project() {
            let again = self.again.as_mut().expect("made before the state is entered");
            match ready!(again.poll_call(self.shared, self.request, cx)) {
                Ok(call) => self.state.set(State::Calling { call: Committing::new(call) }),
                Err(failure) => return Poll::Ready(Err(S::Error::from(failure))),
            }
        }
        match self.state.as_mut().project() {
            StateProj::Calling { call } => call.poll_begun(cx),
            StateProj::Between => Poll::Pending,
        }
    }

    #[inline(always)]
    fn look(&mut self, polled: &mut Poll<Result<S::Response, S::Error>>, cx: &mut Context<'_>) -> Look {
        match self.state.as_mut().project() {
            StateProj::Calling { call } => call.look(polled, cx),
            StateProj::Between if matches!(polled, Poll::Ready(Err(_))) => Look::Failed(None),
            StateProj::Between => Look::Fine,
        }
    }

    /// Tries again as long as it helps.
    #[cold]
    #[inline(never)]
    fn go_on(
        &mut self,
        polled: &mut Poll<Result<S::Response, S::Error>>,
        mut look: Look,
        cx: &mut Context<'_>,
    ) {
        while let Some(Fallen { failure, response }) = Fallen::take(polled, look) {
            if let Err(failure) = plan(self.shared, self.request, self.again, failure) {
                *polled = Poll::Ready(Fallen::give_up(response, failure));
                return;
            }
            // The failed attempt is gone before the next one starts.
            self.state.set(State::Between);
            drop(response);
            *polled = self.poll_attempt(cx);
            look = self.look(polled, cx);
        }
        if let Poll::Ready(Ok(response)) = polled {
            remember(response, self.again);
        }
    }
}
