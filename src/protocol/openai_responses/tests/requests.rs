use std::sync::Arc;

use serde_json::{Value, json};

use crate::chat::{
    Content, Effort, Message, Part, Parts, Protocol, Reasoning, ReasoningOptions, Request, Role, Tool,
    ToolCall, ToolChoice, ToolResult,
};
use crate::failure::{Code, Failure};
use crate::protocol::openai_responses::{encode, is_stateful, read};
use crate::protocol::{Dialect, Target};

fn read_json(body: &Value) -> Request {
    read(body.to_string().as_bytes()).expect("it can be read")
}

fn refusal(body: &Value) -> Failure {
    read(body.to_string().as_bytes()).expect_err("it is refused")
}

fn written(parts: &Parts, target: &Target<'_>) -> Value {
    serde_json::from_slice(&encode(parts, target).expect("it can be written")).expect("JSON")
}

/// As the first candidate gets it.
fn sent(parts: &Parts) -> Value {
    written(parts, &Target::new("m", &Dialect::default()))
}

fn rich() -> Value {
    json!({
        "model": "m", "stream": true, "stream_options": {"include_obfuscation": false},
        "instructions": "Be brief.", "temperature": 1, "top_p": 0.5, "max_output_tokens": 900,
        "parallel_tool_calls": false, "tool_choice": {"type": "function", "name": "f"},
        "reasoning": {"effort": "low", "summary": "auto", "x": 1},
        "text": {"format": {"type": "json_schema", "name": "a", "schema": {}}, "verbosity": "low"},
        "previous_response_id": "resp_1", "conversation": null, "store": false, "metadata": {"a": "b"},
        "include": ["reasoning.encrypted_content"], "truncation": "auto", "prompt_cache_key": "k",
        "unknown": [1, null, {"deep": 1.5}],
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true, "x": 1},
            {"type": "function", "name": "g", "description": null, "parameters": null, "strict": null},
            {"type": "web_search", "filters": {"allowed_domains": ["example.org"]}},
            {"type": "custom", "name": "sh", "format": {"type": "text"}},
            {"type": "mcp", "server_label": "s", "server_url": "https://example.org"}
        ],
        "input": rich_input()
    })
}

