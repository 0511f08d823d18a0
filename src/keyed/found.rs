//! Where a thread found its keys lately, so that a hot one needs neither a hash nor a lock.

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// How many keys a thread remembers: a handful of tools, models and busy users, within the nearest cache.
const PLACES: usize = 16;

/// Spreads what differs in the low bits over the high ones: 2^64 by the golden ratio, as in Fibonacci hashing.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

thread_local! {
    static PLACE: RefCell<[Place; PLACES]> = const { RefCell::new([const { Place::EMPTY }; PLACES]) };
}

/// Which key is looked for, in which map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sought<'a> {
    /// The map.
    pub(super) map: u64,
    /// Bytes of a name that stand before its key.
    pub(super) before: usize,
    pub(super) key: &'a str,
}

struct Place {
    /// The hash of what was not found here last.
    missed: u64,
    found: Option<Found>,
}

/// It keeps nothing alive: what is evicted or dropped is not found here any more.
struct Found {
    map: u64,
    name: Arc<str>,
    state: Weak<dyn Any + Send + Sync>,
}

/// The key of a name; of a name that has no key it is the empty one.
#[inline]
pub(super) fn key_of(name: &str, before: usize) -> &str {
    name.get(before..).unwrap_or_default()
}

// === impl Sought ===

impl Sought<'_> {
    /// The state of the key, if this thread found it lately and it is there still.
    #[inline]
    pub(super) fn recall<T: Send + Sync + 'static>(self) -> Option<Arc<T>> {
        let upgraded = |places: &RefCell<[Place; PLACES]>| {
            let places = places.try_borrow().ok()?;
            let Found { map, name, state } = places[self.place()].found.as_ref()?;
            if *map != self.map || key_of(name, self.before) != self.key {
                return None;
            }
            state.upgrade()
        };
        // A thread that is about to end has no places any more.
        PLACE.try_with(upgraded).ok()??.downcast().ok()
    }

    /// Remembers where the key is, once it was looked for twice with no other between: where each call is of another
    /// key there is nothing to gain.
    pub(super) fn remember<T: Send + Sync + 'static>(self, hash: u64, name: &Arc<str>, state: &Arc<T>) {
        let _ = PLACE.try_with(|places| {
            let Ok(mut places) = places.try_borrow_mut() else { return };
            let place = &mut places[self.place()];
            if place.missed == hash {
                let state = Arc::downgrade(state);
                place.found = Some(Found { map: self.map, name: Arc::clone(name), state });
            }
            place.missed = hash;
        });
    }

    /// Two that share a place push each other out, which costs a lock and no more.
    #[expect(clippy::cast_possible_truncation, reason = "the highest bits are meant")]
    fn place(self) -> usize {
        let tail = self.key.as_bytes().last_chunk().map_or(0, |tail| u16::from_le_bytes(*tail));
        let mixed = self.map << 32 ^ (self.key.len() as u64) << 16 ^ u64::from(tail);
        (mixed.wrapping_mul(SPREAD) >> (u64::BITS - PLACES.ilog2())) as usize
    }
}

// === impl Place ===

impl Place {
    const EMPTY: Self = Self { missed: 0, found: None };
}
