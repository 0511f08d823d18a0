//! Reset over scripted streams, on a paused clock.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use support::{Act, Log, Script, Stage, ask, fail, request};
use tokio::time::{Instant, timeout};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{Event, Request, ResetReason};
use watertight::event::{Fact, Facts};
use watertight::failure::{Class, Clock, Code, Failure};
use watertight::layers::reset::{ResetConfig, ResetLayer};
use watertight::layers::retry::{Jitter, RetryConfig, RetryLayer};

fn layer(resets: u32) -> ResetLayer {
    ResetLayer::new(ResetConfig { resets, ..ResetConfig::default() }).unwrap()
}

fn retry() -> RetryLayer {
    RetryLayer::new(RetryConfig { jitter: Jitter::None, ..RetryConfig::default() }).unwrap()
}

/// A stream that dies of this after its first output.
fn dies_of(failure: Failure) -> Script {
    Script::body([Act::Preamble, Act::Text("half"), Act::Fail(failure)])
}

/// The events of a call, each in a word: its text, or what it is.
async fn events<S, T>(service: &mut S, request: Request) -> Vec<String>
where
    S: Service<Request, Response = T, Error = Failure>,
    T: futures_util::Stream<Item = Result<Event, Failure>> + Unpin,
{
    let reply = service.ready().await.unwrap().call(request).await.unwrap();
    let word = |item: Result<Event, Failure>| match item {
        Ok(Event::Text { text, .. }) => text,
        Ok(Event::Reset(reset)) => format!("reset: {:?}", reset.reason),
        Ok(Event::Completed(_)) => "done".to_owned(),
        Ok(Event::Started { .. }) => "started".to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(failure) => failure.code().to_string(),
    };
    reply.map(word).collect().await
}

/// Scenario: a stream dies after output; the next is whole.
/// Expected: MUST tell the reset, then the fresh stream from its very first event, preamble and all.
#[tokio::test(start_paused = true)]
async fn a_fresh_stream_follows_the_reset() {
    let log = Log::default();
    let whole = Script::body([Act::Preamble, Act::Text("whole"), Act::Done]);
    let stage = Stage::new("a", &log, [dies_of(fail(Code::Transport)), whole]);
    let mut service = layer(1).layer(stage);
    let begun = Instant::now();
    let events = events(&mut service, request()).await;
    assert_eq!(events, ["started", "ahalf", "reset: Transport", "started", "awhole", "done"]);
    assert_eq!(begun.elapsed(), ResetConfig::default().delay);
}

/// Scenario: a retry beneath has read ahead to the first output, which is the last thing that came.
/// Expected: it MUST count as output: the caller has it, so the stream MUST start over.
#[tokio::test(start_paused = true)]
async fn an_output_that_was_read_ahead_is_output() {
    let log = Log::default();
    let stage = Stage::new("a", &log, [dies_of(fail(Code::Transport)), Script::says("whole")]);
    let mut service = layer(1).layer(retry().layer(stage));
    let events = events(&mut service, request()).await;
    assert_eq!(events, ["started", "ahalf", "reset: Transport", "awhole", "done"]);
}

/// Scenario: an answer with no output at all, read ahead to its end by a retry beneath.
/// Expected: its end MUST be its end: nothing MUST come after it.
#[tokio::test(start_paused = true)]
async fn an_end_that_was_read_ahead_is_the_end() {
    for body in [vec![Act::Done], vec![Act::Preamble, Act::Preamble, Act::Done]] {
        let mut service =
            layer(1).layer(retry().layer(Stage::new("a", &Log::default(), [Script::body(body)])));
        assert!(ask(&mut service, request()).await.1.is_ok());
    }
}

/// Scenario: a stream fails before any output, with and without a retry beneath.
/// Expected: MUST be none of this layer's business: no reset.
#[tokio::test(start_paused = true)]
async fn nothing_is_reset_before_the_first_output() {
    let log = Log::default();
    let early = || Script::body([Act::Preamble, Act::Fail(fail(Code::Transport))]);
    let mut service = layer(1).layer(Stage::new("a", &log, [early(), Script::says("never")]));
    assert_eq!(events(&mut service, request()).await, ["started", "TRANSPORT"]);
    let mut service = layer(1).layer(retry().layer(Stage::new("a", &log, [early(), Script::says("again")])));
    assert_eq!(events(&mut service, request()).await, ["aagain", "done"]);
}

/// Scenario: every code ends a stream after output.
/// Expected: what a retry may help MUST be a reset with its reason; a terminal failure MUST come as it is, with none.
#[tokio::test(start_paused = true)]
async fn only_what_a_retry_may_help_is_a_reset() {
    for code in Code::ALL {
        let log = Log::default();
        let mut service = layer(1).layer(Stage::new("a", &log, [dies_of(fail(code)), Script::says("!")]));
        let events = events(&mut service, request()).await;
        let reason = match code {
            Code::Timeout(Clock::Total) => None,
            Code::Timeout(_) | Code::RequestTimeout => Some(ResetReason::Timeout),
            Code::Truncated => Some(ResetReason::Truncated),
            Code::RateLimited => Some(ResetReason::RateLimited),
            Code::Server | Code::Overloaded | Code::Conflict => Some(ResetReason::Server),
            Code::Connect | Code::Transport | Code::InvalidResponse => Some(ResetReason::Transport),
            _ => None,
        };
        match reason {
            Some(reason) => assert_eq!(events[2], format!("reset: {reason:?}"), "{code}"),
            None => assert_eq!(events, ["started", "ahalf", code.as_str()], "{code}"),
        }
    }
}

