//! The clocks of one attempt, at work.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::chat::{Call, Sign};
use crate::event::{Fact, Facts};
use crate::failure::{Clock, Code, Failure};
use crate::time::{Instant, Sleep, now, sleep_until};

use super::clocks::{Clocks, Crawl, FirstClock, KeepAlive};

/// A timer found later than this was not polled in time: the consumer was away, and the provider gets a new window.
/// Well above the scheduling delay of a busy machine, well below any clock.
const LATE: Duration = Duration::from_millis(250);

/// What may come without a wait before the clocks, and other tasks, have their turn all the same.
const FLOOD: u32 = 64;

/// The step of the timer: a shorter window would be due again as soon as it was judged.
const TICK: Duration = Duration::from_millis(1);

/// Bytes of a token of ordinary text, near enough for a rate.
const BYTES_PER_TOKEN: f64 = 4.0;

/// Windows that are known before the usual rate counts: fewer are an accident.
const KNOWN: u32 = 20;

/// A stream crawls that comes at less than this share of the usual rate.
const CRAWLING_SHARE: f64 = 0.1;

/// The clocks of one attempt. It moves from the response future into the response.
#[derive(Debug)]
pub struct Watchdog {
    plan: Arc<Plan>,
    call: Call,
    phase: Phase,
    /// What came since the last wait, so that the next wait knows which clocks start anew.
    came: Came,
    /// How often something came since the last wait.
    unwatched: u32,
    waiting: Option<Waiting>,
    crawl: Crawling,
}

/// What the layer decided for calls of one kind.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) clocks: Clocks,
    pub(crate) facts: Facts,
    learned: Mutex<Learned>,
}

/// The rate at which streams through the layer usually come, learned where a crawl is looked for.
#[derive(Debug, Default)]
struct Learned {
    windows: u32,
    mean: f64,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    Nothing,
    Bytes,
    Output,
}

/// Made at the first poll that had to wait.
#[derive(Debug)]
struct Waiting {
    started: Instant,
    output_since: Instant,
    byte_since: Instant,
    /// A consumer that was away was granted a window, and nothing came since.
    granted: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug, Default)]
struct Crawling {
    bytes: u64,
    since: Option<Instant>,
    told: bool,
}

// === impl Plan ===

impl Plan {
    pub(crate) const fn new(clocks: Clocks, facts: Facts) -> Self {
        Self { clocks, facts, learned: Mutex::new(Learned { windows: 0, mean: 0.0 }) }
    }

    /// Whether a window's rate is no crawl; it is learned from then.
    fn is_brisk(&self, rate: f64, crawl: Crawl) -> bool {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let brisk = rate >= (crawl.tokens_per_second * BYTES_PER_TOKEN).max(learned.floor());
        if brisk {
            learned.note(rate);
        }
        brisk
    }
}

// === impl Learned ===

impl Learned {
    /// The rate under which a stream crawls beside the others; zero until enough of them are known.
    fn floor(&self) -> f64 {
        if self.windows < KNOWN { 0.0 } else { self.mean * CRAWLING_SHARE }
    }

    /// Takes in a window that did not crawl.
    fn note(&mut self, rate: f64) {
        self.windows = self.windows.saturating_add(1);
        self.mean += (rate - self.mean) / f64::from(self.windows.min(KNOWN));
    }
}

// === impl Watchdog ===

impl Watchdog {
    pub(crate) fn new(plan: Arc<Plan>, call: Call, streamed: bool) -> Self {
        let phase = if streamed { Phase::First } else { Phase::Whole };
        let (came, crawl) = (Came::Nothing, Crawling::default());
        Self { plan, call, phase, came, unwatched: 0, waiting: None, crawl }
    }

    /// The response head came.
    pub(crate) fn head(&mut self) {
        self.came = self.came.max(Came::Bytes);
        if self.plan.clocks.first == FirstClock::Byte && self.phase == Phase::First {
            self.enter_between();
        }
    }

    /// Something came. No clock is read.
    pub(crate) fn see(&mut self, sign: Sign) {
        self.unwatched += 1;
        match sign {
            Sign::Output(bytes) => {
                self.crawl.bytes += u64::from(bytes);
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
    pub(crate) const fn is_flooded(&self) -> bool {
        self.unwatched >= FLOOD
    }

    /// Called when the other side has nothing ready, or never nothing: ready with a failure once a clock has run
    /// out.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
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
            let timer = waiting.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() > due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(cx));
            let now = now();
            if now < due {
                timer.as_mut().reset(due);
                continue;
            }
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
                waiting.granted = true;
                waiting.output_since = now;
                waiting.byte_since = now;
                None
            }
            Due::Crawl(crawl) => self.judge_crawl(crawl, at, now),
            Due::Clock(clock) => Some(self.expire(clock, now)),
            Due::CommitBy => Some(self.expire(Clock::FirstOutput, now)),
            Due::Deadline => Some(Failure::new(Code::Deadline, "the call's deadline passed")),
        }
    }

    fn judge_crawl(&mut self, crawl: Crawl, at: Instant, now: Instant) -> Option<Failure> {
        let since = self.crawl.since.replace(now)?;
        let bytes = std::mem::take(&mut self.crawl.bytes);
        if now.duration_since(at) > LATE {
            return None; // The consumer was away, and what it did not fetch says nothing.
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate, not an account")]
        let rate = bytes as f64 / now.duration_since(since).as_secs_f64();
        if self.plan.is_brisk(rate, crawl) {
            self.crawl.told = false;
            return None;
        }
        if !std::mem::replace(&mut self.crawl.told, true) {
            self.plan.facts.emit(&Fact::Crawling { call: self.call.id, rate });
        }
        crawl.cut.then(|| self.expire(Clock::Idle, now))
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
        let commit_by = self.call.commit_by.filter(|_| self.phase != Phase::Between);
        [
            self.call.deadline.map(|at| (at, Due::Deadline)),
            after(waiting.started, total).map(|at| (at, Due::Clock(Clock::Total))),
            output.and_then(|(clock, name)| {
                Some((after(waiting.output_since, Some(clock))?, Due::Clock(name)))
            }),
            after(waiting.byte_since, silence).map(|at| (at, Due::Clock(Clock::Silence))),
            commit_by.map(|at| (at, Due::CommitBy)),
            crawl.and_then(|crawl| {
                Some((self.crawl.since?.checked_add(crawl.window.max(TICK))?, Due::Crawl(crawl)))
            }),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(at, _)| *at)
    }

    /// The first wait after something came: the clocks it restarts begin here.
    fn restart(&mut self, now: Instant) {
        let waiting = self.waiting.get_or_insert(Waiting {
            started: now,
            output_since: now,
            byte_since: now,
            granted: false,
            timer: None,
        });
        if self.came == Came::Output {
            waiting.output_since = now;
        }
        if self.came != Came::Nothing {
            waiting.byte_since = now;
            waiting.granted = false;
        }
        self.came = Came::Nothing;
        if self.phase == Phase::Between && self.plan.clocks.crawl.is_some() {
            self.crawl.since.get_or_insert(now);
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
