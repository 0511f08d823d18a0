//! One dimension's quota, in one atomic word.
//!
//! The word is the instant at which the bucket is full again, in nanoseconds of the ledger's own time. Whoever takes
//! moves it on, whoever gives back moves it back; what lies in the past is a full bucket. So a refund is one
//! subtraction, a debt one addition, and a refusal knows the very nanosecond from which on it would be a grant.

use super::sync::{AtomicU64, Ordering};
use std::num::NonZeroU32;

use super::decide::decide;
use super::pace::{MOST, Pace, weight};

/// Where a ledger's time begins. Far from zero, so that a refund beyond all that was ever taken stays a past instant.
pub(super) const ORIGIN: u64 = 1 << 61;

/// No instant.
pub(super) const NEVER: u64 = u64::MAX;

/// The last instant there is, two centuries from the first: no word comes further, nor does any time that is told. What is
/// added to it when a call asks must not wrap it.
pub(super) const LAST: u64 = 1 << 63;

/// The longest that calls wait for a debt: a day, the longest window that calls are counted by. A usage that takes longer to
/// make up for is wrong, and would stop a key for good.
const DEBT: u64 = 24 * 60 * 60 * 1_000_000_000;

/// One dimension's quota. Instants are nanoseconds since [`ORIGIN`] was, and given as arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket<'a> {
    /// When it is full again.
    word: &'a AtomicU64,
    pace: &'a Pace,
}

// === impl Bucket ===

impl<'a> Bucket<'a> {
    #[inline]
    pub(super) const fn new(word: &'a AtomicU64, pace: &'a Pace) -> Self {
        Self { word, pace }
    }

    #[inline]
    pub(super) fn capacity(self) -> u32 {
        self.pace.capacity()
    }

    /// Takes so many, if they are there. Nothing may cost nothing, but an empty bucket lets nothing pass.
    #[inline]
    pub(super) fn take(self, cost: u32, now: u64) -> bool {
        self.look(now);
        let capacity = self.capacity();
        let Some(asked) = NonZeroU32::new(cost) else { return self.remaining(now) > 0 };
        cost <= capacity && decide(self.word, self.pace.period.load(Ordering::Relaxed), capacity, asked, now)
    }

    /// Gives so many back. No clock is needed: what was taken stands in the word.
    #[inline]
    pub(super) fn give_back(self, count: u32) {
        if count > 0 {
            let weight = self.weight(u64::from(count));
            self.change(|word| word.saturating_sub(weight));
        }
    }

    /// Takes so many, whether they are there or not, but owes no more than [`DEBT`]. Counted from now, since a full bucket
    /// cannot owe.
    pub(super) fn owe(self, count: u32, now: u64) {
        if count > 0 {
            self.look(now);
            let weight = self.weight(u64::from(count));
            let most = now + self.weight(self.capacity().into()) + DEBT;
            self.change(|word| word.max(now).saturating_add(weight).min(most).max(word));
        }
    }

    /// How many are in it.
    pub(super) fn remaining(self, now: u64) -> u32 {
        let mut word = self.word.load(Ordering::Relaxed);
        if self.pace.reset_at.load(Ordering::Relaxed) <= now {
            word = word.saturating_sub(self.pace.withheld.load(Ordering::Relaxed));
        }
        let missing = word.saturating_sub(now).div_ceil(self.pace.period.load(Ordering::Relaxed).max(1));
        u64::from(self.capacity()).saturating_sub(missing).try_into().unwrap_or(u32::MAX)
    }

    /// From when on so many are there, if nobody else takes any, and more than it holds as the last of several; where
    /// another period is in force from an instant on, as [`resize`](Self::resize) will have it then.
    pub(super) fn grown(self, count: u64, now: u64, next: Option<(u64, u64)>) -> u64 {
        let plain = self.there(count, now, next, None);
        let reset_at = self.pace.reset_at.load(Ordering::Relaxed);
        if reset_at >= plain {
            return plain;
        }
        let withheld = self.pace.withheld.load(Ordering::Relaxed);
        plain.min(self.there(count, now, next, Some((reset_at, withheld))))
    }

    /// From when on so many are there, with what is given back at a reset and the period that comes next.
    fn there(self, count: u64, now: u64, next: Option<(u64, u64)>, reset: Option<(u64, u64)>) -> u64 {
        let period = self.pace.period.load(Ordering::Relaxed);
        let capacity = u64::from(self.capacity());
        let word = self.word.load(Ordering::Relaxed).max(now);
        let (reset_at, withheld) = reset.unwrap_or((NEVER, 0));
        // What is full before its reset runs over until then.
        let from = reset.map_or(now, |(reset_at, _)| reset_at.max(now));
        let until = |word: u64, period: u64, from: u64| {
            let (weight, whole) = (weight(count, period), weight(capacity, period));
            word.max(from).saturating_add(weight).saturating_sub(whole).max(from)
        };
        let plain = until(word.saturating_sub(withheld), period, from);
        let Some((at, next)) = next.filter(|(at, _)| plain > *at) else { return plain };
        let scaled = |length: u64| scale(length, next, period);
        let word = if reset_at < at {
            at + scaled(word.saturating_sub(withheld).saturating_sub(at))
        } else {
            (at + scaled(word.saturating_sub(at))).saturating_sub(scaled(withheld))
        };
        until(word, next, at.max(from))
    }

