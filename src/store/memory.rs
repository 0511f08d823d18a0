//! Accounts in the memory of this process.

use std::time::Duration;

use crate::chat::{Dimension, Limits, Window};
use crate::time::Instant;

use super::bucket::{Dry, NEVER, ORIGIN};
use super::costs::{Ahead, Costs};
use super::gauge::{Gauge, LONGEST, UNTOLD};
use super::ledger::{Answer, Ledger, Level, Recalibrated, Short, Store};
use super::meter::Meter;
use super::quota::Quota;
use super::special::Special;

/// Every dimension there is: those without a quota have a gauge each.
const ALL: [Dimension; 6] = [
    Dimension::Requests,
    Dimension::Tokens,
    Dimension::InputTokens,
    Dimension::OutputTokens,
    Dimension::RequestsPerDay,
    Dimension::TokensPerDay,
];

/// Keeps accounts in memory; every key's is its own. It answers at once.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing in it")]
pub struct Memory;

/// The account of one key, in memory.
#[derive(Debug)]
pub struct MemoryLedger {
    /// The instant that [`ORIGIN`] stands for.
    birth: Instant,
    meters: Box<[Meter]>,
    gauges: Box<[(Dimension, Gauge)]>,
    special: Special,
}

// === impl Memory ===

impl Store for Memory {
    type Ledger = MemoryLedger;

    fn open(&self, _: &str, quotas: &[Quota]) -> MemoryLedger {
        MemoryLedger::new(quotas, crate::time::now())
    }
}

// === impl MemoryLedger ===

impl MemoryLedger {
    fn new(quotas: &[Quota], now: Instant) -> Self {
        let free = ALL.into_iter().filter(|any| quotas.iter().all(|quota| quota.dimension != *any));
        Self {
            birth: now,
            meters: quotas.iter().copied().map(Meter::new).collect(),
            gauges: free.map(|dimension| (dimension, Gauge::default())).collect(),
            special: Special::default(),
        }
    }

