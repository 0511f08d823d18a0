//! A request, written.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::chat::{
    CacheBreakpoint, Content, Effort, Media, Message, Part, Parts, Reasoning, Role, Source, Tool, ToolCall,
    ToolChoice, ToolResult,
};
use crate::failure::Failure;
use crate::protocol::Target;
use crate::protocol::json::{refuse, write};

use super::read::SYSTEM_FIELD;
use super::wire::PROTOCOL;

/// The cap on output where a request has none, since the protocol demands one: what every model takes.
pub const DEFAULT_MAX_TOKENS: u64 = 4096;

/// The least budget of thinking that the protocol takes.
const MIN_BUDGET: u64 = 1024;

/// Writes a request.
///
/// What was read from this protocol goes out as it came. Of another protocol's request, leading system turns become
/// the `system` field and later ones stay turns; results of tools and the user's words after them become one user
/// turn; parts that have no word here are left out. Thinking goes back only to the instance that made it. Tool
/// arguments that are not a JSON object go out as `{"input": "…"}`, since the protocol takes an object only.
///
/// # Errors
/// A local `INVALID_REQUEST`, if it cannot be written as JSON.
pub fn encode(parts: &Parts, target: &Target<'_>) -> Result<Bytes, Failure> {
    let mut body = Map::new();
    if !target.dialect.model_in_url {
        body.insert("model".into(), target.model.into());
    }
    body.insert("max_tokens".into(), parts.options.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS).into());
    let own = parts.protocol == Some(PROTOCOL);
    let leading = parts.messages.iter().take_while(|message| is_system(message, own)).count();
    system(&parts.messages[..leading], &mut body);
    let mut turns: Vec<Map<String, Value>> = Vec::new();
    for message in &parts.messages[leading..] {
        turn(message, target, own, &mut turns);
    }
    body.insert("messages".into(), turns.into_iter().map(Value::from).collect::<Vec<_>>().into());
    if !parts.tools.is_empty() {
        body.insert("tools".into(), parts.tools.iter().filter_map(tool).collect::<Vec<_>>().into());
    }
    options(parts, &mut body)?;
    if parts.stream {
        body.insert("stream".into(), true.into());
    }
    parts.extra.write(PROTOCOL, &mut body);
    write(&body)
}

/// Whether a turn belongs into the `system` field: of our own protocol only what came from there.
fn is_system(message: &Message, own: bool) -> bool {
    let marked = message.extra.get(PROTOCOL, SYSTEM_FIELD).is_some();
    marked
        || (!own && matches!(message.role, Role::System | Role::Developer))
        || (own && message.role == Role::Developer)
}

fn system(turns: &[Message], body: &mut Map<String, Value>) {
    let parts: Vec<&Part> = turns.iter().flat_map(|turn| &turn.parts).collect();
    if !parts.is_empty() {
        body.insert("system".into(), content(&parts, None));
    }
}

fn options(parts: &Parts, body: &mut Map<String, Value>) -> Result<(), Failure> {
    let options = &parts.options;
    for (name, value) in [("temperature", options.temperature), ("top_p", options.top_p)] {
        if let Some(value) = value {
            let number =
                serde_json::Number::from_f64(value).ok_or_else(|| refuse(name, "is not a number"))?;
            body.insert(name.into(), number.into());
        }
    }
    if let Some(top_k) = options.top_k {
        body.insert("top_k".into(), top_k.into());
    }
    if !options.stop.is_empty() {
        body.insert("stop_sequences".into(), options.stop.clone().into());
    }
    if let Some(choice) = tool_choice(parts) {
        body.insert("tool_choice".into(), choice);
    }
    if parts.protocol != Some(PROTOCOL)
        && let Some(effort) = options.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_ref())
    {
        thinking(effort, body);
    }
    Ok(())
}

