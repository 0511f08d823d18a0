//! Requests, read and written.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::chat::{
    Content, Effort, Media, Message, Options, Part, Parts, Protocol, Reasoning, Request, Role, Source, Tool,
    ToolCall, ToolChoice, ToolResult,
};
use crate::failure::{Code, FailOver};
use crate::protocol::{Dialect, OutputCap, Target};

use super::super::{encode, read};

fn read_value(value: &Value) -> Request {
    read(value.to_string().as_bytes()).unwrap()
}

fn encode_value(parts: &Parts, target: &Target<'_>) -> Value {
    serde_json::from_slice(&encode(parts, target).unwrap()).unwrap()
}

/// Writes for a target that differs in nothing.
fn sent(parts: &Parts) -> Value {
    encode_value(parts, &Target::new("m", &Dialect::default()))
}

fn returns(value: &Value) {
    let read = read_value(value);
    assert_eq!(&sent(&read), value);
}

fn rich() -> Value {
    let mut request = json!({
        "model": "m",
        "stream": true,
        "stream_options": {"include_usage": true, "include_obfuscation": false},
        "temperature": 1,
        "top_p": 0.5,
        "top_k": 40,
        "max_tokens": 100,
        "max_completion_tokens": 200,
        "stop": "END",
        "seed": 7,
        "n": 1,
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": false,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "metadata": {"k": "v"},
        "user": null,
        "odd": [1, {"x": null}]
    });
    request["tools"] = rich_tools();
    request["messages"] = rich_messages();
    request
}

fn rich_tools() -> Value {
    json!([
        {
            "type": "function",
            "function": {
                "name": "look", "description": "Looks.", "strict": true,
                "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}, "odd": 1
            },
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
            "odd": 2
        },
        {"type": "function", "function": {"name": "bare"}},
        {"type": "custom", "custom": {"name": "free", "format": {"type": "text"}}},
        {"type": "web_search"}
    ])
}

fn rich_messages() -> Value {
    json!([
        {"role": "system", "content": "Be brief.", "name": "op", "odd": true},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": [
            {"type": "text", "text": "What is it?", "cache_control": {"type": "ephemeral"}, "odd": 1},
            {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "scope": "org"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://pics.test/a.png"}, "odd": 1},
            {"type": "image_url", "image_url": "https://pics.test/b.png"},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_data": "JVBE"}},
            {"type": "video_url", "video_url": {"url": "https://pics.test/c.mp4"}}
        ]},
        {"role": "assistant", "content": null, "refusal": null, "reasoning_content": "", "tool_calls": [
            {"id": "k1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":\"it\"}"},
             "extra_content": {"sig": "s"}},
            {"id": "k2", "type": "custom", "custom": {"name": "free", "input": "x"}}
        ]},
        {"role": "tool", "tool_call_id": "k1", "content": "a thing"},
        {"role": "tool", "tool_call_id": "k2", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "tool_calls": [
            {"id": "k3", "type": "function", "function": {"name": "look", "arguments": ""}}
        ]},
        {"role": "tool", "tool_call_id": "k3", "content": []},
        {"role": "assistant", "reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}],
         "content": "So.", "annotations": []},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": null, "refusal": "I will not."},
        {"role": "assistant", "content": "", "audio": {"id": "au1"}},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "So."}
        ]},
        {"role": "assistant", "content": null, "function_call": {"name": "old", "arguments": "{}"}},
        {"role": "function", "name": "old", "content": "ok"},
        {"role": "user", "content": "Go on."}
    ])
}

/// Scenario: a request with every kind of part, tool and option, and unknown fields at every level, is read and sent
/// in the same protocol.
/// Expected: MUST be equal as JSON.
#[test]
fn a_request_sent_where_it_was_read_loses_nothing() {
    returns(&rich());
}

