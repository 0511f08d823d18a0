//! What comes, as a whole: a head, and the events.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::failure::Failure;

use super::assemble::Assembler;
use super::completion::Completion;
use super::event::Event;
use super::head::Head;
use super::held::{Core, Held};
use super::sign::Sign;
use super::watch::{Observer, Watch, Watchers};
use super::watching::{Watching, truncated};

/// A reply: a head, and a stream of events that ends with [`Event::Completed`] or a failure.
///
/// Whoever watches it stands beside the stream, so that seven layers cost one poll and one [`Sign`] an event.
/// It is settled exactly once: at the terminal event, at a failure, at a bare end (which is [`Code::Truncated`] and
/// never a success), or when it is dropped (which is [`End::Abandoned`]). After a failure or the terminal event
/// it yields nothing more.
///
/// The stream must be `Unpin`, since a reply is moved after it was polled: box a hand-written one (`Box::pin`).
///
/// [`Code::Truncated`]: crate::failure::Code::Truncated
/// [`End::Abandoned`]: super::End::Abandoned
pub struct Reply<S, W = ()> {
    core: Box<Core>,
    events: Watching<S, W>,
}

/// A stream of events whose type is not spelled.
pub type BoxEvents = Pin<Box<dyn Stream<Item = Result<Event, Failure>> + Send>>;

/// A reply whose type is not spelled, for stacks that are stored in a struct or are of several types. See
/// [`Reply::boxed`].
pub type BoxReply = Reply<BoxEvents>;

// === impl Reply ===

impl<S> Reply<S> {
    /// A reply that nobody watches yet.
    #[inline]
    #[must_use]
    pub fn new(head: Head, events: S) -> Self {
        Self { core: Box::new(Core::new(head)), events: Watching::new(events) }
    }

    /// Puts what [`split`](Self::split) took in front of a stream again.
    #[inline]
    #[must_use]
    pub fn join(held: Held, events: S) -> Self {
        // The end, or a failure, may have been met while reading ahead: then the stream has nothing more to say.
        let last = held.0.more.back().or(held.0.first.as_ref());
        let ended = last.is_some_and(|event| matches!(event.sign(), Sign::End(_)));
        let done = ended || held.0.failed.is_some();
        Self { core: held.0, events: Watching { events, watch: (), done } }
    }
}

impl<S, W> Reply<S, W> {
    /// What is told beside the events.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.core.head
    }

    /// What is told beside the events, to add to it.
    pub fn head_mut(&mut self) -> &mut Head {
        &mut self.core.head
    }

    /// Whether its first output came, be it read ahead or passed on.
    pub(crate) fn has_begun(&self) -> bool {
        self.core.committed
    }

    /// Puts one more observer beside the stream. What was read ahead is shown to it first; a failure that was met
    /// there settles it at once.
    #[inline(always)]
    pub fn follow<O: Observer>(self, watch: Watch<O>) -> Reply<S, (W, Watch<O>)> {
        let Self { core, events: Watching { events, watch: inner, done } } = self;
        let mut reply = Reply { core, events: Watching { events, watch: (inner, watch), done } };
        reply.core.introduce(&mut reply.events.watch.1);
        reply
    }

    /// Puts the stream with its observers into another stream. What was read ahead stays in front.
    #[inline(always)]
    pub fn wrap<T>(self, wrap: impl FnOnce(Watching<S, W>) -> T) -> Reply<T> {
        // A stream that met its end has nothing more to say, whatever it is put into.
        let done = self.events.done;
        Reply { core: self.core, events: Watching { events: wrap(self.events), watch: (), done } }
    }

    /// Shows what was read ahead to a stream that was put around it and is to see every event.
    #[inline]
    pub(crate) fn show_held(&mut self, see: impl Fn(&mut S, &mut Event)) {
        if let Some(first) = &mut self.core.first {
            see(&mut self.events.events, first);
            if !self.core.more.is_empty() {
                self.core.more.iter_mut().for_each(|event| see(&mut self.events.events, event));
            }
        }
    }

    /// Takes the head and what was read ahead from the stream.
    #[inline]
    #[must_use]
    pub fn split(self) -> (Held, Watching<S, W>) {
        (Held(self.core), self.events)
    }
}

