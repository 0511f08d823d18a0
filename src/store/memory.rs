//! Accounts in the memory of this process.

use super::sync::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use once_cell::race::OnceBox;

use crate::chat::{Dimension, Limits};
use crate::time::Instant;

use super::costs::{Ahead, Costs};
use super::gauge::Gauge;
use super::ledger::{Answer, Ledger, Level, Recalibrated, Short, Store};
use super::meter::{Heed, Meter};
use super::plan::{Plan, Words};
use super::quota::Quota;
use super::told::Told;

/// Keeps accounts in memory; every key's is its own. It answers at once. Clones share what is the same for all keys.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Option<Arc<Plan>>>>);

/// The account of one key, in memory: a word for each quota, until the provider tells more of this key.
#[derive(Debug)]
pub struct MemoryLedger {
    plan: Arc<Plan>,
    words: Words,
    told: OnceBox<Told>,
}

// === impl Memory ===

impl Store for Memory {
    type Ledger = MemoryLedger;

    fn open(&self, _: &str, quotas: &[Quota]) -> MemoryLedger {
        let now = crate::time::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = match &*known {
            Some(plan) if plan.is_of(quotas) => Arc::clone(plan),
            _ => Arc::clone(known.insert(Arc::new(Plan::new(quotas, now)))),
        };
        let words = Words::new(&plan, plan.tick(now));
        MemoryLedger { plan, words, told: OnceBox::new() }
    }
}

// === impl MemoryLedger ===

impl MemoryLedger {
    /// Where what is told of this key is kept.
    fn told(&self) -> &Told {
        self.told.get_or_init(|| Box::new(Told::new(&self.plan)))
    }

    /// Each quota with its word.
    #[inline]
    fn meters(&self) -> impl Iterator<Item = (&Meter, &AtomicU64)> {
        let meters = self.told.get().map_or(&self.plan.meters, |told| &told.meters);
        meters.iter().zip(self.words.all())
    }

    /// Each dimension without a quota, where anything was told of this key.
    fn gauges(&self) -> impl Iterator<Item = &(Dimension, Gauge)> {
        self.told.get().into_iter().flat_map(|told| &told.gauges)
    }

    /// Until when nothing is admitted, or was.
    #[inline]
    fn frozen(&self) -> u64 {
        self.told.get().map_or(0, |told| told.special.frozen())
    }

    /// The instant from which a bucket grows: now, or the end of a freeze.
    fn anchor(&self, now: Instant) -> u64 {
        self.plan.tick(now).max(self.frozen())
    }

    /// What is out of the ordinary, if anything is in force. What is over is ended first.
    #[inline]
    fn special(&self, now: u64) -> Option<&Told> {
        let told = self.told.get()?;
        told.special.in_force(now, |end| self.pace(1.0, end)).then_some(told)
    }

    /// Lowers every pace to a share from an instant on: what is frozen grows only after that.
    fn pace(&self, share: f64, from: u64) {
        self.meters().for_each(|(meter, word)| meter.resize(word, share, from.max(self.frozen())));
    }

    #[inline]
    fn take(&self, costs: &Costs, now: u64) -> bool {
        let special = self.special(now);
        if special.is_some_and(|told| now < told.special.frozen()) {
            return false;
        }
        for (at, (meter, word)) in self.meters().enumerate() {
            if !meter.bucket(word).take(costs.of(meter.dimension()), now) {
                self.put_back(at, costs);
                return false;
            }
        }
        let taken = special.is_none_or(|told| told.take(costs, now));
        if !taken {
            self.put_back(usize::MAX, costs);
        }
        taken
    }

    #[inline]
    fn put_back(&self, taken: usize, costs: &Costs) {
        for (meter, word) in self.meters().take(taken) {
            meter.bucket(word).give_back(costs.of(meter.dimension()));
        }
    }

    /// Takes what was used beyond what was reserved.
    #[inline(never)]
    fn owe(&self, reserved: &Costs, used: &Costs, now: Instant) {
        let now = self.anchor(now);
        for (meter, word) in self.meters() {
            let (reserved, used) = (reserved.of(meter.dimension()), used.of(meter.dimension()));
            meter.bucket(word).owe(used.saturating_sub(reserved), now);
        }
    }

