//! One circuit among calls: its word, its lock, and what is told of it.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::chat::CallId;
use crate::event::{Fact, Facts};
use crate::failure::{Code, Failure};
use crate::keyed::Idle;
use crate::time::{self, Instant};

use super::circuit::Circuit;
use super::config::CircuitBreakerConfig;
use super::handle::CircuitSnapshot;
use super::probes::Ticket;
use super::signals::Moment;
use super::window::BUCKETS;
use super::word::{Counted, Told, Word};
use super::words::{Answer, Change, Report, Verdict};

/// How circuits show in facts.
pub(super) const GATE: &str = "circuit_breaker";

/// What all circuits of a layer share.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) config: CircuitBreakerConfig,
    pub(super) facts: Facts,
    pub(super) name: Arc<str>,
    /// When buckets and starts of calls began to be counted.
    epoch: Instant,
}

/// One circuit. Idle it is this alone, so that many keys fit; what is sick, or has a past, has more beside it.
#[derive(Debug)]
pub(super) struct State {
    word: Word,
    circuit: Mutex<Option<Box<Circuit>>>,
    /// Empty where calls are not told apart.
    key: Arc<str>,
    pub(super) rules: Arc<Rules>,
}

// === impl Rules ===

impl Rules {
    pub(super) fn new(config: CircuitBreakerConfig, facts: Facts, name: Arc<str>) -> Self {
        Self { config, facts, name, epoch: time::now() }
    }

    /// Nanoseconds since the beginning.
    pub(super) fn nanos(&self) -> u64 {
        nanos(time::now().saturating_duration_since(self.epoch))
    }

    fn moment(&self, now: Instant) -> Moment {
        let width = (self.config.window.as_nanos() / BUCKETS as u128).max(1);
        let bucket = now.saturating_duration_since(self.epoch).as_nanos() / width;
        Moment { now, bucket: u64::try_from(bucket).unwrap_or(u64::MAX) }
    }

    /// The bucket successes are counted in. The clock is read only where a share is asked for.
    fn bucket(&self) -> u64 {
        if self.config.counts_successes() { self.moment(time::now()).bucket } else { 0 }
    }
}

// === impl State ===

impl State {
    pub(super) fn new(rules: &Arc<Rules>, key: Arc<str>) -> Self {
        Self { word: Word::new(), circuit: Mutex::new(None), key, rules: Arc::clone(rules) }
    }

    /// The generation a call passes in, if calls pass without asking.
    pub(super) fn passes(&self) -> Option<u16> {
        let told = self.word.told();
        told.passes.then_some(told.generation)
    }

    /// Asks the circuit whether a call passes: its generation, and its ticket if it is a probe.
    #[cold]
    pub(super) fn admit(&self, call: CallId) -> Result<(u16, Option<Ticket>), Failure> {
        let mut facing = None;
        let (generation, answer, change) = self.with(|circuit, rules, at| {
            let (answer, change) = circuit.admit(&rules.config, at.now);
            if matches!(answer, Answer::Refuse(_)) {
                facing = Some((circuit.state(at.now), circuit.failures(at)));
            }
            (circuit.generation(), answer, change)
        });
        self.tell_change(change);
        match answer {
            Answer::Pass => Ok((generation, None)),
            Answer::Probe(ticket) => {
                self.shown(|key| self.rules.facts.emit(&Fact::Probe { call, key }));
                Ok((generation, Some(ticket)))
            }
            Answer::Refuse(wait) => Err(self.shown(|key| {
                let (state, failures) = facing.unwrap_or((crate::event::Circuit::Open, 0));
                let failure = refusal(key, state, failures, wait);
                self.rules.facts.emit(&Fact::Refused { call, gate: GATE, key, failure: &failure });
                failure
            })),
        }
    }

    pub(super) fn is_callable(&self) -> bool {
        if self.word.told().passes {
            return true;
        }
        let circuit = self.lock();
        circuit.as_ref().is_none_or(|circuit| circuit.is_callable(&self.rules.config, time::now()))
    }

    /// A success that told nothing but that it is one.
    pub(super) fn succeed(&self, generation: u16) -> Counted {
        if !self.rules.config.counts_successes() {
            let told = self.word.told();
            return match told {
                Told { generation: now, .. } if now != generation => Counted::Old,
                Told { is_calm: true, .. } => Counted::Yes,
                _ => Counted::No,
            };
        }
        let bucket = self.rules.bucket();
        match self.word.succeed(generation, bucket) {
            Counted::No if self.begin_bucket(generation) => Counted::Yes,
            counted => counted,
        }
    }

    /// The end of a call that the circuit must hear of.
    #[cold]
    pub(super) fn settle(&self, generation: u16, ticket: Option<Ticket>, report: &Report) {
        let (change, lost) = self.with(|circuit, rules, at| {
            let lost = circuit.generation() == generation && circuit.is_cache_lost(&rules.config, report);
            (circuit.settle(&rules.config, generation, ticket, report, at), lost)
        });
        self.tell_change(change);
        if lost {
            self.shown(|key| self.rules.facts.emit(&Fact::CacheLost { key }));
        }
    }

