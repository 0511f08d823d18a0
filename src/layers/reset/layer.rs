//! The layer and its service.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::chat::{Ask, Event, Reply, Watchers};
use crate::event::Facts;
use crate::failure::{ConfigError, Failure};

use super::config::ResetConfig;
use super::restarting::{Again, Restarting};

/// Lets streams start over. See the [module](super).
#[derive(Clone, Debug, Default)]
pub struct ResetLayer {
    plan: Arc<Plan>,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) config: ResetConfig,
    pub(super) facts: Facts,
}

/// A service whose streams may start over. See the [module](super).
#[derive(Clone, Debug)]
pub struct Resetting<S> {
    inner: S,
    plan: Arc<Plan>,
}

pin_project! {
    /// A call whose stream may start over.
    pub struct ResponseFuture<S: Service<R>, R> {
        #[pin]
        call: S::Future,
        // What a restart needs, taken when the response is there; nothing where there is to be none. Boxed here already,
        // so that a call without restarts is no larger than one without this layer.
        again: Option<Box<Again<S, R>>>,
    }
}

// === impl ResetLayer ===

impl ResetLayer {
    /// Starts over as told.
    ///
    /// # Errors
    /// If a field of the configuration cannot work.
    pub fn new(config: ResetConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { plan: Arc::new(Plan { config, facts: Facts::default() }) })
    }

    /// Tells facts to this sink.
    #[must_use]
    pub fn facts(self, facts: &Facts) -> Self {
        let config = self.plan.config.clone();
        Self { plan: Arc::new(Plan { config, facts: facts.clone() }) }
    }
}

impl<S> Layer<S> for ResetLayer {
    type Service = Resetting<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Resetting { inner, plan: Arc::clone(&self.plan) }
    }
}

// === impl Resetting ===

impl<S, R, E, W> Service<R> for Resetting<S>
where
    S: Service<R, Response = Reply<E, W>, Error = Failure> + Clone,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
    R: Ask + Clone,
{
    type Response = Reply<Restarting<S, R, E, W>>;
    type Error = Failure;
    type Future = ResponseFuture<S, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx)
    }

    #[inline(always)]
    fn call(&mut self, request: R) -> Self::Future {
        let again = if self.plan.config.resets > 0 { Some(self.again(&request)) } else { None };
        ResponseFuture { call: self.inner.call(request), again }
    }
}

impl<S: Clone> Resetting<S> {
    /// What a restart of this call needs.
    #[inline(never)]
    fn again<R: Clone>(&self, request: &R) -> Box<Again<S, R>>
    where
        S: Service<R>,
    {
        Box::new(Again::new(Arc::clone(&self.plan), self.inner.clone(), request.clone()))
    }
}

// === impl ResponseFuture ===

impl<S, R, E, W> Future for ResponseFuture<S, R>
where
    S: Service<R, Response = Reply<E, W>, Error = Failure> + Clone,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
    R: Ask + Clone,
{
    type Output = Result<Reply<Restarting<S, R, E, W>>, Failure>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let reply = ready!(this.call.poll(cx))?;
        let (output, again) = (reply.has_begun(), this.again.take());
        Poll::Ready(Ok(reply.wrap(|events| Restarting::new(output, events, again))))
    }
}

impl<S: Service<R>, R> fmt::Debug for ResponseFuture<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
