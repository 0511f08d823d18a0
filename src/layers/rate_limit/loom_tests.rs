//! Every order of events that the memory model allows, on slots and line.
//!
//! Locks and wakers are tokio's own, which the checker takes for one step each: what it tries is the order of what is
//! ours around them. Run: `RUSTFLAGS="--cfg loom" cargo test --release --lib --no-default-features loom`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use tower_layer::Layer;

use crate::chat::{Ask, Cost, Request, Watch};
use crate::failure::Failure;
use crate::gate::{Admission, Admit};
use crate::store::Costs;

use super::line::{Line, Place};
use super::slots::Slots;
use super::{RateLimit, RateLimitConfig, Reservation, TokenAwareRateLimitLayer};

/// So often a thread may be stopped where it did not stop by itself: faults of order need two or three.
const STOPS: usize = 3;

/// A call, admitted or in line.
enum Asked {
    In(#[expect(dead_code, reason = "held")] Watch<Reservation>),
    Out,
    Waiting(Waiting),
}

type Waiting = Pin<Box<dyn Future<Output = Result<Reservation, Failure>> + Send>>;

/// Plays a model in every order, on a clock that stands still.
fn model(plays: impl Fn() + Send + Sync + 'static) {
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let clock = clock.unwrap();
    let _here = clock.enter();
    let mut builder = Builder::new();
    builder.preemption_bound = Some(STOPS);
    builder.check(plays);
}

fn limit(config: RateLimitConfig) -> RateLimit {
    let layer = TokenAwareRateLimitLayer::new(config).unwrap();
    layer.layer(()).admission().clone()
}

fn slots(most: u32) -> RateLimitConfig {
    RateLimitConfig { max_concurrency: Some(most), ..RateLimitConfig::from_headers() }
}

/// Asks for a place, of a cost, and looks once whether it is there.
fn ask(limit: &RateLimit, tokens: u64, patient: bool) -> Asked {
    let mut request = Request::new("model").attach(Cost { input: tokens, output: Some(0) });
    let mut call = request.call();
    call.patient = patient;
    request.set_call(call);
    match limit.admit(&request) {
        Admit::Granted(permit) => Asked::In(Watch::new(permit)),
        Admit::Refused(_) => Asked::Out,
        Admit::Wait(waiting) => look(waiting),
    }
}

/// Looks whether a call in line is admitted by now.
fn look(mut waiting: Waiting) -> Asked {
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(permit)) => Asked::In(Watch::new(permit)),
        Poll::Ready(Err(_)) => Asked::Out,
        Poll::Pending => Asked::Waiting(waiting),
    }
}

/// Whether it is in, now or when it looks again.
fn is_in(asked: Asked) -> bool {
    match asked {
        Asked::In(_) => true,
        Asked::Out => false,
        Asked::Waiting(waiting) => matches!(look(waiting), Asked::In(_)),
    }
}

/// Scenario: the one slot comes back; just then one lines up for it, and a newcomer that may not wait asks, too, and so
/// holds a slot for a moment which the head of the line looks for.
/// Expected: the one in line MUST have it in the end: whoever hid it tells.
#[test]
fn loom_a_newcomer_hides_no_slot_from_the_line() {
    model(|| {
        let limit = limit(slots(1));
        let held = ask(&limit, 0, false);
        assert!(matches!(held, Asked::In(_)));
        let (one, other) = (limit.clone(), limit.clone());
        let waits = thread::spawn(move || ask(&one, 0, true));
        let newcomer = thread::spawn(move || drop(ask(&other, 0, false)));
        drop(held);
        newcomer.join().unwrap();
        assert!(is_in(waits.join().unwrap()), "forgotten");
    });
}

