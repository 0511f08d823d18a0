//! The gate itself: what waits, what is refused, and what is dropped.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use support::{Act, Log, Script, Stage, fail, request};
use tokio::time::{sleep, timeout};
use tower::limit::ConcurrencyLimit;
use tower::{BoxError, Service, ServiceExt, service_fn};
use watertight::chat::{End, Observer, Outcome, Request};
use watertight::failure::{Code, Failure};
use watertight::gate::{Admission, Admit, Gate};
use watertight::observe::Plain;

/// What the permits of an admission saw.
#[derive(Clone, Debug, Default)]
struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    granted: usize,
    settled: Vec<Outcome>,
}

impl Ledger {
    fn settled(&self) -> Vec<Outcome> {
        self.0.lock().unwrap().settled.clone()
    }

    fn held(&self) -> usize {
        let book = self.0.lock().unwrap();
        book.granted - book.settled.len()
    }

    fn permit(&self) -> Permit {
        self.0.lock().unwrap().granted += 1;
        Permit(self.clone())
    }
}

struct Permit(Ledger);

impl Observer for Permit {
    fn settle(self, how: End<'_>) {
        self.0.0.lock().unwrap().settled.push(how.into());
    }
}

/// Answers as it is told.
#[derive(Clone)]
struct Says(Word, Ledger);

#[derive(Clone, Copy)]
enum Word {
    Yes,
    No,
    /// So many milliseconds later.
    Later(u64),
}

impl<R> Admission<R> for Says {
    type Permit = Permit;

    fn admit(&self, _: &R) -> Admit<Permit> {
        match self.0 {
            Word::Yes => Admit::Granted(self.1.permit()),
            Word::No => Admit::Refused(Failure::local(Code::BulkheadFull, "scripted")),
            Word::Later(ms) => {
                let ledger = self.1.clone();
                Admit::Wait(Box::pin(async move {
                    sleep(Duration::from_millis(ms)).await;
                    Ok(ledger.permit())
                }))
            }
        }
    }
}

/// Takes its time for each call.
async fn slow(_: Request) -> Result<Plain<()>, Failure> {
    sleep(Duration::from_millis(10)).await;
    Ok(Plain(()))
}

/// Scenario: five calls wait for their admission over a service that has one slot, readied by a sixth.
/// Expected: the sixth MUST be served at once: a waiter MUST hold none of the slots; then all MUST be served.
#[tokio::test(start_paused = true)]
async fn a_waiter_holds_no_readiness() {
    let ledger = Ledger::default();
    let one_slot = ConcurrencyLimit::new(service_fn(slow), 1);
    let mut calls = Vec::new();
    for _ in 0..5 {
        let mut gate = Gate::new(one_slot.clone(), Says(Word::Later(100), ledger.clone()));
        // Readiness takes the slot. It stays with the gate, and goes with it; were it the waiter's, the next would hang.
        let ready = timeout(Duration::from_secs(1), gate.ready()).await.expect("a waiter holds the slot");
        let mut call = Box::pin(ready.unwrap().call(request()));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        calls.push(call);
    }
    let begun = tokio::time::Instant::now();
    Gate::new(one_slot, Says(Word::Yes, ledger.clone())).oneshot(request()).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(10));
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(ledger.settled(), [Outcome::Completed(None); 6]);
}

/// Counts how often it is asked whether it is ready, and demands to be asked before each call.
#[derive(Clone, Default)]
struct Strict {
    ready: bool,
    asked: Arc<Mutex<usize>>,
    broken: bool,
}

impl Service<Request> for Strict {
    type Response = Plain<()>;
    type Error = Failure;
    type Future = std::future::Ready<Result<Plain<()>, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        *self.asked.lock().unwrap() += 1;
        if self.broken {
            return Poll::Ready(Err(fail(Code::Connect)));
        }
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called unready");
        std::future::ready(Ok(Plain(())))
    }
}

/// Scenario: a call is refused; the same service is called again, without being asked anew whether it is ready.
/// Expected: the refusal MUST reach the caller and leave the inner service ready, and no permit MUST be out.
#[tokio::test(start_paused = true)]
async fn a_refusal_leaves_the_inner_service_ready() {
    let (inner, ledger) = (Strict::default(), Ledger::default());
    let asked = Arc::clone(&inner.asked);
    let mut gate = Gate::new(inner, Alternating::new(&ledger));
    let failure = gate.ready().await.unwrap().call(request()).await.unwrap_err();
    assert_eq!(failure.code(), Code::BulkheadFull);
    gate.call(request()).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), 1);
    assert_eq!(ledger.settled(), [Outcome::Completed(None)]);
}

/// Refuses the first call, and lets the others pass.
#[derive(Clone)]
struct Alternating(Ledger, Arc<Mutex<bool>>);

impl Alternating {
    fn new(ledger: &Ledger) -> Self {
        Self(ledger.clone(), Arc::default())
    }
}

impl<R> Admission<R> for Alternating {
    type Permit = Permit;

