//! One circuit among calls: its word, its lock, and what is told of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::chat::CallId;
use crate::event::Fact;
use crate::failure::Failure;
use crate::keyed::Idle;
use crate::time::{self, Instant};

use super::circuit::Circuit;
use super::handle::CircuitSnapshot;
use super::probes::Ticket;
use super::refusal::{Facing, Refusal};
use super::rules::Rules;
use super::signals::Moment;
use super::window::BUCKETS;
use super::word::{Counted, Told, Word};
use super::words::{Answer, Change, Report, Verdict};

/// How circuits show in facts.
pub(super) const GATE: &str = "circuit_breaker";

/// One circuit. Idle it is this alone, so that many keys fit; what is sick, or has a past, has more beside it.
#[derive(Debug)]
pub(super) struct State {
    word: Word,
    kept: Mutex<Option<Box<Kept>>>,
    /// As facts show it: the layer's name, and the key where it has one.
    pub(super) name: Arc<str>,
    pub(super) rules: Arc<Rules>,
}

/// What is kept of a circuit that is not as good as new.
#[derive(Debug)]
struct Kept {
    circuit: Circuit,
    refusal: Refusal,
}

// === impl State ===

impl State {
    pub(super) fn new(rules: &Arc<Rules>, name: Arc<str>) -> Self {
        Self {
            word: Word::new(!rules.config.learns()),
            kept: Mutex::new(None),
            name,
            rules: Arc::clone(rules),
        }
    }

    /// The generation a call passes in, if calls pass without asking.
    #[inline]
    pub(super) fn passes(&self) -> Option<u16> {
        let told = self.word.told();
        told.passes.then_some(told.generation)
    }

    /// Asks the circuit whether a call passes: its generation, and its ticket if it is a probe.
    #[cold]
    pub(super) fn admit(&self, call: CallId) -> Result<(u16, Option<Ticket>), Failure> {
        if let Some(failure) = self.refuses() {
            return Err(self.refused(call, failure));
        }
        let (generation, answer, change) = self.with(|kept, rules, at| {
            let (answer, change) = kept.circuit.admit(&rules.config, at.now);
            let answer = match answer {
                Answer::Pass => Ok(None),
                Answer::Probe(ticket) => Ok(Some(ticket)),
                Answer::Refuse(wait) => Err(self.refusal(kept, wait, at)),
            };
            (kept.circuit.generation(), answer, change)
        });
        self.tell_change(change);
        match answer {
            Ok(ticket) => {
                if ticket.is_some() {
                    self.rules.facts.emit(&Fact::Probe { call, key: &self.name });
                }
                Ok((generation, ticket))
            }
            Err(failure) => Err(self.refused(call, failure)),
        }
    }

    /// The refusal of a circuit that is open and not due: nothing changes by it.
    fn refuses(&self) -> Option<Failure> {
        let mut slot = self.lock();
        let kept = slot.as_mut()?;
        let at = self.rules.moment();
        let wait = kept.circuit.refuses(at.now)?;
        Some(self.refusal(kept, wait, at))
    }

    fn refusal(&self, kept: &mut Kept, wait: Option<Duration>, at: Moment) -> Failure {
        let Kept { circuit, refusal } = kept;
        let (generation, state) = (circuit.generation(), circuit.state(at.now));
        let facing = Facing { generation, state, failures: circuit.failures(&self.rules.config, at) };
        refusal.of(facing, wait, &self.name)
    }

    fn refused(&self, call: CallId, failure: Failure) -> Failure {
        self.rules.facts.emit(&Fact::Refused { call, gate: GATE, key: &self.name, failure: &failure });
        failure
    }

    pub(super) fn is_callable(&self) -> bool {
        if self.word.told().passes {
            return true;
        }
        let kept = self.lock();
        kept.as_ref().is_none_or(|kept| kept.circuit.is_callable(&self.rules.config, time::now()))
    }

