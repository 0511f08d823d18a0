//! The clocks of one attempt, at work.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::chat::{Call, CallId, Sign};
use crate::failure::{Clock, Code, Failure};
use crate::time::{Instant, now};

use super::clocks::{Crawl, FirstClock, KeepAlive};
use super::plan::Plan;
use super::waiting::{Came, Found, Waiting};

/// A timer found later than this was not polled in time: the consumer was away, and the provider gets a new window.
/// Well above the scheduling delay of a busy machine, well below any clock.
const LATE: Duration = Duration::from_millis(250);

/// What may come without a wait before the clocks, and other tasks, have their turn all the same.
const FLOOD: u32 = 64;

/// The clocks of one attempt. It moves from the response future into the response, and with it from layer to layer:
/// so it is small, and what only a call needs that waits is boxed.
#[derive(Debug)]
pub struct Watchdog {
    plan: Arc<Plan>,
    call: CallId,
    deadline: Option<Instant>,
    /// When the first output must be there; `None` once the attempt can no longer be left for another.
    commit_by: Option<Instant>,
    phase: Phase,
    /// What came since the last wait, so that the next wait knows which clocks start anew.
    came: Came,
    /// How often something came since the last wait.
    unwatched: u32,
    waiting: Option<Pin<Box<Waiting>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not streamed: total and deadline only.
    Whole,
    /// Before the first output.
    First,
    /// Between outputs.
    Between,
}

// === impl Watchdog ===

impl Watchdog {
    #[inline]
    pub(super) fn new(plan: Arc<Plan>, call: Call, streamed: bool) -> Self {
        let phase = if streamed { Phase::First } else { Phase::Whole };
        Self {
            plan,
            call: call.id,
            deadline: call.deadline,
            commit_by: call.commit_by,
            phase,
            came: Came::Nothing,
            unwatched: 0,
            waiting: None,
        }
    }

    /// The response head came.
    #[inline]
    pub(super) fn head(&mut self) {
        self.came = self.came.max(Came::Bytes);
        if self.plan.clocks.first == FirstClock::Byte && self.phase == Phase::First {
            self.enter_between();
        }
    }

    /// From here the answer is the caller's, and no other candidate waits for its turn.
    pub(super) const fn commit(&mut self) {
        self.commit_by = None;
    }

    /// Something came. No clock is read.
    #[inline]
    pub(super) fn see(&mut self, sign: Sign) {
        self.unwatched += 1;
        match sign {
            Sign::Output(bytes) => {
                self.commit();
                if self.plan.clocks.crawl.is_some()
                    && let Some(waiting) = &mut self.waiting
                {
                    waiting.as_mut().times_mut().crawl.see(bytes);
                }
                if self.phase != Phase::Whole {
                    self.enter_between();
                }
            }
            Sign::Liveness if self.restarted_by_life() => self.came = Came::Output,
            // The word of clocks further in.
            Sign::Crawling => {}
            Sign::Reset | Sign::End(_) => {
                self.commit();
                self.came = self.came.max(Came::Bytes);
            }
            Sign::Liveness | Sign::Preamble => self.came = self.came.max(Came::Bytes),
        }
    }

    /// Whether so much came without a wait that the clocks are to be asked before more is taken.
    #[inline]
    pub(super) const fn is_flooded(&self) -> bool {
        self.unwatched >= FLOOD
    }

