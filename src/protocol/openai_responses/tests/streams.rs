use std::collections::VecDeque;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{completion, decoder, play, told, wall};
use crate::chat::{Content, Event, Sign, Stop, Usage};
use crate::failure::Code;
use crate::protocol::openai_responses::decode;

/// An event of this type with these fields.
fn event(kind: &str, mut fields: Value) -> Value {
    fields["type"] = json!(kind);
    fields
}

fn created() -> Value {
    event(
        "response.created",
        json!({"response": {"id": "r", "model": "m", "status": "in_progress", "output": []}}),
    )
}

fn ended(kind: &str, response: &Value) -> Value {
    event(kind, json!({ "response": response }))
}

fn completed() -> Value {
    ended("response.completed", &json!({"id": "r", "status": "completed"}))
}

fn delta(text: &str) -> Value {
    event(
        "response.output_text.delta",
        json!({"item_id": "m", "output_index": 0, "content_index": 0, "delta": text}),
    )
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "m", "role": "assistant", "status": "completed", "phase": "final",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "f", "arguments": arguments})
}

fn done(index: u32, item: &Value) -> Value {
    event("response.output_item.done", json!({"output_index": index, "item": item}))
}

/// The reasoning of the full turn, whole.
fn thought() -> Value {
    json!({"type": "reasoning", "id": "rs", "encrypted_content": "whole",
        "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]})
}

fn added(index: u32, item: &Value) -> Value {
    event("response.output_item.added", json!({"output_index": index, "item": item}))
}

/// The events of reasoning in two paragraphs.
fn reasoning() -> Vec<Value> {
    let half = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "half"});
    let mut frames = vec![added(0, &half)];
    for (index, text) in ["a", "b"].into_iter().enumerate() {
        for (kind, field) in
            [("part.added", "part"), ("text.delta", "delta"), ("text.done", "text"), ("part.done", "part")]
        {
            let mut fields = json!({"item_id": "rs", "output_index": 0, "summary_index": index});
            fields[field] = if field == "part" { json!({"type": "summary_text"}) } else { json!(text) };
            frames.push(event(&format!("response.reasoning_summary_{kind}"), fields));
        }
    }
    frames.push(done(0, &thought()));
    frames
}

/// The events of a text in two pieces.
fn text() -> Vec<Value> {
    let at = |kind: &str, field: &str, value: Value| {
        let mut fields = json!({"item_id": "m", "output_index": 1, "content_index": 0, "logprobs": [], "obfuscation": "x"});
        fields[field] = value;
        event(&format!("response.{kind}"), fields)
    };
    vec![
        added(1, &json!({"type": "message", "id": "m", "role": "assistant", "content": []})),
        at("content_part.added", "part", json!({"type": "output_text", "text": ""})),
        at("output_text.delta", "delta", json!("Hé")),
        at("output_text.delta", "delta", json!("\n!")),
        at("output_text.done", "text", json!("Hé\n!")),
        at("content_part.done", "part", json!({"type": "output_text", "text": "Hé\n!"})),
        done(1, &message("Hé\n!")),
    ]
}

/// The events of a call in two pieces.
fn calling() -> Vec<Value> {
    let at = |kind: &str, field: &str, value: &str| {
        let mut fields = json!({"item_id": "fc_c", "output_index": 2});
        fields[field] = json!(value);
        event(&format!("response.function_call_arguments.{kind}"), fields)
    };
    vec![
        added(2, &call("c", "")),
        at("delta", "delta", "{\"a\""),
        at("delta", "delta", ":1}"),
        at("done", "arguments", "{\"a\":1}"),
        done(2, &call("c", "{\"a\":1}")),
    ]
}

