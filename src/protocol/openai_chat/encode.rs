//! A request, written.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::chat::{
    CacheBreakpoint, Content, Effort, Media, Message, Part, Parts, Protocol, Role, Source, Tool, ToolChoice,
    ToolResult,
};
use crate::failure::Failure;
use crate::protocol::json::{refuse, write};
use crate::protocol::{OutputCap, Target};

const PROTOCOL: Protocol = Protocol::OpenaiChat;

/// Writes a request.
///
/// What was read from this protocol goes out as it came. Of another protocol's request, parts that have no word here
/// are left out; reasoning goes back, as `reasoning_content`, only to the instance that made it.
///
/// # Errors
/// A local `INVALID_REQUEST`, if it cannot be written as JSON.
pub fn encode(parts: &Parts, target: &Target<'_>) -> Result<Bytes, Failure> {
    let mut body = Map::new();
    if !target.dialect.model_in_url {
        body.insert("model".into(), target.model.into());
    }
    let mut messages = Vec::with_capacity(parts.messages.len());
    for message in &parts.messages {
        turn(message, target, &mut messages);
    }
    body.insert("messages".into(), messages.into());
    if !parts.tools.is_empty() {
        let tools: Vec<Value> = parts.tools.iter().filter_map(tool).collect();
        body.insert("tools".into(), tools.into());
    }
    options(parts, target, &mut body)?;
    if parts.stream {
        body.insert("stream".into(), true.into());
        let mut wanted = match parts.extra.get(PROTOCOL, "stream_options") {
            Some(Value::Object(wanted)) => wanted.clone(),
            _ => Map::new(),
        };
        if target.dialect.ask_usage {
            wanted.insert("include_usage".into(), true.into());
        }
        if !wanted.is_empty() {
            body.insert("stream_options".into(), wanted.into());
        }
    }
    parts.extra.write(PROTOCOL, &mut body);
    write(&body)
}

fn options(parts: &Parts, target: &Target<'_>, body: &mut Map<String, Value>) -> Result<(), Failure> {
    let options = &parts.options;
    cap(parts, target, body);
    let number = |name: &str, value: f64| {
        serde_json::Number::from_f64(value).map(Value::from).ok_or_else(|| refuse(name, "is not a number"))
    };
    if let Some(value) = options.temperature {
        body.insert("temperature".into(), number("temperature", value)?);
    }
    if let Some(value) = options.top_p {
        body.insert("top_p".into(), number("top_p", value)?);
    }
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.into(), value);
        }
    };
    set("top_k", options.top_k.map(Value::from));
    set("seed", options.seed.map(Value::from));
    set("parallel_tool_calls", options.parallel_tool_calls.map(Value::from));
    set(
        "reasoning_effort",
        options.reasoning.as_ref().and_then(|reasoning| effort(reasoning.effort.as_ref()?)),
    );
    set("tool_choice", options.tool_choice.as_ref().map(tool_choice));
    // A single string goes out as it came, from what was kept of it.
    let kept = parts.extra.get(PROTOCOL, "stop").is_some();
    set("stop", (!options.stop.is_empty() && !kept).then(|| options.stop.clone().into()));
    Ok(())
}

/// The cap on output, under the name the dialect wants, else under the names it came by.
fn cap(parts: &Parts, target: &Target<'_>, body: &mut Map<String, Value>) {
    let (old, new) = ("max_tokens", "max_completion_tokens");
    let came = |name: &str| parts.extra.get(PROTOCOL, name).and_then(Value::as_u64);
    let Some(cap) = parts.options.max_output_tokens else { return };
    let as_it_came = came(old).into_iter().chain(came(new)).max() == Some(cap);
    let name = match target.dialect.output_cap {
        Some(OutputCap::MaxTokens) => old,
        None if as_it_came => return,
        None if came(old).is_some() && came(new).is_none() => old,
        Some(OutputCap::MaxCompletionTokens) | None => new,
    };
    body.insert(name.into(), cap.into());
}

