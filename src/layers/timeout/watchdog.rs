//! The clocks of one attempt, at work.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::chat::{Call, Sign};
use crate::event::Fact;
use crate::failure::{Clock, Code, Failure};
use crate::time::{Instant, now};

use super::clocks::{Crawl, FirstClock, KeepAlive};
use super::crawling::Crawling;
use super::plan::Plan;
use super::waiting::{Came, Waiting};

/// A timer found later than this was not polled in time: the consumer was away, and the provider gets a new window.
/// Well above the scheduling delay of a busy machine, well below any clock.
const LATE: Duration = Duration::from_millis(250);

/// What may come without a wait before the clocks, and other tasks, have their turn all the same.
const FLOOD: u32 = 64;

/// The clocks of one attempt. It moves from the response future into the response.
#[derive(Debug)]
pub struct Watchdog {
    plan: Arc<Plan>,
    call: Call,
    /// When the first output must be there; `None` once the attempt can no longer be left for another.
    commit_by: Option<Instant>,
    phase: Phase,
    /// What came since the last wait, so that the next wait knows which clocks start anew.
    came: Came,
    /// How often something came since the last wait.
    unwatched: u32,
    waiting: Option<Waiting>,
    crawl: Crawling,
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
    pub(super) fn new(plan: Arc<Plan>, call: Call, streamed: bool) -> Self {
        let phase = if streamed { Phase::First } else { Phase::Whole };
        Self {
            plan,
            call,
            commit_by: call.commit_by,
            phase,
            came: Came::Nothing,
            unwatched: 0,
            waiting: None,
            crawl: Crawling::default(),
        }
    }

    /// The response head came.
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
    pub(super) fn see(&mut self, sign: Sign) {
        if matches!(sign, Sign::Output(_) | Sign::Reset | Sign::End(_)) {
            self.commit();
        }
        self.unwatched += 1;
        match sign {
            Sign::Output(bytes) => {
                self.crawl.see(bytes);
                if self.phase != Phase::Whole {
                    self.enter_between();
                }
            }
            Sign::Liveness if self.restarted_by_life() => self.came = Came::Output,
            Sign::Liveness | Sign::Preamble | Sign::Reset | Sign::End(_) => {
                self.came = self.came.max(Came::Bytes);
            }
        }
    }

    /// Whether so much came without a wait that the clocks are to be asked before more is taken.
    pub(super) const fn is_flooded(&self) -> bool {
        self.unwatched >= FLOOD
    }

    /// Called when the other side has nothing ready, or never nothing: ready with a failure once a clock has run
    /// out.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        let flooded = self.is_flooded();
        self.unwatched = 0;
        let expired = self.poll_clocks(cx);
        if flooded && expired.is_pending() {
            cx.waker().wake_by_ref();
        }
        expired
    }

    fn poll_clocks(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        let fresh = self.waiting.is_none() || self.came != Came::Nothing;
        if fresh {
            self.restart(now());
        }
        loop {
            let Some((due, clock)) = self.next_due() else { return Poll::Pending };
            let Some(waiting) = &mut self.waiting else { return Poll::Pending };
            let now = ready!(waiting.poll_until(due, cx));
            if let Some(failure) = self.judge(clock, due, now) {
                return Poll::Ready(failure);
            }
        }
    }

    /// A due clock: a failure, or a new window.
    fn judge(&mut self, due: Due, at: Instant, now: Instant) -> Option<Failure> {
        let waiting = self.waiting.as_mut()?;
        let away = now.duration_since(at) > LATE && !waiting.granted;
        match due {
            Due::Clock(Clock::FirstOutput | Clock::Idle | Clock::Silence) if away => {
                waiting.grant(now);
                None
            }
            Due::Crawl(crawl) => self.judge_crawl(crawl, at, now),
            Due::Clock(clock) => Some(self.expire(clock, now)),
            Due::CommitBy => Some(self.expire(Clock::FirstOutput, now)),
            Due::Deadline => Some(Failure::new(Code::Deadline, "the call's deadline passed")),
        }
    }

    fn judge_crawl(&mut self, crawl: Crawl, at: Instant, now: Instant) -> Option<Failure> {
        let slow =
            self.crawl.judge(now.duration_since(at) > LATE, now, |rate| self.plan.is_brisk(rate, crawl))?;
        let (call, rate) = (self.call.id, slow.rate);
        if slow.is_news {
            self.plan.facts.emit(&Fact::Crawling { call, rate });
        }
        if !crawl.cut {
            return None;
        }
        self.plan.facts.emit(&Fact::TimedOut { call, clock: Clock::Idle, after: crawl.window });
        let reason = format!("{rate:.1} bytes of output a second over {:?}", crawl.window);
        Some(Failure::new(Code::Timeout(Clock::Idle), reason))
    }

    fn expire(&self, clock: Clock, now: Instant) -> Failure {
        let since = self.waiting.as_ref().map_or(now, |waiting| match clock {
            Clock::Total => waiting.started,
            Clock::Silence => waiting.byte_since,
            _ => waiting.output_since,
        });
        let after = now.duration_since(since);
        self.plan.facts.emit(&Fact::TimedOut { call: self.call.id, clock, after });
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
        let waiting = self.waiting.as_ref()?;
        let clocks = &self.plan.clocks;
        let after =
            |since: Instant, clock: Option<Duration>| clock.and_then(|clock| since.checked_add(clock));
        let (output, total, silence) = match self.phase {
            Phase::Whole => (None, clocks.total, None),
            Phase::First => (
                clocks.first_output.map(|clock| (clock, Clock::FirstOutput)),
                clocks.total_stream,
                clocks.silence,
            ),
            Phase::Between => {
                (clocks.idle.map(|clock| (clock, Clock::Idle)), clocks.total_stream, clocks.silence)
            }
        };
        let crawl = clocks.crawl.filter(|_| self.phase == Phase::Between);
        [
            self.call.deadline.map(|at| (at, Due::Deadline)),
            after(waiting.started, total).map(|at| (at, Due::Clock(Clock::Total))),
            output.and_then(|(clock, name)| {
                Some((after(waiting.output_since, Some(clock))?, Due::Clock(name)))
            }),
            after(waiting.byte_since, silence).map(|at| (at, Due::Clock(Clock::Silence))),
            self.commit_by.map(|at| (at, Due::CommitBy)),
            crawl.and_then(|crawl| Some((self.crawl.due(crawl)?, Due::Crawl(crawl)))),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(at, _)| *at)
    }

    /// The first wait after something came: the clocks it restarts begin here.
    fn restart(&mut self, now: Instant) {
        self.waiting.get_or_insert_with(|| Waiting::new(now)).restart(self.came, now);
        self.came = Came::Nothing;
        if self.phase == Phase::Between && self.plan.clocks.crawl.is_some() {
            self.crawl.begin(now);
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
