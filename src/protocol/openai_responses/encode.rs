//! A request, written.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::chat::{
    Content, Effort, Media, Message, Part, Parts, Role, Source, Tool, ToolCall, ToolChoice, ToolResult,
};
use crate::failure::Failure;
use crate::protocol::Target;
use crate::protocol::json::{refuse, write};

use super::read::{INSTRUCTIONS, PLAIN_INPUT};
use super::wire::PROTOCOL;

/// Writes a request.
///
/// What was read from this protocol goes out as it came. Of another protocol's request, system turns become items of
/// that role, calls and results of tools become items of their own, and parts that have no word here are left out.
/// Reasoning goes back only to the instance that made it.
///
/// # Errors
/// A local `INVALID_REQUEST`, if it cannot be written as JSON.
pub fn encode(parts: &Parts, target: &Target<'_>) -> Result<Bytes, Failure> {
    let mut body = Map::new();
    if !target.dialect.model_in_url {
        body.insert("model".into(), target.model.into());
    }
    let marked = |message: &Message, mark: &str| message.extra.get(PROTOCOL, mark).is_some();
    let mut items = Vec::with_capacity(parts.messages.len());
    for message in &parts.messages {
        if marked(message, INSTRUCTIONS) {
            body.insert("instructions".into(), message.to_text().into());
        } else if marked(message, PLAIN_INPUT) && only_input(parts) {
            body.insert("input".into(), message.to_text().into());
        } else {
            turn(message, target, &mut items);
        }
    }
    if !items.is_empty() {
        body.insert("input".into(), items.into());
    }
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

/// Whether nothing was added to an input that was a plain string.
fn only_input(parts: &Parts) -> bool {
    let items = parts.messages.iter().filter(|message| message.extra.get(PROTOCOL, INSTRUCTIONS).is_none());
    items.count() == 1
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
    if let Some(cap) = options.max_output_tokens {
        body.insert("max_output_tokens".into(), cap.into());
    }
    if let Some(parallel) = options.parallel_tool_calls {
        body.insert("parallel_tool_calls".into(), parallel.into());
    }
    let choice = options.tool_choice.as_ref().map(|choice| match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) => json!({"type": "function", "name": name}),
    });
    if let Some(choice) = choice {
        body.insert("tool_choice".into(), choice);
    }
    let effort = options.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_ref());
    let word = match effort {
        Some(Effort::Named(word)) => Some(word.as_str()),
        Some(Effort::Off) => Some("none"),
        Some(Effort::Tokens(..=2048)) => Some("low"),
        Some(Effort::Tokens(2049..=12_288)) => Some("medium"),
        Some(Effort::Tokens(_)) => Some("high"),
        Some(Effort::Adaptive) | None => None,
    };
    if let Some(word) = word
        && parts.extra.get(PROTOCOL, "reasoning").is_none()
    {
        body.insert("reasoning".into(), json!({"effort": word}));
    }
    Ok(())
}

/// A function; a tool of this protocol's provider as it came, one of another's not at all.
fn tool(tool: &Tool) -> Option<Value> {
    let mut out = Map::new();
    if !tool.name.is_empty() {
        out.insert("type".into(), "function".into());
        out.insert("name".into(), tool.name.as_str().into());
        let described = tool.description.as_deref().map(Value::from);
        for (name, value) in [
            ("description", described),
            ("parameters", tool.schema.clone()),
            ("strict", tool.strict.map(Value::from)),
        ] {
            if let Some(value) = value {
                out.insert(name.into(), value);
            }
        }
    }
    tool.extra.write(PROTOCOL, &mut out);
    (!out.is_empty()).then(|| out.into())
}

