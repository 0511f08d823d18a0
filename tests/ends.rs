//! How whole calls end for whoever makes them: one fact a call, whatever it took.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use futures_util::{FutureExt, Stream, StreamExt};
use support::{Act, Log, Script, Stage, ask, fail, request};
use tokio::time::{Duration, advance};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{Ask, BoxReply, CallId, Cost, Level, Outcome, Reply, Request};
use watertight::config::StackConfig;
use watertight::event::{Fact, Facts};
use watertight::failure::{Code, Failure};
use watertight::layers::DegradationLayer;
use watertight::layers::degradation::{DegradationConfig, GracefulConfig};
use watertight::layers::retry::{Jitter, RetryConfig};
use watertight::stack::Layers;

const COMPLETED: Outcome = Outcome::Completed(None);

type Ends = Arc<Mutex<Vec<(CallId, Outcome, Level)>>>;

/// Facts, and the ends that are told among them.
fn ends() -> (Facts, Ends) {
    let ends = Ends::default();
    let sink = Arc::clone(&ends);
    let facts = Facts::from_fn(move |fact| {
        if let Fact::Ended { call, outcome, level } = *fact {
            sink.lock().unwrap().push((call, outcome, level));
        }
    });
    (facts, ends)
}

/// What was told, without the tokens: words have used none, and know it.
fn told(ends: &Ends) -> Vec<(Outcome, Level)> {
    let plain = |outcome| if matches!(outcome, Outcome::Completed(_)) { COMPLETED } else { outcome };
    ends.lock().unwrap().iter().map(|(_, outcome, level)| (plain(*outcome), *level)).collect()
}

fn stage(scripts: impl IntoIterator<Item = Script>) -> Stage {
    Stage::new("a", &Log::default(), scripts)
}

fn words() -> DegradationConfig {
    DegradationConfig { graceful: Some(GracefulConfig::default()), ..DegradationConfig::default() }
}

/// Scenario: calls that are answered, answered in part, answered with words, and that fail before the head, before and
/// after the first output, with and without words behind them.
/// Expected: each MUST be told once, with how it ended for its caller, and with how far the answer is from what was asked.
#[tokio::test(start_paused = true)]
async fn each_call_is_told_once_by_how_it_ended() {
    let silent = DegradationConfig { graceful: None, max_partial: None, ..DegradationConfig::default() };
    let parts = DegradationConfig { graceful: None, ..DegradationConfig::default() };
    let broken = || Script::body([Act::Text("1"), Act::Fail(fail(Code::Server))]);
    let early = Script::body([Act::Preamble, Act::Fail(fail(Code::Overloaded))]);
    let cut = Script::body([Act::Text("1"), Act::End]);
    let quiet = Script::body([Act::Preamble, Act::Done]);
    let failed = |code| (Outcome::Failed(code), Level::None);
    for (config, script, expected) in [
        (words(), Script::says("!"), (COMPLETED, Level::None)),
        (words(), quiet, (COMPLETED, Level::None)),
        (words(), Script::fails(Code::Server), (COMPLETED, Level::Failed)),
        (words(), Script::fails(Code::InvalidRequest), failed(Code::InvalidRequest)),
        (silent.clone(), Script::fails(Code::Server), failed(Code::Server)),
        (silent.clone(), early, failed(Code::Overloaded)),
        (silent.clone(), broken(), failed(Code::Server)),
        (silent, cut, (Outcome::Truncated, Level::None)),
        (parts, broken(), (COMPLETED, Level::Partial)),
    ] {
        let (facts, ends) = ends();
        let shown = format!("{script:?}");
        let mut service = DegradationLayer::new(config).unwrap().facts(&facts).layer(stage([script]));
        let _ = ask(&mut service, request()).await;
        assert_eq!(told(&ends), [expected], "{shown}");
    }
}

