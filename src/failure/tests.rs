//! The words of failures, and the one table.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use proptest::prelude::any;
use proptest::prop_assert_eq;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::json;
use tower::{Service, ServiceExt};

use super::*;

/// Scenario: all codes, as they are written into files and read back.
/// Expected: each name MUST stay what it is for ever, be its own, and be read back; no other name MUST be read.
#[test]
fn the_names_of_codes_are_stable() {
    const NAMES: &str = "INVALID_REQUEST AUTHENTICATION PERMISSION BLOCKED NOT_FOUND PAYLOAD_TOO_LARGE \
        CONTENT_FILTER CONTEXT_LENGTH QUOTA_EXHAUSTED RATE_LIMITED OVERLOADED SERVER REQUEST_TIMEOUT CONFLICT \
        CONNECT TRANSPORT TIMEOUT_CONNECT TIMEOUT_FIRST_OUTPUT TIMEOUT_IDLE TIMEOUT_SILENCE TIMEOUT_TOTAL \
        INVALID_RESPONSE TRUNCATED EMPTY_RESPONSE STRAY_TOOL_CALL UNKNOWN_TOOL INVALID_TOOL_ARGUMENTS REPETITION \
        DEADLINE CIRCUIT_OPEN BULKHEAD_FULL BUDGET_EXHAUSTED LIMITER_FULL COST_ABOVE_CAPACITY CANCELLED ALL_FAILED";
    let names: Vec<_> = NAMES.split_whitespace().collect();
    assert_eq!(Code::ALL.map(Code::as_str).as_slice(), names);
    for code in Code::ALL {
        let written = serde_json::to_string(&code).unwrap();
        assert_eq!(written, format!("\"{code}\""));
        assert_eq!(serde_json::from_str::<Code>(&written).unwrap(), code);
    }
    let error = serde_json::from_str::<Code>("\"Server\"").unwrap_err();
    assert!(error.to_string().contains("`Server`"), "{error}");
}

/// One code's row: class, retry, fail over, breaker, as the table of the docs words them.
type Row = [String; 4];

/// The table as the module's docs print it.
fn printed() -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for line in include_str!("../failure.rs").lines().filter_map(|line| line.strip_prefix("//! | ")) {
        let cells: Vec<_> = line.trim_end_matches(" |").split(" | ").map(str::trim).collect();
        let [class, codes, retry, fail_over, breaker] = cells[..] else { panic!("five cells: {line}") };
        for code in codes.split('`').filter(|code| !code.trim().is_empty() && *code != "codes") {
            let before = rows.insert(code.to_owned(), [class, retry, fail_over, breaker].map(String::from));
            assert!(before.is_none(), "{code} stands twice");
        }
    }
    rows
}

/// The table as the code has it.
fn coded() -> BTreeMap<String, Row> {
    let row = |code: Code| {
        let judgement = code.judgement();
        let class = serde_json::to_value(judgement.class).unwrap().as_str().unwrap().to_owned();
        let fail_over = match judgement.fail_over {
            FailOver::Yes => "yes",
            FailOver::OptIn => "opt-in",
            FailOver::LargerWindow => "to a larger window",
            FailOver::No => "no",
        };
        let breaker = match judgement.breaker {
            Breaker::Failure => "failure",
            Breaker::Semantic => "semantic",
            Breaker::Pause => "pauses",
            Breaker::Neutral => "neutral",
        };
        let retry = if judgement.retry { "yes" } else { "no" };
        (code.to_string(), [class, retry.into(), fail_over.into(), breaker.into()])
    };
    Code::ALL.into_iter().map(row).collect()
}

/// Scenario: the table printed in the docs beside the one in the code.
/// Expected: they MUST be the same table, code by code.
#[test]
fn the_printed_table_is_the_table() {
    assert_eq!(printed(), coded());
}

/// Scenario: statuses below 400, known ones, and unknown ones of both families.
/// Expected: MUST be no failure, the code of the table, the code of the family.
#[test]
fn a_status_is_judged_by_its_number_or_its_family() {
    let rows = [
        (200, None),
        (399, None),
        (400, Some(Code::InvalidRequest)),
        (401, Some(Code::Authentication)),
        (402, Some(Code::QuotaExhausted)),
        (403, Some(Code::Permission)),
        (404, Some(Code::NotFound)),
        (408, Some(Code::RequestTimeout)),
        (409, Some(Code::Conflict)),
        (413, Some(Code::PayloadTooLarge)),
        (418, Some(Code::InvalidRequest)),
        (422, Some(Code::InvalidRequest)),
        (429, Some(Code::RateLimited)),
        (498, Some(Code::Overloaded)),
        (499, Some(Code::RequestTimeout)),
        (500, Some(Code::Server)),
        (525, Some(Code::Server)),
        (529, Some(Code::Overloaded)),
        (599, Some(Code::Server)),
        (999, Some(Code::Server)),
    ];
    for (status, code) in rows {
        assert_eq!(Code::of_status(StatusCode::from_u16(status).unwrap()), code, "{status}");
    }
}

