//! A streamed reply, frame by frame.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde_json::Value;

use crate::chat::{Assembler, Completion, Event, Extra, Stop, ToolCallStart, Usage};
use crate::failure::{Code, Failure};
use crate::protocol::{Dialect, errors};
use crate::time::Wall;

use super::wire::{Chunk, Delta, Fragment, Function, WireUsage, stop};

/// Block of the reasoning, of the text, of a refusal; tool calls follow from [`TOOLS`] on.
const REASONING: u32 = 0;
const TEXT: u32 = 1;
const REFUSAL: u32 = 2;
const TOOLS: u32 = 3;

/// The most tool calls of one reply. No model makes so many; an index above is a fault of the sender, and the call
/// goes where no index would have sent it.
const MAX_TOOLS: u32 = 4096;

/// Reads a streamed reply. See the [module](super).
#[derive(Debug)]
pub struct Decoder {
    wall: Wall,
    assembler: Assembler,
    tools: Vec<Tool>,
    last_tool: Option<usize>,
    id: Box<str>,
    model: Box<str>,
    started: bool,
    output: bool,
    usage: Option<Usage>,
    stop: Option<Stop>,
    done: bool,
}

/// A tool call by the two names it may go by.
#[derive(Debug)]
struct Tool {
    id: String,
    index: Option<u32>,
    block: u32,
}

// === impl Decoder ===

impl Decoder {
    /// With nothing read.
    #[must_use]
    pub fn new(_: &Dialect, wall: Wall) -> Self {
        Self {
            wall,
            assembler: Assembler::new(),
            tools: Vec::new(),
            last_tool: None,
            id: Box::default(),
            model: Box::default(),
            started: false,
            output: false,
            usage: None,
            stop: None,
            done: false,
        }
    }

