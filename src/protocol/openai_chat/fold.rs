//! What chunks add up to.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde_json::Value;

use crate::chat::{
    Assembler, Completion, Content, Event, Message, Part, Reasoning, Stop, ToolCallStart, Usage,
};
use crate::failure::Failure;

use super::calls::{Call, Calls};
use super::decode::{settle, stop_of};
use super::voice::Voice;
use super::wire::{Chunk, Delta, Fragment, Function, Str};
use super::{CHAT, PLACE, details};

const REASONING: u32 = 0;
const TEXT: u32 = 1;
const REFUSAL: u32 = 2;

/// Folds chunks into events, and into the whole at the end.
#[derive(Debug, Default)]
pub(super) struct Fold {
    assembler: Assembler,
    id: Box<str>,
    model: Box<str>,
    usage: Option<Usage>,
    calls: Calls,
    thoughts: Thoughts,
    annotations: Vec<Value>,
    started: bool,
}

/// What is known of the thoughts beside their text.
#[derive(Debug, Default)]
struct Thoughts {
    /// The field they came in, if not the usual one.
    place: Option<&'static str>,
    /// Whether the usual field came at all, be it empty.
    named: bool,
    details: Vec<Value>,
}

// === impl Fold ===

impl Fold {
    /// Takes in one chunk. Returns why the model stopped, if the chunk says so.
    ///
    /// Usage that comes before the end is told as it comes; at the end it stands in the whole.
    pub(super) fn take(
        &mut self,
        chunk: &mut Chunk<'_>,
        settled: bool,
        out: &mut VecDeque<Event>,
    ) -> Result<Option<Stop>, Failure> {
        let figures = chunk.figures();
        self.name(chunk, out);
        let mut stop = None;
        if let Some(choice) = chunk.choices.as_mut().and_then(|choices| choices.0.as_mut()) {
            if let Some(delta) = choice.delta.as_deref_mut().or(choice.message.as_deref_mut()) {
                self.delta(delta, out)?;
            }
            let reason = Str::of(&choice.finish_reason);
            stop = if reason.is_empty() { None } else { Some(stop_of(reason)?) };
        }
        if let Some(usage) = figures
            && self.usage.replace(usage) != Some(usage)
            && !settled
            && stop.is_none()
        {
            self.push(Event::Usage(Box::new(usage)), out);
        }
        Ok(stop)
    }

