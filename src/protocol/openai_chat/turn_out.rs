//! Turns, written.

use serde_json::Value;

use crate::chat::{Content, Message, Part, Parts, Reasoning, Role, ToolCall, ToolResult};
use crate::failure::{Code, Failure, Skip};
use crate::protocol::Target;
use crate::protocol::json::Fields;

use super::{CHAT, PLACE, content, part};

/// The fields that hold what a provider thought, in the order we look for a place.
const THOUGHTS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

/// Writes the turns of a request.
pub(super) struct Turns<'a> {
    parts: &'a Parts,
    target: &'a Target<'a>,
    /// Whether the request was read from this protocol.
    native: bool,
    /// Whether cache breakpoints go out.
    marks: bool,
    out: Vec<Value>,
    /// Media out of the results of tools, which only a user may send here. They follow the last result.
    media: Vec<Value>,
    /// The calls in the older spelling, whose answers are spelled so too.
    legacy: Vec<&'a str>,
}

/// One turn in the making.
#[derive(Default)]
struct Turn {
    content: Vec<Value>,
    calls: Vec<Value>,
    refusal: Option<String>,
    /// The thoughts, by the field they go into.
    thoughts: [Option<String>; 2],
    legacy: Option<Value>,
}

// === impl Turns ===

impl<'a> Turns<'a> {
    /// With nothing written.
    pub(super) fn new(parts: &'a Parts, target: &'a Target<'a>) -> Self {
        let native = parts.protocol == Some(CHAT);
        let marks = native || target.dialect.cache_marks;
        let out = Vec::with_capacity(parts.messages.len());
        Self { parts, target, native, marks, out, media: Vec::new(), legacy: Vec::new() }
    }

    /// Writes them all.
    pub(super) fn write(mut self) -> Result<Value, Failure> {
        for (i, message) in self.parts.messages.iter().enumerate() {
            self.turn(message).map_err(|why| {
                let why = format!("messages[{i}]: {why}");
                Failure::local(Code::InvalidRequest, why).with_skip(Skip::Capability)
            })?;
        }
        self.flush();
        Ok(Value::Array(self.out))
    }

    /// Writes one turn: the answers of tools in it as turns of their own, before the rest.
    fn turn(&mut self, message: &'a Message) -> Result<(), &'static str> {
        let mut answers = false;
        for part in &message.parts {
            if let Content::ToolResult(result) = &part.content {
                answers = true;
                self.answer(message, part, result)?;
            }
        }
        let rest = message.parts.iter().any(|part| !matches!(part.content, Content::ToolResult(_)));
        if rest || (!answers && message.role != Role::Tool) {
            self.flush();
            self.say(message, !answers)?;
        }
        Ok(())
    }

    fn flush(&mut self) {
        if !self.media.is_empty() {
            let media = std::mem::take(&mut self.media);
            self.out.push(Value::from_iter([("role", Value::from("user")), ("content", Value::from(media))]));
        }
    }

    fn answer(&mut self, message: &Message, part: &Part, result: &ToolResult) -> Result<(), &'static str> {
        let mut content = Vec::with_capacity(result.parts.len());
        for inner in &result.parts {
            let Some(value) = part::write(inner, self.marks, self.native)? else { continue };
            let media = !self.native && !matches!(inner.content, Content::Text(_));
            if media { self.media.push(value) } else { content.push(value) }
        }
        let legacy = place(part) == Some("function") || self.legacy.contains(&result.id.as_str());
        let (role, name) = if legacy { ("function", "name") } else { ("tool", "tool_call_id") };
        let mut fields = Fields::from_iter([("role".to_owned(), Value::from(role))]);
        fields.insert(name.to_owned(), Value::from(result.id.as_str()));
        content::put(message, content, "\n\n", Value::from(""), &mut fields);
        keep(message, false, &mut fields);
        self.out.push(Value::Object(fields));
        Ok(())
    }

