//! Small questions to JSON, as all three protocols ask them.

use serde_json::{Map, Value};

use crate::failure::{Code, Failure};

/// The fields of an object.
pub(super) type Fields = Map<String, Value>;

/// A whole body: blanks before it are skipped; a page, nothing, and broken JSON are `INVALID_RESPONSE`.
pub(super) fn whole(body: &[u8]) -> Result<Value, Failure> {
    let text = body.trim_ascii();
    let invalid = |why: String| Failure::new(Code::InvalidResponse, why);
    if text.is_empty() {
        return Err(invalid("the body is empty".into()));
    }
    if text.first() == Some(&b'<') {
        return Err(invalid("the body is a page, not a reply".into()));
    }
    match serde_json::from_slice(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => Ok(value),
        Ok(_) => Err(invalid("the body is not an object".into())),
        Err(error) => Err(invalid(format!("the body is not JSON: {error}"))),
    }
}

/// A client's request: an object, or a local refusal.
pub(super) fn request(body: &[u8]) -> Result<Fields, Failure> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(refuse("the body", "must be an object")),
        Err(error) => Err(refuse("the body", &format!("is not JSON: {error}"))),
    }
}

/// A local refusal that says what is wrong and where.
pub(super) fn refuse(place: &str, why: &str) -> Failure {
    Failure::local(Code::InvalidRequest, format!("{place}: {why}"))
}

/// A string field; empty where there is none.
pub(super) fn string<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Takes a string out of an object; what is no string stays.
pub(super) fn take_text(fields: &mut Fields, name: &str) -> Option<String> {
    fields.get(name)?.as_str()?;
    match fields.remove(name)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// A request's body as bytes.
pub(super) fn write(body: &Fields) -> Result<bytes::Bytes, Failure> {
    match serde_json::to_vec(body) {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) => Err(refuse("the request", &error.to_string())),
    }
}
