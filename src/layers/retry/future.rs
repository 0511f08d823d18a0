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
use crate::observe::{Committing, Fallen, Follow};

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
            let Fallen { failure, response } = match this.state.as_mut().project() {
                StateProj::Calling { call } => match ready!(call.poll(cx)) {
                    Ok(response) => return Poll::Ready(Ok(remembering(response, this.again))),
                    Err(fallen) => fallen,
                },
                StateProj::Between => {
                    let again = this.again.as_mut().expect("made before the state is entered");
                    match ready!(again.poll_call(this.shared, this.request, cx)) {
                        Ok(call) => {
                            this.state.set(State::Calling { call: Committing::new(call) });
                            continue;
                        }
                        Err(failure) => Fallen { failure, response: None },
                    }
                }
            };
            if let Err(failure) = plan(this.shared, this.request, this.again, failure) {
                return Poll::Ready(Fallen::give_up(response, failure));
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
