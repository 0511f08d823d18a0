//! Requests, read here and sent here.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::chat::{
    Content, Effort, Message, Protocol, ReasoningOptions, Role, Source, ToolChoice, ToolResult,
};
use crate::failure::Code;
use crate::protocol::{Dialect, Target};

use super::super::{DEFAULT_MAX_TOKENS, RAW_ARGUMENTS, encode, read};
use super::{read_value, sent, sent_to};

fn returns(value: &Value) {
    assert_eq!(&sent(&read_value(value)), value);
}

/// A request with these fields beside the least there must be.
fn with(fields: Value) -> Value {
    let mut request =
        json!({"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]});
    let (Value::Object(into), Value::Object(fields)) = (&mut request, fields) else { panic!("objects") };
    into.extend(fields);
    request
}

/// A request whose only turn holds this content.
fn saying(role: &str, content: Value) -> Value {
    let turn = Value::from_iter([("role", Value::from(role)), ("content", content)]);
    with(json!({"messages": [turn]}))
}

fn rich() -> Value {
    let mut request = json!({
        "model": "m", "max_tokens": 900, "stream": true,
        "temperature": 1, "top_p": 0.5, "top_k": 40, "stop_sequences": ["END", "STOP"],
        "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}, "odd": 1},
        "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": true, "odd": 1},
        "metadata": {"user_id": "u"}, "service_tier": "auto", "container": null,
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "mcp_servers": [{"type": "url", "name": "s"}], "odd": [1, {"x": null}]
    });
    request["system"] = json!([
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "text", "text": "Be kind.", "odd": 1}
    ]);
    request["tools"] = json!([
        {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {"at": {}}},
         "strict": true, "cache_control": {"type": "ephemeral"}, "odd": 1},
        {"type": "custom", "name": "bare", "description": null, "input_schema": {"type": "object"}},
        {"type": "future", "name": "with_schema", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3, "cache_control": {"type": "ephemeral"}}
    ]);
    request["messages"] = rich_turns();
    request
}

fn rich_turns() -> Value {
    json!([
        {"role": "user", "odd": true, "content": [
            {"type": "text", "text": "What is it?", "cache_control": {"type": "ephemeral"}, "odd": 1},
            {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "5m", "scope": "org"}},
            {"type": "text", "text": "y", "cache_control": {"type": "lasting"}},
            {"type": "text", "text": "z", "cache_control": null},
            {"type": "text", "text": ""},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}},
            {"type": "image", "source": {"type": "url", "url": "https://pics.test/a.png", "odd": 1}, "odd": 2},
            {"type": "image", "source": {"type": "file", "file_id": "f1"}, "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": {"type": "s3", "uri": "s3://b/k"}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
             "title": "A", "context": "c", "citations": {"enabled": true}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}, "title": "B"},
            {"type": "document", "source": {"type": "content", "content": "words"}, "title": null},
            {"type": "search_result", "source": "https://s.test", "title": "S", "content": []},
            {"type": "container_upload", "file_id": "f2"},
            {"kind": "nameless"}
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig1"},
            {"type": "redacted_thinking", "data": "cipher"},
            {"type": "thinking", "thinking": "", "signature": "sig2", "odd": 1},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "text", "text": "So.", "citations": [{"type": "page_location"}]},
            {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "it", "n": 1.5, "big": 9_007_199_254_740_993_u64},
             "caller": {"type": "direct"}, "cache_control": {"type": "ephemeral"}},
            {"type": "tool_use", "id": "t2", "name": "bare", "input": {}},
            {"type": "tool_use", "id": "t3", "name": "bare", "input": "{\"half"},
            {"type": "tool_use", "id": "t4", "name": "bare", "input": [1]},
            {"type": "tool_use", "id": "", "name": "bare", "input": null},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted_content": "e"}]}
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "a thing", "is_error": true},
            {"type": "tool_result", "tool_use_id": "t2", "is_error": false, "odd": 1},
            {"type": "tool_result", "tool_use_id": "t3", "content": [{"type": "text", "text": "one"}]},
            {"type": "tool_result", "tool_use_id": "t4", "content": []},
            {"type": "tool_result", "tool_use_id": "t5", "content": "", "cache_control": {"type": "ephemeral"}},
            {"type": "tool_result", "tool_use_id": "t6", "content": [
                {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}},
                {"type": "tool_reference", "tool_name": "look"}
            ]},
            {"type": "tool_result", "tool_use_id": "t7", "content": null},
            {"type": "tool_result", "tool_use_id": "t8", "content": [1]},
            {"type": "tool_result", "content": "no id"},
            {"type": "text", "text": "go on"}
        ]},
        {"role": "user", "content": "and"},
        {"role": "user", "content": [{"type": "text", "text": "more"}]},
        {"role": "system", "content": "Mind the gap."},
        {"role": "assistant", "content": []},
        {"role": "system", "content": [{"type": "text", "text": "Still."}], "odd": 1},
        {"role": "user", "content": ""}
    ])
}

