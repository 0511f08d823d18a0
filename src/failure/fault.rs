//! How an error is asked what it is.

use std::error::Error;

use super::{BoxError, Failure};

/// How a layer asks an error what it is, and wraps a failure of its own into the error its caller expects.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no error that a layer can judge",
    note = "the service's error must be `Failure` or `BoxError`: add `.map_err(BoxError::from)`, or on an axum router `watertight::stack::for_axum`"
)]
pub trait Fault: From<Failure> {
    /// The failure inside, if there is one.
    fn failure(&self) -> Option<&Failure>;

    /// The failure, a stranger becoming [`Code::Transport`](super::Code::Transport) with itself as source.
    fn into_failure(self) -> Failure;
}

impl Fault for Failure {
    fn failure(&self) -> Option<&Failure> {
        Some(self)
    }

    fn into_failure(self) -> Failure {
        self
    }
}

impl Fault for BoxError {
    /// Walks the sources, since a buffer or a timeout around us wraps what it passes.
    fn failure(&self) -> Option<&Failure> {
        let mut error: Option<&(dyn Error + 'static)> = Some(self.as_ref());
        while let Some(this) = error {
            if let Some(failure) = this.downcast_ref() {
                return Some(failure);
            }
            error = this.source();
        }
        None
    }

    fn into_failure(self) -> Failure {
        match self.downcast::<Failure>() {
            Ok(failure) => *failure,
            Err(other) => match other.failure() {
                Some(failure) => failure.clone(),
                None => Failure::stranger(other),
            },
        }
    }
}
