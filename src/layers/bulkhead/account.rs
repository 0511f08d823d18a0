//! What one call has used of its budget, as far as it can be seen.

use crate::chat::{Cost, End, Seen, Sign, Usage, tokens};

use super::budget::Reserved;

/// The account of one call. Small, since it is moved with the permit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    window: u32,
    /// The input, as reserved.
    input: u32,
    /// The declared output, as reserved.
    output: Option<u32>,
    seen: Seen,
    /// Whether the provider told what is used.
    is_told: bool,
    /// Tokens of segments that were declared void: they were paid all the same.
    void: u32,
}

// === impl Account ===

impl Account {
    /// An account of what a call says it costs, and what is to be reserved for it.
    pub(super) fn of(cost: Cost) -> (Self, u64) {
        let (input, output) = (tokens(cost.input), cost.output.map(tokens));
        let account = Self { input, output, seen: Seen::of(input), ..Self::default() };
        (account, account.reserved().tokens)
    }

    /// The tokens are put aside in this window.
    pub(super) const fn within(mut self, window: u32) -> Self {
        self.window = window;
        self
    }

    pub(super) fn reserved(&self) -> Reserved {
        let tokens = u64::from(self.input) + u64::from(self.output.unwrap_or(0));
        Reserved { tokens, window: self.window }
    }

    #[inline]
    pub(super) fn see(&mut self, sign: Sign) {
        match sign {
            Sign::Output(bytes) => self.seen.see(bytes),
            Sign::Reset => {
                self.void = self.void.saturating_add(self.spent());
                (self.seen, self.is_told) = (Seen::of(self.input), false);
            }
            _ => {}
        }
    }

    /// What was used so far.
    pub(super) fn note(&mut self, usage: &Usage) {
        self.seen.note(usage.input, usage.output);
        self.is_told = true;
    }

    /// What it used in the end.
    pub(super) fn used(&self, end: End<'_>) -> u64 {
        let last = match end {
            End::Completed(Some(usage)) => usage.total(),
            // It came whole and says nothing: what was put aside is the best that is known.
            End::Completed(None) if !self.is_known() => self.reserved().tokens,
            _ if self.is_known() => u64::from(self.spent()),
            // Nothing came: nothing is paid.
            _ => 0,
        };
        last.saturating_add(u64::from(self.void))
    }

    /// Input and the output seen, never more than was declared.
    fn spent(&self) -> u32 {
        let output = self.seen.output();
        self.seen.input().saturating_add(self.output.map_or(output, |declared| output.min(declared)))
    }

    /// Whether anything says what it used.
    const fn is_known(&self) -> bool {
        self.is_told || self.seen.has_output()
    }
}
