//! The layer and its admission.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tower_layer::Layer;

use crate::chat::{Ask, CallId};
use crate::event::{Fact, Facts};
use crate::failure::{ConfigError, Failure};
use crate::gate::{Admission, Admit, Gate};
use crate::key::KeyBy;
use crate::keyed::Keyed;

use super::account::Account;
use super::config::{BulkheadConfig, validate_limit};
use super::permit::Permit;
use super::snapshot::{BulkheadSnapshot, StateSnapshot};
use super::state::{Decision, GATE, Shared, State, limit_of, refusal};
use super::waiting::wait;

/// Lets so many calls of a key through at a time, and so many tokens. Clones of a layer, and the services it made, share
/// their slots. See the [module](super).
#[derive(Clone, Debug)]
pub struct BulkheadLayer {
    bulkhead: Bulkhead,
}

/// Who decides, and the handle to it: clones share their slots. See the [module](super).
#[derive(Clone, Debug)]
pub struct Bulkhead {
    states: States,
}

#[derive(Clone, Debug)]
enum States {
    /// One for all calls: nothing is looked up.
    One(Arc<State>),
    ByKey(Arc<ByKey>),
}

#[derive(Debug)]
struct ByKey {
    shared: Arc<Shared>,
    states: Keyed<State>,
    /// The limit of keys to come.
    limit: AtomicU32,
    /// Held by who changes it.
    changes: Mutex<()>,
}

// === impl BulkheadLayer ===

impl BulkheadLayer {
    /// A bulkhead as told.
    ///
    /// # Errors
    /// If a field of the configuration cannot work.
    pub fn new(config: BulkheadConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { bulkhead: Bulkhead::new(Shared { name: GATE.into(), config, facts: Facts::default() }) })
    }

    /// Names it in facts and refusals. Its slots are new ones, as many as configured.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let Shared { config, facts, .. } = self.bulkhead.shared();
        let (config, facts) = (config.clone(), facts.clone());
        Self { bulkhead: Bulkhead::new(Shared { name: name.into(), config, facts }) }
    }

    /// Tells facts to this sink. Its slots are new ones, as many as configured.
    #[must_use]
    pub fn facts(self, facts: &Facts) -> Self {
        let Shared { name, config, .. } = self.bulkhead.shared();
        let (name, config) = (Arc::clone(name), config.clone());
        Self { bulkhead: Bulkhead::new(Shared { name, config, facts: facts.clone() }) }
    }

    /// A handle to it.
    #[must_use]
    pub fn handle(&self) -> Bulkhead {
        self.bulkhead.clone()
    }

    /// See [`Bulkhead::set_limit`].
    ///
    /// # Errors
    /// If it is zero, or too large to count.
    pub fn set_limit(&self, limit: u32) -> Result<(), ConfigError> {
        self.bulkhead.set_limit(limit)
    }

    /// See [`Bulkhead::snapshot`].
    #[must_use]
    pub fn snapshot(&self) -> BulkheadSnapshot {
        self.bulkhead.snapshot()
    }
}

impl Default for BulkheadLayer {
    fn default() -> Self {
        let (config, facts) = (BulkheadConfig::default(), Facts::default());
        Self { bulkhead: Bulkhead::new(Shared { name: GATE.into(), config, facts }) }
    }
}

impl<S> Layer<S> for BulkheadLayer {
    type Service = Gate<S, Bulkhead>;

    fn layer(&self, inner: S) -> Self::Service {
        Gate::new(inner, self.bulkhead.clone())
    }
}

// === impl Bulkhead ===

impl Bulkhead {
    pub(super) fn new(shared: Shared) -> Self {
        let limit = limit_of(&shared.config);
        let shared = Arc::new(shared);
        let states = match shared.config.key {
            KeyBy::Nothing => States::One(Arc::new(State::new(&shared, Arc::clone(&shared.name), limit))),
            _ => States::ByKey(Arc::new(ByKey {
                states: Keyed::named(shared.config.max_keys, &shared.name),
                limit: AtomicU32::new(limit),
                changes: Mutex::default(),
                shared,
            })),
        };
        Self { states }
    }

