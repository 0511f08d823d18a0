//! What one call has used of its budget, as far as it can be seen.

use crate::chat::{Cost, End, Sign, Usage};

use super::budget::Reserved;

/// Bytes of output to a token where the reply does not say: English text, as the tokenizers of the large providers cut
/// it. An answer that ends without a word on usage is rare, and a guess within a factor of two is enough for it.
const BYTES_PER_TOKEN: u32 = 4;

/// The account of one call. Small, since it is moved with the permit; what does not fit 32 bits is as good as endless.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    window: u32,
    /// The input, as reserved.
    input: u32,
    /// The declared output, as reserved.
    output: Option<u32>,
    /// The input that was told.
    told: Option<u32>,
    /// Bytes of output, or as many as a told output stands for.
    seen: u32,
    /// Tokens of segments that were declared void: they were paid all the same.
    void: u32,
}

// === impl Account ===

impl Account {
    /// An account of what a call says it costs, and what is to be reserved for it.
    pub(super) fn of(cost: Cost) -> (Self, u64) {
        let output = cost.output.map(clamp);
        let account = Self { input: clamp(cost.input), output, ..Self::default() };
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
            Sign::Output(bytes) => self.seen = self.seen.saturating_add(bytes),
            Sign::Reset => {
                self.void = self.void.saturating_add(self.spent());
                (self.told, self.seen) = (None, 0);
            }
            _ => {}
        }
    }

    /// What was used so far.
    pub(super) fn note(&mut self, usage: &Usage) {
        self.told = Some(clamp(usage.input));
        self.seen = self.seen.max(clamp(usage.output).saturating_mul(BYTES_PER_TOKEN));
    }

    /// What it used in the end.
    pub(super) fn used(&self, end: End<'_>) -> u64 {
        let last = match end {
            End::Completed(Some(usage)) => usage.total(),
            // It came whole and says nothing: what was put aside is the best that is known.
            End::Completed(None) if self.seen == 0 && self.told.is_none() => self.reserved().tokens,
            _ if self.seen > 0 || self.told.is_some() => u64::from(self.spent()),
            // Nothing came: nothing is paid.
            _ => 0,
        };
        last.saturating_add(u64::from(self.void))
    }

    /// Input and the output seen, never more than was declared.
    fn spent(&self) -> u32 {
        let output = self.seen.div_ceil(BYTES_PER_TOKEN);
        self.told
            .unwrap_or(self.input)
            .saturating_add(self.output.map_or(output, |declared| output.min(declared)))
    }
}

fn clamp(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
