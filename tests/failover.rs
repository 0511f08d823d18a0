//! Failover and reset over scripted calls, on a paused clock.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::time::Duration;

use support::{Act, Log, Script, Stage, ask, facts, fail, read, request};
use tokio::time::{Instant, advance};
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{Event, Protocol, ResetReason};
use watertight::failure::{Code, Failure, Skip};
use watertight::layers::failover::{Candidate, Failover, FailoverConfig, FailoverLayer, WhenAllRest};
use watertight::layers::reset::ResetConfig;
use watertight::layers::retry::{Jitter, RetryConfig};
use watertight::layers::{ResetLayer, RetryLayer};

const MINUTE: Duration = Duration::from_secs(60);

/// Candidates a, b, c that play their scripts.
fn stack(log: &Log, config: FailoverConfig, scripts: [Vec<Script>; 3]) -> Failover<Stage> {
    let names = ["a", "b", "c"];
    let [a, b, c] = [0, 1, 2].map(|at| Stage::new(names[at], log, scripts[at].clone()));
    FailoverLayer::new([b, c]).named(names).unwrap().config(config).unwrap().layer(a)
}

fn down() -> Vec<Script> {
    vec![Script::fails(Code::Server)]
}

fn up() -> Vec<Script> {
    vec![Script::says("!")]
}

/// Scenario: every code fails the first candidate.
/// Expected: the next MUST be asked as the one table says, and then answer; what does not go on MUST come out as it is.
#[tokio::test(start_paused = true)]
async fn the_judgement_decides_what_goes_on() {
    use watertight::failure::FailOver;
    for code in Code::ALL {
        let log = Log::default();
        let mut service = stack(&log, FailoverConfig::default(), [vec![Script::fails(code)], up(), up()]);
        let (text, end) = ask(&mut service, request()).await;
        if code.judgement().fail_over == FailOver::Yes {
            assert_eq!(text, "b!", "{code}");
        } else {
            assert_eq!(end.unwrap_err().code(), code);
            assert_eq!(log.calls(), ["a"]);
        }
    }
    let log = Log::default();
    let config = FailoverConfig { also: vec![Code::Authentication], ..FailoverConfig::default() };
    let mut service = stack(&log, config, [vec![Script::fails(Code::Authentication)], up(), up()]);
    assert_eq!(ask(&mut service, request()).await.0, "b!");
}

/// Scenario: all candidates fail, one of them by a local refusal.
/// Expected: MUST be ALL_FAILED with each candidate, its reason, and the shortest wait; one pass, no more.
#[tokio::test(start_paused = true)]
async fn when_all_failed_each_is_told() {
    let log = Log::default();
    let wait = |ms| Some(Duration::from_millis(ms));
    let open =
        Failure::local(Code::CircuitOpen, "open").with_skip(Skip::NotCallable).with_retry_after(wait(9000));
    let limited = fail(Code::RateLimited).with_retry_after(wait(4000));
    let scripts = [down(), vec![Script::head([Act::Fail(open)])], vec![Script::head([Act::Fail(limited)])]];
    let failure = ask(&mut stack(&log, FailoverConfig::default(), scripts), request()).await.1.unwrap_err();
    assert_eq!(failure.code(), Code::AllFailed);
    let told: Vec<_> = failure
        .attempts()
        .iter()
        .map(|attempt| (attempt.provider.as_deref().unwrap(), attempt.code))
        .collect();
    assert_eq!(told, [("a", Code::Server), ("b", Code::CircuitOpen), ("c", Code::RateLimited)]);
    assert_eq!(failure.attempts()[1].skip, Some(Skip::NotCallable));
    assert_eq!(failure.retry_after(), wait(4000));
    assert_eq!(log.calls(), ["a", "b", "c"]);
}

/// Scenario: a single candidate fails.
/// Expected: its own failure MUST come out.
#[tokio::test(start_paused = true)]
async fn a_single_candidate_keeps_its_own_failure() {
    let log = Log::default();
    let mut service = FailoverLayer::new([]).layer(Stage::new("a", &log, down()));
    for _ in 0..5 {
        assert_eq!(ask(&mut service, request()).await.1.unwrap_err().code(), Code::Server);
    }
    assert_eq!(log.calls().len(), 5);
}

