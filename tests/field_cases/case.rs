//! The format of a case. A key that is not known fails the case.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use watertight::testing::Step;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub id: String,
    pub class: String,
    pub protocol: String,
    pub title: String,
    #[serde(rename = "source")]
    _source: Value,
    #[serde(default, rename = "notes")]
    _notes: Value,
    #[serde(default)]
    pub config: Config,
    #[serde(default)]
    pub steps: Vec<Step>,
    #[serde(default)]
    pub request: Value,
    #[serde(default)]
    pub calls: Vec<Call>,
    pub table: Option<Table>,
    pub via: Option<String>,
    pub expect: Expect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub providers: Vec<String>,
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub max_retry_after_ms: u64,
    pub deadline_ms: u64,
    #[serde(deserialize_with = "present")]
    pub ttfb_ms: Option<u64>,
    #[serde(deserialize_with = "present")]
    pub idle_ms: Option<u64>,
    pub keepalive: String,
    pub breaker: Option<Value>,
    pub bulkhead: Option<Value>,
    pub limiter: Option<Value>,
    pub cooldown_ms: Option<u64>,
    pub now: Option<String>,
    pub targets: BTreeMap<String, Target>,
    pub fallbacks: BTreeMap<String, Vec<String>>,
    pub per_call: PerCall,
    pub consumer: Option<Consumer>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Backoff {
    pub base_ms: u64,
    pub cap_ms: u64,
    pub jitter: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    pub model: Option<String>,
    pub key: Option<String>,
    pub protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PerCall {
    pub failover: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consumer {
    pub pause_after_items: usize,
    pub pause_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    #[serde(default)]
    pub at_ms: u64,
    #[serde(default = "one")]
    pub repeat: usize,
    pub cancel_after_ms: Option<u64>,
    #[serde(default)]
    pub drop_unpolled: bool,
    pub request: Option<Value>,
    #[serde(default)]
    pub expect: Expect,
    #[serde(default, rename = "notes")]
    _notes: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    pub attempts: Option<usize>,
    pub attempts_by: BTreeMap<String, usize>,
    pub attempts_max: Option<usize>,
    pub outcome: Option<String>,
    pub outcomes: BTreeMap<String, usize>,
    pub error_class: Option<String>,
    pub error_class_any: Vec<String>,
    pub text: Option<String>,
    pub tool_calls: Option<Vec<ToolCall>>,
    pub finish: Option<String>,
    pub usage: Option<Usage>,
    pub wait_min_ms: Option<u64>,
    pub wait_max_ms: Option<u64>,
    pub distinct_waits_min: Option<usize>,
    pub elapsed_min_ms: Option<u64>,
    pub elapsed_max_ms: Option<u64>,
    pub start_delay_min_ms: Option<u64>,
    pub start_delay_max_ms: Option<u64>,
    pub retry_after_ms: Option<u64>,
    pub message_contains: Option<String>,
    pub upstream_sees: BTreeMap<String, Sees>,
    pub client: Option<Value>,
    #[serde(rename = "notes")]
    _notes: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    #[serde(rename = "index")]
    _index: Option<u32>,
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub total_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sees {
    pub model: Option<String>,
    pub authorization: Option<String>,
    pub not_headers: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub kind: String,
    pub now: Option<String>,
    pub rows: Vec<Value>,
}

// === impl Table ===

impl Table {
    /// The configurations of a `config` table.
    pub fn configs(&self) -> Vec<Config> {
        let config = |row: &Value| serde_json::from_value(row.get("config")?.clone()).ok();
        self.rows.iter().filter_map(config).collect()
    }
}

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