    fn admit(&self, request: &R) -> Admit<Permit> {
        let again = std::mem::replace(&mut *self.1.lock().unwrap(), true);
        Says(if again { Word::Yes } else { Word::No }, self.0.clone()).admit(request)
    }
}

/// Polls so often, and drops.
async fn drop_after<F: Future>(polls: usize, call: F) -> bool {
    let mut call = Box::pin(call);
    for _ in 0..polls {
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return true;
        }
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    false
}

/// Scenario: a call that waits for its admission, then for its answer, then reads a stream, dropped after each number
/// of polls; the same with a call that is let through at once.
/// Expected: after each drop nothing MUST be held, by the gate or beneath it; each permit MUST be settled once.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_poll_gives_everything_back() {
    for word in [Word::Yes, Word::Later(3), Word::No] {
        let mut ended = false;
        for polls in 0..40 {
            let (log, ledger) = (Log::default(), Ledger::default());
            let body = vec![Act::Wait(2), Act::Text("x"), Act::Wait(2), Act::Text("y"), Act::Done];
            let stage = Stage::new("a", &log, [Script { head: vec![Act::Wait(3)], body }]);
            let gate = Gate::new(stage, Says(word, ledger.clone()));
            ended = drop_after(polls, async {
                if let Ok(mut reply) = gate.oneshot(request()).await {
                    while reply.next().await.is_some() {}
                }
            })
            .await;
            assert_eq!(log.open(), 0, "{polls} polls");
            assert_eq!(ledger.held(), 0, "{polls} polls");
        }
        assert!(ended, "the last one is not dropped at all");
    }
}

/// Scenario: a call has its admission after a wait, and then the service beneath is broken before it is ready.
/// Expected: the permit MUST be settled with that failure, and the failure MUST reach the caller.
#[tokio::test(start_paused = true)]
async fn a_service_broken_after_the_wait_settles_the_permit_as_failed() {
    let ledger = Ledger::default();
    let inner = Strict { broken: true, ..Strict::default() };
    let mut gate = Gate::new(inner, Says(Word::Later(5), ledger.clone()));
    let failure = gate.call(request()).await.unwrap_err();
    assert_eq!(failure.code(), Code::Connect);
    assert_eq!(ledger.settled(), [Outcome::Failed(Code::Connect)]);
}

#[derive(Debug, thiserror::Error)]
#[error("a stranger")]
struct Stranger;

/// Breaks with an error that nobody knows: before it is ready, or in the call.
#[derive(Clone)]
struct Breaks {
    in_call: bool,
}

impl Service<Request> for Breaks {
    type Response = Plain<()>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Plain<()>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(if self.in_call { Ok(()) } else { Err(Stranger.into()) })
    }

    fn call(&mut self, _: Request) -> Self::Future {
        Box::pin(async { Err(Stranger.into()) })
    }
}

/// Scenario: the service beneath errs with an error of an unknown kind: in the call, and after a wait before it is ready.
/// Expected: the permit MUST be settled as failed, and the error MUST reach the caller as it is.
#[tokio::test(start_paused = true)]
async fn an_error_of_an_unknown_kind_settles_the_permit_as_failed() {
    for (in_call, word) in [(true, Word::Yes), (true, Word::Later(5)), (false, Word::Later(5))] {
        let ledger = Ledger::default();
        let mut gate = Gate::new(Breaks { in_call }, Says(word, ledger.clone()));
        let error = gate.call(request()).await.unwrap_err();
        assert!(error.is::<Stranger>(), "{error}");
        assert_eq!(ledger.settled(), [Outcome::Failed(Code::Transport)]);
    }
}

/// Scenario: a caller cancels: the service beneath says so itself.
/// Expected: the permit MUST be settled as abandoned, which is neither a failure nor a success.
#[tokio::test(start_paused = true)]
async fn a_cancel_is_no_failure() {
    let ledger = Ledger::default();
    let cancelled = service_fn(|_: Request| async { Err::<Plain<()>, _>(fail(Code::Cancelled)) });
    let gate = Gate::new(cancelled, Says(Word::Yes, ledger.clone()));
    assert_eq!(gate.oneshot(request()).await.unwrap_err().code(), Code::Cancelled);
    assert_eq!(ledger.settled(), [Outcome::Abandoned]);
}

/// Scenario: one handle over a service of one slot, which the handle took when it was made ready; the admission lets the
/// call wait, and the handle is kept while it does.
/// Expected: the call MUST be answered: the slot that the handle holds MUST be had for it, and for the next call, too.
#[tokio::test(start_paused = true)]
async fn a_handle_that_is_kept_does_not_keep_the_slot_from_its_own_call() {
    let ledger = Ledger::default();
    let stage = Stage::new("a", &Log::default(), [Script::says("word")]);
    let mut gate = Gate::new(ConcurrencyLimit::new(stage, 1), Says(Word::Later(1_000), ledger.clone()));
    for _ in 0..3 {
        let call = gate.ready().await.unwrap().call(request());
        let reply = timeout(Duration::from_secs(60), call).await.unwrap().unwrap();
        assert!(support::read(reply).await.1.is_ok());
    }
    assert_eq!(ledger.held(), 0);
}
