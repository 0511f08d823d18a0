//! A failure as an HTTP response.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::failure::{Class, Code, Failure};

pin_project! {
    /// The body of a response, or the words of a failure.
    #[derive(Debug)]
    pub struct UnfailingBody<B> {
        #[pin]
        own: Option<B>,
        words: Option<Bytes>,
    }
}

/// The status that a failure is answered with: the upstream's own where there is one, else that of its kind.
///
/// That an upstream refused *our* key or account says nothing of whoever called us: 502.
#[must_use]
pub fn status_of(failure: &Failure) -> StatusCode {
    let ours = matches!(
        failure.code(),
        Code::Authentication | Code::Permission | Code::Blocked | Code::QuotaExhausted
    );
    if ours && !failure.is_local() {
        return StatusCode::BAD_GATEWAY;
    }
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

// === impl UnfailingBody ===

impl<B> UnfailingBody<B> {
    /// The service's own.
    pub(super) const fn own(body: B) -> Self {
        Self { own: Some(body), words: None }
    }

    /// The failure's words, and all that goes with them.
    pub(super) fn of(failure: &Failure) -> Response<Self> {
        let words = serde_json::json!({"error": {"code": failure.code(), "message": failure.message()}});
        let mut response = Response::new(Self { own: None, words: Some(words.to_string().into()) });
        *response.status_mut() = status_of(failure);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = failure.retry_after() {
            // Whole seconds, rounded up: sooner would be too soon.
            let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl<B: Body<Data = Bytes>> Body for UnfailingBody<B> {
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
