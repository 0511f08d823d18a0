//! Waiting for the other side: since when, and until when.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::time::{Instant, Sleep, now, sleep_until};

/// What came since the last wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Came {
    Nothing,
    Bytes,
    Output,
}

/// Made at the first poll that had to wait.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) started: Instant,
    pub(super) output_since: Instant,
    pub(super) byte_since: Instant,
    /// A consumer that was away was granted a window, and nothing came since.
    pub(super) granted: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

// === impl Waiting ===

impl Waiting {
    pub(super) const fn new(now: Instant) -> Self {
        Self { started: now, output_since: now, byte_since: now, granted: false, timer: None }
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

    /// Ready, and at what time, once it is due. The timer moves only when it fires, or to be sooner.
    pub(super) fn poll_until(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<Instant> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
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
