//! The bulkhead: slots, the line before them, and how long a slot is held.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use support::{Act, Log, Script, Stage, read, request};
use tokio::time::{Instant, advance, sleep};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use watertight::chat::{Ask, Request, ToolCall, ToolRequest, ToolResult};
use watertight::event::{Fact, Facts};
use watertight::failure::{Code, Failure};
use watertight::key::{Caller, KeyBy};
use watertight::layers::BulkheadLayer;
use watertight::layers::bulkhead::{Bulkhead, BulkheadConfig, BulkheadSnapshot};
use watertight::observe::Plain;

const MS: Duration = Duration::from_millis(1);

fn layer(max_concurrent: u32, max_waiting: u32) -> BulkheadLayer {
    BulkheadLayer::new(config(max_concurrent, max_waiting)).unwrap()
}

fn config(max_concurrent: u32, max_waiting: u32) -> BulkheadConfig {
    let max_wait = 100 * MS;
    BulkheadConfig {
        max_concurrent: Some(max_concurrent),
        max_waiting,
        max_wait,
        ..BulkheadConfig::default()
    }
}

/// In flight and waiting, over all keys.
fn load(snapshot: &BulkheadSnapshot) -> (u32, u32) {
    let sum =
        |of: fn(&watertight::layers::bulkhead::StateSnapshot) -> u32| snapshot.states.iter().map(of).sum();
    (sum(|state| state.in_flight), sum(|state| state.waiting))
}

fn poll<F: Future + ?Sized>(call: &mut Pin<Box<F>>) -> Poll<F::Output> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A tool that takes its time.
fn tool(
    ms: u64,
) -> impl Service<ToolRequest, Response = Plain<ToolResult>, Error = Failure, Future: Send> + Clone {
    service_fn(move |request: ToolRequest| async move {
        sleep(Duration::from_millis(ms)).await;
        Ok(Plain(ToolResult::text(request.tool.id, "done")))
    })
}

fn tool_request(name: &str) -> ToolRequest {
    let mut call = ToolCall::default();
    call.name = name.into();
    ToolRequest::new(call)
}

fn impatient(mut request: ToolRequest) -> ToolRequest {
    let mut call = request.call();
    call.patient = false;
    request.set_call(call);
    request
}

fn stage(log: &Log) -> Stage {
    Stage::new("a", log, [Script::body([Act::Text("x"), Act::Wait(50), Act::Text("y"), Act::Done])])
}

/// Scenario: a reply is read to its end, another is dropped midway, with one slot and no line.
/// Expected: the slot MUST be taken until the last event, or the drop, and be free right after.
#[tokio::test(start_paused = true)]
async fn a_reply_holds_its_slot_to_its_last_event() {
    let (layer, log) = (layer(1, 0), Log::default());
    let service = layer.layer(stage(&log));
    let mut reply = service.clone().oneshot(request()).await.unwrap();
    while let Some(event) = reply.next().await {
        let ended = matches!(event.unwrap(), watertight::chat::Event::Completed(_));
        assert_eq!(load(&layer.snapshot()), (u32::from(!ended), 0));
        if !ended {
            let refused = service.clone().oneshot(request()).await.err().unwrap();
            assert_eq!(refused.code(), Code::BulkheadFull);
        }
    }
    drop(reply);
    let mut reply = service.oneshot(request()).await.unwrap();
    reply.next().await.unwrap().unwrap();
    assert_eq!(load(&layer.snapshot()), (1, 0));
    drop(reply);
    assert_eq!(load(&layer.snapshot()), (0, 0));
    assert_eq!(log.open(), 0);
}

