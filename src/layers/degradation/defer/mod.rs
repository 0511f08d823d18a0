//! The fourth rung: a place in line, and the answer later.
//!
//! A call goes into a [`DeferQueue`] and its caller gets a [`Ticket`](crate::chat::Ticket). [`MemoryQueue`] is one
//! within the process, bounded in what waits and in what is done; a durable one is yours to write. Its
//! [`worker`](MemoryQueue::worker) is a future that you spawn; it runs the calls through a service you give, which
//! should be the same stack. No worker, no promise: then the rung errs.
//!
//! ```text
//! waiting --(due, and a worker is free)--> running --(answer)--> done, kept for a while
//! running --(a failure that passes, tries left)--> waiting, not before the stated wait is over
//! running --(any other failure)--> failed, kept for a while
//! running --(the worker was dropped)--> waiting, at the head of the line
//! ```

mod config;
mod deferring;
mod line;
mod memory;
mod queue;
mod worker;

pub use config::DeferConfig;
pub(super) use deferring::Deferring;
pub use memory::MemoryQueue;
pub use queue::{DeferQueue, Deferred, InLine, JobStatus, Looking};
