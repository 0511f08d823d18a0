//! What layers change about a call on its way down.

use std::sync::atomic::{AtomicU64, Ordering};

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
