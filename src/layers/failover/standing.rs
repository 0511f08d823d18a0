//! Who stands, who rests, and whose trial is due: the mechanism, told the time.

use std::sync::Arc;
use std::time::Duration;

use crate::time::Instant;

use super::blow::Blow;
use super::config::{Candidate, FailoverConfig};
use super::snapshot::{CandidateSnapshot, FailoverSnapshot};

/// What is remembered of the candidates between calls.
#[derive(Debug)]
pub(super) struct Standing {
    at: usize,
    /// Since when calls begin there; `None` if they always did.
    since: Option<Instant>,
    /// How many rests there were: each bears its number.
    rests: u32,
    candidates: Vec<Record>,
    trial: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    failed_in_row: u32,
    rest: Option<Rest>,
    /// The mean time to a first output, and when it was last measured.
    pace: Option<(Duration, Instant)>,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Which rest it is, to tell calls that were begun in it from older ones.
    number: u32,
    /// When its trial is due.
    due: Instant,
    /// Until when it said that it must not be asked.
    barred: Option<Instant>,
}

/// Who was asked, and in which rest of theirs, if in any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) candidate: usize,
    pub(super) rest: Option<u32>,
}

/// The standing candidate changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) rest: Duration,
}

// === impl Standing ===

impl Standing {
    pub(super) fn new(candidates: usize) -> Self {
        Self { at: 0, since: None, rests: 0, candidates: vec![Record::default(); candidates], trial: false }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Nothing is remembered that could matter to a call.
    pub(super) fn is_calm(&self) -> bool {
        let calm = |record: &Record| record.failed_in_row == 0 && record.rest.is_none();
        self.at == 0 && !self.trial && self.candidates.iter().all(calm)
    }

    /// Forgets rests that are over where no trial waits for their end: at the standing candidate and below.
    pub(super) fn forget(&mut self, now: Instant) {
        for record in &mut self.candidates[self.at..] {
            record.rest = record.rest.filter(|rest| now < rest.due);
        }
    }

    /// The highest candidate above the standing one whose rest is over, taken for a trial.
    pub(super) fn begin_trial(&mut self, config: &FailoverConfig, now: Instant) -> Option<usize> {
        let stayed = self.since.is_none_or(|since| now >= after(since, config.dwell.unwrap_or_default()));
        let due = |record: &Record| record.rest.is_none_or(|rest| now >= rest.due);
        let candidate = self.candidates[..self.at].iter().position(due).filter(|_| stayed && !self.trial)?;
        self.trial = true;
        Some(candidate)
    }

    /// The trial was dropped and says nothing.
    pub(super) fn drop_trial(&mut self) {
        self.trial = false;
    }

    /// The trial brought a first output.
    pub(super) fn spring_back(&mut self, candidate: usize) {
        self.trial = false;
        self.at = candidate;
        self.candidates[candidate].rest = None;
        self.candidates[candidate].failed_in_row = 0;
    }

    /// The trial failed: a whole new rest.
    pub(super) fn fail_trial(&mut self, asked: Asked, blow: Blow, config: &FailoverConfig, now: Instant) {
        self.trial = false;
        let stated = match blow {
            Blow::AtOnce(stated) => stated,
            Blow::None | Blow::Counted => None,
        };
        self.rest(asked, stated, config, now);
    }

    /// A candidate as it is asked now.
    pub(super) fn ask(&self, candidate: usize) -> Asked {
        Asked { candidate, rest: self.candidates[candidate].rest.map(|rest| rest.number) }
    }

    /// Until when a candidate said that it must not be asked.
    pub(super) fn barred(&self, candidate: usize, now: Instant) -> Option<Instant> {
        self.candidates[candidate].rest?.barred.filter(|until| *until > now)
    }

    /// Whether a candidate's first outputs come later than this. Forgotten after a rest, so that it can show better.
    pub(super) fn is_slow(&self, candidate: usize, config: &FailoverConfig, now: Instant) -> bool {
        let known = self.candidates[candidate].pace;
        known.zip(config.max_first_output).is_some_and(|((pace, measured), most)| {
            pace > most && now.duration_since(measured) < config.spring_back
        })
    }

    /// How everything stands.
    pub(super) fn snapshot(&self, names: &[Candidate], now: Instant) -> FailoverSnapshot {
        let left = |until: Instant| Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero());
        let candidate = |(record, candidate): (&Record, &Candidate)| CandidateSnapshot {
            name: Arc::clone(&candidate.name),
            failed_in_row: record.failed_in_row,
            rests_for: record.rest.and_then(|rest| left(rest.due)),
            told_to_wait: record.rest.and_then(|rest| left(rest.barred?)),
            first_output: record.pace.map(|(pace, _)| pace),
        };
        FailoverSnapshot {
            standing: Arc::clone(&names[self.at].name),
            trial: self.trial,
            candidates: self.candidates.iter().zip(names).map(candidate).collect(),
        }
    }

