//! Anthropic Messages: typed events around content blocks, closed by `message_stop`.

use serde_json::{Value, json};

use super::super::step::Step;
use super::Wording;
use super::reply::ScriptedReply;
use super::sheet::{Sheet, halves};

/// The id of every message.
const ID: &str = "msg_scripted";
/// What signs every thinking block.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";
/// The output tokens that stand in `message_start`, before anything was written.
const FIRST_OUTPUT: u64 = 1;

pub(super) fn streamed(reply: &ScriptedReply) -> Step {
    let mut sheet = Sheet::default();
    let mut message = json!({
        "id": ID, "type": "message", "role": "assistant", "model": reply.model,
        "content": [], "stop_reason": null, "stop_sequence": null,
    });
    if let Some(usage) = reply.usage {
        message["usage"] = json!({ "input_tokens": usage.input, "output_tokens": FIRST_OUTPUT });
    }
    sheet.typed(0, &json!({ "type": "message_start", "message": message }));
    for (index, (begun, deltas)) in blocks(reply).into_iter().enumerate() {
        sheet.typed(0, &json!({ "type": "content_block_start", "index": index, "content_block": begun }));
        for delta in deltas {
            let data = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            sheet.typed(reply.pace_ms, &data);
        }
        // An error leaves the last block open.
        if reply.trouble.is_none() {
            sheet.typed(0, &json!({ "type": "content_block_stop", "index": index }));
        }
    }
    if let Some(trouble) = reply.trouble {
        sheet.raw(trouble.frame(Wording::Messages));
        return sheet.done();
    }
    let stop = json!({ "stop_reason": stop(reply), "stop_sequence": null });
    let mut last = json!({ "type": "message_delta", "delta": stop });
    if let Some(usage) = reply.usage {
        last["usage"] = json!({ "output_tokens": usage.output });
    }
    sheet.typed(0, &last);
    sheet.typed(0, &json!({ "type": "message_stop" }));
    sheet.done()
}

pub(super) fn whole(reply: &ScriptedReply) -> Value {
    let mut content = Vec::new();
    if let Some(text) = &reply.reasoning {
        content.push(json!({ "type": "thinking", "thinking": text, "signature": SIGNATURE }));
    }
    if !reply.pieces.is_empty() {
        content.push(json!({ "type": "text", "text": reply.text() }));
    }
    for call in &reply.tools {
        content
            .push(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments }));
    }
    let mut message = json!({
        "id": ID, "type": "message", "role": "assistant", "model": reply.model,
        "content": content, "stop_reason": stop(reply), "stop_sequence": null,
    });
    if let Some(usage) = reply.usage {
        message["usage"] = json!({ "input_tokens": usage.input, "output_tokens": usage.output });
    }
    message
}

/// The content blocks: how each begins, and its deltas.
fn blocks(reply: &ScriptedReply) -> Vec<(Value, Vec<Value>)> {
    let mut blocks = Vec::new();
    if let Some(text) = &reply.reasoning {
        let begun = json!({ "type": "thinking", "thinking": "", "signature": "" });
        let thought = json!({ "type": "thinking_delta", "thinking": text });
        blocks.push((begun, vec![thought, json!({ "type": "signature_delta", "signature": SIGNATURE })]));
    }
    if !reply.pieces.is_empty() {
        let texts = reply.pieces.iter().map(|piece| json!({ "type": "text_delta", "text": piece }));
        blocks.push((json!({ "type": "text", "text": "" }), texts.collect()));
    }
    for call in &reply.tools {
        let arguments = call.arguments.to_string();
        let begun = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        let parts = halves(&arguments);
        let parts = parts.iter().map(|part| json!({ "type": "input_json_delta", "partial_json": part }));
        blocks.push((begun, parts.collect()));
    }
    blocks
}

fn stop(reply: &ScriptedReply) -> &'static str {
    match (reply.at_limit, reply.tools.is_empty()) {
        (true, _) => "max_tokens",
        (false, true) => "end_turn",
        (false, false) => "tool_use",
    }
}
