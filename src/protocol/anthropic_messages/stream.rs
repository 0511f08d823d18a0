//! A streamed reply, frame by frame.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::Value;

use crate::chat::{Assembler, Completion, Content, Event, Extra, Part, Stop, ToolCallStart};
use crate::failure::{Code, Failure};
use crate::protocol::json::string;
use crate::protocol::{Dialect, errors};
use crate::time::Wall;

use super::wire::{Figures, block, stop};

/// The most blocks that are open at once. A reply opens them one after the other; whoever opens more is not sane, and
/// what goes to them is left out.
const MAX_OPEN: usize = 1024;

/// Reads a streamed reply. See the [module](super).
#[derive(Debug)]
pub struct Decoder {
    wall: Wall,
    stop_reason_ends: bool,
    assembler: Assembler,
    open: BTreeMap<u32, Open>,
    figures: Figures,
    stop: Option<Stop>,
    id: Box<str>,
    model: Box<str>,
    done: bool,
}

/// An open block, and what is known of it beside its deltas.
#[derive(Debug)]
enum Open {
    Text,
    ToolCall,
    Thinking {
        text: String,
        signature: Option<String>,
    },
    /// One that has no deltas of ours: told whole, when it closes.
    Whole(Box<Part>),
}

/// The frame that comes most: a delta of a block.
#[derive(Debug, Deserialize)]
struct DeltaFrame<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    index: Option<u32>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow)]
    signature: Option<Cow<'a, str>>,
}

// === impl Decoder ===

impl Decoder {
    /// With nothing read.
    #[must_use]
    pub fn new(dialect: &Dialect, wall: Wall) -> Self {
        Self {
            wall,
            stop_reason_ends: dialect.stop_reason_ends,
            assembler: Assembler::new(),
            open: BTreeMap::new(),
            figures: Figures::default(),
            stop: None,
            id: Box::default(),
            model: Box::default(),
            done: false,
        }
    }

    /// Whether nothing more is to be read.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Whether there was a stop reason, and the dialect takes it for the end.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.stop_reason_ends && self.stop.is_some()
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
        let read = match serde_json::from_slice::<DeltaFrame<'_>>(data) {
            Ok(frame) if frame.kind == "content_block_delta" => {
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
    /// `TRUNCATED`, if the terminal event is missing.
    pub fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        if self.is_settled() {
            self.complete(out);
            return Ok(());
        }
        self.done = true;
        Err(Failure::new(Code::Truncated, "the stream ended without message_stop"))
    }

    fn other(&mut self, event: Option<&str>, data: &[u8], out: &mut VecDeque<Event>) -> Result<(), Failure> {
        if data.starts_with(b"[DONE]") {
            if self.stop.is_none() {
                return Err(Failure::new(Code::Truncated, "the stream ended without a stop reason"));
            }
            self.complete(out);
            return Ok(());
        }
        let Ok(frame) = serde_json::from_slice::<Value>(data) else {
            let code = if event == Some("error") { Code::Server } else { Code::InvalidResponse };
            return Err(Failure::new(code, "a frame of the stream is not JSON"));
        };
        let kind = frame.get("type").and_then(Value::as_str).or(event).unwrap_or_default();
        // A bare error is an object whose type is the error's own.
        if kind == "error" || event == Some("error") || errors::has_error(&frame) {
            return Err(errors::in_band(&frame, self.wall.unix()));
        }
        match kind {
            "message_start" => self.start(frame.get("message").unwrap_or(&Value::Null), out),
            "content_block_start" => self.open_block(&frame, out),
            "content_block_stop" => self.close_block(index(&frame), out),
            "message_delta" => self.message_delta(&frame),
            "message_stop" => self.complete(out),
            _ => out.push_back(Event::KeepAlive),
        }
        Ok(())
    }

    fn start(&mut self, message: &Value, out: &mut VecDeque<Event>) {
        self.id = string(message, "id").into();
        self.model = string(message, "model").into();
        out.push_back(Event::Started { id: self.id.clone(), model: self.model.clone() });
        if let Some(usage) = message.get("usage") {
            self.figures.update(usage);
            if let Some(usage) = self.figures.usage() {
                out.push_back(Event::Usage(Box::new(usage)));
            }
        }
    }

