mod rows;

use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use self::rows::Row;
use super::*;
use crate::chat::Dimension;

/// 2025-03-01T12:00:00Z.
const NOW: Duration = Duration::from_secs(1_740_830_400);

const TABLES: [&[Row]; 5] = [rows::SHAPES, rows::STATUSES, rows::OVERFLOWS, rows::THROTTLES, rows::IN_BAND];

fn all_rows() -> impl Iterator<Item = &'static Row> {
    TABLES.into_iter().flatten()
}

fn headers(of: &[(&'static str, &'static str)]) -> HeaderMap {
    of.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

fn judged(row: &Row) -> Failure {
    match row.status {
        200 => in_band(&serde_json::from_str(row.body).unwrap(), NOW),
        status => {
            classify(StatusCode::from_u16(status).unwrap(), &headers(row.headers), row.body.as_bytes(), NOW)
        }
    }
}

fn http(status: u16, body: &str) -> Failure {
    classify(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes(), NOW)
}

/// The rows that a judge gets wrong.
fn mistakes(judge: impl Fn(&Row) -> Code) -> Vec<&'static str> {
    all_rows().filter(|row| judge(row) != row.code).map(|row| row.body).collect()
}

/// Scenario: every shape, status, phrase and 429 of every provider, and every error inside a 200.
/// Expected: MUST give the code and the wait of the table, and keep the status.
#[test]
fn each_row_is_judged() {
    for row in all_rows() {
        let failure = judged(row);
        assert_eq!(failure.code(), row.code, "{} {}", row.status, row.body);
        assert_eq!(failure.retry_after(), row.wait.map(Duration::from_millis), "{} {}", row.status, row.body);
        assert_eq!(failure.status().unwrap().as_u16(), row.status);
        assert!(!failure.is_local());
    }
}