    /// Whether nothing more is to be read.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Whether there was a finish reason, so that only usage and the sentinel are awaited.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.stop.is_some()
    }

    /// Reads one frame.
    ///
    /// # Errors
    /// The failure that the frame carries, or `INVALID_RESPONSE` for one that is not JSON.
    pub fn frame(
        &mut self,
        event: Option<&str>,
        data: &[u8],
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        let read = if data.starts_with(b"[DONE]") {
            self.sentinel(out)
        } else if event == Some("error") {
            Err(self.error(data))
        } else {
            match serde_json::from_slice::<Chunk<'_>>(data) {
                Ok(chunk) => self.chunk(chunk, data, out),
                Err(_) => self.odd(data, out),
            }
        };
        self.done |= read.is_err();
        read
    }

    /// The bytes ended.
    ///
    /// # Errors
    /// `TRUNCATED`, if there was no finish reason.
    pub fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        match self.stop.take() {
            Some(stop) => self.complete(stop, out),
            None => {
                self.done = true;
                return Err(Failure::new(Code::Truncated, "the stream ended without a finish reason"));
            }
        }
        Ok(())
    }

    fn sentinel(&mut self, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        match self.stop.take() {
            Some(stop) => self.complete(stop, out),
            None if self.output => self.complete(Stop::Unknown, out),
            None => {
                return Err(Failure::new(
                    Code::Truncated,
                    "the stream ended with neither output nor a finish reason",
                ));
            }
        }
        Ok(())
    }

    fn complete(&mut self, stop: Stop, out: &mut VecDeque<Event>) {
        self.done = true;
        let message = std::mem::take(&mut self.assembler).finish();
        out.push_back(Event::Completed(Box::new(Completion {
            message,
            stop,
            usage: self.usage,
            id: std::mem::take(&mut self.id),
            model: std::mem::take(&mut self.model),
            extra: Extra::NONE,
        })));
    }

    fn chunk(&mut self, chunk: Chunk<'_>, data: &[u8], out: &mut VecDeque<Event>) -> Result<(), Failure> {
        let choices = chunk.choices.unwrap_or_default();
        if chunk.error.is_some() || choices.iter().any(|choice| choice.error.is_some()) {
            return self.odd(data, out);
        }
        if !self.started {
            self.start(chunk.id, chunk.model, out);
        }
        let usage = chunk.usage.or_else(|| chunk.x_groq?.usage);
        if let Some(usage) = usage.and_then(|usage| usage.figures()) {
            self.usage = Some(usage);
        }
        for choice in choices {
            if choice.index.is_some_and(|index| index > 0) {
                continue;
            }
            if let Some(delta) = choice.delta {
                self.delta(delta, out);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish(&reason)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, id: Option<Cow<'_, str>>, model: Option<Cow<'_, str>>, out: &mut VecDeque<Event>) {
        self.id = id.unwrap_or_default().into();
        self.model = model.unwrap_or_default().into();
        self.started = !self.id.is_empty() || !self.model.is_empty();
        if self.started {
            out.push_back(Event::Started { id: self.id.clone(), model: self.model.clone() });
        }
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut VecDeque<Event>) {
        let said = |text: Option<Cow<'_, str>>| text.filter(|text| !text.is_empty()).map(Cow::into_owned);
        // Some servers send both names with the same text.
        if let Some(text) = said(delta.reasoning_content).or_else(|| said(delta.reasoning)) {
            self.push(Event::Reasoning { index: REASONING, text }, out);
        }
        if let Some(text) = said(delta.content) {
            self.push(Event::Text { index: TEXT, text }, out);
        }
        if let Some(text) = said(delta.refusal) {
            self.push(Event::Refusal { index: REFUSAL, text }, out);
        }
        for fragment in delta.tool_calls.unwrap_or_default() {
            self.fragment(fragment, out);
        }
        if let Some(function) = delta.function_call {
            self.fragment(Fragment { index: Some(0), function: Some(function), ..Fragment::default() }, out);
        }
    }

    fn fragment(&mut self, fragment: Fragment<'_>, out: &mut VecDeque<Event>) {
        let Function { name, arguments, input } = fragment.function.or(fragment.custom).unwrap_or_default();
        let id = fragment.id.unwrap_or_default();
        let name = name.unwrap_or_default();
        let (at, new) = self.tool(&id, fragment.index);
        let tool = &mut self.tools[at];
        let late = tool.id.is_empty() && !id.is_empty();
        if late {
            tool.id = id.clone().into_owned();
        }
        let index = tool.block;
        if new || late || !name.is_empty() {
            let start = Box::new(ToolCallStart { id: id.into_owned(), name: name.into_owned() });
            self.push(Event::ToolCall { index, start }, out);
        }
        let text = arguments.or(input).unwrap_or_default();
        if !text.is_empty() {
            self.push(Event::ToolArguments { index, text: text.into_owned() }, out);
        }
    }

    /// Which call a fragment belongs to, and whether it opens it.
    fn tool(&mut self, id: &str, index: Option<u32>) -> (usize, bool) {
        let index = index.filter(|index| *index < MAX_TOOLS);
        let by_id = || self.tools.iter().position(|tool| !id.is_empty() && tool.id == id);
        let by_index = || self.tools.iter().rposition(|tool| index.is_some() && tool.index == index);
        let unnamed = |at: &usize| id.is_empty() || self.tools[*at].id.is_empty();
        let known = by_id().or_else(|| by_index().filter(unnamed));
        let known = known.or_else(|| self.last_tool.filter(|_| id.is_empty() && index.is_none()));
        let (at, new) = known.map_or((self.tools.len(), true), |at| (at, false));
        if new {
            // Order is that of the index; a call whose index is taken, or that has none, comes after all others.
            let free = |block: &u32| self.tools.iter().all(|tool| tool.block != *block);
            let last = self.tools.iter().map(|tool| tool.block + 1).max().unwrap_or(TOOLS);
            let block = index.map(|index| TOOLS + index).filter(free).unwrap_or(last);
            self.tools.push(Tool { id: String::new(), index, block });
        }
        self.last_tool = Some(at);
        (at, new)
    }

    fn finish(&mut self, reason: &str) -> Result<(), Failure> {
        let Some(stop) = stop(reason) else {
            return Err(Failure::new(Code::Server, format!("the provider ended the answer with `{reason}`")));
        };
        self.stop = Some(stop);
        Ok(())
    }

    fn push(&mut self, event: Event, out: &mut VecDeque<Event>) {
        self.output = true;
        self.assembler.push(&event);
        out.push_back(event);
    }

    /// A frame that does not fit the usual shape: read again without demands.
    fn odd(&mut self, data: &[u8], out: &mut VecDeque<Event>) -> Result<(), Failure> {
        let Ok(value) = serde_json::from_slice::<Value>(data) else {
            return Err(Failure::new(Code::InvalidResponse, "a frame of the stream is not JSON"));
        };
        if errors::has_error(&value)
            || value.pointer("/choices/0/error").is_some_and(|error| !error.is_null())
        {
            return Err(errors::in_band(&value, self.wall.unix()));
        }
        if let Some(usage) = value.get("usage").and_then(WireUsage::of) {
            self.usage = Some(usage);
        }
        let Some(choice) = value.pointer("/choices/0") else { return Ok(()) };
        let text = |path: &str| choice.pointer(path).and_then(Value::as_str).map(Cow::Borrowed);
        let calls = choice.pointer("/delta/tool_calls").and_then(Value::as_array);
        let delta = Delta {
            content: text("/delta/content"),
            reasoning_content: text("/delta/reasoning_content"),
            reasoning: text("/delta/reasoning"),
            refusal: text("/delta/refusal"),
            tool_calls: calls.map(|calls| calls.iter().map(loose_fragment).collect()),
            function_call: None,
        };
        self.delta(delta, out);
        match text("/finish_reason").filter(|reason| !reason.is_empty()) {
            Some(reason) => self.finish(&reason),
            None => Ok(()),
        }
    }

    fn error(&self, data: &[u8]) -> Failure {
        match serde_json::from_slice::<Value>(data) {
            Ok(value) => errors::in_band(&value, self.wall.unix()),
            Err(_) => Failure::new(Code::Server, String::from_utf8_lossy(data)),
        }
    }
}

/// A tool-call fragment of any shape; arguments that came as an object are written out.
fn loose_fragment(value: &Value) -> Fragment<'_> {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).map(Cow::Borrowed);
    let arguments = text("/function/arguments").or_else(|| {
        let object = value.pointer("/function/arguments").filter(|object| object.is_object())?;
        Some(Cow::Owned(object.to_string()))
    });
    Fragment {
        index: value.get("index").and_then(Value::as_u64).and_then(|index| u32::try_from(index).ok()),
        id: text("/id"),
        function: Some(Function { name: text("/function/name"), arguments, input: None }),
        custom: None,
    }
}
