//! A reply, frame by frame.

use std::collections::VecDeque;

use serde_json::Value;

use crate::chat::Event;
use crate::failure::Failure;
use crate::protocol::frames::{self, truncated};
use crate::protocol::template::Template;
use crate::protocol::{Dialect, errors};
use crate::time::Wall;

use super::blocks::Blocks;
use super::decode::{invalid, is_error};
use super::delta::{Delta, Frame, Kind, Said, Wrap};
use super::envelope::Envelope;
use super::wire::{self, CONTENT};

/// The event that comes most.
const DELTA: &str = "content_block_delta";

/// Folds the frames of a streamed reply into events, of which the last is [`Event::Completed`].
#[derive(Debug)]
pub struct Decoder {
    wall: Wall,
    stop_reason_ends: bool,
    blocks: Blocks,
    /// The index of a block, and what is said to it.
    template: Template<(Option<u64>, Wrap)>,
    envelope: Envelope,
    done: bool,
}

// === impl Decoder ===

impl Decoder {
    /// With nothing read.
    #[must_use]
    pub fn new(dialect: &Dialect, wall: Wall) -> Self {
        Self {
            wall,
            stop_reason_ends: dialect.stop_reason_ends,
            blocks: Blocks::default(),
            template: Template::default(),
            envelope: Envelope::default(),
            done: false,
        }
    }

    /// One that reads every frame in full.
    #[cfg(test)]
    pub(in crate::protocol) fn blind(self) -> Self {
        Self { template: Template::blind(), ..self }
    }

    /// Takes in one frame: the name of its event, if it has one, and its data.
    ///
    /// # Errors
    /// The failure that the frame tells of; `INVALID_RESPONSE` for a piece of the answer that cannot be read;
    /// `TRUNCATED` for a sentinel before the end.
    pub fn frame(
        &mut self,
        event: Option<&str>,
        data: &[u8],
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        let read = self.read(event, data, out);
        self.done |= read.is_err();
        read
    }

    /// Takes in the end of the bytes.
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
        Err(truncated("the stream ended without message_stop"))
    }

    /// Whether the last event was pushed or a failure returned; nothing more is read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether an end from here on is a success: the stop reason came, and the dialect takes it for the end.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.done || (self.stop_reason_ends && self.envelope.is_stopped())
    }

    fn read(&mut self, event: Option<&str>, data: &[u8], out: &mut VecDeque<Event>) -> Result<(), Failure> {
        if event.is_none_or(|name| name == DELTA) {
            if let Some(((index, wrap), text)) = self.template.read(data) {
                return self.blocks.say(*index, wrap(text), out);
            }
            if let Ok(text) = std::str::from_utf8(data)
                && let Ok(Frame { kind, index, delta: Delta(Some(said)), error: None }) =
                    serde_json::from_str(text)
                && kind
                    .as_ref()
                    .map_or_else(|| event.is_some(), |kind| matches!(kind, Kind::ContentBlockDelta))
            {
                // A kind that the event's name alone tells is not in the bytes.
                let parts = || kind.map(|_| said.parts()).map(|(text, wrap)| (text, (index, wrap)));
                self.template.learn(data, parts);
                return self.blocks.say(index, said, out);
            }
        }
        self.read_slowly(event, data.trim_ascii(), out)
    }

    /// Reads what is no delta of a kind we know.
    #[cold]
    fn read_slowly(
        &mut self,
        event: Option<&str>,
        data: &[u8],
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        if data.starts_with(b"[DONE]") {
            if !self.envelope.is_stopped() {
                return Err(truncated("the stream ended with its sentinel and no stop reason"));
            }
            self.complete(out);
            return Ok(());
        }
        let Some(frame) = frames::json(data) else { return self.read_garbage(event, data, out) };
        if event == Some("error") || is_error(&frame, event) {
            let frame = if frame.is_string() { Value::from_iter([("error", frame)]) } else { frame };
            return Err(errors::in_band(&frame, self.wall.unix()));
        }
        let kind = frame.get("type").and_then(Value::as_str).or(event).unwrap_or_default().to_owned();
        match (&*kind, frame) {
            (DELTA, frame) => self.delta(frame, out)?,
            ("content_block_start", mut frame) => {
                let label = wire::index(&frame);
                if let Some(Value::Object(block)) = frame.get_mut("content_block").map(Value::take) {
                    self.blocks.start(label, block, out)?;
                }
            }
            ("content_block_stop", frame) => self.blocks.stop(wire::index(&frame), out),
            ("message_start", Value::Object(frame)) => self.envelope.start(frame, out),
            ("message_delta", Value::Object(frame)) => self.envelope.change(frame, out),
            ("message_stop", _) => self.complete(out),
            _ => out.push_back(Event::KeepAlive),
        }
        Ok(())
    }

    /// Reads what is no JSON.
    fn read_garbage(
        &mut self,
        event: Option<&str>,
        data: &[u8],
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        if event == Some("error") {
            let text = String::from_utf8_lossy(data).into_owned();
            return Err(errors::in_band(&Value::from_iter([("error", text)]), self.wall.unix()));
        }
        let heartbeat = data.is_empty() || event.is_some_and(|name| !CONTENT.contains(&name));
        if !heartbeat && !self.is_settled() {
            return Err(invalid("a frame of the stream is not JSON"));
        }
        out.push_back(Event::KeepAlive);
        Ok(())
    }

    fn delta(&mut self, mut frame: Value, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        let index = wire::index(&frame);
        if let Some(said) = frame.get("delta").and_then(Said::lenient) {
            return self.blocks.say(index, said, out);
        }
        if let Some(Value::Object(delta)) = frame.get_mut("delta").map(Value::take) {
            self.blocks.note(index, delta);
        }
        out.push_back(Event::KeepAlive);
        Ok(())
    }

    fn complete(&mut self, out: &mut VecDeque<Event>) {
        self.done = true;
        let completion = self.envelope.close(self.blocks.finish(out));
        out.push_back(Event::Completed(Box::new(completion)));
    }
}
