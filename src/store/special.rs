//! What is out of the ordinary for a while: a freeze, a slow rate, the figures of gauges.

use super::sync::{AtomicU64, Ordering};

/// What is out of the ordinary, and until when. While nothing is, a reservation reads one word of it.
#[derive(Debug, Default)]
pub(super) struct Special {
    /// Until when anything may be; zero when nothing is.
    any: AtomicU64,
    /// Until when nothing is admitted.
    frozen: AtomicU64,
    /// Until when rates are lowered; zero when they are not.
    slow: AtomicU64,
    /// The bits of the share that they are lowered to.
    share: AtomicU64,
}

// === impl Special ===

impl Special {
    /// Whether anything is in force. When a slow time is over, its end is told once to whoever restores the rates: at
    /// that instant, not now, since from there on buckets grew at the old rate.
    #[inline]
    pub(super) fn in_force(&self, now: u64, restore: impl FnOnce(u64)) -> bool {
        let any = self.any.load(Ordering::Relaxed);
        any != 0 && self.look(any, now, restore)
    }

    #[cold]
    fn look(&self, any: u64, now: u64, restore: impl FnOnce(u64)) -> bool {
        let slow = self.slow.load(Ordering::SeqCst);
        let over = slow != 0 && slow <= now;
        if over && self.slow.compare_exchange(slow, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            restore(slow);
        }
        if any > now {
            return true;
        }
        let _ = self.any.compare_exchange(any, 0, Ordering::SeqCst, Ordering::Relaxed);
        false
    }

    /// Whether anything was in force when somebody looked last.
    #[inline]
    pub(super) fn is_noted(&self) -> bool {
        self.any.load(Ordering::Relaxed) != 0
    }

    /// Something is in force until then.
    pub(super) fn note(&self, until: u64) {
        self.any.fetch_max(until, Ordering::SeqCst);
    }

    /// Until when nothing is admitted.
    #[inline]
    pub(super) fn frozen(&self) -> u64 {
        self.frozen.load(Ordering::Relaxed)
    }

    /// Freezes until then, and tells from when on this is news; `None` if it is not.
    pub(super) fn freeze(&self, until: u64, now: u64) -> Option<u64> {
        let from = self.frozen.fetch_max(until, Ordering::SeqCst).max(now);
        self.note(until);
        (from < until).then_some(from)
    }

    /// The share that rates are lowered to; 1 when they are not.
    pub(super) fn share(&self) -> f64 {
        let slow = self.slow.load(Ordering::Relaxed) != 0;
        if slow { f64::from_bits(self.share.load(Ordering::Relaxed)) } else { 1.0 }
    }

    /// Until when rates are lowered, while they are.
    pub(super) fn slow_until(&self) -> Option<u64> {
        Some(self.slow.load(Ordering::Relaxed)).filter(|slow| *slow != 0)
    }

    /// Slows down until then, and tells until when rates are low already; zero where they are yet to be lowered.
    pub(super) fn slow_down(&self, share: f64, until: u64) -> u64 {
        let before = self.slow.fetch_max(until, Ordering::SeqCst);
        self.note(until);
        if before == 0 {
            self.share.store(share.to_bits(), Ordering::SeqCst);
        }
        before
    }
}
