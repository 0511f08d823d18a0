//! Tools that block, on threads of their own. No runtime is needed, save for a wait in line.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tower::{Service, ServiceExt};
use watertight::chat::{ToolCall, ToolRequest, ToolResult};
use watertight::event::{Fact, Facts};
use watertight::failure::{Code, Failure};
use watertight::key::KeyBy;
use watertight::layers::bulkhead::{Blocking, BlockingTool, BulkheadConfig};

/// Longer than any of this takes, so that a test that hangs fails.
const HANG: Duration = Duration::from_secs(60);

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, with no runtime about.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park_timeout(HANG),
        }
    }
}

fn request(id: &str) -> ToolRequest {
    let mut call = ToolCall::default();
    call.id = id.into();
    ToolRequest::new(call)
}

fn config(threads: u32, max_waiting: u32) -> BulkheadConfig {
    BulkheadConfig { max_concurrent: Some(threads), max_waiting, ..BulkheadConfig::default() }
}

/// A tool whose calls tell that they began, and go on when they are told to.
struct Gated {
    tool: BlockingTool,
    begun: Receiver<String>,
    go: Sender<()>,
}

fn gated(threads: u32, max_waiting: u32, facts: &Facts) -> Gated {
    let (begins, begun) = channel();
    let (go, goes) = channel::<()>();
    let goes = Mutex::new(goes);
    let work = move |request: ToolRequest| {
        begins.send(request.tool.id.clone()).unwrap();
        goes.lock().unwrap().recv_timeout(HANG).unwrap();
        Ok(ToolResult::text(request.tool.id, "done"))
    };
    Gated { tool: BlockingTool::with("gated", config(threads, max_waiting), facts, work).unwrap(), begun, go }
}

fn call(tool: &BlockingTool, id: &str) -> Blocking {
    tool.clone().call(request(id))
}

fn in_flight(tool: &BlockingTool) -> (u32, u32) {
    let state = &tool.snapshot().states[0];
    (state.in_flight, state.waiting)
}

/// Returns once no thread is at work: nobody tells the caller who left.
fn free(tool: &BlockingTool) {
    while in_flight(tool) != (0, 0) {
        thread::yield_now();
    }
}

/// Scenario: a tool is called where no runtime is.
/// Expected: MUST answer, from a thread that bears the tool's name.
#[test]
fn a_tool_needs_no_runtime() {
    let tool = BlockingTool::new("reads", 2, |request: ToolRequest| {
        Ok(ToolResult::text(request.tool.id, thread::current().name().unwrap_or_default()))
    });
    let result = block_on(tool.unwrap().oneshot(request("1"))).unwrap().into_inner();
    assert_eq!(result.id, "1");
    assert!(matches!(&result.parts[0].content,
        watertight::chat::Content::Text(name) if name.starts_with("reads-")));
}

/// Scenario: one thread, at work; its caller leaves; another call comes, and a third.
/// Expected: the slot MUST be kept until the function returns, and only then the next call begin; the third MUST be
/// refused. Each MUST be told.
#[test]
fn work_keeps_its_slot_until_it_returns() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let facts = Facts::from_fn(move |fact| {
        if let Fact::Released { outcome, key, .. } = *fact {
            sink.lock().unwrap().push(format!("{key} {outcome:?}"));
        }
    });
    let Gated { tool, begun, go } = gated(1, 0, &facts);
    let first = call(&tool, "first");
    assert_eq!(begun.recv_timeout(HANG).unwrap(), "first");
    drop(first);
    assert_eq!(in_flight(&tool), (1, 0));
    let refused = block_on(call(&tool, "second")).unwrap_err();
    assert_eq!(refused.code(), Code::BulkheadFull);
    assert!(refused.message().starts_with("gated: 1 of 1"), "{refused}");
    assert_eq!(refused.tool(), Some("gated"));
    go.send(()).unwrap();
    free(&tool);
    let third = call(&tool, "third");
    assert_eq!(begun.recv_timeout(HANG).unwrap(), "third");
    go.send(()).unwrap();
    block_on(third).unwrap();
    assert_eq!(in_flight(&tool), (0, 0));
    assert_eq!(*told.lock().unwrap(), ["gated Completed(None)", "gated Completed(None)"]);
}

