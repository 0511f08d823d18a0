//! A reply's stream, and what becomes of it when it breaks.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::chat::{BoxEvents, Completion, Event, Reply, Request, Watchers, Watching};
use crate::failure::Failure;

use super::ending::Ending;
use super::gathered::Gathered;
use super::lacks::Lacks;
use super::partial::partial;

/// A reply's stream: the service's own, or that of a rung. Where it breaks after output, what came is made an answer.
pub struct Degraded<E, W = ()> {
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

/// What is kept beside a stream for its end. It moves with the reply, so what few answers need is boxed.
pub(super) struct Following {
    pub(super) ending: Ending,
    /// The request, where its answer is to be kept.
    request: Option<Box<Request>>,
    /// What it lacks already.
    pub(super) lacks: Option<Box<Lacks>>,
    pub(super) gathered: Gathered,
}

// === impl Degraded ===

impl<E, W> Degraded<E, W> {
    /// The service's own reply.
    #[inline(always)]
    pub(super) fn whole(reply: Reply<E, W>, following: Following) -> Reply<Self> {
        let mut reply = reply.wrap(|events| Self { source: Source::Whole(events), following });
        reply.show_held(Self::pass);
        reply
    }

    /// A rung's reply.
    pub(super) fn canned(reply: Reply<BoxEvents>, following: Following) -> Reply<Self> {
        let mut reply = reply.wrap(|events| Self { source: Source::Canned(events), following });
        reply.show_held(Self::pass);
        reply
    }

    #[inline(always)]
    fn pass(&mut self, event: &mut Event) {
        match event {
            Event::Completed(completion) => self.following.complete(completion),
            event => self.following.gathered.push(event),
        }
    }
}

impl<E, W> Stream for Degraded<E, W>
where
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    type Item = Result<Event, Failure>;

    #[inline(always)]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        // One value from the stream to the caller, looked at on the way: moves of it are what a chunk costs.
        let mut polled = match &mut this.source {
            Source::Whole(events) => Pin::new(events).poll_next(cx),
            Source::Canned(events) => poll_canned(events, cx),
            Source::Gone => return Poll::Ready(None),
        };
        match &mut polled {
            Poll::Ready(Some(Ok(event))) => this.pass(event),
            Poll::Ready(Some(Err(failure))) => {
                // The dead stream is gone, and settled, before anything is made of it.
                let source = std::mem::replace(&mut this.source, Source::Gone);
                let stands_in = matches!(source, Source::Canned(_));
                drop(source);
                if let Some(answer) = this.following.break_off(failure, stands_in) {
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
        f.debug_struct("Degraded").field("lacks", &self.following.lacks).finish_non_exhaustive()
    }
}

/// Apart from the way of a service's own events, which is laid out in line.
#[cold]
#[inline(never)]
fn poll_canned(
    events: &mut Watching<BoxEvents>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Event, Failure>>> {
    Pin::new(events).poll_next(cx)
}

// === impl Following ===

impl Following {
    #[inline(always)]
    pub(super) fn new(mut ending: Ending, request: Request, lacks: Option<Box<Lacks>>) -> Self {
        if let Some(lacks) = &lacks {
            ending.level = lacks.level();
        }
        let gathered = Gathered::new(ending.ladder.config.max_partial);
        let request = ending.ladder.learns.then(|| Box::new(request));
        Self { ending, request, lacks, gathered }
    }

    /// Puts the record into the last event; a whole answer is told to whoever keeps them.
    #[inline(never)]
    fn complete(&mut self, completion: &mut Completion) {
        self.gathered = Gathered::OFF;
        if let Some(lacks) = self.lacks.take() {
            completion.degradation = Some(Box::new(lacks.at_last(completion.degradation.take())));
        } else if completion.degradation.is_none()
            && let Some(request) = &self.request
        {
            self.ending.ladder.learn(request, completion);
        }
        self.ending.complete(completion);
    }

    /// The last event of what came before the failure, if that is an answer.
    #[cold]
    fn break_off(&mut self, failure: &Failure, stands_in: bool) -> Option<Event> {
        let Some(completion) = partial(self, failure, stands_in) else {
            self.ending.fail(failure);
            return None;
        };
        self.ending.complete(&completion);
        Some(Event::Completed(Box::new(completion)))
    }
}
