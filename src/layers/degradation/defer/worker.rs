//! Who works off the line.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_core::Stream;
use tower_service::Service;

use crate::chat::{Ask, Call, Completion, Event, Level, Reply, Request, Watchers};
use crate::failure::{Code, Failure};
use crate::time::{Instant, now, timeout_at};

use super::deferring::waiting_helps;
use super::line::Next;
use super::memory::Shared;
use super::queue::Deferred;

/// One who works off the line; counted while it lives.
pub(super) struct Worker(Arc<Shared>);

/// A job at work, put back if its worker goes away, and failed if it panics.
struct Taken<'a> {
    shared: &'a Shared,
    id: Option<Arc<str>>,
    started: Instant,
}

/// Works off the line until it is closed.
pub(super) async fn work<S, E, W>(worker: Worker, mut service: S)
where
    S: Service<Request, Response = Reply<E, W>, Error = Failure>,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    let shared = &*worker.0;
    loop {
        // From here on no waking is missed.
        let wake = pin!(shared.wake.notified());
        if shared.closed.load(Ordering::Acquire) {
            return;
        }
        let next = shared.line().next(now());
        match next {
            Next::Run(id, request) => {
                let taken = Taken { shared, id: Some(Arc::clone(&id)), started: now() };
                let answer = run(&mut service, job(request, id)).await;
                taken.settle(answer);
            }
            Next::WaitUntil(due) => drop(timeout_at(due, wake).await),
            Next::Nothing => wake.await,
        }
    }
}

/// The whole answer of a job. Words in the place of an answer are the failure that they stand for.
async fn run<S, E, W>(service: &mut S, request: Request) -> Result<Completion, Failure>
where
    S: Service<Request, Response = Reply<E, W>, Error = Failure>,
    E: Stream<Item = Result<Event, Failure>> + Unpin,
    W: Watchers + Unpin,
{
    poll_fn(|cx| service.poll_ready(cx)).await?;
    let completion = service.call(request).await?.collect().await?;
    let record = completion.degradation();
    match record.cause() {
        Some(cause) if record.level == Level::Failed => Err(cause.clone()),
        _ => Ok(completion),
    }
}

/// The request as a worker runs it: nobody waits for it any more, so it has no deadline.
fn job(request: Request, id: Arc<str>) -> Request {
    let call = request.call();
    let mut request = request.attach(Deferred::new(id));
    request.set_call(Call { id: call.id, same_protocol: call.same_protocol, ..Call::UNNAMED });
    request
}

// === impl Worker ===

impl Worker {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        shared.workers.fetch_add(1, Ordering::Release);
        Self(shared)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.workers.fetch_sub(1, Ordering::Release);
    }
}

// === impl Taken ===

impl Taken<'_> {
    fn settle(mut self, answer: Result<Completion, Failure>) {
        let Some(id) = self.id.take() else { return };
        let now = now();
        let mut line = self.shared.line();
        if let Err(failure) = &answer
            && waiting_helps(failure)
            && line.again(&id, failure.retry_after(), now)
        {
            drop(line);
            // Whoever is idle may take it when it is due: this one may be at work then.
            self.shared.wake.notify_one();
            return;
        }
        line.finish(&id, answer, now - self.started, now);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        // A job that panics must not go on to the next worker, and take one after the other along.
        if std::thread::panicking() {
            let (failure, now) = (Failure::new(Code::Server, "the service panicked"), now());
            self.shared.line().finish(&id, Err(failure), now - self.started, now);
            return;
        }
        self.shared.line().put_back(&id);
        self.shared.wake.notify_one();
    }
}
