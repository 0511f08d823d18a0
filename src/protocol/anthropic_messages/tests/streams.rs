//! Streams, and the many ways to write one.

use std::collections::VecDeque;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::chat::{Assembler, Completion, Content, Event, Message, Protocol, Sign, Stop, Usage};
use crate::failure::Code;
use crate::protocol::Dialect;
use crate::protocol::tests::Run;

use super::super::{Decoder, decode};
use super::wall;

/// A frame: the name of its event, and its data.
type Frame = (Option<String>, String);

/// Reads frames, then the end of the bytes, as a caller does.
fn run_in(dialect: &Dialect, frames: &[Frame]) -> Run {
    let mut decoder = Decoder::new(dialect, wall());
    let mut out = VecDeque::new();
    let mut end = Ok(());
    for (event, data) in frames {
        end = end.and_then(|()| decoder.frame(event.as_deref(), data.as_bytes(), &mut out));
    }
    end = end.and_then(|()| decoder.end(&mut out));
    assert!(decoder.is_done());
    Run::of(end, out)
}

/// Reads frames whose events are named as their types are.
fn run(frames: &[Value]) -> Run {
    run_in(&Dialect::default(), &frames.iter().map(named).collect::<Vec<_>>())
}

fn named(frame: &Value) -> Frame {
    (frame["type"].as_str().map(str::to_owned), frame.to_string())
}

fn done(frames: &[Value]) -> Completion {
    run(frames).end.unwrap()
}

fn failed(frames: &[Value]) -> Code {
    run(frames).end.unwrap_err().code()
}

fn begin() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m-a", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 25, "cache_read_input_tokens": 100, "output_tokens": 1}
    }})
}

fn start(index: u64, block: Value) -> Value {
    Value::from_iter([
        ("type", Value::from("content_block_start")),
        ("index", Value::from(index)),
        ("content_block", block),
    ])
}

fn delta(index: u64, delta: Value) -> Value {
    Value::from_iter([
        ("type", Value::from("content_block_delta")),
        ("index", Value::from(index)),
        ("delta", delta),
    ])
}

fn text(index: u64, text: &str) -> Value {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn arguments(index: u64, piece: &str) -> Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": piece}))
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn reason(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 15}})
}

fn end() -> Value {
    json!({"type": "message_stop"})
}

/// A stream of these frames between a proper beginning and a proper end.
fn around(frames: impl IntoIterator<Item = Value>) -> Vec<Value> {
    std::iter::once(begin()).chain(frames).chain([reason("end_turn"), end()]).collect()
}

fn calls(message: &Message) -> Vec<(&str, &str, &str)> {
    message.tool_calls().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect()
}

/// A stream with every kind of block and delta.
fn full() -> Vec<Value> {
    vec![
        begin(),
        json!({"type": "ping"}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "h"})),
        delta(0, json!({"type": "thinking_delta", "thinking": "m"})),
        delta(0, json!({"type": "signature_delta", "signature": "sig"})),
        stop(0),
        start(1, json!({"type": "redacted_thinking", "data": "cipher"})),
        stop(1),
        start(2, json!({"type": "text", "text": "", "citations": null})),
        text(2, "Sø"),
        delta(2, json!({"type": "citations_delta", "citation": {"type": "page_location", "n": 1}})),
        delta(2, json!({"type": "citations_delta", "citation": {"type": "page_location", "n": 2}})),
        text(2, "."),
        stop(2),
        start(3, json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})),
        arguments(3, "{\"query\":"),
        arguments(3, "\"q\"}"),
        stop(3),
        start(4, json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": "T"}]})),
        stop(4),
        start(
            5,
            json!({"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": {"type": "direct"}}),
        ),
        arguments(5, ""),
        arguments(5, "{\"a\":\"\\u00"),
        arguments(5, "e9\"}"),
        stop(5),
        json!({
            "type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null, "container": {"id": "c"}},
            "usage": {"output_tokens": 15, "output_tokens_details": {"thinking_tokens": 4}, "iterations": []}
        }),
        end(),
    ]
}