/// The events of a full turn, as the first party sends it.
fn full() -> Vec<Value> {
    let usage =
        json!({"input_tokens": 9, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 3}});
    let output = json!([thought(), message("Hé\n!"), call("c", "{\"a\":1}")]);
    let last = json!({"id": "r", "model": "m", "status": "completed", "usage": usage, "output": output});
    let frames = [
        vec![created(), event("response.in_progress", json!({"response": {"id": "r"}}))],
        reasoning(),
        text(),
        calling(),
        vec![ended("response.completed", &last)],
    ];
    let number = |(i, mut frame): (usize, Value)| {
        frame["sequence_number"] = json!(i);
        frame
    };
    frames.into_iter().flatten().enumerate().map(number).collect()
}

/// What another server makes of an event.
type Server = Box<dyn FnMut(Value) -> Vec<Value>>;

const TOLD: [&str; 12] = [
    "start r",
    "0 reasoning a",
    "0 reasoning \n\nb",
    "0 closed whole",
    "1024 text Hé",
    "1024 text \n!",
    "1024 closed whole",
    "2048 call c f",
    "2048 arguments {\"a\"",
    "2048 arguments :1}",
    "2048 closed whole",
    "completed",
];

/// Scenario: a full turn of the first party: reasoning, text, a call, usage.
/// Expected: MUST tell each piece once, in order, and fold to what a whole reply would be; encrypted reasoning MUST
/// come from the finished item.
#[test]
fn a_full_stream_is_told_and_folded() {
    let (events, failure) = play(&full());
    assert!(failure.is_none());
    assert_eq!(told(&events), TOLD);
    let done = completion(&full());
    let [thought, text, call] = done.message.parts.as_slice() else { panic!("{:?}", done.message) };
    let Content::Reasoning(reasoning) = &thought.content else { panic!("{thought:?}") };
    assert_eq!((reasoning.text.as_str(), reasoning.encrypted.as_deref()), ("a\n\nb", Some("whole")));
    assert_eq!(text.content, Content::Text("Hé\n!".into()));
    assert!(matches!(&call.content, Content::ToolCall(call) if call.arguments == "{\"a\":1}"));
    assert_eq!((done.stop, &*done.id, &*done.model), (Stop::ToolCalls, "r", "m"));
    let usage = Usage { input: 9, output: 4, reasoning: 3, ..Usage::default() };
    assert_eq!(done.usage, Some(usage));
}

/// Scenario: the same turn streamed and whole.
/// Expected: MUST be the same completion.
#[test]
fn a_stream_folds_to_the_whole_reply() {
    let frames = full();
    let response = &frames.last().expect("the last")["response"];
    let whole = decode(response.to_string().as_bytes(), wall()).expect("a reply");
    assert_eq!(completion(&frames), whole);
}

/// Scenario: the same turn from servers that leave out numbers and ids, repeat events, give each event another id,
/// name no type, or repeat no output at the end.
/// Expected: MUST tell the same.
#[test]
fn the_same_turn_from_other_servers_is_told_the_same() {
    let strip = |names: &'static [&'static str]| {
        move |mut frame: Value| {
            let fields: &mut Map<String, Value> = frame.as_object_mut().expect("an object");
            fields.retain(|name, _| !names.contains(&name.as_str()));
            vec![frame]
        }
    };
    let no_output = |mut frame: Value| {
        if frame["type"] == "response.completed" {
            frame["response"]["output"] = json!([]);
        }
        vec![frame]
    };
    let mut count = 0;
    let new_ids = move |mut frame: Value| {
        count += 1;
        for at in ["/item_id", "/item/id"] {
            if let Some(id) = frame.pointer_mut(at) {
                *id = json!(format!("id_{count}"));
            }
        }
        vec![frame]
    };
    let repeat = |frame: Value| match frame["type"].as_str() {
        Some("response.created" | "response.output_item.added" | "response.output_item.done") => {
            vec![frame.clone(), frame]
        }
        _ => vec![frame],
    };
    let digits = |mut frame: Value| {
        for name in ["output_index", "content_index", "summary_index"] {
            if let Some(index) = frame.get_mut(name) {
                *index = json!(index.to_string());
            }
        }
        vec![frame]
    };
    let mut servers: Vec<(&str, Server)> = vec![
        ("no sequence", Box::new(strip(&["sequence_number"]))),
        ("no indices", Box::new(strip(&["output_index", "content_index", "summary_index"]))),
        ("no ids", Box::new(strip(&["item_id"]))),
        ("neither", Box::new(strip(&["item_id", "output_index", "content_index", "summary_index"]))),
        ("no output", Box::new(no_output)),
        ("new ids", Box::new(new_ids)),
        ("repeats", Box::new(repeat)),
        ("digits", Box::new(digits)),
    ];
    for (name, server) in &mut servers {
        let frames: Vec<Value> = full().into_iter().flat_map(server).collect();
        let (events, failure) = play(&frames);
        assert!(failure.is_none(), "{name}: {failure:?}");
        assert_eq!(told(&events), TOLD, "{name}");
    }
    let mut decoder = decoder();
    let mut out = VecDeque::new();
    for mut frame in full() {
        let kind = frame.as_object_mut().expect("an object").remove("type").expect("a type");
        decoder.frame(kind.as_str(), frame.to_string().as_bytes(), &mut out).expect("a frame");
    }
    assert_eq!(told(&Vec::from(out)), TOLD, "no types");
}