    /// The first instant at which every dimension has what is asked.
    fn until(&self, costs: &Costs, ahead: &Ahead, now: u64) -> Result<u64, Short> {
        let special = self.special(now);
        // A bucket that is full before a freeze is over has run over.
        let from = now.max(self.frozen());
        let slow_until = self.told.get().and_then(|told| told.special.slow_until());
        let mut until = from;
        for (meter, word) in self.meters() {
            let (dimension, cost) = (meter.dimension(), costs.of(meter.dimension()));
            if cost > meter.capacity() {
                return Err(Short::Never { dimension, capacity: meter.capacity().into() });
            }
            let count = u64::from(cost.max(1)) + ahead.of(dimension);
            let next = slow_until.map(|slow_until| (slow_until.max(from), meter.period(1.0)));
            until = until.max(meter.bucket(word).grown(count, from, next));
        }
        for (dimension, gauge) in special.iter().flat_map(|told| &told.gauges) {
            until = until.max(gauge.until(u64::from(costs.of(*dimension)) + ahead.of(*dimension), now));
        }
        Ok(until)
    }
}

impl Ledger for MemoryLedger {
    #[inline]
    fn reserve(&self, costs: &Costs, now: Instant) -> Answer<Result<(), Short>> {
        let tick = self.plan.tick(now);
        if self.take(costs, tick) {
            return Answer::Now(Ok(()));
        }
        let until = self.until(costs, &Ahead::default(), tick);
        Answer::Now(Err(until.map_or_else(|never| never, |until| Short::Until(self.plan.instant(until)))))
    }

    fn promise(&self, costs: &Costs, ahead: &Ahead, now: Instant) -> Result<Instant, Short> {
        self.until(costs, ahead, self.plan.tick(now)).map(|until| self.plan.instant(until))
    }

    #[inline]
    fn settle(&self, reserved: &Costs, used: &Costs, clock: impl FnOnce() -> Instant) {
        let mut owes = false;
        for (meter, word) in self.meters() {
            let (reserved, used) = (reserved.of(meter.dimension()), used.of(meter.dimension()));
            meter.bucket(word).give_back(reserved.saturating_sub(used));
            owes |= used > reserved;
        }
        if owes {
            self.owe(reserved, used, clock());
        }
        if let Some(told) = self.told.get() {
            told.change(|of| i64::from(reserved.of(of)) - i64::from(used.of(of)));
        }
    }

    fn calibrate(&self, limits: &Limits, headroom: f64, now: Instant) -> Vec<Recalibrated> {
        let _ = self.special(self.plan.tick(now));
        let own = self.told();
        let (heed, now) = (Heed { headroom, share: own.special.share() }, self.anchor(now));
        // A limit of zero is a mistake, and takes the figures beside it along.
        let told = limits.windows().iter().filter(|window| window.limit != Some(0));
        told.filter_map(|window| match self.meters().find(|(m, _)| m.dimension() == window.dimension) {
            Some((meter, word)) => meter.calibrate(word, window, heed, now),
            None => own.note(window, headroom, now),
        })
        .collect()
    }

    fn freeze(&self, until: Instant, now: Instant) -> bool {
        let (now, until) = (self.plan.tick(now), self.plan.tick(until));
        // What is paused after a slow time is not to be scaled with it.
        let _ = self.special(now);
        let Some(from) = self.told().special.freeze(until, now) else { return false };
        self.meters().for_each(|(meter, word)| meter.bucket(word).pause(from, until));
        true
    }

    fn slow_down(&self, share: f64, until: Instant, now: Instant) -> bool {
        let (now, until) = (self.plan.tick(now), self.plan.tick(until));
        let _ = self.special(now);
        let low_until = self.told().special.slow_down(share, until);
        if low_until == 0 {
            self.pace(share, now);
        }
        low_until.max(now) < until
    }

    fn used(&self, now: Instant) -> f64 {
        let now = self.plan.tick(now);
        let _ = self.special(now);
        if now < self.frozen() {
            return 1.0;
        }
        let meters = self.meters().map(|(meter, word)| meter.used(word, now));
        let gauges = self.gauges().filter_map(|(_, gauge)| gauge.used(now));
        meters.chain(gauges).fold(0.0, f64::max)
    }

    #[inline]
    fn capacity(&self, dimension: Dimension) -> Option<u64> {
        let (meter, _) = self.meters().find(|(meter, _)| meter.dimension() == dimension)?;
        Some(meter.capacity().into())
    }

    fn levels(&self, now: Instant) -> Vec<Level> {
        let _ = self.special(self.plan.tick(now));
        let now = self.anchor(now);
        let meters = self.meters().map(|(meter, word)| meter.level(word, now));
        let gauges = self.gauges().filter_map(|(dimension, gauge)| gauge.level(*dimension, now));
        meters.chain(gauges).collect()
    }

    fn frozen_until(&self, now: Instant) -> Option<Instant> {
        let frozen = self.frozen();
        (self.plan.tick(now) < frozen).then(|| self.plan.instant(frozen))
    }

    fn is_as_new(&self, now: Instant) -> bool {
        let now = self.plan.tick(now);
        self.special(now).is_none() && self.meters().all(|(meter, word)| meter.is_as_new(word, now))
    }
}

#[cfg(test)]
mod tests;
