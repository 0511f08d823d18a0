//! The three protocols from bytes to events: any cut of the bytes gives the same result.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use watertight::chat::{Content, Event, Protocol, Source, Stop};
use watertight::failure::{Code, Failure};
use watertight::protocol::{self, Decoder, Dialect, Target, errors, sse};
use watertight::testing::{ScriptedReply, Wording};
use watertight::time::Wall;

const PROTOCOLS: [(Protocol, Wording); 3] = [
    (Protocol::OpenaiChat, Wording::Chat),
    (Protocol::OpenaiResponses, Wording::Responses),
    (Protocol::AnthropicMessages, Wording::Messages),
];

/// A stream with everything in it: reasoning, text that is not ASCII, a tool call, usage, the terminal marker.
fn full(spoken: Wording) -> Vec<u8> {
    let reply = ScriptedReply::of(["Naïve ", "漢字 ", "🦀, \"quoted\"\n"])
        .reasoning("First I think.")
        .calling("call_1", "weather", json!({"city": "Ålesund", "days": 2}))
        .usage(11, 7);
    reply.streamed(spoken).chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect()
}

/// Reads pieces of a stream as a provider does.
fn read<'a>(protocol: Protocol, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Option<Failure>) {
    let wall = Wall::at(Duration::from_secs(1_800_000_000));
    let mut parser = sse::Parser::new(sse::DEFAULT_LIMIT);
    let mut decoder = Decoder::new(protocol, &Dialect::default(), wall);
    let mut out = VecDeque::new();
    let mut failure = None;
    let mut take = |item: sse::Item, out: &mut VecDeque<Event>| {
        if let (sse::Item::Event(frame), None) = (&item, &failure)
            && frame.is_terminated()
            && !decoder.is_done()
        {
            failure = decoder.frame(frame, out).err();
        }
    };
    for piece in pieces {
        parser.push(Bytes::copy_from_slice(piece));
        while let Some(item) = parser.next().expect("no event is too large") {
            take(item, &mut out);
        }
    }
    while let Some(item) = parser.finish().expect("no event is too large") {
        take(item, &mut out);
    }
    if failure.is_none() && !decoder.is_done() {
        failure = decoder.end(&mut out).err();
    }
    (out.into(), failure)
}

/// Scenario: each protocol's full stream is read whole.
/// Expected: MUST give the reasoning, the text, the call, the usage and the stop that went in.
#[tokio::test(start_paused = true)]
async fn a_full_stream_gives_what_went_in() {
    for (protocol, spoken) in PROTOCOLS {
        let (events, failure) = read(protocol, [full(spoken).as_slice()]);
        assert!(failure.is_none(), "{protocol:?}: {failure:?}");
        let Some(Event::Completed(done)) = events.last() else { panic!("{protocol:?}: {events:?}") };
        assert_eq!(done.message.to_text(), "Naïve 漢字 🦀, \"quoted\"\n", "{protocol:?}");
        let reasons = |content: &Content| matches!(content, Content::Reasoning(thought) if thought.text == "First I think.");
        assert!(done.message.parts.iter().any(|part| reasons(&part.content)), "{protocol:?}: {done:?}");
        let call = done.message.tool_calls().next().expect("a call");
        assert_eq!((call.id.as_str(), call.name.as_str()), ("call_1", "weather"));
        let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
        assert_eq!(arguments, json!({"city": "Ålesund", "days": 2}));
        assert_eq!(done.stop, Stop::ToolCalls);
        let usage = done.usage.expect("usage");
        assert_eq!((usage.input, usage.output), (11, 7), "{protocol:?}");
    }
}

/// Scenario: each protocol's full stream is cut into two at every byte, and into single bytes.
/// Expected: MUST give the same events as in one piece.
#[tokio::test(start_paused = true)]
async fn any_cut_of_the_bytes_gives_the_same_events() {
    for (protocol, spoken) in PROTOCOLS {
        let bytes = full(spoken);
        let whole = format!("{:?}", read(protocol, [bytes.as_slice()]));
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(format!("{:?}", read(protocol, [head, tail])), whole, "{protocol:?} cut at {at}");
        }
        assert_eq!(format!("{:?}", read(protocol, bytes.chunks(1))), whole, "{protocol:?} byte by byte");
    }
}

