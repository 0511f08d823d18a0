//! Slots that many threads take at once: one atomic word, and a lock for the line only.
//!
//! A call that finds a slot free, and a call that ends while nobody waits, touch the word and nothing else. The number
//! of waiters stands in that same word and changes only under the lock, and so nobody is forgotten: a slot that comes
//! free is either seen by who is about to join the line, or its releaser sees the one who joined, and hands it on.

use std::fmt;
use std::sync::PoisonError;
use std::task::Waker;
use std::time::Duration;

use crate::failure::Failure;
use crate::time::Instant;

use super::slots::{Count, Line, RELEASED, Ticket};
use super::sync::{AtomicU64, Mutex, Ordering};

/// The slots of one key.
pub(super) struct Lane {
    count: AtomicU64,
    line: Mutex<Standing>,
}

struct Standing {
    /// Changed under the lock, together with the free slots of the word.
    limit: u32,
    rush: Option<Box<Rush>>,
}

/// What is kept of slots that were taken, all of them, at least once.
#[derive(Default)]
struct Rush {
    line: Line,
    /// The last refusal. While the slots are as they were it is said again, and nothing is written anew.
    refusal: Option<(Tally, Failure)>,
}

/// What came of asking for a slot, or for a place in line.
#[derive(Debug)]
pub(super) enum Asked {
    /// A slot.
    Taken,
    /// A place, and since when.
    Joined(Ticket, Instant),
    /// Neither, and how long it would take, if that can be guessed.
    Full(Failure, Option<Duration>),
}

/// The slots at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) limit: u32,
    pub(super) in_flight: u32,
    pub(super) waiting: u32,
}

// === impl Lane ===

impl Lane {
    pub(super) fn new(limit: u32) -> Self {
        let standing = Standing { limit, rush: None };
        Self { count: AtomicU64::new(Count::new(limit).bits()), line: Mutex::new(standing) }
    }

    /// Takes a slot, if one is free and nobody waits.
    #[inline]
    pub(super) fn try_take(&self) -> bool {
        self.change(Count::take)
    }

    /// Takes a slot, or else the last place in a line of at most so many.
    pub(super) fn ask(
        &self,
        most: u32,
        now: impl FnOnce() -> Instant,
        refuse: impl FnOnce(Tally) -> Failure,
    ) -> Asked {
        let mut standing = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        // One may have come free meanwhile. After the change below its releaser knows that somebody waits.
        let mut known = self.count.load(Ordering::Acquire);
        loop {
            let count = Count::from_bits(known);
            let taken = count.take();
            if taken.is_none() && count.waiting() >= most {
                return Asked::Full(standing.refuse(count, refuse), standing.guess(count));
            }
            let next = taken.unwrap_or_else(|| count.join());
            match self.swap(known, next) {
                Ok(()) if taken.is_some() => return Asked::Taken,
                Ok(()) => {
                    let at = now();
                    return Asked::Joined(standing.line().join(at), at);
                }
                Err(other) => known = other,
            }
        }
    }

    /// Whether the place was turned into a slot. If not, the waker is woken when it is.
    pub(super) fn is_granted(&self, ticket: Ticket, waker: &Waker) -> bool {
        !self.line.lock().unwrap_or_else(PoisonError::into_inner).line().waits(ticket, waker)
    }

    /// Gives up a place; false if it was turned into a slot before, which is then the caller's.
    pub(super) fn leave(&self, ticket: Ticket) -> bool {
        let mut standing = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let left = standing.line().leave(ticket);
        if left {
            self.change(|count| Some(count.leave()));
        }
        left
    }

    /// Gives back a slot: to the head of the line, where there is one.
    #[inline]
    pub(super) fn release(&self) {
        let before = Count::from_bits(self.count.fetch_add(RELEASED, Ordering::AcqRel));
        if before.waiting() > 0 {
            self.hand_on();
        }
    }

    /// Changes how many slots there are. Those taken stay taken; no more are given before enough came back.
    pub(super) fn set_limit(&self, limit: u32) {
        {
            let mut standing = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            let more = i64::from(limit) - i64::from(standing.limit);
            standing.limit = limit;
            // Added to the upper half alone, in two's complement.
            self.count.fetch_add((more << 32).cast_unsigned(), Ordering::AcqRel);
        }
        self.hand_on();
    }

    pub(super) fn tally(&self) -> Tally {
        let standing = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        standing.tally(Count::from_bits(self.count.load(Ordering::Acquire)))
    }

    /// How long a newcomer would wait, if that can be guessed.
    pub(super) fn guess(&self) -> Option<Duration> {
        let standing = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        standing.guess(Count::from_bits(self.count.load(Ordering::Acquire)))
    }

    /// Gives free slots to the line. Whoever gets one is woken once the lock is open again.
    #[cold]
    fn hand_on(&self) {
        loop {
            let woken = {
                let mut standing = self.line.lock().unwrap_or_else(PoisonError::into_inner);
                if !self.change(Count::grant) {
                    return;
                }
                standing.line().grant(crate::time::now())
            };
            if let Some(waker) = woken {
                waker.wake();
            }
        }
    }

    /// Changes the word, if the change holds for what it is at that instant.
    #[inline]
    fn change(&self, to: impl Fn(Count) -> Option<Count>) -> bool {
        let mut known = self.count.load(Ordering::Relaxed);
        while let Some(next) = to(Count::from_bits(known)) {
            match self.swap(known, next) {
                Ok(()) => return true,
                Err(other) => known = other,
            }
        }
        false
    }

    #[inline]
    fn swap(&self, known: u64, next: Count) -> Result<(), u64> {
        self.count.compare_exchange_weak(known, next.bits(), Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tally().fmt(f)
    }
}

// === impl Standing ===

impl Standing {
    /// The word, as the limit of now reads it.
    fn tally(&self, count: Count) -> Tally {
        let in_flight = i64::from(self.limit) - i64::from(count.free());
        Tally {
            limit: self.limit,
            in_flight: u32::try_from(in_flight).unwrap_or(0),
            waiting: count.waiting(),
        }
    }

    fn line(&mut self) -> &mut Line {
        &mut self.rush.get_or_insert_default().line
    }

    fn guess(&self, count: Count) -> Option<Duration> {
        self.rush.as_ref()?.line.guess(count.waiting())
    }

    fn refuse(&mut self, count: Count, write: impl FnOnce(Tally) -> Failure) -> Failure {
        let tally = self.tally(count);
        match &mut self.rush.get_or_insert_default().refusal {
            Some((then, failure)) if *then == tally => failure.clone(),
            refusal => refusal.insert((tally, write(tally))).1.clone(),
        }
    }
}
