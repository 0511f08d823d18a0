//! Our words, written as a request.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::chat::{Parts, Tool};
use crate::failure::{Code, Failure};
use crate::protocol::Target;
use crate::protocol::json::Fields;

use super::part;
use super::turn_out::Turns;
use super::{CHAT, options};

/// Writes a request.
///
/// # Errors
/// A local `INVALID_REQUEST`: something in it cannot be said in this protocol, or an option is no number.
pub fn encode(parts: &Parts, target: &Target<'_>) -> Result<Bytes, Failure> {
    let empty = Map::new();
    let kept = parts.extra.fields(CHAT).unwrap_or(&empty);
    let foreign = parts.protocol.is_some_and(|protocol| protocol != CHAT);
    let marks = target.dialect.cache_marks || parts.protocol == Some(CHAT);
    let mut fields = Fields::new();
    if !target.dialect.model_in_url {
        fields.insert("model".to_owned(), Value::from(target.model));
    }
    fields.insert("messages".to_owned(), Turns::new(parts, target).write()?);
    let tools: Vec<_> = parts.tools.iter().filter_map(|tool| write_tool(tool, marks)).collect();
    let unarmed = tools.is_empty() && foreign;
    if !tools.is_empty() {
        fields.insert("tools".to_owned(), Value::from(tools));
    }
    check(parts)?;
    options::write(&parts.options, kept, (target, foreign), &mut fields);
    if unarmed {
        // Refused without tools; those of another protocol may have been left out.
        fields.remove("tool_choice");
        fields.remove("parallel_tool_calls");
    }
    write_stream(parts.stream, kept, target.dialect.ask_usage, &mut fields);
    for (name, value) in kept {
        let written = matches!(name.as_str(), "model" | "messages" | "stream" | "stream_options");
        if !written && !options::is_option(name) && !fields.contains_key(name) {
            fields.insert(name.clone(), value.clone());
        }
    }
    serde_json::to_vec(&fields).map(Bytes::from).map_err(|error| {
        Failure::local(Code::InvalidRequest, "the request cannot be written as JSON").with_source(error)
    })
}

fn check(parts: &Parts) -> Result<(), Failure> {
    for (name, number) in [("temperature", parts.options.temperature), ("top_p", parts.options.top_p)] {
        if number.is_some_and(|number| !number.is_finite()) {
            return Err(Failure::local(Code::InvalidRequest, format!("{name}: must be a finite number")));
        }
    }
    Ok(())
}

fn write_stream(stream: bool, kept: &Fields, ask_usage: bool, fields: &mut Fields) {
    if !stream {
        fields.extend(kept.get("stream").map(|said| ("stream".to_owned(), said.clone())));
        return;
    }
    fields.insert("stream".to_owned(), Value::Bool(true));
    let mut options = kept.get("stream_options").cloned().unwrap_or(Value::Null);
    if ask_usage {
        if !options.is_object() {
            options = Value::Object(Map::new());
        }
        if let Value::Object(options) = &mut options {
            options.insert("include_usage".to_owned(), Value::Bool(true));
        }
    } else if let Value::Object(options) = &mut options {
        options.remove("include_usage");
    }
    if options.as_object().is_some_and(|options| !options.is_empty()) {
        fields.insert("stream_options".to_owned(), options);
    }
}

/// Writes a tool; `None` for one of another protocol's provider.
fn write_tool(tool: &Tool, marks: bool) -> Option<Value> {
    if tool.name.is_empty() {
        return tool.extra.fields(CHAT).map(|whole| Value::Object(whole.clone()));
    }
    let mut function = Fields::from_iter([("name".to_owned(), Value::from(tool.name.as_str()))]);
    let more = [
        ("description", tool.description.as_deref().map(Value::from)),
        ("parameters", tool.schema.clone()),
        ("strict", tool.strict.map(Value::Bool)),
    ];
    function.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    let mut fields = Fields::from_iter([("type".to_owned(), Value::from("function"))]);
    fields.insert("function".to_owned(), Value::Object(function));
    part::write_cache(tool.cache.as_ref(), marks, &mut fields);
    part::write_rest(&tool.extra, &mut fields);
    Some(Value::Object(fields))
}
