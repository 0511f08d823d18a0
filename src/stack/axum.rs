//! The bridge to stacks whose services must not fail.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::failure::{BoxError, Failure, Fault};

use super::answer::UnfailingBody;

/// Puts a layer where services must not fail.
///
/// axum routes cannot fail, and our layers can. [`for_axum`] puts both halves of the bridge around a layer: inside it
/// the route's `Infallible` becomes an error our layers speak, and outside it a failure becomes a response. It names
/// nothing of axum, so that it serves any HTTP stack whose services must not fail.
///
/// ```
/// use axum::{Router, routing::get};
/// use watertight::layers::DualClockTimeoutLayer;
/// use watertight::stack::for_axum;
///
/// let app: Router = Router::new()
///     .route("/", get(|| async { "hello" }))
///     .layer(for_axum(DualClockTimeoutLayer::default()));
/// ```
///
/// Retry and failover send a request again, and so ask that it can be cloned: an axum body cannot. They belong
/// to the outgoing side, where a request has its body in memory.
pub const fn for_axum<L>(layer: L) -> ForAxum<L> {
    ForAxum { layer }
}

/// A layer where services must not fail: made by [`for_axum`].
#[derive(Clone, Copy, Debug)]
pub struct ForAxum<L> {
    layer: L,
}

/// A service whose errors are boxed, for the layers around it.
#[derive(Clone, Copy, Debug)]
pub struct Fallible<S> {
    inner: S,
}

/// A service that answers its failures: status, `retry-after`, and a small JSON body that names the code.
#[derive(Debug)]
pub struct Unfailing<S> {
    inner: S,
    /// Why it will never be ready: the next call is answered with it, and not passed on.
    broken: Option<Failure>,
}

pin_project! {
    /// The future of [`Fallible`].
    #[derive(Debug)]
    pub struct FallibleFuture<F> {
        #[pin]
        inner: F,
    }
}

pin_project! {
    /// The future of [`Unfailing`].
    #[derive(Debug)]
    pub struct UnfailingFuture<F> {
        #[pin]
        inner: Option<F>,
        broken: Option<Failure>,
    }
}

// === impl ForAxum ===

impl<L, S> Layer<S> for ForAxum<L>
where
    L: Layer<Fallible<S>>,
{
    type Service = Unfailing<L::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        Unfailing { inner: self.layer.layer(Fallible { inner }), broken: None }
    }
}

// === impl Fallible ===

impl<S, R> Service<R> for Fallible<S>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = FallibleFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        FallibleFuture { inner: self.inner.call(request) }
    }
}

impl<F, T, E> Future for FallibleFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().inner.poll(cx).map_err(Into::into)
    }
}

// === impl Unfailing ===

impl<S, R, B> Service<R> for Unfailing<S>
where
    S: Service<R, Response = Response<B>>,
    S::Error: Fault,
{
    type Response = Response<UnfailingBody<B>>;
    type Error = Infallible;
    type Future = UnfailingFuture<S::Future>;

    /// Ready, too, when the inner service will never be: whoever calls is to have an answer.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.broken.is_none()
            && let Err(error) = ready!(self.inner.poll_ready(cx))
        {
            self.broken = Some(error.into_failure());
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        match self.broken.take() {
            Some(failure) => UnfailingFuture { inner: None, broken: Some(failure) },
            None => UnfailingFuture { inner: Some(self.inner.call(request)), broken: None },
        }
    }
}

/// A clone starts unready, and asks for itself.
impl<S: Clone> Clone for Unfailing<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), broken: None }
    }
}

impl<F, B, E> Future for UnfailingFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Fault,
{
    type Output = Result<Response<UnfailingBody<B>>, Infallible>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(failure) = this.broken.take() {
            return Poll::Ready(Ok(UnfailingBody::of(&failure)));
        }
        let inner = this.inner.as_pin_mut().expect("polled after it was ready");
        Poll::Ready(Ok(match ready!(inner.poll(cx)) {
            Ok(response) => response.map(UnfailingBody::own),
            Err(error) => UnfailingBody::of(&error.into_failure()),
        }))
    }
}