/// Scenario: a fallback model answers, and breaks off after its first output, with and without partial results.
/// Expected: whole it MUST be a fallback; broken off a partial answer, or a failure and no answer at all.
#[tokio::test(start_paused = true)]
async fn an_answer_of_a_rung_is_told_with_its_level() {
    let broken = || Script::body([Act::Text("1"), Act::Fail(fail(Code::Transport))]);
    for (script, max_partial, expected) in [
        (Script::says("!"), None, (COMPLETED, Level::Fallback)),
        (broken(), Some(1024), (COMPLETED, Level::Partial)),
        (broken(), None, (Outcome::Failed(Code::Transport), Level::None)),
    ] {
        let (facts, ends) = ends();
        let config = DegradationConfig { fallback_models: vec!["small".into()], max_partial, ..words() };
        let layer = DegradationLayer::new(config).unwrap().facts(&facts);
        let layer = layer.fallback_model(stage([script])).unwrap();
        let _ = ask(&mut layer.layer(stage([Script::fails(Code::Server)])), request()).await;
        assert_eq!(told(&ends), [expected]);
    }
}

/// Scenario: a whole stack whose first provider fails for ever, through its retries, and whose second answers; then a
/// call that the bulkhead's budget refuses.
/// Expected: each MUST be one end under the call's own number, after everything beneath it was told.
#[tokio::test(start_paused = true)]
async fn a_whole_stack_tells_one_end_a_call() {
    let (facts, ends) = ends();
    let names = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&names);
    let facts = Facts::to((facts, move |fact: &Fact<'_>| sink.lock().unwrap().push(fact.name())));
    let retry = RetryConfig { jitter: Jitter::None, ..RetryConfig::default() };
    let mut config = StackConfig { retry, ..StackConfig::default() };
    config.bulkhead.budget.as_mut().unwrap().tokens = 10;
    let (down, up) = (stage([Script::fails(Code::Server)]), stage([Script::says("!")]));
    let mut stack = Layers::new(config, &facts).unwrap().over([("down", down), ("up", up)]).unwrap();
    let request = |input| request().attach(Cost { input, output: None });
    let first = request(10);
    let id = first.call().id;
    ask(&mut stack, first).await.1.unwrap();
    assert_eq!(*ends.lock().unwrap(), [(id, COMPLETED, Level::None)]);
    let last = names.lock().unwrap().last().copied();
    assert_eq!(last, Some("ended"));
    assert!(names.lock().unwrap().contains(&"retry_planned"), "it was tried more than once");
    ask(&mut stack, request(10)).await.1.unwrap();
    assert_eq!(told(&ends)[1..], [(COMPLETED, Level::Failed)], "it was refused, and answered with words");
}

/// Scenario: a call is dropped before it is polled, before its head, while words are looked for, before and after the
/// first output; and one after its last event.
/// Expected: all but the last MUST be told as abandoned; the last MUST be told as completed, and not again.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_told_as_abandoned() {
    let slow = || Script::body([Act::Wait(10), Act::Text("1"), Act::Wait(10), Act::Text("2"), Act::Done]);
    for polled in [false, true] {
        let (facts, ends) = ends();
        let mut service = DegradationLayer::default().facts(&facts).layer(stage([slow()]));
        let mut call = Box::pin(service.ready().await.unwrap().call(request()));
        if polled {
            assert!(call.as_mut().now_or_never().is_none());
        }
        assert!(told(&ends).is_empty());
        drop(call);
        assert_eq!(told(&ends), [(Outcome::Abandoned, Level::None)], "polled: {polled}");
    }
    for (events, expected) in [(0, Outcome::Abandoned), (1, Outcome::Abandoned), (3, COMPLETED)] {
        let (facts, ends) = ends();
        let mut service = DegradationLayer::default().facts(&facts).layer(stage([slow()]));
        let mut reply = service.ready().await.unwrap().call(request()).await.unwrap();
        for _ in 0..events {
            reply.next().await.unwrap().unwrap();
        }
        drop(reply);
        assert_eq!(told(&ends), [(expected, Level::None)], "after {events} events");
    }
    let (facts, ends) = ends();
    let config = DegradationConfig { fallback_models: vec!["small".into()], ..words() };
    let layer = DegradationLayer::new(config).unwrap().facts(&facts);
    let layer = layer.fallback_model(stage([Script::head([Act::Hang])])).unwrap();
    let mut service = layer.layer(stage([Script::fails(Code::Server)]));
    let mut call = Box::pin(service.ready().await.unwrap().call(request()));
    assert!(call.as_mut().now_or_never().is_none());
    drop(call);
    assert_eq!(told(&ends), [(Outcome::Abandoned, Level::None)]);
}

