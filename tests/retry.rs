//! Retry over scripted calls, on a paused clock.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::time::Duration;

use support::{Act, Log, Script, Stage, ask, facts, fail, request};
use tokio::time::advance;
use tower::Layer;
use watertight::failure::{Clock, Code};
use watertight::layers::retry::{Backoff, Jitter, RetryBudgetConfig, RetryConfig, RetryLayer, ShortenLayer};

fn config() -> RetryConfig {
    RetryConfig { jitter: Jitter::None, seed: Some(1), ..RetryConfig::default() }
}

fn layer(config: RetryConfig) -> RetryLayer {
    RetryLayer::new(config).expect("a valid configuration")
}

/// Scenario: two failures that pass, then an answer.
/// Expected: MUST wait 1 s, then 2 s, and give the answer; the two MUST stand in the reply's head.
#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again_after_growing_waits() {
    let log = Log::default();
    let stage =
        Stage::new("a", &log, [Script::fails(Code::Server), Script::fails(Code::Connect), Script::says("!")]);
    let mut service = layer(config()).layer(stage);
    use tower::{Service, ServiceExt};
    let reply = service.ready().await.unwrap().call(request()).await.unwrap();
    let codes: Vec<_> = reply.head().attempts.iter().map(|attempt| attempt.code).collect();
    assert_eq!(codes, [Code::Server, Code::Connect]);
    assert_eq!(support::read(reply).await.0, "a!");
    let times = log.times();
    assert_eq!(times[1] - times[0], Duration::from_secs(1));
    assert_eq!(times[2] - times[1], Duration::from_secs(2));
    let attempts: Vec<_> = log.seen().iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
}

/// Scenario: every code fails for ever.
/// Expected: MUST be tried as often as the one table says, and the failure MUST come out as it is.
#[tokio::test(start_paused = true)]
async fn the_judgement_decides_what_is_tried_again() {
    for code in Code::ALL {
        let log = Log::default();
        let mut service = layer(config()).layer(Stage::new("a", &log, [Script::fails(code)]));
        let (_, end) = ask(&mut service, request()).await;
        let failure = end.unwrap_err();
        assert_eq!(failure.code(), code);
        let tries = match code {
            Code::Timeout(Clock::FirstOutput) => 2,
            _ if code.judgement().retry => 4,
            _ => 1,
        };
        assert_eq!(log.calls().len(), tries, "{code}");
        assert_eq!(failure.is_exhausted(), tries > 1, "{code}");
        assert_eq!(failure.attempts().len(), tries - 1, "{code}");
    }
}

/// Scenario: streams that fail before and after the first output.
/// Expected: before it the failed attempt MUST vanish, preamble and all; after it nothing MUST be replayed.
#[tokio::test(start_paused = true)]
async fn nothing_is_replayed_after_the_first_output() {
    let early = Script::body([Act::Preamble, Act::KeepAlive, Act::Fail(fail(Code::Transport))]);
    let ends = Script::body([Act::Preamble, Act::End]);
    let late = Script::body([Act::Preamble, Act::Text("half"), Act::Fail(fail(Code::Transport))]);
    let log = Log::default();
    let mut service =
        layer(config()).layer(Stage::new("a", &log, [early, ends, late, Script::says("never")]));
    let (text, end) = ask(&mut service, request()).await;
    assert_eq!(text, "ahalf");
    assert_eq!(end.unwrap_err().code(), Code::Transport);
    assert_eq!(log.calls().len(), 3);
    assert_eq!(log.open(), 0);
}

/// Scenario: a provider states its wait.
/// Expected: MUST never come back sooner; MUST not sleep a wait over the maximum, and carry it up.
#[tokio::test(start_paused = true)]
async fn a_stated_wait_is_a_floor_and_has_a_ceiling() {
    for seed in 0..50 {
        let log = Log::default();
        let limited = fail(Code::RateLimited).with_retry_after(Some(Duration::from_millis(7300)));
        let scripts = [Script::head([Act::Fail(limited)]), Script::says("!")];
        let config = RetryConfig { seed: Some(seed), ..RetryConfig::default() };
        let mut service = layer(config).layer(Stage::new("a", &log, scripts));
        ask(&mut service, request()).await.1.unwrap();
        let wait = log.times()[1] - log.times()[0];
        assert!((7300..=8300).contains(&wait.as_millis()), "{wait:?}");
    }
    let log = Log::default();
    let hours = fail(Code::RateLimited).with_retry_after(Some(Duration::from_secs(9897)));
    let mut service = layer(config()).layer(Stage::new("a", &log, [Script::head([Act::Fail(hours)])]));
    let before = tokio::time::Instant::now();
    let failure = ask(&mut service, request()).await.1.unwrap_err();
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(failure.retry_after(), Some(Duration::from_secs(9897)));
    assert!(failure.is_exhausted());
}

