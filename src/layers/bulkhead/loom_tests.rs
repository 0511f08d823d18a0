//! Every order of events that the memory model allows, on the part without a lock.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test --release --lib --no-default-features loom`.

use std::task::Waker;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::failure::{Code, Failure};

use super::lane::{Asked, Lane, Tally};
use super::slots::Ticket;

fn idle(limit: u32) -> Tally {
    Tally { limit, in_flight: 0, waiting: 0 }
}

fn ask(lane: &Lane) -> Asked {
    lane.ask(8, crate::time::now, |_| Failure::local(Code::BulkheadFull, "full"))
}

fn join(lane: &Lane) -> Ticket {
    match ask(lane) {
        Asked::Joined(ticket, _) => ticket,
        other => panic!("no slot is free, and there is room in line: {other:?}"),
    }
}

/// Scenario: two take the last slot at once, and give it back.
/// Expected: at most one MUST have it at a time, and it MUST be free in the end.
#[test]
fn loom_one_slot_is_one_call() {
    loom::model(|| {
        let lane = Arc::new(Lane::new(1));
        let at_work = Arc::new(AtomicU64::new(0));
        let threads = [(); 2].map(|()| {
            let (lane, at_work) = (Arc::clone(&lane), Arc::clone(&at_work));
            thread::spawn(move || {
                if lane.try_take() {
                    assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0);
                    at_work.fetch_sub(1, Ordering::SeqCst);
                    lane.release();
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(lane.tally(), idle(1));
    });
}

/// Scenario: a slot is given back while another asks for it.
/// Expected: the other MUST have it, at once or as the head of the line.
#[test]
fn loom_a_slot_is_not_lost_between_release_and_join() {
    loom::model(|| {
        let lane = Arc::new(Lane::new(1));
        assert!(lane.try_take());
        let other = Arc::clone(&lane);
        let release = thread::spawn(move || other.release());
        let asked = ask(&lane);
        release.join().unwrap();
        if let Asked::Joined(ticket, _) = asked {
            assert!(lane.is_granted(ticket, Waker::noop()));
        }
        assert_eq!(lane.tally(), Tally { limit: 1, in_flight: 1, waiting: 0 });
        lane.release();
        assert_eq!(lane.tally(), idle(1));
    });
}

/// Scenario: a slot is given back while the head of the line leaves, and a second waits behind it.
/// Expected: whoever of the two is still there MUST have it.
#[test]
fn loom_a_grant_is_not_lost_to_one_who_leaves() {
    loom::model(|| {
        let lane = Arc::new(Lane::new(1));
        assert!(lane.try_take());
        let (head, second) = (join(&lane), join(&lane));
        let other = Arc::clone(&lane);
        let release = thread::spawn(move || other.release());
        if !lane.leave(head) {
            // It was granted meanwhile, and is given on.
            lane.release();
        }
        release.join().unwrap();
        assert!(lane.is_granted(second, Waker::noop()));
        lane.release();
        assert_eq!(lane.tally(), idle(1));
    });
}

/// Scenario: one waits; a slot is given back while a newcomer tries to take it.
/// Expected: it MUST go to the one who waits.
#[test]
fn loom_a_newcomer_does_not_overtake() {
    loom::model(|| {
        let lane = Arc::new(Lane::new(1));
        assert!(lane.try_take());
        let head = join(&lane);
        let other = Arc::clone(&lane);
        let newcomer = thread::spawn(move || other.try_take());
        lane.release();
        assert!(!newcomer.join().unwrap());
        assert!(lane.is_granted(head, Waker::noop()));
    });
}

/// Scenario: the limit grows and shrinks while a slot is given back and one waits.
/// Expected: the one who waits MUST have a slot, and all MUST come back.
#[test]
fn loom_a_change_of_the_limit_forgets_nobody() {
    loom::model(|| {
        let lane = Arc::new(Lane::new(2));
        assert!(lane.try_take() && lane.try_take());
        let head = join(&lane);
        let other = Arc::clone(&lane);
        let change = thread::spawn(move || {
            other.set_limit(1);
            other.set_limit(3);
        });
        lane.release();
        change.join().unwrap();
        assert!(lane.is_granted(head, Waker::noop()));
        assert_eq!(lane.tally(), Tally { limit: 3, in_flight: 2, waiting: 0 });
        lane.release();
        lane.release();
        assert_eq!(lane.tally(), idle(3));
    });
}

/// The twin: free slots and waiters in two words. Each is changed in turn, and between the two somebody is forgotten.
struct Split {
    free: AtomicU64,
    waiting: AtomicU64,
    granted: Mutex<bool>,
}

impl Split {
    fn take(&self) -> bool {
        self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(1)).is_ok()
    }

    fn take_or_join(&self) -> bool {
        let taken = self.take();
        if !taken {
            self.waiting.fetch_add(1, Ordering::AcqRel);
        }
        taken
    }

    fn release(&self) {
        self.free.fetch_add(1, Ordering::AcqRel);
        if self.waiting.load(Ordering::Acquire) > 0 && self.take() {
            *self.granted.lock().unwrap() = true;
        }
    }
}

/// Scenario: the law of the slot that is not lost, held against a twin with two words.
/// Expected: an order of events MUST be found that breaks it.
#[test]
#[should_panic(expected = "forgotten")]
fn loom_two_words_forget_somebody() {
    loom::model(|| {
        let split = Split { free: AtomicU64::new(0), waiting: AtomicU64::new(0), granted: Mutex::new(false) };
        let split = Arc::new(split);
        let other = Arc::clone(&split);
        let release = thread::spawn(move || other.release());
        let taken = split.take_or_join();
        release.join().unwrap();
        assert!(taken || *split.granted.lock().unwrap(), "forgotten");
    });
}
