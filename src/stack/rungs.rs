//! The rungs of a stack's ladder that ask a service.

use futures_core::Stream;
use tower_layer::Layer;
use tower_service::Service;

use crate::chat::{Event, Reply, Request, Watchers};
use crate::config::within;
use crate::failure::{ConfigError, Failure};

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
}
