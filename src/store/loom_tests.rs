//! Every order of events that the memory model allows, on the words of a bucket, on what is special for a while, and on
//! an account of two dimensions.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test --release --lib --no-default-features loom`.

use loom::sync::Arc;
use loom::thread;

use crate::chat::Dimension;
use crate::time::{Instant, now};

use super::bucket::{Bucket, ORIGIN};
use super::costs::Costs;
use super::ledger::{Answer, Ledger, Store};
use super::memory::{Memory, MemoryLedger};
use super::pace::Pace;
use super::quota::Quota;
use super::special::Special;
use super::sync::{AtomicU64, Ordering};

/// Nanoseconds for each to come back.
const PERIOD: u64 = 100;

/// A bucket of two, full.
fn full() -> Arc<(AtomicU64, Pace)> {
    Arc::new((AtomicU64::new(ORIGIN), Pace::new(PERIOD, 2)))
}

fn bucket(of: &(AtomicU64, Pace)) -> Bucket<'_> {
    Bucket::new(&of.0, &of.1)
}

/// Scenario: two take all there is at once, and whoever has it gives it back.
/// Expected: at least one MUST have it; it MUST be there in the end, and no more.
#[test]
fn loom_what_is_taken_is_given_back() {
    loom::model(|| {
        let shared = full();
        let threads = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let taken = bucket(&shared).take(2, ORIGIN);
                if taken {
                    bucket(&shared).give_back(2);
                }
                taken
            })
        });
        let taken = threads.map(|thread| thread.join().unwrap());
        assert!(taken.contains(&true));
        assert_eq!(bucket(&shared).remaining(ORIGIN), 2);
        assert_eq!(shared.0.load(Ordering::SeqCst), ORIGIN);
    });
}

/// Scenario: a provider said that nothing is left until its reset; at the reset two take one each.
/// Expected: what was withheld MUST be released once: both MUST have one, and nothing MUST be left.
#[test]
fn loom_what_was_withheld_is_released_once() {
    loom::model(|| {
        let shared = full();
        let reset = ORIGIN + 10;
        assert!(bucket(&shared).lower(0, Some(reset), ORIGIN));
        let threads = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || bucket(&shared).take(1, reset))
        });
        let taken = threads.map(|thread| thread.join().unwrap());
        assert!(bucket(&shared).remaining(reset) <= 2 - taken.iter().filter(|taken| **taken).count() as u32);
        assert!(bucket(&shared).take(1, reset + 2 * PERIOD));
    });
}

/// Scenario: a refund that looks and then writes.
/// Expected: MUST be found out.
#[test]
#[should_panic(expected = "a refund is lost")]
fn loom_a_refund_in_two_steps_is_found_out() {
    loom::model(|| {
        let shared = full();
        assert!(bucket(&shared).take(2, ORIGIN));
        let threads = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let word = shared.0.load(Ordering::SeqCst);
                shared.0.store(word - PERIOD, Ordering::SeqCst);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.0.load(Ordering::SeqCst), ORIGIN, "a refund is lost");
    });
}

/// Runs these at once, and gives what each came to.
fn at_once<T: 'static, const N: usize>(threads: [Box<dyn FnOnce() -> T + Send>; N]) -> [T; N] {
    threads.map(|play| thread::spawn(play)).map(|thread| thread.join().unwrap())
}

/// Scenario: a slow time is over, and two find that out at once.
/// Expected: its end MUST be told once, as the instant that it was, and nothing MUST be slow after.
#[test]
fn loom_the_end_of_a_slow_time_is_told_once() {
    loom::model(|| {
        let special = Arc::new(Special::default());
        assert_eq!(special.slow_down(0.5, ORIGIN + 10), 0);
        let looks = |now: u64| -> Box<dyn FnOnce() -> u64 + Send> {
            let special = Arc::clone(&special);
            Box::new(move || {
                let mut told = 0;
                special.in_force(now, |end| {
                    assert_eq!(end, ORIGIN + 10);
                    told += 1;
                });
                told
            })
        };
        let told: u64 = at_once([looks(ORIGIN + 10), looks(ORIGIN + 12)]).iter().sum();
        assert_eq!(told, 1);
        assert!(special.slow_until().is_none() && special.share() >= 1.0);
    });
}

/// Scenario: a slow time is over; while one finds that out, the provider asks to slow down again.
/// Expected: each time that rates were lowered MUST be ended once, at the latest at the second end.
#[test]
fn loom_a_slow_time_told_again_ends_as_often_as_it_began() {
    loom::model(|| {
        let special = Arc::new(Special::default());
        assert_eq!(special.slow_down(0.5, ORIGIN + 10), 0);
        let (one, other) = (Arc::clone(&special), Arc::clone(&special));
        let looks = move || {
            let mut told = 0_u64;
            one.in_force(ORIGIN + 10, |_| told += 1);
            told
        };
        let slows = move || u64::from(other.slow_down(0.5, ORIGIN + 20) == 0);
        let [ends, begins] = at_once([Box::new(looks) as Box<dyn FnOnce() -> u64 + Send>, Box::new(slows)]);
        assert_eq!(special.slow_until(), Some(ORIGIN + 20));
        let mut last = 0_u64;
        special.in_force(ORIGIN + 20, |end| {
            assert_eq!(end, ORIGIN + 20);
            last += 1;
        });
        assert_eq!((ends + last, last), (1 + begins, 1));
        assert!(special.slow_until().is_none());
    });
}