fn effort(effort: &Effort) -> Option<Value> {
    match effort {
        Effort::Named(word) => Some(word.as_str().into()),
        Effort::Off => Some("none".into()),
        // The words stand for shares of the output; a budget of so many tokens is about this much of them.
        Effort::Tokens(..=2048) => Some("low".into()),
        Effort::Tokens(2049..=12_288) => Some("medium".into()),
        Effort::Tokens(_) => Some("high".into()),
        Effort::Adaptive => None,
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

/// A function; a tool of this protocol's provider as it came, one of another's not at all.
fn tool(tool: &Tool) -> Option<Value> {
    let mut out = Map::new();
    if tool.name.is_empty() {
        tool.extra.write(PROTOCOL, &mut out);
        return (!out.is_empty()).then(|| out.into());
    }
    let mut function = match tool.extra.get(PROTOCOL, "function") {
        Some(Value::Object(rest)) => rest.clone(),
        _ => Map::new(),
    };
    function.insert("name".into(), tool.name.as_str().into());
    let described = tool.description.as_deref().map(Value::from);
    for (name, value) in [
        ("description", described),
        ("parameters", tool.schema.clone()),
        ("strict", tool.strict.map(Value::from)),
    ] {
        if let Some(value) = value {
            function.insert(name.into(), value);
        }
    }
    out.insert("type".into(), "function".into());
    out.insert("function".into(), function.into());
    cache(tool.cache.as_ref(), &mut out);
    tool.extra.write(PROTOCOL, &mut out);
    Some(out.into())
}

/// One turn. Results of tools are turns of their own here, before what else the turn says.
fn turn(message: &Message, target: &Target<'_>, out: &mut Vec<Value>) {
    let is_result = |part: &&Part| matches!(part.content, Content::ToolResult(_));
    let mut alone = message.parts.iter().all(|part| is_result(&part));
    for part in message.parts.iter().filter(is_result) {
        if let Content::ToolResult(result) = &part.content {
            let mut turn = tool_result(result);
            if std::mem::take(&mut alone) {
                message.extra.write(PROTOCOL, &mut turn);
            }
            out.push(turn.into());
        }
    }
    let rest: Vec<&Part> = message.parts.iter().filter(|part| !is_result(part)).collect();
    if rest.is_empty() && !message.parts.is_empty() {
        return;
    }
    let mut turn = Map::new();
    let role = match message.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    turn.insert("role".into(), role.into());
    if message.role == Role::Assistant {
        assistant(&rest, target, &mut turn);
    } else {
        turn.insert("content".into(), content(&rest));
    }
    message.extra.write(PROTOCOL, &mut turn);
    out.push(turn.into());
}

fn tool_result(result: &ToolResult) -> Map<String, Value> {
    let parts: Vec<&Part> = result.parts.iter().collect();
    let mut turn = Map::new();
    turn.insert("role".into(), "tool".into());
    turn.insert("tool_call_id".into(), result.id.as_str().into());
    turn.insert("content".into(), content(&parts));
    turn
}

/// The fields of an assistant's turn.
fn assistant(parts: &[&Part], target: &Target<'_>, turn: &mut Map<String, Value>) {
    let mut said: Vec<&Part> = Vec::new();
    let mut calls: Vec<Value> = Vec::new();
    for part in parts {
        match &part.content {
            Content::ToolCall(call) => {
                let function = json!({"name": call.name, "arguments": call.arguments});
                let mut item = Map::from_iter([
                    ("id".to_owned(), call.id.as_str().into()),
                    ("type".to_owned(), "function".into()),
                    ("function".to_owned(), function),
                ]);
                part.extra.write(PROTOCOL, &mut item);
                calls.push(item.into());
            }
            Content::Reasoning(reasoning)
                if target.owns(reasoning) && !reasoning.summary && reasoning.signature.is_none() =>
            {
                turn.insert("reasoning_content".into(), reasoning.text.as_str().into());
            }
            Content::Reasoning(_) => {}
            // A refusal among parts has a part of its own; alone it is a field.
            Content::Refusal(text) if parts.len() == 1 => {
                turn.insert("refusal".into(), text.as_str().into());
            }
            Content::Other(PROTOCOL, value)
                if value.get("function").or_else(|| value.get("custom")).is_some() =>
            {
                calls.push(value.clone());
            }
            _ => said.push(part),
        }
    }
    let content = if said.is_empty() { Value::Null } else { content(&said) };
    turn.insert("content".into(), content);
    if !calls.is_empty() {
        turn.insert("tool_calls".into(), calls.into());
    }
}

/// Parts as content: a single plain text as a string.
fn content(parts: &[&Part]) -> Value {
    if let [Part { content: Content::Text(text), cache: None, extra }] = parts
        && extra.fields(PROTOCOL).is_none()
    {
        return text.as_str().into();
    }
    if parts.is_empty() {
        return "".into();
    }
    parts.iter().filter_map(|part| self::part(part)).collect::<Vec<_>>().into()
}

fn part(part: &Part) -> Option<Value> {
    let mut out = match &part.content {
        Content::Text(text) => object("text", "text", text.as_str().into()),
        Content::Refusal(text) => object("refusal", "refusal", text.as_str().into()),
        Content::Image(media) => {
            object("image_url", "image_url", with_rest(part, "image_url", image(media)?))
        }
        Content::Audio(media) => {
            object("input_audio", "input_audio", with_rest(part, "input_audio", audio(media)?))
        }
        Content::File(media) => object("file", "file", with_rest(part, "file", file(media)?)),
        Content::Other(PROTOCOL, value) => return Some(value.clone()),
        _ => return None,
    };
    cache(part.cache.as_ref(), &mut out);
    part.extra.write(PROTOCOL, &mut out);
    Some(out.into())
}

fn object(kind: &str, name: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), kind.into()), (name.to_owned(), value)])
}

