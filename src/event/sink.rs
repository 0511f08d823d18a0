//! Where facts go.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Fact, Tracing};

/// Takes facts. Closures do; so do pairs, each part in turn.
///
/// It is called on the call's own path: keep it short, and never block. A panic in it is the sink's alone: the panic
/// hook tells of it, and the call goes on.
pub trait Sink: Send + Sync {
    /// Takes one fact.
    fn emit(&self, fact: &Fact<'_>);
}

/// A sink as layers hold it: shared, and cheap to clone. By default facts go to `tracing`.
#[derive(Clone)]
pub struct Facts(Arc<dyn Sink>);

// === impl Sink ===

impl<F: Fn(&Fact<'_>) + Send + Sync> Sink for F {
    fn emit(&self, fact: &Fact<'_>) {
        self(fact);
    }
}

/// So that whoever made a sink may look at it later.
impl<S: Sink + ?Sized> Sink for Arc<S> {
    fn emit(&self, fact: &Fact<'_>) {
        (**self).emit(fact);
    }
}

impl<A: Sink, B: Sink> Sink for (A, B) {
    fn emit(&self, fact: &Fact<'_>) {
        self.0.emit(fact);
        self.1.emit(fact);
    }
}

// === impl Facts ===

impl Facts {
    /// To this sink.
    pub fn to(sink: impl Sink + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// To this closure.
    ///
    /// ```
    /// use watertight::event::{Fact, Facts};
    ///
    /// let facts = Facts::from_fn(|fact| {
    ///     if let Fact::FailedOver { from, to, .. } = fact {
    ///         eprintln!("from {from} on to {to}");
    ///     }
    /// });
    /// # let _ = facts;
    /// ```
    pub fn from_fn(sink: impl Fn(&Fact<'_>) + Send + Sync + 'static) -> Self {
        Self::to(sink)
    }

    /// Tells one fact. Facts are told while slots are taken and given back, and while calls are dropped: a panic that
    /// went up from here would take a slot along, or end the process.
    pub fn emit(&self, fact: &Fact<'_>) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.0.emit(fact)));
    }
}

impl Sink for Facts {
    fn emit(&self, fact: &Fact<'_>) {
        Self::emit(self, fact);
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self::to(Tracing)
    }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts").finish_non_exhaustive()
    }
}