/// Scenario: judges with the usual mistakes take the same table.
/// Expected: MUST be told apart from the right one by at least one row each.
#[test]
fn wrong_judges_are_found_out() {
    let status = |row: &Row| StatusCode::from_u16(row.status).unwrap();
    assert!(mistakes(|row| judged(row).code()).is_empty());
    // A 429 is always worth a retry.
    assert!(!mistakes(|row| if row.status == 429 { RATE } else { judged(row).code() }).is_empty());
    // Words are believed on any status.
    let gullible = |row: &Row| phrases::code(&row.body.to_lowercase()).unwrap_or_else(|| judged(row).code());
    assert!(!mistakes(gullible).is_empty());
    // The status alone decides.
    assert!(!mistakes(|row| Code::of_status(status(row)).unwrap_or(Code::Server)).is_empty());
    // A 413 is believed when it speaks of a rate.
    let trusting =
        |row: &Row| if row.body.contains("rate_limit_exceeded") { RATE } else { judged(row).code() };
    assert!(!mistakes(trusting).is_empty());
    // A code is a string.
    let typed = |row: &Row| {
        let number = row.body.contains(r#""code":4"#) || row.body.contains(r#""code":5"#);
        if row.status == 200 && number { Code::Server } else { judged(row).code() }
    };
    assert!(!mistakes(typed).is_empty());
    // Every page of HTML is a challenge.
    let wary = |row: &Row| if row.body.contains("<html") { Code::Blocked } else { judged(row).code() };
    assert!(!mistakes(wary).is_empty());
}

const RATE: Code = Code::RateLimited;

/// Scenario: a wrong key, no money, no permission, a bad field.
/// Expected: MUST be final on that provider and say nothing about its health.
#[test]
fn final_errors_are_final() {
    use crate::failure::Breaker;
    let rows = [
        (
            401,
            r#"{"error":{"message":"bad key","type":"authentication_error","code":"invalid_api_key"}}"#,
            Code::Authentication,
        ),
        (402, r#"{"error":{"message":"no credit"}}"#, Code::QuotaExhausted),
        (
            403,
            r#"{"error":{"message":"model not allowed for this project","type":"permission_error"}}"#,
            Code::Permission,
        ),
        (422, r#"{"error":{"message":"bad field"}}"#, Code::InvalidRequest),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#,
            Code::ContextLength,
        ),
    ];
    for (status, body, code) in rows {
        let failure = http(status, body);
        assert_eq!(failure.code(), code);
        assert!(!failure.judgement().retry);
        assert!(!matches!(failure.judgement().breaker, Breaker::Failure | Breaker::Semantic));
    }
}

/// Scenario: `x-should-retry` against the table, and OpenRouter's own word in the body.
/// Expected: MUST change whether it is retried and never the code; the header comes first; other words are absent.
#[test]
fn the_providers_word_changes_the_retry_alone() {
    let ask = |status: u16, word: &'static str, body: &str| {
        let status = StatusCode::from_u16(status).unwrap();
        classify(status, &headers(&[("x-should-retry", word)]), body.as_bytes(), NOW)
    };
    let no = ask(503, "false", r#"{"error":{"message":"m","type":"server_error"}}"#);
    assert_eq!((no.code(), no.judgement().retry), (Code::Server, false));
    let yes = ask(400, "true", r#"{"error":{"message":"m"}}"#);
    assert_eq!((yes.code(), yes.judgement().retry), (Code::InvalidRequest, true));
    let unclear = ask(503, "perhaps", "");
    assert_eq!(unclear.should_retry(), None);
    let body = r#"{"error":{"message":"m","availability":{"retryable":false}}}"#;
    assert_eq!(http(429, body).should_retry(), Some(false));
    assert_eq!(ask(429, "true", body).should_retry(), Some(true));
}

/// Scenario: messages, codes and complaints in each place they are kept.
/// Expected: MUST be shown, led by the code where there is one.
#[test]
fn the_providers_words_are_kept() {
    let rows = [
        (
            429,
            r#"{"error":{"message":"spent","type":"insufficient_quota","code":null}}"#,
            "insufficient_quota: spent",
        ),
        (
            429,
            r#"{"error":{"message":"ramp","type":"rate_limit_error","code":"slow_down"}}"#,
            "slow_down: ramp",
        ),
        (429, r#"{"error":{"message":"busy","code":"429"}}"#, "busy"),
        (429, r#"{"error":{"message":"code slow_down came","code":"slow_down"}}"#, "code slow_down came"),
        (422, r#"{"detail":[{"loc":["body","n",0],"msg":"required"},"odd"]}"#, "body.n.0: required; odd"),
        (500, r#"{"error":"it\nbroke"}"#, "it broke"),
        (500, r#"{"error":{"type":"api_error"}}"#, "api_error"),
        (502, "<html><title>502 Bad Gateway</title>", "a page of HTML instead of an error"),
        (520, " \r\n ", "no body"),
        (500, "{\"error\":{\"mess", "a body that cannot be read"),
        (500, "upstream connect error", "upstream connect error"),
    ];
    for (status, body, message) in rows {
        assert_eq!(http(status, body).message(), message, "{body}");
    }
}

/// Scenario: a message that quotes keys, and one with a page in it.
/// Expected: MUST show neither, and leave the rest readable.
#[test]
fn keys_and_pages_are_taken_out() {
    let rows = [
        ("Incorrect key provided: sk-ab**yz. Find yours", "Incorrect key provided: [redacted] Find yours"),
        ("got Authorization: Bearer eyJhbGciOi.J9-x_y=, no", "got Authorization: Bearer [redacted], no"),
        ("bearer:\"abc123\"", "Bearer [redacted]\""),
        ("a Bearer token is needed", "a Bearer token is needed"),
        ("this is risk-free", "this is risk-free"),
        ("xsk-0123456789abcdef0123", "x[redacted]"),
        ("key=AIzaSyA0123456789 and gsk_0123456789", "key=[redacted] and [redacted]"),
        ("upstream said <HTML><body>x", "upstream said [a page of HTML]"),
        ("close <think> with </think>, 3 < 4 <= 5", "close [think> with [/think>, 3 < 4 <= 5"),
    ];
    for (message, shown) in rows {
        assert_eq!(clean::clean(message), shown);
    }
    let label = http(500, r#"{"error":{"message":"m","code":"sk-0123456789abcdef"}}"#);
    assert_eq!(label.message(), "[redacted]: m");
}

/// Scenario: rate-limit headers beside an error, and a body of megabytes.
/// Expected: MUST keep the limits; MUST read only the beginning and fall back on the status.
#[test]
fn limits_are_kept_and_bodies_bounded() {
    let told = headers(&[("x-ratelimit-limit-requests", "60"), ("x-ratelimit-remaining-requests", "0")]);
    let huge = format!(r#"{{"error":{{"code":"insufficient_quota","message":"{}"}}}}"#, "a".repeat(4 << 20));
    let failure = classify(StatusCode::TOO_MANY_REQUESTS, &told, huge.as_bytes(), NOW);
    assert_eq!(failure.code(), Code::RateLimited);
    assert_eq!(failure.limits().get(Dimension::Requests).unwrap().remaining, Some(0));
    let frame = serde_json::from_str(&huge).unwrap();
    let failure = in_band(&frame, NOW);
    assert_eq!(failure.code(), Code::QuotaExhausted);
    assert!(failure.message().len() <= crate::failure::MAX_MESSAGE);
}

/// Scenario: a 200 or a redirect handed in, with an error, a page, or nothing.
/// Expected: MUST be judged by the body; what tells nothing is an invalid response.
#[test]
fn a_status_below_400_is_judged_by_its_body() {
    assert_eq!(http(200, r#"{"error":{"code":429,"message":"m"}}"#).code(), Code::RateLimited);
    assert_eq!(http(200, "<html>").code(), Code::InvalidResponse);
    assert_eq!(http(302, "").code(), Code::InvalidResponse);
}

/// Scenario: each body of the tables, cut at every byte.
/// Expected: MUST be an error of the same status each time, a retryable one only where the whole one's status is.
#[test]
fn a_cut_body_is_still_an_error() {
    for row in all_rows().filter(|row| row.status != 200) {
        let status = StatusCode::from_u16(row.status).unwrap();
        for end in 0..row.body.len() {
            let failure = classify(status, &headers(row.headers), &row.body.as_bytes()[..end], NOW);
            assert_eq!(failure.status(), Some(status));
            let codes = [Code::of_status(status).unwrap(), row.code, Code::Blocked, Code::ContextLength];
            assert!(codes.contains(&failure.code()), "{} {}", failure, &row.body[..end]);
        }
    }
}

/// Scenario: frames with and without an error.
/// Expected: MUST see an error wherever it stands, and none in a null, an empty or an absent one.
#[test]
fn errors_are_seen_in_frames() {
    for row in rows::IN_BAND
        .iter()
        .filter(|row| !row.body.starts_with(r#"{"code""#) && row.body != r#"{"error":{}}"#)
    {
        assert!(has_error(&serde_json::from_str(row.body).unwrap()), "{}", row.body);
    }
    let clean = [
        r#"{"error":null,"choices":[]}"#,
        r#"{"error":"","choices":[{"error":null}]}"#,
        r#"{"type":"response.completed","response":{"error":null}}"#,
        r#"{"error":false}"#,
        "[]",
        "3",
        "null",
    ];
    for body in clean {
        assert!(!has_error(&serde_json::from_str(body).unwrap()), "{body}");
    }
    assert!(has_error(&serde_json::json!({ "error": {} })));
}

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        proptest::sample::select(vec![
            "error",
            "code",
            "type",
            "message",
            "metadata",
            "details",
            "status",
            "response",
            "choices",
            "detail",
            "resets_at",
            "retry_after",
            "retryDelay",
            "availability",
            "raw",
            "loc",
            "msg",
            "errors",
        ])
        .prop_map(str::to_owned),
        ".{0,4}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        ".{0,8}",
        "</?[a-z]{1,6}( [a-z]{0,4})?>",
        "[ :]sk-[A-Za-z0-9]{8,40}",
        "[a-z]sk-[A-Za-z0-9]{20,40}",
        "Bearer [A-Za-z0-9]{6,30}1",
        "(try again in|retry after|limit|requested) ?[0-9]{0,30}[.,]?[0-9]{0,3}(ms|s|m| seconds)?",
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// What no message may show.
fn assert_clean(message: &str) -> Result<(), TestCaseError> {
    for (at, _) in message.match_indices('<') {
        let next = message[at + 1..].chars().next();
        prop_assert!(!next.is_some_and(|c| c.is_ascii_alphabetic() || c == '/' || c == '!'), "{message}");
    }
    for (at, _) in message.match_indices("sk-") {
        let key = message[at + 3..].bytes().take_while(u8::is_ascii_alphanumeric).count();
        prop_assert!(key < 8, "{message}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Scenario: any status, any headers, any JSON or bytes.
    /// Expected: MUST be a failure of that status, without a panic, a tag or a key in its message.
    #[test]
    fn nothing_panics_and_nothing_leaks(
        status in 100_u16..1000,
        value in proptest::collection::vec(any::<u8>(), 0..20),
        json in any_json(),
        text in any_text(),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let status = StatusCode::from_u16(status).unwrap();
        let mut headers = HeaderMap::new();
        for name in ["retry-after", "x-ratelimit-reset-tokens", "x-ratelimit-limit-tokens", "content-type"] {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.insert(name, value);
            }
        }
        let whole = json.to_string().into_bytes();
        let part = &whole[..cut.index(whole.len() + 1)];
        for body in [&whole[..], part, text.as_bytes(), &bytes] {
            let failure = classify(status, &headers, body, NOW);
            prop_assert_eq!(failure.status(), Some(status));
            if status.as_u16() < 400 { prop_assert_ne!(failure.code(), Code::Truncated); }
            assert_clean(failure.message())?;
        }
        let failure = in_band(&json, NOW);
        prop_assert_eq!(failure.status(), Some(StatusCode::OK));
        assert_clean(failure.message())?;
        let _ = has_error(&json);
    }
}
