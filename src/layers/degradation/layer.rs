//! The layer.

use std::collections::HashMap;
use std::sync::Arc;

use futures_core::Stream;
use tower_layer::Layer;
use tower_service::Service;

use crate::chat::{Event, Reply, Request, Watchers};
use crate::event::Facts;
use crate::failure::{ConfigError, Failure};

use super::config::DegradationConfig;
use super::counts::Snapshot;
use super::defer::{DeferQueue, Deferring};
use super::degrading::Degrading;
use super::graceful::GracefulFailure;
use super::ladder::{Ladder, Place};
use super::models::FallbackModel;
use super::other::Other;
use super::rung::{CallableWhen, Rung};
use super::tools::SkipTool;

/// Answers where the service beneath cannot. Clones of a layer, and the services it made, share the rungs and what
/// they keep. See the [module](super).
#[derive(Clone, Debug)]
pub struct DegradationLayer {
    ladder: Arc<Ladder>,
    /// The first rung while it is built, so that its parts may come in any order.
    models: HashMap<String, CallableWhen>,
    fallback: Option<Other>,
}

// === impl DegradationLayer ===

impl DegradationLayer {
    /// Has the rungs that need nothing but the configuration: partial results and words.
    ///
    /// # Errors
    /// If a field of the configuration cannot work.
    pub fn new(config: DegradationConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut ladder = Ladder::new(config);
        if let Some(graceful) = ladder.config.graceful.clone() {
            ladder.put(Place::GracefulFailure, false, Arc::new(GracefulFailure(graceful)));
        }
        Ok(Self { ladder: Arc::new(ladder), models: HashMap::new(), fallback: None })
    }

    /// Asks `fallback_models` through this service: the first rung.
    ///
    /// Put the same bulkhead around it that stands in the service beneath (clones of a layer share it): a caller has
    /// no second budget for a second model.
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
        if self.ladder.config.fallback_models.is_empty() {
            return Err(ConfigError::new(
                "fallback_models",
                "names no model, and there is a service for them",
            ));
        }
        self.fallback = Some(Other::new(service));
        Ok(self.put_models())
    }

    /// Passes over a fallback model while this says that it cannot be called.
    ///
    /// # Errors
    /// If the configuration does not name the model.
    pub fn model_callable(mut self, model: &str, callable: CallableWhen) -> Result<Self, ConfigError> {
        if !self.ladder.config.fallback_models.iter().any(|name| name == model) {
            return Err(ConfigError::new("fallback_models", format!("does not name `{model}`")));
        }
        self.models.insert(model.to_owned(), callable);
        Ok(self.put_models())
    }

    /// Asks again through this service without `optional_tools` that failed or cannot be called: the second rung.
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
        let ladder = self.edit();
        let optional = ladder.config.optional_tools.clone();
        if optional.is_empty() {
            return Err(ConfigError::new(
                "optional_tools",
                "names no tool, and there is a service without them",
            ));
        }
        let quality = ladder.config.quality.skip_tool;
        let rung = SkipTool { service: Other::new(service), optional, quality };
        ladder.put(Place::SkipTool, false, Arc::new(rung));
        Ok(self)
    }

    /// Leaves an optional tool out of calls while this says that it cannot be called.
    ///
    /// # Errors
    /// If the configuration does not name the tool as optional.
    pub fn tool_callable(mut self, tool: &str, callable: CallableWhen) -> Result<Self, ConfigError> {
        if !self.ladder.config.optional_tools.iter().any(|name| name == tool) {
            return Err(ConfigError::new("optional_tools", format!("does not name `{tool}`")));
        }
        self.edit().tools.insert(tool.to_owned(), callable);
        Ok(self)
    }

    /// Answers with what this keeps of earlier calls: the third rung. Whole answers are put there.
    #[cfg(feature = "cache")]
    #[must_use]
    pub fn cached_answer(mut self, cache: &super::cache::AnswerCache) -> Self {
        let ladder = self.edit();
        let rung = super::cache::CachedAnswer::new(cache.clone(), ladder.config.quality.cached_answer);
        ladder.put(Place::CachedAnswer, false, Arc::new(rung));
        self
    }

    /// Promises an answer, and puts the call in this line: the fourth rung.
    #[must_use]
    pub fn deferred(mut self, queue: impl DeferQueue + 'static) -> Self {
        let ladder = self.edit();
        let rung = Deferring::new(Arc::new(queue), ladder.config.quality.deferred);
        ladder.put(Place::Deferred, false, Arc::new(rung));
        self
    }

    /// Adds a rung of your own behind the place that it follows, and behind own ones that were put there before.
    #[must_use]
    pub fn rung_after(mut self, place: Place, rung: impl Rung + 'static) -> Self {
        self.edit().put(place, true, Arc::new(rung));
        self
    }

    /// Tells facts to this sink.
    #[must_use]
    pub fn facts(mut self, facts: &Facts) -> Self {
        self.edit().facts = facts.clone();
        self
    }

    /// What the rungs did so far.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.ladder.snapshot()
    }

    /// Whether any tool is looked at before it is offered.
    pub(crate) fn links_tools(&self) -> bool {
        !self.ladder.tools.is_empty()
    }

    /// Whether one of the six rungs has what it needs.
    pub(crate) fn has(&self, place: Place) -> bool {
        self.ladder.has(place)
    }

    fn put_models(mut self) -> Self {
        if let Some(service) = self.fallback.clone() {
            let callable = self.models.clone();
            let ladder = self.edit();
            let models = ladder.config.fallback_models.clone();
            let (quality, quality_without) =
                (ladder.config.quality.fallback_model, ladder.config.quality.skip_tool);
            let rung = FallbackModel { service, models, callable, quality, quality_without };
            ladder.put(Place::FallbackModel, false, Arc::new(rung));
        }
        self
    }

    /// The ladder, to change: the services that were made before keep theirs.
    fn edit(&mut self) -> &mut Ladder {
        Arc::make_mut(&mut self.ladder)
    }
}

impl Default for DegradationLayer {
    fn default() -> Self {
        Self::new(DegradationConfig::default()).expect("the defaults work")
    }
}

impl<S> Layer<S> for DegradationLayer {
    type Service = Degrading<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Degrading::new(inner, Arc::clone(&self.ladder))
    }
}
