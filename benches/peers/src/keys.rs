//! State by key: what a key costs that nobody uses, and one that is used.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use allocation_counter::measure;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tower::Service;
use watertight::chat::Request;
use watertight::key::Caller;

use crate::measure::Contender;

/// Keys that are there, and idle.
pub const MANY: usize = 1_000_000;

pub type Governor = Arc<DefaultKeyedRateLimiter<String>>;

/// Calls once for each of the keys. The bytes that are left of one.
pub fn fill<S>(mut service: S) -> f64
where
    S: Service<Request>,
{
    let mut cx = Context::from_waker(Waker::noop());
    let left = measure(|| {
        for key in 0..MANY {
            assert!(service.poll_ready(&mut cx).is_ready());
            let request = Request::new("model").attach(Caller::new(name(key)));
            let call = pin!(service.call(request));
            assert!(call.poll(&mut cx).is_ready());
        }
    });
    left.bytes_current as f64 / MANY as f64
}

/// A million checks a second for each key.
pub fn governor() -> Governor {
    Arc::new(RateLimiter::keyed(Quota::per_second(NonZeroU32::new(1_000_000_000).expect("it is not zero"))))
}

/// The same for the limiter of a peer.
pub fn fill_governor(limiter: &Governor) -> f64 {
    let left = measure(|| {
        for key in 0..MANY {
            assert!(limiter.check_key(&name(key)).is_ok());
        }
    });
    left.bytes_current as f64 / MANY as f64
}

/// Checks one key, with nothing behind the check.
pub fn checks(name: &'static str, limiter: Governor) -> Contender {
    Contender::direct(name, move || {
        let (limiter, key) = (Arc::clone(&limiter), "user-17".to_owned());
        move |checks| {
            for _ in 0..checks {
                assert!(black_box(limiter.check_key(&key)).is_ok());
            }
        }
    })
}

fn name(key: usize) -> String {
    format!("user-{key}")
}
