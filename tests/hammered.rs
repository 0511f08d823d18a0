//! Many hands on one key, and many keys at once: what is given back must all be given back, whoever told what meanwhile.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use support::fail;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};
use watertight::chat::{
    BoxReply, Completion, Dimension, Event, Head, Limits, Message, Reply, Request, Role, Stop, Usage,
};
use watertight::event::{Fact, Facts};
use watertight::failure::{Code, Failure};
use watertight::key::{Caller, KeyBy};
use watertight::layers::TokenAwareRateLimitLayer;
use watertight::layers::rate_limit::{Mode, RateLimitConfig};
use watertight::store::{Answer, Costs, Ledger, Memory, Quota, Store};

/// Scenario: two threads take, settle, and owe; a third hears of headers, freezes and slow times of no length; a clock that
/// stands still.
/// Expected: once all is settled, the account MUST be full after as long as it takes to fill, and not fuller.
#[test]
fn an_account_is_full_again_whoever_was_at_it() {
    let quotas = [Quota::new(Dimension::Requests, 600), Quota::new(Dimension::Tokens, 60_000)];
    let ledger = Memory::default().open("key", &quotas);
    let now = Instant::now();
    let round = |n: u32| {
        let costs = Costs { requests: 1, input: n % 90, output: n % 7, tokens: n % 97 };
        let Answer::Now(answer) = ledger.reserve(&costs, now) else { unreachable!("memory answers at once") };
        if answer.is_ok() {
            let used =
                Costs { tokens: if n.is_multiple_of(50) { costs.tokens + 1 } else { 0 }, ..Costs::default() };
            ledger.settle(&costs, &used, || now);
        }
    };
    let tells = |n: u64| {
        let mut limits = Limits::default();
        let window =
            limits.entry(if n.is_multiple_of(2) { Dimension::Tokens } else { Dimension::InputTokens });
        (window.limit, window.remaining) = (Some(60_000), Some(50_000 - n));
        window.reset = (n.is_multiple_of(3)).then_some(Duration::from_secs(1));
        ledger.calibrate(&limits, 0.1, now);
        ledger.freeze(now, now);
        ledger.slow_down(0.5, now, now);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| (0..20_000).for_each(round));
        scope.spawn(|| (0..20_000).for_each(round));
        scope.spawn(|| (0..5_000).for_each(tells));
    });
    let later = now + Duration::from_secs(10 * 60);
    for level in ledger.levels(later) {
        assert_eq!(Some(level.remaining), level.capacity, "{level:?}");
    }
    assert!(ledger.is_as_new(later) && ledger.used(later) <= 0.0);
    for level in ledger.levels(now) {
        assert!(level.remaining <= level.capacity.unwrap(), "{level:?}");
    }
}

/// Answers with a usage that makes no sense, or fails with a wait.
async fn odd(request: Request) -> Result<BoxReply, Failure> {
    let n = request.messages[0].to_text().parse::<u64>().unwrap();
    // A figure without sense stops its key for long, and keys that are stopped are kept: so only a few.
    let output = if n.is_multiple_of(401) { u64::MAX - n } else { n % 10 };
    let usage = |input: u64| Usage { input, output, ..Usage::default() };
    tokio::time::sleep(Duration::from_millis(n % 5)).await;
    if n.is_multiple_of(7) {
        let failure = fail(Code::RateLimited).with_retry_after(Some(Duration::from_nanos(n)));
        return Err(failure);
    }
    let done = Completion::new(
        Message::text(Role::Assistant, "!"),
        Stop::End,
        (n.is_multiple_of(3)).then(|| usage(n)),
    );
    let torn = || Err(fail(Code::Truncated));
    let events = vec![
        Ok(Event::Usage(Box::new(usage(n)))),
        Ok(Event::text(0, "!")),
        Ok(Event::Usage(Box::new(usage(0)))),
        if n.is_multiple_of(5) { torn() } else { Ok(Event::Completed(Box::new(done))) },
    ];
    Ok(Reply::new(Head::of("odd"), futures_util::stream::iter(events)).boxed())
}

/// Scenario: 3,000 calls of 1,500 callers where 64 are kept, with usage without sense, broken streams, refusals, and every
/// third dropped at some poll; a sink that looks at the layer at each fact, and one that panics.
/// Expected: every admission MUST be followed by one release; nothing MUST be in flight or in line at the end; what is
/// shown MUST serialise.
#[tokio::test(start_paused = true)]
async fn nothing_of_many_callers_is_left_behind() {
    for panics in [false, true] {
        let (admitted, released) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let layer: Arc<std::sync::OnceLock<TokenAwareRateLimitLayer>> = Arc::default();
        let (look, seen) = (Arc::clone(&layer), (Arc::clone(&admitted), Arc::clone(&released)));
        let facts = Facts::from_fn(move |fact| {
            match fact {
                Fact::Admitted { .. } => _ = seen.0.fetch_add(1, Ordering::Relaxed),
                Fact::Released { .. } => _ = seen.1.fetch_add(1, Ordering::Relaxed),
                _ => {}
            }
            let shown = look.get().unwrap().snapshot();
            assert!(serde_json::to_string(&shown).is_ok() && !panics);
        });
        let config = RateLimitConfig {
            requests_per_minute: Some(60),
            tokens_per_minute: Some(100_000),
            max_concurrency: Some(2),
            mode: Mode::Wait,
            key: KeyBy::Caller,
            max_keys: 64,
            ..RateLimitConfig::default()
        };
        let made = layer.get_or_init(|| TokenAwareRateLimitLayer::new(config).unwrap().facts(&facts));
        let service = made.layer(service_fn(odd));
        std::panic::set_hook(Box::new(|_| ()));
        for batch in 0..30_u64 {
            let calls = (0..100_u64).map(|n| {
                let n = batch * 100 + n;
                let caller = Caller::new((n / 2 % 1_500).to_string());
                let request = Request::new("model").user(n.to_string()).streaming().attach(caller);
                let mut service = service.clone();
                async move {
                    let call = async {
                        let Ok(mut reply) = service.ready().await.unwrap().call(request).await else {
                            return;
                        };
                        let polls =
                            if n.is_multiple_of(3) { usize::try_from(n % 4).unwrap() } else { usize::MAX };
                        let _ = reply.by_ref().take(polls).collect::<Vec<_>>().await;
                    };
                    let _ = tokio::time::timeout(
                        Duration::from_millis(if n.is_multiple_of(4) { 2 } else { 9_000 }),
                        call,
                    )
                    .await;
                }
            });
            futures_util::future::join_all(calls).await;
            // Keys that are full again may go.
            tokio::time::advance(Duration::from_secs(60)).await;
        }
        let _ = std::panic::take_hook();
        let shown = made.snapshot();
        assert!(admitted.load(Ordering::Relaxed) > 500, "{admitted:?}");
        assert_eq!(admitted.load(Ordering::Relaxed), released.load(Ordering::Relaxed));
        assert!(shown.keys.iter().all(|key| key.in_flight == 0 && key.waiting == 0));
        assert!(shown.keys.len() <= 64);
    }
}
