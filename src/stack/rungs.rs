//! The rungs of a stack's ladder that ask a service.

use futures_core::Stream;
use tower_layer::Layer;
use tower_service::Service;

use crate::chat::{Event, Reply, Request, Watchers};
use crate::config::within;
use crate::failure::{ConfigError, Failure};
use crate::layers::degradation::CallableWhen;

use super::build::Layers;

// === impl Layers ===

impl Layers {
    /// Asks the models that `[degradation] fallback_models` names through this service, inside the stack's own bulkhead: a
    /// caller has no second place, and no second budget, for a second model.
    ///
    /// Whoever replaces the [`bulkhead`](Self::bulkhead) does so before.
    ///
    /// # Errors
    /// If the configuration names no model to ask.
    pub fn fallback_model<S, E, W>(mut self, service: S) -> Result<Self, ConfigError>
    where
        S: Service<Request, Response = Reply<E, W>, Error = Failure> + Clone + Send + Sync + 'static,
        S::Future: Send,
        E: Stream<Item = Result<Event, Failure>> + Unpin + Send + 'static,
        W: Watchers + Unpin + Send + 'static,
    {
        self.degradation =
            within("degradation", self.degradation.fallback_model(self.bulkhead.layer(service)))?;
        Ok(self)
    }

    /// Asks again through this service without `[degradation] optional_tools`, inside the same bulkhead, too.
    ///
    /// # Errors
    /// If the configuration names no optional tool.
    pub fn skip_tool<S, E, W>(mut self, service: S) -> Result<Self, ConfigError>
    where
        S: Service<Request, Response = Reply<E, W>, Error = Failure> + Clone + Send + Sync + 'static,
        S::Future: Send,
        E: Stream<Item = Result<Event, Failure>> + Unpin + Send + 'static,
        W: Watchers + Unpin + Send + 'static,
    {
        self.degradation = within("degradation", self.degradation.skip_tool(self.bulkhead.layer(service)))?;
        Ok(self)
    }

    /// Leaves a tool of `[degradation] optional_tools` out of calls while this says that it cannot be called: a breaker's
    /// [`callable`](crate::layers::CircuitBreakerLayer::callable), say. No other service is asked for that.
    ///
    /// ```
    /// # use watertight::config::StackConfig;
    /// # use watertight::event::Facts;
    /// # use watertight::failure::ConfigError;
    /// # use watertight::stack::Layers;
    /// use watertight::layers::CircuitBreakerLayer;
    /// use watertight::layers::degradation::{CallableWhen, DegradationConfig};
    ///
    /// # fn main() -> Result<(), ConfigError> {
    /// let search = CircuitBreakerLayer::default().named("tool:search");
    /// let degradation =
    ///     DegradationConfig { optional_tools: vec!["search".into()], ..DegradationConfig::default() };
    /// let config = StackConfig { degradation, ..StackConfig::default() };
    /// let open = search.callable();
    /// let layers = Layers::new(config, &Facts::default())?
    ///     .tool_callable("search", CallableWhen::new(move || open.is_callable("")))?;
    /// # let _ = layers;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the configuration does not name the tool as optional.
    pub fn tool_callable(mut self, tool: &str, callable: CallableWhen) -> Result<Self, ConfigError> {
        self.degradation = within("degradation", self.degradation.tool_callable(tool, callable))?;
        Ok(self)
    }
}