    /// A first output came after this time.
    pub(super) fn measure(&mut self, candidate: usize, took: Duration, now: Instant) {
        /// The weight of the newest, so that about the last ten calls count.
        const WEIGHT: f64 = 0.2;
        let pace = &mut self.candidates[candidate].pace;
        let mean = pace.map_or(took, |(mean, _)| mean.mul_f64(1.0 - WEIGHT) + took.mul_f64(WEIGHT));
        *pace = Some((mean, now));
    }

    /// A call ended well. It ends the rest that it was begun in, but none that began later.
    pub(super) fn served(&mut self, asked: Asked) {
        let record = &mut self.candidates[asked.candidate];
        record.failed_in_row = 0;
        record.rest = record.rest.filter(|rest| asked.rest != Some(rest.number));
    }

    /// A call failed at a candidate.
    pub(super) fn failed(
        &mut self,
        asked: Asked,
        blow: Blow,
        config: &FailoverConfig,
        now: Instant,
    ) -> Option<Move> {
        let record = &mut self.candidates[asked.candidate];
        let stated = match blow {
            Blow::None => return None,
            Blow::Counted => {
                record.failed_in_row = record.failed_in_row.saturating_add(1);
                if record.failed_in_row < config.move_off_after {
                    return None;
                }
                None
            }
            Blow::AtOnce(stated) => stated,
        };
        let due = self.rest(asked, stated, config, now);
        if asked.candidate != self.at {
            return None;
        }
        let to = self.next_after(asked.candidate, now)?;
        self.at = to;
        self.since = Some(now);
        Some(Move { from: asked.candidate, to, rest: due.duration_since(now) })
    }

    /// Begins a rest. A call that was begun before the present one knew less: it can only make it longer.
    fn rest(
        &mut self,
        asked: Asked,
        stated: Option<Duration>,
        config: &FailoverConfig,
        now: Instant,
    ) -> Instant {
        self.rests = self.rests.wrapping_add(1);
        let record = &mut self.candidates[asked.candidate];
        let known = record.rest.filter(|rest| asked.rest != Some(rest.number));
        let due = after(now, stated.unwrap_or(config.spring_back).max(config.dwell.unwrap_or_default()));
        let barred = stated.map(|wait| after(now, wait));
        let rest = Rest {
            number: self.rests,
            due: known.map_or(due, |known| known.due.max(due)),
            barred: known.and_then(|known| known.barred).max(barred),
        };
        record.failed_in_row = 0;
        record.rest = Some(rest);
        rest.due
    }

    /// The first below, else above, that does not rest; else the one whose rest is over first.
    fn next_after(&self, candidate: usize, now: Instant) -> Option<usize> {
        let count = self.candidates.len();
        let others = (1..count).map(|step| (candidate + step) % count);
        let due = |other: &usize| self.candidates[*other].rest.map(|rest| rest.due).filter(|due| *due > now);
        others.clone().find(|other| due(other).is_none()).or_else(|| others.min_by_key(due))
    }
}

/// An instant that far on; a century for what cannot be counted.
fn after(now: Instant, wait: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    now + wait.min(CENTURY)
}
