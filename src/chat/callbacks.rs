//! A reply pushed into callbacks, for callers who would rather not poll.

use std::fmt;
use std::pin::Pin;

use futures_core::Stream;

use crate::failure::Failure;

use super::assemble::Assembler;
use super::completion::Completion;
use super::event::{Event, Reset};
use super::reply::Reply;
use super::watch::Watchers;

type Callback<'a, T, E> = Box<dyn FnMut(&T) -> Result<(), E> + Send + 'a>;

/// Callbacks for text, reasoning, reset and completion.
///
/// Nothing is called after completion. An error of a callback ends the call and closes the upstream, and comes out
/// as it is; a failure of the call comes out through `E: From<Failure>`.
///
/// ```
/// use watertight::chat::{Callbacks, Completion, Event, Head, Message, Reply, Role, Stop};
/// use watertight::failure::Failure;
///
/// # tokio_test::block_on(async {
/// let done = Completion::new(Message::text(Role::Assistant, "hi"), Stop::End, None);
/// let events = [Ok(Event::text(0, "hi")), Ok(Event::Completed(Box::new(done)))];
/// let reply = Reply::new(Head::default(), futures_util::stream::iter(events));
///
/// let mut text = String::new();
/// let callbacks = Callbacks::<Failure>::new().on_text(|delta| Ok(text.push_str(delta)));
/// callbacks.run(reply).await?;
/// assert_eq!(text, "hi");
/// # Ok::<_, Failure>(()) }).unwrap();
/// ```
pub struct Callbacks<'a, E> {
    text: Option<Callback<'a, str, E>>,
    reasoning: Option<Callback<'a, str, E>>,
    reset: Option<Callback<'a, Reset, E>>,
    completed: Option<Callback<'a, Completion, E>>,
}

// === impl Callbacks ===

impl<'a, E: From<Failure>> Callbacks<'a, E> {
    /// No callback yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { text: None, reasoning: None, reset: None, completed: None }
    }

    /// Called with each piece of text.
    #[must_use]
    pub fn on_text(mut self, callback: impl FnMut(&str) -> Result<(), E> + Send + 'a) -> Self {
        self.text = Some(Box::new(callback));
        self
    }

    /// Called with each piece of reasoning.
    #[must_use]
    pub fn on_reasoning(mut self, callback: impl FnMut(&str) -> Result<(), E> + Send + 'a) -> Self {
        self.reasoning = Some(Box::new(callback));
        self
    }

    /// Called when all pieces so far are void.
    #[must_use]
    pub fn on_reset(mut self, callback: impl FnMut(&Reset) -> Result<(), E> + Send + 'a) -> Self {
        self.reset = Some(Box::new(callback));
        self
    }

    /// Called once, at a proper end.
    #[must_use]
    pub fn on_completed(mut self, callback: impl FnMut(&Completion) -> Result<(), E> + Send + 'a) -> Self {
        self.completed = Some(Box::new(callback));
        self
    }

    /// Pushes a reply through the callbacks to its end. Dropping the future closes the upstream.
    ///
    /// # Errors
    /// The first error of a callback, or the failure that ended the reply.
    pub async fn run<S, W>(mut self, mut reply: Reply<S, W>) -> Result<Completion, E>
    where
        S: Stream<Item = Result<Event, Failure>> + Unpin,
        W: Watchers + Unpin,
    {
        loop {
            match std::future::poll_fn(|cx| Pin::new(&mut reply).poll_next(cx)).await {
                Some(Ok(Event::Text { text, .. })) => call(&mut self.text, text.as_str())?,
                Some(Ok(Event::Reasoning { text, .. })) => call(&mut self.reasoning, text.as_str())?,
                Some(Ok(Event::Reset(reset))) => call(&mut self.reset, &*reset)?,
                Some(Ok(Event::Completed(completion))) => {
                    call(&mut self.completed, &*completion)?;
                    return Ok(*completion);
                }
                Some(Ok(_)) => {}
                Some(Err(failure)) => return Err(failure.into()),
                // A reply ends with an event or a failure; this is the failure of one polled to its end before.
                None => return reply.gather(&mut Assembler::new()).await.map_err(E::from),
            }
        }
    }
}

impl<E: From<Failure>> Default for Callbacks<'_, E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> fmt::Debug for Callbacks<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}

fn call<T: ?Sized, E>(callback: &mut Option<Callback<'_, T, E>>, value: &T) -> Result<(), E> {
    callback.as_mut().map_or(Ok(()), |callback| callback(value))
}
