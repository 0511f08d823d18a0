//! The configuration of a stack, as files write it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use watertight::chat::{BoxReply, Request};
use watertight::config::StackConfig;
use watertight::event::Facts;
use watertight::failure::{Code, Failure};
use watertight::layers::bulkhead::BulkheadConfig;
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::degradation::CallableWhen;
use watertight::layers::rate_limit::RateLimitConfig;
use watertight::layers::reset::ResetConfig;
use watertight::layers::timeout::{Clocks, Crawl};
use watertight::stack::Layers;

const TOML: &str = r#"
[bulkhead]
key = "caller"
max_concurrent = false

[degradation.graceful]
support_contact = "help@ship.test"

[retry]
retries = 2
base = "500ms"
budget = false

[circuit_breaker]
failures = 3
ratio = false
ramp = false

[timeout]
first_output = "5s"
idle = false

[reset]
delay = "2s"

[failover]
dwell = false

[rate_limit]
tokens_per_minute = 90000

[providers.east.rate_limit]
profile = "anthropic"
"#;

const YAML: &str = "
bulkhead:
  key: caller
  max_concurrent: false
degradation:
  graceful:
    support_contact: help@ship.test
retry:
  retries: 2
  base: 500ms
  budget: false
circuit_breaker:
  failures: 3
  ratio: false
  ramp: false
timeout:
  first_output: 5s
  idle: false
reset:
  delay: 2s
failover:
  dwell: false
rate_limit:
  tokens_per_minute: 90000
providers:
  east:
    rate_limit:
      profile: anthropic
";

fn of_json(value: Value) -> Result<StackConfig, serde_json::Error> {
    serde_json::from_value(value)
}

/// Scenario: the file printed in README.
/// Expected: MUST be read, be valid, and say what it says there.
#[test]
fn the_printed_file_is_read() {
    let printed =
        include_str!("../README.md").split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let config: StackConfig = toml::from_str(printed).unwrap();
    config.validate().unwrap();
    let own = config.providers["openai"].rate_limit.as_ref().unwrap();
    assert_eq!(own.tokens_per_minute, Some(200_000));
    assert_eq!(config.bulkhead.budget.as_ref().unwrap().tokens, 200_000);
    assert_eq!(config.timeout.first_output, Some(Duration::from_secs(20)));
}

/// Scenario: one configuration in TOML, YAML and JSON.
/// Expected: MUST read alike; what is written MUST hold, what is not MUST be the default; `false` MUST be off.
#[test]
fn three_formats_read_alike() {
    let toml: StackConfig = toml::from_str(TOML).unwrap();
    let yaml: StackConfig = serde_norway::from_str(YAML).unwrap();
    let json: StackConfig = of_json(toml::from_str(TOML).unwrap()).unwrap();
    assert_eq!(toml, yaml);
    assert_eq!(toml, json);
    toml.validate().unwrap();
    assert_eq!((toml.retry.retries, toml.retry.base), (2, Duration::from_millis(500)));
    assert_eq!(toml.retry.cap, StackConfig::default().retry.cap);
    assert!(toml.retry.budget.is_none() && toml.circuit_breaker.ratio.is_none());
    assert!(toml.circuit_breaker.ramp.is_none() && toml.timeout.idle.is_none());
    assert!(toml.failover.dwell.is_none() && toml.bulkhead.max_concurrent.is_none());
    assert_eq!(toml.timeout.first_output, Some(Duration::from_secs(5)));
    let reset = toml.reset.unwrap();
    assert_eq!((reset.delay, reset.resets), (Duration::from_secs(2), ResetConfig::default().resets));
    assert_eq!(StackConfig::default().bulkhead, BulkheadConfig::users());
}

