//! A call's way through the candidates, once it is more than straight to the first.

use std::sync::Arc;

use crate::chat::Call;
use crate::event::Fact;
use crate::failure::{Attempt, Code, FailOver, Failure, Skip};
use crate::time::{Instant, now};

use super::blow::Blow;
use super::config::WhenAllRest;
use super::history::History;
use super::shared::{Shared, Trial};
use super::standing::Asked;

/// A call's way through the candidates, once there is more to know of it than that the first one is asked. In calm
/// times that is at its first failure.
#[derive(Debug)]
pub(super) struct Pass {
    shared: Arc<Shared>,
    call: Call,
    /// The candidate that is asked.
    pub(super) asked: Asked,
    start: usize,
    step: usize,
    trial: Option<Trial>,
    /// Who was tried before the pass came to it.
    tried: Option<usize>,
    /// The window that was too small for the call: from then on only larger ones are asked.
    too_small: Option<u64>,
    /// When the candidate was asked, where its pace is measured.
    since: Option<Instant>,
    history: History,
}

// === impl Pass ===

impl Pass {
    /// The pass of a call that asks the first candidate, of which nothing is remembered.
    pub(super) fn straight(shared: &Arc<Shared>, call: Call) -> Self {
        Self {
            shared: Arc::clone(shared),
            call,
            asked: Asked::default(),
            start: 0,
            step: 0,
            trial: None,
            tried: None,
            too_small: None,
            since: None,
            history: History::default(),
        }
    }

    /// Begins a pass in times that are not calm.
    ///
    /// # Errors
    /// If every candidate was told to wait, and the configuration says to fail then.
    pub(super) fn begin(shared: &Arc<Shared>, call: Call) -> Result<Self, Failure> {
        let mut pass = Self::straight(shared, call);
        let now = now();
        let trial = shared.change(|standing| {
            standing.forget(now);
            pass.start = standing.at();
            let trial = if call.failover { standing.begin_trial(&shared.config, now) } else { None };
            pass.asked = standing.ask(trial.unwrap_or(pass.start));
            trial
        });
        if let Some(candidate) = trial {
            pass.trial = Some(Trial::new(shared, pass.asked));
            shared.facts.emit(&Fact::Trial { call: call.id, candidate: shared.name(candidate) });
        } else if pass.call.failover && !pass.settle_on(now) {
            return Err(pass.history.end(None));
        }
        pass.since = shared.config.max_first_output.map(|_| now);
        Ok(pass)
    }

    /// The call as the candidate is to see it.
    pub(super) fn call(&self) -> Call {
        let mut call = self.shared.call(self.call, self.asked.candidate, || self.behind());
        call.single |= self.trial.is_some();
        call
    }

    /// A first output came: from here the stream is this candidate's.
    pub(super) fn commit(&mut self) -> Vec<Attempt> {
        if let Some(trial) = self.trial.take() {
            let candidate = self.shared.name(self.asked.candidate);
            self.shared.facts.emit(&Fact::SprungBack { call: self.call.id, candidate });
            trial.spring_back();
        }
        if let Some(since) = self.since {
            let now = now();
            let took = now.duration_since(since);
            self.shared.change(|standing| standing.measure(self.asked.candidate, took, now));
        }
        std::mem::take(&mut self.history.attempts)
    }

    /// A candidate failed before its first output: the next one is chosen.
    ///
    /// # Errors
    /// What goes up, if there is none.
    pub(super) fn go_on(&mut self, failure: Failure) -> Result<(), Failure> {
        let now = now();
        let from = self.asked.candidate;
        let local = failure.is_local();
        let failure = failure.with_provider(&self.shared.candidates[from].name);
        let blow = Blow::of(&failure, &self.shared.config);
        // A trial is as if it had not been: whatever came of it, the pass begins after it.
        let on = if let Some(trial) = self.trial.take() {
            self.tried = Some(from);
            // Who refuses without asking the provider says when to come back: the next trial needs no whole rest.
            let wait = local.then(|| failure.retry_after().unwrap_or_default());
            trial.fail(wait.map_or(blow, |wait| Blow::AtOnce(Some(wait))), now);
            true
        } else {
            self.shared.blow(self.asked, blow, now);
            self.step += 1;
            self.history.asked |= !local;
            if failure.code() == Code::ContextLength && !local {
                let window = self.shared.candidates[from].window;
                self.too_small = self.too_small.max(Some(window.unwrap_or(u64::MAX)));
            }
            self.call.failover && self.goes_on(&failure)
        };
        if !on {
            return Err(self.history.append_to(failure));
        }
        self.history.note(&failure);
        let late = self.call.deadline.is_some_and(|deadline| now >= deadline);
        if late || !self.settle_on(now) {
            return Err(self.history.end(Some(failure)));
        }
        let (from, to) = (self.shared.name(from), self.shared.name(self.asked.candidate));
        let call = self.call.id;
        if local {
            self.shared.facts.emit(&Fact::Skipped { call, candidate: from, failure: &failure });
        }
        self.shared.facts.emit(&Fact::FailedOver { call, from, to, failure: &failure });
        self.since = self.shared.config.max_first_output.map(|_| now);
        Ok(())
    }

