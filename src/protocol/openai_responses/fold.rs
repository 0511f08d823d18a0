//! What the events of a reply add up to.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde_json::Value;

use crate::chat::{Assembler, Completion, Content, Event, Part, Stop, ToolCallStart};
use crate::failure::Failure;
use crate::protocol::json::string;
use crate::time::Wall;

use super::item::{Name, Voice};
use super::items::{Items, Place};
use super::output::{self, Kind};
use super::wire::Frame;

/// Between the paragraphs of reasoning, which come as parts and are one text to us.
const PARAGRAPH: &str = "\n\n";

/// What the events so far add up to.
#[derive(Debug, Default)]
pub(super) struct Fold {
    assembler: Assembler,
    items: Items,
    id: Box<str>,
    model: Box<str>,
    started: bool,
}

/// Who says what an item is.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// The event that finishes it: the authority.
    Own,
    /// The terminal event: it fills what is missing.
    Last,
}

// === impl Fold ===

impl Fold {
    /// The response began, or goes on: only the first time tells anything.
    pub(super) fn start(&mut self, response: &Value, out: &mut VecDeque<Event>) {
        for (known, name) in [(&mut self.id, "id"), (&mut self.model, "model")] {
            if known.is_empty() {
                *known = string(response, name).into();
            }
        }
        let known = !self.id.is_empty() || !self.model.is_empty();
        if known && self.items.is_empty() && !std::mem::replace(&mut self.started, true) {
            out.push_back(Event::Started { id: self.id.clone(), model: self.model.clone() });
        }
    }

