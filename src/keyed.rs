//! State by key: bounded, and made anew for whoever was idle so long that nobody can tell.

mod found;
mod shard;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::{COME_BACK, Code, Failure};

use found::Sought;
use shard::{Names, Shard};

/// How many locks share the keys at the most, so that two threads seldom meet at one.
const SHARDS: usize = 64;

/// So many keys are worth a lock of their own. With fewer, some locks would be full long before the others, and keys be
/// refused though there is room.
const A_SHARD: usize = 1_024;

/// The longest key that is kept as it came: longer than any id, address or name of a model. What comes with requests can
/// be as long as a request.
const LONGEST: usize = 256;

/// How much of a longer key is kept, beside its hash.
const HEAD: usize = 64;

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

// === impl Keyed ===

impl<T: Idle> Keyed<T> {
    /// For at most so many keys. Each key is its own name. Above 2,047 several locks share them evenly, and a key is refused
    /// where its lock has its share: a few percent before there are as many as may be.
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
    /// [`Code::BulkheadFull`], local, with a second to come back in, if there are as many keys as may be and none of them
    /// is idle.
    #[inline]
    pub fn get_or_insert(&self, key: &str, make: impl FnOnce() -> T) -> Result<Arc<T>, Failure> {
        self.get_or_insert_named(key, |_| make())
    }

    /// The state of a key, made if there is none, with its name for it to keep: the map's own, not a copy. A key that is
    /// longer than 256 bytes is kept as its beginning and its hash.
    ///
    /// # Errors
    /// As for [`get_or_insert`](Self::get_or_insert).
    #[inline]
    pub fn get_or_insert_named(
        &self,
        key: &str,
        make: impl FnOnce(Arc<str>) -> T,
    ) -> Result<Arc<T>, Failure> {
        let key = &*self.kept(key);
        match self.sought(key).recall() {
            Some(state) => Ok(state),
            None => self.find_or_insert(key, make),
        }
    }

    /// The state of a key, if there is one.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        let (names, key) = (self.names(), &*self.kept(key));
        let hash = names.hash(key);
        self.shard(hash).get(hash, names, key).map(|(_, state)| Arc::clone(state))
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every key by its name, with its state. Each shard is looked at on its own: together they are no one instant.
    #[must_use]
    pub fn all(&self) -> Vec<(Arc<str>, Arc<T>)> {
        self.shards.iter().flat_map(|shard| lock(shard).all()).collect()
    }

    fn with_prefix(max_keys: usize, prefix: Box<str>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shards = (max_keys / A_SHARD).clamp(1, SHARDS);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            most: (max_keys / shards).clamp(1, u32::MAX as usize),
            prefix,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The way with a lock.
    #[inline(never)]
    fn find_or_insert(&self, key: &str, make: impl FnOnce(Arc<str>) -> T) -> Result<Arc<T>, Failure> {
        let names = self.names();
        let hash = names.hash(key);
        let mut shard = self.shard(hash);
        if let Some((name, state)) = shard.get(hash, names, key) {
            self.sought(key).remember(hash, name, state);
            return Ok(Arc::clone(state));
        }
        if shard.len() >= self.most && !shard.evict(names) {
            let message = format!("there are too many keys in use to take in `{key}`");
            return Err(Failure::local(Code::BulkheadFull, message).with_retry_after(Some(COME_BACK)));
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

    /// A key as it is kept.
    fn kept<'a>(&self, key: &'a str) -> Cow<'a, str> {
        if key.len() <= LONGEST {
            return Cow::Borrowed(key);
        }
        let end = (0..=HEAD).rev().find(|at| key.is_char_boundary(*at)).unwrap_or(0);
        let head = &key[..end];
        Cow::Owned(format!("{head}...{:016x}", self.hasher.hash_one(key)))
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard<T>> {
        // The table takes its place from the low bits and its tag from the highest seven.
        lock(&self.shards[(hash >> 32) as usize % self.shards.len()])
    }
}

impl<T> fmt::Debug for Keyed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("most", &(self.most * self.shards.len())).finish_non_exhaustive()
    }
}

fn lock<T>(shard: &Mutex<Shard<T>>) -> MutexGuard<'_, Shard<T>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
