//! Switches in a configuration file: `false` is off, in every format alike.
//!
//! Off is `None`. Where a value is there by default it cannot be left out to be off, and TOML has no null.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

/// What stands where a value may be off.
struct Switch<T>(PhantomData<T>);

#[expect(clippy::ref_option, reason = "the signature that serde asks")]
pub(crate) fn serialize<T: Serialize, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => value.serialize(to),
        None => to.serialize_bool(false),
    }
}

pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    from.deserialize_any(Switch(PhantomData))
}

/// The same for durations as people write them.
pub(crate) mod time {
    use std::time::Duration;

    use humantime_serde::Serde;
    use serde::{Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "the signature that serde asks")]
    pub(crate) fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        super::serialize(&value.map(Serde::from), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(super::deserialize::<Serde<Duration>, D>(from)?.map(Serde::into_inner))
    }
}

// === impl Switch ===

/// Hands on whatever is no switch, so that an error inside it is told as it is.
impl<'de, T: Deserialize<'de>> Visitor<'de> for Switch<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or `false` for off")
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<Option<T>, E> {
        if on {
            Err(E::custom("`true` says nothing here: give a value, or `false` for off"))
        } else {
            Ok(None)
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<T>, E> {
        T::deserialize(value.into_deserializer()).map(Some)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<T>, E> {
        T::deserialize(value.into_deserializer()).map(Some)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<T>, E> {
        T::deserialize(value.into_deserializer()).map(Some)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Option<T>, E> {
        T::deserialize(value.into_deserializer()).map(Some)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Option<T>, A::Error> {
        T::deserialize(SeqAccessDeserializer::new(seq)).map(Some)
    }

    fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<Option<T>, D::Error> {
        value.deserialize_any(self)
    }
}
