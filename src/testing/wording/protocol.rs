//! The protocol a provider is asked in.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use super::sheet::event;

/// A protocol, named as the case format names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[non_exhaustive]
pub enum Wording {
    /// OpenAI Chat Completions.
    #[serde(rename = "openai-chat")]
    Chat,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    Responses,
    /// Anthropic Messages.
    #[serde(rename = "anthropic-messages")]
    Messages,
}

// === impl Wording ===

impl Wording {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// What a request path of this protocol ends with.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
        }
    }

    /// The protocol of a request path (no query).
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wording| path.ends_with(wording.path()))
    }

    /// The bytes that show life in a stream of this protocol, and nothing else.
    #[must_use]
    pub fn keep_alive(self) -> Bytes {
        match self {
            Self::Chat => Bytes::from_static(b": keep-alive\n\n"),
            Self::Responses => {
                event(Some("keepalive"), &json!({ "type": "keepalive", "sequence_number": 1 }))
            }
            Self::Messages => event(Some("ping"), &json!({ "type": "ping" })),
        }
    }
}
