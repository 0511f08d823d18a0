//! A call, and the way down if it fails before its first output.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;

use crate::chat::{Ask, Degradation, Event, Level, Reply, Request, Tried, Watchers};
use crate::event::Fact;
use crate::failure::{Failure, Fault};

use super::climb::{self, Climb};
use super::ladder::{Ladder, Place};
use super::stream::{Degraded, Following};

pin_project! {
    /// A call, and the way down if it fails before its first output.
    pub struct ResponseFuture<F, E, W> {
        // What the stream needs, taken when it begins.
        call: Option<(Arc<Ladder>, Request)>,
        #[pin]
        state: State<F, E, W>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, E, W> {
        // => Committing | Climbing | done
        Calling { #[pin] call: F },
        // => Climbing | done
        Committing { reply: Option<Reply<E, W>> },
        // => done
        Climbing { climb: Climb },
        // => Climbing | done
        Broken { failure: Option<Failure> },
    }
}

// === impl ResponseFuture ===

impl<F, E, W> ResponseFuture<F, E, W> {
    pub(super) const fn calling(ladder: Arc<Ladder>, request: Request, call: F) -> Self {
        Self { call: Some((ladder, request)), state: State::Calling { call } }
    }

    #[cold]
    pub(super) const fn broken(ladder: Arc<Ladder>, request: Request, failure: Failure) -> Self {
        Self { call: Some((ladder, request)), state: State::Broken { failure: Some(failure) } }
    }
}

impl<F, E, W> Future for ResponseFuture<F, E, W>
where
    F: Future<Output = Result<Reply<E, W>, Failure>>,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    type Output = Result<Reply<Degraded<E, W>>, Failure>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let failure = match this.state.as_mut().project() {
                StateProj::Calling { call } => match ready!(call.poll(cx)) {
                    Ok(mut reply) => match reply.poll_commit(cx) {
                        Poll::Ready(Ok(())) => return Poll::Ready(Ok(whole(reply, this.call))),
                        Poll::Ready(Err(failure)) => failure,
                        Poll::Pending => {
                            this.state.set(State::Committing { reply: Some(reply) });
                            return Poll::Pending;
                        }
                    },
                    Err(error) => error.into_failure(),
                },
                StateProj::Committing { reply } => {
                    let held = reply.as_mut().expect("polled after it was ready");
                    match ready!(held.poll_commit(cx)) {
                        Ok(()) => {
                            let reply = reply.take().expect("it was there above");
                            return Poll::Ready(Ok(whole(reply, this.call)));
                        }
                        Err(failure) => failure,
                    }
                }
                StateProj::Climbing { climb } => {
                    let reply = ready!(climb.as_mut().poll(cx))?;
                    let (ladder, request) = this.call.take().expect("polled after it was ready");
                    let record = reply.head().degradation.clone();
                    let following = Following::new(ladder, request, record);
                    return Poll::Ready(Ok(Degraded::canned(reply, following)));
                }
                StateProj::Broken { failure } => failure.take().expect("polled after it was ready"),
            };
            let (ladder, request) = this.call.as_ref().expect("polled after it was ready");
            let climb = climb::begin(ladder, request, failure);
            match climb {
                // The failed call is gone, and settled, before a rung is tried.
                Ok(climb) => this.state.set(State::Climbing { climb }),
                Err(failure) => {
                    this.state.set(State::Broken { failure: None });
                    return Poll::Ready(Err(failure));
                }
            }
        }
    }
}

impl<F, E, W> fmt::Debug for ResponseFuture<F, E, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// The service's own reply, with a record in its head where another model answered.
fn whole<E, W>(mut reply: Reply<E, W>, call: &mut Option<(Arc<Ladder>, Request)>) -> Reply<Degraded<E, W>> {
    let (ladder, request) = call.take().expect("polled after it was ready");
    let head = reply.head_mut();
    if head.degradation.is_none() && head.model.is_some() {
        head.degradation = stand_in(&ladder, &request, head);
    }
    let record = head.degradation.clone();
    Degraded::whole(reply, Following::new(ladder, request, record))
}

/// The record of a failover beneath: it is the first rung's, though nothing of ours was tried.
fn stand_in(ladder: &Ladder, request: &Request, head: &crate::chat::Head) -> Option<Box<Degradation>> {
    let model = ladder.stand_in(request, head)?;
    let quality = ladder.config.quality.fallback_model;
    let rung = Place::FallbackModel.as_str();
    let tried = head.attempts.iter().map(|attempt| Tried {
        rung: "request".into(),
        by: attempt.provider.as_deref().map(str::to_owned),
        failure: Some(attempt.code),
        reason: attempt.message.to_string(),
    });
    let mut record = Degradation::NONE;
    record.level = Level::Fallback;
    record.quality_estimate = quality;
    record.fallback_chain = tried.chain([Tried::answered(rung, Some(model.to_owned()))]).collect();
    record.user_message = format!("Answered by {model}: {} could not answer.", request.model);
    if let Some(last) = head.attempts.last() {
        let failure = Failure::new(last.code, &last.message);
        ladder.facts.emit(&Fact::Degraded { call: request.call().id, rung, quality, failure: &failure });
    }
    Some(Box::new(record))
}
