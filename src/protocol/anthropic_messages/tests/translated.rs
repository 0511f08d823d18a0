//! Requests of other protocols, and of our own words, sent here.

use serde_json::{Value, json};

use crate::chat::{
    Content, Effort, Media, Message, Options, Part, Parts, Protocol, Reasoning, ReasoningOptions, Request,
    Role, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use crate::failure::{Code, FailOver};
use crate::protocol::{Dialect, Target, read};

use super::super::{DEFAULT_MAX_TOKENS, encode};
use super::sent;

/// A request of another protocol.
fn foreign(messages: Vec<Message>) -> Parts {
    Parts { messages, protocol: Some(Protocol::OpenaiChat), ..Parts::default() }
}

fn assistant(contents: Vec<Content>) -> Message {
    Message::new(Role::Assistant, contents.into_iter().map(Part::from).collect())
}

fn call(id: &str) -> Content {
    Content::ToolCall(ToolCall::new(id, "f", "{\"a\":1}"))
}

/// Scenario: a chat with system and developer turns, calls, results turn by turn, a refusal, thoughts and empty text.
/// Expected: MUST become alternating turns: leading operator turns in `system`, a later one a turn, results and words
/// in one user turn, thoughts and empty text left out.
#[test]
fn a_chat_becomes_turns() {
    let chat = json!({"model": "c", "seed": 7, "user": "u", "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "there"},
        {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
            {"id": "k1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
            {"id": "k2", "type": "function", "function": {"name": "f", "arguments": ""}}
        ]},
        {"role": "tool", "tool_call_id": "k1", "content": "one"},
        {"role": "tool", "tool_call_id": "k2", "content": ""},
        {"role": "user", "content": "go on"},
        {"role": "system", "content": "Mind the gap."},
        {"role": "assistant", "content": null, "refusal": "I will not."},
        {"role": "user", "content": ""}
    ]});
    let request = read(Protocol::OpenaiChat, chat.to_string().as_bytes()).unwrap();
    let expected = json!({
        "model": "m", "max_tokens": DEFAULT_MAX_TOKENS,
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "there"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "k1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "k2", "name": "f", "input": {}}
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "k1", "content": "one"},
                {"type": "tool_result", "tool_use_id": "k2", "content": ""},
                {"type": "text", "text": "go on"}
            ]},
            {"role": "system", "content": "Mind the gap."},
            {"role": "assistant", "content": "I will not."}
        ]
    });
    assert_eq!(sent(&request), expected);
}

/// Scenario: calls with ids that only other protocols allow.
/// Expected: MUST have an id this one takes, the same in the call and its result.
#[test]
fn ids_fit_and_still_match() {
    let parts = foreign(vec![
        assistant(vec![call("functions.f:0|é")]),
        Message::tool_results([ToolResult::text("functions.f:0|é", "one")]),
    ]);
    let turns = &sent(&parts)["messages"];
    assert_eq!(turns[0]["content"][0]["id"], "functions_f_0__");
    assert_eq!(turns[1]["content"][0]["tool_use_id"], "functions_f_0__");
}

/// Scenario: a request in our own words, with one system turn.
/// Expected: MUST be the shortest spelling.
#[test]
fn our_own_words_are_spelled_short() {
    let request = Request::new("any").system("Be brief.").user("hi").max_output_tokens(9).streaming();
    let expected = json!({
        "model": "m", "max_tokens": 9, "stream": true, "system": "Be brief.",
        "messages": [{"role": "user", "content": "hi"}]
    });
    assert_eq!(sent(&request), expected);
}

/// Scenario: thoughts of other protocols, unlabelled, summed up, in cipher, or signed elsewhere.
/// Expected: MUST not go out, and the rest MUST.
#[test]
fn thoughts_of_another_protocol_are_left_out() {
    let thought = Reasoning { text: "hm".into(), ..Reasoning::default() };
    for reasoning in [
        thought.clone(),
        Reasoning { encrypted: Some("cipher".into()), ..Reasoning::default() },
        Reasoning {
            encrypted: Some("cipher".into()),
            id: Some("rs_1".into()),
            summary: true,
            ..thought.clone()
        },
        Reasoning { signature: Some("sig".into()), origin: Some("elsewhere".into()), ..thought },
    ] {
        let parts =
            foreign(vec![assistant(vec![Content::Reasoning(reasoning), Content::Text("So.".into())])]);
        assert_eq!(sent(&parts)["messages"], json!([{"role": "assistant", "content": "So."}]));
    }
}