/// Scenario: an HTTP body of three frames; one empty from the start; one that breaks.
/// Expected: the slot MUST be held to the last byte, and not a moment longer.
#[tokio::test(start_paused = true)]
async fn a_body_holds_its_slot_to_its_last_byte() {
    type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;
    let frames = |broken: bool| {
        let frame = move |n: u32| async move {
            match (broken, n) {
                (true, 1) => Err(BoxError::from("the peer went away")),
                _ => Ok(http_body::Frame::data(Bytes::from_static(b"x"))),
            }
        };
        StreamBody::new(futures_util::stream::iter(0..3).then(frame)).boxed_unsync()
    };
    let layer = layer(1, 0);
    let service = layer.layer(service_fn(move |request: http::Request<()>| async move {
        let body: Body = match request.uri().path() {
            "/empty" => http_body_util::Empty::new().map_err(BoxError::from).boxed_unsync(),
            path => frames(path == "/broken"),
        };
        Ok::<_, BoxError>(http::Response::new(body))
    }));
    for (path, bytes) in [("/whole", 3), ("/broken", 1), ("/empty", 0)] {
        let asked = http::Request::get(path).body(()).unwrap();
        let mut body = service.clone().oneshot(asked).await.unwrap().into_body();
        let mut seen = 0;
        loop {
            assert_eq!(load(&layer.snapshot()), (u32::from(path != "/empty"), 0), "{path}, {seen} bytes");
            match body.frame().await {
                Some(Ok(_)) => seen += 1,
                _ => break,
            }
        }
        assert_eq!(seen, bytes);
        assert_eq!(load(&layer.snapshot()), (0, 0), "{path}");
    }
}

/// Scenario: five tools are called at once over two slots.
/// Expected: two MUST work at a time, and all be done after three rounds.
#[tokio::test(start_paused = true)]
async fn a_tool_holds_its_slot_until_its_result() {
    let (layer, begun) = (layer(2, 8), Instant::now());
    let service = layer.layer(tool(10));
    let calls = (0..5).map(|_| service.clone().oneshot(tool_request("t")));
    let done = futures_util::future::join_all(calls).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(begun.elapsed(), 30 * MS);
    assert_eq!(load(&layer.snapshot()), (0, 0));
}

/// Scenario: a slot that never comes free; one call waits, and the next finds the line full.
/// Expected: the second MUST be refused at once, the first when its longest wait is over and not a moment earlier; both
/// refusals MUST be local, name the bulkhead, what is taken and the limits, and say when to come back.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_as_a_refusal_that_says_when_to_come_back() {
    let layer = layer(1, 1).named("tool:slow");
    let service = layer.layer(tool(1_000_000));
    let mut held = Box::pin(service.clone().oneshot(tool_request("t")));
    assert!(poll(&mut held).is_pending());
    let begun = Instant::now();
    let mut waits = Box::pin(service.clone().oneshot(tool_request("t")));
    assert!(poll(&mut waits).is_pending());
    let full = service.clone().oneshot(tool_request("t")).await.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(full.message(), "tool:slow: 1 of 1 slots taken, 1 of 1 waiting");
    let waited = waits.await.unwrap_err();
    assert_eq!(begun.elapsed(), 100 * MS);
    assert_eq!(waited.message(), "tool:slow: waited 100ms in line, 1 of 1 slots taken, 0 waiting");
    for failure in [full, waited] {
        assert_eq!(failure.code(), Code::BulkheadFull);
        assert!(failure.is_local());
        assert!(failure.retry_after().is_some_and(|wait| !wait.is_zero()), "{failure:?}");
    }
    assert_eq!(load(&layer.snapshot()), (1, 0));
}

/// Scenario: the line moves on every 10 ms; then a call finds it full.
/// Expected: it MUST be told to come back when the line, at that pace, will have moved on.
#[tokio::test(start_paused = true)]
async fn a_refusal_tells_the_pace_of_the_line() {
    let service = layer(1, 4).layer(tool(10));
    let mut calls: Vec<_> = (0..5).map(|_| Box::pin(service.clone().oneshot(tool_request("t")))).collect();
    // So often that the mean has forgotten how it began.
    for _ in 0..20 {
        calls.iter_mut().for_each(|call| assert!(poll(call).is_pending()));
        let full = service.clone().oneshot(tool_request("t")).await.unwrap_err();
        advance(10 * MS).await;
        assert!(poll(&mut calls.remove(0)).is_ready());
        calls.push(Box::pin(service.clone().oneshot(tool_request("t"))));
        drop(full);
    }
    assert!(poll(calls.last_mut().unwrap()).is_pending());
    let full = service.oneshot(tool_request("t")).await.unwrap_err();
    assert_eq!(full.retry_after(), Some(50 * MS));
}

