//! What a line of deferred calls must do.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::chat::{Completion, Request, Ticket};
use crate::failure::Failure;
use crate::key::Caller;

/// A place in line on its way.
pub type InLine<'a> = Pin<Box<dyn Future<Output = Result<Ticket, Failure>> + Send + 'a>>;

/// A look at a job on its way.
pub type Looking<'a> = Pin<Box<dyn Future<Output = JobStatus> + Send + 'a>>;

/// A line of calls that are answered later.
pub trait DeferQueue: Send + Sync {
    /// Puts a call in line, not to be run before this wait is over. It refuses what nobody will ever run.
    fn defer(&self, request: Request, not_before: Option<Duration>) -> InLine<'_>;

    /// What became of a job. Only the caller who deferred it learns of it: to others it is unknown.
    fn status<'a>(&'a self, id: &'a str, caller: Option<&'a Caller>) -> Looking<'a>;
}

/// What became of a job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum JobStatus {
    /// It waits, or is at work.
    Pending(Ticket),
    /// It is answered.
    Done(Arc<Completion>),
    /// It failed for good.
    Failed(Failure),
    /// There is none of this name, or no more.
    Unknown,
}

/// Stands in the extensions of a request that a worker runs: it must not be put in line again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deferred(Arc<str>);

// === impl Deferred ===

impl Deferred {
    /// The job of this name.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The name of the job.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0
    }
}

impl<Q: DeferQueue + ?Sized> DeferQueue for Arc<Q> {
    fn defer(&self, request: Request, not_before: Option<Duration>) -> InLine<'_> {
        (**self).defer(request, not_before)
    }

    fn status<'a>(&'a self, id: &'a str, caller: Option<&'a Caller>) -> Looking<'a> {
        (**self).status(id, caller)
    }
}