/// Scenario: a reply of this very instance, unsigned as compatible servers send it, in a request of our own words.
/// Expected: MUST go back.
#[test]
fn unsigned_thoughts_go_back_to_their_label() {
    let reasoning = Reasoning { text: "hm".into(), origin: Some("here".into()), ..Reasoning::default() };
    let parts = Parts { messages: vec![assistant(vec![Content::Reasoning(reasoning)])], ..Parts::default() };
    let dialect = Dialect::default();
    let mut target = Target::new("m", &dialect);
    target.instance = Some("here");
    let body: Value = serde_json::from_slice(&encode(&parts, &target).unwrap()).unwrap();
    assert_eq!(body["messages"][0]["content"], json!([{"type": "thinking", "thinking": "hm"}]));
}

/// Scenario: efforts of other protocols, under several caps and choices.
/// Expected: MUST be thinking this protocol takes: a word as adaptive thinking of that effort, a budget below the
/// cap, no thinking beside a forced call.
#[test]
fn an_effort_becomes_thinking() {
    let forced = Some(ToolChoice::Required);
    let named = |word: &str| Effort::Named(word.into());
    let enabled = |budget: u64| json!({"type": "enabled", "budget_tokens": budget});
    let adaptive = json!({"type": "adaptive"});
    let disabled = json!({"type": "disabled"});
    for (effort, cap, choice, thinking, word, max) in [
        (named("high"), Some(9), None, adaptive.clone(), json!("high"), 9),
        (named("minimal"), Some(9), None, adaptive.clone(), json!("low"), 9),
        (named("none"), Some(9), None, disabled.clone(), Value::Null, 9),
        (named("high"), Some(9), forced.clone(), Value::Null, json!("high"), 9),
        (Effort::Off, Some(9), None, disabled, Value::Null, 9),
        (Effort::Adaptive, Some(9), None, adaptive, Value::Null, 9),
        (Effort::Tokens(2000), Some(8000), None, enabled(2000), Value::Null, 8000),
        (Effort::Tokens(2000), Some(1500), None, enabled(1499), Value::Null, 1500),
        (Effort::Tokens(10), Some(8000), None, enabled(1024), Value::Null, 8000),
        (Effort::Tokens(10), Some(1024), None, Value::Null, Value::Null, 1024),
        (Effort::Tokens(2000), None, None, enabled(2000), Value::Null, DEFAULT_MAX_TOKENS + 2000),
        (Effort::Tokens(2000), Some(8000), forced, Value::Null, Value::Null, 8000),
    ] {
        let mut parts = foreign(vec![Message::text(Role::User, "hi")]);
        parts.options = Options {
            reasoning: Some(ReasoningOptions::new(effort.clone())),
            max_output_tokens: cap,
            tool_choice: choice,
            ..Options::default()
        };
        let body = sent(&parts);
        assert_eq!((&body["thinking"], &body["output_config"]["effort"]), (&thinking, &word), "{effort:?}");
        assert_eq!(body["max_tokens"], json!(max), "{effort:?}");
    }
}

