//! Whole replies.

use serde_json::{Value, json};

use crate::chat::{Completion, Content, Protocol, Stop, Usage};
use crate::failure::Code;

use super::super::decode;
use super::wall;

fn done(reply: &Value) -> Completion {
    decode(reply.to_string().as_bytes(), wall()).unwrap()
}

fn code(body: &str) -> Code {
    decode(body.as_bytes(), wall()).unwrap_err().code()
}

/// Scenario: a reply with every kind of block, usage of all figures and fields nobody knows, behind blanks.
/// Expected: MUST be read whole, in order, with nothing lost.
#[test]
fn a_whole_reply_is_read() {
    let reply = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m-a",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "cipher"},
            {"type": "text", "text": "So.", "citations": null},
            {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "container": null, "context_management": {"applied": []},
        "usage": {
            "input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 30,
            "output_tokens_details": {"thinking_tokens": 20}, "service_tier": "standard"
        }
    });
    let body = format!("\n\n  {reply}\n");
    let completion = decode(body.as_bytes(), wall()).unwrap();
    assert_eq!((&*completion.id, &*completion.model, &completion.stop), ("msg_1", "m-a", &Stop::ToolCalls));
    let usage = Usage { input: 115, cached_read: 100, cached_write: 5, output: 30, reasoning: 20 };
    assert_eq!(completion.usage, Some(usage));
    let parts = &completion.message.parts;
    assert!(matches!(&parts[0].content, Content::Reasoning(it) if it.signature.as_deref() == Some("sig")));
    assert!(matches!(&parts[1].content, Content::Reasoning(it) if it.encrypted.as_deref() == Some("cipher")));
    assert!(parts[2].extra.fields(Protocol::AnthropicMessages).is_none());
    assert!(matches!(&parts[3].content, Content::ToolCall(call) if call.arguments == "{\"a\":1}"));
    assert!(parts[3].extra.get(Protocol::AnthropicMessages, "caller").is_some());
    assert!(matches!(&parts[4].content, Content::Other(..)));
    let extra = |name| completion.extra.get(Protocol::AnthropicMessages, name);
    assert_eq!(extra("context_management"), Some(&json!({"applied": []})));
    assert_eq!(extra("usage").unwrap()["service_tier"], "standard");
    assert_eq!(extra("container"), None);
}

/// Scenario: every stop reason, and none.
/// Expected: MUST have its word; an unknown one MUST keep its own.
#[test]
fn every_stop_reason_has_its_word() {
    for (reason, stop) in [
        (json!("end_turn"), Stop::End),
        (json!("max_tokens"), Stop::Length),
        (json!("stop_sequence"), Stop::StopSequence(Some("END".into()))),
        (json!("tool_use"), Stop::ToolCalls),
        (json!("pause_turn"), Stop::Pause),
        (json!("refusal"), Stop::Refusal),
        (json!("model_context_window_exceeded"), Stop::Window),
        (json!("compaction"), Stop::Other("compaction".into())),
        (json!(null), Stop::Unknown),
        (json!(""), Stop::Unknown),
    ] {
        let reply = json!({"content": [], "stop_reason": reason, "stop_sequence": "END"});
        assert_eq!(done(&reply).stop, stop);
    }
}

/// Scenario: replies of servers that take it lightly: content as a string or null, input as a string or missing, an
/// id that is a number, no usage, usage of zeros.
/// Expected: MUST be read for what they mean.
#[test]
fn a_careless_reply_is_read() {
    assert_eq!(done(&json!({"content": "hi"})).message.to_text(), "hi");
    assert!(done(&json!({"type": "message", "content": null})).message.parts.is_empty());
    assert!(done(&json!({"stop_reason": "end_turn"})).message.parts.is_empty());
    let reply = done(&json!({"id": 7, "usage": {"input_tokens": 0, "output_tokens": 0}, "content": [
        {"type": "tool_use", "id": 5, "name": "f", "input": "{\"a\":1}"},
        {"type": "tool_use", "id": "t2", "name": "f"},
        {"type": "text", "text": null}, "words", 3
    ]}));
    assert_eq!((&*reply.id, reply.usage), ("7", None));
    let calls: Vec<_> =
        reply.message.tool_calls().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("5", "{\"a\":1}"), ("t2", "{}")]);
    assert_eq!(reply.message.to_text(), "words");
}

/// Scenario: errors inside a 200, in every shape.
/// Expected: MUST be the failure they name, with the 200 kept beside it.
#[test]
fn an_error_in_a_200_is_its_failure() {
    for (body, expected) in [
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}"#, Code::Overloaded),
        (r#"{"error":{"type":"rate_limit_error","message":"Slow"}}"#, Code::RateLimited),
        (r#"{"code":503,"message":"Loading model","type":"unavailable_error"}"#, Code::Overloaded),
        (r#"[{"error":{"code":500,"message":"broken"}}]"#, Code::Server),
    ] {
        let failure = decode(body.as_bytes(), wall()).unwrap_err();
        assert_eq!((failure.code(), failure.status().unwrap().as_u16()), (expected, 200), "{body}");
    }
}

/// Scenario: pages, nothing, half JSON, and JSON that is no reply.
/// Expected: MUST be INVALID_RESPONSE, and never show the page.
#[test]
fn what_is_no_reply_is_invalid() {
    for body in
        ["", "  \n", "<html><p>secret</p>", "{\"content\":[", "null", "7", "{}", "{\"content\":7}", "[]"]
    {
        assert_eq!(code(body), Code::InvalidResponse, "{body}");
    }
    assert!(!decode(b"<html>secret", wall()).unwrap_err().to_string().contains("secret"));
}
