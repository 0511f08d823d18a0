//! The shape of a chunk, read in one pass and borrowed from its bytes. What is rare is boxed, since the shape is
//! moved at every level of the reading.
//!
//! Strict: what does not fit is read again by [`lenient`](super::lenient).

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::Value;

use crate::chat::Usage;

/// One frame.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) choices: Option<First<'a>>,
    pub(super) usage: Option<Box<Figures>>,
    pub(super) x_groq: Option<Box<Aside>>,
    pub(super) error: Option<IgnoredAny>,
}

/// Usage in its other place.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Aside {
    pub(super) usage: Option<Box<Figures>>,
}

/// Of all choices, the one with index 0.
#[derive(Debug, Default)]
pub(super) struct First<'a>(pub(super) Option<Choice<'a>>);

/// One choice.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Box<Delta<'a>>>,
    /// A whole turn in place of a delta.
    #[serde(borrow)]
    pub(super) message: Option<Box<Delta<'a>>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Str<'a>>,
    pub(super) usage: Option<Box<Figures>>,
    pub(super) error: Option<IgnoredAny>,
}

/// What is new.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) reasoning: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) refusal: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<Fragment<'a>>>,
    #[serde(borrow)]
    pub(super) function_call: Option<Box<Function<'a>>>,
    pub(super) reasoning_details: Option<Box<[Value]>>,
    pub(super) annotations: Option<Box<[Value]>>,
    pub(super) audio: Option<IgnoredAny>,
    /// Thoughts that came as parts of the content; only the lenient reading finds them.
    #[serde(skip)]
    pub(super) thinking: Option<Box<Str<'a>>>,
}

/// A piece of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fragment<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
    /// State that some providers want back with the call.
    pub(super) extra_content: Option<Value>,
    /// Whether it came in the older spelling, outside the list.
    #[serde(skip)]
    pub(super) legacy: bool,
}

/// The function of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<Str<'a>>,
}

/// A string, borrowed unless it holds escapes.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// The figures of `usage`; any may be missing.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Figures {
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
    pub(super) total_tokens: Option<u64>,
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    pub(super) completion_tokens_details: Option<CompletionDetails>,
    pub(super) prompt_cache_hit_tokens: Option<u64>,
    pub(super) cached_tokens: Option<u64>,
}

/// What of the input was cached.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PromptDetails {
    pub(super) cached_tokens: Option<u64>,
    pub(super) cache_write_tokens: Option<u64>,
}

/// What of the output was thought.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompletionDetails {
    pub(super) reasoning_tokens: Option<u64>,
}

// === impl Chunk ===

impl Chunk<'_> {
    /// The figures, wherever they stand.
    pub(super) fn figures(&self) -> Option<Usage> {
        let aside = || self.x_groq.as_ref()?.usage.as_deref()?.usage();
        let choice = || self.choices.as_ref()?.0.as_ref()?.usage.as_deref()?.usage();
        self.usage.as_deref().and_then(Figures::usage).or_else(aside).or_else(choice)
    }
}

// === impl First ===

impl<'de: 'a, 'a> Deserialize<'de> for First<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choices;

        impl<'de> Visitor<'de> for Choices {
            type Value = First<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut choices: A) -> Result<First<'de>, A::Error> {
                let mut first = First(None);
                while let Some(choice) = choices.next_element::<Option<Choice<'de>>>()? {
                    first.offer(choice.unwrap_or_default());
                }
                Ok(first)
            }
        }

        deserializer.deserialize_seq(Choices)
    }
}

impl<'a> First<'a> {
    /// Takes the choice if it is the first with index 0, or with none.
    pub(super) fn offer(&mut self, choice: Choice<'a>) {
        if self.0.is_none() && choice.index.unwrap_or(0) == 0 {
            self.0 = Some(choice);
        }
    }
}

// === impl Str ===

impl Str<'_> {
    /// The text, unless it is empty.
    pub(super) fn spoken(text: &mut Option<Self>) -> Option<String> {
        text.take().filter(|text| !text.0.is_empty()).map(|text| text.0.into_owned())
    }

    /// The text of a string that may be missing.
    pub(super) fn of(text: &Option<Self>) -> &str {
        text.as_ref().map_or("", |text| &text.0)
    }
}

// === impl Figures ===

impl Figures {
    /// The figures in our words; `None` if there are none.
    ///
    /// Reasoning belongs to the output; where a provider counts it beside, as its total shows, it is added.
    pub(super) fn usage(&self) -> Option<Usage> {
        let input = self.prompt_tokens.unwrap_or(0);
        let prompt = self.prompt_tokens_details.unwrap_or_default();
        let reasoning = self.completion_tokens_details.unwrap_or_default().reasoning_tokens.unwrap_or(0);
        let total = self.total_tokens.unwrap_or(0);
        let mut output = self.completion_tokens.unwrap_or_else(|| total.saturating_sub(input));
        let apart = input.saturating_add(output).saturating_add(reasoning);
        if reasoning > 0 && total == apart {
            output = output.saturating_add(reasoning);
        }
        let cached = prompt.cached_tokens.or(self.prompt_cache_hit_tokens).or(self.cached_tokens);
        (input > 0 || output > 0).then(|| Usage {
            input,
            cached_read: cached.unwrap_or(0),
            cached_write: prompt.cache_write_tokens.unwrap_or(0),
            output,
            reasoning,
        })
    }
}
