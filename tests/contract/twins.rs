//! A small layer that keeps every law, and one twin of it for each way to break one.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service};
use watertight::chat::{Ask, BoxReply, End, Observer, Reply, Request, Watch};
use watertight::event::{Fact, Facts};
use watertight::failure::{Code, Failure};

use crate::door::Door;
use crate::rows::{Lesson, Row};
use crate::support::Script;

/// Calls in flight at most.
const LIMIT: usize = 10;

/// What is wrong with a twin. Numbers, since a row is made by a plain function.
pub type Flaw = u8;
pub const NONE: Flaw = 0;
/// It is ready without asking.
pub const EAGER: Flaw = 1;
/// It asks once, and never again.
pub const REMEMBERS: Flaw = 2;
/// It calls a clone of what it polled.
pub const CALLS_A_CLONE: Flaw = 3;
/// Its clones share one inner service, readiness and all.
pub const SHARES_READINESS: Flaw = 4;
/// It takes its slot when it is polled ready, and gives it back when the call ends.
pub const TAKES_WHEN_READY: Flaw = 5;
/// It gives its slot back only where the call comes to its end.
pub const LEAKS: Flaw = 6;
/// It lets a task of its own make the call.
pub const SPAWNS: Flaw = 7;
/// Its line does not forget who left.
pub const LINGERS: Flaw = 8;
/// It tells facts under its lock.
pub const TELLS_UNDER_LOCK: Flaw = 9;
/// Each service it makes has state of its own.
pub const FRESH: Flaw = 10;
/// It puts failures into its own words.
pub const WRAPS: Flaw = 11;
/// It takes a broken service for a ready one.
pub const SWALLOWS: Flaw = 12;

/// It wakes itself until there is an answer.
pub const SPINS: Flaw = 13;

/// At most [`LIMIT`] calls in flight.
struct TwinLayer<const FLAW: Flaw> {
    shared: Arc<Shared>,
}

struct Twin<const FLAW: Flaw> {
    inner: Arc<Mutex<Door>>,
    shared: Arc<Shared>,
    asked: bool,
}

struct Shared {
    in_flight: AtomicUsize,
    line: Mutex<Vec<Waker>>,
    facts: Facts,
}

/// One call in flight.
struct Slot(Arc<Shared>);

/// A row of a fresh twin.
pub fn twin<const FLAW: Flaw>(facts: &Facts) -> Row {
    let layer = TwinLayer::<FLAW> { shared: Shared::new(facts) };
    let shared = Arc::clone(&layer.shared);
    Row {
        wrap: Box::new(move |door| BoxCloneSyncService::new(layer.layer(door))),
        held: Box::new(move || {
            // As a snapshot would, it looks under the lock.
            let _line = shared.line.try_lock().expect("nobody asks under the lock");
            shared.in_flight.load(Ordering::Relaxed)
        }),
        counts: true,
        presses: true,
        replaces: false,
        breaks: true,
    }
}

/// Calls in flight fill it, so that none reaches the stage any more.
pub fn lesson<const FLAW: Flaw>() -> Lesson {
    Lesson {
        name: "twin",
        make: twin::<FLAW>,
        first: Script::says("x"),
        calls: LIMIT,
        second: Script::says("x"),
        reaches: 0,
    }
}

// === impl Shared ===

impl Shared {
    fn new(facts: &Facts) -> Arc<Self> {
        Arc::new(Self { in_flight: AtomicUsize::new(0), line: Mutex::default(), facts: facts.clone() })
    }
}

// === impl TwinLayer ===

impl<const FLAW: Flaw> Layer<Door> for TwinLayer<FLAW> {
    type Service = Twin<FLAW>;

    fn layer(&self, inner: Door) -> Twin<FLAW> {
        let shared = if FLAW == FRESH { Shared::new(&self.shared.facts) } else { Arc::clone(&self.shared) };
        Twin { inner: Arc::new(Mutex::new(inner)), shared, asked: false }
    }
}

// === impl Twin ===

impl<const FLAW: Flaw> Service<Request> for Twin<FLAW> {
    type Response = BoxReply;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<BoxReply, Failure>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if FLAW == EAGER || (FLAW == REMEMBERS && self.asked) {
            return Poll::Ready(Ok(()));
        }
        let ready = self.inner.lock().unwrap().poll_ready(cx);
        if ready.is_ready() {
            self.asked = true;
            if FLAW == TAKES_WHEN_READY {
                self.shared.in_flight.fetch_add(1, Ordering::Relaxed);
            }
        }
        if FLAW == SWALLOWS { ready.map(|_| Ok(())) } else { ready }
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Some(slot) = self.admit() else {
            let full = Failure::local(Code::BulkheadFull, "there are enough calls in flight");
            return std::future::ready(Err(full)).boxed();
        };
        {
            let _lock = (FLAW == TELLS_UNDER_LOCK).then(|| self.shared.line.lock());
            self.shared.facts.emit(&Fact::Probe { call: request.call().id, key: "twin" });
        }
        let mut inner = self.inner.lock().unwrap();
        let call = if FLAW == CALLS_A_CLONE { inner.clone().call(request) } else { inner.call(request) };
        let shared = Arc::clone(&self.shared);
        async move {
            if FLAW == LINGERS {
                poll_fn(|cx| {
                    shared.line.lock().unwrap().push(cx.waker().clone());
                    Poll::Ready(())
                })
                .await;
            }
            if FLAW == LEAKS {
                shared.in_flight.fetch_add(1, Ordering::Relaxed);
                let answer = call.await;
                shared.in_flight.fetch_sub(1, Ordering::Relaxed);
                return answer.map(|reply| reply.follow(Watch::new(slot)).boxed());
            }
            let answer = match FLAW {
                SPINS => {
                    let mut call = Box::pin(call);
                    poll_fn(move |cx| {
                        cx.waker().wake_by_ref();
                        call.as_mut().poll(cx)
                    })
                    .await
                }
                SPAWNS => tokio::spawn(call).await.expect("it is not cancelled"),
                _ => call.await,
            };
            match answer {
                Ok(reply) => Ok(Reply::follow(reply, Watch::new(slot)).boxed()),
                Err(failure) if FLAW == WRAPS => {
                    Err(Failure::new(failure.code(), format!("the twin met: {failure}")))
                }
                Err(failure) => Err(failure),
            }
        }
        .boxed()
    }
}

impl<const FLAW: Flaw> Twin<FLAW> {
    /// A slot, if there is one.
    fn admit(&self) -> Option<Slot> {
        if FLAW != TAKES_WHEN_READY {
            self.shared.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        let slot = Slot(Arc::clone(&self.shared));
        (self.shared.in_flight.load(Ordering::Relaxed) <= LIMIT).then_some(slot)
    }
}

impl<const FLAW: Flaw> Clone for Twin<FLAW> {
    fn clone(&self) -> Self {
        let inner = match FLAW {
            SHARES_READINESS => Arc::clone(&self.inner),
            _ => Arc::new(Mutex::new(self.inner.lock().unwrap().clone())),
        };
        Self { inner, shared: Arc::clone(&self.shared), asked: false }
    }
}

// === impl Slot ===

impl Observer for Slot {
    /// Dropped, it is given back.
    fn settle(self, _: End<'_>) {}
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
