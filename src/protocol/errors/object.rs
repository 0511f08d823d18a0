//! The shapes of error objects, read as one.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use crate::failure::Code;

/// An error object of any provider.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ErrorObject<'a> {
    pub(super) message: Option<&'a str>,
    /// The object with the code and type.
    error: Option<&'a Value>,
    /// The object around it.
    whole: Option<&'a Value>,
}

// === impl ErrorObject ===

impl<'a> ErrorObject<'a> {
    /// Finds the error in an object: nested, flat, a string, in an array, in a failed response, in a choice.
    pub(super) fn of(whole: &'a Value) -> Self {
        let whole = match whole {
            Value::Array(items) => items.first().unwrap_or(whole),
            other => other,
        };
        let in_choice = || whole.pointer("/choices/0/error");
        let in_response = || whole.pointer("/response/error");
        let truthy = |error: &&Value| !matches!(error, Value::Null | Value::Bool(false));
        let error = whole.get("error").filter(truthy).or_else(|| in_choice().filter(truthy));
        let error = error.or_else(|| in_response().filter(truthy)).unwrap_or(whole);
        let message = match error {
            Value::String(text) => Some(text.as_str()),
            other => ["message", "detail", "error_message", "msg"]
                .iter()
                .find_map(|name| other.get(*name)?.as_str()),
        };
        let message = message.or_else(|| whole.get("message")?.as_str());
        let message = message.or_else(|| error.pointer("/detail/0/msg")?.as_str());
        Self { message, error: Some(error), whole: Some(whole) }
    }

    /// The message with the code or type it came with, since the two together are what can be looked up.
    pub(super) fn worded(&self, message: &str) -> String {
        let word = self.words().find(|word| !word.is_empty() && word.parse::<u16>().is_err());
        match word {
            Some(word) if !message.contains(word) => format!("{message} ({word})"),
            _ => message.to_owned(),
        }
    }

    /// The status that a code inside a stream stands for.
    pub(super) fn status(&self) -> Option<StatusCode> {
        let numbers = ["status_code", "status", "code", "raw_status_code"];
        let in_object = |object: Option<&'a Value>| {
            numbers.iter().find_map(|name| match object?.get(*name)? {
                Value::Number(number) => number.as_u64(),
                Value::String(text) => text.parse().ok(),
                _ => None,
            })
        };
        let number = in_object(self.error).or_else(|| in_object(self.whole))?;
        let number = u16::try_from(number).ok().filter(|number| (400..600).contains(number))?;
        StatusCode::from_u16(number).ok()
    }

    /// A code or type that means one thing wherever it stands.
    pub(super) fn specific(&self) -> Option<Code> {
        self.words().find_map(|word| specific(&word.to_ascii_lowercase()))
    }

    /// A code or type that says little: asked last.
    pub(super) fn generic(&self) -> Option<Code> {
        self.words().find_map(|word| match word.to_ascii_lowercase().as_str() {
            "invalid_request_error" | "invalid_request" | "badrequesterror" | "invalid_argument" => {
                Some(Code::InvalidRequest)
            }
            "requests" | "tokens" => Some(Code::RateLimited),
            "server_error" | "api_error" | "unknown_error" | "internalservererror" | "internal" => {
                Some(Code::Server)
            }
            _ => None,
        })
    }

    /// OpenRouter's budget for calls under way: with a `Retry-After` it passes.
    pub(super) fn is_in_flight(&self) -> bool {
        let source = self.error.and_then(|error| error.pointer("/metadata/limit_source")?.as_str());
        source == Some("openrouter_in_flight_budget")
    }

    /// The wait stated in a field.
    pub(super) fn wait(&self, unix: Duration) -> Option<Duration> {
        let field = |name: &str| {
            [self.error, self.whole].into_iter().flatten().find_map(|object| {
                object
                    .get(name)
                    .or_else(|| object.pointer(&format!("/availability/{name}")))
                    .or_else(|| object.pointer(&format!("/metadata/{name}")))
            })
        };
        let seconds = ["resets_in_seconds", "retry_after", "retry_after_seconds"]
            .iter()
            .find_map(|name| number(field(name)?));
        let at = || number(field("resets_at")?).map(|at| at.saturating_sub(unix));
        seconds.or_else(at).or_else(|| self.retry_delay())
    }

    /// Gemini's `details[].retryDelay`.
    fn retry_delay(&self) -> Option<Duration> {
        let details = self.error?.get("details")?.as_array()?;
        let text = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
        let number = text.strip_suffix('s')?;
        plain(number)
    }

    /// Codes and types, the most telling first.
    fn words(&self) -> impl Iterator<Item = &'a str> {
        let error = self.error;
        let at = move |path: &str| error.and_then(|error| error.pointer(path)?.as_str());
        let whole = self.whole.and_then(|whole| whole.get("error_type")?.as_str());
        let nested = [
            at("/details/error_code"),
            at("/metadata/error_type"),
            at("/availability/code"),
            at("/innererror/code"),
            at("/code"),
            at("/error_type"),
            at("/type"),
            at("/status"),
            whole,
        ];
        nested.into_iter().flatten()
    }
}

