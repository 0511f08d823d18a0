//! What a case expects, held against what came.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use serde_json::Value;
use watertight::chat::{Completion, ToolCall};
use watertight::failure::{Clock, Code};
use watertight::testing::Journal;

use crate::case::{Call, Case, Expect, Sees};
use crate::run::Seen;

/// What does not fit.
#[derive(Default)]
struct Complaints(Vec<String>);

pub(crate) fn check(case: &Case, seen: &[(Call, Seen)], journal: &Journal) -> Vec<String> {
    let mut complaints = Complaints::default();
    for (at, (call, seen)) in seen.iter().enumerate() {
        check_call(&format!("call {at}"), &call.expect, seen, &mut complaints);
    }
    let expect = &case.expect;
    complaints.equal("attempts", expect.attempts, journal.attempts());
    if expect.attempts_max.is_some_and(|most| journal.attempts() > most) {
        complaints.say("attempts_max", expect.attempts_max, journal.attempts());
    }
    for (provider, attempts) in &expect.attempts_by {
        complaints.equal(&format!("attempts of {provider}"), Some(*attempts), journal.attempts_of(provider));
    }
    if journal.over() > 0 {
        complaints.say("requests beyond the script", 0, journal.over());
    }
    check_outcomes(expect, seen, &mut complaints);
    let waits: BTreeSet<u128> =
        seen.iter().filter_map(|(_, seen)| wait(seen)).map(|wait| wait.as_millis()).collect();
    if expect.distinct_waits_min.is_some_and(|least| waits.len() < least) {
        complaints.say("distinct waits", expect.distinct_waits_min, waits.len());
    }
    for (provider, sees) in &expect.upstream_sees {
        check_upstream(provider, sees, journal, &mut complaints);
    }
    complaints.0
}

fn check_outcomes(expect: &Expect, seen: &[(Call, Seen)], complaints: &mut Complaints) {
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    // Where calls are repeated, it is those that are counted.
    let some = seen.iter().any(|(call, _)| call.repeat > 1);
    for (_, seen) in seen.iter().filter(|(call, _)| !some || call.repeat > 1) {
        let word = seen.failure.as_ref().map_or_else(|| outcome(seen), |failure| word(failure.code()));
        *outcomes.entry(word.to_owned()).or_default() += 1;
    }
    if !expect.outcomes.is_empty() && expect.outcomes != outcomes {
        complaints.say("outcomes", &expect.outcomes, &outcomes);
    }
    let last = seen.last().map(|(_, seen)| outcome(seen));
    let expected = expect.outcome.as_deref();
    if expected == Some("mixed") {
        if outcomes.len() < 2 {
            complaints.say("outcome", "mixed", &outcomes);
        }
    } else if expected.is_some() && last != expected {
        complaints.say("outcome", expected, last);
    }
}

fn check_call(name: &str, expect: &Expect, seen: &Seen, complaints: &mut Complaints) {
    let failure = seen.failure.as_ref();
    let class = failure.map(|failure| word(failure.code()));
    complaints.equal(&format!("{name}: attempts"), expect.attempts, seen.attempts.len());
    if expect.outcome.as_deref().is_some_and(|expected| expected != "mixed" && expected != outcome(seen)) {
        complaints.say(&format!("{name}: outcome"), &expect.outcome, (outcome(seen), failure));
    }
    if let Some(expected) = &expect.error_class
        && class != Some(expected.as_str())
    {
        complaints.say(&format!("{name}: error"), expected, failure);
    }
    if !expect.error_class_any.is_empty()
        && !expect.error_class_any.iter().any(|any| class == Some(any.as_str()))
    {
        complaints.say(&format!("{name}: error"), &expect.error_class_any, failure);
    }
    complaints.equal(&format!("{name}: text"), expect.text.clone(), seen.text.clone());
    if let Some(expected) = &expect.tool_calls {
        let expected: Vec<_> =
            expected.iter().map(|call| (call.id.clone(), call.name.clone(), json(&call.arguments))).collect();
        complaints.equal(&format!("{name}: tool calls"), Some(expected), tool_calls(seen));
    }
    let completion = seen.completion.as_ref();
    let finish = completion.map(|completion| completion.stop.as_str().to_owned());
    complaints.equal(&format!("{name}: finish"), expect.finish.clone().map(Some), finish);
    check_usage(name, expect, completion, complaints);
    check_times(name, expect, seen, complaints);
    let told = failure.and_then(|failure| failure.retry_after()).map(|wait| wait.as_millis());
    complaints.equal(
        &format!("{name}: retry_after"),
        expect.retry_after_ms.map(|ms| Some(u128::from(ms))),
        told,
    );
    if let Some(part) = &expect.message_contains
        && !failure.is_some_and(|failure| failure.to_string().contains(part.as_str()))
    {
        complaints.say(&format!("{name}: message"), part, failure);
    }
}