/// Scenario: failures of the provider, of the request, and with a stated wait.
/// Expected: three in a row, or one with a wait or an empty quota, MUST move new calls; those of the request never.
#[tokio::test(start_paused = true)]
async fn only_failures_of_the_provider_move_new_calls() {
    let stated = fail(Code::RateLimited).with_retry_after(Some(MINUTE));
    for (failure, moved_after) in [
        (fail(Code::Server), Some(3)),
        (fail(Code::Connect), Some(3)),
        (fail(Code::QuotaExhausted), Some(1)),
        (stated, Some(1)),
        (fail(Code::NotFound), None),
        (Failure::local(Code::LimiterFull, "full"), None),
    ] {
        let log = Log::default();
        let script = Script::head([Act::Fail(failure.clone())]);
        let mut service = stack(&log, FailoverConfig::default(), [vec![script], up(), up()]);
        let calls = 6;
        for _ in 0..calls {
            assert_eq!(ask(&mut service, request()).await.0, "b!", "{failure}");
        }
        let asked = log.calls().iter().filter(|name| **name == "a").count();
        assert_eq!(asked, moved_after.unwrap_or(calls), "{failure}");
    }
}

/// Scenario: streams that die after their first output, call after call.
/// Expected: the caller MUST have the failure, never another's text; the third MUST move the next call.
#[tokio::test(start_paused = true)]
async fn a_stream_that_dies_counts_for_the_next_call() {
    let log = Log::default();
    let dies = Script::body([Act::Text("half"), Act::Fail(fail(Code::Transport))]);
    let mut service = stack(&log, FailoverConfig::default(), [vec![dies], up(), up()]);
    for _ in 0..3 {
        let (text, end) = ask(&mut service, request()).await;
        assert_eq!((text.as_str(), end.unwrap_err().code()), ("ahalf", Code::Transport));
    }
    assert_eq!(ask(&mut service, request()).await.0, "b!");
}

/// Scenario: the first candidate is moved off, and is well again after its rest.
/// Expected: until then it MUST not be asked; then one call MUST be its trial, and calls begin there again.
#[tokio::test(start_paused = true)]
async fn it_springs_back_after_the_rest() {
    let log = Log::default();
    let (facts, told) = facts();
    let config = FailoverConfig::eager();
    let stages = [("a", vec![Script::fails(Code::Server), Script::says("!")]), ("b", up())];
    let [a, b] = stages.map(|(name, scripts)| Stage::new(name, &log, scripts));
    let layer = FailoverLayer::new([b]).named(["a", "b"]).unwrap().config(config.clone()).unwrap();
    let mut service = layer.facts(&facts).layer(a);
    ask(&mut service, request()).await.1.unwrap();
    advance(config.spring_back - Duration::from_millis(1)).await;
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    advance(Duration::from_millis(1)).await;
    assert_eq!(ask(&mut service, request()).await.0, "a!");
    assert_eq!(ask(&mut service, request()).await.0, "a!");
    assert_eq!(log.calls(), ["a", "b", "b", "a", "a"]);
    assert_eq!(*told.lock().unwrap(), ["moved", "failed_over", "trial", "sprung_back"]);
}

