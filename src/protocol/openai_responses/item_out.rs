//! Turns, written as input items.

use serde_json::Value;

use crate::chat::{Content, Message, Part, Parts, Reasoning, Role, ToolCall, ToolResult};
use crate::protocol::Target;
use crate::protocol::json::Fields;

use super::part::{self, object, write_rest};
use super::{ITEM, PLAIN, RESPONSES};

/// Writes the turns of a request.
pub(super) struct Items<'a> {
    target: &'a Target<'a>,
    /// Whether the request was read from this protocol.
    native: bool,
    /// Whether the provider knows the ids of the items.
    ids: bool,
    /// The calls of custom tools, whose results are items of another kind.
    custom: Vec<&'a str>,
    out: Vec<Value>,
}

// === impl Items ===

impl<'a> Items<'a> {
    /// With nothing written.
    pub(super) fn new(parts: &Parts, target: &'a Target<'a>) -> Self {
        let mut said = parts.messages.iter().flat_map(|message| &message.parts);
        let stripped = said.any(|part| match &part.content {
            Content::Reasoning(reasoning) => is_replay(part, reasoning) && !target.owns(reasoning),
            _ => false,
        });
        Self {
            target,
            native: parts.protocol == Some(RESPONSES),
            ids: target.owns_unlabelled && !stripped,
            custom: Vec::new(),
            out: Vec::with_capacity(parts.messages.len()),
        }
    }

    /// The items written.
    pub(super) fn finish(self) -> Vec<Value> {
        self.out
    }

    /// Writes one turn: what is said as messages; calls, results and reasoning as items of their own; all in order.
    pub(super) fn turn(&mut self, message: &'a Message) {
        let mut said: Vec<&Part> = Vec::new();
        let mut first = true;
        for part in &message.parts {
            let item = match &part.content {
                Content::ToolCall(call) => Some(self.call(part, call)),
                Content::ToolResult(result) => Some(self.result(part, result)),
                Content::Reasoning(reasoning) => match self.reasoning(part, reasoning) {
                    Some(item) => Some(item),
                    None => continue,
                },
                Content::Other(RESPONSES, item) if part.extra.get(RESPONSES, super::PART).is_none() => {
                    Some(item.clone())
                }
                _ => None,
            };
            if item.is_some() || part.extra.get(RESPONSES, ITEM).is_some() {
                self.say(message, &mut said, &mut first);
            }
            match item {
                Some(item) => self.out.push(item),
                None => said.push(part),
            }
        }
        self.say(message, &mut said, &mut first);
        if message.parts.is_empty() && self.native {
            self.message(message, &[], true);
        }
    }

    fn say(&mut self, message: &Message, said: &mut Vec<&Part>, first: &mut bool) {
        if !said.is_empty() {
            self.message(message, said, std::mem::replace(first, false));
            said.clear();
        }
    }

    /// Writes a message of these parts, unless nothing is left of them here.
    fn message(&mut self, message: &Message, parts: &[&Part], first: bool) {
        let assistant = message.role == Role::Assistant;
        let plain = match parts {
            [part] if !assistant => is_plain(part),
            [part] => part.extra.get(RESPONSES, PLAIN).is_some(),
            _ => false,
        };
        let content = content(parts, plain, assistant);
        if !parts.is_empty() && content.as_array().is_some_and(Vec::is_empty) {
            return;
        }
        let role = match message.role {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        let mut fields =
            Fields::from_iter([("role".to_owned(), Value::from(role)), ("content".to_owned(), content)]);
        let own = parts.first().and_then(|part| part.extra.get(RESPONSES, ITEM)?.as_object());
        let ids = self.ids || !assistant;
        for (name, value) in own.into_iter().flatten() {
            if ids || name != "id" {
                fields.entry(name.as_str()).or_insert_with(|| value.clone());
            }
        }
        if first && own.is_none() {
            write_rest(&message.extra, ids, &mut fields);
        }
        if assistant {
            fields.entry("type").or_insert_with(|| Value::from("message"));
        }
        self.out.push(Value::Object(fields));
    }

    fn call(&mut self, part: &Part, call: &'a ToolCall) -> Value {
        let custom = part.extra.get(RESPONSES, "type").is_some_and(|kind| kind == "custom_tool_call");
        if custom {
            self.custom.push(&call.id);
        }
        let (kind, input) =
            if custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
        let mut fields = object(kind, "call_id", &call.id);
        fields.insert("name".to_owned(), Value::from(call.name.as_str()));
        fields.insert(input.to_owned(), Value::from(call.arguments.as_str()));
        write_rest(&part.extra, self.ids, &mut fields);
        Value::Object(fields)
    }

    fn result(&self, part: &Part, result: &ToolResult) -> Value {
        let mut fields = Fields::new();
        let custom = self.custom.contains(&result.id.as_str());
        let kind = if custom { "custom_tool_call_output" } else { "function_call_output" };
        let kind = part.extra.get(RESPONSES, "type").cloned().unwrap_or_else(|| Value::from(kind));
        fields.insert("type".to_owned(), kind);
        fields.insert("call_id".to_owned(), Value::from(result.id.as_str()));
        let parts: Vec<&Part> = result.parts.iter().collect();
        let output = match parts.as_slice() {
            [] => part.extra.get(RESPONSES, "output").cloned(),
            [only] => Some(content(&parts, is_plain(only), false)),
            _ => Some(content(&parts, false, false)),
        };
        let empty = |output: &Value| !parts.is_empty() && output.as_array().is_some_and(Vec::is_empty);
        let output = output.filter(|output| !empty(output)).unwrap_or_else(|| Value::from(""));
        fields.insert("output".to_owned(), output);
        write_rest(&part.extra, true, &mut fields);
        Value::Object(fields)
    }

    fn reasoning(&self, part: &Part, reasoning: &Reasoning) -> Option<Value> {
        if !is_replay(part, reasoning) || !self.target.owns(reasoning) {
            return None;
        }
        let mut fields = Fields::from_iter([("type".to_owned(), Value::from("reasoning"))]);
        let state = [("id", &reasoning.id), ("encrypted_content", &reasoning.encrypted)];
        for (name, value) in state.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))) {
            fields.insert(name.to_owned(), Value::from(value));
        }
        write_rest(&part.extra, true, &mut fields);
        if !fields.contains_key("summary") {
            let text = Some(&reasoning.text).filter(|text| reasoning.summary && !text.is_empty());
            let summary = text.map(|text| Value::Object(object("summary_text", "text", text)));
            fields.insert("summary".to_owned(), summary.into_iter().collect());
        }
        Some(Value::Object(fields))
    }
}

/// Whether it is reasoning of this protocol, as a provider takes it back.
fn is_replay(part: &Part, reasoning: &Reasoning) -> bool {
    let here = part.extra.fields(RESPONSES).is_some();
    here || (part.extra.kept().is_none() && reasoning.signature.is_none() && reasoning.id.is_some())
}

/// Whether it is a text without fields of its own, which may be written as a string.
fn is_plain(part: &Part) -> bool {
    let mut own = part.extra.fields(RESPONSES).into_iter().flatten();
    matches!(part.content, Content::Text(_)) && own.all(|(name, _)| name.starts_with('\0'))
}

fn content(parts: &[&Part], plain: bool, assistant: bool) -> Value {
    match parts {
        [Part { content: Content::Text(text), .. }] if plain => Value::from(text.as_str()),
        parts => parts.iter().filter_map(|part| part::write(part, assistant)).collect(),
    }
}
