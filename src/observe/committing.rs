//! A call up to its first output.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

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

impl<F, T, E> Future for Committing<F, T>
where
    F: Future<Output = Result<T, E>>,
    T: Follow,
    E: Fault,
{
    type Output = Result<T, Fallen<T>>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.as_mut().project() {
            // A response that has begun is handed on where it lies.
            CommittingProj::Calling { call } => match ready!(call.poll(cx)) {
                Ok(mut response) => match response.poll_commit(cx) {
                    Poll::Ready(Ok(())) => Poll::Ready(Ok(response)),
                    Poll::Ready(Err(failure)) => {
                        Poll::Ready(Err(Fallen { failure, response: Some(response) }))
                    }
                    Poll::Pending => {
                        self.set(Self::Begun { response: Some(response) });
                        Poll::Pending
                    }
                },
                Err(error) => Poll::Ready(Err(Fallen::before(error))),
            },
            CommittingProj::Begun { response } => {
                let committed = ready!(response.as_mut().expect("polled after it was ready").poll_commit(cx));
                let response = response.take().expect("it was there a line above");
                Poll::Ready(match committed {
                    Ok(()) => Ok(response),
                    Err(failure) => Err(Fallen { failure, response: Some(response) }),
                })
            }
        }
    }
}

// === impl Fallen ===

impl<T> Fallen<T> {
    /// A call that never came to a response.
    pub(crate) fn before<E: Fault>(error: E) -> Self {
        Self { failure: error.into_failure(), response: None }
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