    fn goes_on(&self, failure: &Failure) -> bool {
        match failure.judgement().fail_over {
            FailOver::Yes | FailOver::LargerWindow => true,
            FailOver::OptIn => self.shared.config.also.contains(&failure.code()),
            FailOver::No => false,
        }
    }

    /// Whether a candidate's window is known to hold what was too much for another's.
    fn fits(&self, candidate: usize) -> bool {
        let window = self.shared.candidates[candidate].window;
        self.too_small.is_none_or(|small| window.is_some_and(|window| window > small))
    }

    /// Chooses the next candidate of the pass that may be asked, noting those that may not.
    fn settle_on(&mut self, now: Instant) -> bool {
        let count = self.shared.candidates.len();
        let mut earliest: Option<(Instant, usize)> = None;
        while self.step < count {
            let candidate = (self.start + self.step) % count;
            if self.tried == Some(candidate) || !self.fits(candidate) {
                self.step += 1;
                continue;
            }
            let Some((until, failure)) = self.refusal(candidate, now) else {
                self.asked = self.shared.ask(candidate);
                return true;
            };
            if until.is_some_and(|until| earliest.is_none_or(|(first, _)| until < first)) {
                earliest = until.map(|until| (until, candidate));
            }
            let name = self.shared.name(candidate);
            let call = self.call.id;
            self.shared.facts.emit(&Fact::Skipped { call, candidate: name, failure: &failure });
            self.history.note(&failure);
            self.step += 1;
        }
        match earliest {
            Some((_, candidate))
                if !self.history.asked && self.shared.config.when_all_rest == WhenAllRest::Earliest =>
            {
                self.asked = self.shared.ask(candidate);
                true
            }
            _ => false,
        }
    }

    /// Why a candidate is passed over without being asked, if it is.
    fn refusal(&self, candidate: usize, now: Instant) -> Option<(Option<Instant>, Failure)> {
        if self.shared.candidates.len() == 1 {
            return None;
        }
        let (barred, slow) = {
            let standing = self.shared.lock();
            (standing.barred(candidate, now), standing.is_slow(candidate, &self.shared.config, now))
        };
        let name = &self.shared.candidates[candidate].name;
        if let Some(until) = barred {
            let failure = Failure::local(Code::LimiterFull, "it rests, and is not asked before its time")
                .with_skip(Skip::Resting)
                .with_retry_after(Some(until.duration_since(now)));
            return Some((Some(until), failure.with_provider(name)));
        }
        let slow = slow && self.behind() > 0;
        let failure = Failure::local(Code::LimiterFull, "its first output comes late").with_skip(Skip::Slow);
        slow.then(|| (None, failure.with_provider(name)))
    }

    /// How many candidates behind this one the pass may come to.
    fn behind(&self) -> usize {
        let count = self.shared.candidates.len();
        let rest = self.step + usize::from(self.trial.is_none())..count;
        if self.shared.is_calm() {
            return rest.len();
        }
        let (now, standing) = (now(), self.shared.lock());
        let trial = self.trial.as_ref().map(|_| self.asked.candidate);
        let is_left = |candidate: &usize| {
            let gone = self.tried == Some(*candidate) || trial == Some(*candidate);
            !gone && self.fits(*candidate) && standing.barred(*candidate, now).is_none()
        };
        rest.map(|step| (self.start + step) % count).filter(is_left).count()
    }
}