/// Scenario: a stream with every kind of block and delta.
/// Expected: MUST come as started, usage, deltas, closes, usage and the whole, in this order, with the whole as a
/// whole reply would have it.
#[test]
fn a_full_stream_is_folded() {
    let Run { events, end } = run(&full());
    let signs: Vec<_> = events.iter().map(Event::sign).collect();
    let (pre, live, out) = (Sign::Preamble, Sign::Liveness, Sign::Output);
    let expected = [
        vec![pre, pre, live],
        vec![out(1), out(1), pre, pre],
        vec![out(3), live, live, out(1), pre],
        vec![live, live, out(1), out(1)],
        vec![out(1), out(10), out(4), pre, pre],
    ];
    assert_eq!(signs, expected.concat());
    assert!(matches!(&events[0], Event::Started { id, model } if (&**id, &**model) == ("msg_1", "m-a")));
    let completion = end.unwrap();
    assert_eq!((&*completion.id, &*completion.model, &completion.stop), ("msg_1", "m-a", &Stop::ToolCalls));
    let usage = Usage { input: 125, cached_read: 100, cached_write: 0, output: 15, reasoning: 4 };
    assert_eq!(completion.usage, Some(usage));
    let whole = json!({
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "cipher"},
            {"type": "text", "text": "Sø.", "citations": [{"type": "page_location", "n": 1}, {"type": "page_location", "n": 2}]},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": "T"}]},
            {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": {"type": "direct"}}
        ]
    });
    let mut whole = decode(whole.to_string().as_bytes(), wall()).unwrap().message;
    let Content::ToolCall(call) = &mut whole.parts[5].content else { panic!("a call") };
    // The arguments stay the string that came.
    call.arguments = "{\"a\":\"\\u00e9\"}".to_owned();
    assert_eq!(completion.message, whole);
    let extra = |name| completion.extra.get(Protocol::AnthropicMessages, name);
    assert_eq!(extra("container"), Some(&json!({"id": "c"})));
    assert_eq!(extra("usage").unwrap()["iterations"], json!([]));
}

/// Scenario: the events before the end are folded by someone else.
/// Expected: MUST give the same text, thinking with its signature, calls and unknown blocks.
#[test]
fn the_events_alone_make_the_message() {
    let Run { events, end } = run(&full());
    let mut assembler = Assembler::new();
    events.iter().for_each(|event| assembler.push(event));
    let contents = |message: Message| message.parts.into_iter().map(|part| part.content).collect::<Vec<_>>();
    assert_eq!(contents(assembler.partial()), contents(end.unwrap().message));
}

/// Scenario: the full stream ends after every frame, on a strict and on a lenient dialect.
/// Expected: MUST be TRUNCATED before message_stop; on the lenient one, complete from the stop reason on.
#[test]
fn an_early_end_is_truncated() {
    let frames: Vec<_> = full().iter().map(named).collect();
    let strict = Dialect::default();
    let lenient = Dialect { stop_reason_ends: true, ..Dialect::default() };
    for cut in 0..frames.len() {
        let code = |dialect| run_in(dialect, &frames[..cut]).end.map_err(|failure| failure.code());
        assert_eq!(code(&strict).unwrap_err(), Code::Truncated);
        assert_eq!(code(&lenient).is_ok(), cut == frames.len() - 1);
    }
}

/// Scenario: how far the answer is, frame by frame, on both dialects.
/// Expected: MUST be settled from the stop reason on where the dialect takes it for the end, and only then.
#[test]
fn the_stop_reason_settles_where_the_dialect_says_so() {
    for stop_reason_ends in [false, true] {
        let dialect = Dialect { stop_reason_ends, ..Dialect::default() };
        let mut decoder = Decoder::new(&dialect, wall());
        let mut out = VecDeque::new();
        for frame in around([]) {
            assert!(!decoder.is_settled());
            decoder.frame(None, frame.to_string().as_bytes(), &mut out).unwrap();
            if frame["type"] == "message_delta" {
                break;
            }
        }
        assert_eq!(decoder.is_settled(), stop_reason_ends);
        let garbage = decoder.frame(None, b"<html>", &mut out);
        assert_eq!(garbage.is_ok(), stop_reason_ends);
    }
}

