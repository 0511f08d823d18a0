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
    /// The call's answer: a failure, or the response once its first output is there or a failure before it, which is
    /// put beside. A response is large: it is made where the caller wants it, and only looked at.
    ///
    /// # Panics
    /// When polled after it was ready, as any future may.
    #[inline]
    pub(crate) fn poll_begun<E>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        failed: &mut Option<Failure>,
    ) -> Poll<Result<T, E>>
    where
        F: Future<Output = Result<T, E>>,
        T: Follow,
    {
        let mut polled = match self.as_mut().project() {
            CommittingProj::Calling { call } => call.poll(cx),
            CommittingProj::Begun { response } => poll_again(response, cx),
        };
        if let Poll::Ready(Ok(response)) = &mut polled {
            match response.poll_commit(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(failure)) => *failed = Some(failure),
                Poll::Pending => {
                    if let Poll::Ready(Ok(response)) = std::mem::replace(&mut polled, Poll::Pending) {
                        self.set(Self::Begun { response: Some(response) });
                    }
                }
            }
        }
        polled
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
    /// Whether an answer is a failure, or one is beside it.
    #[inline]
    pub(crate) const fn is_in<E>(polled: &Poll<Result<T, E>>, failed: &Option<Failure>) -> bool {
        failed.is_some() || matches!(polled, Poll::Ready(Err(_)))
    }

    /// Takes the failed call out of an answer, if it is one.
    pub(crate) fn take<E: Fault>(
        polled: &mut Poll<Result<T, E>>,
        failed: Option<Failure>,
    ) -> Option<Self> {
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