impl<S, W> Reply<S, W>
where
    S: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    /// Reads ahead to the first output, and gives the same answer at once when asked again.
    ///
    /// Before it, preamble is held back, so that a failure here leaves the caller with nothing of this attempt.
    ///
    /// # Errors
    /// The failure that came before any output.
    #[inline(always)]
    pub fn poll_commit(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        // Every layer that tries again asks, and only the first of them reads.
        if self.core.committed {
            return Poll::Ready(Ok(()));
        }
        self.poll_first(cx)
    }

    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        while !self.core.committed && !self.events.done {
            match ready!(self.poll_beginning(cx)) {
                Some(Ok(event)) => {
                    if event.sign() != Sign::Liveness {
                        self.core.hold(event);
                    }
                }
                Some(Err(_)) | None => break,
            }
        }
        Poll::Ready(self.core.failed.clone().map_or(Ok(()), Err))
    }

    /// Folds the reply into a whole.
    ///
    /// # Errors
    /// The failure that ended the stream. Use [`gather`](Self::gather) to keep what came before it.
    pub async fn collect(mut self) -> Result<Completion, Failure> {
        self.gather(&mut Assembler::new()).await
    }

    /// Folds the reply into a whole, gathering in an assembler of the caller's, so that what came before a
    /// failure is kept.
    ///
    /// # Errors
    /// The failure that ended the stream.
    pub async fn gather(&mut self, into: &mut Assembler) -> Result<Completion, Failure> {
        loop {
            match std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await {
                Some(Ok(Event::Completed(completion))) => return Ok(*completion),
                Some(Ok(event)) => into.push(&event),
                Some(Err(failure)) => return Err(failure),
                None => return Err(truncated()),
            }
        }
    }

    /// Boxes the stream with its observers: each layer adds to a reply's type, and this forgets it.
    ///
    /// ```
    /// use tower::{ServiceExt, util::BoxCloneSyncService};
    /// use watertight::chat::{BoxReply, Reply, Request};
    /// use watertight::failure::Failure;
    /// # use watertight::provider::{Profile, Provider};
    /// # use watertight::chat::Protocol;
    ///
    /// struct App {
    ///     model: BoxCloneSyncService<Request, BoxReply, Failure>,
    /// }
    ///
    /// # fn main() -> Result<(), watertight::failure::ConfigError> {
    /// # let profile = Profile::new("p", Protocol::OpenaiChat, "http://127.0.0.1:1").with_key("k");
    /// let service = Provider::new(profile)?;
    /// let app = App { model: BoxCloneSyncService::new(service.map_response(Reply::boxed)) };
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn boxed(self) -> BoxReply
    where
        S: Send + 'static,
        W: Send + 'static,
    {
        self.wrap(|events| Box::pin(events) as BoxEvents)
    }

    /// The next event of a stream that did not begin yet, past what is held. Apart from the way of all later ones.
    #[inline(never)]
    fn poll_beginning(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event, Failure>>> {
        let polled = Pin::new(&mut self.events).poll_next(cx);
        if let Poll::Ready(Some(item)) = &polled {
            self.core.begin(item);
        }
        polled
    }
}

impl<S, W> Stream for Reply<S, W>
where
    S: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    type Item = Result<Event, Failure>;

    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.core.is_holding() {
            Poll::Ready(self.core.next_held().map(Ok))
        } else if self.core.committed {
            Pin::new(&mut self.events).poll_next(cx)
        } else {
            self.poll_beginning(cx)
        }
    }
}

impl<S, W> fmt::Debug for Reply<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("head", &self.core.head)
            .field("committed", &self.core.committed)
            .field("done", &self.events.done)
            .finish_non_exhaustive()
    }
}