    /// A success that told nothing but that it is one.
    #[inline]
    pub(super) fn succeed(&self, generation: u16) -> Counted {
        if !self.rules.config.counts_successes() {
            let told = self.word.told();
            return match told {
                Told { generation: now, .. } if now != generation => Counted::Old,
                Told { is_calm: true, .. } => Counted::Yes,
                _ => Counted::No,
            };
        }
        match self.word.succeed(generation, self.rules.bucket()) {
            Counted::No if self.begin_bucket(generation) => Counted::Yes,
            counted => counted,
        }
    }

    /// The end of a call that the circuit must hear of.
    #[cold]
    pub(super) fn settle(&self, generation: u16, ticket: Option<Ticket>, report: &Report) {
        // Of another life of the circuit, it changes nothing.
        if self.word.told().generation != generation {
            return;
        }
        let (change, lost) = self.with(|Kept { circuit, .. }, rules, at| {
            let lost = circuit.generation() == generation && circuit.is_cache_lost(&rules.config, report);
            (circuit.settle(&rules.config, (generation, ticket), report, at), lost)
        });
        self.tell_change(change);
        if lost {
            self.rules.facts.emit(&Fact::CacheLost { key: &self.name });
        }
    }

    /// Changes the circuit by hand.
    pub(super) fn by_hand(&self, change: impl FnOnce(&mut Circuit, Instant) -> Option<Change>) {
        let change = self.with(|kept, _, at| change(&mut kept.circuit, at.now));
        self.tell_change(change);
    }

    pub(super) fn snapshot(&self) -> CircuitSnapshot {
        let counted = self.word.count() > 0;
        let at = self.rules.moment();
        let of = |kept: &Kept| CircuitSnapshot::of(&kept.circuit, &self.rules.config, at);
        let mut snapshot = self.lock().as_deref().map(of).unwrap_or_default();
        if counted {
            snapshot.last_outcome = Some(Verdict::Success);
        }
        snapshot.key = self.name.to_string();
        snapshot
    }

    #[cfg(test)]
    pub(super) fn generation(&self) -> u16 {
        self.word.told().generation
    }

    fn tell_change(&self, change: Option<Change>) {
        if let Some(Change { from, to, cause, rest }) = change {
            let key = &*self.name;
            self.rules.facts.emit(&Fact::Transition { key, from, to, cause, rest });
        }
    }

    /// The first success of a bucket: nobody else need hear of it while nothing is kept of the buckets before.
    #[cold]
    fn begin_bucket(&self, generation: u16) -> bool {
        let kept = self.lock();
        let at = self.rules.moment();
        let told = self.word.told();
        if kept.is_some() || told.generation != generation || !told.is_calm {
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
    fn with<T>(&self, ask: impl FnOnce(&mut Kept, &Rules, Moment) -> T) -> T {
        let rules = &*self.rules;
        let mut slot = self.lock();
        let at = rules.moment();
        let (count, bucket) = self.word.take(at.bucket);
        let generation = self.word.told().generation;
        let kept = slot.get_or_insert_with(|| {
            Box::new(Kept {
                circuit: Circuit::new(generation, rules.seed(&self.name)),
                refusal: Refusal::default(),
            })
        });
        kept.circuit.add_successes(bucket, count);
        let answer = ask(kept, rules, at);
        let told = kept.circuit.told(&rules.config);
        if kept.circuit.is_fresh(&rules.config, at) {
            *slot = None;
        }
        self.word.put(told, at.bucket, 0);
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle for State {
    /// What is usual for a key is given up with it.
    fn is_idle(&self) -> bool {
        let kept = match self.kept.try_lock() {
            Ok(kept) => kept,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let at = self.rules.moment();
        let counted = self.word.count() > 0 && !self.word.is_behind(at.bucket, BUCKETS as u64);
        !counted && kept.as_ref().is_none_or(|kept| kept.circuit.is_idle(&self.rules.config, at))
    }
}
