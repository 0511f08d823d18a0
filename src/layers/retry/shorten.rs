//! A request that is too long, made smaller and tried once more.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::chat::Ask;
use crate::failure::{Code, Failure, Fault};
use crate::observe::Follow;

/// Makes a request smaller. Async closures do: `async |request, failure| Some(smaller)`.
///
/// Keep tool calls with their results and reasoning with its turn: providers refuse a half of either.
pub trait Shorten<R> {
    /// The smaller request, or `None` where it cannot be made smaller.
    type Future: Future<Output = Option<R>>;

    /// Makes it smaller.
    fn shorten(&self, request: R, failure: &Failure) -> Self::Future;
}

/// Tries a request that met `CONTEXT_LENGTH` once more, made smaller. It stands outside [`RetryLayer`], and counts
/// apart: one extra attempt. What comes back no smaller is not tried.
///
/// [`RetryLayer`]: super::RetryLayer
#[derive(Clone)]
pub struct ShortenLayer<F> {
    shorten: F,
}

/// A service whose too long requests are made smaller.
pub struct Shortening<S, F> {
    inner: S,
    shared: Arc<Shared<S, F>>,
}

struct Shared<S, F> {
    template: S,
    shorten: F,
}

pin_project! {
    /// A call, and once more if it was too long.
    pub struct ShortenFuture<S: Service<R>, F: Shorten<R>, R> {
        shared: Arc<Shared<S, F>>,
        request: Option<R>,
        #[pin]
        state: State<S::Future, S::Response, F::Future, S>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<C, T, F, S> {
        // => Committing | Shortening | done
        Calling { #[pin] call: C },
        // => Shortening | done
        Committing { response: Option<T> },
        // => Readying | done
        Shortening { #[pin] smaller: F, size: Option<usize>, failure: Option<Failure>, response: Option<T> },
        // => Last
        Readying { service: S },
        // => done
        Last { #[pin] call: C },
    }
}

// === impl Shorten ===

impl<R, F, T> Shorten<R> for F
where
    F: Fn(R, Failure) -> T,
    T: Future<Output = Option<R>>,
{
    type Future = T;

    fn shorten(&self, request: R, failure: &Failure) -> T {
        self(request, failure.clone())
    }
}

// === impl ShortenLayer ===

impl<F> ShortenLayer<F> {
    /// Makes requests smaller with this.
    pub const fn new(shorten: F) -> Self {
        Self { shorten }
    }
}

impl<S: Clone, F: Clone> Layer<S> for ShortenLayer<F> {
    type Service = Shortening<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        let shared = Shared { template: inner.clone(), shorten: self.shorten.clone() };
        Shortening { inner, shared: Arc::new(shared) }
    }
}

impl<F> fmt::Debug for ShortenLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortenLayer").finish_non_exhaustive()
    }
}

// === impl Shortening ===

impl<S, F, R> Service<R> for Shortening<S, F>
where
    S: Service<R> + Clone,
    S::Response: Follow,
    S::Error: Fault,
    F: Shorten<R>,
    R: Ask + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ShortenFuture<S, F, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let call = self.inner.call(request.clone());
        let shared = Arc::clone(&self.shared);
        ShortenFuture { shared, request: Some(request), state: State::Calling { call } }
    }
}

impl<S: Clone, F> Clone for Shortening<S, F> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S, F> fmt::Debug for Shortening<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shortening").finish_non_exhaustive()
    }
}

// === impl ShortenFuture ===

impl<S, F, R> Future for ShortenFuture<S, F, R>
where
    S: Service<R> + Clone,
    S::Response: Follow,
    S::Error: Fault,
    F: Shorten<R>,
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
                    Ok(response) => {
                        this.state.set(State::Committing { response: Some(response) });
                        continue;
                    }
                    Err(error) => (error.into_failure(), None),
                },
                StateProj::Committing { response } => {
                    let held = response.as_mut().expect("polled after it was ready");
                    let committed = ready!(held.poll_commit(cx));
                    let response = response.take();
                    match (committed, response) {
                        (Err(failure), response) => (failure, response),
                        (Ok(()), response) => return Poll::Ready(Ok(response.expect("it was there above"))),
                    }
                }
                StateProj::Shortening { smaller, size, failure, response } => {
                    let smaller = ready!(smaller.poll(cx));
                    let Some(request) = smaller.filter(|request| is_smaller(request.size(), *size)) else {
                        let failure = failure.take().expect("polled after it was ready");
                        return Poll::Ready(give_up(response.take(), failure));
                    };
                    *this.request = Some(request);
                    this.state.set(State::Readying { service: this.shared.template.clone() });
                    continue;
                }
                StateProj::Readying { service } => {
                    ready!(service.poll_ready(cx))?;
                    let call = service.call(this.request.take().expect("set before"));
                    this.state.set(State::Last { call });
                    continue;
                }
                StateProj::Last { call } => return call.poll(cx),
            };
            if failure.code() != Code::ContextLength || failure.is_local() {
                return Poll::Ready(give_up(response, failure));
            }
            let request = this.request.take().expect("it is taken once");
            let size = request.size();
            let smaller = this.shared.shorten.shorten(request, &failure);
            this.state.set(State::Shortening { smaller, size, failure: Some(failure), response });
        }
    }
}

impl<S: Service<R>, F: Shorten<R>, R> fmt::Debug for ShortenFuture<S, F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortenFuture").finish_non_exhaustive()
    }
}

fn give_up<T: Follow, E: Fault>(response: Option<T>, failure: Failure) -> Result<T, E> {
    match response {
        Some(response) => response.give_up(failure).map_err(E::from),
        None => Err(E::from(failure)),
    }
}

/// Where nobody can say, the one who made it smaller is believed.
fn is_smaller(size: Option<usize>, before: Option<usize>) -> bool {
    size.zip(before).is_none_or(|(size, before)| size < before)
}