/// Scenario: sections that say one thing only: of the bulkhead, of its budget, and of one provider where all have another.
/// Expected: the rest MUST be that of the preset for users, and what all providers have.
#[test]
fn what_is_left_out_is_filled_in() {
    let config = of_json(json!({
        "bulkhead": {"budget": {"tokens": 100}},
        "retry": {"base": "3s", "jitter": {"proportional": 0.1}},
        "rate_limit": {"max_concurrency": 5},
        "providers": {
            "north": {"retry": {"retries": 1}, "rate_limit": {"requests_per_minute": 7}},
            "south": {"timeout": {"idle": false}}
        }
    }))
    .unwrap();
    let users = BulkheadConfig::users();
    assert_eq!((config.bulkhead.key, config.bulkhead.max_concurrent), (users.key, users.max_concurrent));
    let budget = config.bulkhead.budget.unwrap();
    assert_eq!((budget.tokens, budget.window), (100, users.budget.unwrap().window));
    let north = config.provider("north");
    let retry = north.retry.unwrap();
    assert_eq!((retry.retries, retry.base), (1, Duration::from_secs(3)));
    assert_eq!(retry.jitter, config.retry.jitter);
    let limits = north.rate_limit.unwrap();
    assert_eq!((limits.requests_per_minute, limits.max_concurrency), (Some(7), Some(5)));
    let south = config.provider("south");
    assert_eq!(south.retry.unwrap(), config.retry);
    assert_eq!((south.timeout.unwrap().idle, config.timeout.idle), (None, Some(Duration::from_secs(30))));
}

/// Scenario: the section of what is off by default: left out, `false`, empty, written out, and `true`.
/// Expected: the first two MUST be off; empty it MUST be on with the defaults; `true` MUST be refused, since it says
/// nothing.
#[test]
fn what_is_off_by_default_is_on_by_its_section() {
    let reset = |value: Value| of_json(value).map(|config| config.reset);
    assert_eq!(reset(json!({})).unwrap(), None);
    assert_eq!(reset(json!({"reset": false})).unwrap(), None);
    assert_eq!(reset(json!({"reset": {}})).unwrap(), Some(ResetConfig::default()));
    let twice = ResetConfig { resets: 2, ..ResetConfig::default() };
    assert_eq!(reset(json!({"reset": {"resets": 2}})).unwrap(), Some(twice));
    assert!(reset(json!({"reset": true})).unwrap_err().to_string().contains("`true` says nothing"));
}

/// What all providers have in the sections whose values may be off, and what one provider says of the same.
fn switched(value: &Value) -> Value {
    json!({
        "bulkhead": {"max_concurrent": value, "budget": value},
        "circuit_breaker": {
            "failures": 4, "ratio": 0.4, "ramp": "9s", "token_trip": 7_000, "waste_budget": 9_000, "anomaly": 4,
            "slow": {"first_output": "5s", "ratio": 0.5}
        },
        "timeout": {
            "first_output": "9s", "idle": "9s", "silence": "9s", "total": "9s", "total_stream": "9s",
            "crawl": {"tokens_per_second": 3}
        },
        "rate_limit": {
            "requests_per_minute": 7, "tokens_per_minute": 7, "input_tokens_per_minute": 7, "requests_per_day": 7,
            "output_tokens_per_minute": 7, "tokens_per_day": 7, "max_concurrency": 7, "burst": 0.5,
            "initial_fill": 0.5, "reserve_output": "learned", "headroom": 0.5, "adaptive": {}
        },
        "providers": {"east": {
            "circuit_breaker": {
                "failures": value, "ratio": value, "ramp": value, "token_trip": value, "waste_budget": value,
                "anomaly": value, "slow": value
            },
            "timeout": {
                "first_output": value, "idle": value, "silence": value, "total": value, "total_stream": value,
                "crawl": value
            },
            "rate_limit": {
                "requests_per_minute": value, "tokens_per_minute": value, "input_tokens_per_minute": value,
                "output_tokens_per_minute": value, "requests_per_day": value, "tokens_per_day": value,
                "max_concurrency": value, "burst": value, "initial_fill": value, "reserve_output": value,
                "headroom": value, "adaptive": value
            }
        }}
    })
}

