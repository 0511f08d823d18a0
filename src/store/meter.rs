//! A quota and its bucket, and how they follow a provider's word.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::chat::{Dimension, Window};

use super::bucket::{Bucket, MOST, ORIGIN, pace};
use super::gauge::LONGEST;
use super::ledger::{Level, Recalibrated};
use super::quota::{Quota, period};

#[derive(Debug)]
pub(super) struct Meter {
    quota: Quota,
    /// The limit in force.
    limit: AtomicU64,
    pub(super) bucket: Bucket,
}

// === impl Meter ===

impl Meter {
    pub(super) fn new(quota: Quota) -> Self {
        let pace = pace(quota.limit, quota.period());
        let bucket = Bucket::new(pace, quota.capacity(quota.limit), quota.initial(), ORIGIN);
        Self { quota, limit: AtomicU64::new(quota.limit.into()), bucket }
    }

    #[inline]
    pub(super) const fn dimension(&self) -> Dimension {
        self.quota.dimension
    }

    /// The limit in force.
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Takes in what a provider told of this dimension, and tells what changed.
    pub(super) fn calibrate(
        &self,
        window: &Window,
        headroom: f64,
        slow: bool,
        now: u64,
    ) -> Option<Recalibrated> {
        let told = window.limit.and_then(|limit| u32::try_from(limit).ok());
        let resized = !slow && told.is_some_and(|limit| self.follow(limit, now));
        let lowered = window.remaining.is_some_and(|remaining| {
            let limit = self.limit();
            let reset = window.reset.map(|reset| reset.min(LONGEST).as_nanos());
            let reset_at = reset.and_then(|reset| Some(now.saturating_add(u64::try_from(reset).ok()?)));
            self.bucket.lower(left(remaining, limit, headroom), reset_at, now)
        });
        (resized || lowered).then(|| Recalibrated {
            dimension: self.quota.dimension,
            limit: self.limit(),
            remaining: self.bucket.remaining(now).into(),
        })
    }

    /// Follows a told limit: down always, up only a guess, or back to what was declared.
    fn follow(&self, told: u32, now: u64) -> bool {
        let limit = if self.quota.guess { told } else { told.min(self.quota.limit) };
        if self.limit.swap(limit.into(), Ordering::Relaxed) == u64::from(limit) {
            return false;
        }
        self.resize(1.0, now);
        true
    }

    /// Gives the bucket the pace of its limit, at a share of it.
    pub(super) fn resize(&self, share: f64, now: u64) {
        let limit = u32::try_from(self.limit()).unwrap_or(u32::MAX);
        let pace = pace(limit, period(self.quota.dimension));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "nanoseconds within a day, and a share above zero"
        )]
        let pace = if share < 1.0 { (pace as f64 / share).ceil() as u64 } else { pace };
        let capacity = self.quota.capacity(limit);
        // No bucket takes longer to fill than a debt may be: what is slower stands still, and no number would hold it.
        self.bucket.resize(pace.min(MOST / u64::from(capacity)), capacity, now);
    }

    /// The share that is used, from 0 to 1.
    pub(super) fn used(&self, now: u64) -> f64 {
        1.0 - f64::from(self.bucket.remaining(now)) / f64::from(self.bucket.capacity().max(1))
    }

    pub(super) fn level(&self, now: u64) -> Level {
        let (withheld, reset_at) = self.bucket.withheld(now);
        Level {
            dimension: self.quota.dimension,
            limit: Some(self.limit()),
            capacity: Some(self.bucket.capacity().into()),
            remaining: self.bucket.remaining(now).into(),
            withheld,
            reset: reset_at.map(|at| Duration::from_nanos(at.saturating_sub(now))),
        }
    }

    /// A limit that was told is forgotten once nobody used it for a period: whoever comes then is told it again, and a
    /// key that never comes again must not be kept for it.
    pub(super) fn is_as_new(&self, now: u64) -> bool {
        let is_told = self.limit() != u64::from(self.quota.limit);
        let quiet = if is_told { self.quota.period().as_nanos() } else { 0 };
        self.bucket.is_full(u64::try_from(quiet).unwrap_or(MOST), now)
    }
}

/// What of a told remainder is ours: others who use the limit, too, take what they like meanwhile. It may be below zero,
/// and then it is waited for, as a debt is.
fn left(remaining: u64, limit: u64, headroom: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a share of a limit")]
    let others = (limit as f64 * headroom) as i64;
    i64::try_from(remaining).unwrap_or(i64::MAX).saturating_sub(others)
}
