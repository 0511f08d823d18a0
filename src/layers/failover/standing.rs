//! Who stands, who rests, and whose trial is due: the mechanism, told the time.

use std::time::Duration;

use crate::failure::{Code, Failure};
use crate::time::Instant;

use super::config::FailoverConfig;

/// What is remembered of the candidates between calls.
#[derive(Debug)]
pub(super) struct Standing {
    at: usize,
    candidates: Vec<Record>,
    trial: bool,
    /// How many rests there were.
    rests: u64,
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
    /// When its trial is due.
    due: Instant,
    /// Until when it said that it must not be asked.
    barred: Option<Instant>,
    /// Which rest it is, from 1.
    number: u64,
}

/// What a failed attempt says about its candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    /// It is bound to the request, or we refused: it says nothing.
    None,
    /// One of several in a row.
    Counted,
    /// It cannot serve for now.
    AtOnce(Option<Duration>),
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
        Self { at: 0, candidates: vec![Record::default(); candidates], trial: false, rests: 0 }
    }

    /// The number of the newest rest.
    pub(super) const fn rests(&self) -> u64 {
        self.rests
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Nothing is remembered that could matter to a call.
    pub(super) fn is_calm(&self) -> bool {
        let calm = |record: &Record| record.failed_in_row == 0 && record.rest.is_none();
        self.at == 0 && !self.trial && self.candidates.iter().all(calm)
    }

    /// The highest candidate above the standing one whose rest is over, taken for a trial.
    pub(super) fn begin_trial(&mut self, now: Instant) -> Option<usize> {
        let due = |record: &Record| record.rest.is_none_or(|rest| now >= rest.due);
        let candidate = self.candidates[..self.at].iter().position(due).filter(|_| !self.trial)?;
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
    pub(super) fn fail_trial(&mut self, candidate: usize, blow: Blow, config: &FailoverConfig, now: Instant) {
        self.trial = false;
        let stated = match blow {
            Blow::AtOnce(stated) => stated,
            Blow::None | Blow::Counted => None,
        };
        self.rest(candidate, stated, config, now);
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

    /// A first output came after this time.
    pub(super) fn measure(&mut self, candidate: usize, took: Duration, now: Instant) {
        /// The weight of the newest, so that about the last ten calls count.
        const WEIGHT: f64 = 0.2;
        let pace = &mut self.candidates[candidate].pace;
        let mean = pace.map_or(took, |(mean, _)| mean.mul_f64(1.0 - WEIGHT) + took.mul_f64(WEIGHT));
        *pace = Some((mean, now));
    }

    /// A call ended well. Its rest is over, unless it began after the call and the call can say nothing about it.
    pub(super) fn served(&mut self, candidate: usize, known: u64) {
        let record = &mut self.candidates[candidate];
        record.failed_in_row = 0;
        record.rest = record.rest.filter(|rest| rest.number > known);
    }

    /// A call failed at a candidate.
    pub(super) fn failed(
        &mut self,
        candidate: usize,
        blow: Blow,
        config: &FailoverConfig,
        now: Instant,
    ) -> Option<Move> {
        let record = &mut self.candidates[candidate];
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
        record.failed_in_row = 0;
        let rest = self.rest(candidate, stated, config, now);
        if candidate != self.at {
            return None;
        }
        let to = self.next_after(candidate)?;
        self.at = to;
        Some(Move { from: candidate, to, rest: rest.due.duration_since(now) })
    }

    /// A rest begins. What it said before holds all the same.
    fn rest(
        &mut self,
        candidate: usize,
        stated: Option<Duration>,
        config: &FailoverConfig,
        now: Instant,
    ) -> Rest {
        self.rests += 1;
        let rest = &mut self.candidates[candidate].rest;
        let before = rest.and_then(|rest| rest.barred);
        *rest.insert(Rest::new(stated, config, now, before, self.rests))
    }

    /// The first below, else above, that does not rest; else the one whose rest is over first.
    fn next_after(&self, candidate: usize) -> Option<usize> {
        let count = self.candidates.len();
        let others = (1..count).map(|step| (candidate + step) % count);
        let awake = others.clone().find(|other| self.candidates[*other].rest.is_none());
        awake.or_else(|| others.min_by_key(|other| self.candidates[*other].rest.map(|rest| rest.due)))
    }
}

// === impl Rest ===

impl Rest {
    fn new(
        stated: Option<Duration>,
        config: &FailoverConfig,
        now: Instant,
        before: Option<Instant>,
        number: u64,
    ) -> Self {
        let rest = stated.unwrap_or(config.spring_back).max(config.dwell);
        let barred = stated.map(|wait| after(now, wait)).max(before);
        let due = after(now, rest);
        Self { due: barred.map_or(due, |barred| due.max(barred)), barred, number }
    }
}

// === impl Blow ===

impl Blow {
    /// What a failure before the first output says.
    pub(super) fn of(failure: &Failure) -> Self {
        match failure.code() {
            Code::QuotaExhausted | Code::CircuitOpen => Self::AtOnce(failure.retry_after()),
            _ if failure.is_local() => Self::None,
            code => match (Self::of_code(code), failure.retry_after()) {
                (Self::Counted, Some(wait)) if !wait.is_zero() => Self::AtOnce(Some(wait)),
                (blow, _) => blow,
            },
        }
    }

    /// What the end of a stream says.
    pub(super) const fn of_code(code: Code) -> Self {
        match code {
            Code::QuotaExhausted => Self::AtOnce(None),
            Code::NotFound
            | Code::ContextLength
            | Code::ContentFilter
            | Code::InvalidRequest
            | Code::PayloadTooLarge
            | Code::Deadline
            | Code::Cancelled
            | Code::AllFailed
            | Code::CircuitOpen
            | Code::BulkheadFull
            | Code::BudgetExhausted
            | Code::LimiterFull
            | Code::CostAboveCapacity => Self::None,
            _ => Self::Counted,
        }
    }
}

/// An instant that far on; a century for what cannot be counted.
fn after(now: Instant, wait: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    now + wait.min(CENTURY)
}
