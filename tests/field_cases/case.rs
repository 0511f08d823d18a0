//! The format of a case. A key that is not known fails the case.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use watertight::testing::Step;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) class: String,
    pub(crate) protocol: String,
    pub(crate) title: String,
    #[serde(rename = "source")]
    _source: Value,
    #[serde(default, rename = "notes")]
    _notes: Value,
    #[serde(default)]
    pub(crate) config: Config,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
    #[serde(default)]
    pub(crate) request: Value,
    #[serde(default)]
    pub(crate) calls: Vec<Call>,
    pub(crate) table: Option<Table>,
    pub(crate) via: Option<String>,
    pub(crate) expect: Expect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) providers: Vec<String>,
    pub(crate) max_attempts: u32,
    pub(crate) backoff: Backoff,
    pub(crate) max_retry_after_ms: u64,
    pub(crate) deadline_ms: u64,
    #[serde(deserialize_with = "present")]
    pub(crate) ttfb_ms: Option<u64>,
    #[serde(deserialize_with = "present")]
    pub(crate) idle_ms: Option<u64>,
    pub(crate) keepalive: String,
    pub(crate) breaker: Option<Breaker>,
    pub(crate) bulkhead: Option<Bulkhead>,
    pub(crate) limiter: Option<Limiter>,
    pub(crate) cooldown_ms: Option<u64>,
    pub(crate) now: Option<String>,
    pub(crate) targets: BTreeMap<String, Target>,
    pub(crate) fallbacks: BTreeMap<String, Vec<String>>,
    pub(crate) per_call: PerCall,
    pub(crate) consumer: Option<Consumer>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Backoff {
    pub(crate) base_ms: u64,
    pub(crate) cap_ms: u64,
    pub(crate) jitter: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Breaker {
    pub(crate) min_calls: u32,
    pub(crate) failure_ratio: f64,
    pub(crate) open_ms: u64,
    pub(crate) half_open_max: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bulkhead {
    pub(crate) max_concurrent: u32,
    #[serde(default)]
    pub(crate) mode: Mode,
    pub(crate) max_queue: Option<u32>,
}

/// What becomes of a call that finds no slot.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    #[default]
    Wait,
    Reject,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Target {
    pub(crate) model: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PerCall {
    pub(crate) failover: Option<bool>,
}

/// The rate limiter of a case: a minute's tokens as rate and bucket, or what headers tell.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limiter {
    pub(crate) tokens_per_minute: Option<u32>,
    pub(crate) initial_fill: Option<u32>,
    #[serde(default)]
    pub(crate) mode: Mode,
    pub(crate) from_headers: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Consumer {
    pub(crate) pause_after_items: usize,
    pub(crate) pause_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    #[serde(default)]
    pub(crate) at_ms: u64,
    #[serde(default = "one")]
    pub(crate) repeat: usize,
    pub(crate) cancel_after_ms: Option<u64>,
    #[serde(default)]
    pub(crate) drop_unpolled: bool,
    pub(crate) request: Option<Value>,
    #[serde(default)]
    pub(crate) expect: Expect,
    #[serde(default, rename = "notes")]
    _notes: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    pub(crate) attempts: Option<usize>,
    pub(crate) attempts_by: BTreeMap<String, usize>,
    pub(crate) attempts_max: Option<usize>,
    pub(crate) outcome: Option<String>,
    pub(crate) outcomes: BTreeMap<String, usize>,
    pub(crate) error_class: Option<String>,
    pub(crate) error_class_any: Vec<String>,
    pub(crate) text: Option<String>,
    pub(crate) tool_calls: Option<Vec<ToolCall>>,
    pub(crate) finish: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) wait_min_ms: Option<u64>,
    pub(crate) wait_max_ms: Option<u64>,
    pub(crate) distinct_waits_min: Option<usize>,
    pub(crate) elapsed_min_ms: Option<u64>,
    pub(crate) elapsed_max_ms: Option<u64>,
    pub(crate) start_delay_min_ms: Option<u64>,
    pub(crate) start_delay_max_ms: Option<u64>,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) message_contains: Option<String>,
    pub(crate) upstream_sees: BTreeMap<String, Sees>,
    pub(crate) client: Option<Value>,
    #[serde(rename = "notes")]
    _notes: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolCall {
    #[serde(rename = "index")]
    _index: Option<u32>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) completion_tokens: Option<u64>,
    pub(crate) total_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Sees {
    pub(crate) model: Option<String>,
    pub(crate) authorization: Option<String>,
    pub(crate) not_headers: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) kind: String,
    pub(crate) now: Option<String>,
    pub(crate) rows: Vec<Value>,
}

// === impl Config ===

impl Default for Config {
    /// The settings of the cases, which are not the product's.
    fn default() -> Self {
        Self {
            providers: vec!["primary".into()],
            max_attempts: 3,
            backoff: Backoff::default(),
            max_retry_after_ms: 5000,
            deadline_ms: 20_000,
            ttfb_ms: Some(1000),
            idle_ms: Some(500),
            keepalive: "ignore".into(),
            breaker: None,
            bulkhead: None,
            limiter: None,
            cooldown_ms: None,
            now: None,
            targets: BTreeMap::new(),
            fallbacks: BTreeMap::new(),
            per_call: PerCall::default(),
            consumer: None,
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base_ms: 20, cap_ms: 200, jitter: "full".into() }
    }
}

fn one() -> usize {
    1
}

/// A field that is there, be it null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(deserializer)
}
