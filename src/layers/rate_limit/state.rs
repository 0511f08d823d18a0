//! What is known of one key: its account, its line, its calls in flight, what they taught.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::chat::{CallId, Cost, Dimension, Limits};
use crate::event::{Fact, Facts};
use crate::failure::{Code, Failure};
use crate::keyed::Idle;
use crate::store::{Answer, Costs, Ledger, Quota, Short};
use crate::time::{Instant, now};

use super::adaptive::Adaptive;
use super::config::{RateLimitConfig, ReserveOutput};
use super::learn::Learner;
use super::line::Line;

/// The word for this layer in facts, and its name unless it is given one.
pub(super) const GATE: &str = "rate_limit";

/// Factors of estimates are kept as so many parts of one.
const PARTS: f64 = 1024.0;

/// What all keys of a layer share.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) config: RateLimitConfig,
    pub(super) quotas: Vec<Quota>,
    pub(super) facts: Facts,
    pub(super) name: Box<str>,
}

/// What is known of one key.
#[derive(Debug)]
pub(super) struct State<L> {
    pub(super) terms: Arc<Terms>,
    pub(super) ledger: L,
    pub(super) line: Line,
    /// As facts show it.
    pub(super) key: Box<str>,
    /// Made beforehand: a refusal is a copy.
    full: Failure,
    in_flight: AtomicU32,
    most: AtomicU32,
    round: AtomicU32,
    adaptive: Option<Mutex<Adaptive>>,
    learner: Mutex<Learner>,
    /// Read on the admitted path, so that nobody asks the learner there; zero is unknown.
    usual: AtomicU32,
    factor: AtomicU32,
}

/// Why a call cannot pass now.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// The quotas say why.
    Quota(Short),
    /// As many calls are in flight as may be.
    Slot,
}

/// A slot of a call that is not admitted yet: given back on drop.
struct Slot<'a>(Option<&'a AtomicU32>);

// === impl State ===

