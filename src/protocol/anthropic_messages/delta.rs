//! The frame that comes most, a delta of a block: read in one pass, and borrowed from its bytes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// A frame that adds to a block. Strict: what does not fit is read again, leniently.
#[derive(Debug, Deserialize)]
pub(super) struct Frame<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<Kind>,
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Delta<'a>,
    pub(super) error: Option<IgnoredAny>,
}

/// The type of a frame.
#[derive(Debug, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
pub(super) enum Kind {
    ContentBlockDelta,
    #[serde(other)]
    Other,
}

/// What is new; `None` for a delta of a kind we do not know.
#[derive(Debug)]
pub(super) struct Delta<'a>(pub(super) Option<Said<'a>>);

/// What a delta of a kind we know adds.
#[derive(Debug)]
pub(super) enum Said<'a> {
    Text(Cow<'a, str>),
    Arguments(Cow<'a, str>),
    Thinking(Cow<'a, str>),
    Signature(Cow<'a, str>),
}

/// Makes of a text what a delta says.
pub(super) type Wrap = for<'a> fn(Cow<'a, str>) -> Said<'a>;

/// The fields of a delta.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Type,
    Text,
    PartialJson,
    Thinking,
    Signature,
    #[serde(other)]
    Other,
}

/// The type of a delta.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum DeltaKind {
    TextDelta,
    InputJsonDelta,
    ThinkingDelta,
    SignatureDelta,
    #[serde(other)]
    Other,
}

/// A string, borrowed unless it holds escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Str<'a>(#[serde(borrow)] Cow<'a, str>);

// === impl Delta ===

impl<'de: 'a, 'a> Deserialize<'de> for Delta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Delta<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a delta")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Delta<'de>, A::Error> {
                let (mut kind, mut said) = (None, None);
                while let Some(field) = fields.next_key()? {
                    let wrap = match field {
                        Field::Type => {
                            kind = Some(fields.next_value::<DeltaKind>()?);
                            continue;
                        }
                        Field::Other => {
                            fields.next_value::<IgnoredAny>()?;
                            continue;
                        }
                        Field::Text => Said::Text,
                        Field::PartialJson => Said::Arguments,
                        Field::Thinking => Said::Thinking,
                        Field::Signature => Said::Signature,
                    };
                    if said.replace(wrap(fields.next_value::<Str<'de>>()?.0)).is_some() {
                        return Err(A::Error::custom("two things are said"));
                    }
                }
                Ok(Delta(said.filter(|said| said.is(kind.as_ref()))))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

// === impl Said ===

impl<'a> Said<'a> {
    /// Reads a delta of any shape. One that names no kind is known by its field.
    pub(super) fn lenient(delta: &'a Value) -> Option<Self> {
        let text = |name: &str| delta.get(name).and_then(Value::as_str).map(Cow::Borrowed);
        let named = |name: &str| Some(text(name).unwrap_or_default());
        match delta.get("type").and_then(Value::as_str) {
            Some("text_delta") => named("text").map(Self::Text),
            Some("input_json_delta") => named("partial_json").map(Self::Arguments),
            Some("thinking_delta") => named("thinking").map(Self::Thinking),
            Some("signature_delta") => named("signature").map(Self::Signature),
            Some(_) => None,
            None => text("text")
                .map(Self::Text)
                .or_else(|| text("partial_json").map(Self::Arguments))
                .or_else(|| text("thinking").map(Self::Thinking))
                .or_else(|| text("signature").map(Self::Signature)),
        }
    }

    /// The text, and what makes the same of another.
    pub(super) fn parts(&self) -> (&str, Wrap) {
        match self {
            Self::Text(text) => (text, |text| Said::Text(text)),
            Self::Arguments(text) => (text, |text| Said::Arguments(text)),
            Self::Thinking(text) => (text, |text| Said::Thinking(text)),
            Self::Signature(text) => (text, |text| Said::Signature(text)),
        }
    }

    fn is(&self, kind: Option<&DeltaKind>) -> bool {
        match kind {
            None => true,
            Some(DeltaKind::TextDelta) => matches!(self, Self::Text(_)),
            Some(DeltaKind::InputJsonDelta) => matches!(self, Self::Arguments(_)),
            Some(DeltaKind::ThinkingDelta) => matches!(self, Self::Thinking(_)),
            Some(DeltaKind::SignatureDelta) => matches!(self, Self::Signature(_)),
            Some(DeltaKind::Other) => false,
        }
    }
}