/// Scenario: a text, a call and reasoning that come only in `.done`, only in the finished item, or only at the end.
/// Expected: MUST be told all the same, and once.
#[test]
fn what_comes_late_is_told_late() {
    let reasoning =
        json!({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]});
    let by_done = [
        event(
            "response.output_text.done",
            json!({"item_id": "m", "output_index": 1, "content_index": 0, "text": "hi"}),
        ),
        event(
            "response.refusal.done",
            json!({"item_id": "m", "output_index": 1, "content_index": 1, "refusal": "no"}),
        ),
        event(
            "response.function_call_arguments.done",
            json!({"item_id": "fc", "output_index": 2, "arguments": "{}"}),
        ),
        event(
            "response.reasoning_text.done",
            json!({"item_id": "rs", "output_index": 0, "content_index": 0, "text": "hm"}),
        ),
        completed(),
    ];
    let expected = [
        "1024 text hi",
        "1025 refusal no",
        "2048 arguments {}",
        "0 reasoning hm",
        "1024 closed",
        "1025 closed",
        "2048 closed",
        "0 closed",
        "completed",
    ];
    assert_eq!(told(&play(&by_done).0), expected);
    let items = [reasoning, message("hi"), call("c", "{}")];
    let expected = [
        "0 reasoning hm",
        "0 closed whole",
        "1024 text hi",
        "1024 closed whole",
        "2048 call c f",
        "2048 arguments {}",
        "2048 closed whole",
        "completed",
    ];
    let mut by_item: Vec<Value> = (0..).zip(&items).map(|(index, item)| done(index, item)).collect();
    by_item.push(ended("response.completed", &json!({"status": "completed", "output": items})));
    assert_eq!(told(&play(&by_item).0), expected);
    let by_end = [ended("response.completed", &json!({"status": "completed", "output": items}))];
    assert_eq!(told(&play(&by_end).0), expected);
    assert_eq!(completion(&by_end), completion(&by_item));
}

/// Scenario: the terminal event repeats less than came, or the finished item holds nothing.
/// Expected: MUST keep what came; a finished item that holds more MUST win.
#[test]
fn what_came_stands_and_the_finished_item_rules() {
    let end =
        |text: &str| ended("response.completed", &json!({"status": "completed", "output": [message(text)]}));
    for (frames, text) in [
        (vec![delta("Hello"), end("")], "Hello"),
        (vec![delta("Hello"), end("Hel")], "Hello"),
        (vec![delta("Hello"), end("Hello, you")], "Hello, you"),
        (vec![delta("Hello"), done(0, &message("")), end("")], "Hello"),
        (vec![delta("Hello"), done(0, &message("Hello!")), end("other")], "Hello!"),
        (vec![delta("Hello"), done(0, &message("Hell")), end("Hello")], "Hell"),
        (vec![delta("Hello"), completed()], "Hello"),
    ] {
        assert_eq!(completion(&frames).message.to_text(), text, "{frames:?}");
    }
}