    fn open_block(&mut self, frame: &Value, out: &mut VecDeque<Event>) {
        let index = index(frame);
        let Some(Value::Object(object)) = frame.get("content_block") else { return };
        if self.open.len() >= MAX_OPEN {
            return;
        }
        let part = block(object.clone());
        let open = match part.content {
            Content::Text(text) => {
                if !text.is_empty() {
                    self.push(Event::Text { index, text }, out);
                }
                Open::Text
            }
            Content::ToolCall(call) => {
                let start = Box::new(ToolCallStart { id: call.id, name: call.name });
                self.push(Event::ToolCall { index, start }, out);
                // An empty object stands for the deltas to come.
                if call.arguments != "{}" {
                    self.push(Event::ToolArguments { index, text: call.arguments }, out);
                }
                Open::ToolCall
            }
            Content::Reasoning(reasoning) if reasoning.encrypted.is_none() => {
                if !reasoning.text.is_empty() {
                    self.push(Event::Reasoning { index, text: reasoning.text.clone() }, out);
                }
                Open::Thinking { text: reasoning.text, signature: reasoning.signature }
            }
            _ => Open::Whole(Box::new(part)),
        };
        self.open.insert(index, open);
    }

    fn delta(&mut self, frame: DeltaFrame<'_>, out: &mut VecDeque<Event>) {
        let index = frame.index.unwrap_or(0);
        let delta = frame.delta.unwrap_or_default();
        let kind = delta.kind.unwrap_or_default();
        let said = |text: Option<Cow<'_, str>>| text.filter(|text| !text.is_empty()).map(Cow::into_owned);
        match (&*kind, self.open.get_mut(&index)) {
            ("text_delta", Some(Open::Text)) => {
                if let Some(text) = said(delta.text) {
                    self.push(Event::Text { index, text }, out);
                }
            }
            ("input_json_delta", Some(Open::ToolCall)) => {
                if let Some(text) = said(delta.partial_json) {
                    self.push(Event::ToolArguments { index, text }, out);
                }
            }
            ("thinking_delta", Some(Open::Thinking { text: all, .. })) => {
                if let Some(text) = said(delta.thinking) {
                    all.push_str(&text);
                    self.push(Event::Reasoning { index, text }, out);
                }
            }
            ("signature_delta", Some(Open::Thinking { signature, .. })) => *signature = said(delta.signature),
            // A delta of a kind or for a block that is not known, or one after the block's stop.
            _ => out.push_back(Event::KeepAlive),
        }
    }

    fn close_block(&mut self, index: u32, out: &mut VecDeque<Event>) {
        let part = match self.open.remove(&index) {
            None => return,
            Some(Open::Text | Open::ToolCall) => None,
            Some(Open::Thinking { text, signature }) => {
                let reasoning = crate::chat::Reasoning { text, signature, ..Default::default() };
                Some(Box::new(Content::Reasoning(reasoning).into()))
            }
            Some(Open::Whole(part)) => Some(part),
        };
        self.push(Event::Closed { index, part }, out);
    }

    fn message_delta(&mut self, frame: &Value) {
        if let Some(usage) = frame.get("usage") {
            self.figures.update(usage);
        }
        let Some(delta) = frame.get("delta") else { return };
        let sequence = delta.get("stop_sequence").and_then(Value::as_str);
        if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str) {
            self.stop = Some(stop(reason, sequence));
        }
    }

    fn complete(&mut self, out: &mut VecDeque<Event>) {
        self.done = true;
        out.push_back(Event::Completed(Box::new(Completion {
            message: std::mem::take(&mut self.assembler).finish(),
            stop: self.stop.take().unwrap_or(Stop::Unknown),
            usage: self.figures.usage(),
            id: std::mem::take(&mut self.id),
            model: std::mem::take(&mut self.model),
            extra: Extra::NONE,
        })));
    }

    fn push(&mut self, event: Event, out: &mut VecDeque<Event>) {
        self.assembler.push(&event);
        out.push_back(event);
    }
}

fn index(frame: &Value) -> u32 {
    frame.get("index").and_then(Value::as_u64).and_then(|index| u32::try_from(index).ok()).unwrap_or(0)
}