/// Scenario: a verdict on the content, of which its judge says that another try may help; and a failure of which the
/// provider says that none will.
/// Expected: the first MUST be a reset with its reason, the second none.
#[tokio::test(start_paused = true)]
async fn the_word_beside_the_failure_is_heard() {
    let semantic = Code::ALL.into_iter().filter(|code| code.class() == Class::Semantic);
    for code in semantic {
        let reason = match code {
            Code::EmptyResponse => ResetReason::Empty,
            Code::StrayToolCall => ResetReason::StrayToolCall,
            _ => ResetReason::Semantic,
        };
        let verdict = fail(code).with_should_retry(Some(true));
        let stage = Stage::new("a", &Log::default(), [dies_of(verdict), Script::says("!")]);
        let events = events(&mut layer(1).layer(stage), request()).await;
        assert_eq!(events[2..], [format!("reset: {reason:?}"), "a!".to_owned(), "done".to_owned()]);
    }
    let never = fail(Code::Server).with_should_retry(Some(false));
    let stage = Stage::new("a", &Log::default(), [dies_of(never), Script::says("!")]);
    assert_eq!(events(&mut layer(1).layer(stage), request()).await, ["started", "ahalf", "SERVER"]);
}

/// Scenario: streams that die for ever, under 0 to 4 resets.
/// Expected: MUST start over as often as allowed, then give the failure, and hold nothing.
#[tokio::test(start_paused = true)]
async fn the_number_of_resets_is_a_bound() {
    for resets in 0..5_u32 {
        let log = Log::default();
        let mut service = layer(resets).layer(Stage::new("a", &log, [dies_of(fail(Code::Truncated))]));
        let events = events(&mut service, request()).await;
        let told = events.iter().filter(|event| event.starts_with("reset")).count();
        assert_eq!(told, usize::try_from(resets).unwrap());
        assert_eq!(log.calls().len(), told + 1);
        assert_eq!(events.last().unwrap(), "TRUNCATED");
        assert_eq!(log.open(), 0);
    }
}

/// Scenario: the fresh start fails before its first output, by its head and by its stream.
/// Expected: MUST be the end, though resets are left: nothing came that could be void.
#[tokio::test(start_paused = true)]
async fn a_fresh_start_that_fails_is_the_end() {
    for second in [Script::fails(Code::Server), Script::body([Act::Preamble, Act::Fail(fail(Code::Server))])]
    {
        let log = Log::default();
        let stage = Stage::new("a", &log, [dies_of(fail(Code::Transport)), second, Script::says("never")]);
        let events = events(&mut layer(3).layer(stage), request()).await;
        assert_eq!(events.last().unwrap(), "SERVER");
        assert_eq!(log.calls().len(), 2);
    }
}

/// Scenario: a failure states a wait: short, at the bound, over it, and zero.
/// Expected: MUST be slept exactly; over the bound there MUST be no reset.
#[tokio::test(start_paused = true)]
async fn a_stated_wait_replaces_the_delay() {
    let bound = ResetConfig::default().max_retry_after;
    for (wait, slept) in [
        (Duration::from_millis(3300), true),
        (Duration::ZERO, true),
        (bound, true),
        (bound + Duration::from_millis(1), false),
        (Duration::MAX, false),
    ] {
        let log = Log::default();
        let limited = fail(Code::RateLimited).with_retry_after(Some(wait));
        let mut service = layer(1).layer(Stage::new("a", &log, [dies_of(limited), Script::says("!")]));
        let begun = Instant::now();
        let (_, end) = ask(&mut service, request()).await;
        match end {
            Ok(()) => assert!(slept && begun.elapsed() == wait, "{wait:?}: {:?}", begun.elapsed()),
            Err(failure) => {
                assert!(!slept && begun.elapsed().is_zero(), "{wait:?}");
                assert_eq!(failure.retry_after(), Some(wait));
            }
        }
    }
}

/// Whether nothing starts at or after the deadline, and no time passes beyond it, whatever its length.
async fn keeps_deadlines(hide_deadline: bool) -> Result<(), Duration> {
    for ms in (0..6000).step_by(125) {
        let log = Log::default();
        let slow =
            Script::body([Act::Wait(300), Act::Text("half"), Act::Wait(300), Act::Fail(fail(Code::Server))]);
        let stage = Stage::new("a", &log, [slow]);
        let deadline = Duration::from_millis(ms);
        let (begun, patient) = (Instant::now(), layer(3));
        let request = request().within(deadline);
        if hide_deadline {
            // The twin: a layer that cannot see the deadline.
            let bare = support::request();
            let _ = ask(&mut patient.layer(stage), bare).await;
        } else {
            let _ = ask(&mut patient.layer(stage), request).await;
        }
        let late = log.times().into_iter().skip(1).any(|at| at >= begun + deadline);
        if late {
            return Err(deadline);
        }
    }
    Ok(())
}

