//! Field cases: public reports of what goes wrong when people call models, retold as scripts.
//!
//! `cargo test --test field_cases` plays them in-process on a paused clock. `FIELD_CASES=FILE` reads another file,
//! `FIELD_TRANSPORT=loopback` plays them over real sockets, in real time. A line is printed for each case that
//! failed or was skipped; the last line counts.
//!
//! In one case our copy says more than the report as it is told elsewhere: F144 pauses for 600 ms, which the usual
//! clock of 500 ms between outputs ends, so that no stream could complete as it expects; the copy sets that clock to a
//! second.

#![allow(clippy::print_stdout, reason = "a test runner of its own")]

mod case;
mod expect;
mod run;
mod tables;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use case::Case;

/// What came of a case.
enum Verdict {
    Passed,
    Failed(Vec<String>),
    Skipped(&'static str),
}

fn main() -> ExitCode {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/field-cases.jsonl");
    let path = std::env::var("FIELD_CASES").unwrap_or_else(|_| own.to_owned());
    let loopback = std::env::var("FIELD_TRANSPORT").is_ok_and(|name| name == "loopback");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    // Arguments that the test runner passes on are names to filter by; options of the usual harness mean nothing here.
    let filters: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();

    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (name, verdict) = match serde_json::from_str::<Case>(line) {
            Ok(case) => (format!("{} {}: {}", case.id, case.class, case.title), judge(&case, loopback)),
            Err(error) => (format!("line {}", at + 1), Verdict::Failed(vec![error.to_string()])),
        };
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        match verdict {
            Verdict::Passed => passed += 1,
            Verdict::Skipped(why) => {
                skipped += 1;
                println!("skipped {name}: {why}");
            }
            Verdict::Failed(complaints) => {
                failed += 1;
                println!("FAILED {name}");
                for complaint in complaints {
                    println!("    {complaint}");
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn judge(case: &Case, loopback: bool) -> Verdict {
    if let Some(why) = needs(case) {
        return Verdict::Skipped(why);
    }
    let complaints = catch_unwind(AssertUnwindSafe(|| match &case.table {
        Some(table) => tables::check(table),
        None => run::check(case, loopback),
    }));
    match complaints {
        Ok(complaints) if complaints.is_empty() => Verdict::Passed,
        Ok(complaints) => Verdict::Failed(complaints),
        Err(_) => Verdict::Failed(vec!["panicked".into()]),
    }
}

/// What a case needs that does not exist yet.
fn needs(case: &Case) -> Option<&'static str> {
    (case.via.as_deref() == Some("gateway")).then_some("needs the gateway")
}
