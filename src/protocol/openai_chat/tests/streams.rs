//! Streams, and the many ways to write one.

use std::collections::VecDeque;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::chat::{Completion, Content, Event, Message, Protocol, Request, Sign, Stop, ToolResult, Usage};
use crate::failure::Code;
use crate::protocol::tests::Run;
use crate::protocol::{Dialect, Target};

use super::super::{Decoder, encode};
use super::wall;

/// Reads frames, then the end of the bytes, as a caller does.
fn run(frames: &[&str]) -> Run {
    let mut decoder = Decoder::new(&Dialect::default(), wall());
    let mut out = VecDeque::new();
    let mut end = Ok(());
    for frame in frames {
        end = end.and_then(|()| decoder.frame(None, frame.as_bytes(), &mut out));
    }
    end = end.and_then(|()| decoder.end(&mut out));
    assert!(decoder.is_done());
    Run::of(end, out)
}

fn done(frames: &[&str]) -> Completion {
    run(frames).end.unwrap()
}

fn failed(frames: &[&str]) -> Code {
    run(frames).end.unwrap_err().code()
}

fn delta(delta: &str) -> String {
    format!(r#"{{"id":"c1","model":"m-a","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
}

fn finish(reason: &str) -> String {
    format!(
        r#"{{"id":"c1","model":"m-a","choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#
    )
}

/// Reads tool-call fragments and gives the calls that came of them.
fn calls(fragments: &[Value]) -> Vec<(String, String, String)> {
    let mut frames: Vec<_> =
        fragments.iter().map(|fragment| delta(&json!({"tool_calls": [fragment]}).to_string())).collect();
    frames.push(finish("tool_calls"));
    let frames: Vec<_> = frames.iter().map(String::as_str).collect();
    let completion = done(&frames);
    assert_eq!(completion.stop, Stop::ToolCalls);
    completion
        .message
        .tool_calls()
        .map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone()))
        .collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

