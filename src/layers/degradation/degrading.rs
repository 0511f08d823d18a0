//! The service.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tower_service::Service;

use crate::chat::{Event, Reply, Request, Watchers};
use crate::failure::Failure;

use super::future::ResponseFuture;
use super::ladder::Ladder;
use super::left_out::LeftOut;
use super::stream::Degraded;

/// A service with a ladder beneath its failures. See the [module](super).
#[derive(Debug)]
pub struct Degrading<S> {
    inner: S,
    ladder: Arc<Ladder>,
    /// Why it will never be ready: the next call is about it, and not passed on.
    broken: Option<Failure>,
}

// === impl Degrading ===

impl<S> Degrading<S> {
    pub(super) const fn new(inner: S, ladder: Arc<Ladder>) -> Self {
        Self { inner, ladder, broken: None }
    }

    /// Makes a call without the optional tools that cannot be called now, if it offers any. Apart from the way of all
    /// other calls.
    #[cold]
    #[inline(never)]
    fn call_with_tools<E, W>(
        &mut self,
        ladder: Arc<Ladder>,
        request: Request,
    ) -> ResponseFuture<S::Future, E, W>
    where
        S: Service<Request, Response = Reply<E, W>, Error = Failure>,
    {
        let kept = request.clone();
        let (ladder, asked) = LeftOut::of(ladder, request);
        ResponseFuture::calling(ladder, kept, self.inner.call(asked))
    }
}

impl<S, E, W> Service<Request> for Degrading<S>
where
    S: Service<Request, Response = Reply<E, W>, Error = Failure>,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    type Response = Reply<Degraded<E, W>>;
    type Error = Failure;
    type Future = ResponseFuture<S::Future, E, W>;

    /// Ready, too, when the inner service will never be: whoever calls is to have an answer.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.broken.is_none()
            && let Err(failure) = ready!(self.inner.poll_ready(cx))
        {
            self.broken = Some(failure);
        }
        Poll::Ready(Ok(()))
    }

    #[inline(always)]
    fn call(&mut self, request: Request) -> Self::Future {
        let ladder = Arc::clone(&self.ladder);
        if let Some(failure) = self.broken.take() {
            return ResponseFuture::broken(ladder, request, failure);
        }
        if !ladder.tools.is_empty() && !request.tools.is_empty() {
            return self.call_with_tools(ladder, request);
        }
        ResponseFuture::calling(ladder, request.clone(), self.inner.call(request))
    }
}

/// A clone starts unready, and asks for itself.
impl<S: Clone> Clone for Degrading<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), ladder: Arc::clone(&self.ladder), broken: None }
    }
}
