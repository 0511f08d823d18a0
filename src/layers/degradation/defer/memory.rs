//! A line within the process.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::Notify;
use tower_service::Service;

use crate::chat::{Event, Reply, Request, Watchers};
use crate::failure::{Code, ConfigError, Failure};
use crate::key::Caller;
use crate::time::now;

use super::config::DeferConfig;
use super::line::Line;
use super::queue::{DeferQueue, InLine, JobStatus, Looking};
use super::worker::{Worker, work};

/// A line within the process. Clones are the same line; when the last is dropped its workers come to an end.
///
/// ```
/// # use watertight::chat::{BoxReply, Request};
/// # use watertight::failure::{ConfigError, Failure};
/// use tower::util::BoxCloneSyncService;
/// use watertight::layers::DegradationLayer;
/// use watertight::layers::degradation::{DeferConfig, MemoryQueue};
///
/// # fn stack(service: BoxCloneSyncService<Request, BoxReply, Failure>) -> Result<(), ConfigError> {
/// let queue = MemoryQueue::new(DeferConfig::default())?;
/// tokio::spawn(queue.worker(service));
/// let layer = DegradationLayer::default().deferred(queue);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryQueue {
    handle: Arc<Handle>,
}

/// Closes the line when the last queue is dropped.
struct Handle(Arc<Shared>);

pub(super) struct Shared {
    line: Mutex<Line>,
    pub(super) wake: Notify,
    pub(super) closed: AtomicBool,
    pub(super) workers: AtomicUsize,
    count: AtomicU64,
    /// Keys of the names of jobs, so that nobody can guess one.
    names: [RandomState; 2],
}

// === impl MemoryQueue ===

impl MemoryQueue {
    /// An empty line.
    ///
    /// # Errors
    /// If a field of the configuration cannot work.
    pub fn new(config: DeferConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let shared = Shared {
            line: Mutex::new(Line::new(config)),
            wake: Notify::new(),
            closed: AtomicBool::new(false),
            workers: AtomicUsize::new(0),
            count: AtomicU64::new(0),
            names: [RandomState::new(), RandomState::new()],
        };
        Ok(Self { handle: Arc::new(Handle(Arc::new(shared))) })
    }

    /// Works off the line, one job after another, through this service. Spawn it, and as many as jobs may run at once.
    ///
    /// It counts as a worker from here on, ends when the last queue is dropped, and puts its job back if it is dropped
    /// itself.
    #[must_use = "a worker does nothing unless it is spawned"]
    pub fn worker<S, E, W>(&self, service: S) -> impl Future<Output = ()> + Send + use<S, E, W>
    where
        S: Service<Request, Response = Reply<E, W>, Error = Failure> + Send,
        S::Future: Send,
        E: Stream<Item = Result<Event, Failure>> + Unpin + Send,
        W: Watchers + Unpin + Send,
    {
        work(Worker::new(Arc::clone(&self.handle.0)), service)
    }

    /// What became of a job. Only the caller who deferred it learns of it: to others it is unknown.
    #[must_use]
    pub fn ask(&self, id: &str, caller: Option<&Caller>) -> JobStatus {
        self.handle.0.line().status(id, caller, now())
    }
}

impl DeferQueue for MemoryQueue {
    fn defer(&self, request: Request, not_before: Option<Duration>) -> InLine<'_> {
        let ticket = self.handle.0.join(request, not_before);
        Box::pin(std::future::ready(ticket))
    }

    fn status<'a>(&'a self, id: &'a str, caller: Option<&'a Caller>) -> Looking<'a> {
        Box::pin(std::future::ready(self.ask(id, caller)))
    }
}

impl fmt::Debug for MemoryQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryQueue").finish_non_exhaustive()
    }
}

// === impl Handle ===

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.wake.notify_waiters();
    }
}

// === impl Shared ===

impl Shared {
    pub(super) fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, request: Request, wait: Option<Duration>) -> Result<crate::chat::Ticket, Failure> {
        if self.workers.load(Ordering::Acquire) == 0 {
            return Err(Failure::local(Code::BulkheadFull, "nobody works off the line of deferred calls"));
        }
        let ticket = self.line().join(&self.name(), request, wait, now())?;
        self.wake.notify_one();
        Ok(ticket)
    }

    /// A name that nobody can guess, so that it may be handed out.
    fn name(&self) -> Arc<str> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let [high, low] = [&self.names[0], &self.names[1]].map(|key| key.hash_one(count));
        format!("job-{high:016x}{low:016x}").into()
    }
}