/// The items of one turn: what is said as a message, and calls, results and reasoning as items of their own, in order.
fn turn(message: &Message, target: &Target<'_>, items: &mut Vec<Value>) {
    let mut said: Vec<&Part> = Vec::new();
    for part in &message.parts {
        let item = match &part.content {
            Content::ToolCall(call) => Some(function_call(call)),
            Content::ToolResult(result) => Some(tool_result(result)),
            Content::Reasoning(reasoning) => {
                let kept =
                    target.owns(reasoning) && (reasoning.id.is_some() || reasoning.encrypted.is_some());
                if !kept {
                    continue;
                }
                let mut item = Map::from_iter([("type".to_owned(), Value::from("reasoning"))]);
                for (name, value) in [("id", &reasoning.id), ("encrypted_content", &reasoning.encrypted)] {
                    if let Some(value) = value {
                        item.insert(name.into(), value.as_str().into());
                    }
                }
                if part.extra.get(PROTOCOL, "summary").is_none() {
                    item.insert("summary".into(), json!([]));
                }
                Some(item)
            }
            // An item of its own, unless it is a part of a message.
            Content::Other(PROTOCOL, Value::Object(item))
                if message.parts.len() == 1 && message.role == Role::User =>
            {
                Some(item.clone())
            }
            _ => None,
        };
        match item {
            None => said.push(part),
            Some(mut item) => {
                flush(message, &mut said, items);
                part.extra.write(PROTOCOL, &mut item);
                items.push(item.into());
            }
        }
    }
    if message.parts.is_empty() {
        items.push(self::message(message, &[]));
    }
    flush(message, &mut said, items);
}

fn flush(message: &Message, said: &mut Vec<&Part>, items: &mut Vec<Value>) {
    if !said.is_empty() {
        items.push(self::message(message, said));
        said.clear();
    }
}

fn message(message: &Message, parts: &[&Part]) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let said = content(parts, message.role);
    let mut out = Map::from_iter([("role".to_owned(), role.into()), ("content".to_owned(), said)]);
    message.extra.write(PROTOCOL, &mut out);
    // OpenAI takes an assistant's turn without a type; other servers of this protocol do not.
    if message.role == Role::Assistant {
        out.entry("type").or_insert_with(|| "message".into());
    }
    out.into()
}

fn function_call(call: &ToolCall) -> Map<String, Value> {
    Map::from_iter([
        ("type".to_owned(), "function_call".into()),
        ("call_id".to_owned(), call.id.as_str().into()),
        ("name".to_owned(), call.name.as_str().into()),
        ("arguments".to_owned(), call.arguments.as_str().into()),
    ])
}

fn tool_result(result: &ToolResult) -> Map<String, Value> {
    let parts: Vec<&Part> = result.parts.iter().collect();
    let output = if parts.is_empty() { "".into() } else { content(&parts, Role::User) };
    Map::from_iter([
        ("type".to_owned(), "function_call_output".into()),
        ("call_id".to_owned(), result.id.as_str().into()),
        ("output".to_owned(), output),
    ])
}

/// Parts as content: a single plain text as a string.
fn content(parts: &[&Part], role: Role) -> Value {
    if let [Part { content: Content::Text(text), cache: _, extra }] = parts
        && extra.fields(PROTOCOL).is_none()
    {
        return text.as_str().into();
    }
    parts.iter().filter_map(|part| self::part(part, role)).collect::<Vec<_>>().into()
}

fn part(part: &Part, role: Role) -> Option<Value> {
    let text_type = if role == Role::Assistant { "output_text" } else { "input_text" };
    let mut out = match &part.content {
        Content::Text(text) => object(text_type, "text", text),
        Content::Refusal(text) => object("refusal", "refusal", text),
        Content::Image(media) => image(media),
        Content::File(media) => file(media),
        Content::Other(PROTOCOL, value) => return Some(value.clone()),
        _ => return None,
    };
    // A part that was read here keeps its own type.
    if let Some(kind) = part.extra.get(PROTOCOL, "type") {
        out.insert("type".into(), kind.clone());
    }
    part.extra.write(PROTOCOL, &mut out);
    Some(out.into())
}

fn object(kind: &str, name: &str, text: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), kind.into()), (name.to_owned(), text.into())])
}

fn image(media: &Media) -> Map<String, Value> {
    match &media.source {
        Source::Url(url) => object("input_image", "image_url", url),
        Source::Base64(data) => object("input_image", "image_url", &data_url(media, data, "image/png")),
        Source::Id(id) => object("input_image", "file_id", id),
    }
}

fn file(media: &Media) -> Map<String, Value> {
    let mut out = match &media.source {
        Source::Url(url) => object("input_file", "file_url", url),
        Source::Base64(data) => object("input_file", "file_data", &data_url(media, data, "application/pdf")),
        Source::Id(id) => object("input_file", "file_id", id),
    };
    if let Some(name) = &media.name {
        out.insert("filename".into(), name.as_str().into());
    }
    out
}

fn data_url(media: &Media, data: &str, default: &str) -> String {
    format!("data:{};base64,{data}", media.media_type.as_deref().unwrap_or(default))
}
