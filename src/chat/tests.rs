//! The words, folded, followed, pushed and added up.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use serde_json::json;

use crate::failure::{Clock, Code, Failure};

use super::*;

fn text(index: u32, text: &str) -> Event {
    Event::text(index, text)
}

fn thought(index: u32, text: &str) -> Event {
    Event::Reasoning { index, text: text.into() }
}

fn tool(index: u32, id: &str, name: &str) -> Event {
    Event::ToolCall { index, start: Box::new(ToolCallStart::new(id, name)) }
}

fn arguments(index: u32, text: &str) -> Event {
    Event::ToolArguments { index, text: text.into() }
}

fn closed(index: u32, part: Option<Part>) -> Event {
    Event::Closed { index, part: part.map(Box::new) }
}

fn completed(usage: Option<Usage>) -> Event {
    Event::Completed(Box::new(Completion::new(Message::text(Role::Assistant, "whole"), Stop::End, usage)))
}

fn used(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

fn gathered<'a>(events: impl IntoIterator<Item = &'a Event>) -> Assembler {
    let mut assembler = Assembler::new();
    events.into_iter().for_each(|event| assembler.push(event));
    assembler
}

fn parts(message: Message) -> Vec<Content> {
    message.parts.into_iter().map(|part| part.content).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> Content {
    Content::ToolCall(ToolCall::new(id, name, arguments))
}

/// Scenario: blocks that open in another order than they stand in, one of them a tool call with no arguments.
/// Expected: MUST be ordered by index; arguments that never came MUST be `{}`.
#[test]
fn blocks_are_ordered_by_index() {
    let events =
        [tool(7, "c2", "later"), text(0, "a"), tool(3, "c1", "first"), arguments(3, "[1]"), text(0, "b")];
    let message = gathered(&events).finish();
    assert_eq!(message.role, Role::Assistant);
    assert_eq!(
        parts(message),
        [Content::Text("ab".into()), call("c1", "first", "[1]"), call("c2", "later", "{}")]
    );
}

/// Scenario: ids and names that come late, twice, and empty; arguments before them.
/// Expected: the first that is not empty MUST stay.
#[test]
fn ids_and_names_are_set_once() {
    let events = [
        arguments(0, "{\"a\":"),
        tool(0, "", "find"),
        tool(0, "c1", ""),
        tool(0, "c2", "other"),
        arguments(0, "1}"),
        tool(0, "", ""),
    ];
    assert_eq!(parts(gathered(&events).finish()), [call("c1", "find", "{\"a\":1}")]);
}

/// Scenario: a block closed twice, with and without the whole of it, and deltas after the close; deltas of another
/// kind in a block.
/// Expected: the first close MUST win, and nothing MUST be added after it; what does not fit MUST be left out.
#[test]
fn the_first_close_wins() {
    let events = [
        text(0, "half"),
        closed(0, Some(Part::text("whole"))),
        closed(0, Some(Part::text("never"))),
        text(0, "never"),
        text(1, "open"),
        closed(1, None),
        closed(1, Some(Part::text("never"))),
        closed(2, Some(Part::text("at once"))),
        text(2, "never"),
        closed(3, None),
        tool(4, "c", "t"),
        closed(4, None),
        tool(4, "x", "y"),
        arguments(4, "never"),
        thought(1, "of another kind"),
    ];
    let wanted = ["whole", "open", "at once"].map(|text| Content::Text(text.into()));
    assert_eq!(parts(gathered(&events).finish()), [&wanted[..], &[call("c", "t", "{}")]].concat());
}

/// Scenario: the end is not proper: one tool call is closed, one is not; text is half.
/// Expected: the open call MUST be left out, the rest MUST be kept.
#[test]
fn half_a_tool_call_is_never_kept() {
    let events =
        [text(0, "ha"), tool(1, "c1", "t"), closed(1, None), tool(2, "c2", "t"), arguments(2, "{\"rm")];
    assert_eq!(parts(gathered(&events).partial()), [Content::Text("ha".into()), call("c1", "t", "{}")]);
}

/// Scenario: usage told twice, then by the end, then by an end that knows none; a reset in between.
/// Expected: later figures MUST replace earlier ones, silence MUST replace nothing, a reset MUST void all.
#[test]
fn later_figures_replace_earlier_ones() {
    let told = |usage| Event::Usage(Box::new(usage));
    let events = [told(used(1, 1)), told(used(2, 5)), completed(None)];
    assert_eq!(gathered(&events).usage(), Some(used(2, 5)));
    let events = [told(used(1, 1)), completed(Some(used(3, 9)))];
    assert_eq!(gathered(&events).usage(), Some(used(3, 9)));
    let reset = Event::Reset(Box::new(Reset::after(Failure::new(Code::Transport, ""))));
    let assembler = gathered(&[text(0, "void"), told(used(1, 1)), reset, Event::KeepAlive]);
    assert!(assembler.is_empty() && assembler.usage().is_none());
}

type Fold = fn(&[Event]) -> Vec<Content>;

/// Deltas of one block each, in any order among the blocks.
fn interleaved() -> impl Strategy<Value = Vec<(u32, String)>> {
    prop::collection::vec((0..4_u32, "[a-z]{0,3}"), 0..24)
}

/// The law: how the deltas of different blocks are interleaved changes nothing.
fn fold_ignores_interleaving(fold: Fold) -> Result<(), TestError<Vec<(u32, String)>>> {
    let config = Config { failure_persistence: None, ..Config::with_cases(256) };
    TestRunner::new(config).run(&interleaved(), |deltas| {
        let event = |(index, piece): &(u32, String)| match index {
            0 | 2 => text(*index, piece),
            1 => thought(*index, piece),
            _ => arguments(*index, piece),
        };
        let mut sorted = deltas.clone();
        sorted.sort_by_key(|(index, _)| *index);
        let mixed = fold(&deltas.iter().map(event).collect::<Vec<_>>());
        prop_assert_eq!(&mixed, &fold(&sorted.iter().map(event).collect::<Vec<_>>()));
        for (index, piece) in &deltas {
            let all: String =
                deltas.iter().filter(|(other, _)| other == index).map(|(_, piece)| piece.as_str()).collect();
            let kept = mixed.iter().any(|content| match content {
                Content::Text(text) => *text == all,
                Content::Reasoning(reasoning) => reasoning.text == all,
                Content::ToolCall(call) => call.arguments == all || all.is_empty(),
                _ => false,
            });
            prop_assert!(kept, "{piece:?} of block {index} is not where it belongs");
        }
        Ok(())
    })
}

/// Scenario: any interleaving of the deltas of text, thoughts and arguments.
/// Expected: MUST fold to the same message; a fold by last block and a fold by order of opening MUST be rejected.
#[test]
fn interleaving_changes_nothing() {
    fn by_last(events: &[Event]) -> Vec<Content> {
        let mut all: Vec<Content> = Vec::new();
        for event in events {
            match (event, all.last_mut()) {
                (Event::Text { text, .. }, Some(Content::Text(all))) => all.push_str(text),
                (Event::Text { text, .. }, _) => all.push(Content::Text(text.clone())),
                (Event::ToolArguments { text, .. }, _) => all.push(call("", "", text)),
                (Event::Reasoning { text, .. }, _) => {
                    all.push(Content::Reasoning(Reasoning { text: text.clone(), ..Reasoning::default() }));
                }
                _ => {}
            }
        }
        all
    }
    fn by_opening(events: &[Event]) -> Vec<Content> {
        let mut opened: Vec<u32> = Vec::new();
        for event in events {
            if let Event::Text { index, .. }
            | Event::Reasoning { index, .. }
            | Event::ToolArguments { index, .. } = event
                && !opened.contains(index)
            {
                opened.push(*index);
            }
        }
        let of = |index: u32| {
            let own = events.iter().filter(move |event| match event {
                Event::Text { index: own, .. }
                | Event::Reasoning { index: own, .. }
                | Event::ToolArguments { index: own, .. } => *own == index,
                _ => false,
            });
            parts(gathered(own).finish())
        };
        opened.into_iter().flat_map(of).collect()
    }
    fold_ignores_interleaving(|events| parts(gathered(events).finish())).unwrap();
    fold_ignores_interleaving(by_last).unwrap_err();
    fold_ignores_interleaving(by_opening).unwrap_err();
}

/// Scenario: each kind of event.
/// Expected: only what is handed to the caller MUST be output; a tool call from its id or name on, no sooner.
#[test]
fn only_content_is_output() {
    let other = Part::from(Content::Other(Protocol::OpenaiResponses, json!({"type": "new"})));
    let rows = [
        (text(0, ""), Sign::Preamble),
        (text(0, "né"), Sign::Output(3)),
        (thought(0, ""), Sign::Preamble),
        (thought(0, "hm"), Sign::Output(2)),
        (Event::Refusal { index: 0, text: "no".into() }, Sign::Output(2)),
        (tool(0, "", ""), Sign::Preamble),
        (tool(0, "c", ""), Sign::Output(0)),
        (tool(0, "", "find"), Sign::Output(4)),
        (arguments(0, ""), Sign::Preamble),
        (arguments(0, "{"), Sign::Output(1)),
        (closed(0, None), Sign::Preamble),
        (closed(0, Some(Part::text("whole"))), Sign::Preamble),
        (closed(0, Some(other)), Sign::Output(1)),
        (Event::Started { id: "".into(), model: "".into() }, Sign::Preamble),
        (Event::Usage(Box::new(used(1, 2))), Sign::Preamble),
        (Event::Frame("x".into()), Sign::Preamble),
        (Event::KeepAlive, Sign::Liveness),
        (Event::Reset(Box::new(Reset::after(Failure::new(Code::Server, "")))), Sign::Reset),
        (completed(Some(used(1, 2))), Sign::End(Some(used(1, 2)))),
    ];
    for (event, sign) in rows {
        assert_eq!(event.sign(), sign, "{event:?}");
    }
}

/// Scenario: a reset after each code.
/// Expected: the word MUST be one of the eight, and a clock MUST be told as one.
#[test]
fn a_reset_says_why_in_one_word() {
    let word = |code| {
        let word = Reset::after(Failure::new(code, "")).reason;
        serde_json::to_value(word).unwrap().as_str().unwrap().to_owned()
    };
    let words: std::collections::BTreeSet<_> = Code::ALL.into_iter().map(word).collect();
    let wanted = [
        "empty",
        "rate_limited",
        "semantic",
        "server",
        "stray_tool_call",
        "timeout",
        "transport",
        "truncated",
    ];
    assert!(words.iter().map(String::as_str).eq(wanted), "{words:?}");
    assert_eq!(word(Code::Timeout(Clock::Idle)), "timeout");
}

fn reply(
    events: Vec<Result<Event, Failure>>,
) -> Reply<stream::Iter<std::vec::IntoIter<Result<Event, Failure>>>> {
    Reply::new(Head::default(), stream::iter(events))
}

fn broken(code: Code) -> Result<Event, Failure> {
    Err(Failure::new(code, "scripted"))
}

/// Scenario: replies that complete, fail, and end without a terminal event, folded into a whole.
/// Expected: the completion; the failure; `TRUNCATED`; what came before MUST be kept where it is asked for.
#[tokio::test]
async fn a_reply_folds_into_a_whole_or_its_failure() {
    let whole = reply(vec![Ok(text(0, "x")), Ok(completed(Some(used(1, 2))))]).collect().await.unwrap();
    assert_eq!((whole.message.to_text().as_str(), whole.usage), ("whole", Some(used(1, 2))));
    for (end, code) in [(Some(broken(Code::Overloaded)), Code::Overloaded), (None, Code::Truncated)] {
        let events = [Ok(text(0, "hal")), Ok(text(0, "f"))].into_iter().chain(end).collect();
        let mut kept = Assembler::new();
        let mut reply = reply(events);
        assert_eq!(reply.gather(&mut kept).await.unwrap_err().code(), code);
        assert_eq!(kept.partial().to_text(), "half");
        assert!(reply.next().await.is_none(), "nothing comes after a failure");
    }
}

/// Scenario: thoughts are told as they come, and the whole block has none, or others.
/// Expected: what was told MUST be kept where the whole has none; the whole is the authority else.
#[test]
fn told_thoughts_outlive_an_empty_whole() {
    for (whole, kept) in [("", "so and so"), ("in short", "in short")] {
        let mut assembler = Assembler::new();
        assembler.push(&Event::Reasoning { index: 0, text: "so and so".into() });
        let sealed = Reasoning { text: whole.into(), encrypted: Some("x".into()), ..Reasoning::default() };
        let part = Some(Box::new(Content::Reasoning(sealed).into()));
        assembler.push(&Event::Closed { index: 0, part });
        let message = assembler.finish();
        let Content::Reasoning(reasoning) = &message.parts[0].content else { panic!("{message:?}") };
        assert_eq!(reasoning.text, kept);
        assert!(reasoning.encrypted.is_some());
    }
}

/// Scenario: a provider that sends nothing but preamble, and one that sends nothing but keep-alives.
/// Expected: what is held MUST stay bounded, and come out in order; keep-alives MUST not be held at all.
#[tokio::test]
async fn what_is_held_is_bounded() {
    let frame = |at: usize| Ok(Event::Frame(at.to_string().into()));
    let mut flood = reply((0..1000).map(frame).collect());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(flood.poll_commit(&mut cx), Poll::Ready(Ok(()))));
    let (held, rest) = flood.split();
    assert!(rest.count().await > 900, "it read on without end");
    let mut flood = Reply::join(held, stream::empty());
    let mut at = 0;
    while let Some(Ok(Event::Frame(bytes))) = flood.next().await {
        assert_eq!(bytes, at.to_string());
        at += 1;
    }
    assert!((2..100).contains(&at), "{at}");

    let large = |_| Ok(Event::Frame(vec![b'x'; 1 << 20].into()));
    let mut flood = reply((0..32).map(large).collect());
    assert!(matches!(flood.poll_commit(&mut cx), Poll::Ready(Ok(()))));
    let (_, rest) = flood.split();
    assert!(rest.count().await > 24, "32 MiB were held");

    let mut alive = reply((0..1000).map(|_| Ok(Event::KeepAlive)).chain([Ok(text(0, "x"))]).collect());
    assert!(matches!(alive.poll_commit(&mut cx), Poll::Ready(Ok(()))));
    assert!(matches!(alive.next().await, Some(Ok(Event::Text { .. }))));
}

