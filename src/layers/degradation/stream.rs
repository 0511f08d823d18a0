//! A reply's stream, and what becomes of it when it breaks.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::chat::{Ahead, BoxEvents, Completion, Degradation, Event, Request, Watchers, Watching};
use crate::failure::Failure;

use super::gathered::Gathered;
use super::ladder::Ladder;
use super::partial::partial;

/// A reply's stream: the service's own, or that of a rung. Where it breaks after output, what came is made an answer.
pub struct Degraded<E, W = ()> {
    /// What was read ahead.
    ahead: Ahead,
    source: Source<E, W>,
    following: Following,
}

enum Source<E, W> {
    /// The service's own.
    Whole(Watching<E, W>),
    /// A rung's.
    Canned(Watching<BoxEvents>),
    /// It broke, and is gone.
    Gone,
}

/// What is kept beside a stream for its end.
pub(super) struct Following {
    pub(super) ladder: Arc<Ladder>,
    pub(super) request: Request,
    /// What it lacks already.
    pub(super) record: Option<Box<Degradation>>,
    pub(super) gathered: Gathered,
}

// === impl Degraded ===

impl<E, W> Degraded<E, W> {
    pub(super) const fn whole(ahead: Ahead, events: Watching<E, W>, following: Following) -> Self {
        Self { ahead, source: Source::Whole(events), following }
    }

    pub(super) const fn canned(ahead: Ahead, events: Watching<BoxEvents>, following: Following) -> Self {
        Self { ahead, source: Source::Canned(events), following }
    }
}

impl<E, W> Stream for Degraded<E, W>
where
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        // One value from the stream to the caller, looked at on the way: moves of it are what a chunk costs.
        let mut polled = match this.ahead.next() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None => match &mut this.source {
                Source::Whole(events) => Pin::new(events).poll_next(cx),
                Source::Canned(events) => Pin::new(events).poll_next(cx),
                Source::Gone => return Poll::Ready(None),
            },
        };
        match &mut polled {
            Poll::Ready(Some(Ok(Event::Completed(completion)))) => this.following.complete(completion),
            Poll::Ready(Some(Ok(event))) => this.following.gathered.push(event),
            Poll::Ready(Some(Err(failure))) => {
                // The dead stream is gone, and settled, before anything is made of it.
                this.source = Source::Gone;
                if let Some(answer) = partial(&mut this.following, failure) {
                    polled = Poll::Ready(Some(Ok(answer)));
                }
            }
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }
}

impl<E, W> fmt::Debug for Degraded<E, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Degraded").field("record", &self.following.record).finish_non_exhaustive()
    }
}

// === impl Following ===

impl Following {
    pub(super) fn new(ladder: Arc<Ladder>, request: Request, record: Option<Box<Degradation>>) -> Self {
        let gathered = Gathered::new(ladder.config.max_partial);
        Self { ladder, request, record, gathered }
    }

    /// Puts the record into the last event; a whole answer is told to whoever keeps them.
    fn complete(&mut self, completion: &mut Completion) {
        if let Some(record) = self.record.take() {
            completion.degradation = Some(record);
        } else if self.ladder.learns && completion.degradation.is_none() {
            self.ladder.learn(&self.request, completion);
        }
    }
}
