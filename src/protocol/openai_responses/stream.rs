//! A streamed reply, frame by frame.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

use crate::chat::{Assembler, Completion, Content, Event, Extra, Part, ToolCallStart};
use crate::failure::{Code, Failure};
use crate::protocol::json::string;
use crate::protocol::{Dialect, errors};
use crate::time::Wall;

use super::wire::{parts, stop, usage};

/// Blocks of one item: a message's parts each have one, and none has more than this.
const PARTS: u32 = 64;

/// The most items of one reply; an index above is a fault of the sender.
const MAX_ITEMS: u32 = 16 * 1024;

/// Reads a streamed reply. See the [module](super).
#[derive(Debug)]
pub struct Decoder {
    wall: Wall,
    assembler: Assembler,
    items: Vec<Item>,
    id: Box<str>,
    model: Box<str>,
    started: bool,
    calls: bool,
    done: bool,
}

/// An output item, and how much of each of its parts was told.
#[derive(Debug)]
struct Item {
    id: String,
    output: u32,
    kind: Kind,
    /// Bytes told, by part.
    told: Vec<usize>,
    closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Message,
    Call,
    Reasoning,
    Other,
}

/// The frame that comes most: a delta of an item.
#[derive(Debug, Deserialize)]
struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    item_id: Option<Cow<'a, str>>,
    #[serde(default)]
    output_index: Option<u32>,
    #[serde(default)]
    content_index: Option<u32>,
    #[serde(borrow, default)]
    delta: Option<Cow<'a, str>>,
}

// === impl Decoder ===

impl Decoder {
    /// With nothing read.
    #[must_use]
    pub fn new(_: &Dialect, wall: Wall) -> Self {
        Self {
            wall,
            assembler: Assembler::new(),
            items: Vec::new(),
            id: Box::default(),
            model: Box::default(),
            started: false,
            calls: false,
            done: false,
        }
    }