/// Scenario: a request with every kind of part, tool, option, breakpoint and thinking, in every spelling, with
/// fields nobody knows at every level.
/// Expected: MUST go out as it came.
#[test]
fn a_request_returns_as_it_came() {
    returns(&rich());
}

/// Scenario: the odd spellings of the fields of a request, one at a time.
/// Expected: MUST go out as they came.
#[test]
fn every_spelling_returns() {
    for fields in [
        json!({"system": "Be brief."}),
        json!({"system": ""}),
        json!({"system": []}),
        json!({"system": null}),
        json!({"system": [{"type": "text", "text": "one block"}]}),
        json!({"system": "s", "messages": [{"role": "system", "content": "t"}, {"role": "user", "content": "hi"}]}),
        json!({"messages": [{"role": "system", "content": "t"}, {"role": "user", "content": "hi"}]}),
        json!({"messages": []}),
        json!({"stream": false}),
        json!({"stream": null}),
        json!({"tools": []}),
        json!({"tools": null}),
        json!({"temperature": 0.25, "top_p": 1, "top_k": "many"}),
        json!({"temperature": null, "stop_sequences": []}),
        json!({"stop_sequences": ["a", 1]}),
        json!({"max_tokens": 0}),
        json!({"max_tokens": "64"}),
        json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": false}}),
        json!({"tool_choice": {"type": "any", "disable_parallel_tool_use": true}}),
        json!({"tool_choice": {"type": "none"}}),
        json!({"tool_choice": {"type": "future"}}),
        json!({"tool_choice": "auto"}),
        json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
        json!({"thinking": {"type": "disabled"}}),
        json!({"thinking": {"type": "between_tools"}}),
        json!({"thinking": {"type": "enabled"}}),
        json!({"thinking": null, "output_config": null}),
        json!({"thinking": "hard", "output_config": {"effort": 3}}),
        json!({"output_config": {"effort": "low"}}),
        json!({"output_config": {}}),
    ] {
        returns(&with(fields));
    }
}

/// Scenario: a rich request is read.
/// Expected: MUST stand in our words, so that layers and other protocols understand it.
#[test]
fn a_request_is_read_into_our_words() {
    let request = read_value(&rich());
    assert_eq!((request.protocol, request.stream), (Some(Protocol::AnthropicMessages), true));
    let options = &request.options;
    assert_eq!(options.max_output_tokens, Some(900));
    assert_eq!((options.temperature, options.top_p, options.top_k), (Some(1.0), Some(0.5), Some(40)));
    assert_eq!(options.stop, ["END", "STOP"]);
    assert_eq!(options.tool_choice, Some(ToolChoice::Named("look".into())));
    assert_eq!(options.parallel_tool_calls, Some(false));
    assert_eq!(options.reasoning.as_ref().unwrap().effort, Some(Effort::Tokens(2000)));
    let names: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["look", "bare", "with_schema", ""]);
    assert_eq!((request.tools[0].strict, request.tools[0].cache.is_some()), (Some(true), true));
    let roles: Vec<_> = request.messages.iter().map(|message| message.role).collect();
    let (system, user, assistant) = (Role::System, Role::User, Role::Assistant);
    assert_eq!(roles, [system, user, assistant, user, user, user, system, assistant, system, user]);
    assert_eq!(request.messages[0].parts[0].cache.as_ref().unwrap().ttl.as_deref(), Some("1h"));
    let asked = &request.messages[1].parts;
    assert_eq!(asked[1].cache.as_ref().unwrap().ttl.as_deref(), Some("5m"));
    assert!(matches!(&asked[6].content, Content::Image(media) if matches!(media.source, Source::Url(_))));
    assert!(matches!(&asked[9].content, Content::File(media) if media.name.as_deref() == Some("A")));
    let said = &request.messages[2];
    assert!(
        matches!(&said.parts[1].content, Content::Reasoning(it) if it.encrypted.as_deref() == Some("cipher"))
    );
    let calls: Vec<_> = said.tool_calls().map(|call| call.arguments.as_str()).collect();
    assert_eq!(calls[0], r#"{"at":"it","big":9007199254740993,"n":1.5}"#);
    assert_eq!(calls[1..], ["{}", "{\"half", "[1]", "{}"]);
    let Content::ToolResult(result) = &request.messages[3].parts[0].content else { panic!("a result") };
    assert_eq!((result.id.as_str(), result.is_error), ("t1", true));
}