    /// An instant in the ledger's own time.
    #[inline]
    fn tick(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.birth).as_nanos();
        ORIGIN.saturating_add(u64::try_from(since).unwrap_or(NEVER))
    }

    /// The instant from which a bucket grows: now, or the end of a freeze.
    fn anchor(&self, now: Instant) -> u64 {
        self.tick(now).max(self.special.frozen())
    }

    fn instant(&self, tick: u64) -> Instant {
        let since = Duration::from_nanos(tick.saturating_sub(ORIGIN));
        self.birth.checked_add(since).unwrap_or(self.birth)
    }

    /// Whether anything out of the ordinary is in force. What is over is ended first.
    #[inline]
    fn is_special(&self, now: u64) -> bool {
        self.special.in_force(now, |end| self.meters.iter().for_each(|meter| meter.resize(1.0, end)))
    }

    #[inline]
    fn take(&self, costs: &Costs, now: u64) -> Result<(), Dry> {
        let special = self.is_special(now);
        let frozen = self.special.frozen();
        if special && now < frozen {
            return Err(Dry::Until(frozen));
        }
        for (at, meter) in self.meters.iter().enumerate() {
            if let Err(dry) = meter.bucket.take(costs.of(meter.dimension()), now) {
                self.put_back(at, costs);
                return Err(dry);
            }
        }
        if special {
            for (at, (dimension, gauge)) in self.gauges.iter().enumerate() {
                if let Err(until) = gauge.take(costs.of(*dimension), now) {
                    self.put_back(self.meters.len(), costs);
                    self.gauges[..at].iter().for_each(|(of, gauge)| gauge.change(costs.of(*of).into()));
                    return Err(Dry::Until(until));
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn put_back(&self, taken: usize, costs: &Costs) {
        for meter in &self.meters[..taken] {
            meter.bucket.give_back(costs.of(meter.dimension()));
        }
    }

    /// The first instant at which every dimension has what is asked.
    fn until(&self, costs: &Costs, ahead: &Ahead, now: u64) -> Result<u64, Short> {
        let special = self.is_special(now);
        let mut until = now.max(self.special.frozen());
        for meter in &self.meters {
            let (dimension, cost) = (meter.dimension(), costs.of(meter.dimension()));
            let capacity = meter.bucket.capacity();
            if cost > capacity {
                return Err(Short::Never { dimension, capacity: capacity.into() });
            }
            let count = u64::from(cost.max(1)) + ahead.of(dimension);
            until = until.max(meter.bucket.grown(count, now, |until| self.special.hastened(until)));
        }
        if special {
            for (dimension, gauge) in &self.gauges {
                until = until.max(gauge.until(u64::from(costs.of(*dimension)) + ahead.of(*dimension), now));
            }
        }
        Ok(until)
    }

    fn calibrate_gauge(&self, window: &Window, now: u64) -> Option<Recalibrated> {
        let (_, gauge) = self.gauges.iter().find(|(of, _)| *of == window.dimension)?;
        let remaining = window.remaining?.min(window.limit.unwrap_or(u64::MAX));
        let reset = window.reset.unwrap_or(UNTOLD).min(LONGEST);
        let until = now.saturating_add(u64::try_from(reset.as_nanos()).unwrap_or(NEVER));
        let changed = gauge.note(remaining, window.limit, until, now);
        self.special.note(until);
        let limit = window.limit.unwrap_or(remaining);
        changed.then_some(Recalibrated { dimension: window.dimension, limit, remaining })
    }
}

impl Ledger for MemoryLedger {
    #[inline]
    fn reserve(&self, costs: &Costs, now: Instant) -> Answer<Result<(), Short>> {
        let tick = self.tick(now);
        Answer::Now(match self.take(costs, tick) {
            Ok(()) => Ok(()),
            Err(_) => Err(match self.until(costs, &Ahead::default(), tick) {
                Ok(until) => Short::Until(self.instant(until)),
                Err(never) => never,
            }),
        })
    }

    fn promise(&self, costs: &Costs, ahead: &Ahead, now: Instant) -> Result<Instant, Short> {
        self.until(costs, ahead, self.tick(now)).map(|until| self.instant(until))
    }

    #[inline]
    fn give_back(&self, costs: &Costs) {
        self.put_back(self.meters.len(), costs);
        if self.special.is_noted() {
            self.gauges.iter().for_each(|(of, gauge)| gauge.change(costs.of(*of).into()));
        }
    }

    fn owe(&self, costs: &Costs, now: Instant) {
        let now = self.anchor(now);
        for meter in &self.meters {
            meter.bucket.owe(costs.of(meter.dimension()), now);
        }
        if self.special.is_noted() {
            self.gauges.iter().for_each(|(of, gauge)| gauge.change(-i64::from(costs.of(*of))));
        }
    }

    fn calibrate(&self, limits: &Limits, headroom: f64, now: Instant) -> Vec<Recalibrated> {
        let _ = self.is_special(self.tick(now));
        let (slow, now) = (self.special.is_slow(), self.anchor(now));
        // A limit of zero is a mistake, and takes the figures beside it along.
        let told = limits.windows().iter().filter(|window| window.limit != Some(0));
        told.filter_map(|window| match self.meters.iter().find(|m| m.dimension() == window.dimension) {
            Some(meter) => meter.calibrate(window, headroom, slow, now),
            None => self.calibrate_gauge(window, now),
        })
        .collect()
    }

    fn freeze(&self, until: Instant, now: Instant) {
        let (now, until) = (self.tick(now), self.tick(until));
        if let Some(from) = self.special.freeze(until, now) {
            self.meters.iter().for_each(|meter| meter.bucket.pause(from, until));
        }
    }

    fn slow_down(&self, share: f64, until: Instant, now: Instant) {
        let _ = self.is_special(self.tick(now));
        if self.special.slow_down(share, self.tick(until)) {
            let now = self.anchor(now);
            self.meters.iter().for_each(|meter| meter.resize(share, now));
        }
    }

    fn used(&self, now: Instant) -> f64 {
        let now = self.tick(now);
        let _ = self.is_special(now);
        if now < self.special.frozen() {
            return 1.0;
        }
        let meters = self.meters.iter().map(|meter| meter.used(now));
        let gauges = self.gauges.iter().filter_map(|(_, gauge)| gauge.used(now));
        meters.chain(gauges).fold(0.0, f64::max)
    }

    #[inline]
    fn capacity(&self, dimension: Dimension) -> Option<u64> {
        let meter = self.meters.iter().find(|meter| meter.dimension() == dimension)?;
        Some(meter.bucket.capacity().into())
    }

    fn levels(&self, now: Instant) -> Vec<Level> {
        let _ = self.is_special(self.tick(now));
        let now = self.anchor(now);
        let meters = self.meters.iter().map(|meter| meter.level(now));
        let gauges = self.gauges.iter().filter_map(|(dimension, gauge)| gauge.level(*dimension, now));
        meters.chain(gauges).collect()
    }

    fn frozen_until(&self, now: Instant) -> Option<Instant> {
        let frozen = self.special.frozen();
        (self.tick(now) < frozen).then(|| self.instant(frozen))
    }

    fn is_as_new(&self, now: Instant) -> bool {
        let now = self.tick(now);
        !self.is_special(now) && self.meters.iter().all(|meter| meter.is_as_new(now))
    }
}

#[cfg(test)]
mod tests;
