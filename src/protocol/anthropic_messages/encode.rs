//! A request, written.

use bytes::Bytes;
use serde_json::Value;

use crate::chat::{Message, Parts, Role, Tool};
use crate::failure::{Code, Failure, Skip};
use crate::protocol::{Target, json};

use super::part_out::{Writer, content_of, write_cache, write_rest};
use super::{AS_BLOCKS, AS_TURN, Fields, MESSAGES, options};

/// One turn in the making.
struct Turn {
    role: &'static str,
    blocks: Vec<Value>,
    as_blocks: bool,
    /// Whether it holds a turn of role tool, which takes in the turns of the user around it.
    answers: bool,
    rest: Fields,
}

/// Writes a request. See the [module](super) for what becomes of what.
///
/// # Errors
/// A local `INVALID_REQUEST` that names the turn this protocol cannot carry; another candidate may be asked.
pub fn encode(parts: &Parts, target: &Target<'_>) -> Result<Bytes, Failure> {
    let writer = Writer::new(parts, target);
    let mut body = Fields::new();
    if !target.dialect.model_in_url {
        body.insert("model".to_owned(), Value::from(target.model));
    }
    let leading = parts.messages.iter().take_while(|message| leads(message)).count();
    let (leading, turns) = parts.messages.split_at_checked(leading).unwrap_or_default();
    write_system(leading, writer, &mut body)?;
    body.insert("messages".to_owned(), write_turns(turns, leading.len(), writer)?);
    let tools: Vec<_> = parts.tools.iter().filter_map(|tool| write_tool(tool, writer.is_native())).collect();
    if !tools.is_empty() {
        body.insert("tools".to_owned(), Value::Array(tools));
    }
    if parts.stream {
        body.insert("stream".to_owned(), Value::Bool(true));
    }
    options::write(parts, &mut body);
    json::write(&body)
}

/// Whether a turn belongs into the `system` field, if no other turn stands before it.
fn leads(message: &Message) -> bool {
    let operator = matches!(message.role, Role::System | Role::Developer);
    operator && message.extra.get(MESSAGES, AS_TURN).is_none()
}

fn write_system(turns: &[Message], writer: Writer<'_>, body: &mut Fields) -> Result<(), Failure> {
    let mut blocks = Vec::new();
    for (i, turn) in turns.iter().enumerate() {
        blocks.extend(writer.blocks(&turn.parts).map_err(|why| refuse(i, why))?);
    }
    if !writer.is_native() {
        blocks.retain(|block| block.get("type").is_some_and(|kind| kind == "text"));
    }
    if !blocks.is_empty() || (writer.is_native() && !turns.is_empty()) {
        let as_blocks = turns.iter().any(|turn| turn.extra.get(MESSAGES, AS_BLOCKS).is_some());
        body.insert("system".to_owned(), content_of(blocks, as_blocks));
    }
    Ok(())
}

fn write_turns(messages: &[Message], first: usize, writer: Writer<'_>) -> Result<Value, Failure> {
    let mut turns: Vec<Turn> = Vec::with_capacity(messages.len());
    for (i, message) in messages.iter().enumerate() {
        let blocks = writer.blocks(&message.parts).map_err(|why| refuse(first + i, why))?;
        if blocks.is_empty() && (!message.parts.is_empty() || !writer.is_native()) {
            continue;
        }
        let mut turn = Turn::new(message, blocks);
        match turns.last_mut() {
            Some(last) if last.takes_in(&turn, writer) => last.append(&mut turn),
            _ => turns.push(turn),
        }
    }
    Ok(turns.into_iter().map(Turn::finish).collect())
}

/// A tool with a schema; one of this protocol's provider as it came, one of another's not at all.
fn write_tool(tool: &Tool, native: bool) -> Option<Value> {
    let mut fields = Fields::new();
    if !tool.name.is_empty() {
        fields.insert("name".to_owned(), Value::from(tool.name.as_str()));
        if let Some(description) = &tool.description {
            fields.insert("description".to_owned(), Value::from(description.as_str()));
        }
        let schema = if native { tool.schema.clone() } else { Some(schema(tool.schema.as_ref())) };
        fields.extend(schema.map(|schema| ("input_schema".to_owned(), schema)));
        if let Some(strict) = tool.strict.filter(|strict| native || *strict) {
            fields.insert("strict".to_owned(), Value::Bool(strict));
        }
        write_cache(tool.cache.as_ref(), &mut fields);
    }
    write_rest(&tool.extra, &mut fields);
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// A schema as the protocol takes it: that of an object, and saying so.
fn schema(schema: Option<&Value>) -> Value {
    let mut fields = match schema {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Fields::new(),
    };
    fields.entry("type").or_insert_with(|| Value::from("object"));
    Value::Object(fields)
}

fn refuse(message: usize, why: &str) -> Failure {
    let why = format!("messages[{message}]: {why}");
    Failure::local(Code::InvalidRequest, why).with_skip(Skip::Capability)
}

// === impl Turn ===

impl Turn {
    fn new(message: &Message, blocks: Vec<Value>) -> Self {
        let role = match message.role {
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
            Role::System | Role::Developer => "system",
        };
        let mut rest = Fields::new();
        write_rest(&message.extra, &mut rest);
        let as_blocks = message.extra.get(MESSAGES, AS_BLOCKS).is_some();
        Self { role, blocks, as_blocks, answers: message.role == Role::Tool, rest }
    }

    /// Whether the next turn is this one going on. What was read as two turns stays two.
    fn takes_in(&self, next: &Self, writer: Writer<'_>) -> bool {
        self.role == next.role && (!writer.is_native() || self.answers || next.answers)
    }

    fn append(&mut self, next: &mut Self) {
        self.blocks.append(&mut next.blocks);
        self.answers |= next.answers;
        for (name, value) in std::mem::take(&mut next.rest) {
            self.rest.entry(name).or_insert(value);
        }
    }

    fn finish(self) -> Value {
        let mut fields = self.rest;
        fields.insert("role".to_owned(), Value::from(self.role));
        fields.insert("content".to_owned(), content_of(self.blocks, self.as_blocks));
        Value::Object(fields)
    }
}