fn rich_input() -> Value {
    json!([
            {"type": "message", "role": "developer", "content": "Mind the gap."},
            {"role": "system", "content": [{"type": "input_text", "text": "alone"}], "x": 1},
            {"role": "user", "content": "plain"},
            {"type": "message", "id": "msg_u", "status": "completed", "role": "user", "content": [
                {"type": "input_text", "text": "look", "x": true},
                {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "low"},
                {"type": "input_image", "image_url": "https://example.org/a.png", "file_id": null, "detail": "auto"},
                {"type": "input_image", "file_id": "file_1", "detail": "high"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
                {"type": "input_file", "file_data": "QUJD"},
                {"type": "input_file", "file_url": "https://example.org/a.pdf"},
                {"type": "input_file", "file_id": "file_2"},
                {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav", "x": 1}},
                {"type": "input_hologram", "depth": 3}
            ]},
            {"role": "user", "content": [{"type": "input_hologram", "depth": 4}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "zzz", "status": null},
            {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "deep"}], "encrypted_content": null},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
             "content": [{"type": "output_text", "text": "so", "annotations": [], "logprobs": []}, {"type": "refusal", "refusal": "no"}]},
            {"type": "message", "role": "assistant", "phase": "final", "content": [{"type": "output_text", "text": "then"}]},
            {"type": "message", "role": "assistant", "content": "as a string"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{\"a\": 1}", "status": "completed"},
            {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_2", "name": "sh", "input": "ls -l"},
            {"type": "function_call_output", "id": "fo_1", "call_id": "call_1", "output": [
                {"type": "input_text", "text": "42"}, {"type": "input_image", "file_id": "file_3"}]},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "a b c", "status": "completed"},
            {"type": "function_call_output", "call_id": "call_3", "output": []},
            {"type": "item_reference", "id": "msg_0"},
            {"id": "bare", "type": "compaction", "encrypted_content": "yyy"},
            {"type": "message", "role": "critic", "content": "unheard of"},
            {"type": "message", "role": "assistant", "content": [], "id": "msg_2"},
            {"role": "user", "content": ""}
    ])
}

/// Scenario: a request with every kind of item, part, tool and option, and unknown fields at every level, is read
/// and written again.
/// Expected: MUST be the same JSON.
#[test]
fn a_request_sent_in_its_own_protocol_is_the_same() {
    let before = rich();
    let after = sent(&read_json(&before));
    for (name, value) in before.as_object().expect("an object") {
        match (value, &after[name]) {
            (Value::Array(before), Value::Array(after)) => {
                for (i, (before, after)) in before.iter().zip(after).enumerate() {
                    assert_eq!(after, before, "{name}[{i}]");
                }
            }
            (before, after) => assert_eq!(after, before, "{name}"),
        }
    }
    assert_eq!(after, before);
}

/// Scenario: requests at the edges of the protocol.
/// Expected: MUST come out as they came.
#[test]
fn odd_requests_are_the_same_too() {
    for body in [
        json!({"model": "m", "input": "hi"}),
        json!({"model": "m", "input": "hi", "instructions": "x", "stream": false}),
        json!({"model": "m", "input": [], "tools": []}),
        json!({"model": "m", "input": null, "instructions": null, "tools": null, "temperature": null}),
        json!({"model": "m", "prompt": {"id": "p"}, "reasoning": {}}),
        json!({"model": "m", "input": "hi", "reasoning": {"effort": "none"}}),
        json!({"model": "m", "input": "hi", "reasoning": {"effort": null, "summary": "auto"}}),
        json!({"model": "m", "input": "hi", "tools": [{"type": "web_search"}],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}),
        json!({"model": "m", "input": [{"role": "user", "content": "hi"}], "tool_choice": "required"}),
    ] {
        assert_eq!(sent(&read_json(&body)), body);
    }
}

/// Scenario: a turn of the model is read without a type.
/// Expected: MUST get one, since some servers know it by that alone.
#[test]
fn a_turn_of_the_model_gets_its_type() {
    let request = read_json(&json!({"model": "m", "input": [{"role": "assistant", "content": "hi"}]}));
    let item = json!({"type": "message", "role": "assistant", "content": "hi"});
    assert_eq!(sent(&request)["input"][0], item);
}

/// Scenario: an agent's conversation: reasoning, a message, two calls, two results.
/// Expected: MUST be one turn of the model and one of the tools, in our words.
#[test]
fn neighbouring_items_make_one_turn() {
    let request = read_json(&json!({"model": "m", "input": [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "web_search_call", "id": "ws"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": {"x": 1}},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
        {"role": "user", "content": "and?"}
    ]}));
    let roles: Vec<_> = request.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::User]);
    let calls: Vec<_> = request.messages[1].tool_calls().map(|call| call.arguments.as_str()).collect();
    assert_eq!(calls, ["{}", "{\"x\":1}"]);
    assert_eq!(request.messages[2].parts.len(), 2);
}

/// Scenario: the options of a request.
/// Expected: MUST be read into our words, and what a layer changes MUST be what is sent.
#[test]
fn options_are_words_that_can_be_changed() {
    let mut request = read_json(&rich());
    let options = request.options.clone();
    assert_eq!(
        (options.temperature, options.top_p, options.max_output_tokens),
        (Some(1.0), Some(0.5), Some(900))
    );
    assert_eq!(options.tool_choice, Some(ToolChoice::Named("f".into())));
    assert_eq!(options.parallel_tool_calls, Some(false));
    let effort = options.reasoning.and_then(|reasoning| reasoning.effort);
    assert_eq!(effort, Some(Effort::Named("low".into())));
    let options = &mut request.edit().options;
    options.temperature = None;
    options.top_p = Some(0.75);
    options.max_output_tokens = Some(10);
    options.reasoning.as_mut().expect("reasoning").effort = Some(Effort::Off);
    let body = sent(&request);
    assert_eq!(body.get("temperature"), None);
    assert_eq!((&body["top_p"], &body["max_output_tokens"]), (&json!(0.75), &json!(10)));
    assert_eq!(body["reasoning"], json!({"effort": "none", "summary": "auto", "x": 1}));
}