/// Scenario: a stream with a filter chunk, a role, thoughts, text, a tool call, usage and the sentinel.
/// Expected: MUST come as started, deltas and the whole, in this order, and nothing after it.
#[test]
fn a_full_stream_is_folded() {
    let frames = [
        r#"{"id":"","model":"","choices":[],"prompt_filter_results":[]}"#.to_owned(),
        delta(r#"{"role":"assistant","content":""}"#),
        delta(r#"{"reasoning_content":"hm"}"#),
        delta(r#"{"content":"So \u00e9"}"#),
        delta(r#"{"content":"!"}"#),
        delta(r#"{"tool_calls":[{"index":0,"id":"k1","type":"function","function":{"name":"look","arguments":""}}]}"#),
        delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"at\":1}"}}]}"#),
        finish("tool_calls"),
        r#"{"id":"c1","model":"m-a","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13}}"#
            .to_owned(),
        "[DONE]".to_owned(),
        delta(r#"{"content":"late"}"#),
    ];
    let Run { events, end } = run(&frames.each_ref().map(String::as_str));
    let signs: Vec<_> = events.iter().map(Event::sign).collect();
    assert!(
        matches!(&events[0], Event::Started { id, model } if (&**id, &**model) == ("c1", "m-a")),
        "{events:?}"
    );
    assert_eq!(
        signs,
        [Sign::Preamble, Sign::Output(2), Sign::Output(5), Sign::Output(1), Sign::Output(4), Sign::Output(8)]
    );
    let completion = end.unwrap();
    assert_eq!(completion.usage, Some(Usage { input: 11, output: 2, ..Usage::default() }));
    assert_eq!((completion.stop, &*completion.id, &*completion.model), (Stop::ToolCalls, "c1", "m-a"));
    let kinds = &completion.message.parts;
    assert!(matches!(&kinds[0].content, Content::Reasoning(thought) if thought.text == "hm"));
    assert!(matches!(&kinds[1].content, Content::Text(text) if text == "So é!"));
    assert!(matches!(&kinds[2].content, Content::ToolCall(call) if call.arguments == "{\"at\":1}"));
}

/// Scenario: the field reports on tool-call fragments.
/// Expected: MUST give the calls that were meant, in the order of their indices.
#[test]
fn tool_call_fragments_find_their_call() {
    let no_index = [
        json!({"id":"k1","function":{"name":"temp","arguments":""}}),
        json!({"function":{"arguments":"{\"c\":1}"}}),
        json!({"id":"k2","function":{"name":"time","arguments":"{\"z\""}}),
        json!({"function":{"arguments":":2}"}}),
    ];
    assert_eq!(calls(&no_index), [call("k1", "temp", "{\"c\":1}"), call("k2", "time", "{\"z\":2}")]);
    let interleaved = [
        json!({"index":0,"id":"k1","function":{"name":"a","arguments":"{"}}),
        json!({"index":1,"id":"k2","function":{"name":"b","arguments":"["}}),
        json!({"index":0,"function":{"arguments":"}"}}),
        json!({"index":1,"function":{"arguments":"]"}}),
    ];
    assert_eq!(calls(&interleaved), [call("k1", "a", "{}"), call("k2", "b", "[]")]);
    let same_index = [
        json!({"index":0,"id":"k1","function":{"name":"a","arguments":"{}"}}),
        json!({"index":0,"id":"k2","function":{"name":"b","arguments":"{\"x\""}}),
        json!({"index":0,"function":{"arguments":":1}"}}),
        json!({"index":0,"id":"k3","function":{"name":"a","arguments":"{}"}}),
    ];
    assert_eq!(
        calls(&same_index),
        [call("k1", "a", "{}"), call("k2", "b", "{\"x\":1}"), call("k3", "a", "{}")]
    );
}

/// Scenario: ids, names and indices that are repeated, late, backwards, absurd or missing.
/// Expected: MUST be taken once, from the first that is not empty, and never overflow.
#[test]
fn odd_tool_call_fragments_find_their_call() {
    let repeated = [
        json!({"index":0,"id":"k1","type":"function","function":{"name":"look","arguments":""}}),
        json!({"index":0,"id":"k1","type":"function","function":{"name":"look","arguments":"{"}}),
        json!({"index":0,"id":"","function":{"name":"","arguments":"}"}}),
    ];
    assert_eq!(calls(&repeated), [call("k1", "look", "{}")]);
    let apart = [
        json!({"index":0,"id":"k1"}),
        json!({"index":0,"function":{"name":"look"}}),
        json!({"index":0,"function":{}}),
    ];
    assert_eq!(calls(&apart), [call("k1", "look", "{}")]);
    let late_id = [
        json!({"index":0,"function":{"name":"look","arguments":"{"}}),
        json!({"index":0,"id":"k1","function":{"arguments":"}"}}),
    ];
    assert_eq!(calls(&late_id), [call("k1", "look", "{}")]);
    let backwards = [
        json!({"index":2,"id":"k3","function":{"name":"c","arguments":"{}"}}),
        json!({"index":0,"id":"k1","function":{"name":"a","arguments":"{}"}}),
    ];
    assert_eq!(calls(&backwards), [call("k1", "a", "{}"), call("k3", "c", "{}")]);
    let wild = [
        json!({"index":u64::MAX,"id":"k9","function":{"name":"z","arguments":"{}"}}),
        json!({"index":u64::from(u32::MAX),"id":"k8","function":{"name":"y","arguments":"{}"}}),
        json!({"index":-1,"id":7,"function":{"name":"x","arguments":{"a":1}}}),
        json!({"index":"0","id":"k1","function":{"name":"a","arguments":"{}"}}),
        json!(null),
    ];
    let wild = calls(&wild);
    assert_eq!(wild.len(), 4);
    assert_eq!(wild[0], call("k1", "a", "{}"));
    assert!(wild.contains(&call("7", "x", "{\"a\":1}")));
    let nameless_ids = [
        json!({"function":{"name":"a","arguments":"{}"}}),
        json!({"function":{"name":"b","arguments":"{}"}}),
    ];
    assert_eq!(calls(&nameless_ids), [call("", "a", "{}"), call("", "b", "{}")]);
    let endless: Vec<_> = (0..5000).map(|n| json!({"index": 0, "id": format!("k{n}")})).collect();
    assert_eq!(failed(&[&delta(&json!({"tool_calls": endless}).to_string())]), Code::InvalidResponse);
}

/// Scenario: chunks that lack what others have: no choices, no delta, null delta, empty usage, empty reason.
/// Expected: MUST be passed over, and the answer be whole.
#[test]
fn missing_fields_say_nothing() {
    let frames = [
        r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""}],"usage":{}}"#,
        r#"{"choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"check_offset":2}}]}"#,
        r#"{"choices":[{"index":0,"delta":null,"finish_reason":null}],"usage":null}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"other"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[null,{"delta":{"content":[{"type":"text","text":"b"}]}}]}"#,
        r#"{"choices":[{"delta":{"content":"b","tool_calls":null,"role":null},"index":"0"}]}"#,
        r#"{"choices":[{"delta":{"content":"c"},"finish_reason":"stop","index":0}],"usage":{"prompt_tokens":null}}"#,
    ];
    let completion = done(&frames);
    assert_eq!((completion.message.to_text().as_str(), completion.usage), ("abc", None));
    assert_eq!(completion.stop, Stop::End);
}

