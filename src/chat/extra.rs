//! What a protocol says beyond our words, kept as it came.

use serde_json::{Map, Value};

use super::protocol::Protocol;

/// Fields of one protocol that have no word of ours. They go out to that protocol only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra(Option<Box<(Protocol, Map<String, Value>)>>);

// === impl Extra ===

impl Extra {
    /// Nothing beyond our words.
    pub const NONE: Self = Self(None);

    /// Keeps what is left of an object after its known fields were taken out.
    #[must_use]
    pub fn rest(protocol: Protocol, fields: Map<String, Value>) -> Self {
        if fields.is_empty() { Self::NONE } else { Self(Some(Box::new((protocol, fields)))) }
    }

    /// Sets one field for one protocol. Fields kept for another protocol are dropped.
    pub fn set(&mut self, protocol: Protocol, name: impl Into<String>, value: impl Into<Value>) {
        match &mut self.0 {
            Some(kept) if kept.0 == protocol => {
                kept.1.insert(name.into(), value.into());
            }
            other => *other = Some(Box::new((protocol, Map::from_iter([(name.into(), value.into())])))),
        }
    }

    /// The fields kept for this protocol.
    #[must_use]
    pub fn fields(&self, protocol: Protocol) -> Option<&Map<String, Value>> {
        self.0.as_deref().filter(|kept| kept.0 == protocol).map(|kept| &kept.1)
    }

    /// One field kept for this protocol.
    #[must_use]
    pub fn get(&self, protocol: Protocol, name: &str) -> Option<&Value> {
        self.fields(protocol)?.get(name)
    }

    /// The protocol and its fields.
    #[must_use]
    pub fn kept(&self) -> Option<(Protocol, &Map<String, Value>)> {
        self.0.as_deref().map(|kept| (kept.0, &kept.1))
    }

    /// Writes the fields kept for this protocol into an object, leaving alone what stands there.
    pub fn write(&self, protocol: Protocol, into: &mut Map<String, Value>) {
        for (name, value) in self.fields(protocol).into_iter().flatten() {
            if !into.contains_key(name) {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}
