//! A key that never shows.

use std::fmt;
use std::sync::Arc;

/// A key. It is not printed, logged, or serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

// === impl Secret ===

impl Secret {
    /// Keeps a key.
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// The key itself, to be sent.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl From<&str> for Secret {
    fn from(key: &str) -> Self {
        Self::new(key)
    }
}

impl From<String> for Secret {
    fn from(key: String) -> Self {
        Self::new(key)
    }
}
