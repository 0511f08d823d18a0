//! What is known of one key: its account, its line, its calls in flight, what they taught.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::chat::{Ask, CallId, Dimension, Limits, tokens};
use crate::event::{Fact, Facts};
use crate::failure::{COME_BACK, Code, Failure};
use crate::keyed::Idle;
use crate::store::{Answer, Costs, Ledger, Quota, Recalibrated, Short};
use crate::time::{Instant, now};

use super::config::RateLimitConfig;
use super::experience::Experience;
use super::line::Line;
use super::profile::ReserveOutput;
use super::slots::Slots;

/// The word for this layer in facts, and its name unless it is given one.
pub(super) const GATE: &str = "rate_limit";

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
    /// The layer's name, and the key where calls are told apart: the map's own.
    pub(super) name: Arc<str>,
    pub(super) slots: Slots,
    pub(super) experience: Experience,
}

/// What a call takes, and how its usage will be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    pub(super) costs: Costs,
    /// Its input where that was not counted, as it was estimated before anything corrected it.
    pub(super) estimated: Option<NonZeroU32>,
    /// Whether input read from a cache is charged.
    pub(super) charges_cache: bool,
}

/// Why a call cannot pass now.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// The quotas say why.
    Quota(Short),
    /// As many calls are in flight as may be.
    Slot,
}

// === impl State ===

impl<L> State<L> {
    pub(super) fn new(terms: Arc<Terms>, name: Arc<str>, ledger: L) -> Self {
        let slots = Slots::new(terms.config.most_in_flight(), terms.config.adaptive);
        Self { terms, ledger, line: Line::default(), name, slots, experience: Experience::default() }
    }

    /// Tells that a call was refused, and gives the failure.
    #[cold]
    pub(super) fn refuse(&self, call: CallId, failure: Failure) -> Failure {
        let key = &*self.name;
        self.terms.facts.emit(&Fact::Refused { call, gate: GATE, key, failure: &failure });
        failure
    }

    /// The refusal of a call that can come back after a while. Where a slot is all that lacks, nobody knows when one
    /// comes back.
    #[cold]
    pub(super) fn full(&self, call: CallId, wait: Option<Duration>) -> Failure {
        let words = || {
            Failure::local(Code::LimiterFull, format!("rate limit `{}` cannot admit it in time", self.name))
        };
        let wait = wait.filter(|wait| !wait.is_zero()).unwrap_or(COME_BACK);
        self.refuse(call, self.line.refuse(words, wait))
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
        let cost = costs.of(dimension);
        let message = format!(
            "rate limit `{}`: {cost} {dimension:?} asked, {capacity} is the most there can be",
            self.name
        );
        self.refuse(call, Failure::local(Code::CostAboveCapacity, message))
    }

    #[inline]
    pub(super) fn tell_admitted(&self, call: CallId, waited: Duration) {
        self.terms.facts.emit(&Fact::Admitted { call, gate: GATE, key: &self.name, waited });
    }
}

impl<L: Ledger> State<L> {
    /// What a call takes. An estimate is corrected by what calls taught; what was counted is not.
    pub(super) fn price<R: Ask>(&self, request: &R) -> Price {
        let (cost, estimated) = match request.counted() {
            Some(cost) => (cost, None),
            None => {
                let cost = request.cost();
                (cost, NonZeroU32::new(tokens(cost.input)))
            }
        };
        let input = estimated.map_or_else(|| tokens(cost.input), |input| self.corrected(input.get()));
        let charges_cache = self.terms.config.charges_cache_reads(request);
        Price { costs: self.costs(input, cost.output), estimated, charges_cache }
    }

    fn costs(&self, input: u32, most: Option<u64>) -> Costs {
        let cap = most.map(tokens);
        let usual = self.experience.usual_output();
        let learned = usual.unwrap_or(0).min(cap.unwrap_or(u32::MAX));
        let both = match (self.terms.config.reserves(), cap) {
            (ReserveOutput::Declared, Some(cap)) => cap,
            (ReserveOutput::Declared, None) => {
                self.fitting(usual.unwrap_or(self.terms.config.output_guess), input)
            }
            (ReserveOutput::Learned, _) => self.fitting(learned, input),
        };
        let output = if learned == 0 { 0 } else { learned.min(self.room(Dimension::OutputTokens, 0)) };
        Costs { requests: 1, input, output, tokens: input.saturating_add(both) }
    }

    /// An estimate, corrected; but what fits a full bucket is not kept out for good by what other calls taught.
    fn corrected(&self, input: u32) -> u32 {
        let corrected = self.experience.corrected(input);
        if corrected <= input {
            return corrected;
        }
        self.fitting(corrected, 0).min(self.room(Dimension::InputTokens, 0)).max(input)
    }

    /// A guess, held so small that it fits a full bucket beside what is known.
    fn fitting(&self, guess: u32, known: u32) -> u32 {
        guess.min(self.room(Dimension::Tokens, known)).min(self.room(Dimension::TokensPerDay, known))
    }

    /// What a full bucket holds beside so many.
    fn room(&self, dimension: Dimension, beside: u32) -> u32 {
        let capacity = self.ledger.capacity(dimension).unwrap_or(u64::MAX);
        tokens(capacity.saturating_sub(beside.into()))
    }

    /// Takes a slot and the costs, or neither. `None` where the answer takes time.
    #[inline]
    pub(super) fn take_now(&self, costs: &Costs, now: Instant) -> Option<Result<(), Wait>> {
        let Some(slot) = self.slots.take() else { return Some(Err(Wait::Slot)) };
        match self.ledger.reserve(costs, now) {
            Answer::Now(answer) => Some(slot.keep_if(answer).map_err(Wait::Quota)),
            Answer::Later(_) => None,
        }
    }

    /// Takes a slot and the costs, or neither, and waits for the answer.
    pub(super) async fn take(&self, costs: &Costs, now: Instant) -> Result<(), Wait> {
        let Some(slot) = self.slots.take() else { return Err(Wait::Slot) };
        let answer = match self.ledger.reserve(costs, now) {
            Answer::Now(answer) => answer,
            Answer::Later(answer) => answer.await,
        };
        slot.keep_if(answer).map_err(Wait::Quota)
    }

    /// Takes in the limits a provider told, and tells what they changed.
    pub(super) fn calibrate(&self, limits: &Limits) {
        if limits.is_empty() {
            return;
        }
        let headroom = self.terms.config.headroom.unwrap_or(0.0);
        let changes = self.ledger.calibrate(limits, headroom, now());
        for change in &changes {
            let Recalibrated { dimension, limit, remaining, .. } = *change;
            self.terms.facts.emit(&Fact::Calibrated { key: &self.name, dimension, limit, remaining });
        }
        if !changes.is_empty() {
            self.line.wake();
        }
    }
}

impl<L: Ledger> Idle for State<L> {
    fn is_idle(&self) -> bool {
        self.slots.in_flight() == 0 && self.line.is_empty() && self.ledger.is_as_new(now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::rate_limit::Reservation;
    use crate::store::MemoryLedger;

    /// Scenario: the state of a key that was told nothing, and where nobody waited.
    /// Expected: it MUST be small, since there may be a million of them.
    #[test]
    fn an_idle_key_is_small() {
        assert!(size_of::<State<MemoryLedger>>() <= 104, "{}", size_of::<State<MemoryLedger>>());
        assert!(size_of::<MemoryLedger>() <= 40, "{}", size_of::<MemoryLedger>());
        assert!(size_of::<Reservation>() <= 56);
    }
}
