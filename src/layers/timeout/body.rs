//! Responses with clocks on them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::chat::{Event, Reply, Sign, Watchers, Watching};
use crate::failure::{BoxError, Failure};
use crate::observe::{Follow, Plain, sign_of};

use super::waiting::Found;
use super::watchdog::Watchdog;

/// A response that clocks can be put on.
pub trait Clocked: Follow {
    /// The response with clocks on it.
    type Clocked: Follow;

    /// Puts clocks on it. What it held already is inside, so that its observers see `Abandoned` when one runs out.
    fn clocked(self, dog: Watchdog) -> Self::Clocked;
}

pin_project! {
    /// A stream or body with clocks on it. After an expiry it is empty.
    #[derive(Debug)]
    pub struct Timed<B> {
        #[pin]
        inner: Option<B>,
        dog: Watchdog,
    }
}

// === impl Timed ===

impl<B> Timed<B> {
    const fn new(inner: B, dog: Watchdog) -> Self {
        Self { inner: Some(inner), dog }
    }
}

impl<S, W> Clocked for Reply<S, W>
where
    S: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    type Clocked = Reply<Timed<Watching<S, W>>>;

    #[inline(always)]
    fn clocked(self, mut dog: Watchdog) -> Self::Clocked {
        dog.head();
        // Its first output was read ahead, and does not pass here again.
        if self.has_begun() {
            dog.see(Sign::Output(0));
        }
        self.wrap(|events| Timed::new(events, dog))
    }
}

/// Whole when it comes: there is nothing to time after it.
impl<T> Clocked for Plain<T> {
    type Clocked = Self;

    fn clocked(self, _: Watchdog) -> Self {
        self
    }
}

impl<B> Clocked for Response<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Clocked = Response<Timed<B>>;

    /// Its head is the commit point, since it is judged by its status alone.
    fn clocked(self, mut dog: Watchdog) -> Self::Clocked {
        dog.head();
        dog.commit();
        self.map(|body| Timed::new(body, dog))
    }
}

impl<S, W> Stream for Timed<Watching<S, W>>
where
    S: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    type Item = Result<Event, Failure>;

    #[inline(always)]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        // Only looked at, so that it is made where the caller wants it: see `Watching`.
        let Some(inner) = this.inner.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        if !this.dog.is_flooded() {
            let polled = inner.poll_next(cx);
            if let Poll::Ready(item) = &polled {
                if let Some(Ok(event)) = item {
                    this.dog.see(event.sign());
                }
                return polled;
            }
        }
        match ready!(this.dog.poll_expired(cx)) {
            Found::Crawling { rate } => Poll::Ready(Some(Ok(Event::Crawling { rate }))),
            Found::Expired(failure) => {
                this.inner.set(None);
                Poll::Ready(Some(Err(failure)))
            }
        }
    }
}

impl<B> Body for Timed<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        if !this.dog.is_flooded()
            && let Poll::Ready(frame) = inner.poll_frame(cx)
        {
            if let Some(Ok(frame)) = &frame {
                this.dog.see(sign_of(frame));
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        loop {
            // A body has no frame to tell that it crawls.
            if let Found::Expired(failure) = ready!(this.dog.poll_expired(cx)) {
                this.inner.set(None);
                return Poll::Ready(Some(Err(failure.into())));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