impl<L> State<L> {
    pub(super) fn new(terms: Arc<Terms>, key: &str, ledger: L) -> Self {
        let key: Box<str> =
            if key.is_empty() { terms.name.clone() } else { format!("{}:{key}", terms.name).into() };
        let full = Failure::local(Code::LimiterFull, format!("rate limit `{key}` cannot admit it in time"));
        let most = terms.config.most_in_flight().unwrap_or(u32::MAX);
        let adaptive = terms.config.adaptive.map(|config| Mutex::new(Adaptive::new(config, most)));
        Self {
            ledger,
            line: Line::default(),
            key,
            full,
            in_flight: AtomicU32::new(0),
            most: AtomicU32::new(most),
            round: AtomicU32::new(0),
            adaptive,
            learner: Mutex::new(Learner::new()),
            usual: AtomicU32::new(0),
            factor: AtomicU32::new(parts(1.0)),
            terms,
        }
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The most calls in flight for now, where there is a limit.
    pub(super) fn most_in_flight(&self) -> Option<u32> {
        Some(self.most.load(Ordering::Relaxed)).filter(|most| *most != u32::MAX)
    }

    pub(super) fn round(&self) -> u32 {
        self.round.load(Ordering::Relaxed)
    }

    /// What 95 % of the answers stayed below, once known.
    pub(super) fn usual_output(&self) -> Option<u32> {
        Some(self.usual.load(Ordering::Relaxed)).filter(|usual| *usual > 0)
    }

    /// By what estimates are multiplied.
    pub(super) fn factor(&self) -> f64 {
        f64::from(self.factor.load(Ordering::Relaxed)) / PARTS
    }

    fn take_slot(&self) -> Option<Slot<'_>> {
        let before = self.in_flight.fetch_add(1, Ordering::SeqCst);
        if before >= self.most.load(Ordering::Relaxed) {
            self.in_flight.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        Some(Slot(Some(&self.in_flight)))
    }

    pub(super) fn give_slot_back(&self) {
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes in how a call of a round went.
    pub(super) fn adapt(&self, round: u32, overload: bool) {
        if let Some(adaptive) = &self.adaptive {
            let mut adaptive = lock(adaptive);
            self.most.store(adaptive.learn(round, overload), Ordering::Relaxed);
            self.round.store(adaptive.round(), Ordering::Relaxed);
        }
    }

    /// Learns what a call used. `estimated` is its input where we estimated that.
    pub(super) fn learn(&self, estimated: Option<u32>, input: u64, output: u64) {
        // Another call is just being learnt from: one sample less does no harm, a wait would.
        let Ok(mut learner) = self.learner.try_lock() else { return };
        learner.output(output);
        if let Some(estimated) = estimated {
            learner.input(estimated.into(), input);
        }
        self.usual.store(learner.usual_output().unwrap_or(0), Ordering::Relaxed);
        self.factor.store(parts(learner.factor()), Ordering::Relaxed);
    }

    /// Tells that a call was refused, and gives the failure.
    #[cold]
    pub(super) fn refuse(&self, call: CallId, failure: Failure) -> Failure {
        let key = &*self.key;
        self.terms.facts.emit(&Fact::Refused { call, gate: GATE, key, failure: &failure });
        failure
    }

    /// The refusal of a call that can come back after a while.
    #[cold]
    pub(super) fn full(&self, call: CallId, wait: Option<Duration>) -> Failure {
        self.refuse(call, self.full.clone().with_retry_after(wait))
    }

    /// The refusal of a call that can never pass.
    #[cold]
    pub(super) fn too_dear(
        &self,
        call: CallId,
        costs: &Costs,
        dimension: Dimension,
        capacity: u64,
    ) -> Failure {
        let (key, cost) = (&self.key, costs.of(dimension));
        let message =
            format!("rate limit `{key}`: {cost} {dimension:?} asked, {capacity} is the most there can be");
        self.refuse(call, Failure::local(Code::CostAboveCapacity, message))
    }

    pub(super) fn tell_admitted(&self, call: CallId, waited: Duration) {
        self.terms.facts.emit(&Fact::Admitted { call, gate: GATE, key: &self.key, waited });
    }
}

impl<L: Ledger> State<L> {
    /// What a call takes. An estimate is corrected by what calls taught; what was counted is not.
    pub(super) fn costs(&self, cost: Cost, counted: bool) -> Costs {
        let input = u32::try_from(cost.input).unwrap_or(u32::MAX);
        let input = if counted { input } else { self.corrected(input) };
        let cap = cost.output.map(|output| u32::try_from(output).unwrap_or(u32::MAX));
        let usual = self.usual_output();
        let learned = usual.unwrap_or(0).min(cap.unwrap_or(u32::MAX));
        let both = match (self.terms.config.reserves(), cap) {
            (ReserveOutput::Declared, Some(cap)) => cap,
            (ReserveOutput::Declared, None) => {
                self.fitting(usual.unwrap_or(self.terms.config.output_guess), input)
            }
            (ReserveOutput::Learned, _) => self.fitting(learned, input),
        };
        let most = self.ledger.capacity(Dimension::OutputTokens);
        let output = learned.min(most.map_or(u32::MAX, |most| u32::try_from(most).unwrap_or(u32::MAX)));
        Costs { requests: 1, input, output, tokens: input.saturating_add(both) }
    }

    /// A guessed output, held so small that it fits a full bucket beside its input.
    fn fitting(&self, output: u32, input: u32) -> u32 {
        let room = |dimension| {
            let capacity = self.ledger.capacity(dimension).unwrap_or(u64::MAX);
            u32::try_from(capacity.saturating_sub(input.into())).unwrap_or(u32::MAX)
        };
        output.min(room(Dimension::Tokens)).min(room(Dimension::TokensPerDay))
    }

    fn corrected(&self, input: u32) -> u32 {
        let factor = self.factor.load(Ordering::Relaxed);
        if factor == parts(1.0) {
            return input;
        }
        let corrected = u64::from(input) * u64::from(factor) / u64::from(parts(1.0));
        u32::try_from(corrected).unwrap_or(u32::MAX).max(input.min(1))
    }

    /// Takes a slot and the costs, or neither. `None` where the answer takes time.
    pub(super) fn take_now(&self, costs: &Costs, now: Instant) -> Option<Result<(), Wait>> {
        let Some(slot) = self.take_slot() else { return Some(Err(Wait::Slot)) };
        match self.ledger.reserve(costs, now) {
            Answer::Now(answer) => Some(slot.keep_if(answer)),
            Answer::Later(_) => None,
        }
    }

    /// Takes a slot and the costs, or neither, and waits for the answer.
    pub(super) async fn take(&self, costs: &Costs, now: Instant) -> Result<(), Wait> {
        let Some(slot) = self.take_slot() else { return Err(Wait::Slot) };
        slot.keep_if(match self.ledger.reserve(costs, now) {
            Answer::Now(answer) => answer,
            Answer::Later(answer) => answer.await,
        })
    }

    /// Takes in the limits a provider told, and tells what they changed.
    pub(super) fn calibrate(&self, limits: &Limits) {
        if limits.is_empty() {
            return;
        }
        let headroom = self.terms.config.headroom.unwrap_or(0.0);
        let changes = self.ledger.calibrate(limits, headroom, now());
        for change in &changes {
            self.terms.facts.emit(&Fact::Calibrated {
                key: &self.key,
                dimension: change.dimension,
                limit: change.limit,
                remaining: change.remaining,
            });
        }
        if !changes.is_empty() {
            self.line.wake();
        }
    }
}

impl<L: Ledger> Idle for State<L> {
    fn is_idle(&self) -> bool {
        self.in_flight() == 0 && self.line.is_empty() && self.ledger.is_as_new(now())
    }
}

// === impl Slot ===

impl Slot<'_> {
    /// Keeps the slot for a call that has its quota, too.
    fn keep_if(mut self, answer: Result<(), Short>) -> Result<(), Wait> {
        if answer.is_ok() {
            self.0 = None;
        }
        answer.map_err(Wait::Quota)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(in_flight) = self.0 {
            in_flight.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn parts(factor: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a factor within its bounds")]
    let parts = (factor * PARTS).round() as u32;
    parts
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
