//! The line: who is next, how long it takes, what became of whom.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::chat::{Completion, Request, Ticket};
use crate::failure::{Code, Failure};
use crate::key::Caller;
use crate::time::{Instant, after};

use super::config::DeferConfig;
use super::queue::JobStatus;

/// Jobs whose time is averaged: 20, enough to smooth one slow answer, few enough to follow the day's load.
const SAMPLES: usize = 20;

/// The time of a job until one was seen: 15 s, a long answer of a streaming model.
const UNKNOWN_JOB: Duration = Duration::from_secs(15);

/// Who is next, how long it takes, what became of whom.
#[derive(Debug)]
pub(super) struct Line {
    config: DeferConfig,
    jobs: HashMap<Arc<str>, Job>,
    /// Those at work, in the order they began, then those that wait, in the order they came.
    running: VecDeque<Arc<str>>,
    waiting: VecDeque<Arc<str>>,
    finished: VecDeque<(Instant, Arc<str>)>,
    took: VecDeque<Duration>,
}

#[derive(Debug)]
struct Job {
    caller: Option<Caller>,
    state: State,
}

#[derive(Debug)]
enum State {
    Open { request: Request, not_before: Instant, tries: u32 },
    Done(Arc<Completion>),
    Failed(Failure),
}

/// What a worker is to do.
#[derive(Debug)]
pub(super) enum Next {
    Run(Arc<str>, Request),
    WaitUntil(Instant),
    Nothing,
}

// === impl Line ===

impl Line {
    pub(super) fn new(config: DeferConfig) -> Self {
        let (jobs, running, waiting) = (HashMap::new(), VecDeque::new(), VecDeque::new());
        Self { config, jobs, running, waiting, finished: VecDeque::new(), took: VecDeque::new() }
    }

    /// Puts a job at the end of the line.
    pub(super) fn join(
        &mut self,
        id: &Arc<str>,
        request: Request,
        wait: Option<Duration>,
        now: Instant,
    ) -> Result<Ticket, Failure> {
        self.sweep(now);
        if self.running.len() + self.waiting.len() >= self.config.max_waiting {
            let full = Failure::local(Code::BulkheadFull, "the line of deferred calls is full");
            return Err(full.with_retry_after(Some(self.mean())));
        }
        let caller = request.extensions.get::<Caller>().cloned();
        let not_before = wait.map_or(now, |wait| after(now, wait));
        let job = Job { caller, state: State::Open { request, not_before, tries: 0 } };
        self.jobs.insert(Arc::clone(id), job);
        self.waiting.push_back(Arc::clone(id));
        Ok(self.ticket(id))
    }

    /// The next job that is due, now at work.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        let (mut soonest, mut due) = (None::<Instant>, None);
        for (at, id) in self.waiting.iter().enumerate() {
            let Some(Job { state: State::Open { request, not_before, tries }, .. }) = self.jobs.get_mut(id)
            else {
                continue;
            };
            if *not_before <= now {
                *tries += 1;
                due = Some((at, request.clone()));
                break;
            }
            soonest = Some(soonest.map_or(*not_before, |soonest| soonest.min(*not_before)));
        }
        match due.and_then(|(at, request)| Some((self.waiting.remove(at)?, request))) {
            Some((id, request)) => {
                self.running.push_back(Arc::clone(&id));
                Next::Run(id, request)
            }
            None => soonest.map_or(Next::Nothing, Next::WaitUntil),
        }
    }

    /// A job at work failed, and may be tried again: after the stated wait, else ours, doubled each time. Says whether
    /// it will be.
    pub(super) fn again(&mut self, id: &Arc<str>, stated: Option<Duration>, now: Instant) -> bool {
        let Some(Job { state: State::Open { not_before, tries, .. }, .. }) = self.jobs.get_mut(id) else {
            return false;
        };
        if *tries >= self.config.tries {
            return false;
        }
        let own = self.config.again.saturating_mul(1_u32.checked_shl(*tries - 1).unwrap_or(u32::MAX));
        *not_before = after(now, stated.unwrap_or(own));
        self.running.retain(|running| running != id);
        self.waiting.push_back(Arc::clone(id));
        true
    }

    /// The worker of a job went away: it is next again, as if it had not begun.
    pub(super) fn put_back(&mut self, id: &Arc<str>) {
        if let Some(Job { state: State::Open { tries, .. }, .. }) = self.jobs.get_mut(id) {
            *tries -= 1;
            self.running.retain(|running| running != id);
            self.waiting.push_front(Arc::clone(id));
        }
    }

    /// A job at work came to its end, after so long.
    pub(super) fn finish(
        &mut self,
        id: &Arc<str>,
        end: Result<Completion, Failure>,
        took: Duration,
        now: Instant,
    ) {
        self.running.retain(|running| running != id);
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.state = match end {
            Ok(completion) => State::Done(Arc::new(completion)),
            Err(failure) => State::Failed(failure),
        };
        self.finished.push_back((now, Arc::clone(id)));
        self.took.push_back(took);
        if self.took.len() > SAMPLES {
            self.took.pop_front();
        }
        self.sweep(now);
    }

    /// What became of a job, for the caller who deferred it.
    pub(super) fn status(&mut self, id: &str, caller: Option<&Caller>, now: Instant) -> JobStatus {
        self.sweep(now);
        match self.jobs.get_key_value(id).filter(|(_, job)| job.caller.as_ref() == caller) {
            None => JobStatus::Unknown,
            Some((id, Job { state: State::Open { .. }, .. })) => JobStatus::Pending(self.ticket(id)),
            Some((_, Job { state: State::Done(answer), .. })) => JobStatus::Done(Arc::clone(answer)),
            Some((_, Job { state: State::Failed(failure), .. })) => JobStatus::Failed(failure.clone()),
        }
    }

    /// The place of a job, and its likely wait: its position times the mean of the last jobs.
    fn ticket(&self, id: &Arc<str>) -> Ticket {
        let mut line = self.running.iter().chain(&self.waiting);
        let position = line.position(|other| other == id).map_or(1, |at| at + 1);
        let times = u32::try_from(position).unwrap_or(u32::MAX);
        Ticket::new(&**id, position, self.mean().saturating_mul(times))
    }

    fn mean(&self) -> Duration {
        match u32::try_from(self.took.len()) {
            Ok(0) | Err(_) => UNKNOWN_JOB,
            Ok(count) => self.took.iter().sum::<Duration>() / count,
        }
    }

    /// Forgets ends that are too old or too many.
    fn sweep(&mut self, now: Instant) {
        let (keep, most) = (self.config.keep, self.config.max_finished);
        while self.finished.front().is_some_and(|(at, _)| self.finished.len() > most || now - *at >= keep) {
            if let Some((_, id)) = self.finished.pop_front() {
                self.jobs.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