/// Scenario: trials that fail, that are dropped, and that meet another call.
/// Expected: a trial MUST have one attempt; its failure MUST not be seen, and MUST begin a whole new rest; a dropped
/// one MUST give its slot back; only one MUST be in flight.
#[tokio::test(start_paused = true)]
async fn a_trial_is_single_unseen_and_gives_its_slot_back() {
    let log = Log::default();
    let slow = Script::head([Act::Wait(1000), Act::Fail(fail(Code::Server))]);
    let scripts = [vec![Script::fails(Code::Server), slow.clone(), slow, Script::says("!")], up(), up()];
    let config = FailoverConfig { spring_back: MINUTE, ..FailoverConfig::eager() };
    let mut service = stack(&log, config, scripts);
    ask(&mut service, request()).await.1.unwrap();
    advance(MINUTE).await;
    // Dropped in the trial: the slot is free again.
    let dropped = tokio::time::timeout(Duration::from_millis(10), ask(&mut service, request())).await;
    assert!(dropped.is_err());
    assert_eq!(log.seen().last().map(|call| call.single), Some(true));
    // In flight: another call does not begin a second one.
    let mut other = service.clone();
    let (tried, beside) = tokio::join!(ask(&mut service, request()), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        ask(&mut other, request()).await
    });
    assert_eq!((tried.0.as_str(), beside.0.as_str()), ("b!", "b!"));
    assert_eq!(log.calls().iter().filter(|name| **name == "a").count(), 3);
    // A whole new rest.
    advance(MINUTE - Duration::from_millis(1)).await;
    assert_eq!(ask(&mut service, request()).await.0, "b!");
    advance(Duration::from_millis(1)).await;
    assert_eq!(ask(&mut service, request()).await.0, "a!");
}

/// Scenario: every candidate was told to wait.
/// Expected: by default the one that recovers first MUST be asked; else the call MUST fail at once and say when.
#[tokio::test(start_paused = true)]
async fn when_all_rest_the_earliest_is_asked_or_none() {
    let limited = |seconds| {
        vec![Script::head([Act::Fail(
            fail(Code::RateLimited).with_retry_after(Some(Duration::from_secs(seconds))),
        )])]
    };
    for (rule, asked) in [(WhenAllRest::Earliest, vec!["b"]), (WhenAllRest::FailFast, vec![])] {
        let log = Log::default();
        let config = FailoverConfig { when_all_rest: rule, ..FailoverConfig::default() };
        let mut service = stack(&log, config, [limited(300), limited(100), limited(200)]);
        let _ = ask(&mut service, request()).await;
        let before = log.calls().len();
        let failure = ask(&mut service, request()).await.1.unwrap_err();
        assert_eq!(log.calls()[before..], asked, "{rule:?}");
        assert_eq!(failure.code(), Code::AllFailed);
        assert_eq!(failure.retry_after(), Some(Duration::from_secs(100)));
    }
}

/// Scenario: a deadline, and candidates that hang.
/// Expected: each MUST leave its share to those behind, and the last have the rest.
#[tokio::test(start_paused = true)]
async fn the_first_cannot_eat_the_time_of_the_last() {
    let log = Log::default();
    let begun = Instant::now();
    let mut service = stack(&log, FailoverConfig::default(), [down(), down(), up()]);
    ask(&mut service, request().within(MINUTE)).await.1.unwrap();
    let by: Vec<_> = log.seen().iter().map(|call| call.commit_by.map(|by| by - begun)).collect();
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(by, [seconds(50), seconds(55), None]);
    let patient: Vec<_> = log.seen().iter().map(|call| (call.patient, call.candidate)).collect();
    assert_eq!(patient, [(false, 0), (false, 1), (true, 2)]);
}

/// Scenario: a caller that switched failover off, and one whose conversation is too long for the next candidates.
/// Expected: MUST stay with the standing candidate; MUST go only to a larger window.
#[tokio::test(start_paused = true)]
async fn the_caller_and_the_window_are_heard() {
    let log = Log::default();
    let mut service = stack(&log, FailoverConfig::default(), [down(), up(), up()]);
    assert_eq!(ask(&mut service, request().without_failover()).await.1.unwrap_err().code(), Code::Server);
    assert_eq!(log.calls(), ["a"]);

    let log = Log::default();
    let long = vec![Script::fails(Code::ContextLength)];
    let [a, b, c] =
        [("a", long), ("b", up()), ("c", up())].map(|(name, scripts)| Stage::new(name, &log, scripts));
    let windows =
        [("a", 8), ("b", 4), ("c", 32)].map(|(name, window)| Candidate::new(name).window(window * 1024));
    let mut service = FailoverLayer::new([b, c]).named(windows).unwrap().layer(a);
    assert_eq!(ask(&mut service, request()).await.0, "c!");
}

