//! State by key: bounded, and made anew for whoever was idle so long that nobody can tell.

mod found;
mod shard;

use std::fmt;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::{Code, Failure};

use found::Sought;
use shard::{Names, Shard};

/// How many locks share the keys, so that two threads seldom meet at one.
const SHARDS: usize = 64;

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
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        let names = self.names();
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
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            most: max_keys.div_ceil(SHARDS).clamp(1, u32::MAX as usize),
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

    /// Asks until this thread knows where the key is.
    fn known(keyed: &Keyed<Count>, key: &str) -> Arc<Count> {
        (0..3).for_each(|_| drop(keyed.get_or_insert(key, fresh).unwrap()));
        let known = keyed.sought(key).recall().unwrap();
        assert!(Arc::ptr_eq(&known, &keyed.get(key).unwrap()));
        known
    }

    /// Scenario: a key that this thread knows the way to is used, idle, and evicted for others; then it is asked again.
    /// Expected: as long as it is in use it MUST stay; evicted it MUST be forgotten here, too, and be made anew.
    #[test]
    fn a_known_key_is_evicted_and_made_anew() {
        let keyed = Keyed::named(640, "layer");
        let others = |from: usize| {
            for n in from..from + 20_000 {
                keyed.get_or_insert(&format!("idle-{n}"), fresh).unwrap();
            }
        };
        let known = known(&keyed, "hot");
        known.0.store(7, Ordering::Relaxed);
        drop(known);
        others(0);
        let same = keyed.get_or_insert("hot", fresh).unwrap();
        assert_eq!(same.0.load(Ordering::Relaxed), 7);
        same.0.store(0, Ordering::Relaxed);
        drop(same);
        others(20_000);
        assert!(keyed.get("hot").is_none() && keyed.sought("hot").recall::<Count>().is_none());
        let new = keyed.get_or_insert("hot", fresh).unwrap();
        assert!(Arc::ptr_eq(&new, &keyed.get("hot").unwrap()));
    }

    /// Scenario: maps with the same keys, one of them dropped; names of keys, and of the empty one.
    /// Expected: a thread MUST NOT find in one map what it knows of another, and names MUST show layer and key.
    #[test]
    fn maps_are_told_apart_and_keys_have_names() {
        let (one, other) = (Keyed::named(64, "layer"), Keyed::new(64));
        let first = known(&one, "hot");
        let second = known(&other, "hot");
        assert!(!Arc::ptr_eq(&first, &second));
        drop((one, first));
        assert!(Arc::ptr_eq(&second, &other.get_or_insert("hot", fresh).unwrap()));
        let named = Keyed::named(64, "layer");
        for (key, shown) in [("hot", "layer:hot"), ("", "layer"), ("layer", "layer:layer")] {
            named
                .get_or_insert_named(key, |name| {
                    assert_eq!(&*name, shown);
                    fresh()
                })
                .unwrap();
            known(&named, key);
        }
        assert_eq!(named.len(), 3);
    }

    /// Scenario: threads take a key's only slot, give it back and let go of it, while others push it out again and again.
    /// Expected: nobody MUST ever find the slot taken twice, as with two states of one key.
    #[test]
    fn a_key_never_has_two_states() {
        let (keyed, at_work) = (Keyed::new(1), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (keyed, at_work) = (&keyed, &at_work);
                scope.spawn(move || {
                    for n in 0..20_000 {
                        if thread == 0 {
                            let _ = keyed.get_or_insert(&format!("other-{n}"), fresh);
                            continue;
                        }
                        let Ok(state) = keyed.get_or_insert("hot", fresh) else { continue };
                        if state.0.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                            assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0);
                            at_work.fetch_sub(1, Ordering::SeqCst);
                            state.0.store(0, Ordering::Release);
                        }
                    }
                });
            }
        });
    }
}