/// Scenario: calls whose deadline is over, whose first output comes too late, or who may not wait, at a taken slot; and
/// calls whose deadline, or share of the time, ends while they wait.
/// Expected: the first kinds MUST be refused at once; the others at that instant: past the deadline as that, so that
/// nobody goes on; past the share as a full bulkhead, so that another candidate is asked.
#[tokio::test(start_paused = true)]
async fn a_wait_never_runs_past_what_the_call_has_left() {
    let layer = layer(1, 8);
    let service = layer.layer(tool(1_000_000));
    let mut held = Box::pin(service.clone().oneshot(tool_request("t")));
    assert!(poll(&mut held).is_pending());
    let share = |ms: u32| {
        let mut request = tool_request("t");
        let mut call = request.call();
        call.commit_by = Some(Instant::now() + ms * MS);
        request.set_call(call);
        request
    };
    let rows = [
        (tool_request("t").within(Duration::ZERO), Code::Deadline, 0),
        (share(0), Code::BulkheadFull, 0),
        (impatient(tool_request("t")), Code::BulkheadFull, 0),
        (tool_request("t").within(40 * MS), Code::Deadline, 40),
        (share(100), Code::BulkheadFull, 60),
        (tool_request("t").within(1000 * MS), Code::BulkheadFull, 100),
    ];
    for (row, (request, code, after)) in rows.into_iter().enumerate() {
        let begun = Instant::now();
        let failure = service.clone().oneshot(request).await.unwrap_err();
        assert_eq!((failure.code(), begun.elapsed()), (code, after * MS), "row {row}");
        assert!(failure.is_local(), "row {row}");
        assert_eq!(load(&layer.snapshot()), (1, 0), "row {row}");
    }
}

/// Scenario: the slot comes free at the instant at which the wait of the head ends.
/// Expected: it MUST be the head's: a turn that comes with the end of the wait is a turn.
#[tokio::test(start_paused = true)]
async fn a_turn_beats_the_end_of_the_wait() {
    let layer = layer(1, 8);
    let service = layer.layer(tool(100));
    let mut held = Box::pin(service.clone().oneshot(tool_request("t")));
    let mut waits = Box::pin(service.oneshot(tool_request("t")));
    assert!(poll(&mut held).is_pending());
    assert!(poll(&mut waits).is_pending());
    advance(100 * MS).await;
    assert!(poll(&mut held).is_ready());
    assert!(poll(&mut waits).is_pending(), "it is at work");
    assert_eq!(load(&layer.snapshot()), (1, 0));
    advance(100 * MS).await;
    assert!(matches!(poll(&mut waits), Poll::Ready(Ok(_))));
}

/// Scenario: a call gets its turn and is dropped before it is polled again; another waits behind it.
/// Expected: the turn MUST go on to the other.
#[tokio::test(start_paused = true)]
async fn a_turn_of_one_who_left_is_given_on() {
    let layer = layer(1, 8);
    let service = layer.layer(tool(10));
    let mut calls: Vec<_> = (0..3).map(|_| Box::pin(service.clone().oneshot(tool_request("t")))).collect();
    calls.iter_mut().for_each(|call| assert!(poll(call).is_pending()));
    drop(calls.remove(0));
    drop(calls.remove(0));
    let begun = Instant::now();
    calls.remove(0).await.unwrap();
    assert_eq!(begun.elapsed(), 10 * MS);
    assert_eq!(load(&layer.snapshot()), (0, 0));
}

/// Scenario: three slots at work, one call waits; the limit shrinks to one, then grows to two.
/// Expected: none at work MUST be disturbed; none MUST be let in before the limit is met; growth MUST let in at once.
#[tokio::test(start_paused = true)]
async fn a_limit_that_shrinks_revokes_nothing() {
    let layer = layer(3, 8);
    let service = layer.layer(tool(1_000_000));
    let mut calls: Vec<_> = (0..4).map(|_| Box::pin(service.clone().oneshot(tool_request("t")))).collect();
    calls.iter_mut().for_each(|call| assert!(poll(call).is_pending()));
    layer.set_limit(1).unwrap();
    for (in_flight, waiting) in [(2, 1), (1, 1)] {
        drop(calls.remove(0));
        assert_eq!(load(&layer.snapshot()), (in_flight, waiting));
    }
    assert_eq!(layer.snapshot().states[0].limit, Some(1));
    layer.set_limit(2).unwrap();
    assert_eq!(load(&layer.snapshot()), (2, 0));
    assert_eq!(layer.set_limit(0).unwrap_err().field, "max_concurrent");
    assert_eq!(layer.set_limit(u32::MAX).unwrap_err().field, "max_concurrent");
}