/// Scenario: more calls than threads, and the waiters are served as threads come free.
/// Expected: no more MUST be at work than there are threads, and they MUST begin in the order they came.
#[tokio::test]
async fn a_tool_works_off_its_line_in_order() {
    let at_work = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let order = Arc::new(Mutex::new(Vec::new()));
    let (counted, peak, seen) = (Arc::clone(&at_work), Arc::clone(&most), Arc::clone(&order));
    let tool =
        BlockingTool::with("counts", config(1, 100), &Facts::default(), move |request: ToolRequest| {
            peak.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            seen.lock().unwrap().push(request.tool.id.parse::<usize>().unwrap());
            thread::yield_now();
            counted.fetch_sub(1, Ordering::SeqCst);
            Ok(ToolResult::text(request.tool.id, ""))
        })
        .unwrap();
    let calls: Vec<_> = (0..50).map(|n| call(&tool, &n.to_string())).collect();
    let results = futures_util::future::join_all(calls).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!((at_work.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (0, 1));
    assert!(order.lock().unwrap().is_sorted());
    assert_eq!(in_flight(&tool), (0, 0));
}

/// Scenario: a tool of one thread panics, with words of both kinds; then is called again. A sink of facts panics, too.
/// Expected: the panic MUST be a failure with those words, and the thread MUST be there for the next call.
#[test]
fn a_panic_is_a_failure_and_no_dead_thread() {
    let facts = Facts::from_fn(|fact| {
        if let Fact::Released { outcome: watertight::chat::Outcome::Failed(_), .. } = fact {
            panic!("a sink that panics");
        }
    });
    for facts in [Facts::default(), facts] {
        let tool = BlockingTool::with("breaks", config(1, 0), &facts, |request: ToolRequest| {
            match request.tool.id.as_str() {
                "plain" => panic!("in plain words"),
                "made" => panic!("in {} words", "made"),
                _ => Ok(ToolResult::text(request.tool.id, "")),
            }
        })
        .unwrap();
        for id in ["plain", "made"] {
            let failure = block_on(call(&tool, id)).unwrap_err();
            assert_eq!(failure.code(), Code::Server);
            assert!(!failure.is_local(), "it counts against the tool");
        }
        assert!(block_on(call(&tool, "sound")).is_ok());
        assert_eq!(in_flight(&tool), (0, 0));
    }
    let words = BlockingTool::new("breaks", 1, |_| panic!("in plain words")).unwrap();
    let failure = block_on(words.oneshot(request("1"))).unwrap_err();
    assert!(failure.message().ends_with("in plain words"), "{failure}");
}

/// Scenario: a call is dropped after it has its slot and before its thread begins.
/// Expected: it MUST not be begun, and its slot MUST be free.
#[test]
fn what_nobody_waits_for_is_not_begun() {
    let Gated { tool, begun, go } = gated(2, 0, &Facts::default());
    let _first = call(&tool, "first");
    assert_eq!(begun.recv_timeout(HANG).unwrap(), "first");
    // The other thread is free: whether it began before the drop is a race, and either way the slot must come back.
    drop(call(&tool, "second"));
    go.send(()).unwrap();
    go.send(()).unwrap();
    free(&tool);
    assert!(begun.try_iter().all(|id| id == "second"));
}

/// Scenario: the last clone is dropped while a call is at work.
/// Expected: the call MUST be answered, and then every thread MUST end, and with it what the function held.
#[test]
fn the_threads_end_with_the_last_clone() {
    let Gated { tool, begun, go } = gated(3, 0, &Facts::default());
    let clone = tool.clone();
    let at_work = call(&tool, "last");
    assert_eq!(begun.recv_timeout(HANG).unwrap(), "last");
    drop(tool);
    drop(clone);
    go.send(()).unwrap();
    block_on(at_work).unwrap();
    // Each thread held the function, which holds the other end.
    assert!(matches!(begun.recv_timeout(HANG), Err(std::sync::mpsc::RecvTimeoutError::Disconnected)));
}

/// Scenario: a tool without threads, without a limit, keyed.
/// Expected: each MUST be refused by the name of the field.
#[test]
fn a_tool_that_cannot_work_is_refused() {
    let made = |config| {
        BlockingTool::with("none", config, &Facts::default(), |_| Err(Failure::new(Code::Server, "")))
            .unwrap_err()
    };
    assert_eq!(made(config(0, 0)).field, "max_concurrent");
    assert_eq!(made(BulkheadConfig { max_concurrent: None, ..config(1, 0) }).field, "max_concurrent");
    assert_eq!(made(BulkheadConfig { key: KeyBy::Tool, ..config(1, 0) }).field, "key");
}
