//! What calls taught, for all to read without a lock.

use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use once_cell::race::OnceBox;

use super::learn::Learner;

/// Factors of estimates are kept as so many parts of one.
const ONE: u32 = 1024;

/// What calls taught, where one told its usage. The admitted path reads two words of it.
#[derive(Debug, Default)]
pub(super) struct Experience(OnceBox<Lessons>);

#[derive(Debug)]
struct Lessons {
    learner: Mutex<Learner>,
    /// Zero is unknown.
    usual: AtomicU32,
    factor: AtomicU32,
}

// === impl Experience ===

impl Experience {
    /// What 95 % of the answers stayed below, once known.
    #[inline]
    pub(super) fn usual_output(&self) -> Option<u32> {
        Some(self.0.get()?.usual.load(Ordering::Relaxed)).filter(|usual| *usual > 0)
    }

    /// By what estimates are multiplied.
    pub(super) fn factor(&self) -> f64 {
        f64::from(self.parts()) / f64::from(ONE)
    }

    #[inline]
    fn parts(&self) -> u32 {
        self.0.get().map_or(ONE, |lessons| lessons.factor.load(Ordering::Relaxed))
    }

    /// An estimate, corrected.
    #[inline]
    pub(super) fn corrected(&self, input: u32) -> u32 {
        let factor = self.parts();
        if factor == ONE {
            return input;
        }
        let corrected = u64::from(input) * u64::from(factor) / u64::from(ONE);
        u32::try_from(corrected).unwrap_or(u32::MAX).max(input.min(1))
    }

    /// Learns what a call used. `estimated` is its input where we estimated that, as it was before it was corrected.
    pub(super) fn learn(&self, estimated: Option<NonZeroU32>, input: u64, output: u64) {
        let lessons = self.0.get_or_init(Box::default);
        // Another call is just being learnt from: one sample less does no harm, a wait would.
        let Ok(mut learner) = lessons.learner.try_lock() else { return };
        if learner.output(output) {
            lessons.usual.store(learner.usual_output().unwrap_or(0), Ordering::Relaxed);
        }
        let moved = estimated.is_some_and(|estimated| learner.input(u64::from(estimated.get()), input));
        if moved {
            lessons.factor.store(parts(learner.factor()), Ordering::Relaxed);
        }
    }
}

// === impl Lessons ===

impl Default for Lessons {
    fn default() -> Self {
        Self { learner: Mutex::new(Learner::new()), usual: AtomicU32::new(0), factor: AtomicU32::new(ONE) }
    }
}

fn parts(factor: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a factor within its bounds")]
    let parts = (factor * f64::from(ONE)).round() as u32;
    parts
}
