//! What joins layers to the stacks they stand in.
//!
//! axum routes cannot fail, and our layers can. [`for_axum`] puts both halves of the bridge around a layer: inside it
//! the route's `Infallible` becomes an error our layers speak, and outside it a failure becomes a response. It names
//! nothing of axum, so that it serves any HTTP stack whose services must not fail.
//!
//! ```
//! use axum::{Router, routing::get};
//! use watertight::layers::DualClockTimeoutLayer;
//! use watertight::stack::for_axum;
//!
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(for_axum(DualClockTimeoutLayer::default()));
//! ```
//!
//! Retry and failover send a request again, and so ask that it can be cloned: an axum body cannot. They belong
//! to the outgoing side, where a request has its body in memory.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::failure::{BoxError, Class, Code, Failure, Fault};

/// Puts a layer where services must not fail. See the [module](self).
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
pub struct Answering<S> {
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
    /// The future of [`Answering`].
    #[derive(Debug)]
    pub struct AnsweringFuture<F> {
        #[pin]
        inner: Option<F>,
        broken: Option<Failure>,
    }
}

pin_project! {
    /// The body of a response, or the words of a failure.
    #[derive(Debug)]
    pub struct Answer<B> {
        #[pin]
        own: Option<B>,
        words: Option<Bytes>,
    }
}

/// The status that a failure is answered with: the upstream's own where there is one, else that of its kind.
#[must_use]
pub fn status_of(failure: &Failure) -> StatusCode {
    if let Some(status) = failure.status().filter(|status| status.as_u16() >= 400) {
        return status;
    }
    match failure.code() {
        Code::Overloaded | Code::CircuitOpen | Code::AllFailed => StatusCode::SERVICE_UNAVAILABLE,
        Code::CostAboveCapacity | Code::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::Authentication => StatusCode::UNAUTHORIZED,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Permission | Code::Blocked => StatusCode::FORBIDDEN,
        Code::RequestTimeout | Code::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
        code => match code.class() {
            Class::Fatal => StatusCode::BAD_REQUEST,
            Class::Local | Class::Quota => StatusCode::TOO_MANY_REQUESTS,
            Class::Deadline => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        },
    }
}

// === impl ForAxum ===

impl<L, S> Layer<S> for ForAxum<L>
where
    L: Layer<Fallible<S>>,
{
    type Service = Answering<L::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        Answering { inner: self.layer.layer(Fallible { inner }), broken: None }
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

// === impl Answering ===

impl<S, R, B> Service<R> for Answering<S>
where
    S: Service<R, Response = Response<B>>,
    S::Error: Fault,
{
    type Response = Response<Answer<B>>;
    type Error = Infallible;
    type Future = AnsweringFuture<S::Future>;

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
            Some(failure) => AnsweringFuture { inner: None, broken: Some(failure) },
            None => AnsweringFuture { inner: Some(self.inner.call(request)), broken: None },
        }
    }
}

/// A clone starts unready, and asks for itself.
impl<S: Clone> Clone for Answering<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), broken: None }
    }
}

impl<F, B, E> Future for AnsweringFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Fault,
{
    type Output = Result<Response<Answer<B>>, Infallible>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(failure) = this.broken.take() {
            return Poll::Ready(Ok(answer(&failure)));
        }
        let inner = this.inner.as_pin_mut().expect("polled after it was ready");
        Poll::Ready(Ok(match ready!(inner.poll(cx)) {
            Ok(response) => response.map(|body| Answer { own: Some(body), words: None }),
            Err(error) => answer(&error.into_failure()),
        }))
    }
}

fn answer<B>(failure: &Failure) -> Response<Answer<B>> {
    let words = serde_json::json!({"error": {"code": failure.code(), "message": failure.message()}});
    let mut response = Response::new(Answer { own: None, words: Some(words.to_string().into()) });
    *response.status_mut() = status_of(failure);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(wait) = failure.retry_after() {
        // Whole seconds, rounded up: sooner would be too soon.
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

// === impl Answer ===

impl<B: Body<Data = Bytes>> Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        match this.own.as_pin_mut() {
            Some(own) => own.poll_frame(cx),
            None => Poll::Ready(this.words.take().map(|words| Ok(Frame::data(words)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.own.as_ref().map_or_else(|| self.words.is_none(), Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let words = || SizeHint::with_exact(self.words.as_ref().map_or(0, |words| words.len() as u64));
        self.own.as_ref().map_or_else(words, Body::size_hint)
    }
}
