//! A call up to its first output.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::failure::{Failure, Fault};

use super::Follow;

pin_project! {
    /// A call up to its first output: what retry and failover judge.
    #[project = CommittingProj]
    pub(crate) enum Committing<F, T> {
        // => Begun | done
        Calling { #[pin] call: F },
        // => done
        Begun { response: Option<T> },
    }
}

/// What an answer is.
pub(crate) enum Look {
    /// A response that has begun, or none yet.
    Fine,
    /// A failure, or a response that failed like this.
    Failed(Option<Failure>),
}

/// A call that failed before its first output, and the response that said so, if one did.
pub(crate) struct Fallen<T> {
    pub(crate) failure: Failure,
    pub(crate) response: Option<T>,
}

// === impl Committing ===

impl<F, T> Committing<F, T> {
    pub(crate) const fn new(call: F) -> Self {
        Self::Calling { call }
    }
}

impl<F, T> Committing<F, T> {
    /// The call's answer, or the response that has begun.
    ///
    /// # Panics
    /// When polled after it was ready, as any future may.
    #[inline(always)]
    pub(crate) fn poll_begun<E>(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>>
    where
        F: Future<Output = Result<T, E>>,
        T: Follow,
    {
        match self.project() {
            CommittingProj::Calling { call } => call.poll(cx),
            CommittingProj::Begun { response } => poll_again(response, cx),
        }
    }

    /// Looks at an answer where it lies, since a response is large. One without its first output is put aside.
    #[inline(always)]
    pub(crate) fn look<E>(self: Pin<&mut Self>, polled: &mut Poll<Result<T, E>>, cx: &mut Context<'_>) -> Look
    where
        T: Follow,
    {
        match polled {
            Poll::Pending => Look::Fine,
            Poll::Ready(Err(_)) => Look::Failed(None),
            Poll::Ready(Ok(response)) => match response.poll_commit(cx) {
                Poll::Ready(Ok(())) => Look::Fine,
                Poll::Ready(Err(failure)) => Look::Failed(Some(failure)),
                Poll::Pending => {
                    self.put_aside(polled);
                    Look::Fine
                }
            },
        }
    }

    #[cold]
    fn put_aside<E>(mut self: Pin<&mut Self>, polled: &mut Poll<Result<T, E>>) {
        if let Poll::Ready(Ok(response)) = std::mem::replace(polled, Poll::Pending) {
            self.set(Self::Begun { response: Some(response) });
        }
    }
}

/// A response that has begun leaves its place when it is committed.
#[cold]
fn poll_again<T: Follow, E>(response: &mut Option<T>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
    let held = response.as_mut().expect("polled after it was ready");
    // It gives the same answer when it is asked again.
    if held.poll_commit(cx).is_pending() {
        return Poll::Pending;
    }
    Poll::Ready(Ok(response.take().expect("it was there a line above")))
}

// === impl Fallen ===

impl<T> Fallen<T> {
    /// Takes the failed call out of an answer. `None` where it did not fail.
    pub(crate) fn take<E: Fault>(polled: &mut Poll<Result<T, E>>, look: Look) -> Option<Self> {
        let Look::Failed(failed) = look else { return None };
        match (std::mem::replace(polled, Poll::Pending), failed) {
            (Poll::Ready(Ok(response)), Some(failure)) => Some(Self { failure, response: Some(response) }),
            (Poll::Ready(Err(error)), _) => Some(Self { failure: error.into_failure(), response: None }),
            (fine, _) => {
                *polled = fine;
                None
            }
        }
    }

    /// What goes up when nobody tries again, the failure being this one.
    pub(crate) fn give_up<E: Fault>(response: Option<T>, failure: Failure) -> Result<T, E>
    where
        T: Follow,
    {
        match response {
            Some(response) => response.give_up(failure).map_err(E::from),
            None => Err(E::from(failure)),
        }
    }
}
