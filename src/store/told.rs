//! What a provider told of one key.

use crate::chat::{Dimension, Window};

use super::bucket::NEVER;
use super::costs::Costs;
use super::gauge::{Gauge, LONGEST, UNTOLD};
use super::ledger::Recalibrated;
use super::meter::{Meter, left};
use super::plan::Plan;
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

/// What a key is told of itself: few are, so that the others need no room for it.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) meters: Box<[Meter]>,
    pub(super) gauges: Box<[(Dimension, Gauge)]>,
    pub(super) special: Special,
}

// === impl Told ===

impl Told {
    /// Nothing is told yet.
    pub(super) fn new(plan: &Plan) -> Self {
        let quotas = || plan.meters.iter().map(Meter::quota);
        let free = ALL.into_iter().filter(|any| quotas().all(|quota| quota.dimension != *any));
        Self {
            meters: quotas().copied().map(Meter::new).collect(),
            gauges: free.map(|dimension| (dimension, Gauge::default())).collect(),
            special: Special::default(),
        }
    }

    /// Takes what a call costs from every gauge, or from none.
    #[cold]
    pub(super) fn take(&self, costs: &Costs, now: u64) -> bool {
        for (at, (dimension, gauge)) in self.gauges.iter().enumerate() {
            if gauge.take(costs.of(*dimension), now).is_err() {
                self.gauges[..at].iter().for_each(|(of, gauge)| gauge.change(costs.of(*of).into()));
                return false;
            }
        }
        true
    }

    /// Changes what every gauge shows, where anything was told.
    pub(super) fn change(&self, by: impl Fn(Dimension) -> i64) {
        if self.special.is_noted() {
            self.gauges.iter().for_each(|(of, gauge)| gauge.change(by(*of)));
        }
    }

    /// Takes in what was told of a dimension without a quota.
    pub(super) fn note(&self, window: &Window, headroom: f64, now: u64) -> Option<Recalibrated> {
        let (_, gauge) = self.gauges.iter().find(|(of, _)| *of == window.dimension)?;
        let remaining = window.remaining?.min(window.limit.unwrap_or(u64::MAX));
        // A share of a limit that was not told is not known.
        let remaining = left(remaining, window.limit.unwrap_or(0), headroom);
        let remaining = u64::try_from(remaining).unwrap_or(0);
        let reset = window.reset.unwrap_or(UNTOLD).min(LONGEST);
        let until = now.saturating_add(u64::try_from(reset.as_nanos()).unwrap_or(NEVER));
        let changed = gauge.note(remaining, window.limit, until, now);
        self.special.note(until);
        let limit = window.limit.unwrap_or(remaining);
        changed.then_some(Recalibrated { dimension: window.dimension, limit, remaining })
    }
}
