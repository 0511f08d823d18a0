//! What each provider says, in bodies of our own, and what it is.

use crate::failure::Code;
use crate::failure::Code::{
    Authentication, Blocked, Conflict, ContentFilter, ContextLength, InvalidRequest, NotFound, Overloaded,
    PayloadTooLarge, Permission, QuotaExhausted, RateLimited, RequestTimeout, Server,
};

/// One error: a status of 200 is one inside a stream.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) status: u16,
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) body: &'static str,
    pub(super) code: Code,
    /// The stated wait in milliseconds.
    pub(super) wait: Option<u64>,
}

const fn row(status: u16, body: &'static str, code: Code) -> Row {
    Row { status, headers: &[], body, code, wait: None }
}

const fn waits(status: u16, body: &'static str, code: Code, millis: u64) -> Row {
    Row { status, headers: &[], body, code, wait: Some(millis) }
}

const fn headed(
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
    code: Code,
    wait: Option<u64>,
) -> Row {
    Row { status, headers, body, code, wait }
}

/// The shapes a body comes in.
pub(super) const SHAPES: &[Row] = &[
    row(
        400,
        r#"{"error":{"message":"no such field","type":"invalid_request_error","param":null,"code":null}}"#,
        InvalidRequest,
    ),
    row(429, r#"{"error":{"code":"429","message":"busy for now"}}"#, RateLimited),
    row(
        400,
        r#"{"error":{"message":"refused","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true}}}}}"#,
        ContentFilter,
    ),
    row(
        400,
        r#"{"error":{"message":"refused","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
        ContentFilter,
    ),
    row(
        401,
        r#"{"type":"error","error":{"type":"authentication_error","message":"who are you"},"request_id":"r1"}"#,
        Authentication,
    ),
    row(
        429,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"spent","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
        QuotaExhausted,
    ),
    row(
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#,
        QuotaExhausted,
    ),
    row(
        400,
        r#"{"error":{"code":400,"message":"too much","metadata":{"error_type":"context_length_exceeded","provider_code":null}}}"#,
        ContextLength,
    ),
    row(
        429,
        r#"{"error":{"code":429,"message":"full","availability":{"code":"capacity_exhausted","retryable":true,"fallback_models":[]}}}"#,
        Overloaded,
    ),
    row(
        400,
        r#"{"error":{"message":"bad sampling","type":"BadRequestError","param":null,"code":400}}"#,
        InvalidRequest,
    ),
    row(500, r#"{"error":{"code":500,"message":"slot lost","type":"server_error"}}"#, Server),
    row(
        498,
        r#"{"error":{"message":"flex is full","type":"capacity","code":"capacity_exceeded"}}"#,
        Overloaded,
    ),
    row(
        429,
        r#"{"object":"error","message":"slower","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}"#,
        RateLimited,
    ),
    row(429, r#"{"message":"Requests rate limit exceeded"}"#, RateLimited),
    row(
        422,
        r#"{"detail":[{"type":"missing","loc":["body","messages",0],"msg":"Field required"}]}"#,
        InvalidRequest,
    ),
    row(
        422,
        r#"{"object":"error","message":{"detail":[{"loc":["body"],"msg":"Field required"}]},"type":"invalid_request_error"}"#,
        InvalidRequest,
    ),
    row(
        429,
        r#"{"error":{"message":"throttled","type":"limit","error_type":"dynamic_token_limited"}}"#,
        RateLimited,
    ),
    row(
        429,
        r#"[{"error":{"code":429,"message":"slower","status":"RESOURCE_EXHAUSTED","details":[]}}]"#,
        RateLimited,
    ),
    row(
        400,
        r#"[{"error":{"code":400,"message":"bad key","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
        Authentication,
    ),
    row(502, r#"{"error":{"code":502,"type":"cf_bad_gateway","message":"origin gone"}}"#, Server),
    row(403, r#"{"error":{"code":1020,"type":"cf_access_denied","message":"refused"}}"#, Blocked),
    row(502, "<html><body><h1>502</h1></body></html>", Server),
    row(524, "  \n<!DOCTYPE html><p>slow", Server),
    row(520, "", Server),
    row(404, r#"{"error":"no model of that name"}"#, NotFound),
    row(
        400,
        r#"{"error":"bad_request","message":"prompt is too long: 9 tokens > 8 maximum"}"#,
        ContextLength,
    ),
    row(503, "no healthy upstream", Server),
    row(400, "prompt is too long: 9 tokens > 8 maximum", ContextLength),
    row(
        400,
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 9 > 8\"}}"}}}"#,
        ContextLength,
    ),
    row(500, r#"{"error":{"error":{"message":"wrapped twice","type":"server_error"}}}"#, Server),
    row(429, r#"{"detail":{"error":{"code":"insufficient_quota","message":"spent"}}}"#, QuotaExhausted),
    row(
        429,
        "event: error\ndata: {\"error\":{\"code\":\"insufficient_quota\",\"message\":\"spent\"}}\n\n",
        QuotaExhausted,
    ),
    row(429, "{\"error\":{\"code\":\"insufficient_quota\"}}\n<html>", QuotaExhausted),
    row(429, "\u{feff}\n {\"error\":{\"code\":\"insufficient_quota\"}}", QuotaExhausted),
    row(500, "{}", Server),
    row(400, "[]", InvalidRequest),
    row(418, "null", InvalidRequest),
    row(599, "{\"error\":null}", Server),
];

/// Each status, with what is said beside it.
pub(super) const STATUSES: &[Row] = &[
    row(
        400,
        r#"{"error":{"message":"You have reached your specified API usage limits. Access returns next month.","type":"invalid_request_error"}}"#,
        QuotaExhausted,
    ),
    row(
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified workspace API usage limits."}}"#,
        QuotaExhausted,
    ),
    row(
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"body came too late","details":{"error_code":"request_body_timeout"}}}"#,
        RequestTimeout,
    ),
    row(
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}"#,
        ContentFilter,
    ),
    row(
        401,
        r#"{"error":{"message":"bad key","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        Authentication,
    ),
    row(402, r#"{"type":"error","error":{"type":"billing_error","message":"unpaid"}}"#, QuotaExhausted),
    row(402, r#"{"error":{"message":"no credit"}}"#, QuotaExhausted),
    headed(
        402,
        &[("retry-after", "3")],
        r#"{"error":{"code":402,"message":"in flight","metadata":{"limit_source":"openrouter_in_flight_budget"}}}"#,
        RateLimited,
        Some(3_000),
    ),
    row(
        402,
        r#"{"error":{"code":402,"message":"in flight","metadata":{"limit_source":"openrouter_in_flight_budget"}}}"#,
        QuotaExhausted,
    ),
    headed(
        402,
        &[("retry-after", "3")],
        r#"{"error":{"code":402,"message":"no credit","metadata":{"limit_source":"openrouter_credits"}}}"#,
        QuotaExhausted,
        Some(3_000),
    ),
    row(403, r#"{"error":{"message":"not in your region","code":"permission_denied"}}"#, Permission),
    row(403, r#"{"error":{"code":403,"message":"a guardrail refused"}}"#, Permission),
    waits(
        403,
        r#"{"error":{"code":403,"message":"spent","metadata":{"limit_source":"openrouter_key_limit","resets_at":"2025-03-01T13:00:00Z"}}}"#,
        QuotaExhausted,
        3_600_000,
    ),
    row(
        403,
        r#"{"error":{"message":"Input plus max_tokens must stay under the context length of 8192"}}"#,
        ContextLength,
    ),
    headed(
        403,
        &[("content-type", "text/html"), ("cf-mitigated", "challenge")],
        "<!DOCTYPE html><title>Wait</title>",
        Blocked,
        None,
    ),
    headed(403, &[("content-type", "text/html")], "just a moment", Blocked, None),
    row(403, "error code: 1020", Blocked),
    headed(403, &[("cf-mitigated", "challenge")], "", Blocked, None),
    row(403, "", Permission),
    row(429, "<html><title>slow down</title>", RateLimited),
    row(
        404,
        r#"{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"}}"#,
        NotFound,
    ),
    row(404, r#"{"error":{"code":"DeploymentNotFound","message":"no such deployment"}}"#, NotFound),
    row(404, r#"{"type":"error","error":{"type":"not_found_error","message":"model: m-a"}}"#, NotFound),
    row(408, r#"{"error":{"message":"too late"}}"#, RequestTimeout),
    row(409, r#"{"error":{"message":"lock held","type":"conflict","code":null}}"#, Conflict),
    row(
        413,
        r#"{"type":"error","error":{"type":"request_too_large","message":"over 32 MB"}}"#,
        PayloadTooLarge,
    ),
    headed(
        413,
        &[("retry-after", "1")],
        r#"{"error":{"message":"Request too large on tokens per minute (TPM): Limit 6000, Requested 14368.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        PayloadTooLarge,
        Some(1_000),
    ),
    row(413, "<html><head><title>413</title></head></html>", PayloadTooLarge),
    row(422, r#"{"error":{"message":"bad field"}}"#, InvalidRequest),
    row(498, "", Overloaded),
    row(499, "", RequestTimeout),
    row(500, r#"{"error":{"message":"broke","type":"server_error"}}"#, Server),
    row(500, r#"{"type":"error","error":{"type":"api_error","message":"broke"}}"#, Server),
    row(500, r#"{"error":{"message":"engine","type":"InternalServerError","code":500}}"#, Server),
    row(500, r#"{"error":{"message":"worker died: prompt is too long","type":"server_error"}}"#, Server),
    row(503, r#"{"error":{"message":"Insufficient Balance of workers","type":"server_error"}}"#, Server),
    row(521, "<html>", Server),
    row(522, "<html>", Server),
    row(523, "<html>", Server),
    row(525, "<html>", Server),
    row(
        503,
        r#"{"error":{"message":"busy","type":"service_unavailable_error","code":"server_is_overloaded"}}"#,
        Overloaded,
    ),
    row(
        503,
        r#"{"error":{"message":"The engine is currently busy","type":"Service Unavailable","code":503}}"#,
        Overloaded,
    ),
    row(503, r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#, Overloaded),
    row(503, r#"{"error":{"message":"no capacity on the platform"}}"#, Server),
    row(
        503,
        r#"{"type":"error","error":{"type":"api_error","message":"key store","details":{"error_code":"cmek_key_unreachable"}}}"#,
        Server,
    ),
    row(504, r#"{"type":"error","error":{"type":"timeout_error","message":"too slow"}}"#, Server),
    row(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}"#, Overloaded),
    row(
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","details":{"error_code":"compaction_unavailable"}}}"#,
        Overloaded,
    ),
    row(451, "", InvalidRequest),
    row(508, "", Server),
];

/// A conversation too long, in everyone's words, and what only sounds like it.
pub(super) const OVERFLOWS: &[Row] = &[
    row(
        400,
        r#"{"error":{"message":"Model limit is 8192 tokens; messages came to 9000.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens","type":"invalid_request_error"}}"#,
        ContextLength,
    ),
    row(
        200,
        r#"{"type":"error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model","param":"input"}"#,
        ContextLength,
    ),
    row(
        200,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your input exceeds the context window of this model"}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"error":{"message":"input tokens exceed the configured limit of 8192 tokens"}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 215000 tokens > 200000 maximum"}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"object":"error","message":"Requested token count exceeds the model's maximum context length of 16384 tokens.","type":"BadRequestError","code":400}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"object":"error","message":"Prompt contains 321000 tokens, too large for model with 262144 maximum context length","type":"invalid_request_invalid_args","param":null,"code":"3051","raw_status_code":400}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"error":{"message":"The prompt contains 90000 characters (more than 80000)","type":"BadRequestError","code":400}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 8000 (8000 > 4096 - 2778)","type":"BadRequestError","code":400}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"error":{"code":400,"message":"too big","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it"}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"error":{"code":400,"message":"input (9000 tokens) is larger than the max context size"}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error"}}"#,
        ContextLength,
    ),
    row(
        413,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error"}}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"error":{"code":400,"message":"The input token count (9000) exceeds the maximum number of tokens allowed (8192).","status":"INVALID_ARGUMENT"}}"#,
        ContextLength,
    ),
    row(400, r#"{"message":"Input is too long for requested model."}"#, ContextLength),
    row(
        400,
        r#"{"error":"This model's maximum prompt length is 8192 but the request contains 9000 tokens."}"#,
        ContextLength,
    ),
    row(400, r#"{"message":"Please reduce it. Current length is 9000 while limit is 8192"}"#, ContextLength),
    row(
        422,
        r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096","error_type":"validation"}"#,
        ContextLength,
    ),
    row(
        400,
        r#"{"error":{"message":"string too long: maximum context length","code":"string_above_max_length"}}"#,
        InvalidRequest,
    ),
    row(
        413,
        r#"{"error":{"message":"string too long: maximum context length","code":"string_above_max_length"}}"#,
        PayloadTooLarge,
    ),
    row(400, r#"{"error":{"message":"too many tokens"}}"#, InvalidRequest),
    row(
        400,
        r#"{"error":{"message":"rate limit: prompt is too long for the tokens per minute"}}"#,
        InvalidRequest,
    ),
    row(413, r#"{"error":{"message":"your quota: reduce the length of the messages"}}"#, PayloadTooLarge),
    row(
        400,
        r#"{"error":{"message":"max_tokens is too large: 100000. At most 16384 are supported"}}"#,
        InvalidRequest,
    ),
    row(500, r#"{"error":{"message":"prompt is too long: 215000 tokens > 200000 maximum"}}"#, Server),
];

/// What a 429 can mean.
pub(super) const THROTTLES: &[Row] = &[
    row(
        429,
        r#"{"error":{"message":"spent","type":"insufficient_quota","param":null,"code":null}}"#,
        QuotaExhausted,
    ),
    row(
        429,
        r#"{"error":{"message":"spent","type":"insufficient_quota","code":"rate_limit_exceeded"}}"#,
        QuotaExhausted,
    ),
    row(429, r#"{"error":{"message":"spent","code":"credit_balance_exhausted"}}"#, QuotaExhausted),
    row(429, r#"{"error":{"message":"spent","code":"organization_spend_limit_exceeded"}}"#, QuotaExhausted),
    row(429, r#"{"error":{"message":"spent","code":"project_spend_limit_exceeded"}}"#, QuotaExhausted),
    row(429, r#"{"error":{"message":"spent","code":"organization_usage_limit_exceeded"}}"#, QuotaExhausted),
    row(500, r#"{"error":{"message":"spent","code":"insufficient_quota"}}"#, QuotaExhausted),
    row(
        429,
        r#"{"error":{"message":"Request too large for m-a. Limit 30000, Requested 30601.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        PayloadTooLarge,
    ),
    row(
        429,
        r#"{"error":{"message":"Limit: 30,000, Requested: 30,601","type":"tokens","code":"rate_limit_exceeded"}}"#,
        PayloadTooLarge,
    ),
    waits(
        429,
        r#"{"error":{"message":"Limit 30000, Used 29000, Requested 3000. Please try again in 4.77s.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        RateLimited,
        4_770,
    ),
    waits(
        429,
        r#"{"error":{"message":"Limit 200, Used 200, Requested 1. Please try again in 7m12s.","type":"requests","code":"rate_limit_exceeded"}}"#,
        RateLimited,
        432_000,
    ),
    row(
        429,
        r#"{"error":{"message":"ramp slower","type":"rate_limit_error","code":"slow_down"}}"#,
        RateLimited,
    ),
    row(503, r#"{"error":{"message":"ramp slower","code":"slow_down"}}"#, RateLimited),
    row(
        429,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"contract_spend_limit_reached"}}}"#,
        QuotaExhausted,
    ),
    headed(
        429,
        &[("retry-after", "12")],
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"ramp_limit_exceeded"}}}"#,
        RateLimited,
        Some(12_000),
    ),
    headed(
        429,
        &[("retry-after", "12")],
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"m"}}"#,
        RateLimited,
        Some(12_000),
    ),
    waits(
        429,
        r#"{"error":{"code":"429","message":"Requests have exceeded token rate limit of your tier. Please retry after 86400 seconds."}}"#,
        RateLimited,
        86_400_000,
    ),
    headed(
        429,
        &[("retry-after-ms", "40"), ("retry-after", "1")],
        r#"{"error":{"code":"429","message":"retry after 9 seconds"}}"#,
        RateLimited,
        Some(40),
    ),
    headed(
        429,
        &[("retry-after", "soon")],
        r#"{"error":{"code":"429","message":"retry after 9 seconds"}}"#,
        RateLimited,
        Some(9_000),
    ),
    row(429, r#"{"error":{"message":"concurrency exceeded"}}"#, RateLimited),
    waits(
        429,
        r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 55.57s.","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"44s"}]}}]"#,
        RateLimited,
        44_000,
    ),
    waits(
        429,
        r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 55.57s."}}"#,
        RateLimited,
        55_570,
    ),
    row(
        429,
        r#"{"error":{"code":429,"message":"Quota exceeded, limit: 0, model: m-a","status":"RESOURCE_EXHAUSTED"}}"#,
        QuotaExhausted,
    ),
    row(429, r#"{"error":{"code":429,"message":"Quota exceeded, limit: 0"}}"#, QuotaExhausted),
    row(
        429,
        r#"{"error":{"code":429,"message":"Quota exceeded, limit: 0.5 a second","status":"RESOURCE_EXHAUSTED"}}"#,
        RateLimited,
    ),
    waits(
        429,
        r#"{"error":{"type":"usage_limit_reached","message":"window is spent","resets_in_seconds":9568}}"#,
        QuotaExhausted,
        9_568_000,
    ),
    waits(
        429,
        r#"{"error":{"type":"usage_limit_reached","message":"window is spent","resets_at":1740830410}}"#,
        QuotaExhausted,
        10_000,
    ),
    waits(
        429,
        r#"{"error":{"code":429,"message":"full","availability":{"code":"capacity_exhausted","retry_after":7}}}"#,
        Overloaded,
        7_000,
    ),
    waits(429, r#"{"error":{"code":429,"message":"try again in 900ms"}}"#, RateLimited, 900),
    row(429, r#"{"error":{"code":429,"message":"try again in a while","retry_after":-4}}"#, RateLimited),
    headed(429, &[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], "", RateLimited, Some(0)),
];

/// Errors inside a stream or a body that came with a 200.
pub(super) const IN_BAND: &[Row] = &[
    row(
        200,
        r#"{"error":{"message":"spent","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
        QuotaExhausted,
    ),
    row(
        200,
        r#"{"error":{"code":429,"message":"upstream is throttled","metadata":{"provider_name":"x"}}}"#,
        RateLimited,
    ),
    row(200, r#"{"error":{"message":"backend gone","type":"server_error","code":"503"}}"#, Server),
    row(
        200,
        r#"{"type":"error","sequence_number":2,"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"spent","param":null}}"#,
        QuotaExhausted,
    ),
    row(
        200,
        r#"{"type":"error","sequence_number":1,"code":"server_error","message":"flat boom","param":null}"#,
        Server,
    ),
    row(200, r#"{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}"#, Overloaded),
    row(200, r#"{"error":{"message":"engine fault","type":"InternalServerError","code":500}}"#, Server),
    row(200, r#"{"code":500,"message":"slot lost","type":"server_error"}"#, Server),
    row(200, r#"{"code":503,"message":"Insufficient Balance","type":"x"}"#, Server),
    waits(
        200,
        r#"{"type":"response.failed","sequence_number":3,"response":{"id":"rs1","status":"failed","error":{"code":"rate_limit_exceeded","message":"Limit reached on tokens per min. Please try again in 1.3s."}}}"#,
        RateLimited,
        1_300,
    ),
    row(
        200,
        r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Limit 30000, Requested 30601."}}}"#,
        PayloadTooLarge,
    ),
    row(
        200,
        r#"{"type":"response.failed","response":{"error":{"code":"vector_store_timeout","message":"slow"}}}"#,
        Server,
    ),
    row(
        200,
        r#"{"type":"response.failed","response":{"error":{"code":"server_is_overloaded","message":"busy"}}}"#,
        Overloaded,
    ),
    row(
        200,
        r#"{"type":"response.failed","response":{"error":{"code":"bio_policy","message":"no"}}}"#,
        ContentFilter,
    ),
    row(
        200,
        r#"{"type":"response.failed","response":{"error":{"code":"invalid_image_format","message":"no"}}}"#,
        InvalidRequest,
    ),
    row(
        200,
        r#"{"type":"response.failed","response":{"error":{"code":"image_content_policy_violation","message":"no"}}}"#,
        ContentFilter,
    ),
    row(
        200,
        r#"{"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"no"}}}"#,
        InvalidRequest,
    ),
    waits(
        200,
        r#"{"type":"error","status_code":429,"error":{"type":"usage_limit_reached","message":"window is spent","resets_in_seconds":9568}}"#,
        QuotaExhausted,
        9_568_000,
    ),
    row(
        200,
        r#"{"error":{"message":"key is not known","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        Authentication,
    ),
    row(200, r#"{"error":"it broke"}"#, Server),
    row(200, r#"{"error":"prompt is too long"}"#, ContextLength),
    row(200, r#"{"error":{"message":"new kind","type":"brand_new_error"}}"#, Server),
    row(200, r#"{"error":{"message":"temperature","type":"invalid_request_error"}}"#, InvalidRequest),
    row(200, r#"{"error":{"message":"slower","type":"requests"}}"#, RateLimited),
    row(200, r#"{"error":{"message":"big","code":"413"}}"#, PayloadTooLarge),
    row(200, r#"{"error":{"message":"x","status_code":"529"}}"#, Overloaded),
    row(200, r#"{"error":{"message":"x","code":"1300","raw_status_code":429}}"#, RateLimited),
    row(
        200,
        r#"{"id":"g1","choices":[{"index":0,"finish_reason":"error","error":{"code":502,"message":"upstream fell"}}]}"#,
        Server,
    ),
    row(200, r#"[{"error":{"code":401,"message":"x"}}]"#, Authentication),
    row(200, r#"{"error":{}}"#, Server),
    row(200, r#"{"error":true}"#, Server),
];
