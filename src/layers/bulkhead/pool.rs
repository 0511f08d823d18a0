//! The threads of a tool that blocks.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use crate::chat::{ToolRequest, ToolResult};
use crate::failure::{Code, ConfigError, Failure};
use crate::observe::{End, Watch};

use super::layer::Bulkhead;
use super::permit::Permit;

/// What a tool does.
pub(super) type Work = dyn Fn(ToolRequest) -> Result<ToolResult, Failure> + Send + Sync;

/// The threads, seen from their callers. Its drop ends them.
pub(super) struct Pool {
    name: Arc<str>,
    bulkhead: Bulkhead,
    queue: Arc<Queue>,
}

/// What the threads look for work in. It is never longer than there are threads: each job has a slot.
#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

struct Job {
    request: ToolRequest,
    permit: Watch<Permit>,
    answer: oneshot::Sender<Result<ToolResult, Failure>>,
}

// === impl Pool ===

impl Pool {
    /// Starts the threads. They end when the pool is dropped, also when not all of them can be started.
    pub(super) fn new(
        name: &str,
        bulkhead: Bulkhead,
        threads: u32,
        work: &Arc<Work>,
    ) -> Result<Self, ConfigError> {
        let pool = Self { name: name.into(), bulkhead, queue: Arc::default() };
        for number in 0..threads {
            let (queue, work) = (Arc::clone(&pool.queue), Arc::clone(work));
            let thread = thread::Builder::new().name(format!("{name}-{number}"));
            let started = thread.spawn(move || queue.work_off(&*work));
            started.map_err(|error| {
                ConfigError::new("max_concurrent", format!("thread {number} cannot be started: {error}"))
            })?;
        }
        Ok(pool)
    }

    /// The tool's.
    pub(super) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) const fn bulkhead(&self) -> &Bulkhead {
        &self.bulkhead
    }

    /// Hands a call that has its slot to the threads.
    pub(super) fn start(
        &self,
        request: ToolRequest,
        permit: Permit,
    ) -> oneshot::Receiver<Result<ToolResult, Failure>> {
        let (answer, receiver) = oneshot::channel();
        let job = Job { request, permit: Watch::new(permit), answer };
        self.queue.jobs.lock().unwrap_or_else(PoisonError::into_inner).waiting.push_back(job);
        self.queue.changed.notify_one();
        receiver
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.jobs.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.queue.changed.notify_all();
    }
}

// === impl Queue ===

impl Queue {
    /// The life of a thread: job after job, until there are no more to come.
    fn work_off(&self, work: &Work) {
        while let Some(job) = self.next() {
            // Whatever panics, be it a sink of facts: the thread is there for the next job.
            let _ = catch_unwind(AssertUnwindSafe(|| job.run(work)));
        }
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            if jobs.closed {
                return None;
            }
            jobs = self.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

// === impl Job ===

impl Job {
    fn run(self, work: &Work) {
        let Self { request, mut permit, answer } = self;
        // Nobody is there for the answer, and nothing is begun yet.
        if answer.is_closed() {
            return;
        }
        let result = catch_unwind(AssertUnwindSafe(|| work(request))).unwrap_or_else(|panic| {
            Err(Failure::new(Code::Server, format!("the tool panicked: {}", words(&*panic))))
        });
        // The slot first: who sees the answer finds it free.
        match &result {
            Ok(_) => permit.settle(End::Completed(None)),
            Err(failure) => permit.settle(End::from(failure)),
        }
        let _ = answer.send(result);
    }
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}
