//! A service behind an admission.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::failure::Fault;
use crate::observe::{Follow, Watch};

use super::admission::{Admission, Admit};
use super::future::ResponseFuture;

/// Puts services behind an admission of your own. See the [module](super).
#[derive(Clone, Copy, Debug)]
pub struct GateLayer<A>(pub A);

/// A service behind an admission. See the [module](super).
#[derive(Clone, Debug)]
pub struct Gate<S, A> {
    inner: S,
    admission: A,
}

// === impl GateLayer ===

impl<S, A: Clone> Layer<S> for GateLayer<A> {
    type Service = Gate<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        Gate::new(inner, self.0.clone())
    }
}

// === impl Gate ===

impl<S, A> Gate<S, A> {
    /// Puts a service behind an admission.
    pub const fn new(inner: S, admission: A) -> Self {
        Self { inner, admission }
    }

    /// Who decides.
    pub const fn admission(&self) -> &A {
        &self.admission
    }
}

impl<S, R, A> Service<R> for Gate<S, A>
where
    S: Service<R> + Clone,
    S::Response: Follow,
    S::Error: Fault,
    A: Admission<R>,
{
    type Response = <S::Response as Follow>::Followed<A::Permit>;
    type Error = S::Error;
    type Future = ResponseFuture<S, R, A::Permit>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        match self.admission.admit(&request) {
            Admit::Granted(permit) => {
                // On duty before the call is made: it may panic.
                let permit = Watch::new(permit);
                ResponseFuture::calling(self.inner.call(request), permit)
            }
            Admit::Refused(failure) => ResponseFuture::refused(failure),
            Admit::Wait(wait) => {
                // Whatever the readied service holds goes with it: kept here, it could be the very slot that the waiter
                // needs in the end, and whoever awaits the call keeps this gate.
                let unready = self.inner.clone();
                self.inner = unready.clone();
                ResponseFuture::waiting(wait, unready, request)
            }
        }
    }
}
