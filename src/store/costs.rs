//! What a call costs.

use crate::chat::Dimension;

/// What a call costs, in each unit that a dimension may count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever reserves must say all of it")]
pub struct Costs {
    /// Requests: one a call.
    pub requests: u32,
    /// Input tokens.
    pub input: u32,
    /// Output tokens, where they are counted for themselves.
    pub output: u32,
    /// Tokens of both kinds, where they are counted together.
    pub tokens: u32,
}

/// The costs of all calls ahead in a line, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    requests: u64,
    input: u64,
    output: u64,
    tokens: u64,
}

// === impl Costs ===

impl Costs {
    /// What it costs there.
    #[must_use]
    #[inline]
    pub const fn of(&self, dimension: Dimension) -> u32 {
        [self.requests, self.input, self.output, self.tokens][unit(dimension)]
    }
}

// === impl Ahead ===

impl Ahead {
    /// What all of them cost there.
    #[must_use]
    pub const fn of(&self, dimension: Dimension) -> u64 {
        [self.requests, self.input, self.output, self.tokens][unit(dimension)]
    }

    /// One more joins.
    pub fn join(&mut self, costs: &Costs) {
        self.requests += u64::from(costs.requests);
        self.input += u64::from(costs.input);
        self.output += u64::from(costs.output);
        self.tokens += u64::from(costs.tokens);
    }

    /// One leaves.
    pub fn leave(&mut self, costs: &Costs) {
        self.requests = self.requests.saturating_sub(u64::from(costs.requests));
        self.input = self.input.saturating_sub(u64::from(costs.input));
        self.output = self.output.saturating_sub(u64::from(costs.output));
        self.tokens = self.tokens.saturating_sub(u64::from(costs.tokens));
    }
}

/// What a dimension counts, as a place among the costs.
#[inline]
const fn unit(dimension: Dimension) -> usize {
    match dimension {
        Dimension::Requests | Dimension::RequestsPerDay => 0,
        Dimension::InputTokens => 1,
        Dimension::OutputTokens => 2,
        Dimension::Tokens | Dimension::TokensPerDay => 3,
    }
}
