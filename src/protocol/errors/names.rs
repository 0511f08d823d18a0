//! The codes and types that providers write, in lower case.

use crate::failure::Code;

/// OpenRouter's word for costs that are not settled yet.
pub(super) const IN_FLIGHT: &str = "openrouter_in_flight_budget";

/// A code or type that means one thing, whatever the status.
pub(super) fn specific(name: &str) -> Option<Code> {
    of_account(name).or_else(|| of_load(name)).or_else(|| of_request(name))
}

/// What is wrong with the account or its key.
fn of_account(name: &str) -> Option<Code> {
    Some(match name {
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
        | "billing_hard_limit_reached"
        | "insufficient_credits"
        | "openrouter_credits"
        | "openrouter_key_limit"
        | "openrouter_guardrail_budget"
        | "openrouter_workspace_budget" => Code::QuotaExhausted,
        "invalid_api_key"
        | "api_key_invalid"
        | "authentication_error"
        | "authenticationerror"
        | "unauthenticated" => Code::Authentication,
        "permission_error" | "permission_denied" | "permissiondeniederror" => Code::Permission,
        _ => return None,
    })
}

/// What passes by itself.
fn of_load(name: &str) -> Option<Code> {
    Some(match name {
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "rate_limited"
        | "ratelimiterror"
        | "ramp_limit_exceeded"
        | "slow_down"
        | "too_many_requests"
        | "dynamic_request_limited"
        | "dynamic_token_limited"
        | "resource_exhausted" => Code::RateLimited,
        "overloaded_error"
        | "overloaded"
        | "server_is_overloaded"
        | "service_unavailable_error"
        | "service unavailable"
        | "unavailable_error"
        | "unavailable"
        | "capacity_exceeded"
        | "capacity_exhausted"
        | "compaction_unavailable"
        | "provider_overloaded" => Code::Overloaded,
        "request_body_timeout" => Code::RequestTimeout,
        "vector_store_timeout" | "insufficient_system_resource" => Code::Server,
        _ => return None,
    })
}

/// What is wrong with the request.
fn of_request(name: &str) -> Option<Code> {
    Some(match name {
        "context_length_exceeded"
        | "exceed_context_size_error"
        | "model_context_window_exceeded"
        | "contextwindowexceedederror" => Code::ContextLength,
        "content_filter"
        | "content_policy_violation"
        | "responsibleaipolicyviolation"
        | "image_content_policy_violation"
        | "moderation_blocked"
        | "bio_policy"
        | "misalignment_policy_violation" => Code::ContentFilter,
        "model_not_found" | "not_found_error" | "notfounderror" | "deploymentnotfound" => Code::NotFound,
        "request_too_large" => Code::PayloadTooLarge,
        "string_above_max_length"
        | "unsupported_parameter"
        | "unsupported_value"
        | "invalid_prompt"
        | "data_residency_mismatch"
        | "failed_to_download_image"
        | "unsupported_image_media_type" => Code::InvalidRequest,
        name if is_image_fault(name) => Code::InvalidRequest,
        _ => return None,
    })
}

/// A code or type that says little: only asked where there is no status.
pub(super) fn generic(name: &str) -> Option<Code> {
    Some(match name {
        "invalid_request_error"
        | "invalid_request"
        | "badrequesterror"
        | "bad_request"
        | "invalid_argument"
        | "failed_precondition" => Code::InvalidRequest,
        "authentication" => Code::Authentication,
        "permission" => Code::Permission,
        "tokens" | "requests" => Code::RateLimited,
        "server_error"
        | "api_error"
        | "unknown_error"
        | "internalservererror"
        | "internal_server_error"
        | "internal"
        | "timeout_error" => Code::Server,
        _ => return None,
    })
}

/// Whether this is what stands beside a 429.
pub(super) fn is_rate(name: &str) -> bool {
    matches!(specific(name).or_else(|| generic(name)), Some(Code::RateLimited))
}

/// Whether this rules out that the conversation is too long: one string was.
pub(super) fn is_not_overflow(name: &str) -> bool {
    name == "string_above_max_length"
}

/// The rest of the faults that a Responses stream finds in an image.
fn is_image_fault(name: &str) -> bool {
    let about_image =
        name.starts_with("image_") || name.starts_with("invalid_image") || name.starts_with("empty_image");
    about_image || name == "invalid_base64_image"
}
