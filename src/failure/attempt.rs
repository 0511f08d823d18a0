//! What came before a failure.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::code::Code;

/// One try that came before, or one candidate that was passed over.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Attempt {
    /// Who was asked.
    pub provider: Option<Arc<str>>,
    /// The model asked, in the provider's word, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// What came of it.
    pub code: Code,
    /// The HTTP status, if a response was seen.
    #[serde(serialize_with = "as_number")]
    pub status: Option<StatusCode>,
    /// In the provider's words, clipped.
    pub message: Box<str>,
    /// Why it was passed over without being asked, if it was.
    pub skip: Option<Skip>,
}

/// Why a candidate was passed over before anything was sent or paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum Skip {
    /// Its breaker is open.
    NotCallable,
    /// Its limiter or bulkhead cannot admit the call in time.
    CannotPay,
    /// The conversation does not fit its window.
    Window,
    /// It cannot do what the request asks: images, tools, reasoning, streaming.
    Capability,
    /// It costs more than the call's ceiling.
    Price,
    /// Its first output comes later than the call allows.
    Slow,
    /// It speaks another protocol and the call demands the same.
    Protocol,
    /// The conversation is held on another provider's server.
    Stateful,
    /// It rests after a failure.
    Resting,
}

#[expect(clippy::ref_option, reason = "the signature that serde asks")]
fn as_number<S: serde::Serializer>(status: &Option<StatusCode>, serializer: S) -> Result<S::Ok, S::Error> {
    status.map(|status| status.as_u16()).serialize(serializer)
}
