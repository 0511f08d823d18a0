//! The outcomes of the last while, in a few buckets.

/// Buckets of a window. Ten make its edge a tenth of it, and bound the work of a step and what a key takes.
pub(super) const BUCKETS: usize = 10;

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) successes: u32,
    pub(super) failures: u32,
    /// Of both, those whose first output came late.
    pub(super) slow: u32,
    /// Tokens that failures burnt.
    pub(super) burnt: u64,
}

/// The outcomes of the present bucket and those before it. A bucket is named by its number since some beginning, so
/// that an outcome costs the same whatever came before. It is all there is: nothing of it lies elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    buckets: [Counts; BUCKETS],
    total: Counts,
    /// The number of the latest bucket.
    latest: u64,
}

// === impl Counts ===

impl Counts {
    pub(super) const fn calls(&self) -> u64 {
        self.successes as u64 + self.failures as u64
    }

    const fn add(&mut self, other: Self) {
        self.successes = self.successes.saturating_add(other.successes);
        self.failures = self.failures.saturating_add(other.failures);
        self.slow = self.slow.saturating_add(other.slow);
        self.burnt = self.burnt.saturating_add(other.burnt);
    }
}

// === impl Window ===

impl Window {
    /// Adds to a bucket. One that has left the window is not added to.
    pub(super) fn add(&mut self, bucket: u64, counts: Counts) {
        self.move_to(bucket);
        if self.latest - bucket < BUCKETS as u64 {
            self.buckets[place(bucket)].add(counts);
            self.total.add(counts);
        }
    }

    /// Moves to a bucket, and forgets what leaves. It never moves back.
    pub(super) fn move_to(&mut self, bucket: u64) {
        let steps = self.steps_to(bucket);
        if steps == 0 {
            return;
        }
        for left in bucket - (steps - 1)..=bucket {
            self.buckets[place(left)] = Counts::default();
        }
        self.latest = bucket;
        self.total = Counts::default();
        for kept in self.buckets {
            self.total.add(kept);
        }
    }

    /// How many buckets are left behind on the way to this one: never more than there are.
    fn steps_to(&self, bucket: u64) -> u64 {
        bucket.saturating_sub(self.latest).min(BUCKETS as u64)
    }

    /// All that the window holds.
    pub(super) const fn total(&self) -> Counts {
        self.total
    }

    /// What is left of it at this bucket, for whoever only looks.
    pub(super) fn total_at(&self, bucket: u64) -> Counts {
        let mut then = *self;
        then.move_to(bucket);
        then.total
    }

    /// Whether nothing is left of it at this bucket.
    pub(super) fn is_empty_at(&self, bucket: u64) -> bool {
        self.total == Counts::default() || bucket.saturating_sub(self.latest) >= BUCKETS as u64
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is small")]
const fn place(bucket: u64) -> usize {
    (bucket % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every outcome, remembered for ever.
    #[derive(Default)]
    struct Naive(Vec<(u64, Counts)>);

    impl Naive {
        fn total(&self, latest: u64, buckets: u64) -> Counts {
            let mut total = Counts::default();
            let within = |at: u64| at + buckets > latest;
            self.0.iter().filter(|(at, _)| within(*at)).for_each(|(_, counts)| total.add(*counts));
            total
        }
    }

    fn counts() -> impl Strategy<Value = Counts> {
        (0_u32..5, 0_u32..5, 0_u32..5, 0_u64..5).prop_map(|(successes, failures, slow, burnt)| Counts {
            successes,
            failures,
            slow,
            burnt,
        })
    }

    proptest! {
        /// Scenario: outcomes at any distance from each other.
        /// Expected: the window MUST hold what a list of all of them holds of its last buckets; a list that keeps
        /// one bucket more MUST be told apart where it matters.
        #[test]
        fn it_holds_what_a_list_of_all_holds(steps in prop::collection::vec((0_u64..14, counts()), 1..60)) {
            let (mut window, mut naive, mut bucket) = (Window::default(), Naive::default(), 3);
            for (step, counts) in steps {
                bucket += step;
                window.add(bucket, counts);
                naive.0.push((bucket, counts));
                prop_assert_eq!(window.total(), naive.total(bucket, BUCKETS as u64));
            }
        }
    }

    /// Scenario: the naive list with one bucket too many, over outcomes exactly a window apart.
    /// Expected: MUST NOT agree with the window.
    #[test]
    fn a_list_that_forgets_late_is_told_apart() {
        let (mut window, mut naive) = (Window::default(), Naive::default());
        let one = Counts { failures: 1, ..Counts::default() };
        for bucket in [0, BUCKETS as u64] {
            window.add(bucket, one);
            naive.0.push((bucket, one));
        }
        assert_eq!(window.total(), naive.total(BUCKETS as u64, BUCKETS as u64));
        assert_ne!(window.total(), naive.total(BUCKETS as u64, BUCKETS as u64 + 1));
    }

    /// Scenario: 50,000 outcomes, in buckets at any distance, and what is kept of them; beside it a list of all.
    /// Expected: the window MUST be a few numbers that lie in itself and nowhere else, so that there is no more to look
    /// at after them than before; the list MUST be told apart, as it keeps, and looks at, each.
    #[test]
    fn what_is_kept_and_looked_at_does_not_grow() {
        const OUTCOMES: u64 = 50_000;
        assert!(!std::mem::needs_drop::<Window>(), "it owns nothing beside itself");
        assert!(size_of::<Window>() <= (BUCKETS + 2) * size_of::<Counts>());
        assert!(std::mem::needs_drop::<Naive>(), "the twin");
        let (mut window, mut naive) = (Window::default(), Naive::default());
        let one = Counts { failures: 1, ..Counts::default() };
        let mut most = 0;
        for bucket in (0..OUTCOMES).map(|n| n * n / 1_000_000) {
            most = most.max(window.steps_to(bucket));
            window.add(bucket, one);
            naive.0.push((bucket, one));
        }
        assert!((1..=BUCKETS as u64).contains(&most), "{most} steps");
        assert_eq!(window.total(), naive.total(window.latest, BUCKETS as u64));
        assert!(naive.0.len() as u64 == OUTCOMES, "the twin");
        // A leap over all of time is no more work than one over the window.
        assert_eq!(window.steps_to(u64::MAX), BUCKETS as u64);
        window.move_to(u64::MAX);
        assert_eq!(window.total(), Counts::default());
    }

    /// Scenario: an outcome told for a bucket before the latest, and one for a bucket that left the window.
    /// Expected: the first MUST count in its own bucket, the second not at all.
    #[test]
    fn a_late_outcome_counts_where_it_belongs() {
        let one = Counts { failures: 1, ..Counts::default() };
        let mut window = Window::default();
        window.add(20, one);
        window.add(15, one);
        window.add(10, one);
        assert_eq!(window.total().failures, 2);
        window.move_to(25);
        assert_eq!(window.total().failures, 1, "the one of bucket 15 left");
    }
}
