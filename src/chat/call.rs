//! What layers change about a call on its way down.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Extensions;

use crate::time::Instant;

/// Names one call in facts and logs: unique within the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct CallId(u64);

/// What layers change about a call on its way down. Small, so that a copy costs nothing beside the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a call, not a state")]
pub struct Call {
    /// Which call this is.
    pub id: CallId,
    /// When the caller stops waiting: no wait runs past it, and a stream that does is ended.
    pub deadline: Option<Instant>,
    /// When the first output must be there, so that the candidates behind keep their share of the time.
    pub commit_by: Option<Instant>,
    /// Which try on this provider, from 1.
    pub attempt: u16,
    /// Which candidate of a failover, from 0.
    pub candidate: u16,
    /// Whether a limiter may queue it. Off while another candidate stands behind.
    pub patient: bool,
    /// Whether it may go to another candidate.
    pub failover: bool,
    /// Whether one attempt is all it gets here: a trial, behind which another candidate answers.
    pub single: bool,
    /// Whether other candidates must speak the protocol the request was read from.
    pub same_protocol: bool,
    /// Whether the frames of the wire are wanted beside the events, as [`Event::Frame`](super::Event::Frame).
    pub frames: bool,
}

/// The tokens a call will likely take. Attach one to a request to say so exactly; nothing is estimated then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Of input.
    pub input: u64,
    /// The most of output, where the call has a cap.
    pub output: Option<u64>,
}

/// What a layer may ask of a request, and change about it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no request that a layer can ask",
    note = "the service's request must be a `chat::Request` or an `http::Request`; retry and failover ask `Clone`, too: buffer its body"
)]
pub trait Ask {
    /// The call.
    fn call(&self) -> Call;

    /// Changes the call.
    fn set_call(&mut self, call: Call);

    /// Whatever the caller attached: identity, tags, clocks.
    fn extensions(&self) -> Option<&Extensions> {
        None
    }

    /// Whether the answer is a stream of outputs, so that clocks may wait for the next.
    fn is_stream(&self) -> bool {
        true
    }

    /// Whether the model is asked to think first, so that the first output comes late.
    fn is_reasoning(&self) -> bool {
        false
    }

    /// The model asked, where there is one.
    fn model(&self) -> Option<&str> {
        None
    }

    /// The tool called, where it is a call of one.
    fn tool(&self) -> Option<&str> {
        None
    }

    /// The tokens it will take, where somebody counted them: what was attached.
    fn counted(&self) -> Option<Cost> {
        self.extensions().and_then(Extensions::get).copied()
    }

    /// The tokens it will likely take: what was counted, else none.
    fn cost(&self) -> Cost {
        self.counted().unwrap_or_default()
    }

    /// Bytes of the conversation, to tell a smaller request from a larger one; `None` where nobody can say.
    fn size(&self) -> Option<usize> {
        None
    }
}

// === impl CallId ===

impl CallId {
    /// The next free one.
    #[must_use]
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Call ===

impl Call {
    /// A new call.
    #[must_use]
    pub fn new() -> Self {
        Self { id: CallId::next(), ..Self::UNNAMED }
    }

    /// A call that nobody named: what a request says that carries none.
    pub const UNNAMED: Self = Self {
        id: CallId(0),
        deadline: None,
        commit_by: None,
        attempt: 1,
        candidate: 0,
        patient: true,
        failover: true,
        single: false,
        same_protocol: false,
        frames: false,
    };

    /// The instant by which a first output is of use, if there is one.
    #[must_use]
    pub fn first_output_by(&self) -> Option<Instant> {
        match (self.deadline, self.commit_by) {
            (Some(deadline), Some(commit_by)) => Some(deadline.min(commit_by)),
            (deadline, commit_by) => deadline.or(commit_by),
        }
    }
}

impl Default for Call {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> Ask for http::Request<B> {
    fn call(&self) -> Call {
        self.extensions().get().copied().unwrap_or(Call::UNNAMED)
    }

    fn set_call(&mut self, call: Call) {
        self.extensions_mut().insert(call);
    }

    fn extensions(&self) -> Option<&Extensions> {
        Some(self.extensions())
    }
}
