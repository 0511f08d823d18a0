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
use crate::observe::Follow;

use super::again::{Again, plan, remembering};
use super::layer::Shared;

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
        // Waiting or readying, in `again`. => Calling | done
        Between,
    }
}

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
                    match ready!(again.poll_call(this.shared, this.request, cx)) {
                        Ok(call) => {
                            this.state.set(State::Calling { call });
                            continue;
                        }
                        Err(failure) => (failure, None),
                    }
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
