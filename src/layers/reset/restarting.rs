//! A stream that may start over.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tower_service::Service;

use crate::chat::{Ask, Event, Reply, Reset, Sign, Watchers};
use crate::event::Fact;
use crate::failure::Failure;
use crate::time::{Sleep, now, sleep_until};

use super::layer::Plan;

/// A stream that may start over. After its last failure or its end it is empty.
pub struct Restarting<S: Service<R>, R, T> {
    reply: Option<T>,
    /// Whether there was output in this segment.
    output: bool,
    again: Box<Again<S, R>>,
}

pub(super) struct Again<S: Service<R>, R> {
    plan: Arc<Plan>,
    service: S,
    request: R,
    resets: u32,
    step: Step<S::Future>,
}

enum Step<F> {
    Idle,
    Waiting(Pin<Box<Sleep>>),
    Readying,
    Calling(Pin<Box<F>>),
}

// === impl Restarting ===

impl<S: Service<R>, R, T> Restarting<S, R, T> {
    /// `output` says whether some was read ahead, which does not pass here again.
    pub(super) fn new(output: bool, reply: T, again: Again<S, R>) -> Self {
        Self { reply: Some(reply), output, again: Box::new(again) }
    }
}

impl<S, R, E, W> Stream for Restarting<S, R, Reply<E, W>>
where
    S: Service<R, Response = Reply<E, W>, Error = Failure> + Unpin,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
    R: Ask + Clone + Unpin,
{
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let Some(reply) = &mut this.reply else {
                match ready!(this.again.poll_reply(cx)) {
                    Some(Ok(reply)) => this.reply = Some(reply),
                    Some(Err(failure)) => return Poll::Ready(Some(Err(failure))),
                    None => return Poll::Ready(None),
                }
                continue;
            };
            match ready!(Pin::new(reply).poll_next(cx)) {
                Some(Ok(event)) => {
                    this.output |= matches!(event.sign(), Sign::Output(_));
                    return Poll::Ready(Some(Ok(event)));
                }
                Some(Err(failure)) => {
                    this.reply = None;
                    let output = std::mem::take(&mut this.output);
                    return Poll::Ready(Some(if output { this.again.plan(failure) } else { Err(failure) }));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<S: Service<R>, R, T> fmt::Debug for Restarting<S, R, T> {
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

impl<S, R, T> Again<S, R>
where
    S: Service<R, Response = T, Error = Failure>,
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

    /// The fresh reply; `None` if no reset was planned.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, Failure>>> {
        loop {
            match &mut self.step {
                Step::Idle => return Poll::Ready(None),
                Step::Waiting(timer) => {
                    ready!(timer.as_mut().poll(cx));
                    self.step = Step::Readying;
                }
                Step::Readying => match ready!(self.service.poll_ready(cx)) {
                    Ok(()) => {
                        self.step = Step::Calling(Box::pin(self.service.call(self.request.clone())));
                    }
                    Err(failure) => {
                        self.step = Step::Idle;
                        return Poll::Ready(Some(Err(failure)));
                    }
                },
                Step::Calling(call) => {
                    let reply = ready!(call.as_mut().poll(cx));
                    self.step = Step::Idle;
                    return Poll::Ready(Some(reply));
                }
            }
        }
    }
}
