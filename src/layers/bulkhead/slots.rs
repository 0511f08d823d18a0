//! Slots, and the line of those who wait for one: counting, and nothing else.
//!
//! [`Count`] is what every call touches: one word, so that an atomic can hold it. [`Line`] is what only those touch who
//! find no slot free. Together they hold one law: **a newcomer passes only if a slot is free and nobody waits**, so that
//! grants come in the order of arrivals.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use crate::time::Instant;

/// The most slots there can be: their number must fit a signed half of the word.
pub(super) const MOST: u32 = i32::MAX as u32;

/// What is added to the word when a slot is given back.
pub(super) const RELEASED: u64 = 1 << 32;

/// How much a new gap between two grants weighs in the mean: an eighth, as in the round-trip estimate of TCP (RFC 6298),
/// so that one slow call says little and eight say nearly all.
const WEIGHT: u32 = 8;

/// Free slots in the upper half, below zero while a lowered limit is not reached yet; waiters in the lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count(u64);

/// Who waits, in the order of arrival, and how fast the line moves.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Sorted by ticket, since tickets only grow.
    waiters: VecDeque<(Ticket, Option<Waker>)>,
    next: u64,
    /// When the line last moved, or began.
    moved: Option<Instant>,
    /// The mean time between two grants while somebody waits.
    pace: Option<Duration>,
}

/// A place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

// === impl Count ===

impl Count {
    pub(super) const fn new(limit: u32) -> Self {
        Self((limit as u64) << 32)
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    pub(super) const fn free(self) -> i32 {
        ((self.0 >> 32) as u32).cast_signed()
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    pub(super) const fn waiting(self) -> u32 {
        self.0 as u32
    }

    /// A newcomer takes a slot: only if nobody waits.
    pub(super) const fn take(self) -> Option<Self> {
        if self.free() > 0 && self.waiting() == 0 { Some(Self(self.0 - RELEASED)) } else { None }
    }

    /// The head of the line takes a slot.
    pub(super) const fn grant(self) -> Option<Self> {
        if self.free() > 0 && self.waiting() > 0 { Some(Self(self.0 - RELEASED - 1)) } else { None }
    }

    /// One more waits.
    pub(super) const fn join(self) -> Self {
        Self(self.0 + 1)
    }

    /// One goes without a slot.
    pub(super) const fn leave(self) -> Self {
        Self(self.0 - 1)
    }
}

// === impl Line ===

impl Line {
    /// Takes the last place.
    pub(super) fn join(&mut self, now: Instant) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiters.push_back((ticket, None));
        self.moved.get_or_insert(now);
        ticket
    }

    /// Gives the slot to the head. It is not in line from here on, and that is how it learns of it.
    pub(super) fn grant(&mut self, now: Instant) -> Option<Waker> {
        let (_, waker) = self.waiters.pop_front()?;
        let gap = self.moved.map_or(Duration::ZERO, |moved| now.saturating_duration_since(moved));
        self.pace = Some(self.pace.map_or(gap, |pace| (pace * (WEIGHT - 1) + gap) / WEIGHT));
        self.moved = (!self.waiters.is_empty()).then_some(now);
        waker
    }

    /// Whether the place is still held; it is then kept up to date whom to wake.
    pub(super) fn waits(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        let Some(at) = self.find(ticket) else { return false };
        match &mut self.waiters[at].1 {
            Some(known) if known.will_wake(waker) => {}
            slot => *slot = Some(waker.clone()),
        }
        true
    }

    /// Gives the place up; false if it was granted before.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let Some(at) = self.find(ticket) else { return false };
        self.waiters.remove(at);
        if self.waiters.is_empty() {
            self.moved = None;
        }
        true
    }

    /// How long a newcomer behind so many would wait, if the line moves on as it did. It is a guess: nobody knows when
    /// a call ends.
    pub(super) fn guess(&self, ahead: u32) -> Option<Duration> {
        self.pace.map(|pace| pace.saturating_mul(ahead.saturating_add(1)))
    }

    fn find(&self, ticket: Ticket) -> Option<usize> {
        self.waiters.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()
    }
}
