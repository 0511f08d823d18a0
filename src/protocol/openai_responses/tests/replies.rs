use serde_json::{Value, json};

use super::wall;
use crate::chat::{Completion, Content, Protocol, Request, Stop, Usage};
use crate::failure::{Code, Failure};
use crate::protocol::openai_responses::{decode, encode};
use crate::protocol::{Dialect, Target};

fn read(reply: &Value) -> Result<Completion, Failure> {
    decode(reply.to_string().as_bytes(), wall())
}

/// A reply with these items.
fn with(output: &Value) -> Value {
    json!({"id": "r", "object": "response", "model": "m", "status": "completed", "output": output})
}

/// Items of every kind, as a provider sends them.
fn items() -> Value {
    json!([
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
         "encrypted_content": "sealed", "status": null},
        {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "phase": "commentary", "content": [
            {"type": "output_text", "text": "See ", "annotations": [{"type": "url_citation", "url": "u"}], "logprobs": []},
            {"type": "refusal", "refusal": "no"},
            {"type": "output_hologram", "depth": 1}]},
        {"type": "web_search_call", "id": "ws", "status": "completed"},
        {"type": "message", "id": "m2", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "this", "annotations": []}]},
        {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}", "status": "completed"},
        {"type": "custom_tool_call", "id": "ct", "call_id": "c2", "name": "sh", "input": "ls"},
        {"type": "reasoning", "id": "rs2", "summary": [{"type": "summary_text", "text": "short"}],
         "content": [{"type": "reasoning_text", "text": "long"}]}
    ])
}

/// Scenario: a reply with items of every kind.
/// Expected: MUST give their parts in order, the figures with caches and reasoning, and what is beside them but
/// not the echo of the request.
#[test]
fn a_whole_reply_is_read() {
    let mut reply = with(&items());
    reply["usage"] = json!({"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
        "output_tokens_details": {"reasoning_tokens": 2}});
    for (name, value) in
        [("service_tier", json!("flex")), ("tools", json!([1])), ("instructions", json!("x"))]
    {
        reply[name] = value;
    }
    let done = read(&reply).expect("a reply");
    let kinds = done.message.parts.iter().map(|part| match &part.content {
        Content::Text(text) => text.clone(),
        Content::Refusal(text) => format!("refusal {text}"),
        Content::Reasoning(reasoning) => {
            format!(
                "{} {} {:?}",
                if reasoning.summary { "summary" } else { "thought" },
                reasoning.text,
                reasoning.encrypted
            )
        }
        Content::ToolCall(call) => format!("{} {} {}", call.id, call.name, call.arguments),
        Content::Other(protocol, value) => format!("{protocol:?} {}", value["type"]),
        other => panic!("{other:?}"),
    });
    let kinds: Vec<_> = kinds.collect();
    let expected = [
        "summary a\n\nb Some(\"sealed\")",
        "See ",
        "refusal no",
        "OpenaiResponses \"output_hologram\"",
        "OpenaiResponses \"web_search_call\"",
        "this",
        "c1 f {\"a\":1}",
        "c2 sh ls",
        "thought long None",
    ];
    assert_eq!(kinds, expected);
    assert_eq!((done.stop, &*done.id, &*done.model), (Stop::ToolCalls, "r", "m"));
    let usage = Usage { input: 10, cached_read: 4, cached_write: 3, output: 5, reasoning: 2 };
    assert_eq!(done.usage, Some(usage));
    let beside = json!(done.extra.fields(Protocol::OpenaiResponses));
    assert_eq!(beside, json!({"status": "completed", "service_tier": "flex"}));
}

/// Scenario: a reply goes back as the next request's turn.
/// Expected: MUST be the same items, but for empty lists that say nothing.
#[test]
fn a_reply_goes_back_as_it_came() {
    let done = read(&with(&items())).expect("a reply");
    let request = Request::new("m").message(done.message);
    let body = encode(&request, &Target::new("m", &Dialect::default())).expect("it can be written");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let mut expected = items();
    expected[1]["content"][0].as_object_mut().expect("a part").remove("logprobs");
    assert_eq!(body["input"], expected);
}