/// Scenario: frames that are no chunks.
/// Expected: MUST be signs of life, be they JSON or named a heartbeat.
#[test]
fn heartbeats_are_signs_of_life() {
    let mut decoder = Decoder::new(&Dialect::default(), wall());
    let mut out = VecDeque::new();
    for (event, data) in [
        (None, ""),
        (None, "null"),
        (None, "{}"),
        (None, "[]"),
        (None, "\"ping\""),
        (None, r#"{"type":"ping"}"#),
        (Some("ping"), "x"),
    ] {
        decoder.frame(event, data.as_bytes(), &mut out).unwrap();
        assert!(matches!(out.pop_front(), Some(Event::KeepAlive)), "{data}");
    }
    decoder.frame(None, delta(r#"{"audio":{"data":"AA"}}"#).as_bytes(), &mut out).unwrap();
    assert_eq!(out.iter().map(Event::sign).collect::<Vec<_>>(), [Sign::Preamble, Sign::Liveness]);
}

/// Scenario: usage in each of its places.
/// Expected: MUST be found, the last figure standing, and told early where it comes early.
#[test]
fn usage_is_found_wherever_it_stands() {
    let usage = |frames: &[&str]| done(frames).usage.unwrap();
    let (text, stop) = (delta(r#"{"content":"a"}"#), finish("stop"));
    let groq = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":3,"completion_tokens":1}}}"#;
    assert_eq!(usage(&[&text, groq]), Usage { input: 3, output: 1, ..Usage::default() });
    let inside = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":1}}]}"#;
    assert_eq!(usage(&[&text, inside]), Usage { input: 3, output: 1, ..Usage::default() });
    let growing = |n: u64| {
        json!({"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":n}}).to_string()
    };
    let run = run(&[&growing(1), &growing(1), &growing(2), &stop]);
    assert_eq!(run.events.iter().filter(|event| matches!(event, Event::Usage(_))).count(), 2);
    assert_eq!(run.end.unwrap().usage, Some(Usage { input: 5, output: 2, ..Usage::default() }));
    let deepseek = r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}}"#;
    assert_eq!(usage(&[&text, &stop, deepseek]).cached_read, 8);
    let apart = r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":5},"prompt_tokens_details":{"cache_write_tokens":4}}}"#;
    assert_eq!(
        usage(&[&text, &stop, apart, r#"{"choices":[],"usage":{"prompt_tokens":0}}"#]),
        Usage { input: 10, cached_write: 4, output: 7, reasoning: 5, ..Usage::default() }
    );
    let odd = r#"{"choices":[],"usage":{"prompt_tokens":"10","completion_tokens":2.0,"cost":0.1}}"#;
    assert_eq!(usage(&[&text, &stop, odd]), Usage { input: 10, output: 2, ..Usage::default() });
}

/// Scenario: streams that end in each of the possible ways.
/// Expected: MUST complete after a finish reason, or after a sentinel with whole output; else be truncated.
#[test]
fn the_end_is_judged() {
    let text = delta(r#"{"content":"Half"}"#);
    let role = delta(r#"{"role":"assistant","content":""}"#);
    let half = delta(r#"{"tool_calls":[{"index":0,"id":"k","function":{"name":"f","arguments":"{\"a"}}]}"#);
    let stop = finish("stop");
    assert_eq!(done(&[&text, &stop]).stop, Stop::End);
    assert_eq!(done(&[&role, &stop]).message.parts.len(), 0);
    assert_eq!(done(&[&text, &stop, "[DONE]"]).stop, Stop::End);
    assert_eq!(done(&[&text, "[DONE]"]).stop, Stop::Unknown);
    assert_eq!(done(&[&text, &stop, "{\"broken"]).message.to_text(), "Half");
    assert_eq!(done(&[&half, &finish("length")]).stop, Stop::Length);
    assert_eq!(done(&[&half, &stop]).stop, Stop::ToolCalls);
    for cut in
        [&[] as &[&str], &[&role], &[&text], &[&half], &["[DONE]"], &[&role, "[DONE]"], &[&half, "[DONE]"]]
    {
        assert_eq!(failed(cut), Code::Truncated, "{cut:?}");
    }
    for (reason, expected) in [
        ("content_filter", Stop::ContentFilter),
        ("model_length", Stop::Window),
        ("eos", Stop::End),
        ("weird", Stop::Other("weird".into())),
    ] {
        assert_eq!(done(&[&text, &finish(reason)]).stop, expected);
    }
}

/// Scenario: where a stream can be cut or fall silent with no harm.
/// Expected: MUST be told from the finish reason on, and done only at the sentinel.
#[test]
fn a_finish_reason_settles() {
    let mut decoder = Decoder::new(&Dialect::default(), wall());
    let mut out = VecDeque::new();
    decoder.frame(None, delta(r#"{"content":"a"}"#).as_bytes(), &mut out).unwrap();
    assert!(!decoder.is_settled());
    decoder.frame(None, finish("stop").as_bytes(), &mut out).unwrap();
    assert!(decoder.is_settled() && !decoder.is_done());
    decoder.frame(None, b"[DONE]", &mut out).unwrap();
    assert!(decoder.is_settled() && decoder.is_done());
    assert_eq!(out.len(), 3);
}

/// Scenario: errors inside a stream: objects, strings, in the choice, after text, before the sentinel, after the finish
/// reason, by the name of the event; and frames that are no JSON.
/// Expected: MUST fail, keep the text that came, and read nothing more.
#[test]
fn an_error_frame_wins() {
    let text = delta(r#"{"content":"Ha"}"#);
    let server = r#"{"error":{"message":"engine fault","type":"InternalServerError","code":500}}"#;
    let ended = run(&[&text, server, "[DONE]"]);
    assert_eq!(ended.end.unwrap_err().code(), Code::Server);
    assert_eq!(ended.events.last().map(Event::sign), Some(Sign::Output(2)));
    for (frame, code) in [
        (r#"{"error":"slot lost"}"#, Code::Server),
        (r#"{"error":{"code":429,"message":"slow"}}"#, Code::RateLimited),
        (r#"{"code":429,"message":"slow","type":"x"}"#, Code::RateLimited),
        (
            r#"{"error":{"code":"429"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
            Code::RateLimited,
        ),
        (
            r#"{"choices":[{"index":0,"error":{"code":429,"message":"slow"},"finish_reason":"error"}]}"#,
            Code::RateLimited,
        ),
        (r#"{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}"#, Code::Server),
        (
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"insufficient_system_resource"}]}"#,
            Code::Server,
        ),
        ("<html>", Code::InvalidResponse),
        ("{\"choices\":[", Code::InvalidResponse),
        ("Internal Server Error", Code::InvalidResponse),
    ] {
        assert_eq!(failed(&[frame]), code, "{frame}");
        assert_eq!(failed(&[&text, frame, "[DONE]"]), code, "{frame}");
    }
    assert_eq!(failed(&[&text, &finish("stop"), server, "[DONE]"]), Code::Server);
    assert_eq!(
        done(&[r#"{"error":{},"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#])
            .message
            .to_text(),
        "a"
    );
    for data in [r#"{"error":{"code":503}}"#, r#"{"code":503,"message":"x"}"#, "lost", "\"lost\"", ""] {
        let mut decoder = Decoder::new(&Dialect::default(), wall());
        let failure = decoder.frame(Some("error"), data.as_bytes(), &mut VecDeque::new()).unwrap_err();
        assert_eq!(failure.code(), Code::Server, "{data}");
        assert!(decoder.is_done());
    }
}

fn history(message: Message) -> Value {
    let dialect = Dialect::default();
    let results: Vec<_> = message.tool_calls().map(|call| ToolResult::text(&call.id, "ok")).collect();
    let mut request = Request::new("m").message(message);
    if !results.is_empty() {
        request = request.message(Message::tool_results(results));
    }
    let body = encode(&request, &Target::new("m", &dialect)).unwrap();
    serde_json::from_slice::<Value>(&body).unwrap()["messages"].clone()
}

/// Scenario: thoughts under each name, empty ones before a tool call, and details in pieces; then the turn goes back.
/// Expected: MUST go back under the name they came with, the empty ones with a tool call only.
#[test]
fn thoughts_go_back_as_they_came() {
    let stop = finish("stop");
    let (said, tool) = (
        delta(r#"{"content":"a"}"#),
        delta(
            r#"{"tool_calls":[{"index":0,"id":"k","function":{"name":"f","arguments":"{}"},"extra_content":{"s":1}}]}"#,
        ),
    );
    let back = |frames: &[&str]| history(done(frames).message)[0].clone();
    assert_eq!(back(&[&delta(r#"{"reasoning":"hm"}"#), &said, &stop])["reasoning"], "hm");
    assert_eq!(
        back(&[&delta(r#"{"reasoning":"hm","reasoning_content":"hm"}"#), &said, &stop])["reasoning_content"],
        "hm"
    );
    let empty = delta(r#"{"reasoning_content":""}"#);
    assert!(back(&[&empty, &said, &stop]).get("reasoning_content").is_none());
    let called = back(&[&empty, &tool, &stop]);
    assert_eq!(called["reasoning_content"], "");
    assert_eq!(called["tool_calls"][0]["extra_content"], json!({"s": 1}));
    let mistral = delta(r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#);
    assert_eq!(back(&[&mistral, &said, &stop])["content"][0]["thinking"][0]["text"], "hm");
    let piece = |fields: Value| delta(&json!({"reasoning_details": [fields]}).to_string());
    let details = back(&[
        &piece(json!({"type":"reasoning.text","text":"h","index":0,"signature":null})),
        &piece(json!({"type":"reasoning.text","text":"m","index":0,"signature":"s"})),
        &piece(json!({"type":"reasoning.encrypted","data":"x","index":1})),
        &said,
        &stop,
    ]);
    assert_eq!(
        details["reasoning_details"],
        json!([{"type":"reasoning.text","text":"hm","index":0,"signature":"s"}, {"type":"reasoning.encrypted","data":"x","index":1}])
    );
}

/// Scenario: a server that knows only `function_call`.
/// Expected: MUST be a tool call named by its name, and both it and its answer go back in the older spelling.
#[test]
fn the_older_spelling_of_calls_is_spoken() {
    let frames = [
        delta(r#"{"function_call":{"name":"f","arguments":""}}"#),
        delta(r#"{"function_call":{"arguments":"{\"a\":1}"}}"#),
        finish("function_call"),
    ];
    let completion = done(&frames.each_ref().map(String::as_str));
    assert_eq!(completion.stop, Stop::ToolCalls);
    let sent = history(completion.message);
    assert_eq!(sent[0]["function_call"], json!({"name": "f", "arguments": "{\"a\":1}"}));
    assert_eq!(sent[1], json!({"role": "function", "name": "f", "content": "ok"}));
}

/// Scenario: citations in a stream, and a turn that declines.
/// Expected: MUST be kept beside the message, and be a refusal.
#[test]
fn citations_and_refusals_are_kept() {
    let completion = done(&[
        &delta(r#"{"refusal":"I will"}"#),
        &delta(r#"{"refusal":" not","annotations":[{"type":"url_citation"}]}"#),
        &finish("stop"),
    ]);
    assert!(matches!(&completion.message.parts[0].content, Content::Refusal(text) if text == "I will not"));
    assert!(completion.message.extra.get(Protocol::OpenaiChat, "annotations").is_some());
}

/// Values of any shape under the names a chunk may have.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 4.0)),
        "[a-z\\[\\]{}\"]{0,6}".prop_map(Value::from),
        prop_oneof![Just("stop"), Just("error"), Just("thinking"), Just("text")].prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "id",
        "model",
        "choices",
        "usage",
        "x_groq",
        "error",
        "index",
        "delta",
        "message",
        "finish_reason",
        "content",
        "reasoning",
        "reasoning_content",
        "refusal",
        "tool_calls",
        "function",
        "function_call",
        "name",
        "arguments",
        "type",
        "thinking",
        "text",
        "prompt_tokens",
        "completion_tokens",
        "reasoning_details",
        "code",
    ]);
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Scenario: frames of any shape and any bytes.
    /// Expected: MUST NOT panic; after a failure or the whole nothing more is pushed.
    #[test]
    fn no_frame_panics(
        frames in prop::collection::vec(
            prop_oneof![
                anything().prop_map(|value| value.to_string().into_bytes()),
                anything().prop_map(|delta| {
                    json!({"choices": [{"index": 0, "delta": delta}]}).to_string().into_bytes()
                }),
                anything().prop_map(|call| {
                    json!({"choices": [{"delta": {"tool_calls": [call]}}]}).to_string().into_bytes()
                }),
                prop::collection::vec(any::<u8>(), 0..24),
                Just(b"[DONE]".to_vec()),
            ],
            0..8,
        ),
        named in any::<bool>(),
    ) {
        let mut decoder = Decoder::new(&Dialect::default(), wall());
        let mut out = VecDeque::new();
        for frame in &frames {
            let (done, before) = (decoder.is_done(), out.len());
            let read = decoder.frame(named.then_some("message"), frame, &mut out);
            prop_assert!(read.is_ok() || decoder.is_done());
            prop_assert!(!done || (read.is_ok() && out.len() == before));
        }
        let (done, before) = (decoder.is_done(), out.len());
        let end = decoder.end(&mut out);
        prop_assert!(decoder.is_done());
        prop_assert!(!done || (end.is_ok() && out.len() == before));
        let wholes = out.iter().filter(|event| matches!(event, Event::Completed(_))).count();
        prop_assert!(wholes <= 1);
    }

    /// Scenario: bodies of any shape.
    /// Expected: MUST NOT panic; what is read as a request can be read again from what is sent, with the same words.
    #[test]
    fn no_body_panics(value in anything(), bytes in prop::collection::vec(any::<u8>(), 0..24)) {
        let reply = json!({"choices": [{"message": value, "finish_reason": "stop"}]});
        for body in [value.to_string().into_bytes(), reply.to_string().into_bytes(), bytes] {
            let _ = super::super::decode(&body, wall());
            let _ = super::super::read(&body);
        }
        let request = json!({"messages": [{"role": "assistant", "content": [value]}], "tool_choice": value});
        if let Ok(read) = super::super::read(request.to_string().as_bytes()) {
            let dialect = Dialect::default();
            let sent: Value = serde_json::from_slice(&encode(&read, &Target::new("", &dialect)).unwrap()).unwrap();
            prop_assert_eq!(&sent["messages"], &request["messages"]);
            prop_assert_eq!(&sent["tool_choice"], &request["tool_choice"]);
        }
    }
}