/// Scenario: the reply failed while it was read ahead; it is asked again, wrapped, and followed.
/// Expected: MUST give the same failure each time, and settle the late observer with it.
#[test]
fn a_failed_commit_stays_failed() {
    struct Told<'a>(&'a RefCell<Vec<Outcome>>);
    impl Observer for Told<'_> {
        fn settle(self, how: End<'_>) {
            self.0.borrow_mut().push(how.into());
        }
    }
    let told = RefCell::default();
    let mut cx = Context::from_waker(Waker::noop());
    let mut failed = reply(vec![Ok(Event::KeepAlive), broken(Code::Overloaded)]);
    for _ in 0..2 {
        let Poll::Ready(Err(failure)) = failed.poll_commit(&mut cx) else { panic!("it failed") };
        assert_eq!(failure.code(), Code::Overloaded);
    }
    let mut failed = failed.wrap(|events| events).follow(Watch::new(Told(&told)));
    assert!(matches!(failed.poll_commit(&mut cx), Poll::Ready(Err(_))));
    drop(failed);
    assert_eq!(*told.borrow(), [Outcome::Failed(Code::Overloaded)]);
}

/// Scenario: failures of all codes, as observers are told.
/// Expected: an end without its marker MUST be `Truncated`, a caller who left MUST be `Abandoned`.
#[test]
fn an_outcome_says_whose_fault_it_was() {
    for code in Code::ALL {
        let wanted = match code {
            Code::Truncated => Outcome::Truncated,
            Code::Cancelled => Outcome::Abandoned,
            code => Outcome::Failed(code),
        };
        assert_eq!(Outcome::from(&Failure::new(code, "")), wanted);
    }
}

