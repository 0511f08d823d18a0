//! Who waits: first come, first served.
//!
//! A fair mutex is the line. Whoever holds it is the head, and the head alone has a timer and takes what comes back: a
//! dear call is not starved by cheap ones behind it. It asks again whenever something changed. Who leaves, at whatever
//! poll, hands the head on; no task and no list of wakers is kept.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use once_cell::race::OnceBox;
use tokio::sync::{Mutex as FairMutex, Notify, OwnedMutexGuard};

use crate::failure::Failure;
use crate::store::{Ahead, Costs};

use super::sync::{AtomicUsize, Ordering};

/// The line of one key. Where nobody ever had to wait it is two words.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: AtomicUsize,
    queue: OnceBox<Queue>,
}

/// What those who wait need, and those who may not.
#[derive(Debug, Default)]
struct Queue {
    head: Arc<FairMutex<()>>,
    /// Told once for each change; only the head listens.
    changed: Notify,
    ahead: Mutex<Ahead>,
    /// The last refusal, said again with another time while whoever was refused has let go of it.
    refused: Mutex<Option<Failure>>,
}

/// A place in the line, counted from its making to its drop.
pub(super) struct Place<T: AsRef<Line>> {
    owner: T,
    costs: Costs,
    turn: Option<Turn>,
    head: Option<OwnedMutexGuard<()>>,
}

type Turn = Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>;

// === impl Line ===

impl Line {
    /// Whether nobody waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// What all who wait will take.
    pub(super) fn ahead(&self) -> Ahead {
        self.queue.get().map_or_else(Ahead::default, |queue| *queue.ahead())
    }

    /// Tells the head that something may have changed.
    #[inline]
    pub(super) fn wake(&self) {
        if !self.is_empty() {
            self.queue().changed.notify_one();
        }
    }

    /// Refuses a place: in these words, for so long.
    pub(super) fn refuse(&self, words: impl FnOnce() -> Failure, wait: Duration) -> Failure {
        let mut last = self.queue().refused.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = last.take().unwrap_or_else(words).with_retry_after(Some(wait));
        *last = Some(failure.clone());
        failure
    }

    /// Ready once something changed since the head looked last.
    pub(super) async fn changed(&self) {
        self.queue().changed.notified().await;
    }

    fn queue(&self) -> &Queue {
        self.queue.get_or_init(Box::default)
    }
}

// === impl Queue ===

impl Queue {
    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Place ===

impl<T: AsRef<Line>> Place<T> {
    /// Joins at the end, at once: the order is that of the calls, not of their first polls.
    pub(super) fn join(owner: T, costs: Costs) -> Self {
        let line = owner.as_ref();
        line.waiting.fetch_add(1, Ordering::SeqCst);
        line.queue().ahead().join(&costs);
        let mut turn: Turn = Box::pin(Arc::clone(&line.queue().head).lock_owned());
        let head = match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(head) => Some(head),
            Poll::Pending => None,
        };
        let turn = if head.is_some() { None } else { Some(turn) };
        Self { owner, costs, turn, head }
    }

    pub(super) const fn owner(&self) -> &T {
        &self.owner
    }

    /// Waits until it is the head.
    pub(super) async fn turn(&mut self) {
        if let Some(turn) = &mut self.turn {
            self.head = Some(turn.await);
            self.turn = None;
        }
    }
}

impl<T: AsRef<Line>> Drop for Place<T> {
    fn drop(&mut self) {
        let line = self.owner.as_ref();
        line.queue().ahead().leave(&self.costs);
        line.waiting.fetch_sub(1, Ordering::SeqCst);
        // The next becomes the head only when this one is no longer counted.
        self.turn = None;
        self.head = None;
    }
}

impl<T: AsRef<Line>> fmt::Debug for Place<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("costs", &self.costs).finish_non_exhaustive()
    }
}
