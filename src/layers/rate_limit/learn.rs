//! What calls turned out to cost: the usual output, and how far estimates are off.

/// Bins for each doubling of the output: a bin's edge is at most a fifth above what is in it.
const BINS_PER_DOUBLING: u32 = 4;

/// Bins up to 2^24 tokens, beyond what any model says.
const BINS: usize = 24 * BINS_PER_DOUBLING as usize;

/// Answers that must be known before their usual length is: fewer have no 95th percentile.
const LEAST: u32 = 20;

/// So many answers count; beyond, all older ones weigh half. Some hundreds tell the 95th percentile, and a change of
/// traffic shows within as many.
const WINDOW: u32 = 512;

/// The usual output is looked up again each so many answers: it moves no faster.
const REFRESH: u32 = 8;

/// Estimates that must be off in a row, on the same side, before they are corrected.
const ROW: u32 = 10;

/// How far off one must be.
const OFF: f64 = 0.3;

/// The factor stays within these: no script is that far from its usual token length.
const FACTOR: (f64, f64) = (0.25, 8.0);

/// Learns from what calls used. Pure: whoever has a lock asks it. No bin counts beyond [`WINDOW`].
#[derive(Debug)]
pub(super) struct Learner {
    bins: [u16; BINS],
    known: u32,
    factor: f64,
    /// Estimates off in a row, below zero where they were too high.
    row: i32,
    estimated: u64,
    used: u64,
}

// === impl Learner ===

impl Learner {
    pub(super) const fn new() -> Self {
        Self { bins: [0; BINS], known: 0, factor: 1.0, row: 0, estimated: 0, used: 0 }
    }

    /// An answer had so much output. Whether it is time to ask for the usual one again.
    pub(super) fn output(&mut self, tokens: u64) -> bool {
        self.bins[bin(tokens)] += 1;
        self.known += 1;
        if self.known >= WINDOW {
            self.bins.iter_mut().for_each(|count| *count /= 2);
            self.known = self.bins.iter().copied().map(u32::from).sum();
        }
        self.known >= LEAST && (self.known == LEAST || self.known.is_multiple_of(REFRESH))
    }

    /// What 95 % of the answers stayed below, once enough are known.
    pub(super) fn usual_output(&self) -> Option<u32> {
        if self.known < LEAST {
            return None;
        }
        let mut above = self.known / 20;
        for (at, count) in self.bins.iter().enumerate().rev() {
            let count = u32::from(*count);
            if count > above {
                return Some(edge(at));
            }
            above -= count;
        }
        None
    }

    /// An input estimated at so much, before any correction, had so much. Ten in a row that the factor leaves off on the
    /// same side give a new one. It is theirs alone: a call that was sent before the factor moved is not corrected for
    /// twice. Whether it moved.
    pub(super) fn input(&mut self, estimated: u64, used: u64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = |used: u64, estimated: u64| used as f64 / estimated.max(1) as f64;
        let off = ratio(used, estimated) / self.factor;
        let side = i32::from(off > 1.0 + OFF) - i32::from(off < 1.0 - OFF);
        if side == 0 || self.row.signum() == -side {
            (self.row, self.estimated, self.used) = (0, 0, 0);
        }
        if side == 0 {
            return false;
        }
        self.row += side;
        self.estimated = self.estimated.saturating_add(estimated);
        self.used = self.used.saturating_add(used);
        if self.row.unsigned_abs() < ROW {
            return false;
        }
        self.factor = ratio(self.used, self.estimated).clamp(FACTOR.0, FACTOR.1);
        (self.row, self.estimated, self.used) = (0, 0, 0);
        true
    }

    /// By what an estimate is to be multiplied.
    pub(super) const fn factor(&self) -> f64 {
        self.factor
    }
}

/// The bin of an output: by its logarithm, in quarters.
fn bin(tokens: u64) -> usize {
    let tokens = tokens.max(1);
    let doubling = tokens.ilog2();
    let within = if doubling >= 2 { (tokens >> (doubling - 2)) & 3 } else { (tokens << (2 - doubling)) & 3 };
    let bin = doubling * BINS_PER_DOUBLING + u32::try_from(within).unwrap_or(0);
    (bin as usize).min(BINS - 1)
}

/// The most output that falls into a bin.
fn edge(bin: usize) -> u32 {
    let (doubling, within) = (bin / 4, bin % 4);
    let next = (5 + within) << doubling;
    u32::try_from(next.div_ceil(4) - 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: every output up to 100,000 tokens.
    /// Expected: the edge of its bin MUST be at least the output, and at most a quarter above.
    #[test]
    fn a_bin_is_close_to_what_is_in_it() {
        for tokens in 1..100_000_u64 {
            let edge = u64::from(edge(bin(tokens)));
            assert!(edge >= tokens && edge <= tokens + tokens / 4, "{tokens}: {edge}");
        }
    }

    /// Scenario: nineteen answers, then a hundred of which six are long; later all are short.
    /// Expected: MUST be unknown, then long, then short.
    #[test]
    fn the_usual_output_is_that_of_95_in_100() {
        let mut learner = Learner::new();
        (0..19).for_each(|_| _ = learner.output(100));
        assert_eq!(learner.usual_output(), None);
        for n in 0..100 {
            learner.output(if n % 16 == 0 { 4_000 } else { 100 });
        }
        assert!(learner.usual_output().is_some_and(|usual| (4_000..=5_000).contains(&usual)));
        (0..2_000).for_each(|_| _ = learner.output(100));
        assert_eq!(learner.usual_output(), Some(111));
    }

    /// Scenario: nine estimates too low by half and one right; ten too low, and twenty more that were made before the
    /// factor moved; ten that are right as they are; ten by turns.
    /// Expected: only ten in a row that the factor leaves off on one side MUST move it, to what would have been right.
    #[test]
    fn ten_in_a_row_move_the_factor() {
        let mut learner = Learner::new();
        (0..9).for_each(|_| _ = learner.input(100, 200));
        learner.input(100, 100);
        assert!((learner.factor() - 1.0).abs() < 1e-9);
        (0..10).for_each(|_| _ = learner.input(100, 200));
        assert!((learner.factor() - 2.0).abs() < 1e-9);
        (0..20).for_each(|_| _ = learner.input(100, 200));
        assert!((learner.factor() - 2.0).abs() < 1e-9);
        (0..10).for_each(|_| _ = learner.input(100, 100));
        assert!((learner.factor() - 1.0).abs() < 1e-9);
        (0..40).for_each(|n| _ = learner.input(200, if n % 2 == 0 { 100 } else { 400 }));
        assert!((learner.factor() - 1.0).abs() < 1e-9);
        (0..100).for_each(|_| _ = learner.input(1, 1_000_000));
        assert!((learner.factor() - 8.0).abs() < 1e-9, "it stays within bounds");
    }
}
