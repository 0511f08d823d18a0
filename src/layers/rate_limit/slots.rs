//! Calls in flight, and how many there may be.

use std::sync::{Mutex, PoisonError};

use super::adaptive::{Adaptive, AdaptiveConfig};
use super::sync::{AtomicU32, Ordering};

/// No limit.
const ANY: u32 = u32::MAX;

/// Calls in flight, and how many there may be.
#[derive(Debug)]
pub(super) struct Slots {
    taken: AtomicU32,
    most: AtomicU32,
    adaptive: Option<Box<Tried>>,
}

/// The number in flight as it is found out, where it is.
#[derive(Debug)]
struct Tried {
    round: AtomicU32,
    adaptive: Mutex<Adaptive>,
}

/// A slot of a call that is not admitted yet: given back on drop.
pub(super) struct Slot<'a>(Option<&'a AtomicU32>);

// === impl Slots ===

impl Slots {
    pub(super) fn new(most: Option<u32>, adaptive: Option<AdaptiveConfig>) -> Self {
        let most = most.unwrap_or(ANY);
        Self {
            taken: AtomicU32::new(0),
            most: AtomicU32::new(most),
            adaptive: adaptive.map(|config| {
                let adaptive = Mutex::new(Adaptive::new(config, most));
                Box::new(Tried { round: AtomicU32::new(0), adaptive })
            }),
        }
    }

    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The most calls in flight for now, where there is a limit.
    pub(super) fn most(&self) -> Option<u32> {
        Some(self.most.load(Ordering::Relaxed)).filter(|most| *most != ANY)
    }

    /// The share that is taken, from 0 to 1.
    pub(super) fn used(&self) -> f64 {
        self.most().map_or(0.0, |most| f64::from(self.in_flight()) / f64::from(most))
    }

    /// The round that calls begin in now: see [`Adaptive`].
    #[inline]
    pub(super) fn round(&self) -> u32 {
        self.adaptive.as_ref().map_or(0, |tried| tried.round.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn take(&self) -> Option<Slot<'_>> {
        let before = self.taken.fetch_add(1, Ordering::SeqCst);
        let slot = Slot(Some(&self.taken));
        (before < self.most.load(Ordering::Relaxed)).then_some(slot)
    }

    #[inline]
    pub(super) fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes in how a call of a round went.
    #[inline]
    pub(super) fn learn(&self, round: u32, overload: bool) {
        if let Some(tried) = &self.adaptive {
            let mut adaptive = tried.adaptive.lock().unwrap_or_else(PoisonError::into_inner);
            self.most.store(adaptive.learn(round, overload), Ordering::Relaxed);
            tried.round.store(adaptive.round(), Ordering::Relaxed);
        }
    }
}

// === impl Slot ===

impl Slot<'_> {
    /// Keeps the slot for a call that has all else, too.
    #[inline]
    pub(super) fn keep_if<E>(mut self, answer: Result<(), E>) -> Result<(), E> {
        if answer.is_ok() {
            self.0 = None;
        }
        answer
    }
}

impl Drop for Slot<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(taken) = self.0 {
            taken.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