fn check_usage(name: &str, expect: &Expect, completion: Option<&Completion>, complaints: &mut Complaints) {
    let Some(expected) = &expect.usage else { return };
    let Some(usage) = completion.and_then(|completion| completion.usage) else {
        return complaints.say(&format!("{name}: usage"), expected, "none");
    };
    complaints.equal(&format!("{name}: input"), expected.prompt_tokens, usage.input);
    complaints.equal(&format!("{name}: output"), expected.completion_tokens, usage.output);
    complaints.equal(&format!("{name}: total"), expected.total_tokens, usage.total());
}

fn check_times(name: &str, expect: &Expect, seen: &Seen, complaints: &mut Complaints) {
    let start = seen.attempts.first().map(|(start, _)| *start);
    let bounds = [
        ("wait", wait(seen), expect.wait_min_ms, expect.wait_max_ms),
        ("elapsed", Some(seen.elapsed), expect.elapsed_min_ms, expect.elapsed_max_ms),
        ("start delay", start, expect.start_delay_min_ms, expect.start_delay_max_ms),
    ];
    for (what, came, least, most) in bounds {
        let least = least.map(Duration::from_millis);
        let most = most.map(Duration::from_millis);
        let fits = came.map_or_else(
            || least.is_none() && most.is_none(),
            |came| least.is_none_or(|least| came >= least) && most.is_none_or(|most| came <= most),
        );
        if !fits {
            complaints.say(&format!("{name}: {what}"), (least, most), came);
        }
    }
}

fn check_upstream(provider: &str, sees: &Sees, journal: &Journal, complaints: &mut Complaints) {
    for seen in journal.seen().iter().filter(|seen| seen.provider == provider) {
        let model = seen.json().and_then(|body| body.get("model")?.as_str().map(str::to_owned));
        complaints.equal(&format!("{provider} sees model"), sees.model.clone().map(Some), model);
        let key = seen.header("authorization").map(str::to_owned);
        complaints.equal(&format!("{provider} sees key"), sees.authorization.clone().map(Some), key);
        for value in seen.headers.values() {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            if sees.not_headers.contains(&text) {
                complaints.say(&format!("{provider} sees"), "no such header", text);
            }
        }
    }
}

fn outcome(seen: &Seen) -> &'static str {
    match seen {
        Seen { cancelled: true, .. } => "cancelled",
        Seen { failure: Some(_), .. } => "error",
        Seen { completion: Some(_), .. } => "ok",
        _ => "cancelled",
    }
}

/// From the end of the first attempt to the start of the second.
fn wait(seen: &Seen) -> Option<Duration> {
    let (_, end) = seen.attempts.first()?;
    let (start, _) = seen.attempts.get(1)?;
    Some(start.saturating_sub((*end)?))
}

fn tool_calls(seen: &Seen) -> Vec<(String, String, Value)> {
    let message = seen.completion.as_ref().map(|completion| &completion.message).or(seen.partial.as_ref());
    let told =
        |call: &ToolCall| (call.id.clone(), call.name.clone(), json(&Value::String(call.arguments.clone())));
    message.map(|message| message.tool_calls().map(told).collect()).unwrap_or_default()
}

/// Arguments as JSON, whether they stand as a string or as what they mean.
fn json(arguments: &Value) -> Value {
    match arguments {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| arguments.clone()),
        other => other.clone(),
    }
}

/// The word of the cases for a code.
pub(crate) fn word(code: Code) -> &'static str {
    match code {
        Code::RateLimited | Code::LimiterFull => "rate_limited",
        Code::QuotaExhausted => "quota_exhausted",
        Code::Overloaded => "overloaded",
        Code::Server => "server_error",
        Code::Timeout(Clock::FirstOutput) => "timeout_ttfb",
        Code::Timeout(Clock::Idle) => "timeout_idle",
        Code::Deadline | Code::Timeout(Clock::Total) => "deadline",
        Code::Connect | Code::Timeout(Clock::Connect) => "connect",
        Code::Transport => "transport",
        Code::InvalidResponse => "protocol",
        Code::Truncated => "truncated",
        Code::ContextLength => "context_length",
        Code::InvalidRequest => "invalid_request",
        Code::Authentication => "auth",
        Code::Permission => "permission",
        Code::Blocked => "blocked",
        Code::NotFound => "not_found",
        Code::PayloadTooLarge | Code::CostAboveCapacity => "too_large",
        Code::ContentFilter => "content_filter",
        Code::CircuitOpen => "breaker_open",
        Code::BulkheadFull => "bulkhead_full",
        Code::AllFailed => "all_failed",
        other => other.as_str(),
    }
}

// === impl Complaints ===

impl Complaints {
    fn say(&mut self, what: &str, expected: impl Debug, came: impl Debug) {
        self.0.push(format!("{what}: expected {expected:?}, came {came:?}"));
    }

    fn equal<T: PartialEq + Debug>(&mut self, what: &str, expected: Option<T>, came: T) {
        if let Some(expected) = expected
            && expected != came
        {
            self.say(what, expected, came);
        }
    }
}