/// Scenario: every rule and clock that may be off is on for all, and one provider says `false` in TOML, and `false` or
/// nothing at all in YAML and JSON.
/// Expected: MUST read alike: all of it off there, and on elsewhere.
#[test]
fn one_provider_switches_off_what_all_have() {
    let off = of_json(switched(&json!(false))).unwrap();
    off.validate().unwrap();
    let toml = toml::to_string(&switched(&json!(false))).unwrap();
    assert_eq!(toml::from_str::<StackConfig>(&toml).unwrap(), off, "{toml}");
    for value in [json!(false), Value::Null] {
        let written = switched(&value);
        let yaml = serde_norway::to_string(&written).unwrap();
        assert_eq!(serde_norway::from_str::<StackConfig>(&yaml).unwrap(), off, "{yaml}");
        assert_eq!(of_json(written).unwrap(), off);
    }
    let all = off.provider("west").circuit_breaker.unwrap();
    assert!(all.failures == Some(4) && all.ratio == Some(0.4) && all.ramp.is_some() && all.slow.is_some());
    assert_eq!((all.token_trip, all.waste_budget, all.anomaly), (Some(7_000), Some(9_000), Some(4.0)));
    let all = off.provider("west").timeout.unwrap();
    assert!(all.crawl.is_some_and(|crawl| crawl.window == Crawl::default().window));
    let east = off.provider("east").circuit_breaker.unwrap();
    assert_eq!(
        CircuitBreakerConfig { failures: None, ratio: None, ramp: None, ..CircuitBreakerConfig::default() },
        east
    );
    assert_eq!(off.provider("east").timeout.unwrap(), Clocks::off());
    assert_eq!(off.provider("east").rate_limit.unwrap(), RateLimitConfig::default());
    let all = off.provider("west").rate_limit.unwrap();
    assert!(all.tokens_per_day == Some(7) && all.adaptive.is_some() && all.reserve_output.is_some());
    assert!(off.bulkhead.max_concurrent.is_none() && off.bulkhead.budget.is_none());
}

/// Scenario: the share of a bulkhead's budget at which it warns, switched off in each format.
/// Expected: MUST read alike, and leave the budget as it is.
#[test]
fn a_warning_is_switched_off_in_every_format() {
    let [toml, yaml, json] = [
        toml::from_str::<StackConfig>("bulkhead.budget.warn_at = false").unwrap(),
        serde_norway::from_str("bulkhead: {budget: {warn_at: null}}").unwrap(),
        of_json(json!({"bulkhead": {"budget": {"warn_at": null}}})).unwrap(),
    ];
    assert!(toml == yaml && toml == json);
    let budget = toml.bulkhead.budget.unwrap();
    assert_eq!((budget.warn_at, budget.tokens), (None, BulkheadConfig::users().budget.unwrap().tokens));
}

/// Scenario: a ladder whose file names other models and tools that it can do without, and no service to ask.
/// Expected: MUST be refused by name, and be taken once there is a service, or a word on when the tool can be called.
#[test]
fn rungs_that_need_a_service_are_asked_for_it() {
    let provider =
        || tower::service_fn(|_: Request| async { Err::<BoxReply, _>(Failure::local(Code::Cancelled, "")) });
    for (value, path) in [
        (json!({"degradation": {"fallback_models": ["small"]}}), "degradation.fallback_models"),
        (json!({"degradation": {"optional_tools": ["search"]}}), "degradation.optional_tools"),
    ] {
        let layers = || Layers::new(of_json(value.clone()).unwrap(), &Facts::default()).unwrap();
        let error = layers().over([("a", provider())]).map(|_| ()).unwrap_err();
        assert_eq!(error.field, path);
        assert!(error.reason.contains("Layers::"), "{error}");
        let (models, tools) = (layers().fallback_model(provider()), layers().skip_tool(provider()));
        let (named, other) = if path.ends_with("models") { (models, tools) } else { (tools, models) };
        named.unwrap().over([("a", provider())]).unwrap();
        assert!(other.unwrap_err().field.starts_with("degradation."));
    }
    let optional = of_json(json!({"degradation": {"optional_tools": ["search"]}})).unwrap();
    let layers = || Layers::new(optional.clone(), &Facts::default()).unwrap();
    layers().tool_callable("search", CallableWhen::new(|| false)).unwrap().over([("a", provider())]).unwrap();
    let unknown = layers().tool_callable("other", CallableWhen::new(|| false)).unwrap_err();
    assert_eq!(unknown.field, "degradation.optional_tools");
}

