//! Layers by name on a `ServiceBuilder`.

use tower::ServiceBuilder;
use tower_layer::Stack;

use crate::layers::{
    BulkheadLayer, CircuitBreakerLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, ResetLayer,
    RetryLayer, TokenAwareRateLimitLayer,
};

/// Adds the layers of this crate to a [`ServiceBuilder`], the outermost first.
///
/// ```
/// use tower::ServiceBuilder;
/// use watertight::layers::{BulkheadLayer, CircuitBreakerLayer};
/// use watertight::stack::ServiceBuilderExt;
///
/// let layers = ServiceBuilder::new()
///     .bulkhead(BulkheadLayer::default())
///     .circuit_breaker(CircuitBreakerLayer::default());
/// # let _ = layers;
/// ```
pub trait ServiceBuilderExt<L>: Sized {
    /// Answers where the service beneath cannot.
    fn degradation(self, layer: DegradationLayer) -> ServiceBuilder<Stack<DegradationLayer, L>>;

    /// Lets so many calls of a key through at a time.
    fn bulkhead(self, layer: BulkheadLayer) -> ServiceBuilder<Stack<BulkheadLayer, L>>;

    /// Starts a broken stream over.
    fn resetting(self, layer: ResetLayer) -> ServiceBuilder<Stack<ResetLayer, L>>;

    /// Asks the next candidate.
    fn failover<S>(self, layer: FailoverLayer<S>) -> ServiceBuilder<Stack<FailoverLayer<S>, L>>;

    /// Tries again.
    fn retrying(self, layer: RetryLayer) -> ServiceBuilder<Stack<RetryLayer, L>>;

    /// Refuses calls to what is sick.
    fn circuit_breaker(self, layer: CircuitBreakerLayer) -> ServiceBuilder<Stack<CircuitBreakerLayer, L>>;

    /// Holds calls to a provider's limits.
    fn token_rate_limit(
        self,
        layer: TokenAwareRateLimitLayer,
    ) -> ServiceBuilder<Stack<TokenAwareRateLimitLayer, L>>;

    /// Puts clocks on calls.
    fn dual_clock_timeout(
        self,
        layer: DualClockTimeoutLayer,
    ) -> ServiceBuilder<Stack<DualClockTimeoutLayer, L>>;
}

// === impl ServiceBuilder ===

impl<L> ServiceBuilderExt<L> for ServiceBuilder<L> {
    fn degradation(self, layer: DegradationLayer) -> ServiceBuilder<Stack<DegradationLayer, L>> {
        self.layer(layer)
    }

    fn bulkhead(self, layer: BulkheadLayer) -> ServiceBuilder<Stack<BulkheadLayer, L>> {
        self.layer(layer)
    }

    fn resetting(self, layer: ResetLayer) -> ServiceBuilder<Stack<ResetLayer, L>> {
        self.layer(layer)
    }

    fn failover<S>(self, layer: FailoverLayer<S>) -> ServiceBuilder<Stack<FailoverLayer<S>, L>> {
        self.layer(layer)
    }

    fn retrying(self, layer: RetryLayer) -> ServiceBuilder<Stack<RetryLayer, L>> {
        self.layer(layer)
    }

    fn circuit_breaker(self, layer: CircuitBreakerLayer) -> ServiceBuilder<Stack<CircuitBreakerLayer, L>> {
        self.layer(layer)
    }

    fn token_rate_limit(
        self,
        layer: TokenAwareRateLimitLayer,
    ) -> ServiceBuilder<Stack<TokenAwareRateLimitLayer, L>> {
        self.layer(layer)
    }

    fn dual_clock_timeout(
        self,
        layer: DualClockTimeoutLayer,
    ) -> ServiceBuilder<Stack<DualClockTimeoutLayer, L>> {
        self.layer(layer)
    }
}
