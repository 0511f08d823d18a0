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
use crate::observe::{Committing, Fallen, Follow};

use super::account::Account;
use super::layer::Lineup;
use super::pass::Pass;

pin_project! {
    /// A call on its way through the candidates.
    pub struct ResponseFuture<S: Service<R>, R> {
        lineup: Arc<Lineup<S>>,
        request: R,
        // None as long as the first candidate is asked of which nothing is remembered.
        pass: Option<Box<Pass>>,
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
        // => Choosing | done
        Calling { #[pin] call: Committing<F, T> },
        // => done: nobody could be asked
        Failed { failure: Option<Failure> },
    }
}

// === impl ResponseFuture ===

impl<S: Service<R>, R> ResponseFuture<S, R> {
    pub(super) const fn calling(
        lineup: Arc<Lineup<S>>,
        request: R,
        pass: Option<Box<Pass>>,
        call: S::Future,
    ) -> Self {
        Self { lineup, request, pass, state: State::Calling { call: Committing::new(call) } }
    }

    /// Readies this service, or one of its own.
    pub(super) fn readying(
        lineup: Arc<Lineup<S>>,
        request: R,
        pass: Option<Box<Pass>>,
        service: Option<S>,
    ) -> Self {
        let state = service.map_or(State::Choosing, |service| State::Readying { service });
        Self { lineup, request, pass, state }
    }

    pub(super) const fn failed(lineup: Arc<Lineup<S>>, request: R, failure: Failure) -> Self {
        Self { lineup, request, pass: None, state: State::Failed { failure: Some(failure) } }
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
            let Fallen { failure, response } = match this.state.as_mut().project() {
                StateProj::Choosing => {
                    let asked = this.pass.as_ref().map_or(0, |pass| pass.asked.candidate);
                    let service = this.lineup.services[asked].clone();
                    this.state.set(State::Readying { service });
                    continue;
                }
                StateProj::Readying { service } => match ready!(service.poll_ready(cx)) {
                    Ok(()) => {
                        let call = service.call(this.lineup.asking(this.request, this.pass.as_deref()));
                        this.state.set(State::Calling { call: Committing::new(call) });
                        continue;
                    }
                    Err(error) => Fallen::before(error),
                },
                StateProj::Calling { call } => match ready!(call.poll(cx)) {
                    Ok(response) => return Poll::Ready(Ok(follow(response, this.lineup, this.pass))),
                    Err(fallen) => fallen,
                },
                StateProj::Failed { failure } => {
                    let failure = failure.take().expect("polled after it was ready");
                    return Poll::Ready(Err(S::Error::from(failure)));
                }
            };
            let straight = || Box::new(Pass::straight(&this.lineup.shared, this.request.call()));
            let pass = this.pass.get_or_insert_with(straight);
            // The failed attempt is gone before the next one starts.
            match pass.go_on(failure) {
                Ok(()) => this.state.set(State::Choosing),
                Err(failure) => {
                    let last: Result<S::Response, S::Error> = Fallen::give_up(response, failure);
                    this.state.set(State::Failed { failure: None });
                    let account = || Watch::new(this.lineup.account(Some(pass)).judged());
                    return Poll::Ready(last.map(|response| response.follow(account())));
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
fn follow<T: Follow, S>(
    mut response: T,
    lineup: &Lineup<S>,
    pass: &mut Option<Box<Pass>>,
) -> T::Followed<Account> {
    if let Some(pass) = pass {
        let attempts = pass.commit();
        if !attempts.is_empty() {
            response.remember(attempts);
        }
    }
    response.follow(Watch::new(lineup.account(pass.as_deref())))
}