/// An inner object, with the fields that were kept of it.
fn with_rest(part: &Part, name: &str, mut inner: Map<String, Value>) -> Value {
    if let Some(Value::Object(rest)) = part.extra.get(PROTOCOL, name) {
        for (name, value) in rest {
            inner.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    inner.into()
}

fn image(media: &Media) -> Option<Map<String, Value>> {
    let url = match &media.source {
        Source::Url(url) => url.clone(),
        Source::Base64(data) => data_url(media, data, "image/png"),
        Source::Id(_) => return None,
    };
    Some(Map::from_iter([("url".to_owned(), url.into())]))
}

fn audio(media: &Media) -> Option<Map<String, Value>> {
    let Source::Base64(data) = &media.source else { return None };
    let format = media.media_type.as_deref().unwrap_or("wav");
    let format = format.strip_prefix("audio/").unwrap_or(format);
    Some(Map::from_iter([("data".to_owned(), data.as_ref().into()), ("format".to_owned(), format.into())]))
}

fn file(media: &Media) -> Option<Map<String, Value>> {
    let mut file = match &media.source {
        Source::Id(id) => Map::from_iter([("file_id".to_owned(), id.as_str().into())]),
        Source::Base64(data) if media.media_type.is_none() => {
            Map::from_iter([("file_data".to_owned(), data.as_ref().into())])
        }
        Source::Base64(data) => {
            Map::from_iter([("file_data".to_owned(), data_url(media, data, "application/pdf").into())])
        }
        Source::Url(_) => return None,
    };
    if let Some(name) = &media.name {
        file.insert("filename".into(), name.as_str().into());
    }
    Some(file)
}

fn data_url(media: &Media, data: &str, default: &str) -> String {
    format!("data:{};base64,{data}", media.media_type.as_deref().unwrap_or(default))
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