/// What a code or type means wherever it stands, in small letters.
fn specific(word: &str) -> Option<Code> {
    Some(match word {
        "insufficient_quota"
        | "credit_balance_exhausted"
        | "organization_spend_limit_exceeded"
        | "project_spend_limit_exceeded"
        | "organization_usage_limit_exceeded"
        | "enforced_spend_limit_reached"
        | "contract_spend_limit_reached"
        | "usage_limit_reached"
        | "usage_not_included"
        | "billing_error"
        | "insufficient_balance"
        | "insufficient_credits"
        | "billing_hard_limit_reached" => Code::QuotaExhausted,
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "rate_limited"
        | "ramp_limit_exceeded"
        | "slow_down"
        | "dynamic_request_limited"
        | "dynamic_token_limited"
        | "too_many_requests"
        | "resource_exhausted"
        | "throttlingexception"
        | "1300" => Code::RateLimited,
        "overloaded_error"
        | "overloaded"
        | "server_is_overloaded"
        | "capacity_exceeded"
        | "capacity_exhausted"
        | "service_unavailable_error"
        | "service unavailable"
        | "unavailable_error"
        | "unavailable"
        | "engine_overloaded"
        | "model_overloaded"
        | "compaction_unavailable" => Code::Overloaded,
        "context_length_exceeded" | "exceed_context_size_error" | "model_context_window_exceeded" => {
            Code::ContextLength
        }
        "invalid_api_key" | "authentication_error" | "unauthenticated" | "invalid_authentication" => {
            Code::Authentication
        }
        "permission_error" | "permission_denied" | "unsupported_country_region_territory" => Code::Permission,
        "model_not_found" | "not_found_error" | "deploymentnotfound" | "not_found" => Code::NotFound,
        "content_filter"
        | "content_policy_violation"
        | "responsibleaipolicyviolation"
        | "bio_policy"
        | "misalignment_policy_violation"
        | "moderation" => Code::ContentFilter,
        "request_too_large" => Code::PayloadTooLarge,
        "invalid_prompt"
        | "string_above_max_length"
        | "unsupported_parameter"
        | "data_residency_mismatch" => Code::InvalidRequest,
        "timeout_error" | "vector_store_timeout" | "internal_server_error" | "cf_bad_gateway" => Code::Server,
        "request_body_timeout" | "request_timeout" => Code::RequestTimeout,
        _ => return None,
    })
}

/// Seconds, as a number or a string of one.
fn number(value: &Value) -> Option<Duration> {
    match value {
        Value::Number(number) => Duration::try_from_secs_f64(number.as_f64()?).ok(),
        Value::String(text) => plain(text),
        _ => None,
    }
}

fn plain(text: &str) -> Option<Duration> {
    let text = text.trim();
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| Duration::try_from_secs_f64(text.parse().ok()?).ok())?
}
