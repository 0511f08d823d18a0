//! What a recorder sees of facts.

#![allow(clippy::float_cmp, reason = "figures of a test are exact")]

use std::sync::Arc;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::chat::{CallId, Level, Outcome, Usage};
use crate::event::{Circuit, Fact, Sink};
use crate::failure::{Code, Failure};

use super::Metrics;

/// Every series after these facts: its name with labels, and its figure.
fn series(metrics: &Metrics, facts: &[Fact<'_>]) -> Vec<(String, f64)> {
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    ::metrics::with_local_recorder(&recorder, || facts.iter().for_each(|fact| metrics.emit(fact)));
    let figure = |value: DebugValue| match value {
        DebugValue::Counter(count) => count as f64,
        DebugValue::Gauge(level) => level.into_inner(),
        DebugValue::Histogram(values) => values.iter().map(|value| value.into_inner()).sum(),
    };
    let mut all: Vec<_> = seen
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let labels: Vec<_> =
                key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            (format!("{} {}", key.key().name(), labels.join(" ")), figure(value))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn of<'a>(all: &'a [(String, f64)], name: &str) -> Vec<(&'a str, f64)> {
    all.iter()
        .filter(|(full, _)| full.starts_with(name))
        .map(|(full, figure)| (full.as_str(), *figure))
        .collect()
}

/// Scenario: a request is admitted, settles with usage, and is released; another is refused.
/// Expected: MUST count each, leave none in flight, and name the code.
#[test]
fn calls_tokens_and_gates_are_counted() {
    let call = CallId::default();
    let failure = Failure::local(Code::CircuitOpen, "open");
    let usage = Usage { input: 7, output: 3, ..Usage::default() };
    let (gate, key) = ("circuit_breaker", "provider:a");
    let all = series(
        &Metrics::default(),
        &[
            Fact::Admitted { call, gate, key, waited: Duration::ZERO },
            Fact::Settled {
                call,
                provider: "a",
                outcome: Outcome::Completed(Some(usage)),
                usage: Some(usage),
                first_output: Some(Duration::from_millis(500)),
                elapsed: Duration::from_secs(2),
            },
            Fact::Released { call, gate, key, outcome: Outcome::Completed(Some(usage)) },
            Fact::Refused { call, gate, key, failure: &failure },
        ],
    );
    assert_eq!(
        of(&all, "watertight_settled_total"),
        [("watertight_settled_total provider=a outcome=completed", 1.0)]
    );
    assert_eq!(of(&all, "watertight_tokens_total provider=a kind=input")[0].1, 7.0);
    assert_eq!(of(&all, "watertight_first_output_seconds")[0].1, 0.5);
    assert_eq!(of(&all, "watertight_in_flight")[0].1, 0.0);
    let refused = "watertight_refused_total gate=circuit_breaker key=provider:a code=CIRCUIT_OPEN";
    assert_eq!(of(&all, "watertight_refused_total"), [(refused, 1.0)]);
    assert!(of(&all, "watertight_wait_seconds").is_empty(), "nobody waited");
}

/// Scenario: whole calls end in each way a call can, one of them twice.
/// Expected: each way MUST be a series of its own, told by outcome and level alone.
#[test]
fn whole_calls_are_counted_by_how_they_ended() {
    let call = CallId::default();
    let completed = Outcome::Completed(None);
    let ends = [
        (completed, Level::None),
        (completed, Level::None),
        (completed, Level::Fallback),
        (completed, Level::Failed),
        (Outcome::Failed(Code::Server), Level::None),
        (Outcome::Truncated, Level::None),
        (Outcome::Abandoned, Level::None),
    ];
    let facts = ends.map(|(outcome, level)| Fact::Ended { call, outcome, level });
    let all = series(&Metrics::default(), &facts);
    let wanted = [
        ("outcome=SERVER level=none", 1.0),
        ("outcome=abandoned level=none", 1.0),
        ("outcome=completed level=failed", 1.0),
        ("outcome=completed level=fallback", 1.0),
        ("outcome=completed level=none", 2.0),
        ("outcome=truncated level=none", 1.0),
    ]
    .map(|(labels, count)| (format!("watertight_calls_total {labels}"), count));
    assert_eq!(all, wanted);
}

/// Scenario: a breaker goes through all its states.
/// Expected: the gauge MUST tell every state from every other.
#[test]
fn the_gauge_of_a_circuit_tells_all_states_apart() {
    let states = [
        Circuit::Closed,
        Circuit::Open,
        Circuit::HalfOpen,
        Circuit::ForcedOpen,
        Circuit::Disabled,
        Circuit::Observe,
    ];
    let mut levels: Vec<_> = states
        .into_iter()
        .map(|to| {
            let fact = Fact::Transition { key: "a", from: Circuit::Closed, to, cause: "test", rest: None };
            of(&series(&Metrics::default(), &[fact]), "watertight_circuit")[0].1.to_bits()
        })
        .collect();
    levels.sort_unstable();
    levels.dedup();
    assert_eq!(levels.len(), states.len());
}

/// Scenario: many more keys than labels may be.
/// Expected: what is one too many MUST be counted as `other`, and what was known keep its own.
#[test]
fn labels_from_traffic_are_bounded() {
    let metrics = Metrics::with_max_labels(2);
    let keys: Vec<Arc<str>> = (0..100).map(|n| format!("user:{n}").into()).collect();
    let call = CallId::default();
    let admitted = |key| Fact::Admitted { call, gate: "bulkhead", key, waited: Duration::ZERO };
    let facts: Vec<_> = keys.iter().chain(&keys[..1]).map(|key| admitted(key)).collect();
    let all = series(&metrics, &facts);
    let counted = of(&all, "watertight_admitted_total");
    let wanted = [("other", 98.0), ("user:0", 2.0), ("user:1", 1.0)]
        .map(|(key, count)| (format!("watertight_admitted_total gate=bulkhead key={key}"), count));
    assert_eq!(counted, wanted.iter().map(|(name, count)| (name.as_str(), *count)).collect::<Vec<_>>());
}