/// Scenario: one tool is full, another is called; a limit is changed and a third is called for the first time.
/// Expected: no tool MUST be changed by another, and the changed limit MUST hold for keys old and new.
#[tokio::test(start_paused = true)]
async fn one_key_never_changes_another() {
    let layer =
        BulkheadLayer::new(BulkheadConfig { key: KeyBy::Tool, ..config(1, 0) }).unwrap().named("tool");
    let service = layer.layer(tool(10));
    let mut held = Box::pin(service.clone().oneshot(tool_request("one")));
    assert!(poll(&mut held).is_pending());
    let refused = service.clone().oneshot(tool_request("one")).await.unwrap_err();
    assert!(refused.message().starts_with("tool:one: 1 of 1"), "{refused}");
    service.clone().oneshot(tool_request("two")).await.unwrap();
    held.await.unwrap();
    layer.set_limit(2).unwrap();
    for name in ["one", "two", "three"] {
        let mut calls = [(); 2].map(|()| Box::pin(service.clone().oneshot(tool_request(name))));
        calls.iter_mut().for_each(|call| assert!(poll(call).is_pending()));
        let snapshot = layer.snapshot();
        assert_eq!((snapshot.keys, load(&snapshot)), (if name == "three" { 3 } else { 2 }, (2, 0)));
        assert!(service.clone().oneshot(tool_request(name)).await.is_err(), "{name}");
    }
    assert_eq!(load(&layer.snapshot()), (0, 0));
}

/// Scenario: as many callers as there may be keys are at work, and others come.
/// Expected: MUST be refused, as local, with a word on when to come back, and told; once one is idle, taken in.
#[tokio::test(start_paused = true)]
async fn a_key_too_many_is_refused() {
    let (facts, told) = support::facts();
    let config = BulkheadConfig { key: KeyBy::Caller, max_keys: 1, ..config(1, 0) };
    let layer = BulkheadLayer::new(config).unwrap().facts(&facts);
    let service = layer.layer(tool(10));
    let call =
        |n: u32| Box::pin(service.clone().oneshot(tool_request("t").attach(Caller::new(format!("{n}")))));
    let mut held = Vec::new();
    let refused = (0..10_000).find_map(|n| {
        let mut call = call(n);
        match poll(&mut call) {
            Poll::Ready(answer) => Some((n, answer.unwrap_err())),
            Poll::Pending => {
                held.push(call);
                None
            }
        }
    });
    let (n, failure) = refused.unwrap();
    assert_eq!((failure.code(), failure.is_local()), (Code::BulkheadFull, true));
    assert!(failure.retry_after().is_some());
    assert_eq!(told.lock().unwrap().last().unwrap(), "refused");
    held.clear();
    call(n).await.unwrap();
}

/// Scenario: one call passes, one waits and passes, one is refused, one is dropped.
/// Expected: each decision MUST be told once, with the key, the wait, and the end.
#[tokio::test(start_paused = true)]
async fn every_decision_is_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let facts = Facts::from_fn(move |fact| {
        sink.lock().unwrap().push(match *fact {
            Fact::Admitted { gate, key, waited, .. } => format!("{gate} {key} admitted after {waited:?}"),
            Fact::Released { gate, key, outcome, .. } => format!("{gate} {key} released {outcome:?}"),
            Fact::Refused { gate, key, failure, .. } => format!("{gate} {key} refused {}", failure.code()),
            ref other => other.name().to_owned(),
        });
    });
    let config = BulkheadConfig { key: KeyBy::Tool, ..config(1, 1) };
    let service = BulkheadLayer::new(config).unwrap().named("tool").facts(&facts).layer(tool(10));
    let mut first = Box::pin(service.clone().oneshot(tool_request("t")));
    let mut second = Box::pin(service.clone().oneshot(tool_request("t")));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    assert!(service.clone().oneshot(tool_request("t")).await.is_err());
    first.await.unwrap();
    assert!(poll(&mut second).is_pending());
    drop(second);
    assert_eq!(
        *told.lock().unwrap(),
        [
            "bulkhead tool:t admitted after 0ns",
            "bulkhead tool:t refused BULKHEAD_FULL",
            "bulkhead tool:t released Completed(None)",
            "bulkhead tool:t admitted after 10ms",
            "bulkhead tool:t released Abandoned",
        ]
    );
}