/// Why a caller's callback ended the call.
#[derive(Debug)]
enum Mine {
    Enough,
    Failed(Code),
}

impl From<Failure> for Mine {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.code())
    }
}

/// Scenario: a reply with text, thoughts and a reset, pushed into callbacks.
/// Expected: each MUST be called with its own, in order, the end once; the completion MUST come out.
#[tokio::test]
async fn callbacks_are_called_in_order() {
    let reset = Event::Reset(Box::new(Reset::after(Failure::new(Code::Transport, ""))));
    let events =
        vec![Ok(text(0, "a")), Ok(thought(1, "b")), Ok(reset), Ok(text(0, "c")), Ok(completed(None))];
    let log = std::sync::Mutex::new(String::new());
    let push = |word: &str| {
        log.lock().unwrap().push_str(word);
        Ok(())
    };
    let completion = Callbacks::<Mine>::new()
        .on_text(push)
        .on_reasoning(|thought| push(&thought.to_uppercase()))
        .on_reset(|_| push("!"))
        .on_completed(|_| push("."))
        .run(reply(events))
        .await
        .unwrap();
    assert_eq!(completion.message.to_text(), "whole");
    assert_eq!(*log.lock().unwrap(), "aB!c.");
}

/// Scenario: a callback that has had enough, and a reply that fails.
/// Expected: the callback's own error, as it is, with the upstream closed; the failure through `From`.
#[tokio::test]
async fn an_error_of_a_callback_closes_the_upstream() {
    struct Upstream {
        _open: tokio::sync::oneshot::Sender<()>,
    }
    impl futures_core::Stream for Upstream {
        type Item = Result<Event, Failure>;

        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(Some(Ok(text(0, "more"))))
        }
    }
    let (open, closed) = tokio::sync::oneshot::channel();
    let endless = Reply::new(Head::default(), Upstream { _open: open });
    let mut calls = 0;
    let enough = Callbacks::new().on_text(|_| {
        calls += 1;
        if calls == 3 { Err(Mine::Enough) } else { Ok(()) }
    });
    assert!(matches!(enough.run(endless).await, Err(Mine::Enough)));
    assert!(closed.await.is_err(), "the stream is dropped");
    assert_eq!(calls, 3);

    let failed = Callbacks::<Mine>::new().run(reply(vec![broken(Code::Conflict)])).await;
    assert!(matches!(failed, Err(Mine::Failed(Code::Conflict))));
    let cut = Callbacks::<Mine>::new().run(reply(vec![])).await;
    assert!(matches!(cut, Err(Mine::Failed(Code::Truncated))));
}

