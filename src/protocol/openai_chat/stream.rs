//! A reply, frame by frame.

use std::collections::VecDeque;

use serde::de::IgnoredAny;

use crate::chat::{Event, Message, Stop};
use crate::failure::Failure;
use crate::protocol::frames::{self, is_heartbeat, truncated};
use crate::protocol::template::Template;
use crate::protocol::{Dialect, errors};
use crate::time::Wall;

use super::decode::broken;
use super::fold::Fold;
use super::lenient;
use super::voice::Voice;
use super::wire::Chunk;

/// Folds the frames of a streamed reply into events, of which the last is [`Event::Completed`].
#[derive(Debug)]
pub struct Decoder {
    wall: Wall,
    fold: Fold,
    template: Template<Voice>,
    stop: Option<Stop>,
    done: bool,
}

// === impl Decoder ===

impl Decoder {
    /// With nothing read. The dialect changes nothing about how a chat is read.
    #[must_use]
    pub fn new(_dialect: &Dialect, wall: Wall) -> Self {
        Self { wall, fold: Fold::default(), template: Template::default(), stop: None, done: false }
    }

    /// One that reads every frame in full.
    #[cfg(test)]
    pub(in crate::protocol) fn blind(self) -> Self {
        Self { template: Template::blind(), ..self }
    }

    /// Takes in one frame: the name of its event, if it has one, and its data.
    ///
    /// # Errors
    /// The frame tells of an error, is no JSON, or is the sentinel of a stream that had no end.
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
    /// `TRUNCATED`, if no finish reason came.
    pub fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        match self.stop.take() {
            _ if self.done => {}
            Some(stop) => self.complete(stop, out),
            None => {
                self.done = true;
                return Err(truncated("the stream ended without a finish reason"));
            }
        }
        Ok(())
    }

    /// Whether the last event was pushed or a failure returned; nothing more is read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the finish reason came, so that an end from here on is a success.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.done || self.stop.is_some()
    }

    fn read(&mut self, event: Option<&str>, data: &[u8], out: &mut VecDeque<Event>) -> Result<(), Failure> {
        if event == Some("error") {
            return Err(self.reported(data));
        }
        if let Some((voice, text)) = self.template.read(data) {
            return self.fold.say(*voice, text, out);
        }
        if data.starts_with(b"{")
            && let Ok(text) = std::str::from_utf8(data)
            && let Ok(mut chunk) = serde_json::from_str::<Chunk<'_>>(text)
            && is_plain(&chunk)
        {
            self.template.learn(data, || Voice::only(&chunk));
            return self.apply(&mut chunk, out);
        }
        if data.starts_with(b"[DONE]") {
            return self.sentinel(out);
        }
        self.read_slowly(event, data, out)
    }

    /// Reads what does not fit the shape of a chunk.
    #[cold]
    fn read_slowly(
        &mut self,
        event: Option<&str>,
        data: &[u8],
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        let Some(frame) = frames::json(data) else {
            if data.is_empty() || is_heartbeat(event) || self.is_settled() {
                out.push_back(Event::KeepAlive);
                return Ok(());
            }
            return Err(broken(data));
        };
        if let Some(error) = lenient::error_in(&frame) {
            return Err(errors::in_band(error, self.wall.unix()));
        }
        let mut chunk = lenient::chunk(&frame);
        if chunk.choices.is_none() && chunk.figures().is_none() {
            out.push_back(Event::KeepAlive);
            return Ok(());
        }
        self.apply(&mut chunk, out)
    }

    /// The failure of a frame whose event is named an error.
    fn reported(&self, data: &[u8]) -> Failure {
        frames::error(data).map_or_else(|| broken(data), |told| errors::in_band(&told, self.wall.unix()))
    }

    fn apply(&mut self, chunk: &mut Chunk<'_>, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        if let Some(stop) = self.fold.take(chunk, self.stop.is_some(), out)? {
            self.stop.get_or_insert(stop);
        }
        Ok(())
    }

    fn sentinel(&mut self, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        match self.stop.take() {
            Some(stop) => self.complete(stop, out),
            None if self.fold.is_empty() => {
                return Err(truncated("the stream ended with its sentinel and no output"));
            }
            None => {
                let completion = self.fold.finish(Stop::Unknown);
                if has_half_arguments(&completion.message) {
                    return Err(truncated("the stream ended with its sentinel inside a tool call"));
                }
                self.done = true;
                out.push_back(Event::Completed(Box::new(completion)));
            }
        }
        Ok(())
    }

    fn complete(&mut self, stop: Stop, out: &mut VecDeque<Event>) {
        self.done = true;
        out.push_back(Event::Completed(Box::new(self.fold.finish(stop))));
    }
}

/// Whether a chunk is one, with no error in it.
fn is_plain(chunk: &Chunk<'_>) -> bool {
    let choice = chunk.choices.as_ref().map(|choices| &choices.0);
    chunk.error.is_none() && choice.is_some_and(|choice| choice.as_ref().is_none_or(|it| it.error.is_none()))
}

fn has_half_arguments(message: &Message) -> bool {
    message.tool_calls().any(|call| serde_json::from_str::<IgnoredAny>(&call.arguments).is_err())
}
