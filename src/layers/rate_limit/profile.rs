//! Where limits start that nobody declared.

use serde::{Deserialize, Serialize};

use super::config::RateLimitConfig;

/// How the ids of Claude Haiku 3.5 read, there and on other clouds.
const CHARGED: [&str; 2] = ["claude-3-5-haiku", "claude-haiku-3-5"];

/// OpenAI, requests a minute: 500, what its lowest paid tier has for its large models by its own table of limits.
const OPENAI_REQUESTS: u32 = 500;

/// OpenAI, tokens a minute: a million. Its lowest paid tiers have from half of that to twice as much, by model; each
/// answer tells the true figure, so that one guess in their middle is wrong for a call or two.
const OPENAI_TOKENS: u32 = 1_000_000;

/// Anthropic, requests a minute: 400. Its tiers have from 50 to 4,000; its answers tell which, and at this guess a small
/// account meets its limit within seconds and a large one is not held up for long.
const ANTHROPIC_REQUESTS: u32 = 400;

/// Anthropic, input tokens a minute: 400,000, a thousand for each request, which is a conversation of a few turns. Its
/// paid tiers have from 30,000 to some millions, by model, and its answers tell which.
const ANTHROPIC_INPUT: u32 = 400_000;

/// DeepSeek, requests a minute: 300. It publishes no rate and slows answers down instead; ten calls in flight of two
/// seconds each, the shortest that are usual, are as many.
const DEEPSEEK_REQUESTS: u32 = 300;

/// DeepSeek, tokens a minute: 500,000, some 1,700 for each request, so that either of the two may be met first. It tells
/// neither, and the figure is ours.
const DEEPSEEK_TOKENS: u32 = 500_000;

/// DeepSeek, calls in flight: 10. It queues what it cannot serve and keeps the connection alive meanwhile, so that more
/// calls at once only wait longer there. The figure is ours.
const DEEPSEEK_IN_FLIGHT: u32 = 10;

/// A provider we know nothing of, requests a minute: 500, as the lowest paid tier of the largest, whose interface most
/// others copy.
const UNKNOWN_REQUESTS: u32 = 500;

/// A provider we know nothing of, calls in flight: 50. At ten seconds a call that is 300 a minute, below the rate, and
/// no more than a server of one's own usually takes at once. The figure is ours.
const UNKNOWN_IN_FLIGHT: u32 = 50;

/// What is guessed of a provider until it is declared, or told by headers: starting points of ours, of November 2026.
///
/// They are near what a paying account of a low tier has, so that a limit nobody declared seldom refuses what the
/// provider would take. A header raises them, as it lowers them.
///
/// | | requests a minute | tokens a minute | in flight | cache reads |
/// |---|--:|--:|--:|---|
/// | `openai` | 500 | 1,000,000 | – | charged |
/// | `anthropic` | 400 | 400,000 of input | – | free, save for Haiku 3.5 |
/// | `deepseek` | 300 | 500,000 | 10 | charged |
/// | `groq` | – | – | – | free |
/// | `unknown` | 500 | – | 50 | charged |
/// | `headers` | – | – | – | charged |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitProfile {
    /// OpenAI: one bucket for both kinds of tokens, of which input and the declared most of output are taken.
    Openai,
    /// Anthropic: input and output apart; output is taken as it comes.
    Anthropic,
    /// DeepSeek: calls in flight above all.
    Deepseek,
    /// Groq, whose headers tell the limits: one bucket for both kinds of tokens.
    Groq,
    /// A provider we know nothing of.
    #[default]
    Unknown,
    /// Nothing is guessed: only what is declared, and what headers tell.
    Headers,
}

/// How much output is taken from a bucket that counts input and output together, before the output is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReserveOutput {
    /// What the call declares as its most, since the provider takes as much (OpenAI, Azure, Groq, Cerebras); else the
    /// most that 95 % of this key's answers stayed below, else the guess.
    #[default]
    Declared,
    /// The most that 95 % of this key's answers stayed below, nothing while that is unknown: the provider debits what
    /// comes (Mistral).
    Learned,
}

/// The guesses of a profile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guesses {
    pub(super) requests: Option<u32>,
    pub(super) tokens: Option<u32>,
    pub(super) input_tokens: Option<u32>,
    pub(super) in_flight: Option<u32>,
}

// === impl LimitProfile ===

impl LimitProfile {
    pub(super) fn guesses(self) -> Guesses {
        let none = Guesses::default();
        match self {
            Self::Openai => Guesses { requests: Some(OPENAI_REQUESTS), tokens: Some(OPENAI_TOKENS), ..none },
            Self::Anthropic => {
                Guesses { requests: Some(ANTHROPIC_REQUESTS), input_tokens: Some(ANTHROPIC_INPUT), ..none }
            }
            Self::Deepseek => Guesses {
                requests: Some(DEEPSEEK_REQUESTS),
                tokens: Some(DEEPSEEK_TOKENS),
                in_flight: Some(DEEPSEEK_IN_FLIGHT),
                ..none
            },
            Self::Unknown => {
                Guesses { requests: Some(UNKNOWN_REQUESTS), in_flight: Some(UNKNOWN_IN_FLIGHT), ..none }
            }
            Self::Groq | Self::Headers => none,
        }
    }

    /// Whether input of this model that is read from a cache counts against the limits. Of Anthropic's models it does for
    /// those of [`CHARGED`] alone.
    #[inline]
    pub(super) fn charges_cache_reads(self, model: Option<&str>) -> bool {
        let is_charged = |model: &str| CHARGED.iter().any(|name| model.contains(name));
        self != Self::Groq && (self != Self::Anthropic || model.is_some_and(is_charged))
    }
}

// === impl RateLimitConfig ===

impl RateLimitConfig {
    /// Takes from another what is left out here: the profile, and what is limited.
    #[must_use]
    pub(crate) fn filled_from(mut self, other: &Self) -> Self {
        if self.profile == LimitProfile::Unknown {
            self.profile = other.profile;
        }
        self.requests_per_minute = self.requests_per_minute.or(other.requests_per_minute);
        self.tokens_per_minute = self.tokens_per_minute.or(other.tokens_per_minute);
        self.input_tokens_per_minute = self.input_tokens_per_minute.or(other.input_tokens_per_minute);
        self.output_tokens_per_minute = self.output_tokens_per_minute.or(other.output_tokens_per_minute);
        self.requests_per_day = self.requests_per_day.or(other.requests_per_day);
        self.tokens_per_day = self.tokens_per_day.or(other.tokens_per_day);
        self.max_concurrency = self.max_concurrency.or(other.max_concurrency);
        self
    }
}
