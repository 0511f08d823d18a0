//! What a call holds from its admission to the end of its response.

use std::sync::Arc;

use crate::chat::{CallId, Usage};
use crate::event::Fact;
use crate::observe::{End, Observer, Outcome, Sign};

use super::account::Account;
use super::state::{GATE, State};

/// A slot, and what was put aside of a budget. It is given back when it is settled: keep it in a
/// [`Watch`](crate::observe::Watch), which does so on drop.
#[derive(Debug)]
pub struct Permit {
    state: Arc<State>,
    call: CallId,
    account: Account,
}

// === impl Permit ===

impl Permit {
    #[inline]
    pub(super) const fn new(state: Arc<State>, account: Account, call: CallId) -> Self {
        Self { state, call, account }
    }
}

impl Observer for Permit {
    #[inline]
    fn see(&mut self, sign: Sign) {
        self.account.see(sign);
    }

    fn note(&mut self, usage: &Usage) {
        self.account.note(usage);
    }

    #[inline]
    fn settle(self, how: End<'_>) {
        let Self { state, call, account } = self;
        state.settle(&account, how);
        let outcome = Outcome::from(how);
        state.shared.facts.emit(&Fact::Released { call, gate: GATE, key: &state.key, outcome });
    }
}
