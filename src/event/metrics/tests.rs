//! What a recorder sees of facts.

#![allow(clippy::float_cmp, reason = "figures of a test are exact")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ::metrics::Label;
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::chat::{CallId, Level, Outcome, Usage};
use crate::event::tests::each;
use crate::event::{Circuit, Fact, Sink};
use crate::failure::{Code, Failure};

use super::{Metrics, labels};

/// Every state of a circuit.
const CIRCUITS: [Circuit; 6] = [
    Circuit::Closed,
    Circuit::Open,
    Circuit::HalfOpen,
    Circuit::ForcedOpen,
    Circuit::Disabled,
    Circuit::Observe,
];

/// One series, as a recorder has it.
struct Series {
    kind: MetricKind,
    name: String,
    labels: Vec<(String, String)>,
    figure: f64,
}

// === impl Series ===

impl Series {
    /// Its name with labels.
    fn full(&self) -> String {
        let labels: Vec<_> = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} {}", self.name, labels.join(" "))
    }

    fn kind(&self) -> &'static str {
        match self.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// Every series after these facts.
fn recorded(metrics: &Metrics, facts: &[Fact<'_>]) -> Vec<Series> {
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    ::metrics::with_local_recorder(&recorder, || facts.iter().for_each(|fact| metrics.emit(fact)));
    let figure = |value: DebugValue| match value {
        DebugValue::Counter(count) => count as f64,
        DebugValue::Gauge(level) => level.into_inner(),
        DebugValue::Histogram(values) => values.iter().map(|value| value.into_inner()).sum(),
    };
    let label = |label: &Label| (label.key().to_owned(), label.value().to_owned());
    let mut all: Vec<_> = seen
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(id, _, _, value)| Series {
            kind: id.kind(),
            name: id.key().name().to_owned(),
            labels: id.key().labels().map(label).collect(),
            figure: figure(value),
        })
        .collect();
    all.sort_by_key(Series::full);
    all
}

/// Every series after these facts: its name with labels, and its figure.
fn series(metrics: &Metrics, facts: &[Fact<'_>]) -> Vec<(String, f64)> {
    recorded(metrics, facts).iter().map(|series| (series.full(), series.figure)).collect()
}

fn of<'a>(all: &'a [(String, f64)], name: &str) -> Vec<(&'a str, f64)> {
    all.iter()
        .filter(|(full, _)| full.starts_with(name))
        .map(|(full, figure)| (full.as_str(), *figure))
        .collect()
}

/// What each fact does to an empty recorder.
const TOLD: &str = "
attempt: counter watertight_attempts_total provider=east model=m 1
adapted: counter watertight_adaptions_total provider=east option=top_k change=dropped 1
retry_planned: counter watertight_retries_total policy=default code=SERVER 1
retry_planned: histogram watertight_retry_wait_seconds policy=default 1
retry_refused: counter watertight_retries_refused_total reason=budget code=SERVER 1
timed_out: counter watertight_timeouts_total clock=idle 1
crawling: counter watertight_crawling_total  1
skipped: counter watertight_skips_total candidate=east skip=SERVER 1
failed_over: counter watertight_failovers_total from=east to=west code=SERVER 1
moved: counter watertight_moves_total from=east to=west 1
trial: counter watertight_trials_total candidate=east 1
sprung_back: counter watertight_springs_back_total candidate=east 1
reset: counter watertight_resets_total reason=transport 1
admitted: counter watertight_admitted_total gate=bulkhead key=east 1
admitted: gauge watertight_in_flight gate=bulkhead key=east 1
admitted: histogram watertight_wait_seconds gate=bulkhead key=east 1
released: gauge watertight_in_flight gate=bulkhead key=east -1
refused: counter watertight_refused_total gate=bulkhead key=east code=SERVER 1
transition: gauge watertight_circuit key=east 2
transition: counter watertight_transitions_total key=east to=open 1
probe: counter watertight_probes_total key=east 1
cache_lost: counter watertight_caches_lost_total key=east 1
calibrated: gauge watertight_limit key=east dimension=tokens 9
calibrated: gauge watertight_remaining key=east dimension=tokens 1
frozen: counter watertight_freezes_total key=east 1
slowed: counter watertight_slow_downs_total key=east 1
budget_warning: counter watertight_budget_warnings_total key=east 1
rung: counter watertight_rungs_total rung=cached_answer outcome=failed 1
rung: counter watertight_rungs_total rung=cached_answer outcome=answered 1
degraded: counter watertight_degraded_total rung=cached_answer 1
settled: histogram watertight_first_output_seconds provider=east 1
settled: histogram watertight_settled_seconds provider=east outcome=completed 2
settled: counter watertight_settled_total provider=east outcome=completed 1
settled: counter watertight_tokens_total provider=east kind=cached_read 20
settled: counter watertight_tokens_total provider=east kind=cached_write 10
settled: counter watertight_tokens_total provider=east kind=input 50
settled: counter watertight_tokens_total provider=east kind=output 30
settled: counter watertight_tokens_total provider=east kind=reasoning 5
ended: counter watertight_calls_total outcome=SERVER level=none 1
ended: counter watertight_calls_total outcome=completed level=fallback 1
";

/// Scenario: every fact there is, each told to a recorder of its own.
/// Expected: every series MUST have the name, the kind, the labels and the figure that are written down, and there MUST
/// be no other.
#[test]
fn every_fact_has_its_series() {
    let failure = Failure::new(Code::Server, "broke");
    let mut told = String::from("\n");
    for fact in each(&failure) {
        for series in recorded(&Metrics::default(), &[fact]) {
            told += &format!("{}: {} {} {}\n", fact.name(), series.kind(), series.full(), series.figure);
        }
    }
    assert_eq!(told, TOLD);
}

/// The words between backticks.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Scenario: the table in the docs beside the series of every fact.
/// Expected: both MUST name the same series, each with the same kind and labels, and say the same of a circuit's states.
#[test]
fn the_printed_series_are_the_series() {
    let docs = include_str!("mod.rs");
    let rows = docs.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let printed: Vec<_> = rows
        .map(|row| {
            let cells: Vec<_> = row.trim_end_matches(" |").split(" |").map(str::trim).collect();
            let kind = cells[1].split([',', ':']).next().unwrap_or_default();
            let labels = cells.get(2).and_then(|labels| labels.split(':').next()).unwrap_or_default();
            (cells[0].trim_matches('`').to_owned(), (kind.to_owned(), quoted(labels)))
        })
        .collect();
    let failure = Failure::new(Code::Server, "broke");
    let coded: BTreeMap<_, _> = recorded(&Metrics::default(), &each(&failure))
        .into_iter()
        .map(|series| {
            let kind = series.kind().to_owned();
            (series.name, (kind, series.labels.into_iter().map(|(key, _)| key).collect()))
        })
        .collect();
    assert_eq!(printed.len(), coded.len());
    assert_eq!(printed.into_iter().collect::<BTreeMap<_, _>>(), coded);
    for state in CIRCUITS {
        let (level, word) = labels::circuit(state);
        assert!(docs.contains(&format!(" {level} {}", word.replace('_', " "))), "{state:?}");
    }
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
    let mut levels: Vec<_> = CIRCUITS
        .into_iter()
        .map(|to| {
            let fact = Fact::Transition { key: "a", from: Circuit::Closed, to, cause: "test", rest: None };
            of(&series(&Metrics::default(), &[fact]), "watertight_circuit")[0].1.to_bits()
        })
        .collect();
    levels.sort_unstable();
    levels.dedup();
    assert_eq!(levels.len(), CIRCUITS.len());
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
