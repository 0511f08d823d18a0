//! What a parser gives.

use std::{error, fmt};

use bytes::Bytes;

use super::block::Frame;

/// One piece of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// A block with data.
    Event(Frame),
    /// A comment line between blocks, as it came.
    Comment(Bytes),
    /// A blank line, or a block without data, as it came.
    KeepAlive(Bytes),
    /// The LF of a CRLF whose CR ended the item before and the chunk with it.
    Tail(Bytes),
}

/// An item took more bytes than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLarge {
    /// The limit, in bytes.
    pub limit: usize,
}

// === impl Item ===

impl Item {
    /// The exact bytes of the item.
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        match self {
            Self::Event(frame) => frame.raw(),
            Self::Comment(raw) | Self::KeepAlive(raw) | Self::Tail(raw) => raw,
        }
    }
}

// === impl TooLarge ===

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of the stream is larger than {} bytes", self.limit)
    }
}

impl error::Error for TooLarge {}