/// Scenario: usages added up, to the edge.
/// Expected: MUST add field by field and never wrap; the written form MUST refuse what it does not know.
#[test]
fn usages_add_up() {
    let one = Usage { input: 10, cached_read: 4, cached_write: 3, output: 5, reasoning: 2 };
    let sum: Usage = [one, one, Usage::default()].into_iter().sum();
    assert_eq!(sum, Usage { input: 20, cached_read: 8, cached_write: 6, output: 10, reasoning: 4 });
    let full = used(u64::MAX, u64::MAX);
    assert_eq!((full + one).input, u64::MAX);
    assert_eq!(full.total(), u64::MAX);
    assert_eq!(one.total(), 15);
    assert_eq!(serde_json::from_value::<Usage>(json!({"input": 3})).unwrap(), used(3, 0));
    assert!(serde_json::from_value::<Usage>(json!({"inputs": 3})).is_err());
}

/// Scenario: fields of one protocol, written for it and for another, beside fields that stand there.
/// Expected: MUST go out to their own protocol only, and overwrite nothing.
#[test]
fn extra_fields_go_to_their_own_protocol() {
    let mut extra = Extra::rest(Protocol::OpenaiChat, serde_json::Map::new());
    assert_eq!(extra, Extra::NONE);
    extra.set(Protocol::OpenaiChat, "seed", 1);
    extra.set(Protocol::OpenaiChat, "user", "u");
    let write = |protocol| {
        let mut into = serde_json::Map::from_iter([("seed".into(), json!(9))]);
        extra.write(protocol, &mut into);
        serde_json::Value::Object(into)
    };
    assert_eq!(write(Protocol::OpenaiChat), json!({"seed": 9, "user": "u"}));
    assert_eq!(write(Protocol::AnthropicMessages), json!({"seed": 9}));
    let mut other = extra.clone();
    other.set(Protocol::AnthropicMessages, "top_k", 5);
    assert_eq!(other.get(Protocol::OpenaiChat, "seed"), None);
    assert_eq!(other.get(Protocol::AnthropicMessages, "top_k"), Some(&json!(5)));
    assert_eq!(extra.kept().unwrap().1.len(), 2);
}

