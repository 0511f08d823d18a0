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
//! use watertight::failure::{Code, Failure};
//! use watertight::gate::{Admission, Admit, Gate};
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
//!         Admit::Refused(Failure::local(Code::BulkheadFull, "there are enough calls in flight"))
//!     }
//! }
//!
//! impl Observer for Slot {
//!     fn settle(self, _: End<'_>) {
//!         self.0.fetch_sub(1, Ordering::Relaxed);
//!     }
//! }
//! # fn stack<S>(service: S) -> Gate<S, AtMost> {
//! Gate::new(service, AtMost(8, Arc::default()))
//! # }
//! ```

mod admission;
mod future;
mod service;

pub use admission::{Admission, Admit, Waiting};
pub use future::ResponseFuture;
pub use service::Gate;