fn holds(clip: impl Fn(&str) -> Box<str>) -> Result<(), TestCaseError> {
    let config = Config { failure_persistence: None, ..Config::with_cases(256) };
    // Filled up to the edge, so that the cut falls into what was drawn.
    let outcome = TestRunner::new(config).run(&any::<(u8, String)>(), |(short, tail)| {
        let whole = format!("{}{tail}{tail}é漢🦀", "x".repeat(MAX_MESSAGE - usize::from(short)));
        let clipped = clip(&whole);
        let fits = whole.char_indices().take_while(|(at, c)| at + c.len_utf8() <= MAX_MESSAGE);
        let wanted: String = fits.map(|(_, c)| if c.is_control() { ' ' } else { c }).collect();
        prop_assert_eq!(&*clipped, wanted.trim_end());
        Ok(())
    });
    outcome.map_err(|error| TestCaseError::fail(error.to_string()))
}

/// Scenario: any text, longer than a message may be.
/// Expected: MUST be a prefix, cut at the last character that fits, on one line; cutting at the byte, cutting at a
/// count of characters, and keeping line breaks MUST be told apart from that.
#[test]
fn a_message_is_cut_at_a_character() {
    holds(|text| Failure::new(Code::Server, text).message().into()).unwrap();
    holds(|text| String::from_utf8_lossy(&text.as_bytes()[..MAX_MESSAGE]).into()).unwrap_err();
    holds(|text| text.chars().take(MAX_MESSAGE).collect()).unwrap_err();
    holds(|text| text.chars().take(MAX_MESSAGE / 4).collect()).unwrap_err();
}

/// Scenario: a failure over an error that carries a key; and one told with line breaks.
/// Expected: the key MUST be reachable through `source` alone, and nothing shown MUST break the line.
#[test]
fn what_is_shown_leaks_nothing() {
    let source: BoxError = "GET https://host/v1?key=sk-secret".into();
    let failure = Failure::new(Code::Connect, "refused\r\n\tby \u{1b}[31mhost\n")
        .with_source(source)
        .with_status(StatusCode::BAD_GATEWAY)
        .with_provider(&"east".into());
    let failure = failure.clone().with_attempts(vec![failure.as_attempt()]);
    let shown = [format!("{failure}"), format!("{failure:?}"), serde_json::to_string(&failure).unwrap()];
    for shown in shown {
        assert!(!shown.contains("sk-secret"), "{shown}");
        assert!(!shown.contains(char::is_control), "{shown}");
    }
    assert_eq!(failure.to_string(), "CONNECT from east (HTTP 502): refused   by  [31mhost");
    assert!(Error::source(&failure).unwrap().to_string().contains("sk-secret"));
}

/// Scenario: a failure with everything, written as JSON.
/// Expected: the fields and their forms MUST stay what they are.
#[test]
fn the_written_form_is_stable() {
    let skip = Failure::local(Code::LimiterFull, "it was told to wait").with_skip(Skip::Resting);
    let failure = Failure::new(Code::RateLimited, "slow down")
        .with_status(StatusCode::TOO_MANY_REQUESTS)
        .with_provider(&"east".into())
        .with_retry_after(Some(Duration::from_millis(1500)))
        .with_attempts(vec![skip.with_provider(&"west".into()).as_attempt()]);
    let written = json!({
        "code": "RATE_LIMITED",
        "class": "transient",
        "message": "slow down",
        "status": 429,
        "provider": "east",
        "tool": null,
        "retry_after_ms": 1500,
        "skip": null,
        "attempts": [
            {
                "provider": "west", "code": "LIMITER_FULL", "status": null,
                "message": "it was told to wait", "skip": "RESTING"
            },
        ],
    });
    assert_eq!(serde_json::to_value(&failure).unwrap(), written);
}

/// Scenario: a tool fails, alone, after it asked a provider, and inside another tool; a failover adds its candidate.
/// Expected: the first tool named MUST be the one that failed, whoever else is known; alone it MUST be shown as
/// `tool:NAME`, in words and as data; nobody else MUST be taken for a tool.
#[test]
fn a_failure_of_a_tool_says_so() {
    let alone = Failure::new(Code::Server, "broke").with_tool("search").with_tool("outer");
    let alone = alone.with_provider(&"candidate".into());
    assert_eq!((alone.tool(), alone.provider().map(AsRef::as_ref)), (Some("search"), Some("tool:search")));
    assert_eq!(alone.to_string(), "SERVER from tool:search: broke");
    assert_eq!(alone.as_attempt().provider.as_deref(), Some("tool:search"));
    let shown = serde_json::to_value(&alone).unwrap();
    assert_eq!((&shown["tool"], &shown["provider"]), (&json!("search"), &json!("tool:search")));

    let asked = Failure::new(Code::Server, "broke").with_provider(&"east".into()).with_tool("search");
    assert_eq!((asked.tool(), asked.provider().map(AsRef::as_ref)), (Some("search"), Some("east")));
    assert_eq!(Failure::new(Code::Server, "broke").with_provider(&"tool:search".into()).tool(), None);
}

