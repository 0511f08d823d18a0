//! A quota and the pace of its bucket, and how they follow a provider's word.

use super::sync::{AtomicU64, Ordering};
use std::time::Duration;

use crate::chat::{Dimension, Window};

use super::bucket::Bucket;
use super::gauge::LONGEST;
use super::ledger::{Level, Recalibrated};
use super::pace::{MOST, Pace, pace};
use super::quota::{Quota, period};

#[derive(Debug)]
pub(super) struct Meter {
    quota: Quota,
    /// The limit in force.
    limit: AtomicU64,
    pace: Pace,
}

/// How a provider's word is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heed {
    /// The share of a limit that is left to others.
    pub(super) headroom: f64,
    /// The share that rates are lowered to for a while; 1 when they are not.
    pub(super) share: f64,
}

// === impl Meter ===

impl Meter {
    pub(super) fn new(quota: Quota) -> Self {
        let pace = pace(quota.limit, quota.period());
        let pace = Pace::new(pace, quota.capacity(quota.limit));
        Self { quota, limit: AtomicU64::new(quota.limit.into()), pace }
    }

    pub(super) const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// The word of a new bucket.
    pub(super) fn word(&self, now: u64) -> u64 {
        self.pace.word(self.quota.initial(), now)
    }

    /// The bucket of this word.
    #[inline]
    pub(super) const fn bucket<'a>(&'a self, word: &'a AtomicU64) -> Bucket<'a> {
        Bucket::new(word, &self.pace)
    }

    #[inline]
    pub(super) fn capacity(&self) -> u32 {
        self.pace.capacity()
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
        word: &AtomicU64,
        window: &Window,
        heed: Heed,
        now: u64,
    ) -> Option<Recalibrated> {
        let told = window.limit.and_then(|limit| u32::try_from(limit).ok());
        let resized = told.is_some_and(|limit| self.follow(word, limit, heed.share, now));
        let lowered = window.remaining.is_some_and(|remaining| {
            let limit = self.limit();
            let reset = window.reset.map(|reset| reset.min(LONGEST).as_nanos());
            let reset_at = reset.and_then(|reset| Some(now.saturating_add(u64::try_from(reset).ok()?)));
            self.bucket(word).lower(left(remaining, limit, heed.headroom), reset_at, now)
        });
        (resized || lowered).then(|| Recalibrated {
            dimension: self.quota.dimension,
            limit: self.limit(),
            remaining: self.bucket(word).remaining(now).into(),
        })
    }

    /// Follows a told limit: down always, up only a guess, or back to what was declared.
    fn follow(&self, word: &AtomicU64, told: u32, share: f64, now: u64) -> bool {
        let limit = if self.quota.guess { told } else { told.min(self.quota.limit) };
        if self.limit.swap(limit.into(), Ordering::Relaxed) == u64::from(limit) {
            return false;
        }
        self.resize(word, share, now);
        true
    }

    /// Gives the bucket the pace of its limit, at a share of it.
    pub(super) fn resize(&self, word: &AtomicU64, share: f64, now: u64) {
        self.bucket(word).resize(self.period(share), self.whole(), now);
    }

    /// What it holds under the limit in force.
    fn whole(&self) -> u32 {
        self.quota.capacity(u32::try_from(self.limit()).unwrap_or(u32::MAX))
    }

    /// How long one takes to come back under the limit in force, at a share of its pace.
    pub(super) fn period(&self, share: f64) -> u64 {
        let limit = u32::try_from(self.limit()).unwrap_or(u32::MAX);
        let pace = pace(limit, period(self.quota.dimension));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "nanoseconds within a day, and a share above zero"
        )]
        let pace = if share < 1.0 { (pace as f64 / share).ceil() as u64 } else { pace };
        // No bucket takes longer to fill than a debt may be: what is slower stands still, and no number would hold it.
        pace.min(MOST / u64::from(self.whole()))
    }

    /// The share that is used, from 0 to 1.
    pub(super) fn used(&self, word: &AtomicU64, now: u64) -> f64 {
        1.0 - f64::from(self.bucket(word).remaining(now)) / f64::from(self.capacity().max(1))
    }

    pub(super) fn level(&self, word: &AtomicU64, now: u64) -> Level {
        let (withheld, reset_at) = self.bucket(word).withheld(now);
        Level {
            dimension: self.quota.dimension,
            limit: Some(self.limit()),
            capacity: Some(self.capacity().into()),
            remaining: self.bucket(word).remaining(now).into(),
            withheld,
            reset: reset_at.map(|at| Duration::from_nanos(at.saturating_sub(now))),
        }
    }

    /// A limit that was told is forgotten once nobody used it for a period: whoever comes then is told it again, and a
    /// key that never comes again must not be kept for it.
    pub(super) fn is_as_new(&self, word: &AtomicU64, now: u64) -> bool {
        let is_told = self.limit() != u64::from(self.quota.limit);
        let quiet = if is_told { self.quota.period().as_nanos() } else { 0 };
        self.bucket(word).is_full(u64::try_from(quiet).unwrap_or(MOST), now)
    }
}

/// What of a told remainder is ours: others who use the limit, too, take what they like meanwhile. It may be below zero,
/// and then it is waited for, as a debt is.
pub(super) fn left(remaining: u64, limit: u64, headroom: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a share of a limit")]
    let others = (limit as f64 * headroom) as i64;
    i64::try_from(remaining).unwrap_or(i64::MAX).saturating_sub(others)
}