/// Scenario: candidates that cannot be told apart, too few of them, and protocols that differ.
/// Expected: MUST be refused when built, with the name of the field.
#[test]
fn candidates_are_checked_when_built() {
    let layer = || FailoverLayer::new([(), ()]);
    assert!(layer().named(["a", "b", "a"]).unwrap_err().reason.contains("`a` twice"));
    assert_eq!(layer().named(["a", "b"]).unwrap_err().field, "candidates");
    let mixed = [Protocol::OpenaiChat, Protocol::OpenaiChat, Protocol::AnthropicMessages];
    let mixed =
        mixed.into_iter().zip(["a", "b", "c"]).map(|(protocol, name)| Candidate::new(name).speaks(protocol));
    let same = FailoverConfig { same_protocol: true, ..FailoverConfig::default() };
    assert_eq!(layer().named(mixed).unwrap().config(same).unwrap_err().field, "same_protocol");
    let zero = FailoverConfig { move_off_after: 0, ..FailoverConfig::default() };
    assert_eq!(layer().config(zero).unwrap_err().field, "move_off_after");
}

/// Scenario: a stream dies after output under a reset; then another that cannot be helped.
/// Expected: MUST tell the reset, then a fresh stream whose first output is whole; MUST tell none before a failure that
/// is final, nor beyond the number of resets.
#[tokio::test(start_paused = true)]
async fn a_reset_voids_what_came_and_starts_anew() {
    let dies = |code| Script::body([Act::Preamble, Act::Text("half"), Act::Fail(fail(code))]);
    let log = Log::default();
    let stage = Stage::new(
        "a",
        &log,
        [dies(Code::Transport), Script::body([Act::Preamble, Act::Text("whole"), Act::Done])],
    );
    let mut service = ResetLayer::default().layer(stage);
    let reply = service.ready().await.unwrap().call(request()).await.unwrap();
    let events: Vec<_> = futures_util::StreamExt::collect(reply).await;
    let reset = events
        .iter()
        .position(|event| matches!(event, Ok(Event::Reset(reset)) if reset.reason == ResetReason::Transport));
    assert!(reset.is_some(), "{events:?}");
    assert!(
        matches!(&events[reset.unwrap() + 2], Ok(Event::Text { text, .. }) if text == "awhole"),
        "{events:?}"
    );
    assert!(matches!(events.last(), Some(Ok(Event::Completed(_)))));

    let mut service =
        ResetLayer::default().layer(Stage::new("a", &log, [dies(Code::ContentFilter), Script::says("!")]));
    let (text, end) = ask(&mut service, request()).await;
    assert_eq!((text.as_str(), end.unwrap_err().code()), ("ahalf", Code::ContentFilter));

    let log = Log::default();
    let mut service = ResetLayer::default().layer(Stage::new("a", &log, [dies(Code::Transport)]));
    assert!(ask(&mut service, request()).await.1.is_err());
    assert_eq!(log.calls().len(), 2);
    assert_eq!(log.open(), 0);
}

/// How many candidates a text is of: each piece bears the name of its own.
fn speakers(text: &str) -> usize {
    ["a", "b", "c"].iter().filter(|name| text.contains(**name)).count()
}

/// How many attempts there may be: (1 + resets) × candidates × (1 + retries).
fn bound(resets: usize, candidates: usize, retries: usize) -> usize {
    (1 + resets) * candidates * (1 + retries)
}

