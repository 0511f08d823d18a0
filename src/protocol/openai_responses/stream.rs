//! A reply, event by event.

use std::collections::VecDeque;

use serde_json::Value;

use crate::chat::Event;
use crate::failure::{Code, Failure};
use crate::protocol::frames::{self, is_heartbeat};
use crate::protocol::template::Template;
use crate::protocol::{Dialect, errors};
use crate::time::Wall;

use super::fold::Fold;
use super::item::Voice;
use super::output::unreasoned;
use super::wire::{Frame, Part};

/// Folds the events of a streamed reply into ours, of which the last is [`Event::Completed`].
#[derive(Debug)]
pub struct Decoder {
    wall: Wall,
    fold: Fold,
    template: Template<Part>,
    done: bool,
}

// === impl Decoder ===

impl Decoder {
    /// With nothing read. The dialect changes nothing about how a response is read.
    #[must_use]
    pub fn new(_dialect: &Dialect, wall: Wall) -> Self {
        Self { wall, fold: Fold::default(), template: Template::default(), done: false }
    }

    /// One that reads every frame in full.
    #[cfg(test)]
    pub(in crate::protocol) fn blind(self) -> Self {
        Self { template: Template::blind(), ..self }
    }

    /// Takes in one frame: the name of its event, if it has one, and its data.
    ///
    /// # Errors
    /// The frame tells of an error, is no JSON, or is a sentinel before the terminal event.
    pub fn frame(
        &mut self,
        event: Option<&str>,
        data: &[u8],
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        let read = self.read(event, data.trim_ascii(), out);
        self.done |= read.is_err();
        read
    }

    /// Takes in the end of the bytes.
    ///
    /// # Errors
    /// `TRUNCATED`, if no terminal event came.
    pub fn end(&mut self, _out: &mut VecDeque<Event>) -> Result<(), Failure> {
        if std::mem::replace(&mut self.done, true) { Ok(()) } else { Err(truncated()) }
    }

