//! Every order of events that the memory model allows, on the words of a bucket.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test --release --lib --no-default-features loom`.

use loom::sync::Arc;
use loom::thread;

use super::bucket::{Bucket, ORIGIN};
use super::pace::Pace;
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
                let taken = bucket(&shared).take(2, ORIGIN).is_ok();
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
            thread::spawn(move || bucket(&shared).take(1, reset).is_ok())
        });
        let taken = threads.map(|thread| thread.join().unwrap());
        assert!(bucket(&shared).remaining(reset) <= 2 - taken.iter().filter(|taken| **taken).count() as u32);
        assert!(bucket(&shared).take(1, reset + 2 * PERIOD).is_ok());
    });
}

/// Scenario: a refund that looks and then writes.
/// Expected: MUST be found out.
#[test]
#[should_panic(expected = "a refund is lost")]
fn loom_a_refund_in_two_steps_is_found_out() {
    loom::model(|| {
        let shared = full();
        bucket(&shared).take(2, ORIGIN).unwrap();
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
