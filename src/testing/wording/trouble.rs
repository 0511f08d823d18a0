//! The errors of a provider, as a status or in the middle of a stream.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::step::Step;
use super::Wording;
use super::sheet::event;

/// An error as a provider has it, before it is worded in any protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// Too many requests or tokens; it may say when to come back.
    RateLimited {
        /// The seconds of `retry-after`, if it is sent.
        retry_after: Option<u64>,
    },
    /// The money is spent: no wait helps.
    QuotaSpent,
    /// Too many callers.
    Overloaded,
    /// A fault of the provider.
    ServerError,
    /// A fault of the request.
    BadRequest,
    /// The request does not fit the model's window.
    ContextFull,
    /// The key is unknown.
    BadKey,
    /// The model is unknown.
    UnknownModel,
}

// === impl Trouble ===

impl Trouble {
    /// The error as a reply of its own.
    #[must_use]
    pub fn refused(self, wording: Wording) -> Step {
        let body = match wording {
            Wording::Chat => json!({ "error": self.openai("messages") }),
            Wording::Responses => json!({ "error": self.openai("input") }),
            Wording::Messages => self.anthropic(),
        };
        let step = Step::json(self.status(wording), &body);
        match self {
            Self::RateLimited { retry_after: Some(seconds) } => {
                step.header("retry-after", seconds.to_string())
            }
            _ => step,
        }
    }

    /// The error as an event in a stream that has begun.
    #[must_use]
    pub fn frame(self, wording: Wording) -> Bytes {
        match wording {
            Wording::Chat => event(None, &json!({ "error": self.openai("messages") })),
            Wording::Responses => event(Some("error"), &self.frame_of_responses()),
            Wording::Messages => event(Some("error"), &self.anthropic()),
        }
    }

    /// The flat error event of Responses; who knows its place in the stream numbers it.
    pub(super) fn frame_of_responses(self) -> Value {
        let (_, code, message) = self.openai_words();
        let code = code.unwrap_or("invalid_prompt");
        json!({ "type": "error", "code": code, "message": message, "param": null, "sequence_number": 0 })
    }

    fn status(self, wording: Wording) -> u16 {
        match self {
            Self::RateLimited { .. } | Self::QuotaSpent => 429,
            Self::Overloaded if wording == Wording::Messages => 529,
            Self::Overloaded => 503,
            Self::ServerError => 500,
            Self::BadRequest | Self::ContextFull => 400,
            Self::BadKey => 401,
            Self::UnknownModel => 404,
        }
    }

    /// Type, code and message, as OpenAI has them.
    fn openai_words(self) -> (&'static str, Option<&'static str>, &'static str) {
        match self {
            Self::RateLimited { .. } => {
                ("requests", Some("rate_limit_exceeded"), "Rate limit reached: slow down")
            }
            Self::QuotaSpent => ("insufficient_quota", Some("insufficient_quota"), "The quota is used up"),
            Self::Overloaded => {
                ("service_unavailable_error", Some("server_is_overloaded"), "Too busy, come back later")
            }
            Self::ServerError => ("server_error", Some("server_error"), "Something broke on our side"),
            Self::BadRequest => ("invalid_request_error", None, "The request makes no sense"),
            Self::ContextFull => (
                "invalid_request_error",
                Some("context_length_exceeded"),
                "The maximum context length is 8192 tokens; the request has 9001",
            ),
            Self::BadKey => ("invalid_request_error", Some("invalid_api_key"), "No such key"),
            Self::UnknownModel => ("invalid_request_error", Some("model_not_found"), "No such model"),
        }
    }

    fn openai(self, input: &str) -> Value {
        let (kind, code, message) = self.openai_words();
        let param = (self == Self::ContextFull).then_some(input);
        json!({ "message": message, "type": kind, "param": param, "code": code })
    }

    fn anthropic(self) -> Value {
        let (kind, message) = match self {
            Self::RateLimited { .. } => ("rate_limit_error", "Rate limit reached: slow down"),
            Self::QuotaSpent => ("rate_limit_error", "The spend limit is reached"),
            Self::Overloaded => ("overloaded_error", "Too busy, come back later"),
            Self::ServerError => ("api_error", "Something broke on our side"),
            Self::BadRequest => ("invalid_request_error", "The request makes no sense"),
            Self::ContextFull => ("invalid_request_error", "prompt is too long: 9001 tokens > 8192 maximum"),
            Self::BadKey => ("authentication_error", "No such key"),
            Self::UnknownModel => ("not_found_error", "No such model"),
        };
        let mut error = json!({ "type": kind, "message": message });
        if self == Self::QuotaSpent {
            error["details"] = json!({ "error_code": "enforced_spend_limit_reached" });
        }
        json!({ "type": "error", "error": error, "request_id": "req_scripted" })
    }
}