/// Scenario: two refusals state waits of ten and of twenty at once, and each stops refill for what it adds.
/// Expected: together MUST stop it for twenty, and all MUST be frozen until then.
#[test]
fn loom_two_freezes_stop_for_the_longer() {
    loom::model(|| {
        let special = Arc::new(Special::default());
        let freezes = |until: u64| -> Box<dyn FnOnce() -> u64 + Send> {
            let special = Arc::clone(&special);
            Box::new(move || special.freeze(until, ORIGIN).map_or(0, |from| until - from))
        };
        let stopped: u64 = at_once([freezes(ORIGIN + 10), freezes(ORIGIN + 20)]).iter().sum();
        assert_eq!(stopped, 20);
        assert_eq!(special.frozen(), ORIGIN + 20);
        assert!(special.in_force(ORIGIN + 19, |_| ()) && !special.in_force(ORIGIN + 20, |_| ()));
    });
}

/// Scenario: the law of the end that is told once, held against a twin that looks and then writes.
/// Expected: an order of events MUST be found that breaks it.
#[test]
#[should_panic(expected = "told twice")]
fn loom_an_end_in_two_steps_is_found_out() {
    loom::model(|| {
        let slow = Arc::new(AtomicU64::new(ORIGIN + 10));
        let looks = || -> Box<dyn FnOnce() -> u64 + Send> {
            let slow = Arc::clone(&slow);
            Box::new(move || {
                let is_over = slow.load(Ordering::SeqCst) != 0;
                slow.store(0, Ordering::SeqCst);
                u64::from(is_over)
            })
        };
        assert_eq!(at_once([looks(), looks()]).iter().sum::<u64>(), 1, "told twice");
    });
}

/// An account of so many requests and tokens a minute.
fn account(requests: u32, tokens: u32) -> (Arc<MemoryLedger>, Instant) {
    let requests = Quota::new(Dimension::Requests, requests).with_burst(1.0);
    let quotas = [requests, Quota::new(Dimension::Tokens, tokens)];
    (Arc::new(Memory::default().open("", &quotas)), now())
}

fn reserve(account: &MemoryLedger, tokens: u32, now: Instant) -> bool {
    match account.reserve(&Costs { requests: 1, tokens, ..Costs::default() }, now) {
        Answer::Now(answer) => answer.is_ok(),
        Answer::Later(_) => panic!("memory answers at once"),
    }
}

/// What is left of requests and tokens.
fn left(account: &MemoryLedger, now: Instant) -> [u64; 2] {
    let levels = account.levels(now);
    [levels[0].remaining, levels[1].remaining]
}

/// Reserves these at once. Which were granted.
fn reserves(account: &Arc<MemoryLedger>, tokens: [u32; 2], now: Instant) -> [bool; 2] {
    at_once(tokens.map(|tokens| -> Box<dyn FnOnce() -> bool + Send> {
        let account = Arc::clone(account);
        Box::new(move || reserve(&account, tokens, now))
    }))
}

/// Scenario: two requests and three tokens are there; two calls ask at once for one and two each.
/// Expected: one MUST be granted, and the other MUST have taken nothing of either.
#[test]
fn loom_two_dimensions_are_taken_together_or_not_at_all() {
    loom::model(|| {
        let (account, now) = account(2, 3);
        let granted = reserves(&account, [2, 2], now);
        assert_eq!(granted.iter().filter(|granted| **granted).count(), 1);
        assert_eq!(left(&account, now), [1, 1]);
    });
}

/// Scenario: the last request is there; one call takes it, finds that its tokens can never be there and puts it back,
/// while another takes it.
/// Expected: the other MUST have it, or find it after; nothing MUST be lost, and nothing granted twice.
#[test]
fn loom_what_is_put_back_is_there_again() {
    loom::model(|| {
        let (account, now) = account(1, 2);
        let [dear, other] = reserves(&account, [3, 1], now);
        assert!(!dear);
        assert_eq!(left(&account, now), if other { [0, 1] } else { [1, 2] });
        assert_eq!(reserve(&account, 1, now), !other);
        assert!(!reserve(&account, 1, now));
    });
}

/// Scenario: the law that nothing is lost, held against a twin of two words that does not put back.
/// Expected: an order of events MUST be found that breaks it.
#[test]
#[should_panic(expected = "a request is lost")]
fn loom_a_refusal_that_keeps_its_part_is_found_out() {
    loom::model(|| {
        let (requests, tokens) = (full(), full());
        let takes = || -> Box<dyn FnOnce() -> u32 + Send> {
            let (requests, tokens) = (Arc::clone(&requests), Arc::clone(&tokens));
            Box::new(move || u32::from(bucket(&requests).take(1, ORIGIN) && bucket(&tokens).take(2, ORIGIN)))
        };
        let granted: u32 = at_once([takes(), takes()]).iter().sum();
        assert_eq!(bucket(&requests).remaining(ORIGIN), 2 - granted, "a request is lost");
    });
}
