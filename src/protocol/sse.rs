//! Server-sent events, from chunks of bytes to frames.
//!
//! A [`Parser`] does no I/O: [`push`](Parser::push) it a chunk, drain [`next`](Parser::next) until it wants more
//! bytes, call [`finish`](Parser::finish) at the end of the body. Where the transport cut the chunks carries no
//! meaning: every way of cutting the same bytes gives the same items.
//!
//! # Items
//! - A block with at least one `data` line is an [`Item::Event`].
//! - A comment line between two blocks is an [`Item::Comment`] as soon as its line ends. A comment *inside* a block
//!   stays part of that block's bytes, so that a frame is always one piece.
//! - A blank line on its own, or a block without `data`, is an [`Item::KeepAlive`]: never an event, but a sign of life.
//!   What such a block says can still be read with [`fields`], for servers that put an error under a field of their
//!   own making.
//! - [`Item::Tail`] is the LF of a CRLF that was cut after its CR. The CR has already ended the item before it, without
//!   waiting; the LF follows on its own.
//!
//! The bytes of all items, in order, are the bytes that were read: a hop that speaks the same protocol forwards
//! [`Item::raw`] and changes nothing.
//!
//! # Cost
//! Each byte is looked at once. A frame that lies within one chunk is a slice of it and allocates nothing; it keeps
//! that chunk in memory while it lives. A frame cut by a chunk's end is copied once, and only that frame, to a place
//! of a few KiB that is used again once the frames in it are dropped. Several `data` lines are joined into one copy.
//!
//! # Limits
//! One item may take up `limit` bytes: all of them count, `data:` lines without content and comments without end
//! included. More is [`TooLarge`], after which the parser yields nothing.
//!
//! # What it does not do
//! It never reconnects: `retry` lines are left in the raw bytes, and the last id is only told. It reads no JSON and
//! gives `[DONE]` no meaning. It decodes no text unless asked ([`Frame::text`]).
//!
//! ```
//! use bytes::Bytes;
//! use watertight::protocol::sse::{DEFAULT_LIMIT, Item, Parser};
//!
//! let mut parser = Parser::new(DEFAULT_LIMIT);
//! parser.push(Bytes::from_static(b": waiting\n\ndata: {\"a\":1}\n\ndata: [DO"));
//! let mut seen = Vec::new();
//! while let Some(item) = parser.next()? {
//!     if let Item::Event(frame) = item {
//!         seen.push(frame.text().into_owned());
//!     }
//! }
//! assert_eq!(seen, ["{\"a\":1}"]);
//!
//! parser.push(Bytes::from_static(b"NE]"));
//! assert!(parser.next()?.is_none());
//! let Some(Item::Event(last)) = parser.finish()? else { panic!("the rest is an event") };
//! assert!(last.data() == b"[DONE]" && !last.is_terminated());
//! # Ok::<_, watertight::protocol::sse::TooLarge>(())
//! ```

mod block;
mod held;
mod item;
mod line;
mod parser;
#[cfg(test)]
mod tests;

pub use self::block::Frame;
pub use self::item::{Item, TooLarge};
pub use self::line::fields;
pub use self::parser::{DEFAULT_LIMIT, Parser};
