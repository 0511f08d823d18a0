//! State by key: bounded, and made anew for whoever was idle so long that nobody can tell.

mod found;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;

use crate::failure::{Code, Failure};

use found::{Sought, key_of};

/// How many locks share the keys, so that two threads seldom meet at one.
const SHARDS: usize = 64;

/// How many keys are looked at for one that is idle before a new key is refused. It bounds the work under the lock;
/// where nine of ten are busy, an idle one is missed once in 10^11.
const LOOKS: usize = 256;

/// The most keys a layer keeps unless told otherwise: at 200 bytes each, 200 MB at the worst.
pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// State that can be given up once it is as good as fresh.
pub trait Idle: Send + Sync + 'static {
    /// Whether a fresh one could stand in its place and nobody would notice.
    fn is_idle(&self) -> bool;
}

/// State by key, at most so many at a time.
///
/// Only state is evicted that nobody holds and that is [`Idle`]: evicting what is in use would put a second state
/// beside the first, and a limit of N would admit 2 N.
///
/// A thread that asks for the same few keys again and again finds them without a lock.
pub struct Keyed<T> {
    shards: Box<[Mutex<Shard<T>>]>,
    hasher: RandomState,
    /// The most keys of one shard.
    most: usize,
    /// What stands before each key in its name.
    prefix: Box<str>,
    /// Tells it from the other maps of the process.
    id: u64,
}

struct Shard<T> {
    /// Places in `slots`, by the hash of their key.
    index: HashTable<u32>,
    /// Names, and the state of their keys.
    slots: Vec<(Arc<str>, Arc<T>)>,
    /// Where the search for an idle key goes on.
    hand: usize,
}

/// What a shard finds its keys by.
#[derive(Clone, Copy)]
struct Names<'a> {
    hasher: &'a RandomState,
    before: usize,
}

// === impl Keyed ===

impl<T: Idle> Keyed<T> {
    /// For at most so many keys, rounded up to a number that the locks share evenly. Each key is its own name.
    #[must_use]
    pub fn new(max_keys: usize) -> Self {
        Self::with_prefix(max_keys, "".into())
    }

    /// The same, where a key is shown as `NAME:KEY`, and the empty one as `NAME`.
    #[must_use]
    pub fn named(max_keys: usize, name: &str) -> Self {
        Self::with_prefix(max_keys, format!("{name}:").into())
    }

    /// The state of a key, made if there is none.
    ///
    /// # Errors
    /// [`Code::BulkheadFull`], local, if there are as many keys as may be and none of them is idle.
    #[inline]
    pub fn get_or_insert(&self, key: &str, make: impl FnOnce() -> T) -> Result<Arc<T>, Failure> {
        self.get_or_insert_named(key, |_| make())
    }

    /// The state of a key, made if there is none, with its name for it to keep: the map's own, not a copy.
    ///
    /// # Errors
    /// As for [`get_or_insert`](Self::get_or_insert).
    #[inline]
    pub fn get_or_insert_named(
        &self,
        key: &str,
        make: impl FnOnce(Arc<str>) -> T,
    ) -> Result<Arc<T>, Failure> {
        match self.sought(key).recall() {
            Some(state) => Ok(state),
            None => self.find_or_insert(key, make),
        }
    }

    /// The state of a key, if there is one.
    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        let (hash, names) = (self.hasher.hash_one(key), self.names());
        self.shard(hash).get(hash, names, key).map(|(_, state)| Arc::clone(state))
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).slots.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every key by its name, with its state. Each shard is looked at on its own: together they are no one instant.
    #[must_use]
    pub fn all(&self) -> Vec<(Arc<str>, Arc<T>)> {
        self.shards.iter().flat_map(|shard| lock(shard).slots.clone()).collect()
    }

    fn with_prefix(max_keys: usize, prefix: Box<str>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shard = || Mutex::new(Shard { index: HashTable::new(), slots: Vec::new(), hand: 0 });
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: RandomState::new(),
            most: max_keys.div_ceil(SHARDS).clamp(1, u32::MAX as usize),
            prefix,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The way with a lock.
    #[inline(never)]
    fn find_or_insert(&self, key: &str, make: impl FnOnce(Arc<str>) -> T) -> Result<Arc<T>, Failure> {
        let (hash, names) = (self.hasher.hash_one(key), self.names());
        let mut shard = self.shard(hash);
        if let Some((name, state)) = shard.get(hash, names, key) {
            self.sought(key).remember(hash, name, state);
            return Ok(Arc::clone(state));
        }
        if shard.slots.len() >= self.most && !shard.evict(names) {
            let message = format!("there are too many keys in use to take in `{key}`");
            return Err(Failure::local(Code::BulkheadFull, message));
        }
        let name = self.name(key);
        let state = Arc::new(make(Arc::clone(&name)));
        shard.insert(hash, names, (name, Arc::clone(&state)));
        Ok(state)
    }

    fn name(&self, key: &str) -> Arc<str> {
        match self.prefix.strip_suffix(':') {
            Some(name) if key.is_empty() => name.into(),
            Some(_) => [&*self.prefix, key].concat().into(),
            None => key.into(),
        }
    }

    const fn sought<'a>(&self, key: &'a str) -> Sought<'a> {
        Sought { map: self.id, before: self.prefix.len(), key }
    }

    const fn names(&self) -> Names<'_> {
        Names { hasher: &self.hasher, before: self.prefix.len() }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard<T>> {
        // The table takes its place from the low bits and its tag from the highest seven.
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}

