//! A client's request, read.

use serde_json::Value;

use crate::chat::{Extra, Parts, Request, Tool};
use crate::failure::{Code, Failure};
use crate::protocol::json::{Fields, take_text};

use super::part::take_cache;
use super::{CHAT, options, turn_in};

/// Reads a client's request.
///
/// # Errors
/// A local `INVALID_REQUEST` that names what is wrong and where. Only what has to be understood is refused: the rest
/// is the provider's to judge.
pub fn read(body: &[u8]) -> Result<Request, Failure> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| invalid(format!("the body is not JSON: {error}")))?;
    let Value::Object(mut fields) = value else { return Err(invalid("the body must be an object")) };
    let model = match fields.remove("model") {
        Some(Value::String(model)) => model,
        // The address may name it.
        None | Some(Value::Null) => String::new(),
        Some(_) => return Err(invalid("model: must be a string")),
    };
    let Some(Value::Array(turns)) = fields.remove("messages") else {
        return Err(invalid("messages: must be a list"));
    };
    let turns = turns.into_iter().enumerate();
    let messages = turns
        .map(|(i, turn)| match turn {
            Value::Object(turn) => turn_in::turn(turn).map_err(|why| invalid(format!("messages[{i}].{why}"))),
            _ => Err(invalid(format!("messages[{i}]: must be an object"))),
        })
        .collect::<Result<_, _>>()?;
    let tools = tools(&mut fields)?;
    let options = options::take(&mut fields);
    let stream = fields.get("stream").and_then(Value::as_bool).unwrap_or_default();
    if stream {
        fields.remove("stream");
    }
    Ok(Request::from(Parts {
        model,
        messages,
        tools,
        options,
        stream,
        protocol: Some(CHAT),
        extra: Extra::rest(CHAT, fields),
        ..Parts::default()
    }))
}

fn tools(fields: &mut Fields) -> Result<Vec<Tool>, Failure> {
    match fields.get("tools") {
        Some(Value::Array(items)) if !items.is_empty() => {}
        None | Some(Value::Null | Value::Array(_)) => return Ok(Vec::new()),
        Some(_) => return Err(invalid("tools: must be a list")),
    }
    let Some(Value::Array(items)) = fields.remove("tools") else { return Ok(Vec::new()) };
    let numbered = items.into_iter().enumerate();
    numbered
        .map(|(i, item)| tool(item).ok_or_else(|| invalid(format!("tools[{i}]: must be an object"))))
        .collect()
}

/// A function with a name; any other tool is the provider's own and stays whole.
fn tool(value: Value) -> Option<Tool> {
    let Value::Object(mut fields) = value else { return None };
    let mut tool = Tool {
        name: String::new(),
        description: None,
        schema: None,
        strict: None,
        cache: None,
        extra: Extra::NONE,
    };
    let function = fields.get("type").is_none_or(|kind| kind == "function");
    let inner = fields.get_mut("function").and_then(Value::as_object_mut).filter(|_| function);
    if let Some(inner) = inner
        && let Some(name) = take_text(inner, "name").filter(|name| !name.is_empty())
    {
        tool.name = name;
        tool.description = take_text(inner, "description");
        tool.schema = inner
            .get("parameters")
            .is_some_and(Value::is_object)
            .then(|| inner.remove("parameters"))
            .flatten();
        tool.strict = inner.get("strict").and_then(Value::as_bool);
        if tool.strict.is_some() {
            inner.remove("strict");
        }
        if inner.is_empty() {
            fields.remove("function");
        }
        fields.remove("type");
        tool.cache = take_cache(&mut fields);
    }
    tool.extra = Extra::rest(CHAT, fields);
    Some(tool)
}

fn invalid(message: impl AsRef<str>) -> Failure {
    Failure::local(Code::InvalidRequest, message)
}
