//! The canonical order.

use tower_layer::Layer;

use crate::config::{StackConfig, within};
use crate::event::Facts;
use crate::failure::ConfigError;
use crate::layers::degradation::Place;
use crate::layers::failover::Candidate;
use crate::layers::rate_limit::RateLimitConfig;
use crate::layers::reset::ResetConfig;
use crate::layers::{
    BulkheadLayer, CircuitBreakerLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, ResetLayer,
    RetryLayer, ShortenLayer, TokenAwareRateLimitLayer,
};

#[cfg(feature = "protocols")]
use crate::provider::{FitsLayer, Provider};

#[cfg(feature = "protocols")]
use super::whole::ProviderStack;
use super::whole::{Attempts, ProviderLayers, ShorteningStack, Stack, StackOver};

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
/// # type Provider = BoxCloneSyncService<Request, BoxReply, Failure>;
///
/// # fn build(config: StackConfig, first: Provider, spare: Provider) -> Result<(), ConfigError> {
/// // The models that `[degradation] fallback_models` names are asked inside the same bulkhead.
/// let layers = Layers::new(config, &Facts::default())?.fallback_model(spare)?;
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

/// A provider as it goes into a stack.
struct Part<P> {
    candidate: Candidate,
    /// Where its limits start that the configuration does not state.
    limits: RateLimitConfig,
    provider: P,
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
    pub fn over<N, P>(self, providers: impl IntoIterator<Item = (N, P)>) -> Result<Stack<P>, ConfigError>
    where
        N: Into<Candidate>,
        P: Clone,
    {
        self.assemble(providers.into_iter().map(Part::of), |_, attempts| attempts)
    }

    /// Puts them over providers of ours, which are named, asked and limited as their profiles say, and tell facts to the
    /// same sink. What one of them cannot serve passes on before anything of it is waited for or reserved:
    /// [`FitsLayer`](crate::provider::FitsLayer). Limits that the configuration states come before those of a profile.
    ///
    /// ```
    /// # use watertight::config::StackConfig;
    /// # use watertight::event::Facts;
    /// # use watertight::stack::Layers;
    /// # fn main() -> Result<(), watertight::failure::ConfigError> {
    /// # #[cfg(feature = "client")] {
    /// use watertight::provider::{Provider, catalogue};
    ///
    /// let first = Provider::new(catalogue::get("deepseek")?.with_key("sk-house"))?;
    /// let local = Provider::new(catalogue::get("ollama")?)?;
    /// let stack = Layers::new(StackConfig::default(), &Facts::default())?.over_providers([first, local])?;
    /// # let _ = stack;
    /// # }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`over`](Self::over).
    #[cfg(feature = "protocols")]
    pub fn over_providers<C: Clone>(
        self,
        providers: impl IntoIterator<Item = Provider<C>>,
    ) -> Result<ProviderStack<C>, ConfigError> {
        let providers: Vec<_> = providers.into_iter().map(|provider| provider.facts(&self.facts)).collect();
        let fits: Vec<_> = providers.iter().map(|provider| FitsLayer::new(provider.profile())).collect();
        let part = |provider: Provider<C>| Part {
            candidate: Candidate::from(provider.profile()),
            limits: RateLimitConfig::from(provider.profile()),
            provider,
        };
        self.assemble(providers.into_iter().map(part), |at, attempts| fits[at].layer(attempts))
    }

    /// The same; a request that a provider finds too long is made smaller with this, and tried there once more, before
    /// another provider is asked. See [`Shorten`](crate::layers::retry::Shorten).
    ///
    /// ```
    /// # use tower::util::BoxCloneSyncService;
    /// # use watertight::chat::{BoxReply, Request};
    /// # use watertight::config::StackConfig;
    /// # use watertight::event::Facts;
    /// # use watertight::failure::{ConfigError, Failure};
    /// # use watertight::stack::Layers;
    /// # type Provider = BoxCloneSyncService<Request, BoxReply, Failure>;
    /// # fn build(config: StackConfig, provider: Provider) -> Result<(), ConfigError> {
    /// // Of a question alone nothing can be left out; else the oldest half goes.
    /// let newer = async |mut request: Request, _: Failure| {
    ///     let old = request.messages.len() / 2;
    ///     request.edit().messages.drain(..old);
    ///     (old > 0).then_some(request)
    /// };
    /// let layers = Layers::new(config, &Facts::default())?;
    /// let stack = layers.over_shortening([("first", provider)], newer)?;
    /// # let _ = stack;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`over`](Self::over).
    pub fn over_shortening<N, P, F>(
        self,
        providers: impl IntoIterator<Item = (N, P)>,
        shorten: F,
    ) -> Result<ShorteningStack<P, F>, ConfigError>
    where
        N: Into<Candidate>,
        P: Clone,
        F: Clone,
    {
        let shortening = ShortenLayer::new(shorten);
        self.assemble(providers.into_iter().map(Part::of), |_, attempts| shortening.layer(attempts))
    }