/// Scenario: the one request and its token come back; one lines up for them, and just then a newcomer takes the request,
/// finds that its tokens can never be there, and puts the request back.
/// Expected: the one in line MUST have both in the end.
#[test]
fn loom_what_is_put_back_is_told_to_the_line() {
    model(|| {
        let config = RateLimitConfig {
            requests_per_minute: Some(1),
            tokens_per_minute: Some(1),
            ..RateLimitConfig::from_headers()
        };
        let config = RateLimitConfig { acquire_timeout: std::time::Duration::from_secs(600), ..config };
        let limit = limit(config);
        let held = ask(&limit, 1, false);
        assert!(matches!(held, Asked::In(_)));
        let (one, other) = (limit.clone(), limit.clone());
        let waits = thread::spawn(move || ask(&one, 1, true));
        let newcomer = thread::spawn(move || drop(ask(&other, 2, false)));
        drop(held);
        newcomer.join().unwrap();
        assert!(is_in(waits.join().unwrap()), "forgotten");
    });
}

/// Scenario: two wait; the slot comes back while the head of the line goes away.
/// Expected: the second MUST have it.
#[test]
fn loom_whoever_leaves_hands_the_turn_on() {
    model(|| {
        let limit = limit(slots(1));
        let held = ask(&limit, 0, false);
        let (head, second) = (ask(&limit, 0, true), ask(&limit, 0, true));
        assert!(matches!((&head, &second), (Asked::Waiting(_), Asked::Waiting(_))));
        let leaves = thread::spawn(move || drop(head));
        drop(held);
        leaves.join().unwrap();
        assert!(is_in(second), "forgotten");
    });
}

/// Scenario: two take the one slot at once, and whoever has it gives it back.
/// Expected: at most one MUST have it at a time, and it MUST be free in the end.
#[test]
fn loom_never_more_slots_than_there_are() {
    model(|| {
        let slots = Arc::new(Slots::new(Some(1), None));
        let at_work = Arc::new(AtomicU64::new(0));
        let threads = [(); 2].map(|()| {
            let (slots, at_work) = (Arc::clone(&slots), Arc::clone(&at_work));
            thread::spawn(move || {
                let taken = slots.take().map(|slot| slot.keep_if(Ok::<_, ()>(())));
                if taken.is_some() {
                    assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0);
                    at_work.fetch_sub(1, Ordering::SeqCst);
                    slots.give_back();
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(slots.in_flight(), 0);
    });
}

/// Slots and their line, as the twin has them.
#[derive(Debug)]
struct Twin(Slots, Line);

/// A twin as the owner of its line.
struct Held(Arc<Twin>);

impl AsRef<Line> for Held {
    fn as_ref(&self) -> &Line {
        &self.0.1
    }
}

impl Twin {
    fn take(&self) -> bool {
        self.0.take().is_some_and(|slot| slot.keep_if(Ok::<_, ()>(())).is_ok())
    }
}

/// Scenario: the law of the slot that nobody hides, held against a twin whose newcomers do not tell that they are gone.
/// Expected: an order of events MUST be found that breaks it.
#[test]
#[should_panic(expected = "forgotten")]
fn loom_a_newcomer_that_does_not_tell_is_found_out() {
    model(|| {
        let twin = Arc::new(Twin(Slots::new(Some(1), None), Line::default()));
        assert!(twin.take());
        let (one, other) = (Arc::clone(&twin), Arc::clone(&twin));
        let waits = thread::spawn(move || {
            let mut place = Place::join(Held(Arc::clone(&one)), Costs::default());
            let mut waits = Box::pin(async move {
                place.turn().await;
                while !one.take() {
                    one.1.changed().await;
                }
            });
            let is_in = waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
            (waits, is_in)
        });
        let newcomer = thread::spawn(move || {
            if other.1.is_empty() && other.take() {
                other.0.give_back();
                other.1.wake();
            }
        });
        twin.0.give_back();
        twin.1.wake();
        newcomer.join().unwrap();
        let (mut waits, is_in) = waits.join().unwrap();
        let is_in = is_in || waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(is_in, "forgotten");
    });
}
