//! The canonical stack.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Serialize;
use tower_layer::Layer;
use tower_service::Service;

use crate::chat::Request;
use crate::config::StackConfig;
use crate::event::Facts;
use crate::failure::ConfigError;
use crate::gate::Gate;
use crate::layers::bulkhead::{Bulkhead, BulkheadSnapshot};
use crate::layers::circuit_breaker::{CircuitBreaker, CircuitBreakerSnapshot};
use crate::layers::degradation::{self, Degrading, Place};
use crate::layers::failover::{Candidate, Failover, FailoverSnapshot};
use crate::layers::rate_limit::{RateLimit, RateLimitSnapshot};
use crate::layers::retry::{Retry, RetrySnapshot};
use crate::layers::timeout::DualClockTimeout;
use crate::layers::{
    BulkheadLayer, CircuitBreakerLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, RetryLayer,
    TokenAwareRateLimitLayer,
};

/// One provider with its layers, from the outside in.
pub type Attempts<P> = Retry<Gate<Gate<DualClockTimeout<P>, RateLimit>, CircuitBreaker>>;

/// A whole stack, from the outside in.
pub type Whole<P> = Degrading<Gate<Failover<Attempts<P>>, Bulkhead>>;

/// The layers of a stack before it stands over providers. The outer two may be replaced: a ladder with more rungs, or a
/// bulkhead that others share.
///
/// ```
/// # use tower::util::BoxCloneSyncService;
/// # use watertight::chat::{BoxReply, Request};
/// # use watertight::config::StackConfig;
/// # use watertight::event::Facts;
/// # use watertight::failure::{ConfigError, Failure};
/// # use watertight::stack::Layers;
/// use tower::Layer;
/// # type Provider = BoxCloneSyncService<Request, BoxReply, Failure>;
///
/// # fn build(config: StackConfig, first: Provider, spare: Provider) -> Result<(), ConfigError> {
/// let mut layers = Layers::new(config, &Facts::default())?;
/// // The models that `[degradation] fallback_models` names are asked through the same bulkhead.
/// let spare = layers.bulkhead.layer(spare);
/// layers.degradation = layers.degradation.fallback_model(spare)?;
/// let stack = layers.over([("first", first)])?;
/// # let _ = stack;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Layers {
    /// The outermost.
    pub degradation: DegradationLayer,
    /// The next.
    pub bulkhead: BulkheadLayer,
    config: StackConfig,
    facts: Facts,
}

/// A stack over its providers: a service, and the layers in it to look at. Clones share everything.
pub struct Stack<P> {
    service: Whole<P>,
    degradation: DegradationLayer,
    bulkhead: BulkheadLayer,
    failover: FailoverLayer<Attempts<P>>,
    providers: Arc<[ProviderLayers]>,
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
}

// === impl Layers ===

impl Layers {
    /// The layers as configured, all telling the same sink.
    ///
    /// # Errors
    /// Names the field that cannot work, by its path.
    pub fn new(config: StackConfig, facts: &Facts) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            degradation: DegradationLayer::new(config.degradation.clone())?.facts(facts),
            bulkhead: BulkheadLayer::new(config.bulkhead.clone())?.facts(facts),
            config,
            facts: facts.clone(),
        })
    }

    /// Puts them over providers, the first asked first.
    ///
    /// # Errors
    /// If there is no provider, two have one name, the configuration names one that is not there, or the ladder names
    /// models or tools for which it has no service.
    pub fn over<C, P>(self, providers: impl IntoIterator<Item = (C, P)>) -> Result<Stack<P>, ConfigError>
    where
        C: Into<Candidate>,
        P: Clone,
    {
        self.check_ladder()?;
        let (mut names, mut kept, mut chains) = (Vec::new(), Vec::new(), Vec::new());
        for (candidate, provider) in providers {
            let candidate = candidate.into();
            let (layers, chain) = self.chain(&candidate.name, provider)?;
            names.push(candidate);
            kept.push(layers);
            chains.push(chain);
        }
        let unknown = |name: &&String| !names.iter().any(|candidate| *candidate.name == ***name);
        if let Some(name) = self.config.providers.keys().find(unknown) {
            return Err(ConfigError::new(format!("providers.{name}"), "is no provider of the stack"));
        }
        let mut chains = chains.into_iter();
        let first = chains.next().ok_or_else(|| ConfigError::new("providers", "must be at least one"))?;
        let failover = FailoverLayer::new(chains).named(names)?.config(self.config.failover)?;
        let failover = failover.facts(&self.facts);
        let service = failover.layer(first);
        let Self { degradation, bulkhead, .. } = self;
        let service = degradation.layer(bulkhead.layer(service));
        Ok(Stack { service, degradation, bulkhead, failover, providers: kept.into() })
    }

    /// A rung that a file names and nobody serves would be missing, silently, when it is needed.
    fn check_ladder(&self) -> Result<(), ConfigError> {
        let ladder = &self.config.degradation;
        let rungs = self.degradation.snapshot().rungs;
        for (field, named, place, method) in [
            ("fallback_models", &ladder.fallback_models, Place::FallbackModel, "fallback_model"),
            ("optional_tools", &ladder.optional_tools, Place::SkipTool, "skip_tool"),
        ] {
            if !named.is_empty() && !rungs.iter().any(|rung| rung.rung == place.as_str()) {
                let reason = format!("needs a service: give one to `degradation` by `{method}`");
                return Err(ConfigError::new(format!("degradation.{field}"), reason));
            }
        }
        Ok(())
    }

    /// One provider in its layers.
    fn chain<P: Clone>(
        &self,
        name: &Arc<str>,
        provider: P,
    ) -> Result<(ProviderLayers, Attempts<P>), ConfigError> {
        let own = self.config.provider(name);
        let shown = format!("provider:{name}");
        let circuit_breaker = CircuitBreakerLayer::new(own.circuit_breaker.unwrap_or_default())?
            .named(shown.as_str())
            .facts(&self.facts);
        let rate_limit = TokenAwareRateLimitLayer::new(own.rate_limit.unwrap_or_default())?
            .named(shown.as_str())
            .facts(&self.facts);
        let retry = RetryLayer::new(own.retry.unwrap_or_default())?.facts(&self.facts);
        let timeout = DualClockTimeoutLayer::new(own.timeout.unwrap_or_default())?.facts(&self.facts);
        let chain = retry.layer(circuit_breaker.layer(rate_limit.layer(timeout.layer(provider))));
        Ok((ProviderLayers { name: Arc::clone(name), retry, circuit_breaker, rate_limit }, chain))
    }
}

// === impl Stack ===

impl<P: Clone> Stack<P> {
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
    pub fn into_service(self) -> Whole<P> {
        self.service
    }
}

impl<P> Service<Request> for Stack<P>
where
    Whole<P>: Service<Request>,
{
    type Response = <Whole<P> as Service<Request>>::Response;
    type Error = <Whole<P> as Service<Request>>::Error;
    type Future = <Whole<P> as Service<Request>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.service.call(request)
    }
}

impl<P: Clone> Clone for Stack<P> {
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

impl<P> fmt::Debug for Stack<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("providers", &self.providers).finish_non_exhaustive()
    }
}
