//! The content of a turn, both ways: a string, or a list of parts.

use serde_json::Value;

use crate::chat::{Message, Part};
use crate::protocol::json::Fields;

use super::{CHAT, part};

/// Takes the content, and how it was spelled if that is not what we would write: `[]` for a list where a string says
/// the same, `null`, and `false` where it was left out.
pub(super) fn take(fields: &mut Fields) -> Result<(Vec<Part>, Option<Value>), String> {
    match fields.remove("content") {
        None => Ok((Vec::new(), Some(Value::Bool(false)))),
        Some(Value::Null) => Ok((Vec::new(), Some(Value::Null))),
        Some(Value::String(text)) => Ok((vec![Part::text(text)], None)),
        Some(Value::Array(items)) => {
            let numbered = items.into_iter().enumerate();
            let parts =
                numbered.map(|(i, item)| part::read(item).map_err(|why| format!("content[{i}]: {why}")));
            Ok((parts.collect::<Result<_, _>>()?, Some(Value::Array(Vec::new()))))
        }
        Some(_) => Err("content: must be a string or a list of parts".to_owned()),
    }
}

/// Puts content as it was spelled; by ourselves a string wherever it is nothing but text, since every server takes
/// that.
pub(super) fn put(message: &Message, content: Vec<Value>, glue: &str, absent: Value, fields: &mut Fields) {
    let spelling = message.extra.get(CHAT, "content");
    let value = if content.is_empty() {
        match spelling {
            Some(Value::Bool(_)) => None,
            Some(spelling) => Some(spelling.clone()),
            None => Some(absent),
        }
    } else {
        let plain = || Some(content.iter().map(plain_text).collect::<Option<Vec<_>>>()?.join(glue));
        let joined = if spelling.is_some_and(Value::is_array) { None } else { plain() };
        Some(joined.map_or_else(|| Value::Array(content), Value::from))
    };
    fields.extend(value.map(|value| ("content".to_owned(), value)));
}

/// The text of a part that is nothing else.
fn plain_text(part: &Value) -> Option<&str> {
    let object = part.as_object().filter(|object| object.len() == 2)?;
    (object.get("type")? == "text").then(|| object.get("text")?.as_str()).flatten()
}