/// Scenario: limits told of one dimension, read, forgotten.
/// Expected: a dimension MUST stand once; a figure nobody told MUST be unknown.
#[test]
fn each_limit_stands_once() {
    let mut limits = Limits::default();
    assert!(limits.is_empty());
    limits.entry(Dimension::Tokens).remaining = Some(0);
    limits.entry(Dimension::Tokens).limit = Some(100);
    limits.entry(Dimension::Requests);
    let tokens = limits.get(Dimension::Tokens).unwrap();
    assert_eq!((tokens.limit, tokens.remaining, tokens.reset), (Some(100), Some(0), None));
    assert_eq!(limits.get(Dimension::Requests), Some(&Window::unknown(Dimension::Requests)));
    limits.forget(Dimension::Tokens);
    assert_eq!(limits.windows().len(), 1);
}

/// Scenario: a clone of a request is changed; tools are taken off; a deadline is set, also one beyond all time.
/// Expected: the other clone MUST stay as it was, a clone that nobody changed MUST share; no deadline where none fits.
#[tokio::test(start_paused = true)]
async fn a_request_is_copied_when_it_is_changed() {
    let request = Request::new("m").system("s").user("u").tool(Tool::new("t", "d", json!({})));
    let shared = request.clone();
    assert!(std::ptr::eq(&raw const request.messages, &raw const shared.messages));
    assert_eq!(request.call(), shared.call(), "a clone is the same call");
    let bare = request.clone().without_tools();
    assert_eq!((request.tools.len(), bare.tools.len()), (1, 0));
    assert_ne!(Request::new("m").call().id, Request::new("m").call().id);

    let late = request.clone().within(Duration::from_secs(3));
    assert_eq!(late.call().deadline, Some(crate::time::now() + Duration::from_secs(3)));
    assert_eq!(request.clone().within(Duration::MAX).call().deadline, None);
    assert!(!request.is_stream() && request.clone().streaming().is_stream());
    assert!(request.clone().reasoning(Effort::Adaptive).is_reasoning());
    assert!(!request.clone().reasoning(Effort::Off).is_reasoning());
    assert_eq!(request.size(), Some(2));
}