/// Scenario: the defaults, and what is off, written in each format and read again.
/// Expected: MUST come out as they went in.
#[test]
fn what_is_written_reads_as_it_was() {
    let off: StackConfig = toml::from_str(TOML).unwrap();
    for config in [StackConfig::default(), off] {
        let toml = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<StackConfig>(&toml).unwrap(), config, "{toml}");
        let yaml = serde_norway::to_string(&config).unwrap();
        assert_eq!(serde_norway::from_str::<StackConfig>(&yaml).unwrap(), config, "{yaml}");
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<StackConfig>(&json).unwrap(), config, "{json}");
    }
}

/// Scenario: fields and sections that do not exist, at every depth, and values of the wrong kind.
/// Expected: MUST be refused, naming what it is that is not known.
#[test]
fn what_is_unknown_is_refused_by_name() {
    for (value, named) in [
        (json!({"retries": {}}), "retries"),
        (json!({"retry": {"retrys": 1}}), "retrys"),
        (json!({"retry": {"budget": {"ration": 0.1}}}), "ration"),
        (json!({"retry": {"only": ["SERVERS"]}}), "SERVERS"),
        (json!({"circuit_breaker": {"slow": {"first": "1s"}}}), "first"),
        (json!({"bulkhead": {"key": "user"}}), "user"),
        (json!({"bulkhead": {"budget": {"token": 1}}}), "token"),
        (json!({"degradation": {"graceful": {"contact": "x"}}}), "contact"),
        (json!({"providers": {"east": {"bulkhead": {}}}}), "bulkhead"),
        (json!({"reset": {"reset": 1}}), "reset"),
        (json!({"providers": {"east": {"reset": {}}}}), "reset"),
        (json!({"timeout": {"idle": true}}), "true"),
        (json!({"timeout": {"idle": "soon"}}), "soon"),
    ] {
        let error = of_json(value.clone()).unwrap_err().to_string();
        assert!(error.contains(named), "{value}: {error}");
    }
}

/// Scenario: zeros, ratios that are none, and other values that cannot work, in each section.
/// Expected: MUST be refused at build with the path of the field.
#[test]
fn what_cannot_work_is_refused_by_its_path() {
    for (value, path) in [
        (json!({"retry": {"base": "0s"}}), "retry.base"),
        (json!({"retry": {"budget": {"ratio": 1.5}}}), "retry.budget.ratio"),
        (json!({"circuit_breaker": {"probes": 0}}), "circuit_breaker.probes"),
        (json!({"circuit_breaker": {"failures": 0}}), "circuit_breaker.failures"),
        (json!({"circuit_breaker": {"rest": "0s"}}), "circuit_breaker.rest"),
        (json!({"bulkhead": {"max_concurrent": 0}}), "bulkhead.max_concurrent"),
        (json!({"bulkhead": {"budget": {"tokens": 0}}}), "bulkhead.budget.tokens"),
        (json!({"rate_limit": {"tokens_per_minute": 0}}), "rate_limit.tokens_per_minute"),
        (json!({"rate_limit": {"max_concurrency": 0}}), "rate_limit.max_concurrency"),
        (json!({"rate_limit": {"acquire_timeout": "0s"}}), "rate_limit.acquire_timeout"),
        (json!({"timeout": {"idle": "0s"}}), "timeout.idle"),
        (json!({"reset": {"delay": "0s"}}), "reset.delay"),
        (json!({"failover": {"move_off_after": 0}}), "failover.move_off_after"),
        (json!({"degradation": {"max_depth": 0}}), "degradation.max_depth"),
        (json!({"degradation": {"fallback_models": ["a", "a"]}}), "degradation.fallback_models"),
        (json!({"providers": {"east": {"retry": {"cap": "0s"}}}}), "providers.east.retry.cap"),
    ] {
        let config = of_json(value.clone()).unwrap();
        let error = Layers::new(config, &Facts::default()).unwrap_err();
        assert_eq!(error.field, path, "{value}: {error}");
    }
}

