//! What all calls share: who stands, behind a lock that calm times leave alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::chat::Call;
use crate::event::{Fact, Facts};
use crate::time::{Instant, now};

use super::blow::Blow;
use super::config::{Candidate, FailoverConfig};
use super::standing::{Asked, Move, Standing};

/// What a layer and all that came of it share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: FailoverConfig,
    pub(super) candidates: Box<[Candidate]>,
    pub(super) facts: Facts,
    /// No call needs to ask the standing: it is at the first, and nothing is remembered.
    calm: AtomicBool,
    standing: Mutex<Standing>,
}

/// The slot of a trial, given back if nothing came of it.
#[derive(Debug)]
pub(super) struct Trial {
    shared: Arc<Shared>,
    asked: Asked,
    decided: bool,
}

// === impl Shared ===

impl Shared {
    pub(super) fn new(config: FailoverConfig, candidates: Box<[Candidate]>, facts: Facts) -> Self {
        let standing = Mutex::new(Standing::new(candidates.len()));
        Self { config, candidates, facts, calm: AtomicBool::new(true), standing }
    }

    /// Where calls begin.
    #[inline]
    pub(super) fn at(&self) -> usize {
        if self.is_calm() { 0 } else { self.lock().at() }
    }

    /// The call as this candidate is to see it, with so many behind it as are counted where it may go on.
    #[inline]
    pub(super) fn call(&self, mut call: Call, candidate: usize, behind: impl FnOnce() -> usize) -> Call {
        let behind = if call.failover { behind() } else { 0 };
        call.candidate = u16::try_from(candidate).unwrap_or(u16::MAX);
        call.same_protocol |= self.config.same_protocol;
        call.patient = call.patient && behind == 0;
        call.attempt = 1;
        if let Some(deadline) = call.deadline
            && behind > 0
        {
            let left = deadline.saturating_duration_since(now());
            let behind = u32::try_from(behind).unwrap_or(u32::MAX - 1);
            let share = self.config.min_share.min(left / (behind + 1));
            let by = deadline - share.saturating_mul(behind).min(left);
            call.commit_by = Some(call.commit_by.map_or(by, |outer| outer.min(by)));
        }
        call
    }

    /// A candidate as it is asked now.
    pub(super) fn ask(&self, candidate: usize) -> Asked {
        self.lock().ask(candidate)
    }

    /// A call that had a first output ended.
    #[inline]
    pub(super) fn ended(&self, asked: Asked, blow: Option<Blow>) {
        match blow {
            None if self.is_calm() => {}
            None => self.change(|standing| standing.served(asked)),
            Some(blow) => self.blow(asked, blow, now()),
        }
    }

    pub(super) fn blow(&self, asked: Asked, blow: Blow, now: Instant) {
        if let Some(Move { from, to, rest }) =
            self.change(|standing| standing.failed(asked, blow, &self.config, now))
        {
            let (from, to) = (self.name(from), self.name(to));
            self.facts.emit(&Fact::Moved { from, to, rest });
        }
    }

    pub(super) fn name(&self, candidate: usize) -> &str {
        &self.candidates[candidate].name
    }

    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Acquire) && self.config.max_first_output.is_none()
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Standing) -> T) -> T {
        let mut standing = self.lock();
        let changed = change(&mut standing);
        self.calm.store(standing.is_calm(), Ordering::Release);
        changed
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Trial ===

impl Trial {
    pub(super) fn new(shared: &Arc<Shared>, asked: Asked) -> Self {
        Self { shared: Arc::clone(shared), asked, decided: false }
    }

    pub(super) fn spring_back(mut self) {
        self.decided = true;
        self.shared.change(|standing| standing.spring_back(self.asked.candidate));
    }

    pub(super) fn fail(mut self, blow: Blow, now: Instant) {
        self.decided = true;
        let config = &self.shared.config;
        self.shared.change(|standing| standing.fail_trial(self.asked, blow, config, now));
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if !self.decided {
            self.shared.change(Standing::drop_trial);
        }
    }
}