    /// Stops its refill from one instant to another.
    pub(super) fn pause(self, from: u64, until: u64) {
        self.look(from);
        let length = until.saturating_sub(from).min(MOST);
        self.change(|word| word.max(from).saturating_add(length));
    }

    /// Lowers what is in it to this, which may be below zero; what that takes out comes back at the reset, where one is
    /// known. Whether anything was taken out.
    ///
    /// Each word on a reset replaces the one before, also where nothing is to be taken out: a window that is fixed tells
    /// the same instant again, and one that slides moves on with every call, so that nothing may come back yet.
    pub(super) fn lower(self, remaining: i64, reset_at: Option<u64>, now: u64) -> bool {
        self.look(now);
        let capacity = self.capacity();
        let period = self.pace.period.load(Ordering::Relaxed);
        let missing = u64::try_from(i64::from(capacity).saturating_sub(remaining)).unwrap_or(0);
        let floor = now + missing.saturating_mul(period).min(MOST);
        let before = self.change(|word| word.max(floor));
        let taken = floor.saturating_sub(before.max(now));
        if let Some(reset_at) = reset_at
            && self.pace.withheld.fetch_add(taken, Ordering::Relaxed) + taken > 0
        {
            self.pace.reset_at.store(reset_at, Ordering::Relaxed);
        }
        taken > 0
    }

    /// Changes its pace and size. What was taken stays taken, in number.
    pub(super) fn resize(self, period: u64, capacity: u32, now: u64) {
        let old = self.pace.period.swap(period, Ordering::Relaxed).max(1);
        self.pace.capacity.store(capacity, Ordering::Relaxed);
        self.look(now);
        let withheld = self.pace.withheld.load(Ordering::Relaxed);
        self.pace.withheld.store(scale(withheld, period, old), Ordering::Relaxed);
        self.change(|word| match word.checked_sub(now) {
            Some(owed) => now.saturating_add(scale(owed, period, old)),
            None => word,
        });
    }

    /// Whether it is as good as new, and was for so long: full, and nothing is withheld.
    pub(super) fn is_full(self, since: u64, now: u64) -> bool {
        let reset_at = self.pace.reset_at.load(Ordering::Relaxed);
        let withheld = if reset_at == NEVER { 0 } else { self.pace.withheld.load(Ordering::Relaxed) };
        let full_at = self.word.load(Ordering::Relaxed).saturating_sub(withheld);
        (reset_at == NEVER || reset_at <= now) && full_at.saturating_add(since) <= now
    }

    /// What is withheld, and until when.
    pub(super) fn withheld(self, now: u64) -> (u64, Option<u64>) {
        let reset_at = self.pace.reset_at.load(Ordering::Relaxed);
        if reset_at == NEVER || reset_at <= now {
            return (0, None);
        }
        let missing = self.word.load(Ordering::Relaxed).saturating_sub(now);
        let withheld = self.pace.withheld.load(Ordering::Relaxed).min(missing);
        (withheld / self.pace.period.load(Ordering::Relaxed).max(1), Some(reset_at))
    }

    /// Looks after what is withheld, before the word is moved on.
    #[inline]
    fn look(self, now: u64) {
        let reset_at = self.pace.reset_at.load(Ordering::Relaxed);
        if reset_at == NEVER {
            return;
        }
        let missing = self.word.load(Ordering::SeqCst).saturating_sub(now);
        if self.pace.withheld.load(Ordering::Relaxed) > missing {
            self.pace.withheld.fetch_min(missing, Ordering::SeqCst);
        }
        if reset_at <= now {
            self.release(reset_at);
        }
    }

    /// Gives back what was withheld, once. A later instant than the reset gives no more and no less than the reset
    /// itself: what flows over a full bucket lies in the past.
    #[cold]
    fn release(self, reset_at: u64) {
        if self.pace.reset_at.compare_exchange(reset_at, NEVER, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            let withheld = self.pace.withheld.swap(0, Ordering::SeqCst);
            self.word.fetch_sub(withheld, Ordering::SeqCst);
        }
    }

    /// How far so many move the word.
    #[inline]
    fn weight(self, count: u64) -> u64 {
        self.pace.weight(count)
    }

    /// Changes the word, and tells what it was.
    fn change(self, to: impl Fn(u64) -> u64) -> u64 {
        let change =
            self.word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |word| Some(to(word).min(LAST)));
        change.unwrap_or_else(|same| same)
    }
}

fn scale(owed: u64, new: u64, old: u64) -> u64 {
    let scaled = u128::from(owed) * u128::from(new) / u128::from(old);
    u64::try_from(scaled).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests;
