//! Facts, and where they go.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::chat::{CallId, Dimension, Level, Outcome, ResetReason, Usage};
use crate::failure::{Clock, Code, Failure};

use super::*;

/// One fact of each kind, and of some in two forms. Figures of one fact that could be taken for each other differ.
pub(super) fn each(failure: &Failure) -> Vec<Fact<'_>> {
    let call = CallId::default();
    let (a, b, wait) = ("east", "west", Duration::from_secs(1));
    let usage = Some(Usage { input: 50, output: 30, cached_read: 20, cached_write: 10, reasoning: 5 });
    vec![
        Fact::Attempt { call, provider: a, model: "m", attempt: 1 },
        Fact::Adapted { call, provider: a, option: "top_k", change: Change::Dropped },
        Fact::RetryPlanned {
            call,
            retry_id: 7,
            provider: Some(a),
            policy: "default",
            failure,
            delay: wait,
            attempt: 1,
            of: 3,
        },
        Fact::RetryStarted { call, retry_id: 7 },
        Fact::RetryRefused { call, failure, reason: RetryRefusal::Budget },
        Fact::TimedOut { call, clock: Clock::Idle, after: wait },
        Fact::Crawling { call, rate: 0.5 },
        Fact::Skipped { call, candidate: a, failure },
        Fact::FailedOver { call, from: a, to: b, failure },
        Fact::Moved { from: a, to: b, rest: wait },
        Fact::Trial { call, candidate: a },
        Fact::SprungBack { call, candidate: a },
        Fact::Reset { call, reason: ResetReason::Transport, failure, delay: wait },
        Fact::Admitted { call, gate: "bulkhead", key: a, waited: wait },
        Fact::Released { call, gate: "bulkhead", key: a, outcome: Outcome::Abandoned },
        Fact::Refused { call, gate: "bulkhead", key: a, failure },
        Fact::Transition { key: a, from: Circuit::Closed, to: Circuit::Open, cause: "x", rest: Some(wait) },
        Fact::Probe { call, key: a },
        Fact::CacheLost { key: a },
        Fact::Calibrated { key: a, dimension: Dimension::Tokens, limit: 9, remaining: 1 },
        Fact::Frozen { key: a, length: wait },
        Fact::Slowed { key: a, share: 0.5, length: wait },
        Fact::BudgetWarning { key: a, used: 8, limit: 9 },
        Fact::Rung { call, rung: "cached_answer", failure: Some(failure) },
        Fact::Rung { call, rung: "cached_answer", failure: None },
        Fact::Degraded { call, rung: "cached_answer", quality: 0.7, failure },
        Fact::Settled {
            call,
            provider: a,
            outcome: Outcome::Completed(usage),
            usage,
            first_output: Some(wait),
            elapsed: 2 * wait,
        },
        Fact::Ended { call, outcome: Outcome::Failed(Code::Server), level: Level::None },
        Fact::Ended { call, outcome: Outcome::Completed(None), level: Level::Fallback },
    ]
}

/// Scenario: each fact, shown to a person.
/// Expected: MUST be one line of words, and not the bare name.
#[test]
fn every_fact_shows_itself_in_words() {
    let failure = Failure::new(Code::Server, "broke");
    for fact in each(&failure) {
        let line = fact.to_string();
        assert!(!line.contains('\n') && line.contains(' ') && line != fact.name(), "{line}");
    }
}

/// Scenario: the names of all facts.
/// Expected: MUST stay what they are, and be all that the code knows.
#[test]
fn the_names_of_facts_are_stable() {
    const NAMES: &str = "attempt adapted retry_planned retry_started retry_refused timed_out crawling skipped \
        failed_over moved trial sprung_back reset admitted released refused transition probe cache_lost \
        calibrated frozen slowed budget_warning rung rung degraded settled ended ended";
    let failure = Failure::new(Code::Server, "");
    let names: Vec<_> = each(&failure).iter().map(Fact::name).collect();
    assert_eq!(names.join(" "), NAMES);
    let coded = include_str!("show.rs")
        .lines()
        .filter_map(|line| line.split_once(" { .. } => \"")?.1.strip_suffix("\","));
    assert_eq!(
        coded.collect::<BTreeSet<_>>(),
        names.into_iter().collect(),
        "a kind of fact is not among them"
    );
}

/// Scenario: facts told to a pair of sinks, one of them shared by a clone.
/// Expected: each part MUST be told, in turn.
#[test]
fn a_pair_of_sinks_is_told_in_turn() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let sink = |name: &'static str| {
        let log = Arc::clone(&log);
        move |fact: &Fact<'_>| log.lock().unwrap().push(format!("{name} {}", fact.name()))
    };
    let shared = Facts::to(sink("b"));
    let pair = Facts::to((sink("a"), shared.clone()));
    pair.emit(&Fact::Crawling { call: CallId::default(), rate: 1.0 });
    shared.emit(&Fact::Trial { call: CallId::default(), candidate: "east" });
    assert_eq!(*log.lock().unwrap(), ["a crawling", "b crawling", "b trial"]);
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Scenario: one fact of each kind, told to the default sink; the failure in them stands over a key.
/// Expected: MUST be one line each, under our own target, with the fact's name; failures at `warn`, the ordinary course
/// at `debug`; the key MUST be on none.
#[test]
fn the_default_sink_writes_a_line_for_each_fact() {
    let failure = Failure::new(Code::Server, "broke\nin two").with_source("sk-secret");
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(::tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let facts = each(&failure);
    ::tracing::subscriber::with_default(subscriber, || {
        facts.iter().for_each(|fact| Facts::default().emit(fact));
    });
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), facts.len(), "{text}");
    for (fact, line) in facts.iter().zip(text.lines()) {
        assert!(line.contains(&format!("watertight: {}", fact.name())), "{line}");
        assert!(!line.contains("sk-secret"), "{line}");
        let level = match fact {
            Fact::Attempt { .. }
            | Fact::RetryStarted { .. }
            | Fact::Admitted { .. }
            | Fact::Released { .. }
            | Fact::Settled { .. }
            | Fact::Ended { .. } => "DEBUG",
            Fact::Adapted { .. }
            | Fact::Skipped { .. }
            | Fact::Trial { .. }
            | Fact::SprungBack { .. }
            | Fact::Refused { .. }
            | Fact::Probe { .. }
            | Fact::Calibrated { .. }
            | Fact::Rung { .. } => "INFO",
            _ => "WARN",
        };
        assert!(line.contains(level), "{line}");
    }
}
