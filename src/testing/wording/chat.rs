//! OpenAI Chat Completions: nameless events, closed by `[DONE]`.

use serde_json::{Value, json};

use super::super::step::Step;
use super::Wording;
use super::reply::{ScriptedReply, Tokens, ToolCall};
use super::sheet::{Sheet, halves};

/// The id of every reply.
const ID: &str = "chatcmpl-scripted";

pub(super) fn streamed(reply: &ScriptedReply) -> Step {
    let mut sheet = Sheet::default();
    let write = |sheet: &mut Sheet, after_ms, delta: Value, finish: Option<&str>| {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        sheet.paced(after_ms, None, &chunk(reply, &choices, Value::Null));
    };
    write(&mut sheet, 0, json!({ "role": "assistant", "content": "" }), None);
    if let Some(text) = &reply.reasoning {
        write(&mut sheet, reply.pace_ms, json!({ "reasoning_content": text }), None);
    }
    for piece in &reply.pieces {
        write(&mut sheet, reply.pace_ms, json!({ "content": piece }), None);
    }
    for (index, call) in reply.tools.iter().enumerate() {
        let first = fragment(index, &tool(call, ""));
        write(&mut sheet, reply.pace_ms, first, None);
        for part in halves(&call.arguments.to_string()) {
            let next = fragment(index, &json!({ "function": { "arguments": part } }));
            write(&mut sheet, reply.pace_ms, next, None);
        }
    }
    if let Some(trouble) = reply.trouble {
        sheet.raw(trouble.frame(Wording::Chat));
        return sheet.done();
    }
    write(&mut sheet, 0, json!({}), Some(finish(reply)));
    if let Some(usage) = reply.usage {
        sheet.paced(0, None, &chunk(reply, &json!([]), tokens(usage)));
    }
    sheet.raw("data: [DONE]\n\n");
    sheet.done()
}

pub(super) fn whole(reply: &ScriptedReply) -> Value {
    let text = reply.text();
    let mut message = json!({ "role": "assistant", "content": (!text.is_empty()).then_some(text) });
    if let Some(reasoning) = &reply.reasoning {
        message["reasoning_content"] = json!(reasoning);
    }
    if !reply.tools.is_empty() {
        let calls = reply.tools.iter().map(|call| tool(call, &call.arguments.to_string()));
        message["tool_calls"] = calls.collect();
    }
    let choices = json!([{ "index": 0, "message": message, "finish_reason": finish(reply) }]);
    object(reply, "chat.completion", &choices, reply.usage.map_or(Value::Null, tokens))
}

fn chunk(reply: &ScriptedReply, choices: &Value, usage: Value) -> Value {
    object(reply, "chat.completion.chunk", choices, usage)
}

/// The frame of a reply or chunk. Where the counts are asked for, the chunks without them say null.
fn object(reply: &ScriptedReply, kind: &str, choices: &Value, usage: Value) -> Value {
    let mut object =
        json!({ "id": ID, "object": kind, "created": 1, "model": reply.model, "choices": choices });
    if reply.usage.is_some() {
        object["usage"] = usage;
    }
    object
}

fn tool(call: &ToolCall, arguments: &str) -> Value {
    let function = json!({ "name": call.name, "arguments": arguments });
    json!({ "id": call.id, "type": "function", "function": function })
}

/// A delta of the tool call at this index.
fn fragment(index: usize, call: &Value) -> Value {
    let mut call = call.clone();
    call["index"] = json!(index);
    json!({ "tool_calls": [call] })
}

fn tokens(Tokens { input, output }: Tokens) -> Value {
    json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output })
}

fn finish(reply: &ScriptedReply) -> &'static str {
    match (reply.at_limit, reply.tools.is_empty()) {
        (true, _) => "length",
        (false, true) => "stop",
        (false, false) => "tool_calls",
    }
}
