//! One decision of governor over a word of ours, at a time it is told.

use super::sync::{AtomicU64, Ordering};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::{Quota, RateLimiter};

/// The word as governor sees it while one decision is made.
struct Word<'a> {
    word: &'a AtomicU64,
    now: u64,
}

/// A clock that is told the time. It says `0` once, when governor takes its start.
struct Told<'a>(&'a Cell<u64>);

/// Asks governor whether so many may pass, and moves the word if so.
#[inline]
pub(super) fn decide(word: &AtomicU64, period: u64, capacity: u32, cost: NonZeroU32, now: u64) -> bool {
    let capacity = NonZeroU32::new(capacity).unwrap_or(NonZeroU32::MIN);
    let Some(quota) = Quota::with_period(Duration::from_nanos(period)) else { return false };
    let time = Cell::new(0);
    // Its default middleware is of its default clock, which is another where a crate beside us asks for one.
    let limiter: RateLimiter<(), _, _, NoOpMiddleware<Nanos>> =
        RateLimiter::new(quota.allow_burst(capacity), Word { word, now }, Told(&time));
    time.set(now);
    matches!(limiter.check_key_n(&(), cost), Ok(Ok(())))
}

// === impl Word ===

impl StateStore for Word<'_> {
    type Key = ();

    #[inline]
    fn measure_and_replace<T, F, E>(&self, _: &(), decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut seen = self.word.load(Ordering::SeqCst);
        loop {
            // A word in the past is a full bucket.
            let (answer, next) = decide(Some(Nanos::from(seen.max(self.now))))?;
            let next = next.as_u64();
            match self.word.compare_exchange_weak(seen, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Ok(answer),
                Err(other) => seen = other,
            }
        }
    }
}

// === impl Told ===

impl Clock for Told<'_> {
    type Instant = Nanos;

    #[inline]
    fn now(&self) -> Nanos {
        Nanos::from(self.0.get())
    }
}
