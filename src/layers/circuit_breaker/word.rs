//! The part of a circuit that healthy calls read and write: one atomic word.
//!
//! It says which generation a call belongs to, whether calls pass without asking the circuit, and whether a success
//! is only counted; and it counts those successes, for the present bucket of the window. Since all of it is one word, a
//! success is counted in the generation, the bucket and the calm in which it is true, or not at all.
//!
//! Whoever holds the circuit's lock [takes](Word::take) what was counted, which ends the calm, and [puts](Word::put)
//! the word anew. Calls without the lock do nothing but count while there is calm.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

// From the lowest bit: 24 of the count, 22 of the bucket, 16 of the generation, 2 flags.
const COUNT: u64 = (1 << 24) - 1;
const BUCKET: u64 = (1 << 22) - 1;
const BUCKET_AT: u32 = 24;
const GENERATION_AT: u32 = 46;
const PASSES: u64 = 1 << 62;
const IS_CALM: u64 = 1 << 63;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Word(AtomicU64);

/// What a circuit tells the calls that do not ask it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Which life of the circuit this is: what was admitted in another says nothing about it.
    pub(super) generation: u16,
    /// Whether calls pass.
    pub(super) passes: bool,
    /// Whether a success is only counted.
    pub(super) is_calm: bool,
}

/// What became of a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// It is counted.
    Yes,
    /// It belongs to another generation.
    Old,
    /// The circuit must be told.
    No,
}

// === impl Word ===

impl Word {
    /// Of a circuit that nobody called.
    pub(super) fn new(is_calm: bool) -> Self {
        let told = Told { generation: 0, passes: true, is_calm };
        Self(AtomicU64::new(encode(told, 0, 0)))
    }

    #[inline]
    pub(super) fn told(&self) -> Told {
        decode(self.0.load(Ordering::Acquire))
    }

    /// The number of successes counted since the last [`take`](Self::take).
    pub(super) fn count(&self) -> u32 {
        count_of(self.0.load(Ordering::Acquire))
    }

    /// Whether the count is of a bucket at least so many before this one.
    pub(super) fn is_behind(&self, now: u64, buckets: u64) -> bool {
        now.wrapping_sub(self.0.load(Ordering::Acquire) >> BUCKET_AT) & BUCKET >= buckets
    }

    /// Counts a success of this generation in this bucket, if that is all there is to do.
    #[inline]
    pub(super) fn succeed(&self, generation: u16, bucket: u64) -> Counted {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if decode(word).generation != generation {
                return Counted::Old;
            }
            let same = (word >> BUCKET_AT) & BUCKET == bucket & BUCKET;
            if word & IS_CALM == 0 || !same || word & COUNT == COUNT {
                return Counted::No;
            }
            match self.0.compare_exchange_weak(word, word + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Counted::Yes,
                Err(now) => word = now,
            }
        }
    }

    /// Ends the calm, and takes what was counted: how many, and in which bucket, at the latest this one. Only for
    /// whoever holds the circuit's lock.
    pub(super) fn take(&self, now: u64) -> (u32, u64) {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let rest = word & !IS_CALM & !COUNT;
            match self.0.compare_exchange_weak(word, rest, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let behind = now.wrapping_sub(word >> BUCKET_AT) & BUCKET;
        (count_of(word), now.saturating_sub(behind))
    }

    /// Says what is so from now on. Only for whoever took it.
    pub(super) fn put(&self, told: Told, bucket: u64, count: u32) {
        self.0.store(encode(told, bucket, count), Ordering::Release);
    }
}

fn encode(told: Told, bucket: u64, count: u32) -> u64 {
    let flags = if told.passes { PASSES } else { 0 } | if told.is_calm { IS_CALM } else { 0 };
    flags | u64::from(told.generation) << GENERATION_AT | (bucket & BUCKET) << BUCKET_AT | u64::from(count)
}

#[expect(clippy::cast_possible_truncation, reason = "sixteen bits are meant")]
#[inline]
const fn decode(word: u64) -> Told {
    Told {
        generation: (word >> GENERATION_AT) as u16,
        passes: word & PASSES != 0,
        is_calm: word & IS_CALM != 0,
    }
}