    /// Changes how many calls of a key may be in flight: of every key there is, and of those to come. Calls in flight go
    /// on whatever the limit is; under a lower one nobody is let in before enough of them ended.
    ///
    /// # Errors
    /// If it is zero, or too large to count.
    pub fn set_limit(&self, limit: u32) -> Result<(), ConfigError> {
        validate_limit(limit)?;
        match &self.states {
            States::One(state) => state.lane.set_limit(limit),
            States::ByKey(by_key) => {
                // One change at a time. A key that is made meanwhile is either among all, or made with the new limit.
                let _changing = by_key.changes.lock().unwrap_or_else(PoisonError::into_inner);
                by_key.limit.store(limit, Ordering::SeqCst);
                by_key.states.all().iter().for_each(|(_, state)| state.lane.set_limit(limit));
            }
        }
        Ok(())
    }

    /// Shows it. Each key is looked at on its own: together they are no one instant.
    #[must_use]
    pub fn snapshot(&self) -> BulkheadSnapshot {
        let name = self.shared().name.to_string();
        match &self.states {
            States::One(state) => BulkheadSnapshot { name, keys: 1, states: vec![StateSnapshot::of(state)] },
            States::ByKey(by_key) => {
                let all = by_key.states.all();
                let mut states: Vec<_> = all
                    .iter()
                    .map(|(_, state)| StateSnapshot::of(state))
                    .filter(StateSnapshot::is_in_use)
                    .collect();
                states.sort_by(|one, other| one.key.cmp(&other.key));
                BulkheadSnapshot { name, keys: all.len(), states }
            }
        }
    }

    fn shared(&self) -> &Shared {
        match &self.states {
            States::One(state) => &state.shared,
            States::ByKey(by_key) => &by_key.shared,
        }
    }
}

impl<R: Ask> Admission<R> for Bulkhead {
    type Permit = Permit;

    #[inline]
    fn admit(&self, request: &R) -> Admit<Permit> {
        match &self.states {
            States::One(state) => admit_to(state, Arc::clone, request),
            States::ByKey(by_key) => match by_key.state(request) {
                Ok(state) => admit_to(state, |state| state, request),
                Err(failure) => Admit::Refused(by_key.refuse(request.call().id, &failure)),
            },
        }
    }
}

// === impl ByKey ===

impl ByKey {
    fn state<R: Ask>(&self, request: &R) -> Result<Arc<State>, Failure> {
        let key = self.shared.config.key.of(request);
        let make = |name| State::new(&self.shared, name, self.limit.load(Ordering::SeqCst));
        self.states.get_or_insert_named(key, make)
    }

    /// There is no room for one more key.
    #[cold]
    fn refuse(&self, call: CallId, failure: &Failure) -> Failure {
        let Shared { name, facts, .. } = &*self.shared;
        let failure = refusal(&format!("{name}: {}", failure.message()), None);
        facts.emit(&Fact::Refused { call, gate: GATE, key: name, failure: &failure });
        failure
    }
}

/// Asks a key's state, which is held on to only by a call that passes or waits.
#[inline]
fn admit_to<R: Ask, H: AsRef<State>>(holder: H, hold: fn(H) -> Arc<State>, request: &R) -> Admit<Permit> {
    let state = holder.as_ref();
    if !state.lets_pass() {
        return decide(holder, hold, request);
    }
    let call = request.call().id;
    state.emit_admitted(call, Duration::ZERO);
    Admit::Granted(Permit::new(hold(holder), Account::default(), call))
}

/// The same of a call that has a budget, or finds no slot.
fn decide<R: Ask, H: AsRef<State>>(holder: H, hold: fn(H) -> Arc<State>, request: &R) -> Admit<Permit> {
    let state = holder.as_ref();
    let call = request.call();
    match state.decide(request) {
        Decision::Pass(account) => {
            state.emit_admitted(call.id, Duration::ZERO);
            Admit::Granted(Permit::new(hold(holder), account, call.id))
        }
        Decision::Wait(account, ticket, since) => {
            Admit::Wait(wait(hold(holder), account, ticket, since, call))
        }
        Decision::Refuse(failure) => {
            state.emit_refused(call.id, &failure);
            Admit::Refused(failure)
        }
    }
}