/// Scenario: deadlines of every length over a provider that always fails.
/// Expected: no wait MUST run past the deadline, and no attempt start with less than the minimum left.
#[tokio::test(start_paused = true)]
async fn no_wait_runs_past_the_deadline() {
    for ms in (0..9000).step_by(250) {
        let log = Log::default();
        let mut service = layer(config()).layer(Stage::new("a", &log, [Script::fails(Code::Server)]));
        let begun = tokio::time::Instant::now();
        let deadline = Duration::from_millis(ms);
        let _ = ask(&mut service, request().within(deadline)).await;
        assert!(begun.elapsed() <= deadline, "deadline {deadline:?}, took {:?}", begun.elapsed());
        let late =
            log.times().into_iter().skip(1).find(|at| *at + Duration::from_millis(250) > begun + deadline);
        assert!(late.is_none(), "an attempt at {late:?}");
    }
}

/// Scenario: a loop as it is often written, which sleeps its backoff whatever the deadline says.
/// Expected: the law above MUST reject it.
#[tokio::test(start_paused = true)]
async fn a_loop_that_sleeps_past_the_deadline_is_rejected() {
    let mut service = Stage::new("a", &Log::default(), [Script::fails(Code::Server)]);
    let (begun, deadline) = (tokio::time::Instant::now(), Duration::from_secs(2));
    let backoff =
        Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(30), jitter: Jitter::None };
    for retry in 0..3 {
        if ask(&mut service, request().within(deadline)).await.1.is_err() {
            tokio::time::sleep(backoff.plain(retry)).await;
        }
    }
    assert!(begun.elapsed() > deadline, "the twin is not caught");
}

/// Scenario: a retry around a retry.
/// Expected: the outer MUST let the exhausted failure pass, so that attempts add and never multiply.
#[tokio::test(start_paused = true)]
async fn an_outer_retry_does_not_multiply_an_inner_one() {
    let log = Log::default();
    let inner = layer(config()).layer(Stage::new("a", &log, [Script::fails(Code::Server)]));
    let mut service = layer(config()).layer(inner);
    assert_eq!(ask(&mut service, request()).await.1.unwrap_err().code(), Code::Server);
    assert_eq!(log.calls().len(), 4);
}

/// Scenario: a flood of calls to a provider that is down, then a pause, and waits that are dropped.
/// Expected: retries MUST stay within 20 % of the calls plus the reserve; what is dropped in its wait MUST be given
/// back; the window MUST forget.
#[tokio::test(start_paused = true)]
async fn the_budget_bounds_retries_over_all_calls() {
    let log = Log::default();
    let budget = Some(RetryBudgetConfig { ratio: 0.2, reserve: 10, window: Duration::from_secs(10) });
    let config = RetryConfig { retries: 3, base: Duration::from_millis(1), budget, ..config() };
    let mut service = layer(config).layer(Stage::new("a", &log, [Script::fails(Code::Server)]));
    for _ in 0..200 {
        let _ = ask(&mut service, request()).await;
    }
    let retries = log.calls().len() - 200;
    assert!((45..=50).contains(&retries), "{retries} retries of 200 calls");

    advance(Duration::from_secs(30)).await;
    for _ in 0..40 {
        // Dropped in its wait: it costs nothing.
        let call = ask(&mut service, request());
        assert!(futures_util::FutureExt::now_or_never(call).is_none());
    }
    let before = log.calls().len();
    let _ = ask(&mut service, request()).await;
    assert_eq!(log.calls().len() - before, 4, "the reserve is whole again");
}

/// Scenario: the provider's own word on retrying.
/// Expected: it MUST allow and forbid another try, within the attempts.
#[tokio::test(start_paused = true)]
async fn the_providers_word_allows_and_forbids() {
    for (code, word, tries) in [(Code::Server, false, 1), (Code::InvalidRequest, true, 4)] {
        let log = Log::default();
        let failure = fail(code).with_should_retry(Some(word));
        let mut service = layer(config()).layer(Stage::new("a", &log, [Script::head([Act::Fail(failure)])]));
        assert_eq!(ask(&mut service, request()).await.1.unwrap_err().code(), code);
        assert_eq!(log.calls().len(), tries);
    }
}

/// Scenario: calls dropped at every poll of their way.
/// Expected: nothing MUST stay open, and nothing more MUST be sent.
#[tokio::test(start_paused = true)]
async fn dropped_at_any_poll_it_leaves_nothing() {
    let scripts = || {
        let slow = Script { head: vec![Act::Wait(10), Act::Fail(fail(Code::Server))], body: vec![] };
        let late = Script { head: vec![Act::Wait(10)], body: vec![Act::Preamble, Act::Wait(10), Act::End] };
        [
            slow,
            late,
            Script { head: vec![Act::Wait(10)], body: vec![Act::Wait(10), Act::Text("x"), Act::Done] },
        ]
    };
    for ms in 0..4000_u64 {
        if ms > 60 && ms % 97 != 0 {
            continue;
        }
        let log = Log::default();
        let mut service = layer(config()).layer(Stage::new("a", &log, scripts()));
        let dropped = tokio::time::timeout(Duration::from_millis(ms), ask(&mut service, request())).await;
        assert_eq!(log.open(), 0, "dropped after {ms} ms: {dropped:?}");
        let sent = log.calls().len();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(log.calls().len(), sent, "dropped after {ms} ms");
    }
}

