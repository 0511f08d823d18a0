//! An attempt on the clock, before its response head.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::failure::{Failure, Fault};

use super::body::Clocked;
use super::waiting::Found;
use super::watchdog::Watchdog;

pin_project! {
    /// An attempt on the clock. When a clock runs out the attempt is dropped in the same poll.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        call: Option<F>,
        dog: Option<Watchdog>,
        refused: Option<Failure>,
    }
}

// === impl ResponseFuture ===

impl<F> ResponseFuture<F> {
    pub(super) const fn new(call: F, dog: Watchdog) -> Self {
        Self { call: Some(call), dog: Some(dog), refused: None }
    }

    /// Nothing is sent.
    pub(super) const fn refused(failure: Failure) -> Self {
        Self { call: None, dog: None, refused: Some(failure) }
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    T: Clocked,
    E: Fault,
{
    type Output = Result<T::Clocked, E>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(failure) = this.refused.take() {
            return Poll::Ready(Err(failure.into()));
        }
        let call = this.call.as_mut().as_pin_mut().expect("polled after it was ready");
        if let Poll::Ready(response) = call.poll(cx) {
            this.call.set(None);
            let dog = this.dog.take().expect("it is there as long as the call is");
            return Poll::Ready(response.map(|response| response.clocked(dog)));
        }
        let dog = this.dog.as_mut().expect("it is there as long as the call is");
        loop {
            // Nothing crawls before it began.
            if let Found::Expired(failure) = ready!(dog.poll_expired(cx)) {
                this.call.set(None);
                return Poll::Ready(Err(failure.into()));
            }
        }
    }
}