/// Scenario: ends as compatible servers write them.
/// Expected: MUST be what the table of the module says.
#[test]
fn odd_ends_are_told_apart() {
    let sentinel = || (None, "[DONE]".to_owned());
    let body = [begin(), start(0, json!({"type": "text", "text": ""})), text(0, "hi")].map(|it| named(&it));
    let with = |rest: Vec<Frame>| {
        let frames: Vec<_> = body.iter().cloned().chain(rest).collect();
        run_in(&Dialect::default(), &frames).end.map(|done| done.stop).map_err(|failure| failure.code())
    };
    assert_eq!(with(vec![named(&end())]), Ok(Stop::Unknown));
    assert_eq!(with(vec![named(&reason("")), named(&end())]), Ok(Stop::Unknown));
    assert_eq!(with(vec![named(&reason("end_turn")), sentinel()]), Ok(Stop::End));
    assert_eq!(with(vec![named(&reason("end_turn")), named(&end()), sentinel()]), Ok(Stop::End));
    assert_eq!(with(vec![sentinel()]), Err(Code::Truncated));
    assert_eq!(with(vec![]), Err(Code::Truncated));
    let late = json!({"type": "error", "error": {"type": "api_error", "message": "late"}});
    assert_eq!(with(vec![named(&reason("end_turn")), named(&late)]), Err(Code::Server));
    assert_eq!(with(vec![named(&reason("end_turn")), named(&end()), named(&late)]), Ok(Stop::End));
    assert_eq!(run_in(&Dialect::default(), &[]).end.unwrap_err().code(), Code::Truncated);
}

/// Scenario: tools whose input comes in the start, in pieces, in both, not at all, after the stop, or for no block.
/// Expected: MUST be the string that came, `{}` where none did, and never parsed.
#[test]
fn the_input_of_a_tool_is_put_together() {
    let tool =
        |index, input| start(index, json!({"type": "tool_use", "id": "t1", "name": "f", "input": input}));
    for (frames, expected) in [
        (vec![tool(0, json!({})), stop(0)], "{}"),
        (vec![tool(0, json!({})), arguments(0, ""), stop(0)], "{}"),
        (vec![tool(0, json!(null)), arguments(0, "{\"a\":1}"), stop(0)], "{\"a\":1}"),
        (vec![tool(0, json!({"a": 1})), stop(0)], "{\"a\":1}"),
        (vec![tool(0, json!({"a": 1}))], "{\"a\":1}"),
        (vec![tool(0, json!({"a": 1})), arguments(0, ""), stop(0)], "{\"a\":1}"),
        (vec![tool(0, json!({"a": 1})), arguments(0, "{\"a\":1}"), stop(0)], "{\"a\":1}"),
        (vec![tool(0, json!("{\"a\":1}")), stop(0)], "{\"a\":1}"),
        (vec![tool(0, json!("")), arguments(0, "{\"ha"), arguments(0, "lf"), stop(0)], "{\"half"),
        (vec![tool(0, json!({})), arguments(0, "{}"), stop(0), arguments(0, "{}")], "{}"),
        (vec![tool(0, json!({})), arguments(7, "{}"), text(0, "x"), stop(0), stop(0), stop(9)], "{}"),
    ] {
        let completion = done(&around(frames.clone()));
        assert_eq!(calls(&completion.message), [("t1", "f", expected)], "{frames:?}");
        assert_eq!(completion.message.parts.len(), 1);
    }
}

