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
        match dimension {
            Dimension::Requests | Dimension::RequestsPerDay => self.requests,
            Dimension::Tokens | Dimension::TokensPerDay => self.tokens,
            Dimension::InputTokens => self.input,
            Dimension::OutputTokens => self.output,
        }
    }

    /// What is left of it when `other` is taken off; nothing is below zero.
    #[must_use]
    #[inline]
    pub const fn less(&self, other: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(other.requests),
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }

    /// Whether there is nothing.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.requests == 0 && self.input == 0 && self.output == 0 && self.tokens == 0
    }
}

// === impl Ahead ===

impl Ahead {
    /// What all of them cost there.
    #[must_use]
    pub const fn of(&self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Requests | Dimension::RequestsPerDay => self.requests,
            Dimension::Tokens | Dimension::TokensPerDay => self.tokens,
            Dimension::InputTokens => self.input,
            Dimension::OutputTokens => self.output,
        }
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
