//! Accounts in the memory of this process.

use super::sync::AtomicU64;
use std::cell::LazyCell;
use std::sync::{Arc, Mutex, PoisonError};

use once_cell::race::OnceBox;

use crate::chat::{Dimension, Limits};
use crate::time::Instant;

use super::bucket::Dry;
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
        MemoryLedger::of(plan, now)
    }
}

// === impl MemoryLedger ===

impl MemoryLedger {
    fn of(plan: Arc<Plan>, now: Instant) -> Self {
        let words = Words::new(&plan, plan.tick(now));
        Self { plan, words, told: OnceBox::new() }
    }

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

    /// What is told of dimensions without a quota.
    fn gauges(&self) -> impl Iterator<Item = &(Dimension, Gauge)> {
        self.told.get().into_iter().flat_map(|told| &told.gauges)
    }

    #[inline]
    fn tick(&self, at: Instant) -> u64 {
        self.plan.tick(at)
    }

    /// Until when nothing is admitted, or was.
    #[inline]
    fn frozen(&self) -> u64 {
        self.told.get().map_or(0, |told| told.special.frozen())
    }

    /// The instant from which a bucket grows: now, or the end of a freeze.
    fn anchor(&self, now: Instant) -> u64 {
        self.tick(now).max(self.frozen())
    }

    /// What is out of the ordinary, if anything is in force. What is over is ended first.
    #[inline]
    fn special(&self, now: u64) -> Option<&Told> {
        let told = self.told.get()?;
        let restore = |end| self.meters().for_each(|(meter, word)| meter.resize(word, 1.0, end));
        told.special.in_force(now, restore).then_some(told)
    }

    #[inline]
    fn take(&self, costs: &Costs, now: u64) -> Result<(), Dry> {
        let special = self.special(now);
        if let Some(told) = special
            && now < told.special.frozen()
        {
            return Err(Dry::Until(told.special.frozen()));
        }
        for (at, (meter, word)) in self.meters().enumerate() {
            if let Err(dry) = meter.bucket(word).take(costs.of(meter.dimension()), now) {
                self.put_back(at, costs);
                return Err(dry);
            }
        }
        if let Some(told) = special
            && let Err(until) = told.take(costs, now)
        {
            self.put_back(usize::MAX, costs);
            return Err(Dry::Until(until));
        }
        Ok(())
    }

    #[inline]
    fn put_back(&self, taken: usize, costs: &Costs) {
        for (meter, word) in self.meters().take(taken) {
            meter.bucket(word).give_back(costs.of(meter.dimension()));
        }
    }

    /// The first instant at which every dimension has what is asked.
    fn until(&self, costs: &Costs, ahead: &Ahead, now: u64) -> Result<u64, Short> {
        let special = self.special(now);
        let slow_until = self.told.get().and_then(|told| told.special.slow_until());
        let mut until = now.max(self.frozen());
        for (meter, word) in self.meters() {
            let (dimension, cost) = (meter.dimension(), costs.of(meter.dimension()));
            if cost > meter.capacity() {
                return Err(Short::Never { dimension, capacity: meter.capacity().into() });
            }
            let count = u64::from(cost.max(1)) + ahead.of(dimension);
            let next = slow_until.map(|slow_until| (slow_until, meter.period(1.0)));
            until = until.max(meter.bucket(word).grown(count, now, next));
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
        let tick = self.tick(now);
        Answer::Now(match self.take(costs, tick) {
            Ok(()) => Ok(()),
            Err(_) => Err(match self.until(costs, &Ahead::default(), tick) {
                Ok(until) => Short::Until(self.plan.instant(until)),
                Err(never) => never,
            }),
        })
    }

    fn promise(&self, costs: &Costs, ahead: &Ahead, now: Instant) -> Result<Instant, Short> {
        self.until(costs, ahead, self.tick(now)).map(|until| self.plan.instant(until))
    }

    #[inline]
    fn settle(&self, reserved: &Costs, used: &Costs, clock: impl FnOnce() -> Instant) {
        let now = LazyCell::new(|| self.anchor(clock()));
        for (meter, word) in self.meters() {
            let (reserved, used) = (reserved.of(meter.dimension()), used.of(meter.dimension()));
            match used.checked_sub(reserved) {
                None => meter.bucket(word).give_back(reserved - used),
                Some(0) => {}
                Some(owed) => meter.bucket(word).owe(owed, *now),
            }
        }
        if let Some(told) = self.told.get() {
            told.change(|of| i64::from(reserved.of(of)) - i64::from(used.of(of)));
        }
    }

    fn calibrate(&self, limits: &Limits, headroom: f64, now: Instant) -> Vec<Recalibrated> {
        let _ = self.special(self.tick(now));
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
        let (now, until) = (self.tick(now), self.tick(until));
        let Some(from) = self.told().special.freeze(until, now) else { return false };
        self.meters().for_each(|(meter, word)| meter.bucket(word).pause(from, until));
        true
    }

    fn slow_down(&self, share: f64, until: Instant, now: Instant) -> bool {
        let (tick, until) = (self.tick(now), self.tick(until));
        let _ = self.special(tick);
        let low_until = self.told().special.slow_down(share, until);
        if low_until == 0 {
            let now = self.anchor(now);
            self.meters().for_each(|(meter, word)| meter.resize(word, share, now));
        }
        low_until.max(tick) < until
    }

    fn used(&self, now: Instant) -> f64 {
        let now = self.tick(now);
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
        let _ = self.special(self.tick(now));
        let now = self.anchor(now);
        let meters = self.meters().map(|(meter, word)| meter.level(word, now));
        let gauges = self.gauges().filter_map(|(dimension, gauge)| gauge.level(*dimension, now));
        meters.chain(gauges).collect()
    }

    fn frozen_until(&self, now: Instant) -> Option<Instant> {
        let frozen = self.frozen();
        (self.tick(now) < frozen).then(|| self.plan.instant(frozen))
    }

    fn is_as_new(&self, now: Instant) -> bool {
        let now = self.tick(now);
        self.special(now).is_none() && self.meters().all(|(meter, word)| meter.is_as_new(word, now))
    }
}

#[cfg(test)]
mod tests;
