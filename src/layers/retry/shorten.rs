//! A request that is too long, made smaller and tried once more.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::chat::Ask;
use crate::failure::{Failure, Fault};
use crate::observe::Follow;

use super::shortening::ShortenFuture;

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
/// apart: one extra attempt. What comes back no smaller is not tried, nor is anything after the deadline, nor where a
/// call gets a single attempt. It stays the same call, whatever request comes back.
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

/// What each call needs and none changes.
pub(super) struct Shared<S, F> {
    pub(super) template: S,
    pub(super) shorten: F,
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
    S: Service<R, Response: Follow, Error: Fault> + Clone,
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
        ShortenFuture::new(Arc::clone(&self.shared), request, call)
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