const fn count_of(word: u64) -> u32 {
    (word & COUNT) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const CALM: Told = Told { generation: 7, passes: true, is_calm: true };

    /// Scenario: successes of the same generation and bucket, of another generation, of another bucket, and after the
    /// calm was ended.
    /// Expected: only the first MUST be counted; the second MUST be known as old; the others MUST go to the circuit.
    #[test]
    fn only_what_is_true_of_the_word_is_counted() {
        let word = Word::new(true);
        word.put(CALM, 40, 0);
        assert_eq!(word.succeed(7, 40), Counted::Yes);
        assert_eq!(word.succeed(6, 40), Counted::Old);
        assert_eq!(word.succeed(7, 41), Counted::No);
        assert_eq!(word.take(42), (1, 40));
        assert_eq!(word.succeed(7, 40), Counted::No);
        assert_eq!(word.told(), Told { is_calm: false, ..CALM });
    }

    /// Scenario: a bucket whose number is larger than the word has bits for.
    /// Expected: it MUST be told whole.
    #[test]
    fn the_bucket_is_told_whole() {
        let (word, bucket) = (Word::new(true), 5 * BUCKET + 17);
        word.put(CALM, bucket, 3);
        assert_eq!(word.take(bucket + 9), (3, bucket));
    }

    /// Scenario: as many successes as the word can count, and one more.
    /// Expected: the last MUST go to the circuit, and no other part of the word MUST change.
    #[test]
    fn a_full_count_runs_over_into_nothing() {
        let word = Word::new(true);
        word.put(CALM, 1, u32::try_from(COUNT).unwrap() - 1);
        assert_eq!(word.succeed(7, 1), Counted::Yes);
        assert_eq!(word.succeed(7, 1), Counted::No);
        assert_eq!(word.told(), CALM);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    /// The way a circuit treats its word under its lock: what was taken is kept, then the word is put anew.
    struct Circuit {
        word: Word,
        kept: Mutex<u32>,
    }

    impl Circuit {
        fn succeed(&self, generation: u16) -> bool {
            match self.word.succeed(generation, 0) {
                Counted::Yes => true,
                Counted::Old => false,
                Counted::No => {
                    let mut kept = self.kept.lock().unwrap();
                    let (count, _) = self.word.take(0);
                    let told = self.word.told();
                    let same = told.generation == generation;
                    *kept += count + u32::from(same);
                    self.word.put(Told { is_calm: true, ..told }, 0, 0);
                    same
                }
            }
        }

        /// A failure that opens the circuit, or, where `broken`, one that does not take what was counted.
        fn open(&self, broken: bool) -> u32 {
            let mut kept = self.kept.lock().unwrap();
            if !broken {
                *kept += self.word.take(0).0;
            }
            let seen = *kept;
            self.word.put(Told { generation: 1, passes: false, is_calm: false }, 0, 0);
            seen
        }
    }

    fn race(broken: bool) {
        loom::model(move || {
            let circuit = Arc::new(Circuit { word: Word::new(true), kept: Mutex::new(0) });
            let calls: Vec<_> = (0..2)
                .map(|_| {
                    let circuit = Arc::clone(&circuit);
                    thread::spawn(move || u32::from(circuit.succeed(0)))
                })
                .collect();
            let seen = circuit.open(broken);
            let counted: u32 = calls.into_iter().map(|call| call.join().unwrap()).sum();
            assert_eq!(seen, counted, "every success counted before, none after");
        });
    }

    /// Scenario: two successes race with the failure that opens the circuit.
    /// Expected: each MUST be seen by the failure, or be told that it is old; none MUST be lost or counted twice.
    #[test]
    fn loom_no_success_is_lost_or_counted_twice() {
        race(false);
    }

    /// Scenario: the same with an opening that does not take the count.
    /// Expected: MUST be found out.
    #[test]
    #[should_panic = "every success counted before, none after"]
    fn loom_an_opening_that_takes_nothing_is_found_out() {
        race(true);
    }
}
