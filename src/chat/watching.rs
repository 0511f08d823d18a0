//! A stream with the observers beside it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

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

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.done {
            return Poll::Ready(None);
        }
        let item = ready!(Pin::new(&mut this.events).poll_next(cx)).unwrap_or_else(|| Err(truncated()));
        match &item {
            Ok(Event::Completed(completion)) => {
                this.done = true;
                this.watch.settle(completion.end());
            }
            Ok(event) => this.watch.see(event.sign()),
            Err(failure) => {
                this.done = true;
                this.watch.settle(End::from(failure));
            }
        }
        Poll::Ready(Some(item))
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
