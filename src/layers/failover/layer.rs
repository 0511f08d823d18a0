//! The layer and its service.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::chat::{Ask, Call};
use crate::event::Facts;
use crate::failure::{ConfigError, Fault};
use crate::observe::Follow;
use crate::time::now;

use super::account::Account;
use super::config::{Candidate, FailoverConfig};
use super::future::ResponseFuture;
use super::pass::Pass;
use super::shared::Shared;
use super::snapshot::FailoverSnapshot;

/// Asks the next candidate. What is remembered lives here: clones of a layer, and all services it makes, share it.
/// See the [module](super).
pub struct FailoverLayer<S> {
    others: Arc<[S]>,
    shared: Arc<Shared>,
}

/// A service with others behind it. See the [module](super).
pub struct Failover<S> {
    lineup: Arc<Lineup<S>>,
    /// The standing candidate and whether it is ready, once it was asked to be.
    current: Option<Current<S>>,
}

/// The services in line, and what is remembered of them: one pointer, so that a call counts up one only.
pub(super) struct Lineup<S> {
    pub(super) services: Box<[S]>,
    pub(super) shared: Arc<Shared>,
}

struct Current<S> {
    candidate: usize,
    service: S,
    ready: bool,
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

    /// Describes the candidates, the service that the layer is put on first. What is known of them starts anew.
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

    /// Takes this configuration. What is known of the candidates starts anew.
    ///
    /// # Errors
    /// If a field cannot work, or protocols differ where one is demanded.
    pub fn config(self, config: FailoverConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        self.rebuild(config, self.shared.candidates.clone(), self.shared.facts.clone())
    }

    /// The failover as it stands.
    #[must_use]
    pub fn snapshot(&self) -> FailoverSnapshot {
        self.shared.lock().snapshot(&self.shared.candidates, now())
    }

    /// Tells facts to this sink. What is known of the candidates starts anew.
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
        let lineup = Lineup { services, shared: Arc::clone(&self.shared) };
        Failover { lineup: Arc::new(lineup), current: None }
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
    S: Service<R, Response: Follow, Error: Fault> + Clone,
    R: Ask + Clone,
{
    type Response = <S::Response as Follow>::Followed<Account>;
    type Error = S::Error;
    type Future = ResponseFuture<S, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let at = self.lineup.shared.at();
        let services = &self.lineup.services;
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
        let lineup = Arc::clone(&self.lineup);
        let pass = if lineup.shared.is_calm() {
            None
        } else {
            match Pass::begin(&lineup.shared, request.call()) {
                Ok(pass) => Some(Box::new(pass)),
                Err(failure) => return ResponseFuture::failed(lineup, request, failure),
            }
        };
        let asked = pass.as_ref().map_or(0, |pass| pass.asked.candidate);
        match &mut self.current {
            Some(current) if current.ready && current.candidate == asked => {
                current.ready = false;
                let call = current.service.call(lineup.asking(&request, pass.as_deref()));
                ResponseFuture::calling(lineup, request, pass, call)
            }
            // What is not called now must hold no readiness, and no place in line but the call's own.
            other => {
                let waiting = other.take().filter(|current| current.candidate == asked);
                ResponseFuture::readying(lineup, request, pass, waiting.map(|current| current.service))
            }
        }
    }
}

impl<S> Clone for Failover<S> {
    fn clone(&self) -> Self {
        Self { lineup: Arc::clone(&self.lineup), current: None }
    }
}

impl<S> fmt::Debug for Failover<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failover").field("shared", &self.lineup.shared).finish_non_exhaustive()
    }
}

// === impl Lineup ===

impl<S> Lineup<S> {
    /// The request as the candidate is to see it that is asked.
    pub(super) fn asking<R: Ask + Clone>(&self, request: &R, pass: Option<&Pass>) -> R {
        let mut asking = request.clone();
        let call = request.call();
        let seen = pass.map_or_else(|| self.straight(call), Pass::call);
        if seen != call {
            asking.set_call(seen);
        }
        asking
    }

    /// The call as the first candidate is to see it in calm times.
    fn straight(&self, call: Call) -> Call {
        self.shared.call(call, 0, || self.services.len() - 1)
    }

    /// What follows a response to its end; one that carries a failure was judged when it came.
    #[inline]
    pub(super) fn account(&self, pass: Option<&Pass>, judged: bool) -> Account {
        Account::new(&self.shared, pass.map(|pass| pass.asked).unwrap_or_default(), judged)
    }
}