/// Scenario: spellings that mean the same, and values that are no options at all.
/// Expected: MUST come out as they came.
#[test]
fn spellings_are_kept() {
    let turn = json!([{"role": "user", "content": "hi"}]);
    for fields in [
        json!({"temperature": 1.0, "stop": ["a"], "tool_choice": "auto"}),
        json!({"temperature": null, "stop": [], "tools": [], "max_tokens": null, "stream": false}),
        json!({"temperature": "hot", "stop": [1], "tool_choice": "any", "tools": null, "max_tokens": -1}),
        json!({"max_tokens": 5, "max_completion_tokens": null}),
        json!({"max_tokens": 5}),
        json!({"max_completion_tokens": 5, "seed": -3}),
        json!({"reasoning": {"effort": "high", "exclude": true}}),
        json!({"reasoning": {"max_tokens": 900}, "reasoning_effort": null}),
        json!({"reasoning": {"enabled": false}}),
        json!({"reasoning": {"effort": "high"}, "reasoning_effort": "low"}),
        json!({"reasoning_effort": "none", "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}),
        json!({"functions": [{"name": "old"}], "function_call": "auto"}),
    ] {
        let mut request = json!({"model": "m", "messages": turn});
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        returns(&request);
    }
}

/// Scenario: the words behind the rich request.
/// Expected: MUST be those of the words, so that another protocol can say them.
#[test]
fn the_words_are_read() {
    let request = read_value(&rich());
    assert_eq!(request.protocol, Some(Protocol::OpenaiChat));
    let options = &request.options;
    assert_eq!((options.temperature, options.max_output_tokens), (Some(1.0), Some(200)));
    assert_eq!((options.stop.as_slice(), options.top_k), (["END".to_owned()].as_slice(), Some(40)));
    assert_eq!(options.tool_choice, Some(ToolChoice::Named("look".into())));
    assert_eq!(options.reasoning.as_ref().and_then(|r| r.effort.clone()), Some(Effort::Named("low".into())));
    assert_eq!(request.tools[0].cache.as_ref().unwrap().ttl.as_deref(), Some("1h"));
    assert_eq!(
        request.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["look", "bare", "", ""]
    );
    let user = &request.messages[2].parts;
    assert!(user[0].cache.is_some() && user[1].cache.is_none());
    assert!(
        matches!(&user[2].content, Content::Image(media) if media.source == Source::Base64("iVBOR".into())
        && media.media_type.as_deref() == Some("image/png"))
    );
    assert!(
        matches!(&user[4].content, Content::Image(media) if media.source == Source::Url("https://pics.test/b.png".into()))
    );
    assert!(matches!(&user[9].content, Content::Other(Protocol::OpenaiChat, _)));
    assert_eq!(request.messages[3].tool_calls().next(), Some(&ToolCall::new("k1", "look", r#"{"at":"it"}"#)));
    assert!(matches!(&request.messages[3].parts[0].content, Content::Reasoning(r) if r.text.is_empty()));
    assert!(
        matches!(&request.messages[14].parts[0].content, Content::ToolResult(result) if result.id == "old")
    );
}

/// Scenario: an option is changed, or cleared, after the request was read.
/// Expected: MUST go out as changed, under the names it came with.
#[test]
fn a_changed_option_replaces_its_spelling() {
    let mut request = read_value(&rich());
    let options = &mut request.edit().options;
    options.max_output_tokens = Some(150);
    options.temperature = None;
    options.stop = vec!["X".into()];
    options.tool_choice = None;
    options.reasoning = None;
    let sent = sent(&request);
    assert_eq!((&sent["max_completion_tokens"], &sent["max_tokens"]), (&json!(150), &json!(100)));
    assert_eq!(sent["stop"], json!(["X"]));
    for gone in ["temperature", "tool_choice", "reasoning_effort"] {
        assert!(sent.get(gone).is_none(), "{gone}");
    }
}

/// Scenario: dialects.
/// Expected: MUST name the cap, ask for usage and leave out the model as each says.
#[test]
fn the_dialect_is_spoken() {
    let request = Request::new("x").user("hi").max_output_tokens(9).streaming();
    let plain = sent(&request);
    assert_eq!(plain["model"], "m");
    assert_eq!(plain["max_completion_tokens"], 9);
    assert_eq!(plain["stream_options"], json!({"include_usage": true}));
    let dialect = Dialect {
        output_cap: Some(OutputCap::MaxTokens),
        ask_usage: false,
        model_in_url: true,
        ..Dialect::default()
    };
    let other = encode_value(&request, &Target::new("m", &dialect));
    assert_eq!(
        other,
        json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "stream": true})
    );
    let both = encode_value(&read_value(&rich()), &Target::new("m", &dialect));
    assert!(both.get("max_completion_tokens").is_none());
    assert_eq!(both["max_tokens"], 200);
    assert_eq!(both["stream_options"], json!({"include_obfuscation": false}));
}

/// Scenario: a conversation as another protocol leaves it: results inside a user turn with a picture among them,
/// signed thoughts, foreign parts and fields, a cache breakpoint.
/// Expected: MUST be said in this protocol's words, results next to their calls, and nothing foreign with them.
#[test]
fn another_protocols_request_is_translated() {
    let signed = Reasoning { text: "hm".into(), signature: Some("s".into()), ..Reasoning::default() };
    let picture = Part::from(Content::Image(Media::base64("image/png", "iVBOR")));
    let mut result = ToolResult::text("k1", "a thing");
    result.parts.push(picture);
    let mut parts = Parts { protocol: Some(Protocol::AnthropicMessages), ..Parts::default() };
    parts.extra.set(Protocol::AnthropicMessages, "thinking", json!({"type": "adaptive"}));
    parts.options = Options {
        top_k: Some(4),
        tool_choice: Some(ToolChoice::Auto),
        max_output_tokens: Some(8),
        ..Options::default()
    };
    parts.messages = vec![
        Message::new(Role::System, vec![Part::text("One.").cached(), Part::text("Two.")]),
        Message::text(Role::User, "Look."),
        Message::new(
            Role::Assistant,
            vec![
                Content::Reasoning(signed).into(),
                Part::text("I "),
                Part::text("look."),
                Content::ToolCall(ToolCall::new("k1", "look", "{}")).into(),
                Content::Other(Protocol::AnthropicMessages, json!({"type": "odd"})).into(),
            ],
        ),
        Message::new(Role::User, vec![Content::ToolResult(result).into(), Part::text("And?")]),
        Message::new(Role::Assistant, vec![Content::Reasoning(Reasoning::default()).into()]),
    ];
    let expected = json!({
        "model": "m",
        "max_completion_tokens": 8,
        "messages": [
            {"role": "system", "content": "One.\n\nTwo."},
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "k1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ]},
            {"role": "tool", "tool_call_id": "k1", "content": "a thing"},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR"}}
            ]},
            {"role": "user", "content": "And?"}
        ]
    });
    assert_eq!(sent(&parts), expected);
    let marks = Dialect { cache_marks: true, ..Dialect::default() };
    let marked = encode_value(&parts, &Target::new("m", &marks));
    assert_eq!(marked["messages"][0]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
}

/// Scenario: a turn of tool calls with thoughts, for the instance that made them, another one, and the first candidate.
/// Expected: MUST send the thoughts, even empty ones, to their maker only.
#[test]
fn thoughts_go_back_to_their_maker_only() {
    let dialect = Dialect::default();
    let with = |origin: Option<&str>| {
        let thought = Reasoning { origin: origin.map(Arc::from), ..Reasoning::default() };
        let parts = vec![
            Content::Reasoning(thought).into(),
            Content::ToolCall(ToolCall::new("k", "look", "{}")).into(),
        ];
        let mut message = Message::new(Role::Assistant, parts);
        message.extra.set(Protocol::OpenaiChat, "reasoning_details", json!([{"data": "x"}]));
        Request::new("m").message(message)
    };
    let mut target = Target::new("m", &dialect);
    target.instance = Some("a");
    let sent = |origin| encode_value(&with(origin), &target)["messages"][0].clone();
    for mine in [None, Some("a")] {
        assert_eq!(sent(mine)["reasoning_content"], "");
        assert!(sent(mine)["reasoning_details"].is_array());
    }
    assert!(sent(Some("b")).get("reasoning_content").is_none());
    assert!(sent(Some("b")).get("reasoning_details").is_none());
    target.owns_unlabelled = false;
    assert!(encode_value(&with(None), &target)["messages"][0].get("reasoning_content").is_none());
}

/// Scenario: a hand-made turn of tool calls.
/// Expected: MUST have content null, which every server takes, and a tool whose fields are the words'.
#[test]
fn a_hand_made_turn_has_the_common_spelling() {
    let call =
        Message::new(Role::Assistant, vec![Content::ToolCall(ToolCall::new("k", "look", "{}")).into()]);
    let tool = Tool::new("look", "Looks.", json!({"type": "object"}));
    let request = Request::new("m")
        .tool(tool)
        .message(call)
        .message(Message::tool_results([ToolResult::text("k", "a"), ToolResult::text("l", "b")]));
    let sent = sent(&request);
    assert_eq!(sent["messages"][0]["content"], Value::Null);
    assert_eq!(sent["messages"][2], json!({"role": "tool", "tool_call_id": "l", "content": "b"}));
    assert_eq!(
        sent["tools"][0],
        json!({"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}})
    );
}

/// Scenario: bodies that cannot be understood.
/// Expected: MUST be refused locally, naming what and where.
#[test]
fn a_bad_request_is_named() {
    for (body, expected) in [
        ("nonsense", "the body is not JSON"),
        ("[]", "the body must be an object"),
        (r#"{"model":1,"messages":[]}"#, "model: must be a string"),
        (r#"{"model":"m"}"#, "messages: must be a list"),
        (r#"{"messages":[1]}"#, "messages[0]: must be an object"),
        (r#"{"messages":[{"content":"x"}]}"#, "messages[0].role: must be a string"),
        (r#"{"messages":[{"role":"root"}]}"#, "messages[0].role: there is no role `root`"),
        (r#"{"messages":[{"role":"user","content":7}]}"#, "messages[0].content: must be"),
        (r#"{"messages":[{"role":"user","content":[7]}]}"#, "messages[0].content[0]: must be an object"),
        (r#"{"messages":[{"role":"tool","content":"x"}]}"#, "messages[0].tool_call_id: must be"),
        (
            r#"{"messages":[{"role":"assistant","tool_calls":[7]}]}"#,
            "messages[0].tool_calls[0]: must be an object",
        ),
        (r#"{"messages":[],"tools":[7]}"#, "tools[0]: must be an object"),
    ] {
        let failure = read(body.as_bytes()).unwrap_err();
        assert_eq!((failure.code(), failure.is_local()), (Code::InvalidRequest, true));
        assert!(failure.message().starts_with(expected), "{} for {body}", failure.message());
    }
}

/// Scenario: a picture that only another provider holds.
/// Expected: MUST be refused before anything is sent, and another candidate may serve.
#[test]
fn what_cannot_be_said_is_refused_here() {
    let request =
        Request::new("m").message(Message::new(Role::User, vec![Content::Image(Media::id("file-9")).into()]));
    let dialect = Dialect::default();
    let failure = encode(&request, &Target::new("m", &dialect)).unwrap_err();
    assert_eq!((failure.code(), failure.is_local()), (Code::InvalidRequest, true));
    assert_eq!(failure.judgement().fail_over, FailOver::Yes);
    assert!(failure.message().starts_with("messages[0]: "));
}