/// Scenario: one retry.
/// Expected: MUST be told as planned and as started, in that order.
#[tokio::test(start_paused = true)]
async fn a_retry_is_two_facts() {
    let (facts, told) = facts();
    let stage = Stage::new("a", &Log::default(), [Script::fails(Code::Server), Script::says("!")]);
    let mut service = layer(config()).facts(&facts).layer(stage);
    ask(&mut service, request()).await.1.unwrap();
    assert_eq!(*told.lock().unwrap(), ["retry_planned", "retry_started"]);
}

/// Scenario: the formulas of jitter at any attempt.
/// Expected: MUST stay in their bounds, saturate, and never be zero past the base where they add.
#[test]
fn jitter_stays_in_its_bounds_at_any_attempt() {
    let (base, cap) = (Duration::from_secs(1), Duration::from_secs(30));
    let mut rng = fastrand::Rng::with_seed(7);
    for retry in (0..70).chain([1000, u32::MAX]) {
        for jitter in [
            Jitter::None,
            Jitter::Additive,
            Jitter::Full,
            Jitter::Equal,
            Jitter::Decorrelated,
            Jitter::Proportional(0.1),
        ] {
            let backoff = Backoff { base, cap, jitter };
            let plain = backoff.plain(retry);
            let (least, most) = match jitter {
                Jitter::None => (plain, plain),
                Jitter::Additive => (plain, plain + plain / 2),
                Jitter::Full => (Duration::ZERO, plain),
                Jitter::Equal => (plain / 2, plain),
                Jitter::Decorrelated => (base, cap),
                _ => (plain.mul_f64(0.899), plain.mul_f64(1.101)),
            };
            for _ in 0..20 {
                let delay = backoff.delay(retry, plain, &mut rng);
                assert!(delay >= least && delay <= most, "{jitter:?} at {retry}: {delay:?}");
            }
        }
    }
}

/// Scenario: a request that is too long, a shortener that makes it smaller, and one that does not.
/// Expected: the smaller one MUST be tried once; what is no smaller MUST not be tried.
#[tokio::test(start_paused = true)]
async fn what_is_too_long_is_tried_once_more_made_smaller() {
    use watertight::chat::Request;
    use watertight::failure::Failure;
    for (smaller, tries, ok) in [("hi", 2, true), ("a text that is much longer", 1, false)] {
        let log = Log::default();
        let stage = Stage::new("a", &log, [Script::fails(Code::ContextLength), Script::says("!")]);
        let shorten = move |_: Request, _: Failure| async move { Some(Request::new("model").user(smaller)) };
        let mut service = ShortenLayer::new(shorten).layer(layer(config()).layer(stage));
        let (_, end) = ask(&mut service, request()).await;
        assert_eq!((log.calls().len(), end.is_ok()), (tries, ok));
    }
}

/// Scenario: configurations that cannot work.
/// Expected: MUST be refused with the name of the field.
#[test]
fn a_configuration_that_cannot_work_is_refused_by_name() {
    let zero = Duration::ZERO;
    for (config, field) in [
        (RetryConfig { base: zero, ..config() }, "base"),
        (RetryConfig { cap: zero, ..config() }, "cap"),
        (RetryConfig { max_retry_after: zero, ..config() }, "max_retry_after"),
        (RetryConfig { jitter: Jitter::Proportional(f64::NAN), ..config() }, "jitter.proportional"),
        (
            RetryConfig {
                budget: Some(RetryBudgetConfig { ratio: 1.5, ..RetryBudgetConfig::default() }),
                ..config()
            },
            "budget.ratio",
        ),
    ] {
        assert_eq!(RetryLayer::new(config).unwrap_err().field, field);
    }
    let none = RetryLayer::new(RetryConfig { retries: 0, ..config() });
    assert!(none.is_ok(), "zero retries mean none");
}

/// Scenario: ten calls, of which one is tried again twice; the snapshot is taken again and again, and after the window.
/// Expected: MUST tell calls, retries and what is left, and change nothing by it.
#[tokio::test(start_paused = true)]
async fn a_snapshot_tells_the_budget() {
    let log = Log::default();
    let layer = RetryLayer::new(RetryConfig { jitter: Jitter::None, ..RetryConfig::default() }).unwrap();
    let scripts = [Script::fails(Code::Server), Script::fails(Code::Server), Script::says("!")];
    let mut service = layer.layer(Stage::new("a", &log, scripts));
    for _ in 0..10 {
        ask(&mut service, request()).await.1.unwrap();
    }
    for _ in 0..3 {
        let budget = layer.snapshot().budget.unwrap();
        assert_eq!((budget.calls, budget.retries, budget.left), (10, 2, 10));
    }
    advance(Duration::from_secs(11)).await;
    let budget = layer.snapshot().budget.unwrap();
    assert!(budget.retries == 0 && (10..=12).contains(&budget.left), "{budget:?}");
    let without = RetryLayer::new(RetryConfig { budget: None, ..RetryConfig::default() }).unwrap();
    assert!(without.snapshot().budget.is_none());
}
