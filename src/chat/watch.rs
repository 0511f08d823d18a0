//! Following a reply: who watches, and what they are told once.

use crate::failure::{Code, Failure};
use crate::limits::Limits;

use super::sign::Sign;
use super::usage::Usage;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// With its terminal event, and what it used where that is known.
    Completed(Option<Usage>),
    /// With a failure.
    Failed(Code),
    /// Without a terminal event.
    Truncated,
    /// The caller went away. Neutral: neither failure nor success.
    Abandoned,
}

/// The end of a call, as an observer is told it: with the failure itself, since that says when to come back.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum End<'a> {
    /// With its terminal event, and what it used where that is known.
    Completed(Option<Usage>),
    /// With a failure. [`Code::Truncated`] is one: a bare end.
    Failed(&'a Failure),
    /// The caller went away. Neutral: neither failure nor success.
    Abandoned,
}

/// Watches one response: a permit, a trial, an account.
pub trait Observer: Sized + Unpin {
    /// The response began, and told these limits in its head; none where it told none.
    fn meet(&mut self, limits: &Limits) {
        let _ = limits;
    }

    /// Something arrived. On the path of every chunk: no clock, no lock.
    fn see(&mut self, sign: Sign) {
        let _ = sign;
    }

    /// The provider told what was used so far, before the end. A later figure replaces an earlier one.
    fn note(&mut self, usage: &Usage) {
        let _ = usage;
    }

    /// The end, told exactly once.
    fn settle(self, how: End<'_>);
}

/// An observer on duty: told the end once, and [`End::Abandoned`] if it is dropped before.
#[derive(Debug)]
pub struct Watch<O: Observer>(Option<O>);

/// The observers of one reply, side by side: `(((), Watch<A>), Watch<B>)`.
pub trait Watchers {
    /// Passes a sign to each.
    fn see(&mut self, sign: Sign);

    /// Passes on what was used so far.
    fn note(&mut self, usage: &Usage);

    /// Settles each.
    fn settle(&mut self, how: End<'_>);
}

// === impl Outcome ===

impl From<&Failure> for Outcome {
    #[inline]
    fn from(failure: &Failure) -> Self {
        match failure.code() {
            Code::Truncated => Self::Truncated,
            Code::Cancelled => Self::Abandoned,
            code => Self::Failed(code),
        }
    }
}

impl From<End<'_>> for Outcome {
    fn from(end: End<'_>) -> Self {
        match end {
            End::Completed(usage) => Self::Completed(usage),
            End::Failed(failure) => Self::from(failure),
            End::Abandoned => Self::Abandoned,
        }
    }
}

// === impl End ===

impl<'a> From<&'a Failure> for End<'a> {
    /// A cancel is no failure: the caller went away.
    fn from(failure: &'a Failure) -> Self {
        match failure.code() {
            Code::Cancelled => Self::Abandoned,
            _ => Self::Failed(failure),
        }
    }
}

// === impl Watch ===

impl<O: Observer> Watch<O> {
    /// Puts an observer on duty.
    pub const fn new(observer: O) -> Self {
        Self(Some(observer))
    }

    /// Shows it the limits that the head of the response told.
    pub fn meet(&mut self, limits: &Limits) {
        if let Some(observer) = &mut self.0 {
            observer.meet(limits);
        }
    }

    /// Shows it a sign.
    #[inline]
    pub fn see(&mut self, sign: Sign) {
        if let Some(observer) = &mut self.0 {
            observer.see(sign);
        }
    }

    /// Shows it what was used so far.
    #[cold]
    pub fn note(&mut self, usage: &Usage) {
        if let Some(observer) = &mut self.0 {
            observer.note(usage);
        }
    }

    /// Tells it the end; a second time is no time.
    #[inline]
    pub fn settle(&mut self, how: End<'_>) {
        if let Some(observer) = self.0.take() {
            observer.settle(how);
        }
    }
}

impl<O: Observer> Drop for Watch<O> {
    #[inline]
    fn drop(&mut self) {
        self.settle(End::Abandoned);
    }
}

// === impl Watchers ===

impl Watchers for () {
    fn see(&mut self, _: Sign) {}

    fn note(&mut self, _: &Usage) {}

    fn settle(&mut self, _: End<'_>) {}
}

impl<W: Watchers, O: Observer> Watchers for (W, Watch<O>) {
    fn see(&mut self, sign: Sign) {
        self.0.see(sign);
        self.1.see(sign);
    }

    fn note(&mut self, usage: &Usage) {
        self.0.note(usage);
        self.1.note(usage);
    }

    fn settle(&mut self, how: End<'_>) {
        self.0.settle(how);
        self.1.settle(how);
    }
}