/// Thinking, in this protocol's words. The budget must be smaller than the cap.
fn thinking(effort: &Effort, body: &mut Map<String, Value>) {
    let cap = body.get("max_tokens").and_then(Value::as_u64).unwrap_or(DEFAULT_MAX_TOKENS);
    match effort {
        Effort::Off => {
            body.insert("thinking".into(), json!({"type": "disabled"}));
        }
        Effort::Tokens(budget) if cap > MIN_BUDGET => {
            let budget = (*budget).clamp(MIN_BUDGET, cap - 1);
            body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": budget}));
        }
        Effort::Tokens(_) => {}
        Effort::Adaptive => {
            body.insert("thinking".into(), json!({"type": "adaptive"}));
        }
        Effort::Named(word) => {
            body.insert("output_config".into(), json!({"effort": word}));
        }
    }
}

fn tool_choice(parts: &Parts) -> Option<Value> {
    let parallel = parts.options.parallel_tool_calls;
    let mut choice = match &parts.options.tool_choice {
        Some(ToolChoice::Auto) => json!({"type": "auto"}),
        Some(ToolChoice::None) => json!({"type": "none"}),
        Some(ToolChoice::Required) => json!({"type": "any"}),
        Some(ToolChoice::Named(name)) => json!({"type": "tool", "name": name}),
        None if parallel == Some(false) && !parts.tools.is_empty() => json!({"type": "auto"}),
        None => return None,
    };
    let own = parts.protocol == Some(PROTOCOL);
    if let (Some(object), Some(parallel)) =
        (choice.as_object_mut(), parallel.filter(|parallel| own || !parallel))
    {
        object.insert("disable_parallel_tool_use".into(), (!parallel).into());
    }
    if let (Some(object), Some(Value::Object(rest))) =
        (choice.as_object_mut(), parts.extra.get(PROTOCOL, "tool_choice"))
    {
        object.extend(rest.clone());
    }
    Some(choice)
}

/// A tool with a schema; one of this protocol's provider as it came, one of another's not at all.
fn tool(tool: &Tool) -> Option<Value> {
    let mut out = Map::new();
    if !tool.name.is_empty() {
        out.insert("name".into(), tool.name.as_str().into());
        if let Some(description) = &tool.description {
            out.insert("description".into(), description.as_str().into());
        }
        let schema = tool.schema.clone().unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        out.insert("input_schema".into(), schema);
        if let Some(strict) = tool.strict {
            out.insert("strict".into(), strict.into());
        }
        cache(tool.cache.as_ref(), &mut out);
    }
    tool.extra.write(PROTOCOL, &mut out);
    (!out.is_empty()).then(|| out.into())
}

/// One turn; of another protocol's request, turns of one role that follow each other become one.
fn turn(message: &Message, target: &Target<'_>, own: bool, turns: &mut Vec<Map<String, Value>>) {
    let role = match message.role {
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
        Role::System | Role::Developer => "system",
    };
    let parts: Vec<&Part> = message.parts.iter().collect();
    let said = content(&parts, Some(target));
    if said.as_array().is_some_and(Vec::is_empty) && !message.parts.is_empty() {
        return;
    }
    if !own
        && let Some(last) = turns.last_mut()
        && last.get("role").and_then(Value::as_str) == Some(role)
        && let Some(before) = last.remove("content")
    {
        let mut blocks = into_blocks(before);
        blocks.extend(into_blocks(said));
        last.insert("content".into(), blocks.into());
        return;
    }
    let mut turn = Map::from_iter([("role".to_owned(), role.into()), ("content".to_owned(), said)]);
    message.extra.write(PROTOCOL, &mut turn);
    turns.push(turn);
}

fn into_blocks(content: Value) -> Vec<Value> {
    match content {
        Value::Array(blocks) => blocks,
        Value::String(text) if text.is_empty() => Vec::new(),
        text => vec![json!({"type": "text", "text": text})],
    }
}

/// Parts as content: a single plain text as a string. Without a target, no replay state is written.
fn content(parts: &[&Part], target: Option<&Target<'_>>) -> Value {
    if let [Part { content: Content::Text(text), cache: None, extra }] = parts
        && extra.fields(PROTOCOL).is_none()
    {
        return text.as_str().into();
    }
    parts.iter().filter_map(|part| self::part(part, target)).collect::<Vec<_>>().into()
}

