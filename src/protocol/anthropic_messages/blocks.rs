//! The blocks of a streamed reply.

use std::collections::VecDeque;

use serde_json::Value;

use crate::chat::{Assembler, Content, Event, Extra, Message, Part, ToolCallStart};
use crate::failure::Failure;

use super::block::{Block, State};
use super::decode::invalid;
use super::delta::Said;
use super::{Fields, part_in};

/// The most blocks of a reply. No sane one comes near; whoever opens more would have us search among them for ever.
const MAX_BLOCKS: usize = 4096;

/// Indices on the wire below this one are kept; far from the last, so that there is always a next one.
const INDICES: u32 = u32::MAX / 2;

/// Folds what is said in blocks into events and a message.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    assembler: Assembler,
    blocks: Vec<Block>,
}

// === impl Blocks ===

impl Blocks {
    /// Opens a block.
    ///
    /// # Errors
    /// `INVALID_RESPONSE` for more blocks than a reply can have.
    pub(super) fn start(
        &mut self,
        label: Option<u64>,
        fields: Fields,
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        let Part { content, cache, extra } = part_in::spoken(fields);
        let (state, said) = match content {
            Content::Text(text) => (State::Text, Some(Said::Text(text.into()))),
            Content::ToolCall(call) => {
                let whole = if call.arguments == "{}" { String::new() } else { call.arguments };
                let block = self.open(label, State::Call { whole }, out)?;
                block.extra = extra;
                block.told = !(call.id.is_empty() && call.name.is_empty());
                if block.told {
                    let start = Box::new(ToolCallStart::new(call.id, call.name));
                    let event = Event::ToolCall { index: block.index, start };
                    self.push(event, out);
                }
                return Ok(());
            }
            Content::Reasoning(mut reasoning) if reasoning.encrypted.is_none() => {
                let text = std::mem::take(&mut reasoning.text);
                (State::Thinking(Box::new(reasoning)), Some(Said::Thinking(text.into())))
            }
            Content::Other(_, Value::Object(fields)) => (State::Other { fields, input: String::new() }, None),
            content => (State::Whole(Box::new(Part { content, cache, extra: extra.clone() })), None),
        };
        let block = self.open(label, state, out)?;
        block.extra = extra;
        let label = block.label;
        said.map_or(Ok(()), |said| self.say(Some(label), said, out))
    }

    /// Adds to a block.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(super) fn say(
        &mut self,
        label: Option<u64>,
        said: Said<'_>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        let Some(block) = find(&mut self.blocks, label) else {
            return self.say_unopened(label, said, out);
        };
        if let Some(event) = block.say(said) {
            self.push(event, out);
        }
        Ok(())
    }

    /// Takes in a delta of a kind we do not know.
    pub(super) fn note(&mut self, label: Option<u64>, delta: Fields) {
        if let Some(block) = find(&mut self.blocks, label) {
            block.note(delta);
        }
    }

    /// Closes a block.
    pub(super) fn stop(&mut self, label: Option<u64>, out: &mut VecDeque<Event>) {
        if let Some(block) = find(&mut self.blocks, label) {
            for event in block.close().into_iter().flatten() {
                self.push(event, out);
            }
        }
    }

    /// Closes what is open, and gives the message.
    pub(super) fn finish(&mut self, out: &mut VecDeque<Event>) -> Message {
        let mut blocks = std::mem::take(&mut self.blocks);
        for event in blocks.iter_mut().flat_map(Block::close).flatten() {
            self.push(event, out);
        }
        let mut message = std::mem::take(&mut self.assembler).finish();
        // The message has a part for each block that was told, in the order of their indices.
        blocks.retain(|block| block.told);
        blocks.sort_by_key(|block| block.index);
        for (part, block) in message.parts.iter_mut().zip(blocks) {
            if block.extra != Extra::NONE {
                part.extra = block.extra;
            }
        }
        message
    }

    #[cold]
    fn say_unopened(
        &mut self,
        label: Option<u64>,
        said: Said<'_>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        let state = match said {
            Said::Text(_) => State::Text,
            Said::Thinking(_) => State::Thinking(Box::default()),
            Said::Arguments(_) | Said::Signature(_) => {
                out.push_back(Event::KeepAlive);
                return Ok(());
            }
        };
        let label = self.open(label, state, out)?.label;
        self.say(Some(label), said, out)
    }

    fn open(
        &mut self,
        label: Option<u64>,
        state: State,
        out: &mut VecDeque<Event>,
    ) -> Result<&mut Block, Failure> {
        if self.blocks.len() >= MAX_BLOCKS {
            return Err(invalid("the reply has more blocks than a reply can have"));
        }
        if label.is_some() {
            self.stop(label, out);
        }
        let next = self.blocks.iter().map(|block| block.index).max().map_or(0, |last| last + 1);
        let label = label.unwrap_or_else(|| next.into());
        let free = |index: &u32| self.blocks.iter().all(|block| block.index != *index);
        let index = u32::try_from(label).ok().filter(|index| *index < INDICES).filter(free).unwrap_or(next);
        let at = self.blocks.len();
        self.blocks.push(Block::new(label, index, state));
        Ok(&mut self.blocks[at])
    }

    fn push(&mut self, event: Event, out: &mut VecDeque<Event>) {
        self.assembler.push(&event);
        out.push_back(event);
    }
}

/// The block of this index; where none is told, the one opened last.
fn find(blocks: &mut [Block], label: Option<u64>) -> Option<&mut Block> {
    match label {
        Some(label) => blocks.iter_mut().rev().find(|block| block.label == label),
        None => blocks.last_mut(),
    }
}