/// Scenario: a call with a deadline, a first output demanded sooner or later, and neither; an HTTP request without one.
/// Expected: the sooner MUST count; what nobody set MUST be no limit.
#[tokio::test(start_paused = true)]
async fn the_first_output_is_due_at_the_sooner() {
    let at = |seconds| Some(crate::time::now() + Duration::from_secs(seconds));
    for (deadline, commit_by, due) in
        [(Some(5), Some(3), Some(3)), (Some(2), Some(3), Some(2)), (None, None, None)]
    {
        let call = Call { deadline: deadline.and_then(at), commit_by: commit_by.and_then(at), ..Call::new() };
        assert_eq!(call.first_output_by(), due.and_then(at));
    }
    let mut request = http::Request::new(());
    assert_eq!(request.call(), Call::UNNAMED);
    let call = Call { attempt: 3, ..Call::new() };
    request.set_call(call);
    assert_eq!(request.call(), call);
}

/// Scenario: the record of a whole answer, and one with all its fields, written as JSON.
/// Expected: MUST be these words: they go into journals and over the wire of a gateway. MUST be read back as it was.
#[test]
fn the_written_form_of_a_record_is_stable() {
    use std::time::Duration;
    let none = serde_json::to_value(Degradation::NONE).unwrap();
    let whole = serde_json::json!({"level": "none", "missing_components": [], "quality_estimate": 1.0,
        "fallback_chain": [], "user_message": ""});
    assert_eq!(none, whole);
    let mut record = Degradation::after(Failure::new(Code::Server, "down"));
    record.level = Level::Deferred;
    record.quality_estimate = 0.6;
    record.missing_components.push("answer".into());
    record.fallback_chain.push(Tried::answered("deferred", Some("job-1".into())));
    record.user_message = "later".into();
    record.kept = Some(Kept::new(Duration::from_secs(61), true));
    record.ticket = Some(Ticket::new("job-1", 3, Duration::from_secs(45)));
    record.support_contact = Some("help@example.com".into());
    let json = serde_json::json!({"level": "deferred", "missing_components": ["answer"], "quality_estimate": 0.6,
        "fallback_chain": [
            {"rung": "request", "failure": "SERVER", "reason": "down"},
            {"rung": "deferred", "by": "job-1"},
        ],
        "user_message": "later", "kept": {"age": "1m 1s", "stale": true},
        "ticket": {"id": "job-1", "position": 3, "wait": "45s"}, "support_contact": "help@example.com"});
    assert_eq!(serde_json::to_value(&record).unwrap(), json);
    let read: Degradation = serde_json::from_value(json).unwrap();
    assert_eq!(
        (read.fallback_chain, read.ticket, read.kept),
        (record.fallback_chain, record.ticket, record.kept)
    );
    assert_eq!(Head::default().degradation(), &Degradation::NONE);
}