fn part(part: &Part, target: Option<&Target<'_>>) -> Option<Value> {
    let mut out = match &part.content {
        Content::Text(text) | Content::Refusal(text) => {
            Map::from_iter([("type".to_owned(), "text".into()), ("text".to_owned(), text.as_str().into())])
        }
        Content::Image(media) => self::media("image", media)?,
        Content::File(media) => self::media("document", media)?,
        Content::ToolCall(call) => tool_use(call),
        Content::ToolResult(result) => tool_result(result, target),
        Content::Reasoning(reasoning) => thinking_block(reasoning, target?)?,
        Content::Other(PROTOCOL, value) => return Some(value.clone()),
        Content::Audio(_) | Content::Other(..) => return None,
    };
    cache(part.cache.as_ref(), &mut out);
    part.extra.write(PROTOCOL, &mut out);
    Some(out.into())
}

fn tool_use(call: &ToolCall) -> Map<String, Value> {
    let input = match serde_json::from_str(&call.arguments) {
        Ok(input @ Value::Object(_)) => input,
        _ if call.arguments.trim().is_empty() => json!({}),
        _ => json!({"input": call.arguments}),
    };
    Map::from_iter([
        ("type".to_owned(), "tool_use".into()),
        ("id".to_owned(), call.id.as_str().into()),
        ("name".to_owned(), call.name.as_str().into()),
        ("input".to_owned(), input),
    ])
}

fn tool_result(result: &ToolResult, target: Option<&Target<'_>>) -> Map<String, Value> {
    let mut out = Map::from_iter([
        ("type".to_owned(), "tool_result".into()),
        ("tool_use_id".to_owned(), result.id.as_str().into()),
    ]);
    if !result.parts.is_empty() {
        out.insert("content".into(), content(&result.parts.iter().collect::<Vec<_>>(), target));
    }
    if result.is_error {
        out.insert("is_error".into(), true.into());
    }
    out
}

/// Thinking as it came; without a signature only the client's own, since the provider made none up.
fn thinking_block(reasoning: &Reasoning, target: &Target<'_>) -> Option<Map<String, Value>> {
    if !target.owns(reasoning) || reasoning.summary || reasoning.id.is_some() {
        return None;
    }
    Some(match (&reasoning.encrypted, &reasoning.signature) {
        (Some(data), _) => Map::from_iter([
            ("type".to_owned(), "redacted_thinking".into()),
            ("data".to_owned(), data.as_str().into()),
        ]),
        (None, Some(signature)) => Map::from_iter([
            ("type".to_owned(), "thinking".into()),
            ("thinking".to_owned(), reasoning.text.as_str().into()),
            ("signature".to_owned(), signature.as_str().into()),
        ]),
        (None, None) => return None,
    })
}

fn media(kind: &str, media: &Media) -> Option<Map<String, Value>> {
    let source = match &media.source {
        Source::Url(url) => json!({"type": "url", "url": url}),
        Source::Id(id) => json!({"type": "file", "file_id": id}),
        Source::Base64(data) => {
            json!({"type": "base64", "media_type": media.media_type.as_deref()?, "data": &**data})
        }
    };
    let mut out = Map::from_iter([("type".to_owned(), kind.into()), ("source".to_owned(), source)]);
    if let (Some(name), "document") = (&media.name, kind) {
        out.insert("title".into(), name.as_str().into());
    }
    Some(out)
}

fn cache(cache: Option<&CacheBreakpoint>, out: &mut Map<String, Value>) {
    if let Some(cache) = cache {
        let mut mark = Map::from_iter([("type".to_owned(), Value::from("ephemeral"))]);
        if let Some(ttl) = &cache.ttl {
            mark.insert("ttl".into(), ttl.as_str().into());
        }
        out.insert("cache_control".into(), mark.into());
    }
}