/// Scenario: the layer is applied twice and cloned, as a router does that applies it once a route.
/// Expected: all MUST share the same slots.
#[tokio::test(start_paused = true)]
async fn a_layer_applied_again_shares_its_slots() {
    let layer = layer(1, 0);
    let mut held = Box::pin(layer.layer(tool(10)).oneshot(tool_request("t")));
    assert!(poll(&mut held).is_pending());
    assert!(layer.layer(tool(10)).oneshot(tool_request("t")).await.is_err());
    assert!(layer.clone().layer(tool(10)).oneshot(tool_request("t")).await.is_err());
}

/// Scenario: many clones are polled ready and kept, and others dropped; then one is called.
/// Expected: it MUST be served: what is ready and idle holds no slot.
#[tokio::test(start_paused = true)]
async fn a_ready_idle_clone_blocks_nobody() {
    let layer = layer(1, 0);
    let service = layer.layer(tool(10));
    let mut idle = vec![service.clone(); 5];
    for clone in &mut idle {
        clone.ready().await.unwrap();
    }
    idle.truncate(3);
    assert_eq!(load(&layer.snapshot()), (0, 0));
    service.oneshot(tool_request("t")).await.unwrap();
}

/// Scenario: the line has one who waits; slots come free one by one while newcomers keep coming, who may not wait.
/// Expected: who waits MUST have the first slot, however many newcomers there are.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_never_starved_by_newcomers() {
    let layer = layer(2, 8);
    let service = layer.layer(tool(10));
    let mut held = [(); 2].map(|()| Box::pin(service.clone().oneshot(tool_request("t"))));
    held.iter_mut().for_each(|call| assert!(poll(call).is_pending()));
    let mut waits = Box::pin(service.clone().oneshot(tool_request("t")));
    assert!(poll(&mut waits).is_pending());
    let newcomer = || service.clone().oneshot(impatient(tool_request("t")));
    assert!(newcomer().await.is_err());
    advance(10 * MS).await;
    assert!(poll(&mut held[0]).is_ready());
    assert!(newcomer().await.is_err(), "the slot is the waiter's, though it was not polled yet");
    assert!(poll(&mut held[1]).is_ready());
    assert!(newcomer().await.is_ok(), "nobody waits any more");
    waits.await.unwrap();
}

/// Scenario: five calls wait before a bulkhead, under which a service has one slot of its own.
/// Expected: whoever is let through MUST find it free, and all be served in the order they came.
#[tokio::test(start_paused = true)]
async fn a_line_holds_no_slot_of_what_is_beneath() {
    let (layer, log) = (layer(1, 8), Log::default());
    let service = layer.layer(tower::limit::ConcurrencyLimit::new(stage(&log), 1));
    let read_all = |_| {
        let service = service.clone();
        async move { read(service.oneshot(request()).await?).await.1 }
    };
    let begun = Instant::now();
    let results = futures_util::future::join_all((0..2).map(read_all)).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!((begun.elapsed(), log.calls().len()), (100 * MS, 2));
}

/// Scenario: no limit at all.
/// Expected: all MUST pass, and be counted.
#[tokio::test(start_paused = true)]
async fn without_a_limit_all_pass_and_are_counted() {
    let layer = BulkheadLayer::new(BulkheadConfig { max_concurrent: None, ..config(1, 0) }).unwrap();
    let service = layer.layer(tool(10));
    let mut calls: Vec<_> = (0..100).map(|_| Box::pin(service.clone().oneshot(tool_request("t")))).collect();
    calls.iter_mut().for_each(|call| assert!(poll(call).is_pending()));
    assert_eq!((load(&layer.snapshot()), layer.snapshot().states[0].limit), ((100, 0), None));
}

/// Scenario: a waiter beneath an abandoned caller, in every state of its wait.
/// Expected: a service that waits MUST give its place up on drop, polled or not.
#[tokio::test(start_paused = true)]
async fn a_wait_dropped_before_its_first_poll_leaves_the_line() {
    let layer = layer(1, 1);
    let mut service = layer.layer(tool(10));
    let mut held = Box::pin(service.clone().oneshot(tool_request("t")));
    assert!(poll(&mut held).is_pending());
    let unpolled = service.ready().await.unwrap().call(tool_request("t"));
    assert_eq!(load(&layer.snapshot()), (1, 1));
    drop(unpolled);
    assert_eq!(load(&layer.snapshot()), (1, 0));
}

