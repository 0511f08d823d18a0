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

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: small items, each dropped before the next; then one larger than the room, kept; then small ones.
    /// Expected: the small ones MUST share one room, and never one that was made for the large.
    #[test]
    fn a_room_is_used_again_unless_it_is_large() {
        let mut held = Held::default();
        let mut put = |length: usize| {
            held.extend(&vec![b'x'; length]);
            let item = held.take();
            assert_eq!(item.len(), length);
            (item, held.0.capacity())
        };
        let start = put(300).0.as_ptr().addr();
        for _ in 0..1_000 {
            let (item, free) = put(300);
            assert!((start..start + ROOM).contains(&item.as_ptr().addr()) && free < ROOM);
        }
        let (large, free) = put(1 << 20);
        assert_eq!(free, 0);
        assert!(put(300).1 < ROOM);
        drop(large);
    }

    /// Scenario: items that are all kept.
    /// Expected: MUST stay what they were.
    #[test]
    fn kept_items_are_not_written_over() {
        let mut held = Held::default();
        let items: Vec<_> = (0..200_u8)
            .map(|at| {
                held.extend(&[at; 100]);
                held.extend(&[at; 150]);
                held.take()
            })
            .collect();
        assert!((0..200_u8).zip(items).all(|(at, item)| item == [at; 250][..]));
    }
}
