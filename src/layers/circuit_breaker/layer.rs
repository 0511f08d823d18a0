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
            KeyBy::Nothing => States::One(Arc::new(State::new(&rules, Arc::clone(&rules.name)))),
            _ => {
                let states = Keyed::named(max_keys, &rules.name);
                States::Many(rules, Arc::new(states))
            }
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

    #[inline]
    fn admit(&self, request: &R) -> Admit<Trial> {
        match &self.states {
            States::One(state) => admit_to(state, Arc::clone, request),
            States::Many(rules, states) => admit_by_key(rules, states, request),
        }
    }
}

/// There is no room for one more key.
#[cold]
fn refuse(rules: &Rules, call: CallId, full: &Failure) -> Failure {
    let failure = Failure::local(Code::CircuitOpen, full.message()).with_retry_after(full.retry_after());
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

    #[inline]
    pub(super) fn get_or_insert(&self, key: &str) -> Result<Arc<State>, Failure> {
        match self {
            Self::One(state) => Ok(Arc::clone(state)),
            Self::Many(rules, states) => states.get_or_insert_named(key, |name| State::new(rules, name)),
        }
    }
}

/// Beside the way of a breaker that does not tell calls apart, which is short enough to be a part of its callers.
#[inline(never)]
fn admit_by_key<R: Ask>(rules: &Arc<Rules>, states: &Keyed<State>, request: &R) -> Admit<Trial> {
    let make = |name| State::new(rules, name);
    match states.get_or_insert_named(rules.config.key.of(request), make) {
        Ok(state) => admit_to(state, |state| state, request),
        Err(full) => Admit::Refused(refuse(rules, request.call().id, &full)),
    }
}

/// Asks a circuit, which is held on to only by a call that passes.
#[inline]
fn admit_to<R: Ask, H: AsRef<State>>(holder: H, hold: fn(H) -> Arc<State>, request: &R) -> Admit<Trial> {
    let state = holder.as_ref();
    let call = request.call().id;
    let pass = match state.passes().map_or_else(|| state.admit(call), |generation| Ok((generation, None))) {
        Ok(pass) => pass,
        Err(failure) => return Admit::Refused(failure),
    };
    state.rules.facts.emit(&Fact::Admitted { call, gate: GATE, key: &state.name, waited: Duration::ZERO });
    Admit::Granted(Trial::new(hold(holder), request, call, pass))
}
