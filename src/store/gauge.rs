//! A dimension for which we have no quota: all that is known of it is what a provider's headers told.

use super::sync::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::chat::Dimension;

use super::ledger::Level;

/// How long a figure holds whose reset was not told: a minute, the window that most providers count by.
pub(super) const UNTOLD: Duration = Duration::from_secs(60);

/// The longest a figure holds: a day, the longest window that calls are counted by. A reset further off is wrong, and
/// would stop a key for good.
pub(super) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What a provider told of one dimension. Before a word on it, and after its reset, nothing is known and all may pass.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    left: AtomicI64,
    /// What was taken of this figure, and may be given back to it: no more, since what was taken before it was told is
    /// not missing from it.
    taken: AtomicI64,
    limit: AtomicI64,
    /// Until when the figure holds; zero before there is one.
    until: AtomicU64,
}

// === impl Gauge ===

impl Gauge {
    /// Takes so many of what is left, or says when the figure is over.
    pub(super) fn take(&self, cost: u32, now: u64) -> Result<(), u64> {
        let until = self.until.load(Ordering::Relaxed);
        if until <= now {
            return Ok(());
        }
        let cost = i64::from(cost);
        let before = self.left.fetch_sub(cost, Ordering::SeqCst);
        if before > 0 && before >= cost {
            self.taken.fetch_add(cost, Ordering::SeqCst);
            return Ok(());
        }
        self.left.fetch_add(cost, Ordering::SeqCst);
        Err(until)
    }

    /// Changes what is left by so many, up or down; up by no more than was taken, and never above the limit.
    pub(super) fn change(&self, by: i64) {
        let mut by = by;
        if by > 0 {
            let less = |taken: i64| Some(taken.saturating_sub(by).max(0));
            let taken = self.taken.fetch_update(Ordering::SeqCst, Ordering::Relaxed, less);
            by = by.min(taken.unwrap_or_else(|same| same).max(0));
        }
        let limit = self.limit.load(Ordering::Relaxed);
        let change = |left: i64| Some(left.saturating_add(by).min(limit.max(left)));
        let _ = self.left.fetch_update(Ordering::SeqCst, Ordering::Relaxed, change);
    }

    /// From when on so many are there.
    pub(super) fn until(&self, count: u64, now: u64) -> u64 {
        let left = self.left.load(Ordering::Relaxed);
        let short = left <= 0 || u64::try_from(left).unwrap_or(0) < count;
        if short { self.until.load(Ordering::Relaxed).max(now) } else { now }
    }

    /// Takes a figure in: below what we thought at once, above only where what we thought is over.
    pub(super) fn note(&self, remaining: u64, limit: Option<u64>, reset_at: u64, now: u64) -> bool {
        let remaining = i64::try_from(remaining).unwrap_or(i64::MAX);
        let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        let known = self.until.load(Ordering::Relaxed) > now;
        if known && remaining >= self.left.load(Ordering::Relaxed) {
            return false;
        }
        self.limit.store(limit, Ordering::Relaxed);
        self.taken.store(0, Ordering::SeqCst);
        self.left.store(remaining, Ordering::SeqCst);
        self.until.store(reset_at, Ordering::SeqCst);
        true
    }

    /// The share that is used, from 0 to 1: where nothing is left, all; else where a limit was told.
    pub(super) fn used(&self, now: u64) -> Option<f64> {
        let level = self.level(Dimension::Requests, now)?;
        if level.remaining == 0 {
            return Some(1.0);
        }
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = level.remaining as f64 / level.limit?.max(1) as f64;
        Some(1.0 - share)
    }

    /// What is left, while a figure holds.
    pub(super) fn level(&self, dimension: Dimension, now: u64) -> Option<Level> {
        let until = self.until.load(Ordering::Relaxed);
        let limit = Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit != i64::MAX);
        let limit = limit.and_then(|limit| u64::try_from(limit).ok());
        let remaining = u64::try_from(self.left.load(Ordering::Relaxed)).unwrap_or(0);
        let reset = Some(Duration::from_nanos(until.checked_sub(now).filter(|rest| *rest > 0)?));
        Some(Level { dimension, limit, capacity: limit, remaining, withheld: 0, reset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: no word yet; then three left until an instant; then a word that more are left.
    /// Expected: all MUST pass before the first word and after the reset; between, three, whatever the later word.
    #[test]
    fn a_figure_holds_until_its_reset() {
        let gauge = Gauge::default();
        assert_eq!(gauge.take(1_000, 5), Ok(()));
        assert!(gauge.note(3, Some(60), 100, 10));
        assert!(!gauge.note(50, Some(60), 200, 20));
        assert_eq!(gauge.take(2, 20), Ok(()));
        assert_eq!(gauge.take(2, 20), Err(100), "two are not left");
        assert_eq!(gauge.take(1, 20), Ok(()));
        assert_eq!(gauge.take(0, 20), Err(100), "nothing passes an empty one, whatever it costs");
        assert_eq!(gauge.take(1, 99), Err(100));
        assert_eq!(gauge.take(1_000, 100), Ok(()));
    }

    /// Scenario: more is given back than was taken, and than a limit allows.
    /// Expected: what is left MUST stay within both.
    #[test]
    fn nothing_rises_above_the_limit() {
        let gauge = Gauge::default();
        let left = || gauge.level(Dimension::Tokens, 10).unwrap().remaining;
        assert!(gauge.note(58, Some(60), 100, 10));
        gauge.change(40);
        assert_eq!(left(), 58, "nothing was taken");
        assert_eq!(gauge.take(8, 10), Ok(()));
        gauge.change(40);
        assert_eq!(left(), 58);
        assert_eq!(gauge.take(8, 10), Ok(()));
        gauge.limit.store(55, Ordering::Relaxed);
        gauge.change(8);
        assert_eq!(left(), 55);
        assert!(gauge.used(10).unwrap().abs() < f64::EPSILON);
    }
}
