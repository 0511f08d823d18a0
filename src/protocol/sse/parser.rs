//! The parser: chunks in, items out.

use std::collections::VecDeque;
use std::mem;

use bytes::{Buf, Bytes};

use super::block::{Block, Frame, Line};
use super::held::Held;
use super::item::{Item, TooLarge};
use super::line::{CR, DATA, LF, line_end};

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
    held: Held,
    block: Block,
    last_id: Vec<u8>,
    /// The last byte read was a CR that ended a line: an LF now belongs to it.
    after_cr: bool,
    /// No line has been read yet, so the next may begin with a byte-order mark.
    fresh: bool,
    done: bool,
}

/// Where an item ended in the chunk.
#[derive(Clone, Copy, Debug)]
enum End {
    /// A whole frame of one `data` line, which ends here; an LF and a blank line follow.
    Plain(usize),
    Comment(usize),
    Block(usize),
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
            held: Held::default(),
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
            return;
        }
        if self.chunk.is_empty() && self.queue.is_empty() {
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
            if self.after_cr && !self.chunk.is_empty() {
                self.after_cr = false;
                if let Some(tail) = self.swallow_lf() {
                    return Ok(Some(tail));
                }
            }
            if let Some(end) = self.scan()? {
                return Ok(Some(self.take(end)));
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
        let first = self.block.line == 0;
        let line = self.block.line..self.held.len();
        let read = self.block.read(&self.held, line, mem::take(&mut self.fresh));
        let raw = self.cut(0);
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
    fn scan(&mut self) -> Result<Option<End>, TooLarge> {
        let mut at = 0;
        while let Some(end) = line_end(&self.chunk, at) {
            let held = self.held.len();
            if held + end >= self.limit {
                return Err(self.refuse());
            }
            let first = self.block.line == 0;
            if first && held == 0 && self.is_plain(end) {
                return Ok(Some(End::Plain(end)));
            }
            let next = self.line_after(end);
            let bytes = if held == 0 {
                at = next;
                &*self.chunk
            } else {
                self.held.extend(&self.chunk[..next]);
                self.chunk.advance(next);
                &*self.held
            };
            match self.block.read(bytes, self.block.line..held + end, mem::take(&mut self.fresh)) {
                Line::Blank => return Ok(Some(End::Block(at))),
                Line::Comment if first => return Ok(Some(End::Comment(at))),
                Line::Comment | Line::Field => self.block.line = held + next,
            }
        }
        self.hold()?;
        Ok(None)
    }

    /// Whether the chunk begins with the commonest of frames: a `data` line up to `end`, then a blank line, both with
    /// LF. Nothing else has to be known of it, which halves its cost.
    #[inline]
    fn is_plain(&self, end: usize) -> bool {
        self.chunk.starts_with(DATA) && self.chunk[end..].starts_with(b"\n\n") && end + 2 <= self.limit
    }

    /// Takes the bytes of the item that ended, and makes it.
    #[inline]
    fn take(&mut self, end: End) -> Item {
        match end {
            End::Plain(end) => {
                self.fresh = false;
                Item::Event(Frame::plain(self.chunk.split_to(end + 2), end))
            }
            End::Comment(at) => Item::Comment(self.cut(at)),
            End::Block(at) => {
                let raw = self.cut(at);
                self.close(raw, true)
            }
        }
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
        self.held.extend(b"\n");
        self.block.line = self.held.len();
        None
    }

    /// Where the line after the line end at `end` begins.
    #[inline]
    fn line_after(&mut self, end: usize) -> usize {
        self.after_cr = self.chunk[end] == CR && end + 1 == self.chunk.len();
        end + 1 + usize::from(self.chunk[end..].starts_with(b"\r\n"))
    }

    /// The bytes of the item that ends at `at`.
    #[inline]
    fn cut(&mut self, at: usize) -> Bytes {
        if self.held.is_empty() { self.chunk.split_to(at) } else { self.held.take() }
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
    fn hold(&mut self) -> Result<(), TooLarge> {
        if self.held.len() + self.chunk.len() > self.limit {
            return Err(self.refuse());
        }
        if !self.chunk.is_empty() {
            self.held.extend(&self.chunk);
            self.chunk = Bytes::new();
        }
        Ok(())
    }

    #[cold]
    fn refuse(&mut self) -> TooLarge {
        let limit = self.limit;
        *self = Self { done: true, last_id: mem::take(&mut self.last_id), ..Self::new(limit) };
        TooLarge { limit }
    }
}
