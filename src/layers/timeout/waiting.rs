//! Waiting for the other side: since when, and until when.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::failure::{Clock, Failure};
use crate::time::{Instant, Sleep, now, sleep_until};

use super::crawling::Crawling;

/// What came since the last wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Came {
    Nothing,
    Bytes,
    Output,
}

pin_project! {
    /// Made, boxed with its timer, at the first poll that had to wait: a call that never waits moves none of it.
    #[derive(Debug)]
    pub(super) struct Waiting {
        times: Times,
        #[pin]
        timer: Option<Sleep>,
    }
}

/// Since when it is waited for what.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) started: Instant,
    pub(super) output_since: Instant,
    pub(super) byte_since: Instant,
    /// A consumer that was away was granted a window, and nothing came since.
    pub(super) granted: bool,
    pub(super) crawl: Crawling,
}

/// What clocks found.
pub(super) enum Found {
    /// One has run out.
    Expired(Failure),
    /// The stream crawls, which is news. It goes on.
    Crawling { rate: f64 },
}

// === impl Waiting ===

impl Waiting {
    pub(super) fn new(now: Instant) -> Self {
        let crawl = Crawling::default();
        let times = Times { started: now, output_since: now, byte_since: now, granted: false, crawl };
        Self { times, timer: None }
    }

    pub(super) const fn times(&self) -> &Times {
        &self.times
    }

    pub(super) fn times_mut(self: Pin<&mut Self>) -> &mut Times {
        self.project().times
    }

    /// Ready, and at what time, once it is due. The timer moves only when it fires, or to be sooner.
    pub(super) fn poll_until(self: Pin<&mut Self>, due: Instant, cx: &mut Context<'_>) -> Poll<Instant> {
        let mut slot = self.project().timer;
        if slot.is_none() {
            slot.set(Some(sleep_until(due)));
        }
        let mut timer = slot.as_pin_mut().expect("it was made a line above");
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            let now = now();
            if now >= due {
                return Poll::Ready(now);
            }
            timer.as_mut().reset(due);
        }
    }
}

// === impl Times ===

impl Times {
    /// Since when a clock runs.
    pub(super) const fn since(&self, clock: Clock) -> Instant {
        match clock {
            Clock::Total => self.started,
            Clock::Silence => self.byte_since,
            Clock::Connect | Clock::FirstOutput | Clock::Idle => self.output_since,
        }
    }

    /// The first wait after something came: the clocks it restarts begin here.
    pub(super) const fn restart(&mut self, came: Came, now: Instant) {
        match came {
            Came::Nothing => return,
            Came::Bytes => {}
            Came::Output => self.output_since = now,
        }
        self.byte_since = now;
        self.granted = false;
    }

    /// A new window for both clocks, once until something comes.
    pub(super) const fn grant(&mut self, now: Instant) {
        self.granted = true;
        self.output_since = now;
        self.byte_since = now;
    }
}