impl<T> fmt::Debug for Keyed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("most", &(self.most * SHARDS)).finish_non_exhaustive()
    }
}

// === impl Shard ===

impl<T: Idle> Shard<T> {
    fn get(&self, hash: u64, names: Names<'_>, key: &str) -> Option<&(Arc<str>, Arc<T>)> {
        let at = self.index.find(hash, |at| names.key(&self.slots[*at as usize].0) == key)?;
        Some(&self.slots[*at as usize])
    }

    fn insert(&mut self, hash: u64, names: Names<'_>, slot: (Arc<str>, Arc<T>)) {
        let at = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(slot);
        let slots = &self.slots;
        self.index.insert_unique(hash, at, |at| names.hash(&slots[*at as usize].0));
    }

    /// Gives up one idle key, if one is found.
    fn evict(&mut self, names: Names<'_>) -> bool {
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
            self.insert(names.hash(&name), names, (name, back));
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
            let hash = names.hash(&self.slots[from].0);
            let Ok(entry) = self.index.find_entry(hash, |place| *place as usize == from) else { continue };
            match to.and_then(|to| u32::try_from(to).ok()) {
                None => _ = entry.remove(),
                Some(to) => *entry.into_mut() = to,
            }
        }
        self.slots.swap_remove(at)
    }
}

// === impl Names ===

impl Names<'_> {
    fn key(self, name: &str) -> &str {
        key_of(name, self.before)
    }

    fn hash(self, name: &str) -> u64 {
        self.hasher.hash_one(self.key(name))
    }
}

fn lock<T>(shard: &Mutex<Shard<T>>) -> MutexGuard<'_, Shard<T>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Count(AtomicUsize);

    impl Idle for Count {
        fn is_idle(&self) -> bool {
            self.0.load(Ordering::Relaxed) == 0
        }
    }

    fn fresh() -> Count {
        Count(AtomicUsize::new(0))
    }

    /// Scenario: keys far beyond the bound, some with state of their own, some held.
    /// Expected: what is held or not idle MUST stay the same state; the number of keys MUST stay within the bound.
    #[test]
    fn only_idle_keys_are_evicted() {
        let keyed = Keyed::new(6_400);
        let busy: HashMap<_, _> = (0..200)
            .map(|n: usize| {
                let name = format!("busy-{n}");
                let state = keyed.get_or_insert(&name, fresh).unwrap();
                if n.is_multiple_of(2) {
                    state.0.store(n + 1, Ordering::Relaxed);
                    (name, None)
                } else {
                    (name, Some(state))
                }
            })
            .collect();
        for n in 0..100_000 {
            keyed.get_or_insert(&format!("idle-{n}"), fresh).unwrap();
        }
        assert!(keyed.len() <= 6_400, "{}", keyed.len());
        for (name, held) in busy {
            let again = keyed.get(&name).unwrap();
            match held {
                Some(held) => assert!(Arc::ptr_eq(&held, &again), "{name}"),
                None => assert_ne!(again.0.load(Ordering::Relaxed), 0, "{name}"),
            }
        }
    }

    /// Scenario: every key is held, and one more comes; then one is let go of.
    /// Expected: the new key MUST be refused, locally, and be taken in once there is room.
    #[test]
    fn a_new_key_is_refused_while_all_are_in_use() {
        let keyed = Keyed::new(1);
        let mut held = Vec::new();
        let refused = (0..10_000).find_map(|n| match keyed.get_or_insert(&format!("{n}"), fresh) {
            Ok(state) => {
                held.push(state);
                None
            }
            Err(failure) => Some((n, failure)),
        });
        let (n, failure) = refused.unwrap();
        assert_eq!(failure.code(), Code::BulkheadFull);
        assert!(failure.is_local());
        assert!(held.len() <= SHARDS);
        held.clear();
        assert!(keyed.get_or_insert(&format!("{n}"), fresh).is_ok());
    }
}