/// Scenario: reset over failover over retry, with every mixture of candidates that are down, die or work.
/// Expected: attempts MUST stay within the bound; the text MUST be of one candidate; a stack that multiplies (retry
/// around failover, its mark ignored) MUST be caught by the same bound.
#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_and_one_text_is_of_one_provider() {
    let dies = || Script::body([Act::Text("1"), Act::Text("2"), Act::Fail(fail(Code::Truncated))]);
    let kinds: [fn() -> Script; 4] = [
        || Script::fails(Code::Server),
        || Script::body([Act::End]),
        || Script::says("!"),
        || Script::fails(Code::Connect),
    ];
    let retry = || {
        let config = RetryConfig { retries: 2, jitter: Jitter::None, budget: None, ..RetryConfig::default() };
        RetryLayer::new(config).unwrap()
    };
    let mut most = 0;
    for mixture in 0..125_usize {
        let log = Log::default();
        let script = |at: usize| match mixture / 5_usize.pow(u32::try_from(at).unwrap()) % 5 {
            4 => dies(),
            kind => kinds[kind](),
        };
        let candidates: Vec<_> =
            (0..3).map(|at| retry().layer(Stage::new(["a", "b", "c"][at], &log, [script(at)]))).collect();
        let [a, b, c] = <[_; 3]>::try_from(candidates).unwrap_or_else(|_| unreachable!());
        let failover = FailoverLayer::new([b, c]).layer(a);
        let reset = ResetLayer::new(ResetConfig { resets: 1, ..ResetConfig::default() }).unwrap();
        let (text, _) = ask(&mut reset.layer(failover), request()).await;
        most = most.max(log.calls().len());
        assert!(log.calls().len() <= bound(1, 3, 2), "{mixture}: {:?}", log.calls());
        assert!(speakers(&text) <= 1, "{mixture}: {text}");
        assert_eq!(log.open(), 0);
    }
    assert!(most > bound(0, 3, 0), "the bound was never near");
    // The twin: whoever joins a second candidate's text to the first's.
    assert_eq!(speakers("a1a2b1b2"), 2);
    // The twin: whoever tries a whole pass again, mark or no mark.
    let log = Log::default();
    let mut passes = stack(&log, FailoverConfig::default(), [down(), down(), down()]);
    for _ in 0..10 {
        if ask(&mut passes, request()).await.1.is_ok() {
            break;
        }
    }
    assert!(log.calls().len() > bound(1, 3, 2), "the twin is not caught");
}

/// Scenario: calls through the whole stack, dropped after every millisecond.
/// Expected: nothing MUST stay open, nothing more MUST be sent, and the next call MUST be answered.
#[tokio::test(start_paused = true)]
async fn dropped_at_any_poll_the_stack_holds_nothing() {
    let slow = |act| Script { head: vec![Act::Wait(3)], body: vec![Act::Wait(3), act] };
    for ms in 0..60 {
        let log = Log::default();
        let fails = vec![slow(Act::Fail(fail(Code::Server)))];
        let works =
            vec![Script { head: vec![Act::Wait(3)], body: vec![Act::Text("x"), Act::Wait(3), Act::Done] }];
        let stack = stack(&log, FailoverConfig::eager(), [fails.clone(), fails, works]);
        let mut service = ResetLayer::default().layer(stack);
        let _ = tokio::time::timeout(Duration::from_millis(ms), ask(&mut service, request())).await;
        assert_eq!(log.open(), 0, "dropped after {ms} ms");
        let sent = log.calls().len();
        advance(MINUTE).await;
        assert_eq!(log.calls().len(), sent);
        assert!(ask(&mut service, request()).await.1.is_ok(), "after a drop at {ms} ms");
    }
}

/// Scenario: a call as it is often written, on a task of its own that its caller's drop does not end.
/// Expected: the law above MUST reject it.
#[tokio::test(start_paused = true)]
async fn a_call_on_a_detached_task_is_rejected() {
    let log = Log::default();
    let hang = || vec![Script::head([Act::Hang])];
    let mut service = stack(&log, FailoverConfig::default(), [hang(), hang(), hang()]);
    let detached = tokio::spawn(async move { ask(&mut service, request()).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(detached);
    assert_ne!(log.open(), 0, "the twin is not caught");
}

/// Scenario: a layer put on two services, as a router does for each route.
/// Expected: they MUST share what is remembered.
#[tokio::test(start_paused = true)]
async fn a_layer_put_on_twice_remembers_once() {
    let log = Log::default();
    let layer = FailoverLayer::new([Stage::new("b", &log, up())]).config(FailoverConfig::eager()).unwrap();
    let mut one = layer.layer(Stage::new("a", &log, down()));
    let mut two = layer.clone().layer(Stage::new("a", &log, down()));
    ask(&mut one, request()).await.1.unwrap();
    ask(&mut two, request()).await.1.unwrap();
    assert_eq!(log.calls(), ["a", "b", "b"]);
    let reply = two.ready().await.unwrap().call(request()).await.unwrap();
    assert_eq!(read(reply).await.0, "b!");
}