/// Scenario: each protocol's full stream ends after every byte.
/// Expected: MUST complete only once the terminal marker was read, else be TRUNCATED; text already told MUST be a
/// prefix of the whole, and no half call MUST be complete.
#[tokio::test(start_paused = true)]
async fn an_early_end_is_never_a_success() {
    for (protocol, spoken) in PROTOCOLS {
        let bytes = full(spoken);
        // Where the answer is complete: after the frame with the terminal marker.
        let marker: &[u8] = match protocol {
            Protocol::OpenaiChat => b"\"finish_reason\":\"tool_calls\"",
            Protocol::OpenaiResponses => b"\"type\":\"response.completed\"",
            _ => b"\"type\":\"message_stop\"",
        };
        let at = bytes.windows(marker.len()).position(|window| window == marker).expect("the marker");
        let complete =
            at + bytes[at..].windows(2).position(|window| window == b"\n\n").expect("its frame ends") + 2;
        for end in 0..bytes.len() {
            let (events, failure) = read(protocol, [&bytes[..end]]);
            let completed = matches!(events.last(), Some(Event::Completed(_)));
            // The blank line may be left out by its last byte and still end the frame.
            assert_eq!(completed, end >= complete, "{protocol:?} ended at {end} of {complete}");
            let code = failure.map(|failure| failure.code());
            assert_eq!(code, (!completed).then_some(Code::Truncated), "{protocol:?} ended at {end}");
        }
    }
}

/// A request with every kind of part, tool, option and unknown field that a protocol has.
fn rich(protocol: Protocol) -> Value {
    match protocol {
        Protocol::OpenaiResponses => rich_responses(),
        Protocol::AnthropicMessages => rich_messages(),
        _ => rich_chat(),
    }
}

fn rich_responses() -> Value {
    json!({
        "model": "m", "stream": true, "instructions": "Be brief.", "temperature": 0.25, "top_p": 0.5,
        "max_output_tokens": 900, "parallel_tool_calls": false, "tool_choice": {"type": "function", "name": "f"},
        "reasoning": {"effort": "low", "summary": "auto"}, "text": {"format": {"type": "json_object"}},
        "previous_response_id": "resp_1", "store": false, "metadata": {"a": "b"}, "unknown": [1, null],
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true, "x": 1},
            {"type": "web_search", "filters": {"allowed_domains": ["example.org"]}}
        ],
        "input": [
            {"type": "message", "role": "developer", "content": "Mind the gap."},
            {"role": "user", "content": [
                {"type": "input_text", "text": "look", "x": true},
                {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "low"},
                {"type": "input_image", "file_id": "file_1"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
                {"type": "input_hologram", "depth": 3}
            ]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "zzz"},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "final",
             "content": [{"type": "output_text", "text": "so", "annotations": []}, {"type": "refusal", "refusal": "no"}]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{\"a\":1}", "status": "completed"},
            {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "42"}]},
            {"type": "item_reference", "id": "msg_0"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"}
        ]
    })
}

fn rich_messages() -> Value {
    json!({
        "model": "m", "stream": true, "max_tokens": 900, "temperature": 0.25, "top_p": 0.5, "top_k": 40,
        "stop_sequences": ["END"], "thinking": {"type": "enabled", "budget_tokens": 2000},
        "metadata": {"user_id": "u"}, "service_tier": "auto", "unknown": {"a": [1]},
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "tools": [
            {"name": "f", "description": "d", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}, "x": 1},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
        ],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}, "x": true},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
                {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}, "title": "A"},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}},
                {"type": "hologram", "depth": 3}
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "zzz"},
                {"type": "text", "text": "so", "citations": []},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1, "b": [1.5, "x"]}},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "42", "is_error": true},
                {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "43"}], "is_error": false},
                {"type": "text", "text": "go on"}
            ]},
            {"role": "system", "content": "Mind the gap."},
            {"role": "user", "content": "plain"}
        ]
    })
}

fn rich_chat() -> Value {
    json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true, "include_obfuscation": false},
        "temperature": 0.25, "top_p": 0.5, "max_tokens": 10, "max_completion_tokens": 900, "n": 1, "seed": -7,
        "stop": "END", "parallel_tool_calls": false, "reasoning_effort": "low", "unknown": {"a": [1]},
        "tool_choice": {"type": "function", "function": {"name": "f"}}, "response_format": {"type": "json_object"},
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true, "x": 1}},
            {"type": "custom", "custom": {"name": "g"}}
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Mind the gap."}], "name": "dev"},
            {"role": "user", "content": [
                {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
                {"type": "file", "file": {"file_id": "file_1"}},
                {"type": "hologram", "depth": 3}
            ]},
            {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "42"},
            {"role": "assistant", "content": "so", "refusal": null},
            {"role": "user", "content": "plain"}
        ]
    })
}