/// Scenario: deadlines of every length over streams that die.
/// Expected: no fresh start MUST come at or after the deadline; a twin that knows no deadline MUST be caught.
#[tokio::test(start_paused = true)]
async fn nothing_starts_over_after_the_deadline() {
    assert_eq!(keeps_deadlines(false).await, Ok(()));
    assert!(keeps_deadlines(true).await.is_err());
}

/// Scenario: a stream dies; the caller looks at what is open when the reset is told.
/// Expected: the dead stream MUST be gone by then.
#[tokio::test(start_paused = true)]
async fn the_dead_stream_is_gone_before_the_reset_is_told() {
    let log = Log::default();
    let stage = Stage::new("a", &log, [dies_of(fail(Code::Transport)), Script::says("!")]);
    let reply = layer(1).layer(stage).oneshot(request()).await.unwrap();
    let mut events = std::pin::pin!(reply);
    while let Some(event) = events.next().await {
        if matches!(event, Ok(Event::Reset(_))) {
            assert_eq!(log.open(), 0);
        }
    }
    assert_eq!(log.calls().len(), 2);
}

/// Scenario: a stream that dies and starts over, dropped after every millisecond: while it streams, waits, is readied
/// and is called.
/// Expected: nothing MUST stay open and nothing more MUST be sent; the place beneath MUST be free.
#[tokio::test(start_paused = true)]
async fn dropped_at_any_poll_it_holds_nothing() {
    let slow = |last| Script {
        head: vec![Act::Wait(3)],
        body: vec![Act::Wait(2), Act::Text("half"), Act::Wait(2), last],
    };
    let config = ResetConfig { delay: Duration::from_millis(5), ..ResetConfig::default() };
    for ms in 0..24 {
        let log = Log::default();
        let stage = Stage::new("a", &log, [slow(Act::Fail(fail(Code::Server))), slow(Act::Done)]);
        let beneath = ConcurrencyLimit::new(stage, 1);
        let mut service = ResetLayer::new(config.clone()).unwrap().layer(beneath.clone());
        let _ = timeout(Duration::from_millis(ms), ask(&mut service, request())).await;
        assert_eq!(log.open(), 0, "dropped after {ms} ms");
        let sent = log.calls().len();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(log.calls().len(), sent, "dropped after {ms} ms");
        drop(service);
        let free = timeout(Duration::from_secs(1), ask(&mut beneath.clone(), request())).await;
        assert!(free.is_ok(), "dropped after {ms} ms");
    }
}

/// Scenario: one call at a time is admitted beneath, and another holds the place when the stream starts over.
/// Expected: MUST wait for it, and go on when it is free.
#[tokio::test(start_paused = true)]
async fn a_fresh_start_waits_until_it_is_ready() {
    let log = Log::default();
    let slow = Script { head: vec![Act::Wait(5000)], body: vec![Act::Text("slow"), Act::Done] };
    let stage = Stage::new("a", &log, [dies_of(fail(Code::Server)), slow, Script::says("whole")]);
    let mut service = layer(1).layer(ConcurrencyLimit::new(stage, 1));
    let mut other = service.clone();
    let begun = Instant::now();
    let (reset, slow) = tokio::join!(
        async {
            // A service that is kept would keep the readiness that it asked for: it is let go.
            let reply = service.ready().await.unwrap().call(request()).await.unwrap();
            support::read(reply).await
        },
        async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            ask(&mut other, request()).await
        }
    );
    assert_eq!((reset.0.as_str(), slow.0.as_str()), ("awhole", "aslow"));
    assert_eq!(begun.elapsed(), Duration::from_millis(5010));
}

/// Scenario: a stream starts over after a stated wait.
/// Expected: MUST be told once, with the reason, the failure and the wait.
#[tokio::test(start_paused = true)]
async fn a_reset_is_a_fact() {
    type Told = Vec<(ResetReason, Code, Duration)>;
    let told: Arc<Mutex<Told>> = Arc::default();
    let sink = Arc::clone(&told);
    let facts = Facts::to(move |fact: &Fact<'_>| {
        if let Fact::Reset { reason, failure, delay, .. } = fact {
            sink.lock().unwrap().push((*reason, failure.code(), *delay));
        }
    });
    let wait = Duration::from_secs(7);
    let overloaded = fail(Code::Overloaded).with_retry_after(Some(wait));
    let stage = Stage::new("a", &Log::default(), [dies_of(overloaded), Script::says("!")]);
    ask(&mut layer(1).facts(&facts).layer(stage), request()).await.1.unwrap();
    assert_eq!(*told.lock().unwrap(), [(ResetReason::Server, Code::Overloaded, wait)]);
}
