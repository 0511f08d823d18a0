//! A stage behind a door: it is ready when the door is open, and counts what is done to it.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tower::Service;
use watertight::chat::{Reply, Request};
use watertight::failure::Failure;

use crate::support::{Body, Log, Playing, Script, Stage};

/// A stage behind a door. Clones stand behind the same door, each with a readiness of its own.
pub struct Door {
    stage: Stage,
    shared: Arc<Mutex<Shared>>,
    ready: Option<Ready>,
}

#[derive(Default)]
struct Shared {
    state: State,
    wakers: Vec<Waker>,
    held: usize,
    unready: usize,
}

#[derive(Clone, Default)]
pub enum State {
    #[default]
    Open,
    Closed,
    /// It will never be ready, for this reason.
    Broken(Failure),
}

/// A slot that a readied service holds until it is called or dropped.
struct Ready(Arc<Mutex<Shared>>);

// === impl Door ===

impl Door {
    /// An open one.
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self { stage: Stage::new("a", &Log::default(), scripts), shared: Arc::default(), ready: None }
    }

    /// Changes the door, and wakes who waits at it.
    pub fn set(&self, state: State) {
        let mut shared = self.shared.lock().unwrap();
        shared.state = state;
        let wakers = std::mem::take(&mut shared.wakers);
        drop(shared);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Calls so far.
    pub fn calls(&self) -> usize {
        self.stage.log.calls().len()
    }

    /// Calls and streams that are not dropped.
    pub fn open(&self) -> usize {
        self.stage.log.open()
    }

    /// Services that were readied, and neither called nor dropped.
    pub fn held(&self) -> usize {
        self.shared.lock().unwrap().held
    }

    /// Calls of a service that was not ready.
    pub fn unready(&self) -> usize {
        self.shared.lock().unwrap().unready
    }
}

impl Service<Request> for Door {
    type Response = Reply<Body>;
    type Error = Failure;
    type Future = Playing;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.ready.is_some() {
            return Poll::Ready(Ok(()));
        }
        let mut shared = self.shared.lock().unwrap();
        match shared.state.clone() {
            State::Open => shared.held += 1,
            State::Closed => {
                shared.wakers.push(cx.waker().clone());
                return Poll::Pending;
            }
            State::Broken(failure) => return Poll::Ready(Err(failure)),
        }
        drop(shared);
        self.ready = Some(Ready(Arc::clone(&self.shared)));
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Playing {
        if self.ready.take().is_none() {
            self.shared.lock().unwrap().unready += 1;
        }
        assert!(self.stage.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
        self.stage.call(request)
    }
}

impl Clone for Door {
    fn clone(&self) -> Self {
        Self { stage: self.stage.clone(), shared: Arc::clone(&self.shared), ready: None }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.0.lock().unwrap().held -= 1;
    }
}