/// Scenario: parallel calls under one index, without ids of items, finished in another order than opened.
/// Expected: MUST stay two calls with their own arguments.
#[test]
fn calls_are_told_apart_by_what_their_results_name() {
    let frames = [
        added(0, &call("a", "")),
        added(0, &call("b", "")),
        event(
            "response.function_call_arguments.delta",
            json!({"item_id": "fc_b", "output_index": 0, "delta": "{\"b\""}),
        ),
        event(
            "response.function_call_arguments.delta",
            json!({"item_id": "fc_a", "output_index": 0, "delta": "{\"a\""}),
        ),
        done(0, &call("b", "{\"b\":1}")),
        done(0, &call("a", "{\"a\":1}")),
        completed(),
    ];
    let done = completion(&frames);
    let calls: Vec<_> =
        done.message.tool_calls().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("a", "{\"a\":1}"), ("b", "{\"b\":1}")]);
}

/// Scenario: a custom tool's call, items and parts without a word of ours.
/// Expected: MUST be told, folded, and kept whole; an unknown item MUST count as output.
#[test]
fn unknown_items_are_kept_whole() {
    let search = json!({"type": "web_search_call", "id": "ws", "status": "completed", "deep": {"x": [1]}});
    let frames = [
        event(
            "response.output_item.added",
            json!({"output_index": 0, "item": {"type": "web_search_call", "id": "ws"}}),
        ),
        event("response.web_search_call.searching", json!({"item_id": "ws", "output_index": 0})),
        done(0, &search),
        event(
            "response.custom_tool_call_input.delta",
            json!({"item_id": "ct", "output_index": 1, "delta": "l"}),
        ),
        done(
            1,
            &json!({"type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "sh", "input": "ls"}),
        ),
        done(
            2,
            &json!({"type": "message", "id": "m", "content": [{"type": "hologram"}, {"type": "output_text", "text": "x"}]}),
        ),
        completed(),
    ];
    let (events, _) = play(&frames);
    let expected = [
        "alive",
        "0 closed whole",
        "1024 arguments l",
        "1024 call c sh",
        "1024 arguments s",
        "1024 closed whole",
        "2048 closed whole",
        "2049 text x",
        "2049 closed whole",
        "completed",
    ];
    assert_eq!(told(&events), expected);
    assert!(matches!(events[1].sign(), Sign::Output(_)));
    let done = completion(&frames);
    assert!(matches!(&done.message.parts[0].content, Content::Other(_, item) if *item == search));
    assert_eq!(done.stop, Stop::ToolCalls);
}

/// Scenario: reasoning as thoughts and then as a summary, both without indices.
/// Expected: MUST be one block of paragraphs; thoughts MUST be what stays.
#[test]
fn thoughts_and_summary_are_paragraphs_of_one_block() {
    let say =
        |kind: &str, text: &str| event(&format!("response.reasoning_{kind}.delta"), json!({ "delta": text }));
    let item = json!({"type": "reasoning", "id": "rs", "content": [{"type": "reasoning_text", "text": "deep"}],
        "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]});
    let frames = [
        say("text", "de"),
        say("text", "ep"),
        say("summary_text", "one"),
        event("response.reasoning_summary_part.added", json!({})),
        say("summary_text", "two"),
        event("response.output_item.done", json!({ "item": item })),
        completed(),
    ];
    let expected = [
        "0 reasoning de",
        "0 reasoning ep",
        "0 reasoning \n\none",
        "0 reasoning \n\ntwo",
        "0 closed whole",
        "completed",
    ];
    assert_eq!(told(&play(&frames).0), expected);
    let done = completion(&frames);
    assert!(matches!(&done.message.parts[0].content, Content::Reasoning(thought) if thought.text == "deep"));
}

/// Scenario: a heartbeat, unknown events, and frames that hold nothing of use, between pieces of text.
/// Expected: MUST be liveness and nothing else.
#[test]
fn what_is_unknown_is_a_sign_of_life() {
    for strange in [
        json!({"type": "keepalive", "sequence_number": 3}),
        json!({"type": "response.brand_new_thing", "delta": "x", "item": 5}),
        json!({"type": "response.audio.delta", "delta": "AAAA"}),
        json!({"type": "ping"}),
        json!({"type": null}),
        json!({"type": 5}),
        json!({}),
        json!([]),
        json!(null),
        json!("text"),
    ] {
        let (events, failure) = play(&[delta("a"), strange.clone(), delta("b"), completed()]);
        assert!(failure.is_none(), "{strange}");
        let expected = ["0 text a", "alive", "0 text b", "0 closed", "completed"];
        assert_eq!(told(&events), expected, "{strange}");
    }
    let mut out = VecDeque::new();
    decoder().frame(Some("keepalive"), b"not JSON", &mut out).expect("a heartbeat");
    assert_eq!(told(&Vec::from(out)), ["alive"]);
}

/// Scenario: known events with nulls, nothing, or the wrong type in their fields.
/// Expected: MUST never fail, nor tell anything.
#[test]
fn a_sloppy_event_fails_nothing() {
    for kind in [
        "response.output_text.delta",
        "response.output_text.done",
        "response.refusal.delta",
        "response.refusal.done",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.done",
        "response.output_item.added",
        "response.output_item.done",
        "response.content_part.added",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.done",
        "response.created",
        "response.reasoning_summary_part.added",
    ] {
        for fields in [
            json!({}),
            json!({"delta": null, "text": null, "item": null, "response": null, "output_index": null, "item_id": null}),
            json!({"delta": [], "text": {}, "item": [], "response": 5, "output_index": -1, "item_id": {}}),
            json!({"delta": true, "text": false, "item": "x", "response": "y", "output_index": 1e300, "item_id": 5}),
            json!({"output_index": 4_294_967_295_u32, "content_index": 4_294_967_295_u32}),
        ] {
            let (events, failure) = play(&[event(kind, fields.clone()), completed()]);
            assert!(failure.is_none(), "{kind} {fields}");
            let told = told(&events);
            let quiet = |line: &String| line.ends_with("closed") || *line == "start r" || line == "completed";
            assert!(told.iter().all(quiet), "{kind} {fields}: {told:?}");
        }
    }
}

/// Scenario: errors in every shape, each after a piece of text.
/// Expected: MUST be the failure they name with the 200 kept, after the text, and nothing after them.
#[test]
fn every_shape_of_error_ends_the_stream() {
    for (error, code) in [
        (json!({"type": "error", "code": "server_error", "message": "boom", "param": null}), Code::Server),
        (
            json!({"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "spent"}}),
            Code::QuotaExhausted,
        ),
        (
            json!({"type": "error", "status_code": 429, "error": {"type": "usage_limit_reached", "message": "x", "resets_in_seconds": 9568}}),
            Code::QuotaExhausted,
        ),
        (
            ended(
                "response.failed",
                &json!({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "try again in 1.3s"}}),
            ),
            Code::RateLimited,
        ),
        (
            ended(
                "response.failed",
                &json!({"status": "failed", "error": {"code": "context_length_exceeded", "message": "long"}}),
            ),
            Code::ContextLength,
        ),
        (ended("response.failed", &json!({"status": "failed", "error": null})), Code::Server),
        (json!({"type": "response.failed"}), Code::Server),
        (json!({"type": "response.cancelled", "response": {}}), Code::Server),
        (
            ended(
                "response.completed",
                &json!({"status": "failed", "error": {"code": "server_is_overloaded", "message": "busy"}}),
            ),
            Code::Overloaded,
        ),
        (ended("response.incomplete", &json!({"status": "cancelled"})), Code::Server),
        (json!({"error": {"message": "bad", "code": "invalid_prompt"}}), Code::InvalidRequest),
        (json!({"error": "overloaded"}), Code::Overloaded),
        (json!({"code": 503, "message": "loading", "type": "unavailable_error"}), Code::Overloaded),
        (json!([{"error": {"code": 429, "message": "slow"}}]), Code::RateLimited),
        (
            json!({"type": "response.output_text.delta", "delta": "x", "error": {"code": 500, "message": "x"}}),
            Code::Server,
        ),
    ] {
        let (events, failure) = play(&[created(), delta("Half"), error.clone(), delta("more"), completed()]);
        let failure = failure.unwrap_or_else(|| panic!("{error} is no failure"));
        assert_eq!(failure.code(), code, "{error}: {failure}");
        assert_eq!(failure.status().map(|status| status.as_u16()), Some(200), "{error}");
        assert_eq!(told(&events), ["start r", "0 text Half"], "{error}");
    }
    let mut decoder = decoder();
    let mut out = VecDeque::new();
    let bare = decoder.frame(
        Some("error"),
        br#"{"code":400,"message":"bad","type":"invalid_request_error"}"#,
        &mut out,
    );
    assert_eq!(bare.expect_err("an error").code(), Code::InvalidRequest);
    decoder.frame(None, completed().to_string().as_bytes(), &mut out).expect("nothing is read");
    assert!(out.is_empty() && decoder.is_done());
}

/// Scenario: a stream that ends, or says that it does, before its terminal event; and frames that are no JSON.
/// Expected: MUST be TRUNCATED, or INVALID_RESPONSE that shows nothing.
#[test]
fn only_a_terminal_event_completes() {
    let frames = full();
    for end in 0..frames.len() {
        let failure = play(&frames[..end]).1.expect("cut");
        assert_eq!(failure.code(), Code::Truncated, "after {end}");
    }
    for (data, code) in [
        ("[DONE]", Code::Truncated),
        ("<html>secret", Code::InvalidResponse),
        ("{\"type\":\"response.output_text.delta\",\"delta\":\"secret", Code::InvalidResponse),
        ("secret", Code::InvalidResponse),
    ] {
        let mut decoder = decoder();
        let failure = decoder.frame(None, data.as_bytes(), &mut VecDeque::new()).expect_err("broken");
        assert_eq!(failure.code(), code, "{data}");
        assert!(decoder.is_done() && !failure.message().contains("secret"));
    }
}

/// Scenario: a sentinel and more events after the terminal event.
/// Expected: MUST change nothing.
#[test]
fn nothing_is_read_after_the_terminal_event() {
    let mut decoder = decoder();
    let mut out = VecDeque::new();
    decoder.frame(None, completed().to_string().as_bytes(), &mut out).expect("the end");
    let told = out.len();
    assert!(decoder.is_done() && decoder.is_settled());
    for data in ["[DONE]", "garbage", "{\"error\":\"late\"}"] {
        decoder.frame(None, data.as_bytes(), &mut out).expect("nothing is read");
    }
    decoder.end(&mut out).expect("it was complete");
    assert_eq!(out.len(), told);
}

/// Scenario: terminal events that tell of every end.
/// Expected: MUST stop for the reason told.
#[test]
fn every_terminal_event_has_its_stop() {
    for (kind, response, stop) in [
        ("response.completed", json!({}), Stop::End),
        ("response.completed", Value::Null, Stop::End),
        ("response.completed", json!({"status": "in_progress"}), Stop::End),
        (
            "response.completed",
            json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}),
            Stop::Length,
        ),
        ("response.incomplete", json!({"incomplete_details": {"reason": "max_output_tokens"}}), Stop::Length),
        (
            "response.incomplete",
            json!({"incomplete_details": {"reason": "content_filter"}}),
            Stop::ContentFilter,
        ),
        (
            "response.incomplete",
            json!({"incomplete_details": {"reason": "steered"}}),
            Stop::Other("steered".into()),
        ),
        ("response.incomplete", json!({}), Stop::Unknown),
    ] {
        assert_eq!(completion(&[ended(kind, &response)]).stop, stop, "{kind} {response}");
    }
    let cut = [
        done(0, &call("c", "{\"a\":")),
        ended("response.incomplete", &json!({"incomplete_details": {"reason": "max_output_tokens"}})),
    ];
    assert_eq!(completion(&cut).stop, Stop::Length);
}

/// Scenario: bytes that are not UTF-8 inside a delta.
/// Expected: MUST become the replacement character; the stream goes on.
#[test]
fn broken_characters_are_replaced() {
    let mut out = VecDeque::new();
    let data = b"{\"type\":\"response.output_text.delta\",\"delta\":\"a\xFFb\"}";
    decoder().frame(None, data, &mut out).expect("a frame");
    assert_eq!(told(&Vec::from(out)), ["0 text a\u{FFFD}b"]);
}

/// Scenario: more items than any reply has.
/// Expected: MUST be INVALID_RESPONSE, neither a crash nor a reply with something missing.
#[test]
fn too_many_items_are_refused() {
    let items: Vec<Value> = (0..5_000).map(|_| json!({})).collect();
    let (_, failure) = play(&[ended("response.completed", &json!({ "output": items }))]);
    assert_eq!(failure.expect("too many").code(), Code::InvalidResponse);
}

const KINDS: [&str; 20] = [
    "response.created",
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.refusal.delta",
    "response.refusal.done",
    "response.reasoning_text.delta",
    "response.reasoning_text.done",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta",
    "response.completed",
    "response.failed",
    "error",
    "keepalive",
];

fn any_value() -> impl Strategy<Value = Value> {
    let item_kind =
        prop::sample::select(vec!["message", "function_call", "reasoning", "custom_tool_call", "x"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..3_u8).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
        item_kind.prop_map(Value::from),
    ];
    let names = vec![
        "type",
        "id",
        "call_id",
        "name",
        "text",
        "content",
        "summary",
        "arguments",
        "output",
        "status",
        "usage",
        "error",
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let fields = prop::collection::btree_map(prop::sample::select(names.clone()), inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
            fields.prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

fn any_event() -> impl Strategy<Value = Value> {
    let names = vec![
        "delta",
        "text",
        "item",
        "item_id",
        "output_index",
        "content_index",
        "summary_index",
        "response",
        "error",
        "arguments",
        "part",
    ];
    let fields = prop::collection::btree_map(prop::sample::select(names), any_value(), 0..6);
    (prop::sample::select(KINDS.to_vec()), fields).prop_map(|(kind, fields)| {
        let fields: Value = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        event(kind, fields)
    })
}

/// Whether a stream of these frames keeps the rules: nothing after the end, one end at most, no panic.
fn keeps_the_rules(frames: &[Vec<u8>]) {
    let mut decoder = decoder();
    let mut out = VecDeque::new();
    for data in frames {
        let (was_done, before) = (decoder.is_done(), out.len());
        let failed = decoder.frame(None, data, &mut out).is_err();
        assert!(!was_done || (out.len() == before && !failed), "something came after the end");
        assert!(!failed || decoder.is_done(), "a failure is the end");
        let completed = matches!(out.back(), Some(Event::Completed(_)));
        assert_eq!(completed, decoder.is_done() && !failed && completed);
    }
    let failed = decoder.end(&mut out).is_err();
    assert!(decoder.is_done());
    let ends = out.iter().filter(|event| matches!(event, Event::Completed(_))).count();
    assert!(ends <= 1 && (ends == 0 || !failed), "a reply ends once");
    assert_eq!(ends == 1, matches!(out.back(), Some(Event::Completed(_))), "the end is the last");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Scenario: any events with any fields. Expected: MUST never panic, and nothing may come after the end.
    #[test]
    fn any_events_keep_the_rules(events in prop::collection::vec(any_event(), 0..12)) {
        let frames: Vec<_> = events.iter().map(|event| event.to_string().into_bytes()).collect();
        keeps_the_rules(&frames);
    }

    /// Scenario: any bytes. Expected: as above.
    #[test]
    fn any_bytes_keep_the_rules(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..48), 0..6)) {
        keeps_the_rules(&frames);
    }
}
