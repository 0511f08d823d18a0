//! Cases that are tables of pure functions.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tower::Layer;
use watertight::chat::{Ask, Protocol, Request};
use watertight::failure::{Breaker, parse_retry_after};
use watertight::layers::FailoverLayer;
use watertight::layers::retry::{Backoff, Jitter, RetryLayer};
use watertight::protocol::{self, errors, limits};

use crate::case::{Config, Table};
use crate::expect::word;
use crate::run;

pub(crate) fn check(table: &Table) -> Vec<String> {
    let unix = run::wall(table.now.as_deref()).unix();
    let row = |row: &Value| match table.kind.as_str() {
        "retry_after" => waits(row, parse_retry_after(text(row, "in"), unix)),
        "ratelimit_reset" => waits(row, limits::parse_reset(text(row, "in"), unix)),
        "backoff_no_jitter" => backoff(row),
        "classify" => classify(row, unix),
        "reserve_output" => reserve_output(row),
        "estimate" => estimate(row),
        "config" => config(row),
        other => Err(format!("no table is of the kind {other}")),
    };
    table.rows.iter().filter_map(|this| row(this).err().map(|why| format!("{this}: {why}"))).collect()
}

fn waits(row: &Value, came: Option<Duration>) -> Result<(), String> {
    let came =
        came.map_or(Value::Null, |wait| Value::from(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)));
    let fits = match row.get("out_ms_any") {
        Some(any) => any.as_array().is_some_and(|any| any.contains(&came)),
        None => row.get("out_ms") == Some(&came),
    };
    if fits { Ok(()) } else { Err(format!("came {came}")) }
}

fn backoff(row: &Value) -> Result<(), String> {
    let ms = |name: &str| Duration::from_millis(row[name].as_u64().unwrap_or(0));
    let backoff = Backoff { base: ms("base_ms"), cap: ms("cap_ms"), jitter: Jitter::None };
    let attempt = u32::try_from(row["attempt"].as_u64().unwrap_or(0)).unwrap_or(u32::MAX);
    let came = backoff.plain(attempt);
    if came == ms("out_ms") { Ok(()) } else { Err(format!("came {came:?}")) }
}

fn classify(row: &Value, unix: Duration) -> Result<(), String> {
    let status = u16::try_from(row["status"].as_u64().unwrap_or(0)).map_err(|error| error.to_string())?;
    let status = StatusCode::from_u16(status).map_err(|error| error.to_string())?;
    let body = match &row["body"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let failure = errors::classify(status, &HeaderMap::new(), body.as_bytes(), unix);
    let judgement = failure.judgement();
    let counts = matches!(judgement.breaker, Breaker::Failure | Breaker::Semantic);
    let fits = row["error_class"].as_str() == Some(word(failure.code()))
        && row.get("retry").is_none_or(|retry| retry.as_bool() == Some(judgement.retry))
        && row.get("counts_for_breaker").is_none_or(|counted| counted.as_bool() == Some(counts));
    if fits { Ok(()) } else { Err(format!("came {failure:?}, {judgement:?}")) }
}

/// A request of a table, in the protocol of its shape; `{{A*3}}` in its texts is the word repeated.
fn request(row: &Value) -> Result<Request, String> {
    let mut request = row["request"].clone();
    expand(&mut request);
    let is_picture = |part: &Value| part.get("source").is_some();
    let parts =
        request["messages"].as_array().into_iter().flatten().filter_map(|turn| turn["content"].as_array());
    let spoken = if request.get("input").is_some() {
        Protocol::OpenaiResponses
    } else if parts.flatten().any(is_picture) {
        Protocol::AnthropicMessages
    } else {
        Protocol::OpenaiChat
    };
    protocol::read(spoken, request.to_string().as_bytes()).map_err(|failure| failure.to_string())
}

fn expand(value: &mut Value) {
    match value {
        Value::String(text) => {
            while let Some((before, rest)) = text.split_once("{{") {
                let Some((inside, after)) = rest.split_once("}}") else { break };
                let Some((word, times)) = inside.rsplit_once('*') else { break };
                let Ok(times) = times.parse::<usize>() else { break };
                *text = format!("{before}{}{after}", word.repeat(times));
            }
        }
        Value::Array(values) => values.iter_mut().for_each(expand),
        Value::Object(fields) => fields.values_mut().for_each(expand),
        _ => {}
    }
}

fn estimate(row: &Value) -> Result<(), String> {
    let came = request(row)?.cost().input;
    let fits = row["min"].as_u64().is_some_and(|min| came >= min)
        && row["max"].as_u64().is_some_and(|max| came <= max);
    if fits { Ok(()) } else { Err(format!("came {came}")) }
}

fn reserve_output(row: &Value) -> Result<(), String> {
    let came = request(row)?.cost().output;
    if came == row["out"].as_u64() { Ok(()) } else { Err(format!("came {came:?}")) }
}

fn config(row: &Value) -> Result<(), String> {
    let config: Config = serde_json::from_value(row["config"].clone()).map_err(|error| error.to_string())?;
    let built = run::retry(&config).and_then(|retry| {
        let none = retry.retries == 0;
        RetryLayer::new(retry)?;
        run::clocks(&config)?;
        run::breaker(&config)?;
        run::limiter(&config)?;
        run::bulkhead(&config).validate()?;
        chain(&config)?;
        Ok(none)
    });
    let came = match built {
        Err(_) => "build_error",
        Ok(true) => "ok_no_retry",
        Ok(false) if config.ttfb_ms.is_none() || config.idle_ms.is_none() => "ok_off",
        Ok(false) => "ok",
    };
    if row["out"].as_str() == Some(came) { Ok(()) } else { Err(format!("came {came}")) }
}

/// The first provider and its fallbacks, as one list of candidates; each must be a provider.
fn chain(config: &Config) -> Result<(), watertight::failure::ConfigError> {
    for (name, fallbacks) in &config.fallbacks {
        let names: Vec<&str> = std::iter::once(name).chain(fallbacks).map(String::as_str).collect();
        if let Some(unknown) = names.iter().find(|name| !config.providers.iter().any(|known| known == *name))
        {
            return Err(watertight::failure::ConfigError::new(
                "fallbacks",
                format!("names no provider: {unknown}"),
            ));
        }
        let layer = FailoverLayer::new(vec![(); fallbacks.len()]).named(names)?;
        let _ = layer.config(run::failover_config(config))?.layer(());
    }
    let names = config.providers.iter().map(String::as_str);
    FailoverLayer::new(vec![(); config.providers.len().saturating_sub(1)]).named(names).map(drop)
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}