    /// Whether nothing more is to be read.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Never before the terminal event: it alone completes the answer.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        false
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
        if self.done || data.starts_with(b"[DONE]") {
            return Ok(());
        }
        let read = match serde_json::from_slice::<Frame<'_>>(data) {
            Ok(frame) if frame.delta.is_some() => {
                self.delta(frame, out);
                Ok(())
            }
            _ => self.other(event, data, out),
        };
        self.done |= read.is_err();
        read
    }

    /// The bytes ended.
    ///
    /// # Errors
    /// `TRUNCATED`, since the terminal event is missing.
    pub fn end(&mut self, _: &mut VecDeque<Event>) -> Result<(), Failure> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        Err(Failure::new(Code::Truncated, "the stream ended without a terminal event"))
    }

    fn delta(&mut self, frame: Frame<'_>, out: &mut VecDeque<Event>) {
        let text = frame.delta.unwrap_or_default();
        let kind = match &*frame.kind {
            "response.output_text.delta" | "response.refusal.delta" => Kind::Message,
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => Kind::Call,
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => Kind::Reasoning,
            _ => return out.push_back(Event::KeepAlive),
        };
        if text.is_empty() {
            return;
        }
        let part = if kind == Kind::Message { frame.content_index.unwrap_or(0) } else { 0 };
        let at = self.item(frame.item_id.as_deref().unwrap_or_default(), frame.output_index, kind);
        let Some(index) = self.items[at].tell(part, text.len()) else { return };
        let text = text.into_owned();
        let event = match (kind, &*frame.kind) {
            (_, "response.refusal.delta") => Event::Refusal { index, text },
            (Kind::Call, _) => Event::ToolArguments { index, text },
            (Kind::Reasoning, _) => Event::Reasoning { index, text },
            _ => Event::Text { index, text },
        };
        self.push(event, out);
    }

    fn other(&mut self, event: Option<&str>, data: &[u8], out: &mut VecDeque<Event>) -> Result<(), Failure> {
        let Ok(frame) = serde_json::from_slice::<Value>(data) else {
            let code = if event == Some("error") { Code::Server } else { Code::InvalidResponse };
            return Err(Failure::new(code, "a frame of the stream is not JSON"));
        };
        let kind = frame.get("type").and_then(Value::as_str).or(event).unwrap_or_default();
        let response = frame.get("response").unwrap_or(&Value::Null);
        match kind {
            "error" | "response.failed" | "response.cancelled" => {
                return Err(errors::in_band(&frame, self.wall.unix()));
            }
            "response.completed" | "response.incomplete" | "response.done" => {
                return self.complete(response, out);
            }
            "response.created" | "response.in_progress" | "response.queued" => self.start(response, out),
            "response.output_item.added" => self.open(&frame, out),
            "response.output_item.done" => self.close(&frame, out),
            "response.output_text.done" => self.catch_up(&frame, Kind::Message, "text", out),
            "response.refusal.done" => self.catch_up(&frame, Kind::Message, "refusal", out),
            "response.function_call_arguments.done" => self.catch_up(&frame, Kind::Call, "arguments", out),
            "response.custom_tool_call_input.done" => self.catch_up(&frame, Kind::Call, "input", out),
            "response.reasoning_text.done" => self.catch_up(&frame, Kind::Reasoning, "text", out),
            "response.content_part.added"
            | "response.content_part.done"
            | "response.reasoning_summary_part.added"
            | "response.reasoning_summary_part.done"
            | "response.reasoning_summary_text.done"
            | "response.output_text.annotation.added" => {}
            _ if errors::has_error(&frame) => return Err(errors::in_band(&frame, self.wall.unix())),
            _ => out.push_back(Event::KeepAlive),
        }
        Ok(())
    }

    fn start(&mut self, response: &Value, out: &mut VecDeque<Event>) {
        if !std::mem::replace(&mut self.started, true) {
            self.id = string(response, "id").into();
            self.model = string(response, "model").into();
            out.push_back(Event::Started { id: self.id.clone(), model: self.model.clone() });
        }
    }

    fn open(&mut self, frame: &Value, out: &mut VecDeque<Event>) {
        let item = frame.get("item").unwrap_or(&Value::Null);
        let kind = Kind::of(item);
        let at = self.item(string(item, "id"), output_index(frame), kind);
        if kind == Kind::Call {
            let index = self.items[at].block(0);
            let start = Box::new(ToolCallStart::new(string(item, "call_id"), string(item, "name")));
            self.push(Event::ToolCall { index, start }, out);
        }
    }

    /// An item is whole: what was not told of it is told, and its block closes as it stands there.
    fn close(&mut self, frame: &Value, out: &mut VecDeque<Event>) {
        let item = frame.get("item").unwrap_or(&Value::Null);
        let at = self.item(string(item, "id"), output_index(frame), Kind::of(item));
        if !std::mem::replace(&mut self.items[at].closed, true) {
            self.finish(at, item, out);
        }
    }

    fn finish(&mut self, at: usize, item: &Value, out: &mut VecDeque<Event>) {
        for (part, whole) in (0..PARTS).zip(parts(item)) {
            let index = self.items[at].block(part);
            self.tell_rest(at, part, &whole, out);
            self.push(Event::Closed { index, part: Some(Box::new(whole)) }, out);
        }
    }

    /// Tells what of a whole part was not told in deltas.
    fn tell_rest(&mut self, at: usize, part: u32, whole: &Part, out: &mut VecDeque<Event>) {
        let told = self.items[at].told(part);
        let index = self.items[at].block(part);
        let rest = |text: &str| text.get(told..).filter(|rest| !rest.is_empty()).map(str::to_owned);
        let event = match &whole.content {
            Content::Text(text) => rest(text).map(|text| Event::Text { index, text }),
            Content::Refusal(text) => rest(text).map(|text| Event::Refusal { index, text }),
            // A summary is told in parts that are joined differently: all of it, or nothing.
            Content::Reasoning(reasoning) if told == 0 => {
                rest(&reasoning.text).map(|text| Event::Reasoning { index, text })
            }
            Content::ToolCall(call) => {
                if told == 0 {
                    let start = Box::new(ToolCallStart::new(call.id.as_str(), call.name.as_str()));
                    self.push(Event::ToolCall { index, start }, out);
                }
                rest(&call.arguments).map(|text| Event::ToolArguments { index, text })
            }
            _ => None,
        };
        if let Some(event) = event {
            self.items[at].tell(part, usize::MAX / 2);
            self.push(event, out);
        }
    }

    /// A part is whole: what was not told of it is told.
    fn catch_up(&mut self, frame: &Value, kind: Kind, name: &str, out: &mut VecDeque<Event>) {
        let at = self.item(string(frame, "item_id"), output_index(frame), kind);
        let text = string(frame, name);
        let part = if kind == Kind::Message { small(frame, "content_index").unwrap_or(0) } else { 0 };
        let told = self.items[at].told(part);
        let Some(rest) = text.get(told..).filter(|rest| !rest.is_empty()) else { return };
        let Some(index) = self.items[at].tell(part, rest.len()) else { return };
        let text = rest.to_owned();
        let event = match (kind, name) {
            (Kind::Call, _) => Event::ToolArguments { index, text },
            (Kind::Reasoning, _) => Event::Reasoning { index, text },
            (_, "refusal") => Event::Refusal { index, text },
            _ => Event::Text { index, text },
        };
        self.push(event, out);
    }

    fn complete(&mut self, response: &Value, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        self.start(response, out);
        let items = response.get("output").and_then(Value::as_array);
        for (output, item) in (0..MAX_ITEMS).zip(items.into_iter().flatten()) {
            let known = self.items.iter().position(|known| known.is(string(item, "id"), Some(output)));
            let at = known.unwrap_or_else(|| self.item(string(item, "id"), Some(output), Kind::of(item)));
            if !std::mem::replace(&mut self.items[at].closed, true) {
                self.finish(at, item, out);
            }
        }
        let stop = stop(response, self.calls, self.wall)?;
        self.done = true;
        out.push_back(Event::Completed(Box::new(Completion {
            message: std::mem::take(&mut self.assembler).finish(),
            stop,
            usage: usage(response),
            id: std::mem::take(&mut self.id),
            model: std::mem::take(&mut self.model),
            extra: Extra::NONE,
        })));
        Ok(())
    }

    /// The item of this id, else of this index, else the one of this kind opened last; opened if there is none.
    fn item(&mut self, id: &str, output: Option<u32>, kind: Kind) -> usize {
        let output = output.filter(|output| *output < MAX_ITEMS);
        let by_name = || self.items.iter().position(|item| item.is(id, output));
        let nameless = id.is_empty() && output.is_none();
        let last = || self.items.iter().rposition(|item| nameless && item.kind == kind && !item.closed);
        by_name().or_else(last).unwrap_or_else(|| {
            let next = self.items.iter().map(|item| item.output + 1).max().unwrap_or(0).min(MAX_ITEMS);
            let free = |output: &u32| self.items.iter().all(|item| item.output != *output);
            let output = output.filter(free).unwrap_or(next);
            self.items.push(Item { id: id.to_owned(), output, kind, told: Vec::new(), closed: false });
            self.items.len() - 1
        })
    }

    fn push(&mut self, event: Event, out: &mut VecDeque<Event>) {
        self.calls |= matches!(event, Event::ToolCall { .. });
        self.assembler.push(&event);
        out.push_back(event);
    }
}

