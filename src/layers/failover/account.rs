//! The account of a call that had a first output.

use std::sync::Arc;

use crate::chat::{End, Observer};
use crate::failure::Failure;

use super::blow::Blow;
use super::shared::Shared;
use super::standing::Asked;

/// Follows a call to its end, and remembers how it went.
#[derive(Debug)]
pub struct Account {
    shared: Arc<Shared>,
    asked: Asked,
    /// Whether the call was judged already, so that its end says nothing more.
    judged: bool,
}

// === impl Account ===

impl Account {
    #[inline]
    pub(super) fn new(shared: &Arc<Shared>, asked: Asked, judged: bool) -> Self {
        Self { shared: Arc::clone(shared), asked, judged }
    }

    fn remember(&self, failure: Option<&Failure>) {
        let blow = failure.map(|failure| Blow::of(failure, &self.shared.config));
        self.shared.ended(self.asked, blow);
    }
}

impl Observer for Account {
    #[inline]
    fn settle(self, how: End<'_>) {
        match how {
            _ if self.judged => {}
            End::Completed(_) => self.remember(None),
            End::Failed(failure) => self.remember(Some(failure)),
            End::Abandoned => {}
        }
    }
}
