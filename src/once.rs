//! Maps in a configuration file: each key stands there once.
//!
//! TOML and YAML refuse a key that stands there twice. JSON does not, and a reader keeps the last: the limits of the
//! first would be lost, and nobody told.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Display};
use std::hash::Hash;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

/// What stands where each key must stand once.
struct Once<K, V, M>(PhantomData<(K, V, M)>);

pub(crate) fn deserialize<'de, K, V, M, D>(from: D) -> Result<M, D::Error>
where
    K: Deserialize<'de> + Eq + Hash + Clone + Display,
    V: Deserialize<'de>,
    M: Default + Extend<(K, V)> + IntoIterator<Item = (K, V)>,
    D: Deserializer<'de>,
{
    from.deserialize_map(Once(PhantomData))
}

// === impl Once ===

impl<'de, K, V, M> Visitor<'de> for Once<K, V, M>
where
    K: Deserialize<'de> + Eq + Hash + Clone + Display,
    V: Deserialize<'de>,
    M: Default + Extend<(K, V)>,
{
    type Value = M;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<M, A::Error> {
        let (mut map, mut seen) = (M::default(), HashSet::new());
        while let Some(key) = entries.next_key::<K>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format_args!("`{key}` stands there twice")));
            }
            map.extend([(key, entries.next_value()?)]);
        }
        Ok(map)
    }
}

/// What a file says at one place, whatever it is, with each key of each map there once.
pub(crate) struct Tree(pub(crate) Value);

struct Trees;

// === impl Tree ===

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Trees).map(Self)
    }
}

impl<'de> Visitor<'de> for Trees {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number =
            Number::from_f64(value).ok_or_else(|| E::custom(format_args!("{value} is no number")))?;
        Ok(number.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Tree(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        let map: BTreeMap<String, Tree> = Once(PhantomData).visit_map(entries)?;
        Ok(Value::Object(map.into_iter().map(|(name, Tree(value))| (name, value)).collect()))
    }
}