/// Scenario: tools and choices of other protocols.
/// Expected: MUST have a schema of an object; a choice among no tools, and tools of another provider, MUST not go out.
#[test]
fn tools_become_tools() {
    let mut bare = Tool::new("bare", "", Value::Null);
    (bare.description, bare.schema, bare.strict) = (None, None, Some(false));
    let mut theirs = Tool::new("", "", Value::Null);
    theirs.extra.set(Protocol::OpenaiResponses, "type", "web_search");
    let mut parts = foreign(vec![Message::text(Role::User, "hi")]);
    parts.options.tool_choice = Some(ToolChoice::Auto);
    parts.options.parallel_tool_calls = Some(false);
    assert_eq!(sent(&parts).get("tool_choice"), None);
    let full = Tool::new("full", "Does.", json!({"properties": {}}));
    parts.tools = vec![Tool { strict: Some(true), ..full }, bare, theirs];
    let body = sent(&parts);
    let expected = json!([
        {"name": "full", "description": "Does.", "input_schema": {"type": "object", "properties": {}}, "strict": true},
        {"name": "bare", "input_schema": {"type": "object"}}
    ]);
    assert_eq!(body["tools"], expected);
    for (choice, written) in [
        (None, json!({"type": "auto", "disable_parallel_tool_use": true})),
        (Some(ToolChoice::Auto), json!({"type": "auto", "disable_parallel_tool_use": true})),
        (Some(ToolChoice::Required), json!({"type": "any", "disable_parallel_tool_use": true})),
        (Some(ToolChoice::None), json!({"type": "none"})),
        (
            Some(ToolChoice::Named("full".into())),
            json!({"type": "tool", "name": "full", "disable_parallel_tool_use": true}),
        ),
    ] {
        parts.options.tool_choice = choice;
        assert_eq!(sent(&parts)["tool_choice"], written);
    }
}

/// Scenario: media of other protocols: with a type, without, with a name, at an address, inside a result, marked.
/// Expected: MUST become pictures and documents with a type.
#[test]
fn media_become_blocks() {
    let untyped = |data: &str| Media { source: Source::Base64(data.into()), media_type: None, name: None };
    let named = Media { name: Some("a.pdf".into()), ..untyped("JVBERi0xLjQ=") };
    let result = ToolResult {
        parts: vec![Part::from(Content::Image(untyped("/9j/AA")))],
        ..ToolResult::text("k1", "")
    };
    let user = vec![
        Part::from(Content::Image(Media::base64("image/webp", "UklGR"))).cached(),
        Content::Image(untyped("AAAA")).into(),
        Content::Image(Media::url("https://pics.test/a.png")).into(),
        Content::File(named).into(),
    ];
    let parts = foreign(vec![
        assistant(vec![call("k1")]),
        Message::tool_results([result]),
        Message::new(Role::User, user),
    ]);
    let source = |kind: &str, data: &str| json!({"type": "base64", "media_type": kind, "data": data});
    let expected = json!([
        {"type": "tool_result", "tool_use_id": "k1", "content": [{"type": "image", "source": source("image/jpeg", "/9j/AA")}]},
        {"type": "image", "source": source("image/webp", "UklGR"), "cache_control": {"type": "ephemeral"}},
        {"type": "image", "source": source("image/png", "AAAA")},
        {"type": "image", "source": {"type": "url", "url": "https://pics.test/a.png"}},
        {"type": "document", "source": source("application/pdf", "JVBERi0xLjQ="), "title": "a.pdf"}
    ]);
    assert_eq!(sent(&parts)["messages"][1]["content"], expected);
}

/// Scenario: what this protocol cannot carry: sound, a text file, what lies at another provider.
/// Expected: MUST refuse here, naming the turn, so that another candidate is asked.
#[test]
fn what_cannot_be_carried_is_refused() {
    for content in [
        Content::Audio(Media::base64("wav", "UklG")),
        Content::File(Media::base64("text/plain", "aGk=")),
        Content::Image(Media::id("file-1")),
        Content::ToolResult(ToolResult {
            parts: vec![Content::Image(Media::id("file-1")).into()],
            ..ToolResult::text("k1", "")
        }),
    ] {
        let turn = Message::new(Role::User, vec![content.into()]);
        let parts = foreign(vec![Message::text(Role::System, "s"), turn]);
        let failure = encode(&parts, &Target::new("m", &Dialect::default())).unwrap_err();
        assert_eq!((failure.code(), failure.is_local()), (Code::InvalidRequest, true));
        assert!(failure.message().starts_with("messages[1]: "), "{failure}");
        assert_eq!(failure.judgement().fail_over, FailOver::Yes);
    }
}