/// Scenario: blocks as careless servers open and index them.
/// Expected: MUST keep every word, in the order it came in or was numbered.
#[test]
fn careless_blocks_keep_every_word() {
    let block = |index| start(index, json!({"type": "text", "text": ""}));
    let tool = |index| start(index, json!({"type": "tool_use", "id": "t1", "name": "f", "input": {}}));
    let unnumbered = |mut frame: Value| {
        frame.as_object_mut().unwrap().remove("index");
        frame
    };
    for (frames, expected) in [
        (vec![text(0, "a"), text(0, "b"), stop(0)], "ab"),
        (vec![block(0), text(0, "a"), block(1), text(1, "b")], "ab"),
        (vec![block(0), text(0, "a"), stop(0), block(0), text(0, "b"), stop(0)], "ab"),
        (vec![block(0), text(0, "a"), block(0), text(0, "b")], "ab"),
        (vec![block(0), text(0, "a"), stop(0), tool(0), arguments(0, "{}"), stop(0)], "a"),
        (vec![block(5), text(5, "b"), stop(5), block(2), text(2, "a"), stop(2)], "ab"),
        (vec![block(u64::MAX), text(u64::MAX, "a"), block(9), text(9, "b")], "ab"),
        ([block(0), text(0, "a"), stop(0), block(1), text(1, "b")].map(unnumbered).to_vec(), "ab"),
        (vec![block(0), text(0, "a"), stop(0), text(0, "late")], "a"),
        (vec![start(0, json!({"type": "text", "text": "a"})), text(0, "b")], "ab"),
        (vec![start(0, json!({"type": "text", "text": null})), text(0, "ab")], "ab"),
        (
            vec![
                json!({"type": "content_block_start", "index": "0", "content_block": {"type": "text"}}),
                json!({"type": "content_block_delta", "index": "0", "delta": {"type": "text_delta", "text": "ab"}}),
            ],
            "ab",
        ),
        (vec![delta(0, json!({"text": "ab"}))], "ab"),
        (
            vec![
                block(0),
                delta(0, json!({"type": "text_delta", "text": null})),
                delta(0, json!(null)),
                text(0, "ab"),
            ],
            "ab",
        ),
    ] {
        let completion = done(&around(frames.clone()));
        assert_eq!(completion.message.to_text(), expected, "{frames:?}");
    }
    let two = done(&around([block(0), text(0, "a"), stop(0), tool(0), arguments(0, "{\"b\":1}"), stop(0)]));
    assert_eq!(calls(&two.message), [("t1", "f", "{\"b\":1}")]);
}

