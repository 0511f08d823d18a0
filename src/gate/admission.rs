//! What a gate asks before a call.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::failure::Failure;
use crate::observe::Observer;

/// A wait for a permit. Boxed, since whoever waits can spare the box; dropping it gives up the place in line.
pub type Waiting<P> = Pin<Box<dyn Future<Output = Result<P, Failure>> + Send>>;

/// The answer to a call that asks to pass. There is no fourth.
#[expect(clippy::exhaustive_enums, reason = "a gate must know what to do with every answer")]
pub enum Admit<P> {
    /// It passes.
    Granted(P),
    /// It does not; the failure is local and says when to come back.
    Refused(Failure),
    /// It passes later.
    Wait(Waiting<P>),
}

/// Decides who passes. Clones share what they decide by.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot admit `{R}`",
    note = "the service's request must be a `chat::Request`, a `chat::ToolRequest` or an `http::Request`, or implement `Ask`"
)]
pub trait Admission<R>: Clone {
    /// What a call holds from its admission to the end of its response.
    type Permit: Observer;

    /// Decides, at once. What must wait does so in [`Admit::Wait`].
    fn admit(&self, request: &R) -> Admit<Self::Permit>;
}

impl<P> fmt::Debug for Admit<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted(_) => f.write_str("Granted"),
            Self::Refused(failure) => f.debug_tuple("Refused").field(failure).finish(),
            Self::Wait(_) => f.write_str("Wait"),
        }
    }
}