// === impl Item ===

impl Item {
    /// Whether it goes by this id, or, where one of the two has none, by this index.
    fn is(&self, id: &str, output: Option<u32>) -> bool {
        if id.is_empty() || self.id.is_empty() { output == Some(self.output) } else { self.id == id }
    }

    /// The block of one of its parts.
    fn block(&self, part: u32) -> u32 {
        self.output * PARTS + part.min(PARTS - 1)
    }

    fn told(&self, part: u32) -> usize {
        self.told.get(part.min(PARTS - 1) as usize).copied().unwrap_or(0)
    }

    /// Notes that more of a part is told; its block, or `None` if the item is closed.
    fn tell(&mut self, part: u32, bytes: usize) -> Option<u32> {
        let at = part.min(PARTS - 1) as usize;
        if self.told.len() <= at {
            self.told.resize(at + 1, 0);
        }
        self.told[at] = self.told[at].saturating_add(bytes);
        (!self.closed || bytes > usize::MAX / 4).then(|| self.block(part))
    }
}

// === impl Kind ===

impl Kind {
    fn of(item: &Value) -> Self {
        match string(item, "type") {
            "message" => Self::Message,
            "function_call" | "custom_tool_call" => Self::Call,
            "reasoning" => Self::Reasoning,
            _ => Self::Other,
        }
    }
}

fn output_index(frame: &Value) -> Option<u32> {
    small(frame, "output_index")
}

fn small(frame: &Value, name: &str) -> Option<u32> {
    frame.get(name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok())
}