/// Scenario: thinking as compatible servers send it: signed twice, unsigned, only signed, and with nothing in it.
/// Expected: MUST keep the last signature, and no empty thought.
#[test]
fn signatures_are_set_not_added() {
    let block = || start(0, json!({"type": "thinking", "thinking": ""}));
    let said = |text: &str| delta(0, json!({"type": "thinking_delta", "thinking": text}));
    let signed = |text: &str| delta(0, json!({"type": "signature_delta", "signature": text}));
    for (frames, expected) in [
        (vec![block(), said("hm"), signed("a"), signed("b"), stop(0)], Some(("hm", Some("b")))),
        (vec![block(), said("hm"), stop(0)], Some(("hm", None))),
        (vec![said("hm")], Some(("hm", None))),
        (vec![block(), signed("a"), stop(0)], Some(("", Some("a")))),
        (vec![block(), said(""), stop(0)], None),
    ] {
        let completion = done(&around(frames.clone()));
        let thoughts: Vec<_> = completion
            .message
            .parts
            .iter()
            .map(|part| match &part.content {
                Content::Reasoning(reasoning) => (reasoning.text.as_str(), reasoning.signature.as_deref()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(thoughts, Vec::from_iter(expected), "{frames:?}");
    }
}

/// Scenario: events, deltas and blocks of the future.
/// Expected: MUST be signs of life; a block MUST be told whole at its stop, with its deltas taken in.
#[test]
fn the_unknown_is_kept() {
    let Run { events, end } = run(&around([
        json!({"type": "rate_limit_status", "left": 3}),
        json!({"no": "type"}),
        json!(null),
        json!([]),
        json!(7),
        start(0, json!({"type": "compaction", "content": null, "odd": 1})),
        delta(0, json!({"type": "compaction_delta", "content": "sum", "n": 1})),
        delta(0, json!({"type": "compaction_delta", "content": "mary", "n": 2})),
        text(0, "words"),
        stop(0),
        start(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "future_delta", "text": "not text"})),
        text(1, "hi"),
        stop(1),
    ]));
    let signs: Vec<_> = events.iter().map(Event::sign).filter(|sign| *sign != Sign::Preamble).collect();
    let alive = [Sign::Liveness; 8];
    assert_eq!(signs, [&alive[..], &[Sign::Output(1), Sign::Liveness, Sign::Output(2)]].concat());
    let message = end.unwrap().message;
    let block = json!({"type": "compaction", "content": "summary", "text": "words", "n": 2, "odd": 1});
    assert_eq!(message.parts[0].content, Content::Other(Protocol::AnthropicMessages, block));
    assert_eq!(message.to_text(), "hi");
}

/// Scenario: errors in a stream, in every shape and under every name.
/// Expected: MUST be the failure they name, and the end of everything.
#[test]
fn an_error_event_is_its_failure() {
    let named = |event: &str, data: &str| (Some(event.to_owned()), data.to_owned());
    let unnamed = |data: &str| (None, data.to_owned());
    let enveloped =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Busy"},"request_id":"r"}"#;
    let bare = r#"{"code":500,"message":"broken","type":"server_error"}"#;
    for (frame, expected) in [
        (named("error", enveloped), Code::Overloaded),
        (unnamed(enveloped), Code::Overloaded),
        (named("error", bare), Code::Server),
        (unnamed(bare), Code::Server),
        (unnamed(r#"{"message":"Slow","type":"rate_limit_error"}"#), Code::RateLimited),
        (unnamed(r#"{"error":"broken"}"#), Code::Server),
        (named("error", "\"broken\""), Code::Server),
        (named("error", "broken"), Code::Server),
        (named("error", ""), Code::Server),
        (
            named(
                "content_block_delta",
                r#"{"type":"content_block_delta","error":{"type":"overloaded_error"}}"#,
            ),
            Code::Overloaded,
        ),
        (named("ping", r#"{"type":"error","error":{"type":"overloaded_error"}}"#), Code::Overloaded),
    ] {
        let frames =
            [self::named(&begin()), self::named(&text(0, "Half")), frame.clone(), self::named(&end())];
        let Run { events, end } = run_in(&Dialect::default(), &frames);
        let failure = end.unwrap_err();
        assert_eq!((failure.code(), failure.status().unwrap().as_u16()), (expected, 200), "{frame:?}");
        assert!(matches!(events.last(), Some(Event::Text { text, .. }) if text == "Half"), "{frame:?}");
    }
}

/// Scenario: frames that are no JSON, by name of their event.
/// Expected: MUST be a sign of life where nothing of the answer can be lost, else INVALID_RESPONSE without the page.
#[test]
fn garbage_is_judged_by_what_it_may_hide() {
    for (event, data, alive) in [
        (Some("ping"), "12:30", true),
        (Some("ping"), "", true),
        (Some("heartbeat"), "x", true),
        (None, "", true),
        (None, "<html>secret", false),
        (Some("content_block_delta"), "{\"type\":\"cont", false),
        (Some("message_start"), "x", false),
    ] {
        let mut decoder = Decoder::new(&Dialect::default(), wall());
        let mut out = VecDeque::new();
        let read = decoder.frame(event, data.as_bytes(), &mut out);
        match read {
            Ok(()) => assert!(alive && matches!(out.pop_front(), Some(Event::KeepAlive)), "{event:?} {data}"),
            Err(failure) => {
                assert!(!alive && !failure.to_string().contains("secret"), "{event:?} {data}");
                assert_eq!(failure.code(), Code::InvalidResponse);
            }
        }
    }
}

/// Scenario: a stream whose frames have a type or an event name, but not both; and bytes that are no UTF-8.
/// Expected: MUST be read by whichever is there.
#[test]
fn a_name_or_a_type_is_enough() {
    let unnamed: Vec<_> = full().iter().map(|frame| (None, frame.to_string())).collect();
    let untyped = full().into_iter().map(|mut frame| {
        let kind = frame.as_object_mut().unwrap().remove("type").unwrap();
        (kind.as_str().map(str::to_owned), frame.to_string())
    });
    let expected = format!("{:?}", run(&full()).end.unwrap());
    for frames in [unnamed, untyped.collect()] {
        assert_eq!(format!("{:?}", run_in(&Dialect::default(), &frames).end.unwrap()), expected);
    }
    let mut decoder = Decoder::new(&Dialect::default(), wall());
    let mut out = VecDeque::new();
    let bytes = b"{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\xff\"}}";
    decoder.frame(None, bytes, &mut out).unwrap();
    assert!(matches!(out.pop_front(), Some(Event::Text { text, .. }) if text == "a\u{fffd}"));
}

/// Scenario: usage at the start, at the end, in between, repeated, with zeros, nulls and strings.
/// Expected: MUST replace only what is told, take nothing back, and be told when it changes.
#[test]
fn usage_replaces_what_is_told() {
    let usage = |usage: Value| json!({"type": "message_delta", "delta": {}, "usage": usage});
    let Run { events, end } = run(&[
        begin(),
        usage(json!({"output_tokens": 1})),
        usage(json!({"output_tokens": 7, "input_tokens": null})),
        usage(json!({"output_tokens": 9, "input_tokens": 0, "cache_creation_input_tokens": 5})),
        usage(json!({"output_tokens": "10", "cache_read_input_tokens": 0})),
        usage(json!(null)),
        end(),
    ]);
    let told: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Usage(usage) => Some((usage.input, usage.cached_read, usage.cached_write, usage.output)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(125, 100, 0, 1), (125, 100, 0, 7), (130, 100, 5, 9)]);
    assert_eq!(end.unwrap().usage.unwrap().total(), 139);
    let zeros =
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}});
    let Run { events, end } = run(&[zeros, self::end()]);
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(end.unwrap().usage, None);
}

/// Scenario: a server that opens blocks for ever.
/// Expected: MUST be INVALID_RESPONSE before it costs us much.
#[test]
fn blocks_without_end_are_refused() {
    let frames: Vec<_> = (0..5000).map(|index| start(index, json!({"type": "text", "text": ""}))).collect();
    assert_eq!(failed(&frames), Code::InvalidResponse);
}

/// Frames of this protocol with pieces of any shape.
fn frame() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        Just("message_start"),
        Just("content_block_start"),
        Just("content_block_delta"),
        Just("content_block_stop"),
        Just("message_delta"),
        Just("ping"),
        Just("error"),
        Just("message_stop"),
    ];
    let inner = prop_oneof![
        Just(Value::Null),
        Just(json!(1)),
        Just(json!("x")),
        Just(json!([])),
        Just(json!({})),
        Just(json!({"type": "text", "text": "a"})),
        Just(json!({"type": "text_delta", "text": "a"})),
        Just(json!({"type": "tool_use", "id": 1, "input": {"a": 1}})),
        Just(json!({"type": "input_json_delta", "partial_json": "{"})),
        Just(json!({"type": "thinking", "signature": 1})),
        Just(json!({"type": "thinking_delta", "thinking": "a"})),
        Just(json!({"type": "signature_delta", "signature": "s"})),
        Just(json!({"type": "citations_delta", "citation": 1})),
        Just(json!({"type": "future", "a": "b"})),
        Just(json!({"stop_reason": "end_turn"})),
        Just(json!({"stop_reason": 1})),
    ];
    let index =
        prop_oneof![Just(json!(0)), Just(json!(1)), Just(json!(-1)), Just(json!("2")), Just(json!(null))];
    let field = prop_oneof![Just("delta"), Just("content_block"), Just("message"), Just("usage")];
    (kind, index, prop::collection::vec((field, inner), 0..3)).prop_map(|(kind, index, fields)| {
        let mut frame = json!({"type": kind, "index": index});
        for (name, value) in fields {
            frame[name] = value;
        }
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Scenario: frames of any shape and frames of any bytes, in any order.
    /// Expected: MUST never panic; nothing MUST come after an end, which MUST come once; the whole MUST hold the text
    /// that was told.
    #[test]
    fn nothing_comes_after_the_end(
        frames in prop::collection::vec(prop_oneof![
            9 => frame().prop_map(|frame| frame.to_string().into_bytes()),
            1 => any::<Vec<u8>>(),
        ], 0..24),
        stop_reason_ends: bool,
    ) {
        let mut decoder = Decoder::new(&Dialect { stop_reason_ends, ..Dialect::default() }, wall());
        let mut out = VecDeque::new();
        for frame in &frames {
            let before = (decoder.is_done(), out.len());
            let failed = decoder.frame(None, frame, &mut out).is_err();
            prop_assert!(!before.0 || (out.len() == before.1 && !failed));
            prop_assert!(!failed || decoder.is_done());
        }
        let _ = decoder.end(&mut out);
        prop_assert!(decoder.is_done());
        let mut told = String::new();
        let last = out.pop_back();
        for event in &out {
            prop_assert!(!matches!(event, Event::Completed(_)));
            if let Event::Text { text, .. } = event {
                told.push_str(text);
            }
        }
        if let Some(Event::Completed(completion)) = last {
            prop_assert_eq!(completion.message.to_text().len(), told.len());
        }
    }
}
