//! Atomics: those of the standard library, or those of the model checker that tries every order of events.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