    fn say(&mut self, message: &'a Message, whole: bool) -> Result<(), &'static str> {
        let owned = self.owns(message);
        let mut turn = Turn::default();
        for part in &message.parts {
            self.add(part, &mut turn)?;
        }
        let kept = message.extra.fields(CHAT).filter(|_| whole);
        if turn.is_empty() && !message.parts.is_empty() && kept.is_none() {
            return Ok(());
        }
        let role = match message.role {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        let mut fields = Fields::from_iter([("role".to_owned(), Value::from(role))]);
        let glue = if message.role == Role::Assistant { "" } else { "\n\n" };
        // Some servers demand the field beside calls, and then it must be null.
        let acts = !turn.calls.is_empty() || turn.legacy.is_some() || turn.refusal.is_some();
        let absent = if acts { Value::Null } else { Value::from("") };
        content::put(message, turn.content, glue, absent, &mut fields);
        for (name, text) in THOUGHTS.into_iter().zip(turn.thoughts) {
            fields.extend(text.map(|text| (name.to_owned(), Value::from(text))));
        }
        fields.extend(turn.refusal.map(|text| ("refusal".to_owned(), Value::from(text))));
        fields.extend(turn.legacy.map(|call| ("function_call".to_owned(), call)));
        if !turn.calls.is_empty() {
            fields.insert("tool_calls".to_owned(), Value::from(turn.calls));
        }
        if whole {
            keep(message, owned, &mut fields);
        }
        self.out.push(Value::Object(fields));
        Ok(())
    }

    fn add(&mut self, part: &'a Part, turn: &mut Turn) -> Result<(), &'static str> {
        let place = place(part);
        match &part.content {
            Content::ToolResult(_) => {}
            Content::ToolCall(call) if place == Some("function_call") => {
                self.legacy.push(&call.id);
                turn.legacy = Some(function(call));
            }
            Content::ToolCall(call) => turn.calls.push(tool_call(call, part)),
            Content::Other(CHAT, value) if place == Some("tool_calls") => turn.calls.push(value.clone()),
            Content::Reasoning(reasoning) if !self.replays(reasoning) => {}
            Content::Reasoning(reasoning) if place != Some("thinking") => {
                let field = usize::from(place == Some("reasoning"));
                turn.thoughts[field].get_or_insert_default().push_str(&reasoning.text);
            }
            Content::Refusal(text) if place != Some("content") => {
                turn.refusal.get_or_insert_default().push_str(text);
            }
            _ => turn.content.extend(part::write(part, self.marks, self.native)?),
        }
        Ok(())
    }

    /// Whether the target made these thoughts, and in this protocol.
    fn replays(&self, reasoning: &Reasoning) -> bool {
        let here = reasoning.signature.is_none() && reasoning.encrypted.is_none() && reasoning.id.is_none();
        let read_elsewhere = self.parts.protocol.is_some() && !self.native && reasoning.origin.is_none();
        here && !reasoning.summary && !read_elsewhere && self.target.owns(reasoning)
    }

    /// Whether the target made the thoughts of a turn, told by the first of them.
    fn owns(&self, message: &Message) -> bool {
        let first = message.parts.iter().find_map(|part| match &part.content {
            Content::Reasoning(reasoning) => Some(self.replays(reasoning)),
            _ => None,
        });
        first.unwrap_or_else(|| self.replays(&Reasoning::default()))
    }
}

// === impl Turn ===

impl Turn {
    fn is_empty(&self) -> bool {
        self.content.is_empty()
            && self.calls.is_empty()
            && self.refusal.is_none()
            && self.legacy.is_none()
            && self.thoughts.iter().all(Option::is_none)
    }
}

/// Writes what was kept of a turn.
fn keep(message: &Message, owned: bool, fields: &mut Fields) {
    for (name, value) in message.extra.fields(CHAT).into_iter().flatten() {
        let state = THOUGHTS.contains(&name.as_str());
        if name == "content" || fields.contains_key(name) || (state && !owned) {
            continue;
        }
        fields.insert(name.clone(), if name == "audio" { spoken(value) } else { value.clone() });
    }
}

/// Where a part stood, if not at its usual place.
fn place(part: &Part) -> Option<&str> {
    part.extra.get(CHAT, PLACE)?.as_str()
}

fn function(call: &ToolCall) -> Value {
    Value::from_iter([("name", call.name.as_str()), ("arguments", call.arguments.as_str())])
}

fn tool_call(call: &ToolCall, part: &Part) -> Value {
    let mut fields = Fields::from_iter([("type".to_owned(), Value::from("function"))]);
    if !call.id.is_empty() {
        fields.insert("id".to_owned(), Value::from(call.id.as_str()));
    }
    fields.insert("function".to_owned(), function(call));
    part::write_rest(&part.extra, &mut fields);
    Value::Object(fields)
}

/// Sound of the model's own goes back by its id.
fn spoken(audio: &Value) -> Value {
    match (audio.get("id"), audio.get("data")) {
        (Some(id), Some(_)) => Value::from_iter([("id", id.clone())]),
        _ => audio.clone(),
    }
}
