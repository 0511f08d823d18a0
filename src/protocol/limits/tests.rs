use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

/// 2025-03-01T12:00:00Z.
const NOW: Duration = Duration::from_secs(1_740_830_400);

fn told(of: &[(&'static str, &'static str)]) -> Limits {
    let headers = of
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    read(&headers, NOW)
}

fn window(dimension: Dimension, limit: Option<u64>, remaining: Option<u64>, millis: Option<u64>) -> Window {
    Window { dimension, limit, remaining, reset: millis.map(Duration::from_millis) }
}

/// Scenario: every form a reset comes in, at noon on 1 March 2025.
/// Expected: MUST be the wait in milliseconds; MUST be absent unless the whole value is of one form.
#[test]
fn a_reset_is_read_or_absent() {
    let rows = [
        ("1s", Some(1_000)),
        ("6m0s", Some(360_000)),
        ("17ms", Some(17)),
        ("2m59.56s", Some(179_560)),
        ("7.66s", Some(7_660)),
        ("9m38.016s", Some(578_016)),
        ("1h30m", Some(5_400_000)),
        ("1h2m3.5s", Some(3_723_500)),
        ("500ms", Some(500)),
        ("0s", Some(0)),
        ("900us", Some(1)),
        ("1µs", Some(1)),
        ("1.0001ms", Some(2)),
        ("60", Some(60_000)),
        ("0", Some(0)),
        ("0.25", Some(250)),
        ("0.0001", Some(1)),
        ("999999999", Some(999_999_999_000)),
        ("1740830410", Some(10_000)),
        ("1740830410000", Some(10_000)),
        ("1740830400250.5", Some(251)),
        ("1740830399", Some(0)),
        ("2025-03-01T12:00:27Z", Some(27_000)),
        ("2025-03-01T13:00:27+01:00", Some(27_000)),
        ("2025-03-01T12:00:00.250Z", Some(250)),
        ("2025-03-01T12:00:00.2500001Z", Some(251)),
        ("2025-03-01T11:59:59Z", Some(0)),
        ("1960-01-01T00:00:00Z", Some(0)),
        (" 5s ", Some(5_000)),
        ("", None),
        (".", None),
        ("1.2.3", None),
        ("5.", None),
        ("soon", None),
        ("-5s", None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("inf", None),
        ("nan", None),
        ("5x", None),
        ("5s soon", None),
        ("5 s", None),
        ("5s 3ms", None),
        ("2025-03-01", None),
        ("2025-03-01T12:00:27", None),
        ("2025-13-01T12:00:27Z", None),
        ("2025-03-01T12:00:27Z[UTC]", None),
        ("99999-01-01T00:00:00Z", None),
        ("99999999999999999", None),
        ("999999999999999999999999999999999999999999", None),
        ("999999999999999999h", None),
    ];
    for (value, millis) in rows {
        assert_eq!(parse_reset(value, NOW), millis.map(Duration::from_millis), "{value:?}");
    }
}

/// Scenario: OpenAI's headers with a project's beside them, Azure's with an unknown limit, GitHub's without a reset.
/// Expected: MUST be read; the tighter of two counts, an unknown one is ignored, the period stands for the reset.
#[test]
fn openai_azure_and_github_are_read() {
    use Dimension::{Requests, Tokens};
    let openai = told(&[
        ("x-ratelimit-limit-requests", "500"),
        ("x-ratelimit-remaining-requests", "499"),
        ("x-ratelimit-reset-requests", "120ms"),
        ("x-ratelimit-limit-tokens", "30,000"),
        ("x-ratelimit-remaining-tokens", "29,000"),
        ("x-ratelimit-reset-tokens", "6m0s"),
        ("x-ratelimit-limit-project-tokens", "20000"),
        ("x-ratelimit-remaining-project-tokens", "100"),
        ("x-ratelimit-reset-project-tokens", "1s"),
    ]);
    let expected = [
        window(Requests, Some(500), Some(499), Some(120)),
        window(Tokens, Some(20_000), Some(100), Some(1_000)),
    ];
    assert_eq!(openai.windows(), expected);

    let azure = told(&[
        ("x-ratelimit-limit-requests", "6"),
        ("x-ratelimit-remaining-requests", "5"),
        ("x-ratelimit-reset-requests", "10"),
        ("x-ratelimit-limit-tokens", "-1"),
        ("x-ratelimit-remaining-tokens", "-1"),
        ("x-ratelimit-reset-tokens", "0"),
    ]);
    assert_eq!(azure.windows(), [window(Requests, Some(6), Some(5), Some(10_000))]);

    let github = told(&[
        ("x-ratelimit-limit-requests", "15"),
        ("x-ratelimit-remaining-requests", "3"),
        ("x-ratelimit-renewalperiod-requests", "60"),
        ("x-ratelimit-key", "m-a"),
    ]);
    assert_eq!(github.windows(), [window(Requests, Some(15), Some(3), Some(60_000))]);
}

/// Scenario: Anthropic's headers, with resets just past and ahead, and those of the priority tier.
/// Expected: MUST keep each kind of token apart, and leave the priority tier out.
#[test]
fn anthropic_is_read() {
    use Dimension::{InputTokens, OutputTokens, Requests, Tokens};
    let anthropic = told(&[
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-requests-reset", "2025-03-01T12:00:01Z"),
        ("anthropic-ratelimit-input-tokens-limit", "40000"),
        ("anthropic-ratelimit-input-tokens-remaining", "39000"),
        ("anthropic-ratelimit-input-tokens-reset", "2025-03-01T11:59:59Z"),
        ("anthropic-ratelimit-output-tokens-limit", "8000"),
        ("anthropic-ratelimit-output-tokens-remaining", "0"),
        ("anthropic-ratelimit-output-tokens-reset", "2025-03-01T12:00:30Z"),
        ("anthropic-ratelimit-tokens-limit", "48000"),
        ("anthropic-ratelimit-tokens-remaining", "39000"),
        ("anthropic-priority-input-tokens-limit", "10"),
        ("anthropic-priority-input-tokens-remaining", "0"),
    ]);
    let expected = [
        window(Requests, Some(50), Some(49), Some(1_000)),
        window(Tokens, Some(48_000), Some(39_000), None),
        window(InputTokens, Some(40_000), Some(39_000), Some(0)),
        window(OutputTokens, Some(8_000), Some(0), Some(30_000)),
    ];
    assert_eq!(anthropic.windows(), expected);
}

/// Scenario: Mistral's headers by the minute and the month; Groq's, whose requests are a day's.
/// Expected: MUST keep the minute without a reset, and take requests for a day's where asked to.
#[test]
fn mistral_and_groq_are_read() {
    use Dimension::{Requests, RequestsPerDay, Tokens};
    let mistral = told(&[
        ("x-ratelimit-limit-tokens-minute", "500000"),
        ("x-ratelimit-remaining-tokens-minute", "499000"),
        ("x-ratelimit-limit-req-minute", "60"),
        ("x-ratelimit-remaining-req-minute", "59"),
        ("x-ratelimit-limit-tokens-month", "1"),
        ("x-ratelimit-tokens-query-cost", "40"),
    ]);
    let expected =
        [window(Requests, Some(60), Some(59), None), window(Tokens, Some(500_000), Some(499_000), None)];
    assert_eq!(mistral.windows(), expected);

    let groq = told(&[("x-ratelimit-limit-requests", "14400"), ("x-ratelimit-remaining-requests", "14000")]);
    let daily = daily_requests(&groq);
    assert_eq!(daily.windows(), [window(RequestsPerDay, Some(14_400), Some(14_000), None)]);
}

/// Scenario: the bare names, with seconds to wait (Together) and with an instant (OpenRouter).
/// Expected: MUST keep no limit by the second; MUST tell a minute from a day by the instant.
#[test]
fn bare_names_are_told_apart_by_their_reset() {
    use Dimension::{Requests, RequestsPerDay, Tokens};
    let together = told(&[
        ("x-ratelimit-limit", "10"),
        ("x-ratelimit-remaining", "12"),
        ("x-ratelimit-reset", "1"),
        ("x-tokenlimit-limit", "3000"),
        ("x-tokenlimit-remaining", "2500"),
        ("x-tokenlimit-remaining-dynamic", "2000"),
    ]);
    let expected = [window(Requests, None, Some(10), Some(1_000)), window(Tokens, None, Some(2_000), None)];
    assert_eq!(together.windows(), expected);

    let minute =
        [("x-ratelimit-limit", "20"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1740830430000")];
    assert_eq!(told(&minute).windows(), [window(Requests, Some(20), Some(0), Some(30_000))]);
    let day =
        [("x-ratelimit-limit", "50"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1740873600000")];
    assert_eq!(told(&day).windows(), [window(RequestsPerDay, Some(50), Some(0), Some(43_200_000))]);
}

/// Scenario: figures that are absent, negative, above the limit, zero or no figures.
/// Expected: MUST leave the absent unknown, hold what is left within 0 and the limit, and ignore a dimension whose
/// limit is none.
#[test]
fn absent_stays_unknown_and_the_rest_is_held_in_bounds() {
    let ask = |limit: &'static str, remaining: &'static str| {
        let limits =
            told(&[("x-ratelimit-limit-requests", limit), ("x-ratelimit-remaining-requests", remaining)]);
        limits.get(Dimension::Requests).map(|window| (window.limit, window.remaining))
    };
    assert_eq!(ask("60", ""), Some((Some(60), None)));
    assert_eq!(ask("", "7"), Some((None, Some(7))));
    assert_eq!(ask("60", "0"), Some((Some(60), Some(0))));
    assert_eq!(ask("60", "-3"), Some((Some(60), Some(0))));
    assert_eq!(ask("60", "90000"), Some((Some(60), Some(60))));
    assert_eq!(ask("60", "many"), Some((Some(60), None)));
    assert_eq!(ask("1,234,567", "1,000"), Some((Some(1_234_567), Some(1_000))));
    for limit in ["0", "-1", "many", "1e3", "6.5", "3,00", "1234,567", "99999999999999999999", ",", "-"] {
        assert_eq!(ask(limit, "7"), None, "{limit}");
    }
    assert!(told(&[("x-ratelimit-reset-requests", "5s")]).is_empty());
    assert!(told(&[]).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Scenario: any text as a reset and as a figure.
    /// Expected: MUST not panic, and MUST hold what is left within the limit.
    #[test]
    fn no_value_panics(value in "\\PC{0,30}", figures in "[-0-9.,:TZhmsµ+ ]{0,30}", unix in any::<u64>()) {
        let unix = Duration::from_millis(unix);
        for value in [&value, &figures] {
            let _ = parse_reset(value, unix);
            let Ok(value) = HeaderValue::from_str(value) else { continue };
            let mut headers = HeaderMap::new();
            for names in SPELLINGS.iter().chain(&BARE) {
                for name in [names.limit, names.remaining, names.reset].into_iter().filter(|name| !name.is_empty()) {
                    headers.insert(HeaderName::from_static(name), value.clone());
                }
            }
            for window in read(&headers, unix).windows() {
                prop_assert!(window.limit != Some(0));
                prop_assert!(window.remaining.zip(window.limit).is_none_or(|(left, limit)| left <= limit));
            }
        }
    }
}