/// Scenario: a stream is turned off, and tools are taken away, on the way.
/// Expected: MUST NOT send what is refused without them.
#[test]
fn what_depends_on_a_stream_or_tools_goes_with_them() {
    let body = json!({"model": "m", "input": "hi", "stream": true, "stream_options": {"include_obfuscation": true},
        "tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}});
    let mut request = read_json(&body).without_tools();
    request.edit().stream = false;
    assert_eq!(sent(&request), json!({"model": "m", "input": "hi"}));
}

/// Scenario: requests that are not the protocol.
/// Expected: MUST be refused by us, naming the place.
#[test]
fn a_wrong_request_is_refused_with_its_place() {
    for (body, place) in [
        (json!([]), "the body"),
        (json!({"model": 1}), "model"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"instructions": 5}), "instructions"),
        (json!({"input": 5}), "input"),
        (json!({"input": ["hi"]}), "input[0]"),
        (json!({"input": [{"role": "user", "content": "hi"}, {"x": 1}]}), "input[1]"),
        (json!({"input": [{"role": "user"}]}), "input[0].content"),
        (json!({"input": [{"type": "function_call", "name": "f", "arguments": ""}]}), "input[0].call_id"),
        (json!({"input": [{"type": "function_call", "call_id": "c"}]}), "input[0].name"),
        (json!({"input": [{"type": "function_call_output", "output": ""}]}), "input[0].call_id"),
        (json!({"input": [{"type": "function_call_output", "call_id": "c"}]}), "input[0].output"),
        (json!({"tools": {}}), "tools"),
        (json!({"tools": [1]}), "tools[0]"),
        (json!({"tools": [{"type": "function"}]}), "tools[0]"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"max_output_tokens": -1}), "max_output_tokens"),
        (json!({"parallel_tool_calls": 1}), "parallel_tool_calls"),
    ] {
        let failure = refusal(&body);
        assert_eq!((failure.code(), failure.is_local()), (Code::InvalidRequest, true), "{body}");
        assert!(failure.message().starts_with(&format!("{place}: ")), "{body}: {failure}");
    }
    assert_eq!(read(b"{").expect_err("half").code(), Code::InvalidRequest);
}

/// Scenario: conversations held on the provider's server, and others.
/// Expected: MUST be told apart; null holds nothing.
#[test]
fn a_conversation_on_the_server_is_stateful() {
    for (held, body) in [
        (true, json!({"previous_response_id": "r"})),
        (true, json!({"conversation": {"id": "c"}})),
        (true, json!({"input": [{"role": "user", "content": "a"}, {"type": "item_reference", "id": "i"}]})),
        (false, json!({"previous_response_id": null, "conversation": null, "input": "hi", "store": true})),
    ] {
        assert_eq!(is_stateful(&read_json(&body)), held, "{body}");
    }
    assert!(!is_stateful(&Request::new("m").user("hi")));
}

/// Reasoning that an instance made.
fn thought(origin: Option<&str>) -> Part {
    let body = json!({"input": [{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}]});
    let mut part = read_json(&body).messages[0].parts[0].clone();
    if let Content::Reasoning(reasoning) = &mut part.content {
        reasoning.origin = origin.map(Arc::from);
    }
    part
}

/// Scenario: reasoning of one instance, with a call beside it, is sent to that instance, to another, and to a
/// candidate that owns nothing unlabelled.
/// Expected: MUST go to its maker alone; elsewhere MUST go without the ids of the items beside it.
#[test]
fn reasoning_goes_back_to_its_maker_alone_and_ids_with_it() {
    let mut request = read_json(&json!({"input": [
        {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "message", "id": "msg", "role": "assistant", "content": "hi"}
    ]}));
    request.edit().messages[0].parts.insert(0, thought(Some("a")));
    let dialect = Dialect::default();
    let mut target = Target::new("m", &dialect);
    for (instance, unlabelled, kept) in [("a", true, true), ("b", true, false), ("a", false, true)] {
        (target.instance, target.owns_unlabelled) = (Some(instance), unlabelled);
        let body = written(&request, &target);
        let items = body["input"].as_array().expect("items");
        assert_eq!(items.iter().any(|item| item["type"] == "reasoning"), kept, "{instance}");
        let ids = kept && unlabelled;
        let named = |kind: &str| items.iter().any(|item| item["type"] == kind && item.get("id").is_some());
        assert_eq!((named("function_call"), named("message")), (ids, ids), "{instance} {unlabelled}");
    }
}

