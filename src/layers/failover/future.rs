//! A call on its way through the candidates.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::chat::{Ask, Watch};
use crate::failure::{Failure, Fault};
use crate::observe::Follow;

use super::layer::{Account, set_call};
use super::pass::Pass;

pin_project! {
    /// A call on its way through the candidates.
    pub struct ResponseFuture<S: Service<R>, R> {
        services: Arc<[S]>,
        request: R,
        pass: Option<Pass>,
        #[pin]
        state: State<S, S::Future, S::Response>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F, T> {
        // => Readying | done: chooses the service of the pass's candidate
        Choosing,
        // => Calling | Choosing | done
        Readying { service: S },
        // => Committing | Choosing | done
        Calling { #[pin] call: F },
        // => Choosing | done
        Committing { response: Option<T> },
        // => done: nobody could be asked
        Failed { failure: Option<Failure> },
    }
}

// === impl ResponseFuture ===

impl<S: Service<R>, R> ResponseFuture<S, R> {
    pub(super) const fn calling(services: Arc<[S]>, request: R, pass: Pass, call: S::Future) -> Self {
        Self { services, request, pass: Some(pass), state: State::Calling { call } }
    }

    /// Readies this service, or one of its own.
    pub(super) fn readying(services: Arc<[S]>, request: R, pass: Pass, service: Option<S>) -> Self {
        let state = service.map_or(State::Choosing, |service| State::Readying { service });
        Self { services, request, pass: Some(pass), state }
    }

    pub(super) const fn failed(services: Arc<[S]>, request: R, failure: Failure) -> Self {
        Self { services, request, pass: None, state: State::Failed { failure: Some(failure) } }
    }
}

impl<S, R> Future for ResponseFuture<S, R>
where
    S: Service<R> + Clone,
    S::Response: Follow,
    S::Error: Fault,
    R: Ask + Clone,
{
    type Output = Result<<S::Response as Follow>::Followed<Account>, S::Error>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let pass = this.pass.as_mut();
            let (failure, response) = match this.state.as_mut().project() {
                StateProj::Choosing => {
                    let service = this.services[pass.expect("there is a pass").asked.candidate].clone();
                    this.state.set(State::Readying { service });
                    continue;
                }
                StateProj::Readying { service } => match ready!(service.poll_ready(cx)) {
                    Ok(()) => {
                        let mut request = this.request.clone();
                        set_call(&mut request, pass.expect("there is a pass"));
                        let call = service.call(request);
                        this.state.set(State::Calling { call });
                        continue;
                    }
                    Err(error) => (error.into_failure(), None),
                },
                StateProj::Calling { call } => match ready!(call.poll(cx)) {
                    Ok(response) => {
                        this.state.set(State::Committing { response: Some(response) });
                        continue;
                    }
                    Err(error) => (error.into_failure(), None),
                },
                StateProj::Committing { response } => {
                    let held = response.as_mut().expect("polled after it was ready");
                    let committed = ready!(held.poll_commit(cx));
                    let response = response.take().expect("it was there a line above");
                    match committed {
                        Ok(()) => {
                            return Poll::Ready(Ok(follow(response, pass.expect("there is a pass"))));
                        }
                        Err(failure) => (failure, Some(response)),
                    }
                }
                StateProj::Failed { failure } => {
                    let failure = failure.take().expect("polled after it was ready");
                    return Poll::Ready(Err(S::Error::from(failure)));
                }
            };
            let pass = this.pass.as_mut().expect("there is a pass");
            // The failed attempt is gone before the next one starts.
            match pass.go_on(failure) {
                Ok(()) => this.state.set(State::Choosing),
                Err(failure) => {
                    let done = match response.map(|response| response.give_up(failure.clone())) {
                        Some(Ok(response)) => Ok(response.follow(Watch::new(Account::judged(pass)))),
                        Some(Err(_)) | None => Err(S::Error::from(failure)),
                    };
                    this.state.set(State::Failed { failure: None });
                    return Poll::Ready(done);
                }
            }
        }
    }
}

impl<S: Service<R>, R> fmt::Debug for ResponseFuture<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// Hands the response over, its end to be remembered and the tries before it kept in its head.
fn follow<T: Follow>(mut response: T, pass: &mut Pass) -> T::Followed<Account> {
    let attempts = pass.commit();
    if !attempts.is_empty() {
        response.remember(attempts);
    }
    response.follow(Watch::new(Account::new(pass)))
}
