use serde_json::{Value, json};

use super::*;
use crate::testing::Step;

fn reply() -> ScriptedReply {
    let call = json!({ "city": "Zürich" });
    ScriptedReply::of(["Hel", "lo"]).usage(9, 3).reasoning("hm").calling("call_1", "look_up", call).pace(20)
}

/// The events of a stream: name and data.
fn events(step: &Step) -> Vec<(String, Value)> {
    let event = |chunk: &crate::testing::Chunk| {
        let text = std::str::from_utf8(&chunk.data).expect("text").trim_end();
        let (name, data) =
            text.split_once("\ndata: ").unwrap_or_else(|| ("", text.trim_start_matches("data: ")));
        let data = serde_json::from_str(data).unwrap_or_else(|_| json!(data));
        (name.trim_start_matches("event: ").to_owned(), data)
    };
    step.chunks.iter().map(event).collect()
}

/// All strings at this place of the events, joined.
fn joined(events: &[(String, Value)], place: &str) -> String {
    events.iter().filter_map(|(_, data)| data.pointer(place)?.as_str()).collect()
}

/// Scenario: a full turn in Chat Completions. Expected: nameless chunks, counts with no choices, then `[DONE]`.
#[test]
fn a_chat_stream_is_well_formed() {
    let events = events(&reply().streamed(Wording::Chat));
    assert!(events.iter().all(|(name, _)| name.is_empty()));
    let delta = "/choices/0/delta";
    assert_eq!(joined(&events, &format!("{delta}/content")), "Hello");
    assert_eq!(joined(&events, &format!("{delta}/reasoning_content")), "hm");
    assert_eq!(joined(&events, &format!("{delta}/tool_calls/0/id")), "call_1");
    assert_eq!(joined(&events, &format!("{delta}/tool_calls/0/function/arguments")), r#"{"city":"Zürich"}"#);
    assert_eq!(joined(&events, "/choices/0/finish_reason"), "tool_calls");
    let [.., (_, counts), (_, done)] = &events[..] else { panic!("too short") };
    assert_eq!((&counts["choices"], &counts["usage"]["total_tokens"]), (&json!([]), &json!(12)));
    assert!(events[0].1["usage"].is_null() && events[0].1.get("usage").is_some());
    assert_eq!(done, "[DONE]");
}

/// Scenario: a full turn in Responses. Expected: numbered events in order, items opened and closed, one terminal.
#[test]
fn a_responses_stream_is_well_formed() {
    let events = events(&reply().streamed(Wording::Responses));
    for (nth, (name, data)) in events.iter().enumerate() {
        assert_eq!((&data["type"], &data["sequence_number"]), (&json!(name), &json!(nth)));
    }
    let names: Vec<_> = events.iter().map(|(name, _)| name.trim_start_matches("response.")).collect();
    let text = ["output_text.delta", "output_text.delta", "output_text.done", "content_part.done"];
    let arguments = ["delta", "delta", "done"].map(|kind| format!("function_call_arguments.{kind}"));
    assert_eq!(names[..3], ["created", "in_progress", "output_item.added"]);
    assert_eq!(names[3..8].last(), Some(&"output_item.done"));
    assert_eq!(names[8..10], ["output_item.added", "content_part.added"]);
    assert_eq!(names[10..14], text);
    assert_eq!(names[14..16], ["output_item.done", "output_item.added"]);
    assert_eq!(names[16..19], arguments);
    assert_eq!(names[19..], ["output_item.done", "completed"]);
    let last = &events[20].1["response"];
    assert_eq!(last, &whole(&reply(), Wording::Responses));
    let kinds: Vec<_> = last["output"].as_array().expect("items").iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call"]);
}

/// Scenario: a full turn in Messages. Expected: every block opened and closed, the counts cumulative at the end.
#[test]
fn a_messages_stream_is_well_formed() {
    let events = events(&reply().streamed(Wording::Messages));
    assert!(events.iter().all(|(name, data)| data["type"] == json!(name)));
    assert_eq!(joined(&events, "/delta/text"), "Hello");
    assert_eq!(joined(&events, "/delta/thinking"), "hm");
    assert_eq!(joined(&events, "/delta/partial_json"), r#"{"city":"Zürich"}"#);
    assert_eq!(joined(&events, "/delta/stop_reason"), "tool_use");
    for kind in ["content_block_start", "content_block_stop"] {
        let indexes = events.iter().filter(|(name, _)| name == kind).map(|(_, data)| data["index"].as_u64());
        assert!(indexes.eq([Some(0), Some(1), Some(2)]), "{kind}");
    }
    let [.., (_, delta), (last, _)] = &events[..] else { panic!("too short") };
    assert_eq!((&delta["usage"]["output_tokens"], last.as_str()), (&json!(3), "message_stop"));
}

fn whole(reply: &ScriptedReply, wording: Wording) -> Value {
    serde_json::from_slice(&reply.whole(wording).chunks[0].data).expect("JSON")
}

/// Scenario: the same turn whole. Expected: text, call and counts MUST stand where each protocol has them.
#[test]
fn a_whole_reply_holds_the_same() {
    let chat = whole(&reply(), Wording::Chat);
    assert_eq!(chat["choices"][0]["message"]["content"], "Hello");
    assert_eq!(chat["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "look_up");
    let responses = whole(&reply().at_limit(), Wording::Responses);
    assert_eq!(
        (&responses["status"], &responses["output"][1]["content"][0]["text"]),
        (&json!("incomplete"), &json!("Hello"))
    );
    let messages = whole(&reply(), Wording::Messages);
    assert_eq!(
        (&messages["content"][1]["text"], &messages["content"][2]["input"]["city"]),
        (&json!("Hello"), &json!("Zürich"))
    );
    assert_eq!(messages["usage"], json!({ "input_tokens": 9, "output_tokens": 3 }));
}

/// Scenario: an error after the text. Expected: it MUST be the last event, after all text, with no end before it.
#[test]
fn an_error_in_the_stream_is_the_last_word() {
    for (wording, text) in [
        (Wording::Chat, "/choices/0/delta/content"),
        (Wording::Responses, "/delta"),
        (Wording::Messages, "/delta/text"),
    ] {
        let events = events(&ScriptedReply::of(["a", "b"]).failing(Trouble::Overloaded).streamed(wording));
        assert_eq!(joined(&events, text), "ab", "{wording:?}");
        let (name, last) = &events[events.len() - 1];
        assert_eq!(last.get("error").is_some(), wording != Wording::Responses);
        assert_eq!(name, if wording == Wording::Chat { "" } else { "error" });
        for end in ["stop", "completed", "end_turn"] {
            assert!(
                !events.iter().any(|(_, data)| data.to_string().contains(&format!("{end}\""))),
                "{wording:?}: {end}"
            );
        }
    }
}

/// Scenario: an error as a status. Expected: status, shape and `retry-after` MUST be those of the protocol.
#[test]
fn an_error_status_has_its_shape() {
    let busy = Trouble::RateLimited { retry_after: Some(2) };
    for wording in Wording::ALL {
        let step = busy.refused(wording);
        assert_eq!((step.status.as_u16(), step.headers["retry-after"].as_bytes()), (429, &b"2"[..]));
        let body: Value = serde_json::from_slice(&step.chunks[0].data).expect("JSON");
        assert_eq!(body["type"] == "error", wording == Wording::Messages);
        assert!(body["error"]["message"].is_string());
    }
    assert_eq!(Trouble::Overloaded.refused(Wording::Messages).status, 529);
    assert!(!Trouble::QuotaSpent.refused(Wording::Chat).headers.contains_key("retry-after"));
}
