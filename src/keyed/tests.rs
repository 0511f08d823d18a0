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
