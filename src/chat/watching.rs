//! A stream with the observers beside it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::failure::{Code, Failure};

use super::event::Event;
use super::watch::{End, Watchers};

/// A stream of events with the observers beside it, as it goes into another stream. It is settled exactly once, and
/// yields nothing after its end.
pub struct Watching<S, W = ()> {
    pub(super) events: S,
    pub(super) watch: W,
    pub(super) done: bool,
}

// === impl Watching ===

impl<S> Watching<S> {
    pub(super) const fn new(events: S) -> Self {
        Self { events, watch: (), done: false }
    }
}

impl<S, W> Stream for Watching<S, W>
where
    S: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    type Item = Result<Event, Failure>;

    #[inline(always)]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        // Only looked at, never unwrapped and wrapped again. Inlined with that, a chunk is taken from the stream and
        // laid down for the caller once, and not moved in pieces for every layer that it passes.
        if this.done {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut this.events).poll_next(cx);
        match &polled {
            Poll::Ready(Some(Ok(Event::Completed(completion)))) => {
                this.settle(completion.end());
            }
            Poll::Ready(Some(Ok(event))) => {
                if let Event::Usage(usage) = event {
                    this.watch.note(usage);
                }
                this.watch.see(event.sign());
            }
            Poll::Ready(Some(Err(failure))) => this.settle(End::from(failure)),
            Poll::Ready(None) => {
                let failure = truncated();
                this.settle(End::Failed(&failure));
                return Poll::Ready(Some(Err(failure)));
            }
            Poll::Pending => {}
        }
        polled
    }
}

impl<S, W: Watchers> Watching<S, W> {
    #[cold]
    fn settle(&mut self, how: End<'_>) {
        self.done = true;
        self.watch.settle(how);
    }
}

impl<S, W> fmt::Debug for Watching<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").field("done", &self.done).finish_non_exhaustive()
    }
}

pub(super) fn truncated() -> Failure {
    Failure::new(Code::Truncated, "the stream ended without its terminal event")
}
