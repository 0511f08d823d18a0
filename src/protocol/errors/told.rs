//! What an error tells, whatever the shape it came in.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::prose;
use crate::failure::parse_retry_after;
use crate::protocol::limits::parse_reset;

/// How much of a message is searched for phrases and figures.
const SEARCHED: usize = 16 * 1024;

/// The longest code or type taken for one.
const NAME: usize = 64;

/// How deep errors are looked for inside errors: gateways wrap each other's.
const DEPTH: usize = 3;

/// How many complaints of a validator are told.
const COMPLAINTS: usize = 4;

/// An error with its message found and its names in lower case.
pub(super) struct Told<'a> {
    /// The object around the error; the error itself where there is none.
    outer: &'a Value,
    error: &'a Value,
    message: Cow<'a, str>,
    words: String,
    names: Vec<String>,
}

// === impl Told ===

impl<'a> Told<'a> {
    /// Looks for the error in a frame or a body.
    pub(super) fn new(frame: &'a Value) -> Self {
        let (outer, error) = locate(frame);
        let message = message(outer, error);
        let raw = error["metadata"]["raw"].as_str().unwrap_or_default();
        let message = if raw.is_empty() { message } else { Cow::Owned(format!("{message}: {raw}")) };
        let words = message.chars().take(SEARCHED).collect::<String>().to_lowercase();
        let names = spoken(outer, error).filter(|name| name.len() <= NAME).map(str::to_lowercase).collect();
        Self { outer, error, message, words, names }
    }

    /// The provider's message, as it came.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The message in lower case, clipped.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// Every code and type told, the most telling first, in lower case.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The code or type worth showing: no number that is a status, and not the word "error".
    pub(super) fn label(&self) -> Option<&'a str> {
        spoken(self.outer, self.error).find(|name| {
            !name.is_empty() && name.len() <= NAME && status_in(name).is_none() && *name != "error"
        })
    }

    /// The code that stands for a status, integer or string.
    pub(super) fn status(&self) -> Option<StatusCode> {
        let keys = ["code", "status_code", "status", "raw_status_code"];
        let told = [self.error, self.outer].into_iter().flat_map(|at| keys.map(|key| &at[key]));
        told.filter_map(|value| match value {
            Value::Number(number) => StatusCode::from_u16(number.as_u64()?.try_into().ok()?).ok(),
            Value::String(text) => status_in(text),
            _ => None,
        })
        .find(|status| is_error(*status))
    }

    /// The wait told in the body: its fields, then its words.
    pub(super) fn wait(&self, unix: Duration) -> Option<Duration> {
        let places = [self.error, &self.error["metadata"], &self.error["availability"], self.outer];
        let field = |key: &str, read: &dyn Fn(&str) -> Option<Duration>| {
            places.iter().find_map(|at| match &at[key] {
                Value::Number(number) => read(&number.to_string()),
                Value::String(text) => read(text),
                _ => None,
            })
        };
        let details = self.error["details"].as_array().map_or(&[][..], Vec::as_slice);
        let delay = || details.iter().find_map(|detail| parse_reset(detail["retryDelay"].as_str()?, unix));
        field("resets_in_seconds", &|told| parse_retry_after(told, unix))
            .or_else(|| field("resets_at", &|told| parse_reset(told, unix)))
            .or_else(|| {
                field("retry_after", &|told| {
                    parse_retry_after(told, unix).or_else(|| parse_reset(told, unix))
                })
            })
            .or_else(delay)
            .or_else(|| prose::wait(&self.words))
    }

    /// Whether it comes from Cloudflare, in front of the provider.
    pub(super) fn is_edge(&self) -> bool {
        self.names().any(|name| name.starts_with("cf_")) || self.words.starts_with("error code: 1")
    }

    /// Whether it says when it ends.
    pub(super) fn has_end(&self) -> bool {
        [self.error, &self.error["metadata"], self.outer].into_iter().any(|at| is_truthy(&at["resets_at"]))
    }

    /// OpenRouter's word on whether another try makes sense.
    pub(super) fn retryable(&self) -> Option<bool> {
        self.error["availability"]["retryable"].as_bool()
    }
}

