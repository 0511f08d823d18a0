//! What the answer of a call lacks, from its head to its last event.

use crate::chat::{Degradation, Level};

/// What an answer lacks by this ladder, and what it lacked when it came from beneath: the two are one record for the
/// caller, but the second may be told anew at the end. Boxed, so that the many answers that lack nothing stay small.
#[derive(Clone, Debug)]
pub(super) struct Lacks {
    own: Option<Degradation>,
    beneath: Option<Degradation>,
}

// === impl Lacks ===

impl Lacks {
    /// Nothing where both say nothing.
    pub(super) fn new(own: Option<Degradation>, beneath: Option<Degradation>) -> Option<Box<Self>> {
        (own.is_some() || beneath.is_some()).then(|| Box::new(Self { own, beneath }))
    }

    /// How far the answer is from what was asked.
    #[cold]
    pub(super) fn level(&self) -> Level {
        let level = |record: &Option<Degradation>| record.as_ref().map_or(Level::None, |record| record.level);
        level(&self.own).max(level(&self.beneath))
    }

    /// All of it.
    pub(super) fn record(self) -> Degradation {
        match (self.own, self.beneath) {
            (Some(own), Some(beneath)) => own.beside(beneath),
            (own, beneath) => own.or(beneath).unwrap_or_default(),
        }
    }

    /// All of it, once the last event came with this record: that knows more than the head from beneath did.
    pub(super) fn at_last(mut self, last: Option<Box<Degradation>>) -> Degradation {
        if let Some(last) = last {
            self.beneath = Some(*last);
        }
        self.record()
    }
}
