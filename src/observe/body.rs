//! HTTP bodies with an observer beside them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::chat::{End, Limits, Observer, Sign, Watch};
use crate::failure::{BoxError, Code, Failure, Fault, stated_wait};
use crate::time::Wall;

use super::Follow;

pin_project! {
    /// A body that tells an observer what passes and how it ended.
    #[derive(Debug)]
    pub struct Watched<B: Body, O: Observer> {
        #[pin]
        body: B,
        watch: Watch<O>,
        // The failure that the status is, told when the body ends.
        verdict: Option<Failure>,
    }

    impl<B: Body, O: Observer> PinnedDrop for Watched<B, O> {
        // It may have come to its end since it was polled last, and whoever saw that does not poll again. And a status
        // that is a failure stays one, though a retry reads no more of it.
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if this.verdict.is_some() || this.body.is_end_stream() {
                this.watch.settle(end_of(this.verdict));
            }
        }
    }
}

/// The failure an HTTP response is, by its status alone: 408, 425, 429 and 5xx.
///
/// A stated wait is read from its headers.
#[must_use]
pub fn failure_of<B>(response: &Response<B>) -> Option<Failure> {
    if let Some(known) = response.extensions().get::<Failure>() {
        return Some(known.clone());
    }
    let status = response.status();
    let code = failing(status)?;
    let reason = status.canonical_reason().unwrap_or("an unnamed status");
    let wait = stated_wait(response.headers(), Wall::system().unix());
    Some(Failure::new(code, reason).with_status(status).with_retry_after(wait))
}

/// What a frame means: bytes are output; none, and trailers, are a sign of life.
pub(crate) fn sign_of<D: Buf>(frame: &Frame<D>) -> Sign {
    match frame.data_ref().map_or(0, Buf::remaining) {
        0 => Sign::Liveness,
        bytes => Sign::Output(u32::try_from(bytes).unwrap_or(u32::MAX)),
    }
}

fn end_of(verdict: &Option<Failure>) -> End<'_> {
    verdict.as_ref().map_or(End::Completed(None), End::from)
}

fn failing(status: StatusCode) -> Option<Code> {
    match status.as_u16() {
        425 => Some(Code::Conflict),
        408 | 429 | 500.. => Code::of_status(status),
        _ => None,
    }
}

// === impl Follow ===

impl<B> Follow for Response<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Followed<O: Observer> = Response<Watched<B, O>>;

    fn follow<O: Observer>(self, mut watch: Watch<O>) -> Self::Followed<O> {
        let verdict = failure_of(&self);
        let untold = Limits::default();
        watch.meet(self.extensions().get().unwrap_or(&untold));
        self.map(|body| {
            let mut watched = Watched { body, watch, verdict };
            // Nobody polls a body that is empty from the start, so its end must be noticed here.
            if watched.body.is_end_stream() {
                watched.watch.settle(end_of(&watched.verdict));
            }
            watched
        })
    }

    fn poll_commit(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(failure_of(self).map_or(Ok(()), Err))
    }

    /// The server's own words, with the failure kept beside them for whoever asks further out.
    fn give_up(mut self, failure: Failure) -> Result<Self, Failure> {
        self.extensions_mut().insert(failure);
        Ok(self)
    }
}

// === impl Watched ===

impl<B, O> Body for Watched<B, O>
where
    B: Body,
    B::Error: Into<BoxError>,
    O: Observer,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(cx));
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                this.watch.see(sign_of(&frame));
                // A consumer may stop here and never see the end.
                if this.body.is_end_stream() {
                    this.watch.settle(end_of(this.verdict));
                }
                Some(Ok(frame))
            }
            Some(Err(error)) => {
                let error = error.into();
                match error.failure() {
                    Some(failure) => this.watch.settle(End::from(failure)),
                    None => this.watch.settle(End::Failed(&Failure::new(Code::Transport, error.to_string()))),
                }
                Some(Err(error))
            }
            None => {
                this.watch.settle(end_of(this.verdict));
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
