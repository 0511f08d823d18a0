//! The layer, its service, and the account of each call.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::chat::{Ask, Observer, Outcome};
use crate::event::Facts;
use crate::failure::{Code, ConfigError, Fault};
use crate::observe::Follow;

use super::config::{Candidate, FailoverConfig};
use super::future::ResponseFuture;
use super::pass::Pass;
use super::shared::Shared;
use super::standing::Blow;

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
    candidate: usize,
    /// The newest rest there was when the call began.
    known: u64,
    /// The failure it ended with was remembered before it was handed over.
    told: bool,
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
        // An error is met again, and judged, when the call readies a clone; the failed one is asked no more.
        match current.service.poll_ready(cx) {
            Poll::Ready(Err(_)) => self.current = None,
            polled => current.ready = polled.is_ready(),
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let pass = match Pass::begin(&self.shared, request.call()) {
            Ok(pass) => pass,
            Err(failure) => return ResponseFuture::failed(Arc::clone(&self.services), request, failure),
        };
        let services = Arc::clone(&self.services);
        match self.current.take() {
            Some(mut current) if current.ready && current.candidate == pass.candidate => {
                let mut first = request.clone();
                set_call(&mut first, &pass);
                let call = current.service.call(first);
                self.current = Some(Current { ready: false, ..current });
                ResponseFuture::calling(services, request, pass, call)
            }
            // A place held or queued for at another candidate is given up, since this call may come to need it.
            _ => ResponseFuture::readying(services, request, pass),
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
        let known = pass.known;
        Self { shared: Arc::clone(pass.shared()), candidate: pass.candidate, known, told: false }
    }

    /// Of a response that goes up as the failure it is.
    pub(super) fn told(pass: &Pass) -> Self {
        Self { told: true, ..Self::new(pass) }
    }
}

impl Observer for Account {
    fn settle(self, how: Outcome) {
        if self.told {
            return;
        }
        let blow = match how {
            Outcome::Completed(_) => None,
            Outcome::Failed(code) => Some(Blow::of_code(code)),
            Outcome::Truncated => Some(Blow::of_code(Code::Truncated)),
            Outcome::Abandoned => return,
        };
        self.shared.ended(self.candidate, self.known, blow);
    }
}
