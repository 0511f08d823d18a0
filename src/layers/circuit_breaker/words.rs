//! What a circuit is asked and told, and what it answers.

use std::time::Duration;

use crate::event;

use super::probes::Ticket;
use super::signals::{Cause, Weight};

/// What a call gets that asks to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Pass,
    Probe(Ticket),
    /// With the time until it is worth asking again, where anybody knows.
    Refuse(Option<Duration>),
}

/// What a call says about the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// It served.
    Success,
    /// It failed.
    Failure,
    /// It wants to be left alone for a while.
    Throttled,
    /// The account is empty there.
    QuotaExhausted,
    /// Nothing: the call ended for reasons of its own.
    Neutral,
}

/// What a call reports at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) verdict: Verdict,
    pub(super) weight: Weight,
    /// How long to stay away, in the words of the other side.
    pub(super) stated: Option<Duration>,
    /// Whether that is to be obeyed though it is no verdict yet.
    pub(super) pauses: bool,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) from: event::Circuit,
    pub(super) to: event::Circuit,
    pub(super) cause: Cause,
    pub(super) rest: Option<Duration>,
}

// === impl Report ===

impl Report {
    /// Of a call that says nothing.
    pub(super) const NEUTRAL: Self = Self {
        verdict: Verdict::Neutral,
        weight: Weight { slow: false, burnt: 0, usage: None },
        stated: None,
        pauses: false,
    };
}
