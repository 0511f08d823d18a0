//! Small questions to JSON, as all three protocols ask them.

use serde_json::{Map, Value};

use crate::failure::{Code, Failure};

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
pub(super) fn request(body: &[u8]) -> Result<Map<String, Value>, Failure> {
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

/// Fields taken out of an object, typed, with the place for complaints. What is null counts as absent.
pub(super) struct Fields<'a> {
    fields: &'a mut Map<String, Value>,
    place: &'a str,
}

// === impl Fields ===

impl<'a> Fields<'a> {
    pub(super) fn new(fields: &'a mut Map<String, Value>, place: &'a str) -> Self {
        Self { fields, place }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    /// Looks at a field, and leaves it.
    pub(super) fn peek(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// Puts a field back.
    pub(super) fn put(&mut self, name: &str, value: Value) {
        self.fields.insert(name.to_owned(), value);
    }

    pub(super) fn string(&mut self, name: &str) -> Result<Option<String>, Failure> {
        self.typed(name, "must be a string", |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, Failure> {
        self.typed(name, "must be a number", |value| value.as_f64())
    }

    pub(super) fn whole(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        self.typed(name, "must be a whole number", |value| value.as_u64())
    }

    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>, Failure> {
        self.typed(name, "must be true or false", |value| value.as_bool())
    }

    pub(super) fn array(&mut self, name: &str) -> Result<Option<Vec<Value>>, Failure> {
        self.typed(name, "must be an array", |value| match value {
            Value::Array(items) => Some(items),
            _ => None,
        })
    }

    fn typed<T>(
        &mut self,
        name: &str,
        why: &str,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let place = if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) };
        self.take(name).map(|value| read(value).ok_or_else(|| refuse(&place, why))).transpose()
    }
}

/// A request's body as bytes.
pub(super) fn write(body: &Map<String, Value>) -> Result<bytes::Bytes, Failure> {
    match serde_json::to_vec(body) {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) => Err(refuse("the request", &error.to_string())),
    }
}