    /// Changes the circuit by hand.
    pub(super) fn by_hand(&self, change: impl FnOnce(&mut Circuit, Instant) -> Option<Change>) {
        let change = self.with(|circuit, _, at| change(circuit, at.now));
        self.tell_change(change);
    }

    pub(super) fn snapshot(&self) -> CircuitSnapshot {
        let counted = self.word.count() > 0;
        let circuit = self.lock();
        let at = self.rules.moment(time::now());
        let mut snapshot = circuit.as_ref().map_or_else(CircuitSnapshot::default, |circuit| {
            CircuitSnapshot::of(circuit, &self.rules.config, at)
        });
        drop(circuit);
        if counted {
            snapshot.last_outcome = Some(Verdict::Success);
        }
        snapshot.key = self.shown(str::to_owned);
        snapshot
    }

    /// The key as it shows: the layer's name, and the key where there is one.
    pub(super) fn shown<T>(&self, tell: impl FnOnce(&str) -> T) -> T {
        thread_local! {
            /// Written anew for each fact, so that no call allocates it.
            static SHOWN: Cell<String> = const { Cell::new(String::new()) };
        }
        if self.key.is_empty() {
            return tell(&self.rules.name);
        }
        let mut text = SHOWN.take();
        text.clear();
        text.push_str(&self.rules.name);
        text.push(':');
        text.push_str(&self.key);
        let told = tell(&text);
        SHOWN.set(text);
        told
    }

    fn tell_change(&self, change: Option<Change>) {
        if let Some(Change { from, to, cause, rest }) = change {
            self.shown(|key| self.rules.facts.emit(&Fact::Transition { key, from, to, cause, rest }));
        }
    }

    /// The first success of a bucket: nobody else need hear of it while nothing is kept of the buckets before.
    #[cold]
    fn begin_bucket(&self, generation: u16) -> bool {
        let circuit = self.lock();
        let at = self.rules.moment(time::now());
        let told = self.word.told();
        if circuit.is_some() || told.generation != generation || !told.is_calm {
            return false;
        }
        let (count, bucket) = self.word.take(at.bucket);
        let gone = at.bucket - bucket >= BUCKETS as u64;
        let is_free = count == 0 || gone;
        // What was counted and is not gone goes back, and the circuit is told of it.
        let (bucket, count) = if is_free { (at.bucket, 1) } else { (bucket, count) };
        self.word.put(told, bucket, count);
        is_free
    }

    /// Asks the circuit, under its lock. What was counted meanwhile is added first.
    fn with<T>(&self, ask: impl FnOnce(&mut Circuit, &Rules, Moment) -> T) -> T {
        let rules = &*self.rules;
        let mut slot = self.lock();
        let at = rules.moment(time::now());
        let (count, bucket) = self.word.take(at.bucket);
        let generation = self.word.told().generation;
        let circuit = slot.get_or_insert_with(|| Box::new(Circuit::new(generation, self.seed())));
        circuit.add_successes(bucket, count);
        let answer = ask(circuit, rules, at);
        let bucket = if rules.config.counts_successes() { at.bucket } else { 0 };
        let told = circuit.told(&rules.config);
        if circuit.is_fresh(&rules.config, at) {
            *slot = None;
        }
        self.word.put(told, bucket, 0);
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Circuit>>> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Each key has a jitter of its own, the same in each run.
    fn seed(&self) -> Option<u64> {
        let mix = |seed: u64| self.key.bytes().fold(seed, |seed, byte| seed.rotate_left(8) ^ u64::from(byte));
        self.rules.config.seed.map(mix)
    }
}

impl Idle for State {
    /// What is usual for a key is given up with it.
    fn is_idle(&self) -> bool {
        let circuit = match self.circuit.try_lock() {
            Ok(circuit) => circuit,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let at = self.rules.moment(time::now());
        let counted = self.word.count() > 0 && !self.word.is_behind(at.bucket, BUCKETS as u64);
        !counted && circuit.as_ref().is_none_or(|circuit| circuit.is_idle(&self.rules.config, at))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn refusal(key: &str, state: crate::event::Circuit, failures: u32, wait: Option<Duration>) -> Failure {
    use crate::event::Circuit as Shown;
    let state = match state {
        Shown::HalfOpen => "half-open, and its probes are out",
        Shown::ForcedOpen => "held open by hand",
        Shown::Closed => "closed again, and lets calls back in by parts",
        Shown::Open | Shown::Disabled | Shown::Observe => "open",
    };
    let next_try = wait.map_or_else(|| "unknown".to_owned(), |wait| format!("in {wait:.1?}"));
    let message = format!("{key} is {state}; failures: {failures}, next try: {next_try}");
    Failure::local(Code::CircuitOpen, message).with_retry_after(wait)
}
