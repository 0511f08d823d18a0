//! The keys behind one lock.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

use super::Idle;
use super::found::key_of;

/// How many keys are looked at for one that is idle before a new key is refused. It bounds the work under the lock;
/// where nine of ten are busy, an idle one is missed once in 10^11.
const LOOKS: usize = 256;

pub(super) struct Shard<T> {
    /// Places in `slots`, by the hash of their key.
    index: HashTable<u32>,
    /// Names, and the state of their keys.
    slots: Vec<(Arc<str>, Arc<T>)>,
    /// Where the search for an idle key goes on.
    hand: usize,
}

/// What a shard finds its keys by.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) hasher: &'a RandomState,
    pub(super) before: usize,
}

// === impl Shard ===

impl<T: Idle> Shard<T> {
    pub(super) fn get(&self, hash: u64, names: Names<'_>, key: &str) -> Option<&(Arc<str>, Arc<T>)> {
        let at = self.index.find(hash, |at| names.key(&self.slots[*at as usize].0) == key)?;
        Some(&self.slots[*at as usize])
    }

    pub(super) fn insert(&mut self, hash: u64, names: Names<'_>, slot: (Arc<str>, Arc<T>)) {
        let at = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(slot);
        let slots = &self.slots;
        self.index.insert_unique(hash, at, |at| names.hash_of(&slots[*at as usize].0));
    }

    pub(super) const fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn all(&self) -> Vec<(Arc<str>, Arc<T>)> {
        self.slots.clone()
    }

    /// Gives up one idle key, if one is found.
    pub(super) fn evict(&mut self, names: Names<'_>) -> bool {
        for _ in 0..LOOKS.min(self.slots.len()) {
            self.hand = (self.hand + 1) % self.slots.len();
            let (_, state) = &self.slots[self.hand];
            if Arc::strong_count(state) > 1 || !state.is_idle() {
                continue;
            }
            let (name, state) = self.remove(self.hand, names);
            // A thread that knows the way needs no lock to take hold of it: from here on it cannot, and whether it did
            // before is seen now.
            let back = match Arc::try_unwrap(state) {
                Ok(state) if state.is_idle() => return true,
                Ok(state) => Arc::new(state),
                Err(held) => held,
            };
            self.insert(names.hash_of(&name), names, (name, back));
        }
        false
    }

    /// Takes a slot out; the last one takes its place.
    fn remove(&mut self, at: usize, names: Names<'_>) -> (Arc<str>, Arc<T>) {
        let last = self.slots.len() - 1;
        for (from, to) in [(at, None), (last, Some(at))] {
            if to == Some(from) {
                continue;
            }
            let hash = names.hash_of(&self.slots[from].0);
            let Ok(entry) = self.index.find_entry(hash, |place| *place as usize == from) else { continue };
            match to.and_then(|to| u32::try_from(to).ok()) {
                None => _ = entry.remove(),
                Some(to) => *entry.into_mut() = to,
            }
        }
        self.slots.swap_remove(at)
    }
}

impl<T> Default for Shard<T> {
    fn default() -> Self {
        Self { index: HashTable::new(), slots: Vec::new(), hand: 0 }
    }
}

// === impl Names ===

impl Names<'_> {
    pub(super) fn hash(self, key: &str) -> u64 {
        self.hasher.hash_one(key)
    }

    fn key(self, name: &str) -> &str {
        key_of(name, self.before)
    }

    fn hash_of(self, name: &str) -> u64 {
        self.hash(self.key(name))
    }
}