/// Whether a frame or a body carries an error: inside an array, a response or a choice, or by its type.
#[must_use]
pub fn has_error(frame: &Value) -> bool {
    let outer = frame.get(0).unwrap_or(frame);
    inside(outer).is_some() || outer["type"] == "error" || outer["object"] == "error"
}

/// The error, and the object around it.
fn locate(frame: &Value) -> (&Value, &Value) {
    let mut outer = frame.get(0).unwrap_or(frame);
    let mut error = outer;
    for _ in 0..DEPTH {
        let Some(inner) = inside(error) else { break };
        (outer, error) = (error, inner);
    }
    (outer, error)
}

/// The error inside this object, wherever it is kept.
fn inside(outer: &Value) -> Option<&Value> {
    let direct = [&outer["error"], &outer["response"]["error"], &outer["errors"][0]];
    let detail = Some(&outer["detail"]).filter(|detail| detail.is_object());
    let choices = outer["choices"].as_array().map_or(&[][..], Vec::as_slice);
    let chosen = choices.iter().map(|choice| &choice["error"]);
    direct.into_iter().chain(detail).chain(chosen).find(|value| is_truthy(value))
}

/// Whether a field says anything, as the official clients ask it.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(true) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// Every code and type, the most telling first.
fn spoken<'a>(outer: &'a Value, error: &'a Value) -> impl Iterator<Item = &'a str> {
    let reasons = error["details"].as_array().map_or(&[][..], Vec::as_slice);
    let word = |at: &'a Value| at.as_str().filter(|text| !text.contains(' '));
    let causes = [&error["details"]["error_code"], &error["innererror"]["code"]];
    let own = [
        &error["code"],
        &error["metadata"]["error_type"],
        &error["metadata"]["limit_source"],
        &error["error_type"],
        &error["availability"]["code"],
        &error["type"],
        &error["status"],
        &outer["code"],
        &outer["error_type"],
    ];
    let causes = causes.into_iter().chain(reasons.iter().map(|detail| &detail["reason"]));
    causes.chain(own).filter_map(Value::as_str).chain(word(error)).chain(outer["type"].as_str())
}

/// The provider's sentence.
fn message<'a>(outer: &'a Value, error: &'a Value) -> Cow<'a, str> {
    let told = [&error["message"], &error["detail"], &error["msg"], &outer["message"], &outer["detail"]];
    let own = error.as_str().filter(|text| text.contains(' ')).map(Cow::Borrowed);
    own.or_else(|| told.into_iter().find_map(sentence))
        .or_else(|| error.as_str().map(Cow::Borrowed))
        .unwrap_or_default()
}

/// A message: text, an object around one, or the complaints of a validator.
fn sentence(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text.as_str())),
        Value::Array(complaints) => {
            let told: Vec<_> = complaints.iter().take(COMPLAINTS).filter_map(complaint).collect();
            (!told.is_empty()).then(|| Cow::Owned(told.join("; ")))
        }
        Value::Object(object) => {
            object.get("message").or_else(|| object.get("detail")).and_then(|inner| match inner {
                Value::Object(_) => None,
                inner => sentence(inner),
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// One complaint of a validator, with the place it is about.
fn complaint(value: &Value) -> Option<String> {
    let text = value.as_str().or_else(|| value["msg"].as_str())?;
    let place: Vec<_> = value["loc"].as_array().into_iter().flatten().map(step).collect();
    Some(if place.is_empty() { text.to_owned() } else { format!("{}: {text}", place.join(".")) })
}

fn step(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn status_in(text: &str) -> Option<StatusCode> {
    let number = (text.len() == 3).then(|| text.parse().ok())??;
    StatusCode::from_u16(number).ok().filter(|status| is_error(*status))
}

fn is_error(status: StatusCode) -> bool {
    (400..600).contains(&status.as_u16())
}
