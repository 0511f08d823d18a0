//! The layer, its service, and the account of each call.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::chat::{Ask, End, Observer};
use crate::event::Facts;
use crate::failure::{ConfigError, Fault};
use crate::observe::Follow;

use super::blow::Blow;
use super::config::{Candidate, FailoverConfig};
use super::future::ResponseFuture;
use super::pass::Pass;
use super::shared::Shared;
use super::standing::Asked;

/// Asks the next candidate. What is remembered lives here: clones of a layer, and all services it makes, share it.
/// See the [module](super).
pub struct FailoverLayer<S> {
    others: Arc<[S]>,
    shared: Arc<Shared>,
}

/// A service with others behind it. See the [module](super).
pub struct Failover<S> {
    services: Arc<[S]>,
    shared: Arc<Shared>,
    /// The standing candidate and whether it is ready, once it was asked to be.
    current: Option<Current<S>>,
}

struct Current<S> {
    candidate: usize,
    service: S,
    ready: bool,
}

/// Follows a call to its end, and remembers how it went.
#[derive(Debug)]
pub struct Account {
    shared: Arc<Shared>,
    asked: Asked,
    /// Whether the call was judged already, so that its end says nothing more.
    judged: bool,
}

// === impl FailoverLayer ===

impl<S> FailoverLayer<S> {
    /// These candidates, in this order, behind the service that the layer is put on.
    pub fn new(others: impl IntoIterator<Item = S>) -> Self {
        let others: Arc<[S]> = others.into_iter().collect();
        let candidates = (0..=others.len()).map(|at| Candidate::new(format!("candidate {at}"))).collect();
        let shared = Shared::new(FailoverConfig::default(), candidates, Facts::default());
        Self { others, shared: Arc::new(shared) }
    }

    /// Describes the candidates, the service that the layer is put on first.
    ///
    /// # Errors
    /// If there are not as many as services, one is named twice, or protocols differ where one is demanded.
    pub fn named<C: Into<Candidate>>(
        self,
        candidates: impl IntoIterator<Item = C>,
    ) -> Result<Self, ConfigError> {
        let candidates: Box<[Candidate]> = candidates.into_iter().map(Into::into).collect();
        self.rebuild(self.shared.config.clone(), candidates, self.shared.facts.clone())
    }

    /// Takes this configuration.
    ///
    /// # Errors
    /// If a field cannot work, or protocols differ where one is demanded.
    pub fn config(self, config: FailoverConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        self.rebuild(config, self.shared.candidates.clone(), self.shared.facts.clone())
    }

    /// Tells facts to this sink.
    #[must_use]
    pub fn facts(self, facts: &Facts) -> Self {
        let (config, candidates) = (self.shared.config.clone(), self.shared.candidates.clone());
        Self { others: self.others, shared: Arc::new(Shared::new(config, candidates, facts.clone())) }
    }

    fn rebuild(
        &self,
        config: FailoverConfig,
        candidates: Box<[Candidate]>,
        facts: Facts,
    ) -> Result<Self, ConfigError> {
        config.check(&candidates, self.others.len() + 1)?;
        let shared = Arc::new(Shared::new(config, candidates, facts));
        Ok(Self { others: Arc::clone(&self.others), shared })
    }
}

impl<S: Clone> Layer<S> for FailoverLayer<S> {
    type Service = Failover<S>;

    fn layer(&self, first: S) -> Self::Service {
        let services = std::iter::once(first).chain(self.others.iter().cloned()).collect();
        Failover { services, shared: Arc::clone(&self.shared), current: None }
    }
}

impl<S> Clone for FailoverLayer<S> {
    fn clone(&self) -> Self {
        Self { others: Arc::clone(&self.others), shared: Arc::clone(&self.shared) }
    }
}

impl<S> fmt::Debug for FailoverLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailoverLayer").field("shared", &self.shared).finish_non_exhaustive()
    }
}

// === impl Failover ===

impl<S, R> Service<R> for Failover<S>
where
    S: Service<R> + Clone,
    S::Response: Follow,
    S::Error: Fault,
    R: Ask + Clone,
{
    type Response = <S::Response as Follow>::Followed<Account>;
    type Error = S::Error;
    type Future = ResponseFuture<S, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let at = self.shared.at();
        let services = &self.services;
        let current = match &mut self.current {
            Some(current) if current.candidate == at => current,
            other => other.insert(Current { candidate: at, service: services[at].clone(), ready: false }),
        };
        match current.service.poll_ready(cx) {
            Poll::Ready(Ok(())) => current.ready = true,
            Poll::Pending => current.ready = false,
            // An error is met again, and judged, when the call readies a clone.
            Poll::Ready(Err(_)) => self.current = None,
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let services = Arc::clone(&self.services);
        let pass = match Pass::begin(&self.shared, request.call()) {
            Ok(pass) => pass,
            Err(failure) => return ResponseFuture::failed(services, request, failure),
        };
        match &mut self.current {
            Some(current) if current.ready && current.candidate == pass.asked.candidate => {
                current.ready = false;
                let mut first = request.clone();
                set_call(&mut first, &pass);
                ResponseFuture::calling(services, request, pass, current.service.call(first))
            }
            // What is not called now must hold no readiness, and no place in line but the call's own.
            other => {
                let waiting = other.take().filter(|current| current.candidate == pass.asked.candidate);
                ResponseFuture::readying(services, request, pass, waiting.map(|current| current.service))
            }
        }
    }
}

impl<S> Clone for Failover<S> {
    fn clone(&self) -> Self {
        Self { services: Arc::clone(&self.services), shared: Arc::clone(&self.shared), current: None }
    }
}

impl<S> fmt::Debug for Failover<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failover").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// Writes the call as the candidate is to see it, where it differs.
pub(super) fn set_call<R: Ask>(request: &mut R, pass: &Pass) {
    let call = pass.call();
    if call != request.call() {
        request.set_call(call);
    }
}

// === impl Account ===

impl Account {
    pub(super) fn new(pass: &Pass) -> Self {
        Self { shared: Arc::clone(pass.shared()), asked: pass.asked, judged: false }
    }

    /// For a response that carries a failure which was judged when it came.
    pub(super) fn judged(pass: &Pass) -> Self {
        Self { judged: true, ..Self::new(pass) }
    }
}

impl Observer for Account {
    fn settle(self, how: End<'_>) {
        if self.judged {
            return;
        }
        let config = &self.shared.config;
        let blow = match how {
            End::Completed(_) => None,
            End::Failed(failure) => Some(Blow::of(failure, config)),
            End::Abandoned => return,
        };
        self.shared.ended(self.asked, blow);
    }
}
