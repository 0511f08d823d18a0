//! Switches in a configuration file: `false` is off, in every format alike.
//!
//! Off is `None`. Where a value is there by default it cannot be left out to be off, and TOML has no null.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer, U64Deserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Reads a value or `false`. What is wrong inside the value is told as it would be without the switch.
struct Switch<T>(PhantomData<T>);

#[expect(clippy::ref_option, reason = "the signature that serde asks")]
pub(super) fn serialize<T: Serialize, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => value.serialize(to),
        None => to.serialize_bool(false),
    }
}

pub(super) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    from.deserialize_any(Switch(PhantomData))
}

/// The same for durations as people write them.
pub(super) mod time {
    use std::time::Duration;

    use humantime_serde::Serde;
    use serde::{Deserializer, Serializer};

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

// === impl Switch ===

impl<'de, T: Deserialize<'de>> Visitor<'de> for Switch<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or `false` to switch it off")
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<Self::Value, E> {
        if on { Err(E::custom("`true` says nothing here: give a value, or `false`")) } else { Ok(None) }
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        T::deserialize(U64Deserializer::new(value)).map(Some)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        let value = u64::try_from(value).map_err(|_| E::custom(format!("{value} is below zero")))?;
        self.visit_u64(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        T::deserialize(StrDeserializer::new(value)).map(Some)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}