/// Scenario: efforts in all their spellings.
/// Expected: MUST mean what they say: a budget or a switch before a word, the word before "as it sees fit".
#[test]
fn thinking_means_an_effort() {
    let named = |word: &str| Some(Effort::Named(word.into()));
    for (fields, effort) in [
        (json!({}), None),
        (json!({"thinking": {"type": "adaptive"}}), Some(Effort::Adaptive)),
        (json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}), named("max")),
        (json!({"output_config": {"effort": "low"}}), named("low")),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 5}}), Some(Effort::Tokens(5))),
        (json!({"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}), Some(Effort::Off)),
        (json!({"thinking": {"type": "between_tools"}}), Some(Effort::Adaptive)),
    ] {
        let request = read_value(&with(fields));
        assert_eq!(request.options.reasoning.as_ref().and_then(|it| it.effort.clone()), effort);
    }
}

/// Scenario: a layer changes what was read: options, thinking, tools, a system turn.
/// Expected: MUST go out as changed, without a trace of the spelling before.
#[test]
fn what_a_layer_changes_goes_out_changed() {
    let mut request = read_value(&rich());
    let parts = request.edit();
    parts.options.temperature = None;
    parts.options.max_output_tokens = Some(5000);
    parts.options.reasoning = Some(ReasoningOptions::new(Effort::Off));
    parts.messages.insert(0, Message::text(Role::System, "First."));
    let body = sent(&request);
    assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(5000), &Value::Null));
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    assert_eq!(body["output_config"], json!({"format": {"type": "json_schema", "schema": {}}, "odd": 1}));
    assert_eq!(body["system"][0], json!({"type": "text", "text": "First."}));
    assert_eq!(body["system"][1]["text"], "Be brief.");
    let body = sent(&request.without_tools());
    assert_eq!((&body["tools"], &body["tool_choice"]), (&Value::Null, &Value::Null));
}

/// Scenario: an agent adds the results of tools, turn by turn, and the user's words to a request read here.
/// Expected: MUST be one user turn, results first; turns that were read as two MUST stay two.
#[test]
fn results_of_tools_become_one_user_turn() {
    let call = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
        {"type": "tool_use", "id": "t2", "name": "f", "input": {}}
    ]});
    let user = json!({"role": "user", "content": "hi"});
    let request = read_value(&with(json!({"messages": [user, user, call]})))
        .message(Message::tool_results([ToolResult::text("t1", "one")]))
        .message(Message::tool_results([ToolResult::text("t2", "two").failed()]))
        .user("go on");
    let answers = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "t2", "content": "two", "is_error": true},
        {"type": "text", "text": "go on"}
    ]});
    assert_eq!(sent(&request)["messages"], json!([user, user, call, answers]));
}

/// Scenario: thinking goes to the instance that made it, and to others.
/// Expected: MUST go out unmodified to the one, and not at all to the others, with nothing else missing.
#[test]
fn thinking_goes_back_to_whoever_made_it() {
    let said = json!([
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "cipher"},
        {"type": "text", "text": "So."},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
    ]);
    let mut request = read_value(&saying("assistant", said.clone()));
    let dialect = Dialect::default();
    let mut target = Target::new("m", &dialect);
    assert_eq!(sent_to(&request, &target)["messages"][0]["content"], said);
    target.owns_unlabelled = false;
    let stripped = json!([said[2], said[3]]);
    assert_eq!(sent_to(&request, &target)["messages"][0]["content"], stripped);
    for part in &mut request.edit().messages[0].parts {
        if let Content::Reasoning(reasoning) = &mut part.content {
            reasoning.origin = Some(Arc::from("here"));
        }
    }
    target.instance = Some("here");
    assert_eq!(sent_to(&request, &target)["messages"][0]["content"], said);
    target.instance = Some("elsewhere");
    target.owns_unlabelled = true;
    assert_eq!(sent_to(&request, &target)["messages"][0]["content"], stripped);
}

