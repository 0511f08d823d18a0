//! The layer, and who passes.

use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;

use crate::chat::{Ask, CallId};
use crate::event::{Fact, Facts};
use crate::failure::{Code, ConfigError, Failure};
use crate::gate::{Admission, Admit, Gate};
use crate::key::KeyBy;
use crate::keyed::Keyed;

use super::config::CircuitBreakerConfig;
use super::handle::{Callable, CircuitBreakerSnapshot, CircuitHandle};
use super::rules::Rules;
use super::state::{GATE, State};
use super::trial::Trial;

/// Refuses calls to what is sick. Clones of a layer, and the services it made, share their circuits. See the
/// [module](super).
#[derive(Clone, Debug)]
pub struct CircuitBreakerLayer {
    breaker: CircuitBreaker,
}

/// Decides who passes. See the [module](super).
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    states: States,
}

/// The circuits of a layer.
#[derive(Clone, Debug)]
pub(super) enum States {
    One(Arc<State>),
    Many(Arc<Rules>, Arc<Keyed<State>>),
}

// === impl CircuitBreakerLayer ===

impl CircuitBreakerLayer {
    /// Refuses as told.
    ///
    /// # Errors
    /// If a field of the configuration cannot work.
    pub fn new(config: CircuitBreakerConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::made(config, Facts::default(), GATE.into()))
    }

    /// Names it in facts and refusals: `provider:NAME`, `tool:NAME`. The circuits start anew.
    #[must_use]
    pub fn named(self, name: impl Into<Arc<str>>) -> Self {
        let rules = self.rules();
        Self::made(rules.config.clone(), rules.facts.clone(), name.into())
    }

    /// Tells facts to this sink. The circuits start anew.
    #[must_use]
    pub fn facts(self, facts: &Facts) -> Self {
        let rules = self.rules();
        Self::made(rules.config.clone(), facts.clone(), Arc::clone(&rules.name))
    }

    /// The one circuit, or that of the calls without a key.
    ///
    /// # Errors
    /// If the calls are told apart, and there are as many keys in use as may be.
    pub fn handle(&self) -> Result<CircuitHandle, Failure> {
        self.breaker.states.handle("")
    }

    /// The circuit of a key, made if there is none. Where calls are not told apart it is the one circuit.
    ///
    /// # Errors
    /// If there are as many keys in use as may be.
    pub fn handle_of(&self, key: &str) -> Result<CircuitHandle, Failure> {
        self.breaker.states.handle(key)
    }

    /// Tells which keys can be called.
    #[must_use]
    pub fn callable(&self) -> Callable {
        Callable::new(self.breaker.states.clone())
    }

    /// The circuits as they stand.
    #[must_use]
    pub fn snapshot(&self) -> CircuitBreakerSnapshot {
        let mut circuits = match &self.breaker.states {
            States::One(state) => vec![state.snapshot()],
            States::Many(_, states) => {
                let all = states.all().into_iter().map(|(_, state)| state.snapshot());
                all.filter(|snapshot| !snapshot.is_plain()).collect()
            }
        };
        circuits.sort_by(|one, two| one.key.cmp(&two.key));
        CircuitBreakerSnapshot { circuits }
    }

    fn made(config: CircuitBreakerConfig, facts: Facts, name: Arc<str>) -> Self {
        let (key, max_keys) = (config.key, config.max_keys);
        let rules = Arc::new(Rules::new(config, facts, name));
        let states = match key {
            KeyBy::Nothing => States::One(Arc::new(State::new(&rules, "".into()))),
            _ => States::Many(rules, Arc::new(Keyed::new(max_keys))),
        };
        Self { breaker: CircuitBreaker { states } }
    }

    fn rules(&self) -> &Arc<Rules> {
        match &self.breaker.states {
            States::One(state) => &state.rules,
            States::Many(rules, _) => rules,
        }
    }
}

impl Default for CircuitBreakerLayer {
    fn default() -> Self {
        Self::made(CircuitBreakerConfig::default(), Facts::default(), GATE.into())
    }
}

impl<S> Layer<S> for CircuitBreakerLayer {
    type Service = Gate<S, CircuitBreaker>;

    fn layer(&self, inner: S) -> Self::Service {
        Gate::new(inner, self.breaker.clone())
    }
}

// === impl CircuitBreaker ===

impl<R: Ask> Admission<R> for CircuitBreaker {
    type Permit = Trial;

    fn admit(&self, request: &R) -> Admit<Trial> {
        let call = request.call().id;
        let state = match &self.states {
            States::One(state) => Arc::clone(state),
            States::Many(rules, _) => match self.states.get_or_insert(rules.config.key.of(request)) {
                Ok(state) => state,
                Err(full) => return Admit::Refused(refuse(rules, call, &full)),
            },
        };
        let pass = match state.passes() {
            Some(generation) => (generation, None),
            None => match state.admit(call) {
                Ok(pass) => pass,
                Err(failure) => return Admit::Refused(failure),
            },
        };
        let waited = Duration::ZERO;
        state.shown(|key| state.rules.facts.emit(&Fact::Admitted { call, gate: GATE, key, waited }));
        Admit::Granted(Trial::new(state, request, call, pass))
    }
}

/// There is no room for one more key.
#[cold]
fn refuse(rules: &Rules, call: CallId, full: &Failure) -> Failure {
    let failure = Failure::local(Code::CircuitOpen, full.message());
    rules.facts.emit(&Fact::Refused { call, gate: GATE, key: &rules.name, failure: &failure });
    failure
}

/// What tests look at.
#[cfg(test)]
impl CircuitBreaker {
    pub(super) const fn states(&self) -> &States {
        &self.states
    }

    /// Of the calls without a key.
    pub(super) fn generation(&self) -> u16 {
        self.states.get("").map_or(0, |state| state.generation())
    }
}

// === impl States ===

impl States {
    pub(super) fn get(&self, key: &str) -> Option<Arc<State>> {
        match self {
            Self::One(state) => Some(Arc::clone(state)),
            Self::Many(_, states) => states.get(key),
        }
    }

    pub(super) fn get_or_insert(&self, key: &str) -> Result<Arc<State>, Failure> {
        match self {
            Self::One(state) => Ok(Arc::clone(state)),
            Self::Many(rules, states) => states.get_or_insert_named(key, |key| State::new(rules, key)),
        }
    }
}
