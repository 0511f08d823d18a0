//! By what calls are told apart: their caller, session, tool or model.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::chat::Ask;

/// Who calls. Attach it to a request, or put it into the extensions of an HTTP request.
///
/// ```
/// use watertight::chat::Request;
/// use watertight::key::Caller;
///
/// let request = Request::new("small-model").user("hello").attach(Caller::new("user-17"));
/// # let _ = request;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller(Arc<str>);

/// Which session a call belongs to. Attach it to a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(Arc<str>);

/// A key of your own, for [`KeyBy::Attached`]. Attach it to a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(Arc<str>);

/// By what a layer tells calls apart: each key has state of its own, and one never changes another.
///
/// A call that lacks what is asked shares the empty key with all others that lack it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KeyBy {
    /// Not at all: one state for all calls.
    #[default]
    Nothing,
    /// By [`Caller`].
    Caller,
    /// By [`SessionId`].
    Session,
    /// By the name of the tool.
    Tool,
    /// By the model asked.
    Model,
    /// By the [`Key`] attached.
    Attached,
}

// === impl Caller ===

impl Caller {
    /// A caller of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl SessionId ===

impl SessionId {
    /// A session of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl Key ===

impl Key {
    /// A key of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl KeyBy ===

impl KeyBy {
    /// The key of a request; empty where it has none.
    pub fn of<R: Ask>(self, request: &R) -> &str {
        let name = match self {
            Self::Nothing => None,
            Self::Caller => attached(request, Caller::as_str),
            Self::Session => attached(request, SessionId::as_str),
            Self::Tool => request.tool(),
            Self::Model => request.model(),
            Self::Attached => attached(request, Key::as_str),
        };
        name.unwrap_or_default()
    }
}

fn attached<R: Ask, T: Send + Sync + 'static>(request: &R, name: fn(&T) -> &str) -> Option<&str> {
    request.extensions()?.get().map(name)
}
