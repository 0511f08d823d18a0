//! Follow a response to its end.
//!
//! A gate puts an [`Observer`] beside a response with [`Follow::follow`]; the observer is shown what arrives as
//! [`Sign`]s and settled exactly once: at the terminal event, at an error, at a bare end, or on drop. The commit
//! point ([`Follow::poll_commit`]) reads ahead to the first output, in place.
//!
//! It is written for [`Reply`], for [`http::Response`] with any body, and for [`Plain`] results of tools, so that
//! single layers work in any tower or axum app. A reply is judged by its events. An HTTP response is judged by its
//! status alone: 408, 425, 429 and 5xx are failures, told when the body has ended or is let go of unread, as a retry
//! does; every other status is the server's answer, and its body's end is a completion. What a head tells of
//! [`Limits`](crate::chat::Limits) is shown first; beside an HTTP response they stand in its extensions. A body that
//! is empty from the start (204, an answer to `HEAD`) is settled at once, since no server polls it.

mod body;
mod committing;
mod plain;

use std::task::{Context, Poll};

use futures_core::Stream;

use crate::chat::{Event, Reply};
use crate::failure::{Attempt, Failure};

pub use crate::chat::{End, Observer, Outcome, Sign, Watch, Watchers};
pub(crate) use body::sign_of;
pub use body::{Watched, failure_of};
pub(crate) use committing::{Committing, Fallen, Look};
pub use plain::Plain;

/// A response that can be followed to its end.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be followed to its end",
    note = "the service's response must be a `Reply`, or an `http::Response` whose body is an `http_body::Body`"
)]
pub trait Follow: Sized {
    /// The response with one more observer.
    type Followed<O: Observer>: Follow;

    /// Puts an observer beside it.
    fn follow<O: Observer>(self, watch: Watch<O>) -> Self::Followed<O>;

    /// Ready at the first output, and at once when asked again.
    ///
    /// # Errors
    /// The failure that came before any output.
    fn poll_commit(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>>;

    /// What goes up when nobody tries again: the failure, or the response itself where it carries the failure in
    /// its own words.
    ///
    /// # Errors
    /// The failure, where the response has no words of its own.
    fn give_up(self, failure: Failure) -> Result<Self, Failure> {
        Err(failure)
    }

    /// Keeps the tries that came before this response, where it has a place for them.
    fn remember(&mut self, attempts: Vec<Attempt>) {
        let _ = attempts;
    }
}

impl<S, W> Follow for Reply<S, W>
where
    S: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    type Followed<O: Observer> = Reply<S, (W, Watch<O>)>;

    #[inline(always)]
    fn follow<O: Observer>(self, watch: Watch<O>) -> Self::Followed<O> {
        Self::follow(self, watch)
    }

    #[inline(always)]
    fn poll_commit(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Self::poll_commit(self, cx)
    }

    fn remember(&mut self, mut attempts: Vec<Attempt>) {
        let head = self.head_mut();
        attempts.append(&mut head.attempts);
        head.attempts = attempts;
    }
}
