//! One block of a streamed reply.

use serde_json::Value;

use crate::chat::{Content, Event, Extra, Part, Reasoning};

use super::delta::Said;
use super::{Fields, MESSAGES};

/// One block, and what is known of it beside its events.
#[derive(Debug)]
pub(super) struct Block {
    /// The index on the wire, which some use twice.
    pub(super) label: u64,
    pub(super) index: u32,
    state: State,
    /// Whether any event spoke of it.
    pub(super) told: bool,
    /// What has no event.
    pub(super) extra: Extra,
    citations: Vec<Value>,
}

/// What a block is while it is open.
#[derive(Debug)]
pub(super) enum State {
    Text,
    Call {
        /// The arguments that came whole in the start, until deltas prove to follow.
        whole: String,
    },
    Thinking(Box<Reasoning>),
    /// One that is told whole when it closes.
    Whole(Box<Part>),
    /// One we have no word for.
    Other {
        fields: Fields,
        /// The pieces of its `input`.
        input: String,
    },
    Closed,
}

// === impl Block ===

impl Block {
    pub(super) fn new(label: u64, index: u32, state: State) -> Self {
        Self { label, index, state, told: false, extra: Extra::NONE, citations: Vec::new() }
    }

    /// Takes in what a delta adds. `None` if there is nothing to tell.
    pub(super) fn say(&mut self, said: Said<'_>) -> Option<Event> {
        let index = self.index;
        let (event, empty) = match (&mut self.state, said) {
            (State::Text, Said::Text(text)) => {
                let empty = text.is_empty();
                (Event::Text { index, text: text.into_owned() }, empty)
            }
            (State::Call { whole }, Said::Arguments(text)) => {
                let empty = text.is_empty();
                if !empty {
                    whole.clear();
                }
                (Event::ToolArguments { index, text: text.into_owned() }, empty)
            }
            (State::Thinking(reasoning), Said::Thinking(text)) => {
                let empty = text.is_empty();
                reasoning.text.push_str(&text);
                (Event::Reasoning { index, text: text.into_owned() }, empty)
            }
            (State::Thinking(reasoning), Said::Signature(signature)) => {
                reasoning.signature = Some(signature.into_owned());
                return None;
            }
            (State::Other { fields, input }, said) => {
                absorb(fields, input, said);
                return Some(Event::KeepAlive);
            }
            // A delta of another kind of block, or after the block's stop.
            _ => return Some(Event::KeepAlive),
        };
        self.told |= !empty;
        (!empty).then_some(event)
    }

    /// Takes in a delta of a kind we do not know.
    pub(super) fn note(&mut self, mut delta: Fields) {
        let cites = delta.remove("type").is_some_and(|kind| kind == "citations_delta");
        let citation = if cites { delta.remove("citation") } else { None };
        match (&mut self.state, citation) {
            (State::Text, Some(citation)) => self.citations.push(citation),
            (State::Other { fields, .. }, Some(citation)) => match fields.get_mut("citations") {
                Some(Value::Array(citations)) => citations.push(citation),
                _ => {
                    fields.insert("citations".to_owned(), Value::Array(vec![citation]));
                }
            },
            (State::Other { fields, .. }, None) => {
                for (name, value) in delta {
                    match value {
                        Value::String(text) => append(fields, &name, &text),
                        value => {
                            fields.insert(name, value);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Closes it: arguments that no delta brought, and the close. Nothing if it is closed.
    pub(super) fn close(&mut self) -> [Option<Event>; 2] {
        let index = self.index;
        let mut arguments = None;
        let mut part = match std::mem::replace(&mut self.state, State::Closed) {
            State::Closed => return [None, None],
            State::Text => {
                if !self.citations.is_empty() {
                    self.extra.set(MESSAGES, "citations", std::mem::take(&mut self.citations));
                }
                None
            }
            State::Call { whole } => {
                arguments = (!whole.is_empty()).then_some(Event::ToolArguments { index, text: whole });
                None
            }
            State::Thinking(reasoning) => {
                let signed = reasoning.signature.as_ref().is_some_and(|signature| !signature.is_empty());
                (signed || self.told).then(|| Box::new(Content::Reasoning(*reasoning).into()))
            }
            State::Whole(part) => Some(part),
            State::Other { mut fields, input } => {
                if let Ok(input @ Value::Object(_)) = serde_json::from_str(&input) {
                    fields.insert("input".to_owned(), input);
                }
                Some(Box::new(Content::Other(MESSAGES, Value::Object(fields)).into()))
            }
        };
        if let Some(part) = part.as_deref_mut().filter(|part: &&mut Part| part.extra == Extra::NONE) {
            part.extra = self.extra.clone();
        }
        self.told |= part.is_some() || arguments.is_some();
        [arguments, Some(Event::Closed { index, part })]
    }
}

/// Takes a delta into a block we have no word for.
fn absorb(fields: &mut Fields, input: &mut String, said: Said<'_>) {
    match said {
        Said::Arguments(text) => input.push_str(&text),
        Said::Text(text) => append(fields, "text", &text),
        Said::Thinking(text) => append(fields, "thinking", &text),
        Said::Signature(text) => {
            fields.insert("signature".to_owned(), Value::from(text.into_owned()));
        }
    }
}

fn append(fields: &mut Fields, name: &str, text: &str) {
    match fields.get_mut(name) {
        Some(Value::String(all)) => all.push_str(text),
        _ => {
            fields.insert(name.to_owned(), Value::from(text));
        }
    }
}
