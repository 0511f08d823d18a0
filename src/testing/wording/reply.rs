//! An answer before it is worded in any protocol.

use serde_json::Value;

use super::super::step::Step;
use super::{Trouble, Wording, chat, messages, responses};

/// The model a reply names when the script names none.
const MODEL: &str = "scripted";

/// An answer: its text in the pieces it is streamed in, and what else a turn may hold.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedReply {
    pub(super) pieces: Vec<String>,
    pub(super) pace_ms: u64,
    delay_ms: u64,
    pub(super) model: String,
    pub(super) usage: Option<Tokens>,
    pub(super) tools: Vec<ToolCall>,
    pub(super) reasoning: Option<String>,
    pub(super) at_limit: bool,
    pub(super) trouble: Option<Trouble>,
}

/// The token counts of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
}

// === impl ScriptedReply ===

impl ScriptedReply {
    /// A text streamed in one piece.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self::of([text])
    }

    /// A text streamed in these pieces.
    pub fn of<T: Into<String>>(pieces: impl IntoIterator<Item = T>) -> Self {
        Self {
            pieces: pieces.into_iter().map(Into::into).filter(|piece: &String| !piece.is_empty()).collect(),
            pace_ms: 0,
            delay_ms: 0,
            model: MODEL.to_owned(),
            usage: None,
            tools: Vec::new(),
            reasoning: None,
            at_limit: false,
            trouble: None,
        }
    }

    /// A text streamed word by word.
    #[must_use]
    pub fn words(text: &str) -> Self {
        Self::of(text.split_inclusive(' '))
    }

    /// The same with so many milliseconds before each piece.
    #[must_use]
    pub fn pace(mut self, ms: u64) -> Self {
        self.pace_ms = ms;
        self
    }

    /// The same after a wait of so many milliseconds before the head.
    #[must_use]
    pub fn after(mut self, ms: u64) -> Self {
        self.delay_ms = ms;
        self
    }

    /// The same in the name of this model.
    #[must_use]
    pub fn model(mut self, model: &str) -> Self {
        model.clone_into(&mut self.model);
        self
    }

    /// The same with token counts.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Some(Tokens { input, output });
        self
    }

    /// The same with reasoning before the text.
    #[must_use]
    pub fn reasoning(mut self, text: &str) -> Self {
        self.reasoning = Some(text.to_owned());
        self
    }

    /// The same with one more call of a tool, after the text.
    #[must_use]
    pub fn calling(mut self, id: &str, name: &str, arguments: Value) -> Self {
        self.tools.push(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments });
        self
    }

    /// The same, ended by the output limit.
    #[must_use]
    pub fn at_limit(mut self) -> Self {
        self.at_limit = true;
        self
    }

    /// The same, with an error in the stream where the end would be. Whole, it is the error alone.
    #[must_use]
    pub fn failing(mut self, trouble: Trouble) -> Self {
        self.trouble = Some(trouble);
        self
    }

    /// The answer as an event stream.
    #[must_use]
    pub fn streamed(&self, wording: Wording) -> Step {
        let step = match wording {
            Wording::Chat => chat::streamed(self),
            Wording::Responses => responses::streamed(self),
            Wording::Messages => messages::streamed(self),
        };
        step.after(self.delay_ms)
    }

    /// The answer as one JSON body.
    #[must_use]
    pub fn whole(&self, wording: Wording) -> Step {
        let step = match (self.trouble, wording) {
            (Some(trouble), _) => trouble.refused(wording),
            (None, Wording::Chat) => Step::json(200, &chat::whole(self)),
            (None, Wording::Responses) => Step::json(200, &responses::whole(self)),
            (None, Wording::Messages) => Step::json(200, &messages::whole(self)),
        };
        step.after(self.delay_ms)
    }

    pub(super) fn text(&self) -> String {
        self.pieces.concat()
    }
}
