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
use crate::observe::{Committing, Fallen, Follow, Look};

use super::account::Account;
use super::layer::Lineup;
use super::pass::Pass;

pin_project! {
    /// A call on its way through the candidates.
    #[project = CallProj]
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
    S: Service<R, Response: Follow, Error: Fault> + Clone,
    R: Ask + Clone,
{
    type Output = Result<<S::Response as Follow>::Followed<Account>, S::Error>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StateProj::Failed { failure } = this.state.as_mut().project() {
            let failure = failure.take().expect("polled after it was ready");
            return Poll::Ready(Err(S::Error::from(failure)));
        }
        let mut polled = this.poll_candidate(cx);
        let look = this.look(&mut polled, cx);
        let gave_up = matches!(look, Look::Failed(_)) && this.go_on(&mut polled, look, cx);
        match polled {
            Poll::Ready(Ok(mut response)) => {
                if !gave_up && let Some(pass) = this.pass {
                    commit(&mut response, pass);
                }
                let account = this.lineup.account(this.pass.as_deref(), gave_up);
                Poll::Ready(Ok(response.follow(Watch::new(account))))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
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
    /// The answer of the candidate that is asked, or chosen to be.
    #[inline(always)]
    fn poll_candidate(&mut self, cx: &mut Context<'_>) -> Poll<Result<S::Response, S::Error>> {
        if !matches!(self.state.as_mut().project(), StateProj::Calling { .. }) {
            ready!(self.poll_ask(cx))?;
        }
        match self.state.as_mut().project() {
            StateProj::Calling { call } => call.poll_begun(cx),
            _ => Poll::Pending,
        }
    }

    #[inline(always)]
    fn look(&mut self, polled: &mut Poll<Result<S::Response, S::Error>>, cx: &mut Context<'_>) -> Look {
        match self.state.as_mut().project() {
            StateProj::Calling { call } => call.look(polled, cx),
            _ if matches!(polled, Poll::Ready(Err(_))) => Look::Failed(None),
            _ => Look::Fine,
        }
    }

    /// Chooses the service of the pass's candidate, readies and calls it.
    #[cold]
    fn poll_ask(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if let StateProj::Choosing = self.state.as_mut().project() {
            let asked = self.pass.as_ref().map_or(0, |pass| pass.asked.candidate);
            let service = self.lineup.services[asked].clone();
            self.state.set(State::Readying { service });
        }
        let StateProj::Readying { service } = self.state.as_mut().project() else {
            return Poll::Ready(Ok(()));
        };
        ready!(service.poll_ready(cx))?;
        let call = service.call(self.lineup.asking(self.request, self.pass.as_deref()));
        self.state.set(State::Calling { call: Committing::new(call) });
        Poll::Ready(Ok(()))
    }

    /// Asks the next candidates as long as one helps, and says whether it gave up.
    #[cold]
    #[inline(never)]
    fn go_on(
        &mut self,
        polled: &mut Poll<Result<S::Response, S::Error>>,
        mut look: Look,
        cx: &mut Context<'_>,
    ) -> bool {
        while let Some(Fallen { failure, response }) = Fallen::take(polled, look) {
            let straight = || Box::new(Pass::straight(&self.lineup.shared, self.request.call()));
            let pass = self.pass.get_or_insert_with(straight);
            if let Err(failure) = pass.go_on(failure) {
                *polled = Poll::Ready(Fallen::give_up(response, failure));
                self.state.set(State::Failed { failure: None });
                return true;
            }
            // The failed attempt is gone before the next one starts.
            self.state.set(State::Choosing);
            drop(response);
            *polled = self.poll_candidate(cx);
            look = self.look(polled, cx);
        }
        false
    }
}

/// The first output is there: the tries before it are kept in the head.
#[cold]
fn commit<T: Follow>(response: &mut T, pass: &mut Pass) {
    let attempts = pass.commit();
    if !attempts.is_empty() {
        response.remember(attempts);
    }
}
