//! The shape of an event, read in one pass and borrowed from its bytes.
//!
//! Strict: what does not fit is read again, through [`Frame::lenient`].

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, Visitor};
use serde_json::Value;

use crate::protocol::json::Fields;

use super::item::Voice;

/// One event. What only rare ones have is boxed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) item_id: Text<'a>,
    pub(super) output_index: Option<u32>,
    pub(super) content_index: Option<u32>,
    pub(super) summary_index: Option<u32>,
    #[serde(borrow)]
    pub(super) delta: Text<'a>,
    /// What a `.done` event holds whole.
    #[serde(borrow, alias = "refusal", alias = "arguments", alias = "input")]
    pub(super) text: Text<'a>,
    pub(super) item: Option<Box<Value>>,
    pub(super) response: Option<Box<Value>>,
    pub(super) error: Option<IgnoredAny>,
}

/// Which part a delta belongs to, and how.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) voice: Voice,
    item_id: Box<str>,
    output_index: Option<u32>,
    content_index: Option<u32>,
    summary_index: Option<u32>,
}

/// A string, borrowed unless it holds escapes; empty for null, and a number is its digits.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

// === impl Frame ===

impl Frame<'static> {
    /// Reads what does not fit. What is of no use counts as absent.
    pub(super) fn lenient(mut fields: Fields) -> Self {
        let index = |name: &str| match fields.get(name)? {
            Value::String(digits) => digits.parse().ok(),
            number => u32::try_from(whole(number)?).ok(),
        };
        let (output_index, content_index) = (index("output_index"), index("content_index"));
        let summary_index = index("summary_index");
        let whole = ["text", "refusal", "arguments", "input"].into_iter().find(|name| {
            fields.get(*name).is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
        });
        let mut take = |name: &str| Text(fields.remove(name).map(said).unwrap_or_default().into());
        Self {
            kind: take("type"),
            item_id: take("item_id"),
            output_index,
            content_index,
            summary_index,
            delta: take("delta"),
            text: whole.map(&mut take).unwrap_or_default(),
            item: fields.remove("item").map(Box::new),
            response: fields.remove("response").map(Box::new),
            error: None,
        }
    }
}

// === impl Part ===

impl Part {
    /// The part that a delta of this voice belongs to.
    pub(super) fn of(voice: Voice, frame: &Frame<'_>) -> Self {
        let Frame { output_index, content_index, summary_index, .. } = *frame;
        Self { voice, item_id: (&*frame.item_id.0).into(), output_index, content_index, summary_index }
    }

    /// The event that adds this text to it.
    pub(super) fn frame<'a>(&'a self, delta: Cow<'a, str>) -> Frame<'a> {
        let Self { output_index, content_index, summary_index, .. } = *self;
        let (item_id, delta) = (Text(Cow::Borrowed(&self.item_id)), Text(delta));
        Frame { item_id, output_index, content_index, summary_index, delta, ..Frame::default() }
    }
}

// === impl Text ===

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Said;

        impl<'de> Visitor<'de> for Said {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E: Error>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }
        }

        deserializer.deserialize_any(Said)
    }
}

/// What a value says as a text: a string itself, the `text` of an object, the digits of a number.
fn said(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Object(mut fields) => match fields.remove("text") {
            Some(Value::String(text)) => text,
            _ => String::new(),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) => String::new(),
    }
}

/// A whole number, however it is written.
pub(super) fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in bounds")]
            (0.0..=9.0e15).contains(&number).then_some(number as u64)
        }),
        Value::String(digits) => digits.parse().ok(),
        _ => None,
    }
}
