//! A stack over its providers, and what it shows of itself.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Serialize;
use tower_service::Service;

use crate::chat::Request;
use crate::gate::Gate;
use crate::layers::bulkhead::{Bulkhead, BulkheadSnapshot};
use crate::layers::circuit_breaker::{CircuitBreaker, CircuitBreakerSnapshot};
use crate::layers::degradation::{self, Degrading};
use crate::layers::failover::{Failover, FailoverSnapshot};
use crate::layers::rate_limit::{RateLimit, RateLimitSnapshot};
use crate::layers::reset::Resetting;
use crate::layers::retry::{Retry, RetrySnapshot, Shortening};
use crate::layers::timeout::{DualClockTimeout, TimeoutSnapshot};
use crate::layers::{
    BulkheadLayer, CircuitBreakerLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, RetryLayer,
    TokenAwareRateLimitLayer,
};
#[cfg(feature = "protocols")]
use crate::provider::{Fits, Provider};

/// One provider with its layers, from the outside in.
pub type Attempts<P> = Retry<Gate<Gate<DualClockTimeout<P>, RateLimit>, CircuitBreaker>>;

/// The layers above the candidates of a stack, from the outside in.
pub type Whole<C> = Degrading<Gate<Resetting<Failover<C>>, Bulkhead>>;

/// A stack over its providers.
pub type Stack<P> = StackOver<Attempts<P>>;

/// A stack over its providers, at each of which a request that is too long is made smaller and tried once more.
pub type ShorteningStack<P, F> = StackOver<Shortening<Attempts<P>, F>>;

/// A stack over providers of ours, each of which is passed over where it cannot serve a request.
#[cfg(feature = "protocols")]
pub type ProviderStack<C> = StackOver<Gate<Attempts<Provider<C>>, Fits>>;

/// A stack over candidates: a service, and the layers in it to look at. Clones share everything.
pub struct StackOver<C> {
    pub(super) service: Whole<C>,
    pub(super) degradation: DegradationLayer,
    pub(super) bulkhead: BulkheadLayer,
    pub(super) failover: FailoverLayer<C>,
    pub(super) providers: Arc<[ProviderLayers]>,
}

/// The layers of one provider that can be looked at and changed by hand.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProviderLayers {
    /// Its name.
    pub name: Arc<str>,
    /// How often it is asked again.
    pub retry: RetryLayer,
    /// When it is left alone. Named `provider:NAME`.
    pub circuit_breaker: CircuitBreakerLayer,
    /// How much it is asked. Named `provider:NAME`.
    pub rate_limit: TokenAwareRateLimitLayer,
    /// How long it may take.
    pub timeout: DualClockTimeoutLayer,
}

/// A stack as it stands. Its parts are looked at one after the other: together they are no one instant.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StackSnapshot {
    /// What its ladder did.
    pub degradation: degradation::Snapshot,
    /// Who is inside.
    pub bulkhead: BulkheadSnapshot,
    /// Where calls begin, and who rests.
    pub failover: FailoverSnapshot,
    /// Its providers, in order.
    pub providers: Vec<ProviderSnapshot>,
}

/// One provider as it stands.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ProviderSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Its retries.
    pub retry: RetrySnapshot,
    /// Its circuits.
    pub circuit_breaker: CircuitBreakerSnapshot,
    /// Its limits.
    pub rate_limit: RateLimitSnapshot,
    /// Its clocks.
    pub timeout: TimeoutSnapshot,
}

// === impl StackOver ===

impl<C: Clone> StackOver<C> {
    /// The layers of each provider, in order.
    #[must_use]
    pub fn providers(&self) -> &[ProviderLayers] {
        &self.providers
    }

    /// The bulkhead.
    #[must_use]
    pub const fn bulkhead(&self) -> &BulkheadLayer {
        &self.bulkhead
    }

    /// The stack as it stands.
    #[must_use]
    pub fn snapshot(&self) -> StackSnapshot {
        let provider = |layers: &ProviderLayers| ProviderSnapshot {
            name: Arc::clone(&layers.name),
            retry: layers.retry.snapshot(),
            circuit_breaker: layers.circuit_breaker.snapshot(),
            rate_limit: layers.rate_limit.snapshot(),
            timeout: layers.timeout.snapshot(),
        };
        StackSnapshot {
            degradation: self.degradation.snapshot(),
            bulkhead: self.bulkhead.snapshot(),
            failover: self.failover.snapshot(),
            providers: self.providers.iter().map(provider).collect(),
        }
    }

    /// The service alone.
    #[must_use]
    pub fn into_service(self) -> Whole<C> {
        self.service
    }
}

impl<C> Service<Request> for StackOver<C>
where
    Whole<C>: Service<Request>,
{
    type Response = <Whole<C> as Service<Request>>::Response;
    type Error = <Whole<C> as Service<Request>>::Error;
    type Future = <Whole<C> as Service<Request>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.service.call(request)
    }
}

impl<C: Clone> Clone for StackOver<C> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            degradation: self.degradation.clone(),
            bulkhead: self.bulkhead.clone(),
            failover: self.failover.clone(),
            providers: Arc::clone(&self.providers),
        }
    }
}

impl<C> fmt::Debug for StackOver<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("providers", &self.providers).finish_non_exhaustive()
    }
}
