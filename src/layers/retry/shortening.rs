//! A call, and once more if it was too long.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::chat::{Ask, Call};
use crate::failure::{Attempt, Code, Fault};
use crate::observe::{Committing, Fallen, Follow};
use crate::time::{Sleep, now, sleep_until};

use super::shorten::{Shared, Shorten};

pin_project! {
    /// A call, and once more if it was too long.
    pub struct ShortenFuture<S: Service<R>, F: Shorten<R>, R> {
        shared: Arc<Shared<S, F>>,
        // The request; while it is made smaller, nothing.
        request: Option<R>,
        // The attempts before the last one.
        attempts: Vec<Attempt>,
        #[pin]
        state: State<S::Future, S::Response, F::Future, S>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<C, T, F, S> {
        // => Shortening | done
        Calling { #[pin] call: Committing<C, T> },
        // => Readying | done
        Shortening { #[pin] smaller: F, before: Option<Before<T>> },
        // => Last | done
        Readying { service: S },
        // => done
        Last { #[pin] call: C },
    }
}

/// The call that was too long, and what goes up if nothing smaller comes of it in time.
struct Before<T> {
    call: Call,
    size: Option<usize>,
    fallen: Fallen<T>,
    late: Option<Pin<Box<Sleep>>>,
}

// === impl ShortenFuture ===

impl<S: Service<R>, F: Shorten<R>, R> ShortenFuture<S, F, R> {
    pub(super) const fn new(shared: Arc<Shared<S, F>>, request: R, call: S::Future) -> Self {
        let call = Committing::new(call);
        Self { shared, request: Some(request), attempts: Vec::new(), state: State::Calling { call } }
    }
}

impl<S, F, R> Future for ShortenFuture<S, F, R>
where
    S: Service<R, Response: Follow, Error: Fault> + Clone,
    F: Shorten<R>,
    R: Ask + Clone,
{
    type Output = Result<S::Response, S::Error>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let fallen = match this.state.as_mut().project() {
                StateProj::Calling { mut call } => {
                    let mut polled = call.as_mut().poll_begun(cx);
                    let look = call.look(&mut polled, cx);
                    let Some(fallen) = Fallen::take(&mut polled, look) else { return polled };
                    fallen
                }
                StateProj::Shortening { smaller, before } => {
                    let smaller = ready!(poll_smaller(smaller, before, cx));
                    let before = before.take().expect("polled after it was ready");
                    let Some(request) = smaller else { return Poll::Ready(before.give_up()) };
                    *this.attempts = before.fallen.failure.attempts().to_vec();
                    this.attempts.push(before.fallen.failure.as_attempt());
                    *this.request = Some(request);
                    this.state.set(State::Readying { service: this.shared.template.clone() });
                    continue;
                }
                StateProj::Readying { service } => match ready!(service.poll_ready(cx)) {
                    Ok(()) => {
                        let call = service.call(this.request.take().expect("set before"));
                        this.state.set(State::Last { call });
                        continue;
                    }
                    Err(error) => return Poll::Ready(remember(Err(error), this.attempts)),
                },
                StateProj::Last { call } => {
                    let last = ready!(call.poll(cx));
                    return Poll::Ready(remember(last, this.attempts));
                }
            };
            let request = this.request.take().expect("it is taken once");
            let mut before = Before::new(&request, fallen);
            if !before.may_shorten() {
                return Poll::Ready(before.give_up());
            }
            before.late = before.call.first_output_by().map(|by| Box::pin(sleep_until(by)));
            let smaller = this.shared.shorten.shorten(request, &before.fallen.failure);
            this.state.set(State::Shortening { smaller, before: Some(before) });
        }
    }
}

impl<S: Service<R>, F: Shorten<R>, R> fmt::Debug for ShortenFuture<S, F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortenFuture").finish_non_exhaustive()
    }
}

// === impl Before ===

impl<T> Before<T> {
    fn new<R: Ask>(request: &R, fallen: Fallen<T>) -> Self {
        Self { call: request.call(), size: request.size(), fallen, late: None }
    }

    /// Whether the provider found it too long, and another attempt may be made.
    fn may_shorten(&self) -> bool {
        self.fallen.failure.code() == Code::ContextLength
            && !self.fallen.failure.is_local()
            && !self.call.single
    }

    /// The request as the same call, if it is smaller; where nobody can say, the one who made it so is believed.
    fn accept<R: Ask>(&self, mut request: R) -> Option<R> {
        let smaller = request.size().zip(self.size).is_none_or(|(size, before)| size < before);
        let late = self.call.first_output_by().is_some_and(|by| now() >= by);
        request.set_call(self.call);
        (smaller && !late).then_some(request)
    }

    fn give_up<E: Fault>(self) -> Result<T, E>
    where
        T: Follow,
    {
        Fallen::give_up(self.fallen.response, self.fallen.failure)
    }
}

/// The smaller request; none if there is none in time.
fn poll_smaller<F, T, R>(
    smaller: Pin<&mut F>,
    before: &mut Option<Before<T>>,
    cx: &mut Context<'_>,
) -> Poll<Option<R>>
where
    F: Future<Output = Option<R>>,
    R: Ask,
{
    let before = before.as_mut().expect("polled after it was ready");
    if let Poll::Ready(smaller) = smaller.poll(cx) {
        return Poll::Ready(smaller.and_then(|request| before.accept(request)));
    }
    match &mut before.late {
        Some(late) => late.as_mut().poll(cx).map(|()| None),
        None => Poll::Pending,
    }
}

/// The last response with the attempts before it.
fn remember<T: Follow, E: Fault>(last: Result<T, E>, before: &mut Vec<Attempt>) -> Result<T, E> {
    let mut attempts = std::mem::take(before);
    match last {
        Ok(mut response) => {
            response.remember(attempts);
            Ok(response)
        }
        Err(error) => {
            let failure = error.into_failure();
            attempts.extend_from_slice(failure.attempts());
            Err(E::from(failure.with_attempts(attempts)))
        }
    }
}