    /// Whether the last event was pushed or a failure returned; nothing more is read.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Whether an end from here on is a success: not before the terminal event, after which nothing is awaited.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.done
    }

    fn read(&mut self, event: Option<&str>, data: &[u8], out: &mut VecDeque<Event>) -> Result<(), Failure> {
        if event != Some("error")
            && let Some((part, text)) = self.template.read(data)
        {
            return self.fold.delta(part.voice, &mut part.frame(text), out);
        }
        if data.starts_with(b"{")
            && event != Some("error")
            && let Ok(text) = std::str::from_utf8(data)
            && let Ok(mut frame) = serde_json::from_str::<Frame<'_>>(text)
            && frame.error.is_none()
        {
            return self.apply(event, &mut frame, data, out);
        }
        self.read_slowly(event, data, out)
    }

    /// Reads what does not fit the shape of an event.
    #[cold]
    fn read_slowly(
        &mut self,
        event: Option<&str>,
        data: &[u8],
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        if data.starts_with(b"[DONE]") {
            return Err(truncated());
        }
        if event == Some("error") {
            return Err(self.reported(data));
        }
        let Some(value) = frames::json(data) else {
            if !data.is_empty() && !is_heartbeat(event) {
                return Err(broken(data));
            }
            out.push_back(Event::KeepAlive);
            return Ok(());
        };
        if errors::has_error(&value) {
            return Err(errors::in_band(&value, self.wall.unix()));
        }
        if let Value::Object(fields) = value {
            return self.apply(event, &mut Frame::lenient(fields), data, out);
        }
        out.push_back(Event::KeepAlive);
        Ok(())
    }

    fn apply(
        &mut self,
        event: Option<&str>,
        frame: &mut Frame<'_>,
        data: &[u8],
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        let named = std::mem::take(&mut frame.kind).0;
        let kind = if named.is_empty() { event.unwrap_or_default() } else { &*named };
        if let Some(voice) = delta_of(kind) {
            // A kind that the event's name alone tells is not in the bytes.
            let only = || (!named.is_empty()).then(|| (&*frame.delta.0, Part::of(voice, frame)));
            self.template.learn(data, only);
            return self.fold.delta(voice, frame, out);
        }
        let fold = &mut self.fold;
        match kind {
            "response.output_text.done" => fold.catch_up(Voice::Text, frame, out),
            "response.refusal.done" => fold.catch_up(Voice::Refusal, frame, out),
            "response.reasoning_text.done" => fold.catch_up(Voice::Thought, frame, out),
            "response.reasoning_summary_text.done" => fold.catch_up(Voice::Summary, frame, out),
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                fold.catch_up(Voice::Arguments, frame, out)
            }
            _ => self.apply_rare(kind, frame, data, out),
        }
    }

    /// Takes in what comes a few times in a reply.
    fn apply_rare(
        &mut self,
        kind: &str,
        frame: &mut Frame<'_>,
        data: &[u8],
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        let item = frame.item.take().filter(|item| item.is_object());
        let response = frame.response.take().map_or(Value::Null, |response| *response);
        match (kind, item) {
            ("response.output_item.added", Some(item)) => self.fold.open(&item, frame.output_index, out),
            ("response.output_item.done", Some(item)) => self.fold.close(*item, frame.output_index, out),
            ("response.created" | "response.in_progress" | "response.queued", _) => {
                self.fold.start(&response, out);
                Ok(())
            }
            ("response.completed" | "response.done", _) => self.complete("completed", response, out),
            ("response.incomplete", _) => self.complete("incomplete", response, out),
            ("response.failed", _) if !response.is_null() && !errors::has_error(&response) => {
                Err(unreasoned("failed"))
            }
            ("error" | "response.failed" | "response.error", _) => Err(self.reported(data)),
            ("response.cancelled", _) => Err(unreasoned("cancelled")),
            ("response.content_part.added" | "response.reasoning_summary_part.added", _) => {
                self.fold.next_part(frame);
                Ok(())
            }
            (
                "response.content_part.done"
                | "response.reasoning_summary_part.done"
                | "response.output_item.added"
                | "response.output_item.done"
                | "response.output_text.annotation.added",
                _,
            ) => Ok(()),
            (kind, _) if !kind.starts_with("response.") && !is_heartbeat(Some(kind)) && is_error(data) => {
                Err(self.reported(data))
            }
            _ => {
                out.push_back(Event::KeepAlive);
                Ok(())
            }
        }
    }

    fn complete(&mut self, status: &str, response: Value, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        self.fold.complete(status, response, self.wall, out)?;
        self.done = true;
        Ok(())
    }

    /// The failure of a frame that says it is one.
    fn reported(&self, data: &[u8]) -> Failure {
        frames::error(data).map_or_else(|| broken(data), |told| errors::in_band(&told, self.wall.unix()))
    }
}

/// What an event of this kind has more of.
fn delta_of(kind: &str) -> Option<Voice> {
    Some(match kind {
        "response.output_text.delta" => Voice::Text,
        "response.refusal.delta" => Voice::Refusal,
        "response.reasoning_text.delta" => Voice::Thought,
        "response.reasoning_summary_text.delta" => Voice::Summary,
        "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
            Voice::Arguments
        }
        _ => return None,
    })
}

/// Whether it is `{code, message, type}`, an error without an envelope.
fn is_error(data: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(data).unwrap_or_default();
    value.get("message").is_some_and(Value::is_string) && value.get("code").is_some()
}

fn truncated() -> Failure {
    Failure::new(Code::Truncated, "the stream ended without its terminal event")
}

/// The failure of something that is not the protocol. What it is instead is never shown.
fn broken(data: &[u8]) -> Failure {
    let message = match data {
        [b'<', ..] => "an event of the stream is a page of markup, not JSON",
        _ => "an event of the stream is not JSON",
    };
    Failure::new(Code::InvalidResponse, message)
}
