//! Where cut items are put together.

use std::ops::Deref;

use bytes::{Bytes, BytesMut};

/// The room made for items. Once the reader let go of the items before, the next goes into the same room; a reader
/// who keeps one item keeps no more than this of its neighbours.
const ROOM: usize = 4 * 1024;

/// How much of the room must be free for an item to begin there. Most take less, and are moved no more.
const FREE: usize = 512;

/// The open item, as far as earlier chunks brought it.
#[derive(Debug, Default)]
pub(super) struct Held(BytesMut);

// === impl Held ===

impl Held {
    #[inline]
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        if self.0.capacity() == 0 {
            self.0.reserve(ROOM);
        } else if self.0.is_empty() {
            self.0.reserve(FREE);
        }
        self.0.extend_from_slice(bytes);
    }

    /// The item, which is whole.
    pub(super) fn take(&mut self) -> Bytes {
        let item = self.0.split().freeze();
        if item.len() > ROOM {
            // It had a room of its own, which goes with it.
            self.0 = BytesMut::new();
        }
        item
    }
}

impl Deref for Held {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