    /// Called when the other side has nothing ready, or never nothing: ready once a clock has run out, or the stream was
    /// found to crawl.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Found> {
        let flooded = self.is_flooded();
        self.unwatched = 0;
        let expired = self.poll_clocks(cx);
        if flooded && expired.is_pending() {
            cx.waker().wake_by_ref();
        }
        expired
    }

    fn poll_clocks(&mut self, cx: &mut Context<'_>) -> Poll<Found> {
        let fresh = self.waiting.is_none() || self.came != Came::Nothing;
        if fresh {
            self.restart(now());
        }
        loop {
            let Some((due, clock)) = self.next_due() else { return Poll::Pending };
            let Some(waiting) = &mut self.waiting else { return Poll::Pending };
            let now = ready!(waiting.as_mut().poll_until(due, cx));
            if let Some(found) = self.judge(clock, due, now) {
                return Poll::Ready(found);
            }
        }
    }

    /// A due clock: a finding, or a new window.
    fn judge(&mut self, due: Due, at: Instant, now: Instant) -> Option<Found> {
        let times = self.waiting.as_mut()?.as_mut().times_mut();
        let away = now.duration_since(at) > LATE && !times.granted;
        let failure = match due {
            Due::Clock(Clock::FirstOutput | Clock::Idle | Clock::Silence) if away => {
                times.grant(now);
                return None;
            }
            Due::Crawl(crawl) => return self.judge_crawl(crawl, at, now),
            Due::Clock(clock) => self.expire(clock, now),
            Due::CommitBy => self.expire(Clock::FirstOutput, now),
            Due::Deadline => Failure::new(Code::Deadline, "the call's deadline passed"),
        };
        Some(Found::Expired(failure))
    }

    fn judge_crawl(&mut self, crawl: Crawl, at: Instant, now: Instant) -> Option<Found> {
        let (call, plan, away) = (self.call, &self.plan, now.duration_since(at) > LATE);
        let times = self.waiting.as_mut()?.as_mut().times_mut();
        let slow = times.crawl.judge(away, now, |rate| plan.is_brisk(rate, crawl))?;
        let rate = slow.rate;
        if slow.is_news {
            plan.tell_crawling(call, rate);
        }
        if !crawl.cut {
            return slow.is_news.then_some(Found::Crawling { rate });
        }
        plan.tell_expired(call, Clock::Idle, crawl.window);
        let reason = format!("{rate:.1} bytes of output a second over {:?}", crawl.window);
        Some(Found::Expired(Failure::new(Code::Timeout(Clock::Idle), reason)))
    }

    fn expire(&self, clock: Clock, now: Instant) -> Failure {
        let since = self.waiting.as_ref().map_or(now, |waiting| waiting.times().since(clock));
        let after = now.duration_since(since);
        self.plan.tell_expired(self.call, clock, after);
        let what = match clock {
            Clock::Connect => "no connection",
            Clock::FirstOutput => "no output",
            Clock::Idle => "no further output",
            Clock::Silence => "not a byte",
            Clock::Total => "no end",
        };
        let after = Duration::from_millis(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        Failure::new(Code::Timeout(clock), format!("{what} within {after:?}"))
    }

    /// The clock that runs out first.
    fn next_due(&self) -> Option<(Instant, Due)> {
        let (clocks, times) = (&self.plan.clocks, self.waiting.as_ref()?.times());
        let due = |clock: Clock, length: Option<Duration>| {
            Some((times.since(clock).checked_add(length?)?, Due::Clock(clock)))
        };
        let (output, silence, total) = match self.phase {
            Phase::Whole => (None, None, clocks.total),
            Phase::First => {
                (due(Clock::FirstOutput, clocks.first_output), clocks.silence, clocks.total_stream)
            }
            Phase::Between => (due(Clock::Idle, clocks.idle), clocks.silence, clocks.total_stream),
        };
        let crawl = clocks.crawl.filter(|_| self.phase == Phase::Between);
        [
            self.deadline.map(|at| (at, Due::Deadline)),
            due(Clock::Total, total),
            output,
            due(Clock::Silence, silence),
            self.commit_by.map(|at| (at, Due::CommitBy)),
            crawl.and_then(|crawl| Some((times.crawl.due(crawl)?, Due::Crawl(crawl)))),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(at, _)| *at)
    }

    /// The first wait after something came: the clocks it restarts begin here.
    fn restart(&mut self, now: Instant) {
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(Waiting::new(now)));
        let times = waiting.as_mut().times_mut();
        times.restart(self.came, now);
        self.came = Came::Nothing;
        if self.phase == Phase::Between && self.plan.clocks.crawl.is_some() {
            times.crawl.begin(now);
        }
    }

    fn enter_between(&mut self) {
        self.phase = Phase::Between;
        self.came = Came::Output;
    }

    fn restarted_by_life(&self) -> bool {
        match self.plan.clocks.keep_alive {
            KeepAlive::Ignore => false,
            KeepAlive::ExtendFirst => self.phase == Phase::First,
            KeepAlive::Any => true,
        }
    }
}

/// What falls due.
#[derive(Clone, Copy, Debug)]
enum Due {
    Clock(Clock),
    Crawl(Crawl),
    CommitBy,
    Deadline,
}
