//! Switches in a configuration file: `false` is off, in every format alike.
//!
//! Off is `None`. Where a value is there by default it cannot be left out to be off, and TOML has no null.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Switch<T> {
    Off(Off),
    On(T),
    Null(()),
}

/// `false`, and nothing else.
struct Off;

#[expect(clippy::ref_option, reason = "the signature that serde asks")]
pub(super) fn serialize<T: Serialize, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map_or(Switch::Off(Off), Switch::On).serialize(to)
}

pub(super) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(match Switch::deserialize(from)? {
        Switch::On(value) => Some(value),
        Switch::Off(Off) | Switch::Null(()) => None,
    })
}

/// The same for durations as people write them.
pub(super) mod time {
    use humantime_serde::Serde;

    use super::{Deserializer, Duration, Serializer};

    #[expect(clippy::ref_option, reason = "the signature that serde asks")]
    pub(in super::super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        super::serialize(&value.map(Serde::from), to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(super::deserialize::<Serde<Duration>, D>(from)?.map(Serde::into_inner))
    }
}

// === impl Off ===

impl Serialize for Off {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bool(false)
    }
}

impl<'de> Deserialize<'de> for Off {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if bool::deserialize(from)? {
            return Err(serde::de::Error::custom("`true` says nothing here: give a value, or `false`"));
        }
        Ok(Self)
    }
}