    /// More of a part.
    pub(super) fn delta(
        &mut self,
        voice: Voice,
        frame: &mut Frame<'_>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        if let Some(place) = self.place(voice, frame)? {
            self.tell(place, voice, std::mem::take(&mut frame.delta.0), out);
        }
        Ok(())
    }

    /// A part is whole: what was not told of it is told.
    pub(super) fn catch_up(
        &mut self,
        voice: Voice,
        frame: &Frame<'_>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        if let Some(place) = self.place(voice, frame)? {
            if let Some(rest) = frame.text.0.get(place.told..) {
                self.tell(place, voice, Cow::Borrowed(rest), out);
            }
            if let Some(slot) = self.items.slot_mut(place) {
                slot.ended = true;
            }
        }
        Ok(())
    }

    /// A part opens; of all that may be, only its item is told.
    pub(super) fn next_part(&mut self, frame: &Frame<'_>) {
        for kind in [Kind::Message, Kind::Reasoning] {
            self.items.next_part(Name::new(kind, &frame.item_id.0, frame.output_index));
        }
    }

    /// An item opens.
    pub(super) fn open(
        &mut self,
        item: &Value,
        index: Option<u32>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        let at = self.items.standing(Name::of(item, index))?;
        let name = string(item, "name");
        if Kind::of(item) == Kind::Call && !name.is_empty() {
            let id = [string(item, "call_id"), string(item, "id")].into_iter().find(|id| !id.is_empty());
            self.announce(at, id.unwrap_or_default(), name, out);
        }
        Ok(())
    }

    /// An item is whole.
    pub(super) fn close(
        &mut self,
        item: Value,
        index: Option<u32>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        let at = self.items.standing(Name::of(&item, index))?;
        self.finish(at, item, Word::Own, out);
        Ok(())
    }

    /// The response ended: what never came of it is told, and all blocks close.
    pub(super) fn complete(
        &mut self,
        status: &str,
        mut response: Value,
        wall: Wall,
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        // First, since a response that failed has nothing more to say.
        let stop = output::stop(&response, status, false, wall)?;
        self.start(&response, out);
        let items = match response.get_mut("output").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        for (at, item) in self.items.repeated(&items)?.into_iter().zip(items) {
            self.finish(at, item, Word::Last, out);
        }
        let open = self.items.iter_mut().filter(|item| !item.closed);
        let left: Vec<u32> = open.flat_map(|item| item.close()).collect();
        for index in left {
            self.push(Event::Closed { index, part: None }, out);
        }
        let message = std::mem::take(&mut self.assembler).finish();
        let waits = stop == Stop::End && message.tool_calls().next().is_some();
        let stop = if waits { Stop::ToolCalls } else { stop };
        let mut completion = Completion::new(message, stop, output::usage(&response));
        completion.id = std::mem::take(&mut self.id);
        completion.model = std::mem::take(&mut self.model);
        completion.extra = output::beside(response);
        out.push_back(Event::Completed(Box::new(completion)));
        Ok(())
    }

    fn place(&mut self, voice: Voice, frame: &Frame<'_>) -> Result<Option<Place>, Failure> {
        let (kind, index) = match voice {
            Voice::Text | Voice::Refusal | Voice::Other => (Kind::Message, frame.content_index),
            Voice::Thought => (Kind::Reasoning, frame.content_index),
            Voice::Summary => (Kind::Reasoning, frame.summary_index),
            Voice::Arguments => (Kind::Call, Some(0)),
        };
        let at = self.items.named(Name::new(kind, &frame.item_id.0, frame.output_index))?;
        Ok(self.items.place(at, voice, index))
    }

    fn tell(&mut self, place: Place, voice: Voice, text: Cow<'_, str>, out: &mut VecDeque<Event>) {
        if text.is_empty() {
            return;
        }
        if let Some(slot) = self.items.slot_mut(place) {
            slot.told = slot.told.saturating_add(text.len());
        }
        let index = place.block;
        let text = if place.follows { [PARAGRAPH, &text].concat() } else { text.into_owned() };
        let event = match voice {
            Voice::Text | Voice::Other => Event::Text { index, text },
            Voice::Refusal => Event::Refusal { index, text },
            Voice::Thought | Voice::Summary => Event::Reasoning { index, text },
            Voice::Arguments => Event::ToolArguments { index, text },
        };
        self.push(event, out);
    }

    /// Tells of a call, once.
    fn announce(&mut self, at: usize, id: &str, name: &str, out: &mut VecDeque<Event>) {
        let Some(item) = self.items.get_mut(at) else { return };
        if !std::mem::replace(&mut item.announced, true) {
            let index = item.first_block();
            let start = Box::new(ToolCallStart::new(id, name));
            self.push(Event::ToolCall { index, start }, out);
        }
    }

    /// What was not told of an item is told, and its blocks close as they stand there.
    fn finish(&mut self, at: usize, item: Value, word: Word, out: &mut VecDeque<Event>) {
        if self.items.get_mut(at).is_none_or(|known| known.closed) {
            return;
        }
        for (index, whole) in (0..).zip(output::parts(item)) {
            self.finish_part((at, index), whole, word, out);
        }
        let left = self.items.get_mut(at).map_or_else(Vec::new, |known| known.close());
        for index in left {
            self.push(Event::Closed { index, part: None }, out);
        }
    }

    fn finish_part(&mut self, (at, index): (usize, u32), whole: Part, word: Word, out: &mut VecDeque<Event>) {
        let (voice, text, sealed) = match &whole.content {
            Content::Text(text) => (Voice::Text, text.as_str(), false),
            Content::Refusal(text) => (Voice::Refusal, text.as_str(), false),
            Content::Reasoning(reasoning) => {
                let voice = if reasoning.summary { Voice::Summary } else { Voice::Thought };
                (voice, reasoning.text.as_str(), reasoning.encrypted.is_some())
            }
            Content::ToolCall(call) => {
                self.announce(at, &call.id, &call.name, out);
                (Voice::Arguments, call.arguments.as_str(), false)
            }
            _ => (Voice::Other, "", false),
        };
        let silent = !self.items.get_mut(at).is_some_and(|item| item.is_told());
        let Some(place) = self.items.place(at, voice, Some(index)) else { return };
        if let Some(slot) = self.items.slot_mut(place) {
            slot.matched = true;
        }
        let reasons = matches!(voice, Voice::Summary | Voice::Thought);
        // Reasoning came in parts, of which each caught up by itself.
        if let Some(rest) = text.get(place.told..).filter(|_| silent || !reasons) {
            self.tell(place, voice, Cow::Borrowed(rest), out);
        }
        let stands = match word {
            _ if place.told == 0 && (silent || !reasons) => true,
            _ if sealed => true,
            Word::Last if !reasons => text.len() >= place.told,
            Word::Own | Word::Last => !text.is_empty(),
        };
        let part = stands.then(|| Box::new(whole));
        self.push(Event::Closed { index: place.block, part }, out);
    }

    fn push(&mut self, event: Event, out: &mut VecDeque<Event>) {
        self.assembler.push(&event);
        out.push_back(event);
    }
}
