//! State by key: bounded, and made anew for whoever was idle so long that nobody can tell.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashTable;

use crate::failure::{Code, Failure};

/// How many locks share the keys, so that two threads seldom meet at one.
const SHARDS: usize = 64;

/// How many keys are looked at for one that is idle before a new key is refused. It bounds the work under the lock;
/// where nine of ten are busy, an idle one is missed once in 10^11.
const LOOKS: usize = 256;

/// The longest key that is kept as it came: longer than any id, address or name of a model. What comes with requests can
/// be as long as a request.
const LONGEST: usize = 256;

/// How much of a longer key is kept, beside its hash.
const HEAD: usize = 64;

/// The most keys a layer keeps unless told otherwise: at 200 bytes each, 200 MB at the worst.
pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// State that can be given up once it is as good as fresh.
pub trait Idle {
    /// Whether a fresh one could stand in its place and nobody would notice.
    fn is_idle(&self) -> bool;
}

/// State by key, at most so many at a time.
///
/// Only state is evicted that nobody holds and that is [`Idle`]: evicting what is in use would put a second state
/// beside the first, and a limit of N would admit 2 N.
pub struct Keyed<T> {
    shards: Box<[Mutex<Shard<T>>]>,
    hasher: RandomState,
    /// The most keys of one shard.
    most: usize,
}

struct Shard<T> {
    /// Places in `slots`, by the hash of their key.
    index: HashTable<u32>,
    slots: Vec<(Arc<str>, Arc<T>)>,
    /// Where the search for an idle key goes on.
    hand: usize,
}

// === impl Keyed ===

impl<T: Idle> Keyed<T> {
    /// For at most so many keys, rounded up to a number that the locks share evenly.
    #[must_use]
    pub fn new(max_keys: usize) -> Self {
        let shard = || Mutex::new(Shard { index: HashTable::new(), slots: Vec::new(), hand: 0 });
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: RandomState::new(),
            most: max_keys.div_ceil(SHARDS).clamp(1, u32::MAX as usize),
        }
    }

    /// The state of a key, made if there is none.
    ///
    /// # Errors
    /// [`Code::BulkheadFull`], local, if there are as many keys as may be and none of them is idle.
    pub fn get_or_insert(&self, key: &str, make: impl FnOnce() -> T) -> Result<Arc<T>, Failure> {
        self.get_or_insert_named(key, |_| make())
    }

    /// The state of a key, made if there is none, with the key for it to keep: the map's own, not a copy. One that is
    /// longer than 256 bytes is kept as its beginning and its hash.
    ///
    /// # Errors
    /// As for [`get_or_insert`](Self::get_or_insert).
    pub fn get_or_insert_named(
        &self,
        key: &str,
        make: impl FnOnce(Arc<str>) -> T,
    ) -> Result<Arc<T>, Failure> {
        let key = &*self.kept(key);
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock().unwrap_or_else(PoisonError::into_inner);
        let shard = &mut *shard;
        if let Some(state) = shard.get(hash, key) {
            return Ok(Arc::clone(state));
        }
        if shard.slots.len() >= self.most && !shard.evict(&self.hasher) {
            let message = format!("there are too many keys in use to take in `{key}`");
            return Err(Failure::local(Code::BulkheadFull, message));
        }
        let key: Arc<str> = key.into();
        let state = Arc::new(make(Arc::clone(&key)));
        let at = u32::try_from(shard.slots.len()).unwrap_or(u32::MAX);
        shard.slots.push((key, Arc::clone(&state)));
        let slots = &shard.slots;
        shard.index.insert_unique(hash, at, |at| self.hasher.hash_one(&*slots[*at as usize].0));
        Ok(state)
    }

    /// The state of a key, if there is one.
    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        let key = &*self.kept(key);
        let hash = self.hasher.hash_one(key);
        let shard = self.shard(hash).lock().unwrap_or_else(PoisonError::into_inner);
        shard.get(hash, key).map(Arc::clone)
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).slots.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every key with its state. Each shard is looked at on its own: together they are no one instant.
    #[must_use]
    pub fn all(&self) -> Vec<(Arc<str>, Arc<T>)> {
        let shard =
            |shard: &Mutex<Shard<T>>| shard.lock().unwrap_or_else(PoisonError::into_inner).slots.clone();
        self.shards.iter().flat_map(shard).collect()
    }

    /// A key as it is kept.
    fn kept<'a>(&self, key: &'a str) -> Cow<'a, str> {
        if key.len() <= LONGEST {
            return Cow::Borrowed(key);
        }
        let end = (0..=HEAD).rev().find(|at| key.is_char_boundary(*at)).unwrap_or(0);
        let head = &key[..end];
        Cow::Owned(format!("{head}...{:016x}", self.hasher.hash_one(key)))
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard<T>> {
        // The table takes its place from the low bits and its tag from the highest seven.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}

impl<T> fmt::Debug for Keyed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("most", &(self.most * SHARDS)).finish_non_exhaustive()
    }
}

// === impl Shard ===

impl<T: Idle> Shard<T> {
    fn get(&self, hash: u64, key: &str) -> Option<&Arc<T>> {
        let at = self.index.find(hash, |at| &*self.slots[*at as usize].0 == key)?;
        Some(&self.slots[*at as usize].1)
    }

    /// Gives up one idle key, if one is found.
    fn evict(&mut self, hasher: &RandomState) -> bool {
        for _ in 0..LOOKS.min(self.slots.len()) {
            self.hand = (self.hand + 1) % self.slots.len();
            let (_, state) = &self.slots[self.hand];
            // Nobody can take hold of it meanwhile: that needs the lock.
            if Arc::strong_count(state) == 1 && state.is_idle() {
                self.remove(self.hand, hasher);
                return true;
            }
        }
        false
    }

    /// Takes a slot out; the last one takes its place.
    fn remove(&mut self, at: usize, hasher: &RandomState) {
        let last = self.slots.len() - 1;
        for (from, to) in [(at, None), (last, Some(at))] {
            if to == Some(from) {
                continue;
            }
            let hash = hasher.hash_one(&*self.slots[from].0);
            let Ok(entry) = self.index.find_entry(hash, |place| *place as usize == from) else { continue };
            match to.and_then(|to| u32::try_from(to).ok()) {
                None => _ = entry.remove(),
                Some(to) => *entry.into_mut() = to,
            }
        }
        self.slots.swap_remove(at);
    }
}

#[cfg(test)]
mod tests;