/// Scenario: configurations written and read back; with an unknown field; with values that cannot work.
/// Expected: MUST be what they were; be refused; be refused by the name of the field.
#[test]
fn a_configuration_is_checked() {
    for config in [
        BulkheadConfig::default(),
        BulkheadConfig::users(),
        BulkheadConfig::tools(),
        BulkheadConfig::sessions(),
        BulkheadConfig { max_concurrent: None, ..BulkheadConfig::default() },
    ] {
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<BulkheadConfig>(&text).unwrap(), config, "{text}");
        assert!(config.validate().is_ok());
    }
    let read = |text: &str| serde_json::from_str::<BulkheadConfig>(text);
    assert_eq!(read(r#"{"max_wait": "2s"}"#).unwrap().max_wait, 2000 * MS);
    assert!(read(r#"{"max_wiat": "2s"}"#).unwrap_err().to_string().contains("max_wiat"));
    for (text, field) in [
        (r#"{"max_concurrent": 0}"#, "max_concurrent"),
        (r#"{"max_concurrent": 4294967295}"#, "max_concurrent"),
        (r#"{"max_wait": "0s"}"#, "max_wait"),
        (r#"{"max_keys": 0}"#, "max_keys"),
        (r#"{"budget": {"tokens": 0}}"#, "budget.tokens"),
        (r#"{"budget": {"window": "0s"}}"#, "budget.window"),
        (r#"{"budget": {"warn_at": 0.0}}"#, "budget.warn_at"),
        (r#"{"budget": {"warn_at": 1.5}}"#, "budget.warn_at"),
    ] {
        let error = BulkheadLayer::new(read(text).unwrap()).unwrap_err();
        assert_eq!(error.field, field, "{text}");
    }
}

/// Scenario: the table of defaults in the documentation of the room.
/// Expected: each value MUST be the code's.
#[test]
fn the_documented_defaults_are_the_code_s() {
    let docs = include_str!("../src/layers/bulkhead/mod.rs");
    let config = BulkheadConfig::default();
    let users = BulkheadConfig::users().budget.unwrap();
    let rows = [
        ("max_concurrent", config.max_concurrent.unwrap().to_string()),
        ("max_waiting", config.max_waiting.to_string()),
        ("max_wait", format!("{} s", config.max_wait.as_secs())),
        ("budget.tokens", users.tokens.to_string()),
        ("budget.window", format!("{} s", users.window.as_secs())),
        ("budget.warn_at", users.warn_at.unwrap().to_string()),
        ("max_keys", config.max_keys.to_string()),
    ];
    for (field, value) in rows {
        let row = docs
            .lines()
            .find(|line| line.contains(&format!("| `{field}` |")))
            .unwrap_or_else(|| panic!("{field}"));
        assert_eq!(row.split('|').nth(2).unwrap().trim().replace(',', ""), value, "{field}");
    }
}

/// Scenario: a snapshot of a keyed bulkhead in use.
/// Expected: MUST serialise, with what is in use and no more.
#[tokio::test(start_paused = true)]
async fn a_snapshot_serialises() {
    let layer = BulkheadLayer::new(BulkheadConfig { key: KeyBy::Tool, ..config(2, 0) }).unwrap();
    let service = layer.layer(tool(10));
    service.clone().oneshot(tool_request("idle")).await.unwrap();
    let mut held = Box::pin(service.oneshot(tool_request("busy")));
    assert!(poll(&mut held).is_pending());
    let handle: Bulkhead = layer.handle();
    let json = serde_json::to_value(handle.snapshot()).unwrap();
    let busy = serde_json::json!({
        "key": "bulkhead:busy", "limit": 2, "in_flight": 1, "waiting": 0, "budget": null
    });
    assert_eq!(json, serde_json::json!({ "name": "bulkhead", "keys": 2, "states": [busy] }));
}

/// Scenario: what the layers ask of a request and of a service.
/// Expected: a bulkhead over chats, over tools and over HTTP MUST be a service that can be cloned and sent.
#[test]
fn a_bulkhead_can_be_cloned_and_sent() {
    fn sent<T: Clone + Send + Sync>(_: &T) {}
    let layer = BulkheadLayer::default();
    sent(&layer);
    sent(&layer.layer(stage(&Log::default())));
    let request: Request = request();
    sent(&request);
}
