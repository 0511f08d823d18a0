//! The account of a call that had a first output.

use std::sync::Arc;

use crate::chat::{Observer, Outcome};
use crate::failure::Code;

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
    pub(super) fn new(shared: &Arc<Shared>, asked: Asked) -> Self {
        Self { shared: Arc::clone(shared), asked, judged: false }
    }

    /// For a response that carries a failure which was judged when it came.
    pub(super) const fn judged(mut self) -> Self {
        self.judged = true;
        self
    }

    fn remember(&self, how: Outcome) {
        let config = &self.shared.config;
        let blow = match how {
            Outcome::Completed(_) => None,
            Outcome::Failed(code) => Some(Blow::of_code(code, config)),
            Outcome::Truncated => Some(Blow::of_code(Code::Truncated, config)),
            Outcome::Abandoned => return,
        };
        self.shared.ended(self.asked, blow);
    }
}

impl Observer for Account {
    #[inline]
    fn settle(self, how: Outcome) {
        if !self.judged && !matches!(how, Outcome::Abandoned) {
            self.remember(how);
        }
    }
}
