//! A call, and the way down if it fails before its first output.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;

use crate::chat::{Ask, BoxReply, Degradation, Event, Head, Level, Reply, Request, Tried, Watchers};
use crate::event::Fact;
use crate::failure::Failure;
use crate::observe::{Committing, Fallen, Look};

use super::climb::{self, Climb};
use super::ending::Ending;
use super::lacks::Lacks;
use super::ladder::{Ladder, Place};
use super::stream::{Degraded, Following};

pin_project! {
    /// A call, and the way down if it fails before its first output.
    #[project = CallProj]
    pub struct ResponseFuture<F, E, W> {
        #[pin]
        state: State<F, E, W>,
        // What the stream needs, taken when it begins. Below the state: what is beneath ends before the whole does.
        call: Option<(Ending, Request)>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, E, W> {
        // => Broken | done
        Calling { #[pin] call: Committing<F, Reply<E, W>> },
        // => done
        Climbing { climb: Climb },
        // => Climbing | done
        Broken { failure: Option<Failure> },
    }
}

// === impl ResponseFuture ===

impl<F, E, W> ResponseFuture<F, E, W> {
    #[inline(always)]
    pub(super) fn calling(ladder: Arc<Ladder>, request: Request, call: F) -> Self {
        let ending = Ending::new(ladder, &request);
        Self { state: State::Calling { call: Committing::new(call) }, call: Some((ending, request)) }
    }

    #[cold]
    pub(super) fn broken(ladder: Arc<Ladder>, request: Request, failure: Failure) -> Self {
        let ending = Ending::new(ladder, &request);
        Self { state: State::Broken { failure: Some(failure) }, call: Some((ending, request)) }
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
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StateProj::Calling { mut call } = this.state.as_mut().project() {
            let mut polled = call.as_mut().poll_begun(cx);
            if let look @ Look::Failed(_) = call.look(&mut polled, cx) {
                return this.go_down(&mut polled, look, cx);
            }
            return match polled {
                Poll::Ready(Ok(reply)) => Poll::Ready(Ok(whole(reply, this.call))),
                Poll::Ready(Err(failure)) => Poll::Ready(Err(this.fail(failure))),
                Poll::Pending => Poll::Pending,
            };
        }
        this.poll_climb(cx)
    }
}

impl<F, E, W> fmt::Debug for ResponseFuture<F, E, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

// === impl CallProj ===

impl<F, E, W> CallProj<'_, F, E, W> {
    #[cold]
    #[inline(never)]
    fn go_down(
        &mut self,
        polled: &mut Poll<Result<Reply<E, W>, Failure>>,
        look: Look,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Reply<Degraded<E, W>>, Failure>> {
        if let Some(fallen) = Fallen::take(polled, look) {
            self.state.set(State::Broken { failure: Some(fallen.failure) });
        }
        self.poll_climb(cx)
    }

    /// The way down. The failed call is gone, and settled, before a rung is tried.
    #[cold]
    #[inline(never)]
    fn poll_climb(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply<Degraded<E, W>>, Failure>> {
        let reply = match ready!(self.poll_answer(cx)) {
            Ok(reply) => reply,
            Err(failure) => return Poll::Ready(Err(self.fail(failure))),
        };
        let (ending, request) = self.call.take().expect("polled after it was ready");
        let lacks = Lacks::new(reply.head().degradation.as_deref().cloned(), None);
        Poll::Ready(Ok(Degraded::canned(reply, Following::new(ending, request, lacks))))
    }

    /// The answer of a rung.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<BoxReply, Failure>> {
        if let StateProj::Broken { failure } = self.state.as_mut().project() {
            let failure = failure.take().expect("polled after it was ready");
            let (ending, request) = self.call.as_ref().expect("polled after it was ready");
            let climb = climb::begin(&ending.ladder, request, failure)?;
            self.state.set(State::Climbing { climb });
        }
        let StateProj::Climbing { climb } = self.state.as_mut().project() else { return Poll::Pending };
        climb.as_mut().poll(cx)
    }

    /// The failure goes up, and the call is over.
    #[cold]
    fn fail(&mut self, failure: Failure) -> Failure {
        if let Some((mut ending, _)) = self.call.take() {
            ending.fail(&failure);
        }
        failure
    }
}

/// The service's own reply, with a record in its head where another model answered, or a tool was left out.
#[inline(always)]
fn whole<E, W>(mut reply: Reply<E, W>, call: &mut Option<(Ending, Request)>) -> Reply<Degraded<E, W>> {
    let (ending, request) = call.take().expect("polled after it was ready");
    let head = reply.head_mut();
    let plain = ending.ladder.left_out.is_none() && head.degradation.is_none() && head.model.is_none();
    let lacks = if plain { None } else { lacks(&ending, &request, head) };
    Degraded::whole(reply, Following::new(ending, request, lacks))
}

/// What the service's own answer lacks, put into its head.
#[inline(never)]
fn lacks(ending: &Ending, request: &Request, head: &mut Head) -> Option<Box<Lacks>> {
    let beneath = head.degradation.take();
    let mut own = if beneath.is_none() { stand_in(&ending.ladder, request, head) } else { None };
    if let Some(left_out) = &ending.ladder.left_out {
        let record = left_out.answered(&ending.ladder, ending.call);
        own = Some(match own {
            Some(other) => record.beside(other),
            None => record,
        });
    }
    let lacks = Lacks::new(own, beneath.map(|record| *record))?;
    head.degradation = Some(Box::new(lacks.clone().record()));
    Some(lacks)
}

/// The record of a failover beneath: it is the first rung's, though nothing of ours was tried.
#[inline(never)]
fn stand_in(ladder: &Ladder, request: &Request, head: &Head) -> Option<Degradation> {
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
    Some(record)
}
