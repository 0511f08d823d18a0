//! OpenAI Responses: numbered events, closed by a terminal one that holds the whole response.

use serde_json::{Value, json};

use super::super::step::Step;
use super::reply::{ScriptedReply, Tokens, ToolCall};
use super::sheet::{Sheet, halves};

/// The id of every response.
const ID: &str = "resp_scripted";

/// A stream in the making: the sheet numbers the events, the items number themselves.
struct Stream<'a> {
    reply: &'a ScriptedReply,
    sheet: Sheet,
}

pub(super) fn streamed(reply: &ScriptedReply) -> Step {
    let mut stream = Stream { reply, sheet: Sheet::default() };
    let begun = response(reply, "in_progress", &json!([]), &Value::Null);
    stream.event(0, "response.created", json!({ "response": begun }));
    stream.event(0, "response.in_progress", json!({ "response": begun }));
    let items = items(reply);
    for (index, item) in items.iter().enumerate() {
        match item["type"].as_str() {
            Some("reasoning") => stream.reasoning(index, item),
            Some("function_call") => stream.call(index, item),
            _ => stream.message(index, item),
        }
    }
    if let Some(trouble) = reply.trouble {
        let mut error = trouble.frame_of_responses();
        error["sequence_number"] = json!(stream.sheet.len());
        stream.sheet.typed(0, &error);
        return stream.sheet.done();
    }
    let last = whole(reply);
    stream.event(0, &format!("response.{}", status(reply)), json!({ "response": last }));
    stream.sheet.done()
}

pub(super) fn whole(reply: &ScriptedReply) -> Value {
    response(reply, status(reply), &items(reply).into(), &reply.usage.map_or(Value::Null, tokens))
}

// === impl Stream ===

impl Stream<'_> {
    fn event(&mut self, after_ms: u64, kind: &str, mut data: Value) {
        data["type"] = json!(kind);
        data["sequence_number"] = json!(self.sheet.len());
        self.sheet.paced(after_ms, Some(kind), &data);
    }

    /// The events of a reasoning item: its summary in one part.
    fn reasoning(&mut self, index: usize, item: &Value) {
        let (id, part) = (&item["id"], &item["summary"][0]);
        let at =
            |more: Value| with(json!({ "item_id": id, "output_index": index, "summary_index": 0 }), more);
        self.added(index, &with(item.clone(), json!({ "summary": [] })));
        let empty = json!({ "part": { "type": "summary_text", "text": "" } });
        self.event(0, "response.reasoning_summary_part.added", at(empty));
        let delta = at(json!({ "delta": part["text"] }));
        self.event(self.reply.pace_ms, "response.reasoning_summary_text.delta", delta);
        self.event(0, "response.reasoning_summary_text.done", at(json!({ "text": part["text"] })));
        self.event(0, "response.reasoning_summary_part.done", at(json!({ "part": part })));
        self.finished(index, item);
    }

    /// The events of a message: its text in one part.
    fn message(&mut self, index: usize, item: &Value) {
        let (id, part) = (&item["id"], &item["content"][0]);
        let at =
            |more: Value| with(json!({ "item_id": id, "output_index": index, "content_index": 0 }), more);
        self.added(index, &with(item.clone(), json!({ "content": [], "status": "in_progress" })));
        self.event(0, "response.content_part.added", at(json!({ "part": output_text("") })));
        for piece in &self.reply.pieces {
            let delta = at(json!({ "delta": piece, "logprobs": [] }));
            self.event(self.reply.pace_ms, "response.output_text.delta", delta);
        }
        if self.reply.trouble.is_none() {
            let text = at(json!({ "text": part["text"], "logprobs": [] }));
            self.event(0, "response.output_text.done", text);
            self.event(0, "response.content_part.done", at(json!({ "part": part })));
            self.finished(index, item);
        }
    }

    /// The events of a function call: its arguments in parts, then at once.
    fn call(&mut self, index: usize, item: &Value) {
        let arguments = item["arguments"].as_str().unwrap_or_default();
        let at = |more: Value| with(json!({ "item_id": item["id"], "output_index": index }), more);
        self.added(index, &with(item.clone(), json!({ "arguments": "", "status": "in_progress" })));
        for part in halves(arguments) {
            let delta = at(json!({ "delta": part }));
            self.event(self.reply.pace_ms, "response.function_call_arguments.delta", delta);
        }
        let done = at(json!({ "name": item["name"], "arguments": arguments }));
        self.event(0, "response.function_call_arguments.done", done);
        self.finished(index, item);
    }

    fn added(&mut self, index: usize, item: &Value) {
        self.event(0, "response.output_item.added", json!({ "output_index": index, "item": item }));
    }

    fn finished(&mut self, index: usize, item: &Value) {
        self.event(0, "response.output_item.done", json!({ "output_index": index, "item": item }));
    }
}

/// The output items of a reply, whole.
fn items(reply: &ScriptedReply) -> Vec<Value> {
    let reasoning = reply.reasoning.iter().map(|text| {
        json!({ "type": "reasoning", "id": "rs_scripted", "summary": [{ "type": "summary_text", "text": text }] })
    });
    let text = reply.text();
    let message = (!text.is_empty()).then(|| {
        let content = [output_text(&text)];
        json!({ "type": "message", "id": "msg_scripted", "role": "assistant", "status": status(reply), "content": content })
    });
    let calls = reply.tools.iter().map(function_call);
    reasoning.chain(message).chain(calls).collect()
}

fn function_call(call: &ToolCall) -> Value {
    json!({
        "type": "function_call",
        "id": format!("fc_{}", call.id),
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments.to_string(),
        "status": "completed",
    })
}

fn output_text(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [] })
}

fn response(reply: &ScriptedReply, status: &str, output: &Value, usage: &Value) -> Value {
    let short = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
    json!({
        "id": ID,
        "object": "response",
        "created_at": 1,
        "model": reply.model,
        "status": status,
        "output": output,
        "usage": usage,
        "error": null,
        "incomplete_details": short,
    })
}

fn tokens(Tokens { input, output }: Tokens) -> Value {
    json!({ "input_tokens": input, "output_tokens": output, "total_tokens": input + output })
}

fn status(reply: &ScriptedReply) -> &'static str {
    if reply.at_limit { "incomplete" } else { "completed" }
}

/// One object over another: what both have is the second's.
fn with(mut under: Value, over: Value) -> Value {
    if let (Value::Object(under), Value::Object(over)) = (&mut under, over) {
        under.extend(over);
    }
    under
}
