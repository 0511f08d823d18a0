#![allow(clippy::unwrap_used, reason = "a test may panic")]

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

/// Scenario: as many keys as a small map may have, all held.
/// Expected: each of them MUST be taken in, and one more refused.
#[test]
fn a_small_map_takes_as_many_as_it_may() {
    for most in [1, 2, 10, 64, 65, 1_000, 2_047] {
        let keyed = Keyed::new(most);
        let held: Vec<_> = (0..most).map(|n| keyed.get_or_insert(&format!("{n}"), fresh)).collect();
        assert!(held.iter().all(Result::is_ok), "{most}");
        assert!(keyed.get_or_insert("one more", fresh).is_err(), "{most}");
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
    assert_eq!(failure.retry_after(), Some(COME_BACK), "whoever takes the map says when, too");
    assert_eq!(held.len(), 1);
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
    let named = Keyed::named(6_400, "layer");
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

/// Scenario: keys as long as requests, that differ in their last character alone; one that is as long as may be.
/// Expected: each MUST have a state of its own, and the same one again; little of the long ones MUST be kept.
#[test]
fn a_long_key_is_kept_short() {
    let keyed = Keyed::new(64_000);
    let name = |n: u32| format!("{}{n}", "\u{e9}".repeat(100_000));
    let states: Vec<_> = (0..10).map(|n| keyed.get_or_insert(&name(n), fresh).unwrap()).collect();
    assert_eq!(keyed.len(), 10);
    for (n, state) in (0..).zip(&states) {
        assert!(Arc::ptr_eq(state, &keyed.get(&name(n)).unwrap()));
    }
    assert!(keyed.all().iter().all(|(key, _)| key.len() <= LONGEST && key.starts_with('\u{e9}')));
    let longest = "k".repeat(LONGEST);
    keyed
        .get_or_insert_named(&longest, |key| {
            assert_eq!(*key, *longest);
            fresh()
        })
        .unwrap();
}