/// The two spellings that mean the same: null for absence, and a list of one plain text for the text.
fn normal(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, normal(value)))
            .collect(),
        Value::Array(items) => match items.as_slice() {
            [Value::Object(only)]
                if only.len() == 2 && only.contains_key("type") && only.contains_key("text") =>
            {
                only["text"].clone()
            }
            _ => items.into_iter().map(normal).collect(),
        },
        other => other,
    }
}

/// Scenario: a request with everything a protocol has, and with fields nobody knows, is read and written again.
/// Expected: MUST be the same JSON.
#[test]
fn a_request_sent_in_its_own_protocol_loses_nothing() {
    for (protocol, _) in PROTOCOLS {
        let before = rich(protocol);
        let request = protocol::read(protocol, before.to_string().as_bytes()).expect("it can be read");
        let dialect = Dialect::default();
        let bytes =
            protocol::encode(protocol, &request, &Target::new("m", &dialect)).expect("it can be written");
        let after: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(normal(after), normal(before), "{protocol:?}");
    }
}

/// Scenario: a request of each protocol is written in each other one.
/// Expected: MUST keep the words, the call and its result, the tool and the cap; MUST hold nothing of the other
/// protocol's own fields, and no replay state.
#[test]
fn a_request_sent_in_another_protocol_keeps_its_meaning_and_nothing_foreign() {
    for (from, _) in PROTOCOLS {
        for (to, _) in PROTOCOLS.into_iter().filter(|(to, _)| *to != from) {
            let mut request =
                protocol::read(from, rich(from).to_string().as_bytes()).expect("it can be read");
            // What lies at a provider under an id cannot be sent to another, and not every protocol carries sound.
            for message in &mut request.edit().messages {
                let held = |content: &Content| match content {
                    Content::Image(media) | Content::File(media) => {
                        matches!(media.source, Source::Id(_) | Source::Url(_))
                    }
                    Content::Audio(_) => to == Protocol::AnthropicMessages,
                    _ => false,
                };
                message.parts.retain(|part| !held(&part.content));
            }
            let dialect = Dialect::default();
            let mut target = Target::new("other", &dialect);
            target.owns_unlabelled = false;
            let bytes = protocol::encode(to, &request, &target)
                .unwrap_or_else(|failure| panic!("{from:?} to {to:?}: {failure}"));
            let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
            for kept in ["Be brief.", "look", "so", "42", "900", "other", "\"f\""] {
                assert!(text.contains(kept), "{from:?} to {to:?} lost {kept}: {text}");
            }
            for foreign in ["unknown", "hologram", "zzz", "\"sig\"", "previous_response_id", "item_reference"]
            {
                assert!(!text.contains(foreign), "{from:?} to {to:?} sent {foreign}: {text}");
            }
            protocol::read(to, text.as_bytes())
                .unwrap_or_else(|failure| panic!("{from:?} to {to:?}: {failure}"));
        }
    }
}

/// Scenario: error bodies of every shape end after every byte, as a broken connection leaves them.
/// Expected: MUST be a failure with a message of one line, whatever is left of the body; MUST be never a success.
#[test]
fn a_torn_error_body_is_still_a_failure() {
    let bodies = [
        json!({"error": {"message": "No", "type": "invalid_request_error", "param": null, "code": "insufficient_quota"}}),
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}, "request_id": "r"}),
        json!({"object": "error", "message": "Slow down", "type": "rate_limited", "code": "1300", "raw_status_code": 429}),
        json!([{"error": {"code": 429, "message": "Please retry in 55.57s", "status": "RESOURCE_EXHAUSTED"}}]),
    ];
    for body in bodies {
        let text = body.to_string();
        for end in 0..=text.len() {
            let part = text.as_bytes().get(..end).expect("ASCII");
            let failure =
                errors::classify(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), part, Duration::ZERO);
            assert_eq!(failure.status(), Some(StatusCode::TOO_MANY_REQUESTS));
            assert!(!failure.message().contains('\n'), "{failure}");
        }
    }
}
