//! A stream that may start over.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tower_service::Service;

use crate::chat::{Ask, Event, Reply, Reset, Sign, Watchers, Watching};
use crate::event::Fact;
use crate::failure::Failure;
use crate::time::{Sleep, now, sleep_until};

use super::layer::Plan;

/// A stream that may start over. After its last failure or its end it is empty.
pub struct Restarting<S: Service<R>, R, E, W> {
    /// The first segment.
    first: Option<Watching<E, W>>,
    /// Whether there was output in this segment.
    output: bool,
    /// What a restart needs; where there is to be none, the first segment is all.
    again: Option<Box<Again<S, R>>>,
}

pub(super) struct Again<S: Service<R>, R> {
    plan: Arc<Plan>,
    service: S,
    request: R,
    resets: u32,
    step: Step<S::Future, S::Response>,
}

enum Step<F, T> {
    /// In the first segment, or at the end.
    Idle,
    Waiting(Pin<Box<Sleep>>),
    Readying,
    Calling(Pin<Box<F>>),
    /// In a later segment.
    Streaming(T),
}

// === impl Restarting ===

impl<S: Service<R>, R, E, W> Restarting<S, R, E, W> {
    /// `output` says whether some was read ahead, which does not pass here again.
    #[inline(always)]
    pub(super) const fn new(output: bool, first: Watching<E, W>, again: Option<Box<Again<S, R>>>) -> Self {
        Self { first: Some(first), output, again }
    }
}

impl<S, R, E, W> Stream for Restarting<S, R, E, W>
where
    S: Service<R, Response = Reply<E, W>, Error = Failure>,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
    R: Ask + Clone,
{
    type Item = Result<Event, Failure>;

    #[inline(always)]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        match (&mut this.first, &this.again) {
            (Some(first), None) => Pin::new(first).poll_next(cx),
            _ => this.poll_restarting(cx),
        }
    }
}

impl<S, R, E, W> Restarting<S, R, E, W>
where
    S: Service<R, Response = Reply<E, W>, Error = Failure>,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
    R: Ask + Clone,
{
    /// The next event where the stream may start over. Apart from the way of those that may not.
    #[inline(never)]
    fn poll_restarting(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event, Failure>>> {
        let Some(again) = &mut self.again else { return Poll::Ready(None) };
        let item = match &mut self.first {
            Some(first) => ready!(Pin::new(first).poll_next(cx)),
            None => ready!(again.poll_next(cx)),
        };
        Poll::Ready(match item {
            Some(Ok(event)) => {
                self.output |= matches!(event.sign(), Sign::Output(_));
                Some(Ok(event))
            }
            Some(Err(failure)) => {
                // The dead segment is gone, and settled, before the reset is told.
                self.first = None;
                again.step = Step::Idle;
                let output = std::mem::take(&mut self.output);
                Some(if output { again.plan(failure) } else { Err(failure) })
            }
            None => None,
        })
    }
}

impl<S: Service<R>, R, E, W> fmt::Debug for Restarting<S, R, E, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restarting").field("output", &self.output).finish_non_exhaustive()
    }
}

// === impl Again ===

impl<S: Service<R>, R> Again<S, R> {
    pub(super) const fn new(plan: Arc<Plan>, service: S, request: R) -> Self {
        Self { plan, service, request, resets: 0, step: Step::Idle }
    }
}

impl<S, R, E, W> Again<S, R>
where
    S: Service<R, Response = Reply<E, W>, Error = Failure>,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
    R: Ask + Clone,
{
    /// A reset and the wait after it, or the failure if there is to be none.
    fn plan(&mut self, failure: Failure) -> Result<Event, Failure> {
        let config = &self.plan.config;
        let call = self.request.call();
        let delay = failure.retry_after().unwrap_or(config.delay);
        let at = now().checked_add(delay).filter(|_| delay <= config.max_retry_after.max(config.delay));
        let Some(at) = at.filter(|at| call.deadline.is_none_or(|deadline| *at < deadline)) else {
            return Err(failure);
        };
        if !failure.judgement().retry || self.resets >= config.resets {
            return Err(failure);
        }
        self.resets += 1;
        self.step = Step::Waiting(Box::pin(sleep_until(at)));
        let reset = Reset::after(failure);
        self.plan.facts.emit(&Fact::Reset {
            call: call.id,
            reason: reset.reason,
            failure: &reset.failure,
            delay,
        });
        Ok(Event::Reset(Box::new(reset)))
    }

    /// The next event of a later segment, once it was waited for and called; `None` if no reset was planned.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event, Failure>>> {
        loop {
            self.step = match &mut self.step {
                Step::Idle => return Poll::Ready(None),
                Step::Streaming(reply) => return Pin::new(reply).poll_next(cx),
                // Waiting => Readying
                Step::Waiting(timer) => {
                    ready!(timer.as_mut().poll(cx));
                    Step::Readying
                }
                // Readying => Calling | Idle
                Step::Readying => match ready!(self.service.poll_ready(cx)) {
                    Ok(()) => Step::Calling(Box::pin(self.service.call(self.request.clone()))),
                    Err(failure) => return Poll::Ready(Some(Err(failure))),
                },
                // Calling => Streaming | Idle
                Step::Calling(call) => match ready!(call.as_mut().poll(cx)) {
                    Ok(reply) => Step::Streaming(reply),
                    Err(failure) => return Poll::Ready(Some(Err(failure))),
                },
            };
        }
    }
}
