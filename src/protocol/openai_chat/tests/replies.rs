//! Whole replies.

use serde_json::json;

use crate::chat::{Content, Protocol, Request, Stop, ToolCall, Usage};
use crate::failure::Code;
use crate::protocol::{Dialect, Target};

use super::super::{decode, encode};
use super::wall;

/// Scenario: a whole reply behind blank lines, with thoughts, text, a tool call and fields of its own.
/// Expected: MUST be read into the words, keep what has none, and go back as history.
#[test]
fn a_whole_reply_is_read() {
    let body = json!({
        "id": "c1", "object": "chat.completion", "created": 1, "model": "m-a", "service_tier": "default",
        "system_fingerprint": null,
        "choices": [
            {"index": 1, "message": {"role": "assistant", "content": "other"}, "finish_reason": "stop"},
            {"index": 0, "logprobs": {"content": []}, "finish_reason": "stop", "message": {
                "role": "assistant", "content": "So.", "refusal": null, "reasoning_content": "hm",
                "annotations": [{"type": "url_citation"}],
                "tool_calls": [{"id": "k1", "type": "function", "function": {"name": "look", "arguments": ""}}]
            }}
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
                  "prompt_tokens_details": {"cached_tokens": 5},
                  "completion_tokens_details": {"reasoning_tokens": 2}}
    });
    let completion = decode(format!("\n\n  {body}").as_bytes(), wall()).unwrap();
    assert_eq!((&*completion.id, &*completion.model), ("c1", "m-a"));
    assert_eq!(completion.stop, Stop::ToolCalls);
    assert_eq!(
        completion.usage,
        Some(Usage { input: 9, cached_read: 5, output: 4, reasoning: 2, ..Usage::default() })
    );
    assert_eq!(completion.message.to_text(), "So.");
    assert_eq!(completion.message.tool_calls().next(), Some(&ToolCall::new("k1", "look", "{}")));
    assert_eq!(completion.extra.get(Protocol::OpenaiChat, "service_tier"), Some(&json!("default")));
    assert!(completion.message.extra.get(Protocol::OpenaiChat, "annotations").is_some());
    let history = Request::new("m").message(completion.message);
    let dialect = Dialect::default();
    let sent: serde_json::Value =
        serde_json::from_slice(&encode(&history, &Target::new("m", &dialect)).unwrap()).unwrap();
    assert_eq!(sent["messages"][0]["reasoning_content"], "hm");
    assert_eq!(sent["messages"][0]["content"], "So.");
}

/// Scenario: replies that are odd and still replies.
/// Expected: MUST be read.
#[test]
fn odd_replies_are_read() {
    let read = |body: &str| decode(body.as_bytes(), wall()).unwrap();
    let empty = read(r#"{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":null}]}"#);
    assert_eq!((empty.stop, empty.message.parts.len(), empty.usage), (Stop::Unknown, 0, None));
    let refusal = read(
        r#"{"choices":[{"message":{"content":null,"refusal":"no","tool_calls":[]},"finish_reason":"weird"}]}"#,
    );
    assert_eq!(refusal.stop, Stop::Other("weird".into()));
    assert!(matches!(&refusal.message.parts[0].content, Content::Refusal(text) if text == "no"));
    let old = read(
        r#"{"choices":[{"message":{"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}]}"#,
    );
    assert_eq!((old.stop, old.message.tool_calls().count()), (Stop::ToolCalls, 1));
    let bare = read(
        r#"{"error":null,"choices":[{"finish_reason":"length"}],"usage":{"prompt_tokens":"3","completion_tokens":1.0}}"#,
    );
    assert_eq!(bare.usage.map(|usage| (usage.input, usage.output)), Some((3, 1)));
    assert_eq!(bare.stop, Stop::Length);
}

/// Scenario: bodies with status 200 that are no reply.
/// Expected: MUST fail by what they are, and never show a page.
#[test]
fn what_is_no_reply_fails() {
    for (body, code) in [
        ("", Code::InvalidResponse),
        ("  \n ", Code::InvalidResponse),
        ("<html>secret</html>", Code::InvalidResponse),
        (r#"{"choices":[{"mess"#, Code::InvalidResponse),
        ("null", Code::InvalidResponse),
        ("[]", Code::InvalidResponse),
        ("{}", Code::InvalidResponse),
        (r#"{"choices":[]}"#, Code::InvalidResponse),
        (r#"{"choices":[null]}"#, Code::InvalidResponse),
        (r#"{"error":"lost"}"#, Code::Server),
        (r#"{"error":{"code":429,"message":"slow"}}"#, Code::RateLimited),
        (r#"[{"error":{"code":503,"message":"x"}}]"#, Code::Server),
        (r#"{"object":"error","message":"x","code":429}"#, Code::RateLimited),
        (r#"{"choices":[{"error":{"code":429,"message":"x"},"finish_reason":"error"}]}"#, Code::RateLimited),
        (r#"{"choices":[{"message":{"content":"Ha"},"finish_reason":"error"}]}"#, Code::Server),
        (r#"{"choices":[{"message":{},"finish_reason":"insufficient_system_resource"}]}"#, Code::Server),
    ] {
        let failure = decode(body.as_bytes(), wall()).unwrap_err();
        assert_eq!(failure.code(), code, "{body}");
        assert!(!failure.message().contains("secret"));
    }
}
