//! The layer, and who decides.

use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;

use crate::chat::Ask;
use crate::event::{Fact, Facts};
use crate::failure::{Code, ConfigError, Failure};
use crate::gate::{Admission, Admit, Gate};
use crate::key::KeyBy;
use crate::keyed::Keyed;
use crate::store::{Ledger, Memory, Store};
use crate::time::{Instant, now};

use super::config::RateLimitConfig;
use super::reservation::Reservation;
use super::snapshot::{KeySnapshot, RateLimitSnapshot};
use super::state::{GATE, State, Terms, Wait};
use super::waiting::{Asking, line_up};

/// Holds calls to a provider's limits. See the [module](super).
#[derive(Clone, Debug)]
pub struct TokenAwareRateLimitLayer<K: Store = Memory> {
    store: K,
    limit: RateLimit<K>,
}

/// Decides who passes a rate limit. Clones share what they decide by.
#[derive(Debug)]
pub struct RateLimit<K: Store = Memory>(Arc<Keys<K>>, Option<Arc<State<K::Ledger>>>);

#[derive(Debug)]
struct Keys<K: Store> {
    terms: Arc<Terms>,
    store: K,
    states: Keyed<State<K::Ledger>>,
}

// === impl TokenAwareRateLimitLayer ===

impl TokenAwareRateLimitLayer {
    /// Holds calls to these limits, with accounts in memory.
    ///
    /// # Errors
    /// Names the field that cannot work.
    pub fn new(config: RateLimitConfig) -> Result<Self, ConfigError> {
        Self::with_store(Memory::default(), config)
    }
}

impl<K: Store> TokenAwareRateLimitLayer<K> {
    /// Holds calls to these limits, with accounts in this store.
    ///
    /// # Errors
    /// Names the field that cannot work.
    pub fn with_store(store: K, config: RateLimitConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let terms = Terms { quotas: config.quotas(), config, facts: Facts::default(), name: GATE.into() };
        Ok(Self::of(store, terms))
    }

    /// Gives it a name in facts, failures and snapshots: `provider:openai`. Call it first: it begins anew.
    #[must_use]
    pub fn named(self, name: impl Into<Box<str>>) -> Self {
        let terms = Terms { name: name.into(), ..self.limit.terms().clone() };
        Self::of(self.store, terms)
    }

    /// Tells facts to this sink. Call it first: it begins anew.
    #[must_use]
    pub fn facts(self, facts: &Facts) -> Self {
        let terms = Terms { facts: facts.clone(), ..self.limit.terms().clone() };
        Self::of(self.store, terms)
    }

    /// Whether any dimension of any key is used up to this share: time to do less.
    ///
    /// ```
    /// use watertight::layers::TokenAwareRateLimitLayer;
    ///
    /// let limits = TokenAwareRateLimitLayer::default();
    /// assert!(!limits.is_near_limit(0.85));
    /// ```
    #[must_use]
    pub fn is_near_limit(&self, share: f64) -> bool {
        let now = now();
        self.limit.all().iter().any(|state| state.is_near_limit(share, now))
    }

    /// How full everything is. Each key is looked at on its own: together they are no one instant.
    #[must_use]
    pub fn snapshot(&self) -> RateLimitSnapshot {
        let now = now();
        let keys = self.limit.all().into_iter().map(|state| state.snapshot(now)).collect();
        RateLimitSnapshot { name: self.limit.terms().name.clone(), keys }
    }

    fn of(store: K, terms: Terms) -> Self {
        Self { limit: RateLimit::new(store.clone(), Arc::new(terms)), store }
    }
}

impl Default for TokenAwareRateLimitLayer {
    fn default() -> Self {
        let config = RateLimitConfig::default();
        let quotas = config.quotas();
        Self::of(Memory::default(), Terms { quotas, config, facts: Facts::default(), name: GATE.into() })
    }
}

impl<S, K: Store> Layer<S> for TokenAwareRateLimitLayer<K> {
    type Service = Gate<S, RateLimit<K>>;

    fn layer(&self, inner: S) -> Self::Service {
        Gate::new(inner, self.limit.clone())
    }
}

// === impl RateLimit ===

impl<K: Store> RateLimit<K> {
    fn new(store: K, terms: Arc<Terms>) -> Self {
        let only = (terms.config.key == KeyBy::Nothing).then(|| {
            let ledger = store.open(&terms.name, &terms.quotas);
            Arc::new(State::new(Arc::clone(&terms), (*terms.name).into(), ledger))
        });
        let states = Keyed::named(terms.config.max_keys, &terms.name);
        Self(Arc::new(Keys { terms, store, states }), only)
    }

    fn terms(&self) -> &Terms {
        &self.0.terms
    }

    /// The state of a call's key.
    fn state<R: Ask>(&self, request: &R) -> Result<Arc<State<K::Ledger>>, Failure> {
        if let Some(only) = &self.1 {
            return Ok(Arc::clone(only));
        }
        let keys = &self.0;
        let key = keys.terms.config.key.of(request);
        let made = keys.states.get_or_insert_named(key, |name| {
            let ledger = keys.store.open(&name, &keys.terms.quotas);
            State::new(Arc::clone(&keys.terms), name, ledger)
        });
        made.map_err(|full| {
            let words = format!("rate limit `{}`: {}", keys.terms.name, full.message());
            let failure = Failure::local(Code::LimiterFull, words).with_retry_after(full.retry_after());
            let call = request.call().id;
            keys.terms.facts.emit(&Fact::Refused {
                call,
                gate: GATE,
                key: &keys.terms.name,
                failure: &failure,
            });
            failure
        })
    }

    fn all(&self) -> Vec<Arc<State<K::Ledger>>> {
        let keyed = self.0.states.all().into_iter().map(|(_, state)| state);
        self.1.iter().cloned().chain(keyed).collect()
    }
}

impl<R: Ask, K: Store> Admission<R> for RateLimit<K> {
    type Permit = Reservation<K>;

    fn admit(&self, request: &R) -> Admit<Reservation<K>> {
        let state = match self.state(request) {
            Ok(state) => state,
            Err(failure) => return Admit::Refused(failure),
        };
        let (call, now) = (request.call(), now());
        let price = state.price(request);
        if !state.line.is_empty() {
            return line_up(state, call, Asking { price, known: None, now });
        }
        match state.take_now(&price.costs, now) {
            Some(Ok(())) => {
                state.tell_admitted(call.id, Duration::ZERO);
                Admit::Granted(Reservation::new(state, call.id, price, now))
            }
            Some(Err(Wait::Quota(short))) => line_up(state, call, Asking { price, known: Some(short), now }),
            Some(Err(Wait::Slot)) | None => line_up(state, call, Asking { price, known: None, now }),
        }
    }
}

impl<K: Store> Clone for RateLimit<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0), self.1.clone())
    }
}

// === impl State ===

impl<L: Ledger> State<L> {
    fn is_near_limit(&self, share: f64, now: Instant) -> bool {
        self.slots.used().max(self.ledger.used(now)) >= share
    }

    fn snapshot(&self, now: Instant) -> KeySnapshot {
        KeySnapshot {
            key: (*self.name).into(),
            in_flight: self.slots.in_flight(),
            max_in_flight: self.slots.most(),
            waiting: self.line.waiting(),
            frozen: self.ledger.frozen_until(now).map(|until| until.saturating_duration_since(now)),
            levels: self.ledger.levels(now),
            usual_output: self.experience.usual_output(),
            estimate_factor: self.experience.factor(),
        }
    }
}