/// Scenario: JSON in which a provider, or the words for a failure, stand twice, which a reader of JSON takes; and JSON
/// that is nested without end.
/// Expected: MUST be refused, naming what stands there twice, and never overflow the stack.
#[test]
fn what_stands_there_twice_is_refused_by_name() {
    let twice = |json: &str| serde_json::from_str::<StackConfig>(json).unwrap_err().to_string();
    let east = r#"{"providers": {"east": {"rate_limit": {"max_concurrency": 1}}, "west": {}, "east": {}}}"#;
    assert!(twice(east).contains("`east` stands there twice"), "{}", twice(east));
    let words = r#"{"degradation": {"graceful": {"words": {"SERVER": "a", "SERVER": "b"}}}}"#;
    assert!(twice(words).contains("`SERVER` stands there twice"), "{}", twice(words));
    assert!(twice(r#"{"retry": {}, "retry": {}}"#).contains("duplicate field"));
    for open in [r#"{"providers":"#, r#"{"bulkhead":{"budget":"#, "["] {
        assert!(serde_json::from_str::<StackConfig>(&open.repeat(100_000)).is_err());
    }
    assert!(toml::from_str::<StackConfig>(&format!("providers = {}", "{a=".repeat(100_000))).is_err());
}

/// Any value a file may hold.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(u64::MAX)),
        Just(json!(0)),
        Just(json!(1)),
        Just(json!(f64::MAX)),
        Just(json!(-0.0)),
        Just(json!(0.5)),
        Just(json!("")),
        Just(json!("0s")),
        Just(json!("584542000000y")),
        Just(json!("1ns")),
        Just(json!("openai")),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{0,3}", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

/// Puts a value at some place of a tree: the nth of all places there are.
fn put(tree: &mut Value, at: &mut usize, value: &Value) {
    if *at == 0 {
        *tree = value.clone();
    }
    *at = at.wrapping_sub(1);
    match tree {
        Value::Object(map) => map.values_mut().for_each(|tree| put(tree, at, value)),
        Value::Array(list) => list.iter_mut().for_each(|tree| put(tree, at, value)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: a whole configuration in which one place, and then another, holds anything.
    /// Expected: it MUST be read or refused; what is read and found valid MUST build a stack whose snapshot serialises, and
    /// MUST be the same when it is written and read again.
    #[test]
    fn whatever_a_file_holds_is_read_or_refused(
        (first, at) in (anything(), 0_usize..150),
        (second, then) in (anything(), 0_usize..150),
    ) {
        let mut config = StackConfig { reset: Some(ResetConfig::default()), ..StackConfig::default() };
        config.providers.insert("first".into(), config.provider("first"));
        let mut tree = serde_json::to_value(&config).unwrap();
        for (value, mut at) in [(first, at), (second, then)] {
            put(&mut tree, &mut at, &value);
        }
        let read = serde_json::from_value::<StackConfig>(tree).ok();
        let Some(config) = read.filter(|config| config.validate().is_ok()) else { return Ok(()) };
        let again: StackConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        prop_assert_eq!(&again, &config);
        let service = tower::service_fn(|_: Request| async {
            Err::<BoxReply, _>(Failure::new(
                Code::Server,
                "no",
            ))
        });
        let built = Layers::new(config, &Facts::default())
            .and_then(|layers| layers.over([("first", service)]));
        if let Ok(stack) = built {
            prop_assert!(serde_json::to_string(&stack.snapshot()).is_ok());
        }
    }
}

/// Scenario: a configuration in which something is off that is on by default, written by a twin that leaves out what is off.
/// Expected: it MUST be told apart from one that is the same when it is read again.
#[test]
fn a_writer_that_leaves_out_what_is_off_is_told_apart() {
    let mut config = StackConfig::default();
    config.degradation.graceful = None;
    let mut tree = serde_json::to_value(&config).unwrap();
    assert_eq!(serde_json::from_value::<StackConfig>(tree.clone()).unwrap(), config);
    tree["degradation"].as_object_mut().unwrap().retain(|_, value| *value != Value::Bool(false));
    assert_ne!(serde_json::from_value::<StackConfig>(tree).unwrap(), config);
}
