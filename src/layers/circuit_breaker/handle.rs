//! A circuit by hand: force it, look at it, ask whether it would let a call pass.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::event;
use crate::failure::Failure;

use super::circuit::Circuit;
use super::config::CircuitBreakerConfig;
use super::layer::States;
use super::signals::Moment;
use super::state::State;
use super::words::Verdict;

/// One circuit, for a person or a program to hold. Cheap to clone. While it is held, its key is not evicted.
#[derive(Clone, Debug)]
pub struct CircuitHandle {
    state: Arc<State>,
}

/// Tells which keys can be called, for whoever plans: failover, a ladder of degradation, an agent. Cheap to clone; it
/// makes no circuit and takes no place of a probe.
#[derive(Clone, Debug)]
pub struct Callable {
    states: States,
}

/// One circuit as it stands. Times are counted from the instant of the snapshot.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CircuitSnapshot {
    /// Which circuit, as facts name it.
    pub key: String,
    /// Its state. A pause shows as open.
    pub state: event::Circuit,
    /// Failures on record: those that weigh still, and once it is open those that opened it.
    pub failures: u32,
    /// How long ago it left the closed state, if it did.
    #[serde(with = "humantime_serde")]
    pub open_since: Option<Duration>,
    /// How long until it is worth asking again, if anybody knows.
    #[serde(with = "humantime_serde")]
    pub next_try: Option<Duration>,
    /// Probes in flight.
    pub probes: usize,
    /// Whether it is closed again, and lets calls back in by parts still.
    pub ramping: bool,
    /// How often it opened lately: each rest is longer by it.
    pub level: u32,
    /// What the last call that told anything told.
    pub last_outcome: Option<Verdict>,
    /// How often it would have opened while it only observed.
    pub would_have_opened: u64,
}

/// A layer's circuits as they stand: each that has anything to tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CircuitBreakerSnapshot {
    /// The circuits, by key.
    pub circuits: Vec<CircuitSnapshot>,
}

// === impl CircuitHandle ===

impl CircuitHandle {
    pub(super) const fn new(state: Arc<State>) -> Self {
        Self { state }
    }

    /// Refuses every call until it is told otherwise.
    pub fn force_open(&self) {
        self.state.by_hand(Circuit::force_open);
    }

    /// Lets every call pass, and counts nothing, until it is told otherwise.
    pub fn disable(&self) {
        self.state.by_hand(Circuit::disable);
    }

    /// Lets every call pass, and counts, until it is told otherwise: the snapshot says how often it would have opened.
    pub fn observe(&self) {
        self.state.by_hand(Circuit::observe);
    }

    /// Closes it, and forgets failures and rests.
    pub fn reset(&self) {
        self.state.by_hand(Circuit::reset);
    }

    /// Whether a call would pass now. Asking takes no place of a probe. What is due to be tried can be called, so that
    /// whoever only asks still lets it heal.
    #[must_use]
    pub fn is_callable(&self) -> bool {
        self.state.is_callable()
    }

    /// The circuit as it stands.
    #[must_use]
    pub fn snapshot(&self) -> CircuitSnapshot {
        self.state.snapshot()
    }
}

// === impl Callable ===

impl Callable {
    pub(super) const fn new(states: States) -> Self {
        Self { states }
    }

    /// Whether a call of this key would pass now. A key nobody called yet would.
    #[must_use]
    pub fn is_callable(&self, key: &str) -> bool {
        self.states.get(key).is_none_or(|state| state.is_callable())
    }
}

// === impl CircuitSnapshot ===

impl CircuitSnapshot {
    pub(super) fn of(circuit: &Circuit, config: &CircuitBreakerConfig, at: Moment) -> Self {
        let ago = |since: crate::time::Instant| at.now.saturating_duration_since(since);
        Self {
            key: String::new(),
            state: circuit.state(at.now),
            failures: circuit.failures(config, at),
            open_since: circuit.sick().map(ago),
            next_try: circuit.next_try(at.now),
            probes: circuit.probes(),
            ramping: circuit.is_ramping(at.now),
            level: circuit.level(config, at.now),
            last_outcome: circuit.last(),
            would_have_opened: circuit.would_open(),
        }
    }

    /// Whether it tells nothing that a circuit nobody called would not.
    pub(super) fn is_plain(&self) -> bool {
        Self { key: String::new(), last_outcome: None, ..self.clone() } == Self::default()
    }
}

impl Default for CircuitSnapshot {
    fn default() -> Self {
        Self {
            key: String::new(),
            state: event::Circuit::Closed,
            failures: 0,
            open_since: None,
            next_try: None,
            probes: 0,
            ramping: false,
            level: 0,
            last_outcome: None,
            would_have_opened: 0,
        }
    }
}

// === impl States ===

impl States {
    /// The circuit of a key, to be held.
    pub(super) fn handle(&self, key: &str) -> Result<CircuitHandle, Failure> {
        self.get_or_insert(key).map(CircuitHandle::new)
    }
}