/// Scenario: replies that end in every way.
/// Expected: MUST stop for the reason told, and unknown reasons MUST be kept.
#[test]
fn every_end_has_its_stop() {
    let call = json!([{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]);
    for (output, status, reason, stop) in [
        (json!([]), "completed", Value::Null, Stop::End),
        (call.clone(), "completed", Value::Null, Stop::ToolCalls),
        (call, "incomplete", json!("max_output_tokens"), Stop::Length),
        (json!([]), "incomplete", json!("max_output_tokens"), Stop::Length),
        (json!([]), "incomplete", json!("content_filter"), Stop::ContentFilter),
        (json!([]), "incomplete", json!("steered"), Stop::Other("steered".into())),
        (json!([]), "incomplete", Value::Null, Stop::Unknown),
        (json!([]), "queued", Value::Null, Stop::Other("queued".into())),
        (json!([]), "brand_new", Value::Null, Stop::End),
    ] {
        let mut reply = with(&output);
        reply["status"] = json!(status);
        reply["incomplete_details"] =
            if reason.is_null() { Value::Null } else { json!({ "reason": reason }) };
        let done = read(&reply).expect("a reply");
        assert_eq!(done.stop, stop, "{status} {reason}");
        assert_eq!(done.message.to_text(), "");
    }
}

/// Scenario: a 200 that holds a failure: failed, cancelled, an error in several shapes.
/// Expected: MUST be that failure, with the 200 kept.
#[test]
fn a_failure_in_a_200_is_a_failure() {
    for (reply, code) in [
        (
            json!({"status": "failed", "output": [], "error": {"code": "server_error", "message": "boom"}}),
            Code::Server,
        ),
        (
            json!({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"}}),
            Code::RateLimited,
        ),
        (json!({"status": "failed", "error": null, "output": []}), Code::Server),
        (json!({"status": "cancelled", "output": []}), Code::Server),
        (json!({"error": {"type": "insufficient_quota", "message": "spent"}}), Code::QuotaExhausted),
        (json!({"type": "error", "code": "context_length_exceeded", "message": "long"}), Code::ContextLength),
        (json!({"code": 503, "message": "loading", "type": "unavailable_error"}), Code::Overloaded),
    ] {
        let failure = read(&reply).expect_err("a failure");
        assert_eq!(failure.code(), code, "{reply}");
        assert_eq!(failure.status().map(|status| status.as_u16()), Some(200), "{reply}");
        assert!(!failure.message().is_empty(), "{reply}");
    }
}

/// Scenario: bodies that are not the protocol, and one that is, after blank lines.
/// Expected: MUST be INVALID_RESPONSE that shows nothing of the page; blanks MUST be skipped.
#[test]
fn what_is_no_reply_is_invalid() {
    for body in ["", "  \n", "<html>secret</html>", "{\"id\":", "[]", "5", "{\"id\": \"r\"}", "null"] {
        let failure = decode(body.as_bytes(), wall()).expect_err("no reply");
        assert_eq!(failure.code(), Code::InvalidResponse, "{body}");
        assert!(!failure.message().contains("secret"));
    }
    let padded = format!("\n\n \n{}", with(&json!([])));
    assert_eq!(decode(padded.as_bytes(), wall()).expect("a reply").stop, Stop::End);
}

/// Scenario: items with nulls, missing and mistyped fields.
/// Expected: MUST be read for what they have.
#[test]
fn a_sloppy_reply_is_read() {
    let reply = json!({"status": "completed", "output": [
        null, 5, {}, {"type": "message"}, {"type": "message", "content": null},
        {"type": "message", "content": "plain"},
        {"type": "function_call", "id": "fc", "name": "f", "arguments": {"a": 1}},
        {"type": "function_call", "call_id": null, "name": null, "arguments": null},
        {"type": "reasoning"}
    ], "usage": {"input_tokens": "7", "output_tokens": 2.0, "input_tokens_details": null}});
    let done = read(&reply).expect("a reply");
    assert_eq!(done.message.to_text(), "plain");
    let calls: Vec<_> =
        done.message.tool_calls().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("fc", "{\"a\":1}"), ("", "{}")]);
    assert_eq!(done.usage.map(|usage| (usage.input, usage.output)), Some((7, 2)));
    let none = json!({"status": "completed", "output": {}, "usage": {}});
    assert_eq!(read(&none).expect("a reply").usage, None);
}
