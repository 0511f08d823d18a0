//! Locks and atomics: those of the standard library, or those of the model checker that tries every order of events.

#[cfg(loom)]
pub(super) use loom::sync::Mutex;
#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
pub(super) use std::sync::Mutex;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};
