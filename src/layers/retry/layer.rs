//! The layer and its service.

use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::chat::Ask;
use crate::event::Facts;
use crate::failure::{ConfigError, Fault};
use crate::observe::Follow;
use crate::time::now;

use super::config::RetryConfig;
use super::future::ResponseFuture;
use super::plan::Plan;
use super::snapshot::RetrySnapshot;

/// Tries again. Clones of a layer, and the services it made, share one budget. See the [module](super).
#[derive(Clone, Debug)]
pub struct RetryLayer {
    plan: Arc<Plan>,
}

/// A service whose calls are tried again. See the [module](super).
#[derive(Debug)]
pub struct Retry<S> {
    inner: S,
    shared: Arc<Shared<S>>,
}

/// What each call needs and none changes.
#[derive(Debug)]
pub(super) struct Shared<S> {
    pub(super) plan: Arc<Plan>,
    /// Cloned only when there is a retry.
    pub(super) template: S,
}

// === impl RetryLayer ===

impl RetryLayer {
    /// Retries as told.
    ///
    /// # Errors
    /// If a field of the configuration cannot work.
    pub fn new(config: RetryConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { plan: Arc::new(Plan::new(config, Facts::default())) })
    }

    /// The retry as it stands.
    #[must_use]
    pub fn snapshot(&self) -> RetrySnapshot {
        self.plan.snapshot(now())
    }

    /// Tells facts to this sink. The budget starts anew.
    #[must_use]
    pub fn facts(self, facts: &Facts) -> Self {
        Self { plan: Arc::new(Plan::new(self.plan.config.clone(), facts.clone())) }
    }
}

impl Default for RetryLayer {
    fn default() -> Self {
        Self { plan: Arc::new(Plan::new(RetryConfig::default(), Facts::default())) }
    }
}

impl<S: Clone> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let shared = Shared { plan: Arc::clone(&self.plan), template: inner.clone() };
        Retry { inner, shared: Arc::new(shared) }
    }
}

// === impl Retry ===

impl<S, R> Service<R> for Retry<S>
where
    S: Service<R, Response: Follow, Error: Fault> + Clone,
    R: Ask + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.shared.plan.deposit();
        let call = self.inner.call(request.clone());
        ResponseFuture::new(Arc::clone(&self.shared), request, call)
    }
}

impl<S: Clone> Clone for Retry<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}