    /// Takes in a chunk that says one thing, and whose like was taken in before.
    pub(super) fn say(
        &mut self,
        voice: Voice,
        text: Cow<'_, str>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        match voice {
            Voice::Text if !text.is_empty() => {
                self.push(Event::Text { index: TEXT, text: text.into_owned() }, out);
            }
            Voice::Thought(place) if !text.is_empty() => self.thought(place, text.into_owned(), out),
            Voice::Text | Voice::Thought(_) => {}
            Voice::Arguments(index) => {
                let function = Some(Function { name: None, arguments: Some(Str(text)) });
                self.call(Fragment { index, function, ..Fragment::default() }, out)?;
            }
        }
        Ok(())
    }

    /// Whether no output came.
    pub(super) fn is_empty(&self) -> bool {
        self.assembler.is_empty()
    }

    /// The whole.
    pub(super) fn finish(&mut self, stop: Stop) -> Completion {
        let message = std::mem::take(&mut self.assembler).finish();
        let mut completion = Completion::new(self.dress(message), stop, self.usage);
        completion.id = std::mem::take(&mut self.id);
        completion.model = std::mem::take(&mut self.model);
        settle(&mut completion);
        completion
    }

    /// Takes id and model, each once and from the first that is not empty.
    fn name(&mut self, chunk: &Chunk<'_>, out: &mut VecDeque<Event>) {
        if self.id.is_empty() {
            self.id = Str::of(&chunk.id).into();
        }
        if self.model.is_empty() {
            self.model = Str::of(&chunk.model).into();
        }
        if !self.started && (!self.id.is_empty() || !self.model.is_empty()) {
            self.started = true;
            out.push_back(Event::Started { id: self.id.clone(), model: self.model.clone() });
        }
    }

    fn delta(&mut self, delta: &mut Delta<'_>, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        self.think(delta, out);
        if let Some(text) = Str::spoken(&mut delta.content) {
            self.push(Event::Text { index: TEXT, text }, out);
        }
        if let Some(text) = Str::spoken(&mut delta.refusal) {
            self.push(Event::Refusal { index: REFUSAL, text }, out);
        }
        for fragment in delta.tool_calls.take().into_iter().flatten() {
            self.call(fragment, out)?;
        }
        if let Some(function) = delta.function_call.take() {
            self.legacy_call(*function, out)?;
        }
        if delta.audio.is_some() {
            out.push_back(Event::KeepAlive);
        }
        for piece in delta.reasoning_details.take().into_iter().flatten() {
            details::add(&mut self.thoughts.details, piece);
        }
        self.annotations.extend(delta.annotations.take().into_iter().flatten());
        Ok(())
    }

    /// Takes the thoughts of a delta; where a server sends them under two names, from the first.
    fn think(&mut self, delta: &mut Delta<'_>, out: &mut VecDeque<Event>) {
        self.thoughts.named |= delta.reasoning_content.is_some();
        let usual = Str::spoken(&mut delta.reasoning_content).map(|text| (None, text));
        let other = || Some((Some("reasoning"), Str::spoken(&mut delta.reasoning)?));
        let part = || Some((Some("thinking"), Str::spoken(&mut Some(*delta.thinking.take()?))?));
        if let Some((place, text)) = usual.or_else(other).or_else(part) {
            self.thought(place, text, out);
        }
    }

    fn thought(&mut self, place: Option<&'static str>, text: String, out: &mut VecDeque<Event>) {
        self.thoughts.place = place;
        self.push(Event::Reasoning { index: REASONING, text }, out);
    }

    fn call(&mut self, fragment: Fragment<'_>, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        let Function { name, arguments } = fragment.function.unwrap_or_default();
        let (id, name) = (Str::of(&fragment.id), Str::of(&name));
        let call = self.calls.find(fragment.index, id, name)?;
        let index = call.block;
        let mut start = ToolCallStart::default();
        for (known, said, news) in
            [(&mut call.id, id, &mut start.id), (&mut call.name, name, &mut start.name)]
        {
            if known.is_empty() && !said.is_empty() {
                known.push_str(said);
                news.push_str(said);
            }
        }
        if call.state.is_none() {
            call.state = fragment.extra_content;
        }
        call.legacy |= fragment.legacy;
        let news = !(start.id.is_empty() && start.name.is_empty());
        let arguments = arguments.filter(|text| !text.0.is_empty());
        call.told |= news || arguments.is_some();
        if news {
            self.push(Event::ToolCall { index, start: Box::new(start) }, out);
        }
        if let Some(Str(text)) = arguments {
            self.push(Event::ToolArguments { index, text: text.into_owned() }, out);
        }
        Ok(())
    }

    /// The only call of older servers: it has no id and takes its name for one.
    fn legacy_call(&mut self, function: Function<'_>, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        let id = function.name.as_ref().map(|name| Str(name.0.clone()));
        self.call(Fragment { id, function: Some(function), legacy: true, ..Fragment::default() }, out)
    }

    /// Adds to the message what has no event.
    fn dress(&mut self, mut message: Message) -> Message {
        let Thoughts { mut place, named, details } = std::mem::take(&mut self.thoughts);
        let thought = message.parts.iter().any(|part| matches!(part.content, Content::Reasoning(_)));
        if !thought && ((named && !self.calls.is_empty()) || !details.is_empty()) {
            message.parts.insert(0, Content::Reasoning(Reasoning::default()).into());
            place = if named { place } else { place.or(Some("reasoning")) };
        }
        let mut calls = std::mem::take(&mut self.calls).into_sorted().into_iter().filter(|call| call.told);
        for Part { content, extra, .. } in &mut message.parts {
            match (content, place) {
                (Content::Reasoning(_), Some(place)) => extra.set(CHAT, PLACE, place),
                (Content::ToolCall(_), _) => {
                    let Some(Call { state, legacy, .. }) = calls.next() else { continue };
                    if let Some(state) = state {
                        extra.set(CHAT, "extra_content", state);
                    }
                    if legacy {
                        extra.set(CHAT, PLACE, "function_call");
                    }
                }
                _ => {}
            }
        }
        for (name, list) in
            [("reasoning_details", details), ("annotations", std::mem::take(&mut self.annotations))]
        {
            if !list.is_empty() {
                message.extra.set(CHAT, name, list);
            }
        }
        message
    }

    fn push(&mut self, event: Event, out: &mut VecDeque<Event>) {
        // After the first output an id that comes late is no start any more.
        self.started = true;
        self.assembler.push(&event);
        out.push_back(event);
    }
}
