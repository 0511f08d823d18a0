//! Where a script meets its requests: who comes next gets the next line, and each attempt is written down.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Request;
use serde_json::Value;

use super::journal::{Exchange, Journal};
use super::script::{Line, Script};
use super::step::{Connect, Step};

/// A script in progress.
#[derive(Debug)]
pub(super) struct Stage {
    script: Script,
    journal: Journal,
    next: AtomicUsize,
}

// === impl Stage ===

impl Stage {
    pub(super) fn new(script: Script, journal: Journal) -> Self {
        Self { script, journal, next: AtomicUsize::new(0) }
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The step of this request, none when the script is over.
    pub(super) fn enter(&self, request: Request<Bytes>) -> (Option<Step>, Exchange) {
        let line = self.script.line(self.next.fetch_add(1, Ordering::Relaxed));
        let step = line.map(|line| line.word(request.uri().path(), wants_stream(request.body())));
        (step, self.journal.enter(self.script.provider(), request))
    }

    /// The next step if it breaks the connection before a request is read.
    pub(super) fn enter_unread(&self) -> Option<(Step, Exchange)> {
        let next = self.next.load(Ordering::Relaxed);
        let Some(Line::Step(step)) = self.script.line(next) else { return None };
        if step.connect == Connect::Ok {
            return None;
        }
        // A request that came in between has taken the step, and will meet it itself.
        self.next.compare_exchange(next, next + 1, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        // Authority form has no path: nothing of the request is known.
        let mut unread = Request::new(Bytes::new());
        *unread.uri_mut() = http::uri::Authority::from_static("unread").into();
        Some((step.clone(), self.journal.enter(self.script.provider(), unread)))
    }
}

fn wants_stream(body: &[u8]) -> bool {
    let asked = serde_json::from_slice::<Value>(body).ok();
    asked.is_some_and(|asked| asked.get("stream") == Some(&Value::Bool(true)))
}
