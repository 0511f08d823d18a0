//! One option in one field of a body, both ways.

use serde_json::{Number, Value};

use crate::chat::Options;

use super::json::Fields;

/// A field that holds an option, or two.
pub(super) struct Field {
    pub(super) name: &'static str,
    /// Reads it; what cannot be read is left alone.
    pub(super) read: fn(&Value, &mut Options),
    /// Writes it, in our own spelling.
    pub(super) write: fn(&Options) -> Option<Value>,
}

pub(super) const TEMPERATURE: Field = Field {
    name: "temperature",
    read: |value, options| options.temperature = value.as_f64(),
    write: |options| decimal(options.temperature),
};

pub(super) const TOP_P: Field = Field {
    name: "top_p",
    read: |value, options| options.top_p = value.as_f64(),
    write: |options| decimal(options.top_p),
};

pub(super) const TOP_K: Field = Field {
    name: "top_k",
    read: |value, options| options.top_k = value.as_u64(),
    write: |options| options.top_k.map(Value::from),
};

// === impl Field ===

impl Field {
    /// Takes the option out of a request. A field that we would spell otherwise stays, to be spelled so again.
    pub(super) fn take(&self, fields: &mut Fields, options: &mut Options) {
        if let Some(raw) = fields.get(self.name) {
            (self.read)(raw, options);
            if (self.write)(options).as_ref() == Some(raw) {
                fields.remove(self.name);
            }
        }
    }

    /// The option as it was spelled, if that still means the same; else in our own spelling.
    pub(super) fn spell(&self, options: &Options, kept: Option<&Value>) -> Option<Value> {
        let ours = (self.write)(options);
        let meant = kept.filter(|raw| {
            let mut before = Options::default();
            (self.read)(raw, &mut before);
            (self.write)(&before) == ours
        });
        meant.cloned().or(ours)
    }
}

fn decimal(number: Option<f64>) -> Option<Value> {
    Number::from_f64(number?).map(Value::Number)
}
