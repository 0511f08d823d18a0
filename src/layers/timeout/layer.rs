//! The layer and its service.

use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::chat::Ask;
use crate::event::Facts;
use crate::failure::{Code, ConfigError, Failure, Fault};

use super::body::Clocked;
use super::clocks::Clocks;
use super::future::ResponseFuture;
use super::plan::Plan;
use super::snapshot::TimeoutSnapshot;
use super::watchdog::Watchdog;

/// Puts clocks on calls. See the [module](super).
#[derive(Clone, Debug)]
pub struct DualClockTimeoutLayer {
    plain: Arc<Plan>,
    reasoning: Arc<Plan>,
}

/// A service with clocks on its calls. See the [module](super).
#[derive(Clone, Debug)]
pub struct DualClockTimeout<S> {
    inner: S,
    layer: DualClockTimeoutLayer,
}

// === impl DualClockTimeoutLayer ===

impl DualClockTimeoutLayer {
    /// These clocks, made as long as [`Clocks::reasoning`] for requests that ask for reasoning.
    ///
    /// # Errors
    /// If a clock is zero.
    pub fn new(clocks: Clocks) -> Result<Self, ConfigError> {
        Self::with_reasoning(clocks, clocks.for_reasoning())
    }

    /// These clocks, and others for requests that ask for reasoning.
    ///
    /// # Errors
    /// If a clock is zero.
    pub fn with_reasoning(clocks: Clocks, reasoning: Clocks) -> Result<Self, ConfigError> {
        clocks.validate()?;
        reasoning.validate()?;
        let plan = |clocks| Arc::new(Plan::new(clocks, Facts::default()));
        Ok(Self { plain: plan(clocks), reasoning: plan(reasoning) })
    }

    /// Tells facts to this sink.
    #[must_use]
    pub fn facts(self, facts: &Facts) -> Self {
        let plan = |clocks| Arc::new(Plan::new(clocks, facts.clone()));
        Self { plain: plan(self.plain.clocks), reasoning: plan(self.reasoning.clocks) }
    }

    /// The clocks, and how often they ran out.
    #[must_use]
    pub fn snapshot(&self) -> TimeoutSnapshot {
        TimeoutSnapshot { plain: self.plain.snapshot(), reasoning: self.reasoning.snapshot() }
    }

    /// The clocks for a request of this kind.
    #[inline]
    fn plan<R: Ask>(&self, request: &R) -> &Arc<Plan> {
        if request.is_reasoning() { &self.reasoning } else { &self.plain }
    }

    /// Those that a request brings.
    ///
    /// # Errors
    /// If they cannot work: they were attached unchecked.
    fn own_plan(&self, own: Clocks) -> Result<Arc<Plan>, Failure> {
        own.validate().map_err(|error| {
            Failure::local(Code::InvalidRequest, format!("clocks of the request: {error}"))
        })?;
        Ok(Arc::new(self.plain.with(own)))
    }
}

impl Default for DualClockTimeoutLayer {
    fn default() -> Self {
        let plan = |clocks| Arc::new(Plan::new(clocks, Facts::default()));
        Self { plain: plan(Clocks::default()), reasoning: plan(Clocks::reasoning()) }
    }
}

impl<S> Layer<S> for DualClockTimeoutLayer {
    type Service = DualClockTimeout<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DualClockTimeout { inner, layer: self.clone() }
    }
}

// === impl DualClockTimeout ===

impl<S, R> Service<R> for DualClockTimeout<S>
where
    S: Service<R>,
    S::Response: Clocked,
    S::Error: Fault,
    R: Ask,
{
    type Response = <S::Response as Clocked>::Clocked;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        if let Some(own) = own_clocks(&request) {
            return self.call_by(own, request);
        }
        let (plan, call, streamed) = (self.layer.plan(&request), request.call(), request.is_stream());
        // Nothing is held over the call that must be given up should it panic, so that its future is made in place.
        let inner = self.inner.call(request);
        ResponseFuture::new(inner, Watchdog::new(Arc::clone(plan), call, streamed))
    }
}

impl<S> DualClockTimeout<S> {
    #[cold]
    fn call_by<R: Ask>(&mut self, own: Clocks, request: R) -> ResponseFuture<S::Future>
    where
        S: Service<R>,
    {
        match self.layer.own_plan(own) {
            Ok(plan) => {
                let dog = Watchdog::new(plan, request.call(), request.is_stream());
                ResponseFuture::new(self.inner.call(request), dog)
            }
            Err(failure) => ResponseFuture::refused(failure),
        }
    }
}

/// The clocks that a request brings.
#[inline]
fn own_clocks<R: Ask>(request: &R) -> Option<Clocks> {
    request.extensions()?.get().copied()
}
