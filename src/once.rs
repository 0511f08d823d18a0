//! Maps in a configuration file: each key stands there once.
//!
//! TOML and YAML refuse a key that stands there twice. JSON does not, and a reader keeps the last: the limits of the
//! first would be lost, and nobody told.

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::hash::Hash;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

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
