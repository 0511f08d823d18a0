//! The parser: chunks in, items out.

use std::collections::VecDeque;
use std::mem;

use bytes::{Buf, Bytes};

use super::block::{Block, Line};
use super::item::{Item, TooLarge};
use super::line::{LF, line_end};

/// The largest item by default: 16 MiB.
///
/// The format knows no limit, and real events are large: one that repeats a whole response, or carries part of an
/// image, takes megabytes. 16 MiB leaves several times that and still bounds what one broken peer can make us hold.
pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

/// Reads one event stream. See the [module](super).
#[derive(Debug)]
pub struct Parser {
    limit: usize,
    /// What is left of the chunk being read. Nothing of it belongs to `held`.
    chunk: Bytes,
    /// Chunks pushed before the one in `chunk` was drained.
    queue: VecDeque<Bytes>,
    /// The open block, as far as earlier chunks brought it.
    held: Vec<u8>,
    block: Block,
    last_id: Vec<u8>,
    /// The last byte read was a CR that ended a line: an LF now belongs to it.
    after_cr: bool,
    /// No line has been read yet, so the next may begin with a byte-order mark.
    fresh: bool,
    done: bool,
}

// === impl Parser ===

impl Parser {
    /// A parser at the beginning of a stream, for items of at most `limit` bytes each.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            chunk: Bytes::new(),
            queue: VecDeque::new(),
            held: Vec::new(),
            block: Block::default(),
            last_id: Vec::new(),
            after_cr: false,
            fresh: true,
            done: false,
        }
    }

    /// Takes the next chunk of the stream. Drain [`next`](Self::next) before pushing another: what is pushed earlier
    /// waits in memory. Ignored after the end.
    pub fn push(&mut self, chunk: Bytes) {
        if self.done {
        } else if self.chunk.is_empty() && self.queue.is_empty() {
            self.chunk = chunk;
        } else {
            self.queue.push_back(chunk);
        }
    }

    /// The next item; `None` wants more bytes.
    ///
    /// # Errors
    /// Once, when an item is larger than the limit. Nothing comes after it.
    #[expect(clippy::should_implement_trait, reason = "`None` is not the end: more may be pushed")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Item>, TooLarge> {
        loop {
            let item = self.scan()?;
            if item.is_some() {
                return Ok(item);
            }
            let Some(chunk) = self.queue.pop_front() else { return Ok(None) };
            self.chunk = chunk;
        }
    }

    /// Tells the end of the stream: gives what [`next`](Self::next) would, then the unfinished rest, then `None`.
    ///
    /// The format discards an event without its blank line. Here it comes with [`Frame::is_terminated`] false: a
    /// complete end marker may be believed, half a JSON text never.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn finish(&mut self) -> Result<Option<Item>, TooLarge> {
        let item = self.next()?;
        if item.is_some() || mem::replace(&mut self.done, true) || self.held.is_empty() {
            return Ok(item);
        }
        let line = self.block.line..self.held.len();
        let first = line.start == 0;
        let read = self.block.read(&self.held, line, mem::take(&mut self.fresh));
        let raw = Bytes::from(mem::take(&mut self.held));
        Ok(Some(match read {
            Line::Comment if first => Item::Comment(raw),
            Line::Comment | Line::Field | Line::Blank => self.close(raw, false),
        }))
    }

    /// The id that the events up to the last item have left: that of the last complete block that told one.
    #[must_use]
    pub fn last_id(&self) -> &[u8] {
        &self.last_id
    }

    /// Reads lines of the chunk up to the end of an item. Without one the chunk is used up: all of it is held.
    fn scan(&mut self) -> Result<Option<Item>, TooLarge> {
        if self.after_cr && !self.chunk.is_empty() {
            self.after_cr = false;
            if let Some(tail) = self.swallow_lf() {
                return Ok(Some(tail));
            }
        }
        let mut at = 0;
        while let Some(end) = line_end(&self.chunk, at) {
            let held = self.held.len();
            if held + end >= self.limit {
                return Err(self.refuse());
            }
            let next = self.line_after(end);
            let line = self.block.line..held + end;
            let first = line.start == 0;
            let bytes = if held == 0 {
                at = next;
                &*self.chunk
            } else {
                self.held.extend_from_slice(&self.chunk[..next]);
                self.chunk.advance(next);
                &*self.held
            };
            match self.block.read(bytes, line, mem::take(&mut self.fresh)) {
                Line::Blank => {
                    let raw = self.take(at);
                    return Ok(Some(self.close(raw, true)));
                }
                Line::Comment if first => return Ok(Some(Item::Comment(self.take(at)))),
                Line::Comment | Line::Field => self.block.line = held + next,
            }
        }
        self.hold()
    }

    /// Begins after a CR that ended the last chunk. An LF is the rest of that line end.
    fn swallow_lf(&mut self) -> Option<Item> {
        if self.chunk[0] != LF {
            return None;
        }
        let lf = self.chunk.split_to(1);
        if self.held.is_empty() {
            return Some(Item::Tail(lf));
        }
        self.held.push(LF);
        self.block.line = self.held.len();
        None
    }

    /// Where the line after the line end at `end` begins.
    #[inline]
    fn line_after(&mut self, end: usize) -> usize {
        if self.chunk[end] == LF {
            return end + 1;
        }
        match self.chunk.get(end + 1) {
            Some(&LF) => end + 2,
            Some(_) => end + 1,
            None => {
                self.after_cr = true;
                end + 1
            }
        }
    }

    /// The bytes of the item that ends at `at`.
    #[inline]
    fn take(&mut self, at: usize) -> Bytes {
        if self.held.is_empty() { self.chunk.split_to(at) } else { Bytes::from(mem::take(&mut self.held)) }
    }

    /// Makes an item of the open block.
    #[inline]
    fn close(&mut self, raw: Bytes, terminated: bool) -> Item {
        let block = mem::take(&mut self.block);
        if terminated && let Some(id) = block.id(&raw) {
            self.last_id.clear();
            self.last_id.extend_from_slice(id);
        }
        match block.into_frame(raw, terminated) {
            Ok(frame) => Item::Event(frame),
            Err(raw) => Item::KeepAlive(raw),
        }
    }

    /// Keeps the rest of the chunk until the next one.
    fn hold(&mut self) -> Result<Option<Item>, TooLarge> {
        if self.held.len() + self.chunk.len() > self.limit {
            return Err(self.refuse());
        }
        self.held.extend_from_slice(&self.chunk);
        self.chunk = Bytes::new();
        Ok(None)
    }

    #[cold]
    fn refuse(&mut self) -> TooLarge {
        let limit = self.limit;
        *self = Self { done: true, last_id: mem::take(&mut self.last_id), ..Self::new(limit) };
        TooLarge { limit }
    }
}