/// Scenario: refusals of our own, the provider's word on retrying, and a failure that a retry gave up on.
/// Expected: a refusal MUST be neither retried nor counted; the word MUST change the retry alone; given up is final.
#[test]
fn the_judgement_heeds_who_spoke() {
    for code in Code::ALL {
        let local = Failure::local(code, "").judgement();
        assert!(!local.retry && local.breaker == Breaker::Neutral, "{code}");
        assert_eq!(local.fail_over, code.judgement().fail_over, "{code}");
        let passed_over = Failure::local(code, "").with_skip(Skip::Window).judgement();
        assert_eq!(passed_over.fail_over, FailOver::Yes, "{code}");
        assert_eq!(Failure::new(code, "").is_local(), code.class() == Class::Local, "{code}");
        if code.class() != Class::Local {
            let table = code.judgement();
            assert_eq!(Failure::new(code, "").judgement(), table, "{code}");
            for word in [true, false] {
                let told = Failure::new(code, "").with_should_retry(Some(word));
                assert_eq!(told.judgement(), Judgement { retry: word, ..table }, "{code}");
                assert!(!told.exhaust().judgement().retry, "{code}");
            }
        }
    }
}

/// Scenario: what is known is told again, with nothing in it.
/// Expected: a stated wait MUST not be forgotten, and the first provider named MUST keep the blame.
#[test]
fn what_is_known_is_not_overwritten() {
    let failure = Failure::new(Code::Server, "")
        .with_retry_after(Some(Duration::from_secs(2)))
        .with_retry_after(None)
        .with_provider(&"inner".into())
        .with_provider(&"outer".into());
    assert_eq!(failure.retry_after(), Some(Duration::from_secs(2)));
    assert_eq!(failure.provider().map(AsRef::as_ref), Some("inner"));
    assert_eq!(size_of::<Failure>(), size_of::<usize>());
}

/// A service that is never ready: a buffer in front of it wraps the reason.
#[derive(Clone)]
struct Broken;

impl Service<()> for Broken {
    type Response = ();
    type Error = Failure;
    type Future = std::future::Ready<Result<(), Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Err(Failure::new(Code::Connect, "no way").with_retry_after(Some(Duration::from_secs(7)))))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        unreachable!("it is never ready")
    }
}

/// Scenario: a failure that tower's buffer wrapped, one that it passed, and an error nobody knows.
/// Expected: the failure inside MUST be found, whole; a stranger MUST be `TRANSPORT` with itself as source.
#[tokio::test]
async fn a_box_is_asked_what_is_in_it() {
    let mut buffer = tower::buffer::Buffer::new(Broken, 1);
    let error: BoxError = match buffer.ready().await {
        Ok(ready) => ready.call(()).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.downcast_ref::<Failure>().is_none(), "the buffer wraps it");
    assert_eq!(error.failure().map(Failure::code), Some(Code::Connect));
    assert_eq!(error.into_failure().retry_after(), Some(Duration::from_secs(7)));

    let error = BoxError::from(Failure::new(Code::Conflict, "locked"));
    assert_eq!(error.into_failure().code(), Code::Conflict);

    let error: BoxError = std::io::Error::other("pipe").into();
    assert!(error.failure().is_none());
    let failure = error.into_failure();
    assert_eq!((failure.code(), failure.message()), (Code::Transport, "pipe"));
    assert!(Error::source(&failure).unwrap().is::<std::io::Error>());
}

/// Scenario: values that cannot be configured, and ones that can.
/// Expected: the field MUST be named, the reason told.
#[test]
fn a_refused_value_is_named() {
    let error = ConfigError::unless_positive("base", Duration::ZERO).unwrap_err();
    assert_eq!(error.to_string(), "`base` must not be zero; what is off is `None`, in a file `false`");
    ConfigError::unless_positive("base", None).unwrap();
    ConfigError::unless_positive("base", Duration::from_nanos(1)).unwrap();
    for ratio in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(ConfigError::unless_ratio("ratio", ratio).unwrap_err().field, "ratio", "{ratio}");
    }
    ConfigError::unless_ratio("ratio", 1.0).unwrap();
}