/// Scenario: a conversation of another protocol, with what this one has no word for.
/// Expected: MUST keep roles, pictures, calls and results; MUST drop thoughts, signatures, foreign parts and
/// options without a word here; silence about strictness MUST stay lax.
#[test]
fn a_request_of_another_protocol_is_translated() {
    let foreign = Protocol::AnthropicMessages;
    let thinking = Reasoning {
        text: "hm".into(),
        signature: Some("sig".into()),
        encrypted: Some("sealed".into()),
        ..Reasoning::default()
    };
    let mut turn = Message::text(Role::Assistant, "so");
    turn.parts.insert(0, Content::Reasoning(thinking).into());
    turn.parts.push(Content::ToolCall(ToolCall::new("c", "f", "{\"a\":1}")).into());
    let mut user = Message::tool_results([ToolResult::text("c", "42").failed()]);
    user.role = Role::User;
    user.parts.push(Part::text("go on"));
    user.parts.push(Content::Other(foreign, json!({"type": "hologram"})).into());
    let mut lone = Message::new(Role::User, vec![Content::Other(foreign, json!({})).into()]);
    lone.extra.set(foreign, "x", 1);
    let mut request = Request::new("m")
        .system("Be brief.")
        .message(turn)
        .message(user)
        .message(lone)
        .tool(Tool::new("f", "d", json!({"type": "object"})));
    let parts = request.edit();
    parts.protocol = Some(foreign);
    parts.extra.set(foreign, "top", 1);
    parts.options.top_k = Some(4);
    parts.options.stop = vec!["END".into()];
    parts.options.reasoning = Some(ReasoningOptions::new(Effort::Tokens(3_000)));
    let body = sent(&request);
    let expected = json!({
        "model": "m",
        "reasoning": {"effort": "medium"},
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": false}],
        "input": [
            {"role": "system", "content": "Be brief."},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so", "annotations": []}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"a\":1}"},
            {"type": "function_call_output", "call_id": "c", "output": "42"},
            {"role": "user", "content": [{"type": "input_text", "text": "go on"}]}
        ]
    });
    assert_eq!(body, expected);
}

/// Scenario: a custom tool was called, and an agent answers without saying which kind of item that is.
/// Expected: MUST be the kind that belongs to the call.
#[test]
fn the_result_of_a_custom_tool_is_known_by_its_call() {
    let request = read_json(&json!({"input": [
        {"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls"}
    ]}));
    let request = request.message(Message::tool_results([ToolResult::text("c", "a b")]));
    let expected = json!({"type": "custom_tool_call_output", "call_id": "c", "output": "a b"});
    assert_eq!(sent(&request)["input"][1], expected);
}

/// Scenario: a system turn is put before, or the input is added to, where both were strings.
/// Expected: MUST keep the instructions in their place and turn the input into items.
#[test]
fn strings_become_items_once_something_is_added() {
    let request = read_json(&json!({"model": "m", "instructions": "Be brief.", "input": "hi"}));
    let request = request.assistant("hello").user("more");
    let body = sent(&request);
    assert_eq!(body["instructions"], "Be brief.");
    let roles: Vec<_> = body["input"].as_array().expect("items").iter().map(|item| &item["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

/// Scenario: a number that JSON cannot hold.
/// Expected: MUST be refused by us.
#[test]
fn a_number_that_is_none_is_refused() {
    let request = Request::new("m").user("hi").temperature(f64::NAN);
    let failure = encode(&request, &Target::new("m", &Dialect::default())).expect_err("it is refused");
    assert_eq!((failure.code(), failure.is_local()), (Code::InvalidRequest, true));
}