    /// Puts the layers over providers, each with its own, and with what `finish` puts around those.
    fn assemble<P: Clone, C: Clone>(
        self,
        parts: impl Iterator<Item = Part<P>>,
        finish: impl Fn(usize, Attempts<P>) -> C,
    ) -> Result<StackOver<C>, ConfigError> {
        self.check_ladder()?;
        let (mut names, mut kept, mut chains) = (Vec::new(), Vec::new(), Vec::new());
        for (at, part) in parts.enumerate() {
            names.push(part.candidate.clone());
            let (layers, attempts) = self.chain(part)?;
            kept.push(layers);
            chains.push(finish(at, attempts));
        }
        let unknown = |name: &&String| !names.iter().any(|candidate| *candidate.name == ***name);
        if let Some(name) = self.config.providers.keys().find(unknown) {
            return Err(ConfigError::new(format!("providers.{name}"), "is no provider of the stack"));
        }
        let mut chains = chains.into_iter();
        let first = chains.next().ok_or_else(|| ConfigError::new("providers", "must be at least one"))?;
        let failover = FailoverLayer::new(chains).named(names)?.config(self.config.failover)?;
        let failover = failover.facts(&self.facts);
        // It stands there in any case, so that stacks with it and without it are of one type.
        let never = ResetConfig { resets: 0, ..ResetConfig::default() };
        let reset = ResetLayer::new(self.config.reset.unwrap_or(never))?.facts(&self.facts);
        let service = reset.layer(failover.layer(first));
        let Self { degradation, bulkhead, .. } = self;
        let service = degradation.layer(bulkhead.layer(service));
        Ok(StackOver { service, degradation, bulkhead, failover, providers: kept.into() })
    }

    /// A rung that a file names and nobody serves would be missing, silently, when it is needed.
    fn check_ladder(&self) -> Result<(), ConfigError> {
        let ladder = &self.config.degradation;
        for (field, named, place, method) in [
            ("fallback_models", &ladder.fallback_models, Place::FallbackModel, "fallback_model"),
            ("optional_tools", &ladder.optional_tools, Place::SkipTool, "skip_tool"),
        ] {
            let linked = place == Place::SkipTool && self.degradation.links_tools();
            if !named.is_empty() && !linked && !self.degradation.has(place) {
                let reason = match place {
                    Place::SkipTool => {
                        "needs a service or a link: `Layers::skip_tool`, `Layers::tool_callable`".into()
                    }
                    _ => format!("needs a service: give one by `Layers::{method}`"),
                };
                return Err(ConfigError::new(format!("degradation.{field}"), reason));
            }
        }
        Ok(())
    }

    /// One provider in its layers.
    fn chain<P: Clone>(&self, part: Part<P>) -> Result<(ProviderLayers, Attempts<P>), ConfigError> {
        let Part { candidate: Candidate { name, .. }, limits, provider } = part;
        let own = self.config.provider(&name);
        let shown = format!("provider:{name}");
        let circuit_breaker = CircuitBreakerLayer::new(own.circuit_breaker.unwrap_or_default())?
            .named(shown.as_str())
            .facts(&self.facts);
        // What a file says fits itself, but may not fit what the profile says.
        let limits = own.rate_limit.unwrap_or_default().filled_from(&limits);
        let rate_limit =
            within(&format!("providers.{name}.rate_limit"), TokenAwareRateLimitLayer::new(limits))?
                .named(shown.as_str())
                .facts(&self.facts);
        let retry = RetryLayer::new(own.retry.unwrap_or_default())?.facts(&self.facts);
        let timeout = DualClockTimeoutLayer::new(own.timeout.unwrap_or_default())?.facts(&self.facts);
        let chain = retry.layer(circuit_breaker.layer(rate_limit.layer(timeout.layer(provider))));
        Ok((ProviderLayers { name, retry, circuit_breaker, rate_limit, timeout }, chain))
    }
}

// === impl Part ===

impl<P> Part<P> {
    /// Of a service of which nothing is known but its candidate.
    fn of<N: Into<Candidate>>((candidate, provider): (N, P)) -> Self {
        Self { candidate: candidate.into(), limits: RateLimitConfig::default(), provider }
    }
}
