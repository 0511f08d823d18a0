//! A streamed reply, as the tests of the protocols look at it.

use std::collections::VecDeque;

use crate::chat::{Completion, Event};
use crate::failure::Failure;

/// What was told of a reply before its end, and the end.
pub(super) struct Run {
    pub(super) events: Vec<Event>,
    pub(super) end: Result<Completion, Failure>,
}

// === impl Run ===

impl Run {
    /// Of what a decoder returned last, and all that it told.
    pub(super) fn of(end: Result<(), Failure>, told: VecDeque<Event>) -> Self {
        let mut events: Vec<_> = told.into();
        let end = match (end, events.pop()) {
            (Ok(()), Some(Event::Completed(completion))) => Ok(*completion),
            (Ok(()), last) => panic!("the last event is {last:?}"),
            (Err(failure), last) => {
                events.extend(last);
                Err(failure)
            }
        };
        Self { events, end }
    }
}