/// Scenario: arguments as models make them: none, null, half, a list, a number, too deep; and a cap that is missing.
/// Expected: MUST never fail the call nor lose what the model wrote.
#[test]
fn arguments_that_are_no_object_go_out_whole() {
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let deep = format!("{{\"a\":{deep}}}");
    let raw = |text: &str| json!({ RAW_ARGUMENTS: text });
    for (arguments, input) in [
        ("", json!({})),
        (" \n", json!({})),
        ("null", json!({})),
        ("{\"a\":1.0}", json!({"a": 1.0})),
        ("{\"a\":", raw("{\"a\":")),
        ("[1]", raw("[1]")),
        ("7", raw("7")),
        (deep.as_str(), raw(&deep)),
    ] {
        let call = json!({"type": "tool_use", "id": "t1", "name": "f", "input": {}});
        let mut request = read_value(&saying("assistant", json!([call])));
        let parts = request.edit();
        parts.options.max_output_tokens = None;
        let Content::ToolCall(call) = &mut parts.messages[0].parts[0].content else { panic!("a call") };
        call.arguments = arguments.to_owned();
        let body = sent(&request);
        assert_eq!(body["messages"][0]["content"][0]["input"], input);
        assert_eq!(body["max_tokens"], json!(DEFAULT_MAX_TOKENS));
        read_value(&body);
    }
}

/// Scenario: the model is named in the address.
/// Expected: MUST not be in the body.
#[test]
fn the_model_is_left_out_where_the_address_names_it() {
    let dialect = Dialect { model_in_url: true, ..Dialect::default() };
    assert_eq!(sent_to(&read_value(&with(json!({}))), &Target::new("m", &dialect)).get("model"), None);
}

/// Scenario: requests whose shape our words cannot hold.
/// Expected: MUST be refused here, saying where.
#[test]
fn a_broken_request_is_refused_with_its_place() {
    let turn = |turn: Value| with(json!({"messages": [{"role": "user", "content": "hi"}, turn]}));
    for (body, place) in [
        (json!([]), "the body"),
        (json!({"model": "m"}), "messages"),
        (with(json!({"model": 1})), "model"),
        (with(json!({"stream": "yes"})), "stream"),
        (with(json!({"system": 1})), "system"),
        (with(json!({"system": [1]})), "system[0]"),
        (with(json!({"messages": {}})), "messages"),
        (turn(json!(1)), "messages[1]"),
        (turn(json!({"content": "x"})), "messages[1].role"),
        (turn(json!({"role": "tool", "content": "x"})), "messages[1].role"),
        (turn(json!({"role": "user"})), "messages[1].content"),
        (turn(json!({"role": "user", "content": ["x"]})), "messages[1].content[0]"),
        (with(json!({"tools": {}})), "tools"),
        (with(json!({"tools": [1]})), "tools[0]"),
        (with(json!({"tools": [{"input_schema": {}}]})), "tools[0].name"),
    ] {
        let failure = read(body.to_string().as_bytes()).unwrap_err();
        assert_eq!((failure.code(), failure.is_local()), (Code::InvalidRequest, true));
        assert!(failure.message().starts_with(&format!("{place}: ")), "{place}: {failure}");
    }
    assert_eq!(read(b"{").unwrap_err().code(), Code::InvalidRequest);
}

/// JSON of any shape, with the words of this protocol among its own.
fn anything() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("type"),
        Just("text"),
        Just("content"),
        Just("source"),
        Just("input"),
        Just("cache_control"),
        Just("tool_use"),
        Just("tool_result"),
        Just("tool_use_id"),
        Just("thinking"),
        Just("image"),
        Just("base64"),
        Just("data"),
        Just("ephemeral"),
        Just("role"),
        Just("user"),
        Just("id"),
        Just("name"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        let fields = prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Scenario: turns of blocks of any shape, and any bytes.
    /// Expected: MUST never panic; what can be read MUST be written, and be the same once it was read again.
    #[test]
    fn whatever_is_read_can_be_written(blocks in prop::collection::vec(anything(), 0..4), bytes in any::<Vec<u8>>()) {
        let _ = read(&bytes);
        let body = saying("user", Value::from(blocks)).to_string();
        if let Ok(request) = read(body.as_bytes()) {
            let dialect = Dialect::default();
            let once = encode(&request, &Target::new("m", &dialect)).unwrap();
            let again = encode(&read(&once).unwrap(), &Target::new("m", &dialect)).unwrap();
            prop_assert_eq!(once, again);
        }
    }
}
