//! Admit, follow, settle: the one movement of rate limit, bulkhead and circuit breaker.
//!
//! A [`Gate`] asks its [`Admission`] before a call. Admitted, the call goes to the very service that was polled
//! ready, with nothing cloned and nothing boxed, and the permit follows the response to its last byte. Refused, the
//! service stays ready for the next call. Told to wait, the call waits with an unready clone of the service and makes
//! it ready after the admission, and the gate lets go of the readied one: a line of waiters holds none of its slots, nor
//! does whoever awaits a call and keeps the gate.
//!
//! The permit is an [`Observer`](crate::observe::Observer): settled exactly once, with the failure where there is one,
//! and as abandoned when the call is dropped at any point.
//!
//! A gate of your own is an [`Admission`] and a permit:
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use std::time::Duration;
//! use watertight::failure::{Code, Failure};
//! use watertight::gate::{Admission, Admit, GateLayer};
//! use watertight::observe::{End, Observer};
//!
//! #[derive(Clone)]
//! struct AtMost(usize, Arc<AtomicUsize>);
//!
//! struct Slot(Arc<AtomicUsize>);
//!
//! impl<R> Admission<R> for AtMost {
//!     type Permit = Slot;
//!
//!     fn admit(&self, _: &R) -> Admit<Slot> {
//!         if self.1.fetch_add(1, Ordering::Relaxed) < self.0 {
//!             return Admit::Granted(Slot(Arc::clone(&self.1)));
//!         }
//!         self.1.fetch_sub(1, Ordering::Relaxed);
//!         let failure = Failure::local(Code::BulkheadFull, "there are enough calls in flight");
//!         Admit::Refused(failure.with_retry_after(Some(Duration::from_secs(1))))
//!     }
//! }
//!
//! impl Observer for Slot {
//!     fn settle(self, _: End<'_>) {
//!         self.0.fetch_sub(1, Ordering::Relaxed);
//!     }
//! }
//!
//! let layer = GateLayer(AtMost(8, Arc::default()));
//! # let _ = layer;
//! ```
//!
//! A gate that lets calls wait gives [`Admit::Wait`] a boxed future. It looks to its own waiters: nobody else ends a wait
//! at the call's deadline, or knows that another candidate stands behind an impatient call.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tokio::sync::{OwnedSemaphorePermit, Semaphore};
//! use watertight::chat::Ask;
//! use watertight::event::{Fact, Facts};
//! use watertight::failure::{Code, Failure};
//! use watertight::gate::{Admission, Admit};
//! use watertight::observe::{End, Observer};
//! use watertight::time::{now, timeout_at};
//!
//! #[derive(Clone)]
//! struct InTurn {
//!     slots: Arc<Semaphore>,
//!     facts: Facts,
//! }
//!
//! struct Turn(OwnedSemaphorePermit);
//!
//! impl Observer for Turn {
//!     /// The slot goes back with the turn, whatever the end was.
//!     fn settle(self, _: End<'_>) {}
//! }
//!
//! fn full() -> Failure {
//!     Failure::local(Code::BulkheadFull, "all slots are taken").with_retry_after(Some(Duration::from_secs(1)))
//! }
//!
//! impl<R: Ask> Admission<R> for InTurn {
//!     type Permit = Turn;
//!
//!     fn admit(&self, request: &R) -> Admit<Turn> {
//!         let (slots, call) = (Arc::clone(&self.slots), request.call());
//!         if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
//!             return Admit::Granted(Turn(slot));
//!         }
//!         if !call.patient {
//!             let failure = full();
//!             self.facts.emit(&Fact::Refused { call: call.id, gate: "in_turn", key: "in_turn", failure: &failure });
//!             return Admit::Refused(failure);
//!         }
//!         let longest = now() + Duration::from_secs(5);
//!         let last = call.first_output_by().map_or(longest, |by| by.min(longest));
//!         Admit::Wait(Box::pin(async move {
//!             match timeout_at(last, slots.acquire_owned()).await {
//!                 Ok(Ok(slot)) => Ok(Turn(slot)),
//!                 _ => Err(full()),
//!             }
//!         }))
//!     }
//! }
//! ```
//!
//! What such a gate tells as [`Fact::Admitted`](crate::event::Fact::Admitted), `Refused` and `Released`, under a name of
//! its own, is logged and counted as that of the others is.

mod admission;
mod future;
mod service;

pub use admission::{Admission, Admit, Waiting};
pub use future::ResponseFuture;
pub use service::{Gate, GateLayer};
