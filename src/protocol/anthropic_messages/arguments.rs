//! The arguments of a tool call, both ways: a string with us, an object here.

use serde_json::Value;

use super::Fields;

/// The one key under which arguments go out that are no JSON object, whole and as a string.
pub const RAW_ARGUMENTS: &str = "raw_arguments";

/// How deep arguments may be nested and still go out as an object: deeper ones could not be read again, since
/// readers of JSON commonly give up at 128 and they lie inside other objects.
const DEEPEST: usize = 100;

/// The arguments that an `input` means.
pub(super) fn read(input: Option<&Value>) -> String {
    match input {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(input) => input.to_string(),
    }
}

/// Writes arguments as an object.
pub(super) fn write(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(input @ Value::Object(_)) if !is_deeper(&input, DEEPEST) => input,
        Ok(Value::Null) => Value::Object(Fields::new()),
        Err(_) if arguments.trim().is_empty() => Value::Object(Fields::new()),
        _ => Value::from_iter([(RAW_ARGUMENTS, arguments)]),
    }
}

fn is_deeper(value: &Value, than: usize) -> bool {
    match (value, than.checked_sub(1)) {
        (Value::Array(_) | Value::Object(_), None) => true,
        (Value::Array(items), Some(than)) => items.iter().any(|item| is_deeper(item, than)),
        (Value::Object(fields), Some(than)) => fields.values().any(|value| is_deeper(value, than)),
        _ => false,
    }
}