type Boxed = BoxCloneSyncService<Request, BoxReply, Failure>;

/// Every script with one of these heads, and two of these acts in its body.
fn scripts() -> Vec<Script> {
    let heads = [vec![], vec![Act::Wait(5)], vec![Act::Fail(fail(Code::Server))]];
    let acts = [
        Act::Wait(5),
        Act::Preamble,
        Act::Text("1"),
        Act::KeepAlive,
        Act::Fail(fail(Code::Server)),
        Act::Done,
        Act::End,
    ];
    let mut scripts = Vec::new();
    for head in &heads {
        for one in &acts {
            for two in &acts {
                let body = vec![one.clone(), two.clone(), Act::End];
                scripts.push(Script { head: head.clone(), body });
            }
        }
    }
    scripts
}

/// The law: any call of any of these scripts, dropped after any number of polls, is told once.
async fn tells_once(make: impl Fn(&Facts, Stage) -> Boxed) -> Result<(), String> {
    for script in scripts() {
        for polls in 0..8 {
            let (facts, ends) = ends();
            let mut service = make(&facts, stage([script.clone()]));
            poll(&mut service, polls).await;
            let told = told(&ends);
            if told.len() != 1 {
                return Err(format!("{told:?} of {script:?} after {polls} polls"));
            }
        }
    }
    Ok(())
}

/// Makes a call, and drops it after so many polls.
async fn poll(service: &mut Boxed, mut polls: usize) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut call = pin!(service.ready().await.unwrap().call(request()));
    let mut reply = None;
    while polls > 0 && reply.is_none() {
        polls -= 1;
        advance(Duration::from_millis(5)).await;
        if let std::task::Poll::Ready(answer) = call.as_mut().poll(&mut cx) {
            let Ok(answer) = answer else { return };
            reply = Some(answer);
        }
    }
    let Some(mut reply) = reply else { return };
    for _ in 0..polls {
        advance(Duration::from_millis(5)).await;
        if let std::task::Poll::Ready(None) = Pin::new(&mut reply).poll_next(&mut cx) {
            return;
        }
    }
}

/// Scenario: every script of up to three acts, dropped after every number of polls, with and without words.
/// Expected: each call MUST be told once.
#[tokio::test(start_paused = true)]
async fn any_call_dropped_at_any_poll_is_told_once() {
    for config in [words(), DegradationConfig { graceful: None, max_partial: None, ..words() }] {
        let make = |facts: &Facts, stage: Stage| {
            let layer = DegradationLayer::new(config.clone()).unwrap().facts(facts);
            Boxed::new(layer.layer(stage).map_response(Reply::boxed))
        };
        assert_eq!(tells_once(make).await, Ok(()));
    }
}

/// Scenario: the same of one who tells a call as completed when its head is there.
/// Expected: MUST be told apart.
#[tokio::test(start_paused = true)]
async fn one_who_counts_heads_breaks_the_law() {
    let make = |facts: &Facts, stage: Stage| {
        let facts = facts.clone();
        Boxed::new(stage.map_response(move |reply| {
            let call = CallId::default();
            facts.emit(&Fact::Ended { call, outcome: COMPLETED, level: Level::None });
            reply.boxed()
        }))
    };
    assert!(tells_once(make).await.is_err());
}
