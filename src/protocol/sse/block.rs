//! The block being read, and the frame it becomes.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use memchr::memchr;

use super::line::{BOM, DATA, bare, split};

/// One event: its bytes as they came, and where in them the fields lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    raw: Bytes,
    data: Data,
    event: Span,
    id: Option<Span>,
    terminated: bool,
}

/// What the lines of the open block have told so far. Places count from the block's first byte.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Where the line being read begins.
    pub(super) line: usize,
    data: Option<Data>,
    event: Span,
    id: Option<Span>,
}

/// What a line was.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    Blank,
    Comment,
    Field,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Data {
    /// The value of the only `data` line.
    One(Span),
    /// The values of several, joined with LF.
    Joined(Vec<u8>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
}

// === impl Frame ===

impl Frame {
    /// The frame of one `data` line up to `end`, and a blank line.
    #[inline]
    pub(super) fn plain(raw: Bytes, end: usize) -> Self {
        let start = end - bare(&raw[DATA.len()..end]).len();
        Self { raw, data: Data::One(Span { start, end }), event: Span::default(), id: None, terminated: true }
    }

    /// The data: the values of all `data` lines, joined with LF. May be empty; need not be UTF-8.
    #[inline]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        match &self.data {
            Data::One(span) => span.of(&self.raw),
            Data::Joined(data) => data,
        }
    }

    /// The data as text, each invalid sequence replaced by U+FFFD.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.data())
    }

    /// The type of the event, if the block named one. An empty name is none.
    #[inline]
    #[must_use]
    pub fn event(&self) -> Option<&[u8]> {
        Some(self.event.of(&self.raw)).filter(|name| !name.is_empty())
    }

    /// The id this very block told; see [`Parser::last_id`](super::Parser::last_id) for the one that lasts. An id with
    /// a NUL is none, an empty one takes the last back.
    #[must_use]
    pub fn id(&self) -> Option<&[u8]> {
        self.id.map(|span| span.of(&self.raw))
    }

    /// The exact bytes of the frame, its blank line included.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// Whether the blank line came. If not, the stream ended inside this frame, perhaps inside its data.
    #[inline]
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.terminated
    }
}

// === impl Block ===

impl Block {
    /// Reads the line at `line` of the block's `bytes`. At the start of the stream it may begin with a mark.
    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8], mut line: Range<usize>, fresh: bool) -> Line {
        if fresh && bytes[line.clone()].starts_with(BOM) {
            line.start += BOM.len();
        }
        let text = &bytes[line.clone()];
        match text.first() {
            None => return Line::Blank,
            Some(b':') => return Line::Comment,
            Some(_) => {}
        }
        let (name, value) = split(text);
        let span = Span { start: line.end - value.len(), end: line.end };
        match name {
            b"data" => self.join(bytes, span),
            b"event" => self.event = span,
            b"id" if memchr(0, value).is_none() => self.id = Some(span),
            _ => {}
        }
        Line::Field
    }

    /// The id that the block told, if it did.
    #[inline]
    pub(super) fn id<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        self.id.map(|span| span.of(raw))
    }

    /// The frame with these bytes, or the bytes if there was no data.
    #[inline]
    pub(super) fn into_frame(self, raw: Bytes, terminated: bool) -> Result<Frame, Bytes> {
        match self.data {
            Some(data) => Ok(Frame { raw, data, event: self.event, id: self.id, terminated }),
            None => Err(raw),
        }
    }

    #[inline]
    fn join(&mut self, bytes: &[u8], span: Span) {
        match &mut self.data {
            None => self.data = Some(Data::One(span)),
            Some(Data::One(only)) => {
                self.data = Some(Data::Joined([only.of(bytes), span.of(bytes)].join(&b'\n')));
            }
            Some(Data::Joined(data)) => {
                data.push(b'\n');
                data.extend_from_slice(span.of(bytes));
            }
        }
    }
}

// === impl Span ===

impl Span {
    #[inline]
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.end]
    }
}
