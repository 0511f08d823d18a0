//! What the ladder is told.

use std::time::Duration;

use crate::failure::{Code, ConfigError};

use super::config::{DegradationConfig, GracefulConfig, QualityConfig};
use super::{CallableWhen, DegradationLayer};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Scenario: configurations that cannot work.
/// Expected: MUST be refused with the name of the field.
#[test]
fn a_configuration_that_cannot_work_is_refused_by_name() {
    let (config, quality) = (DegradationConfig::default, QualityConfig::default);
    let words = |code, words: &str| GracefulConfig {
        words: [(code, words.to_owned())].into(),
        ..GracefulConfig::default()
    };
    for (config, field) in [
        (DegradationConfig { max_depth: 0, ..config() }, "max_depth"),
        (DegradationConfig { rung_timeout: Some(Duration::ZERO), ..config() }, "rung_timeout"),
        (DegradationConfig { max_partial: Some(0), ..config() }, "max_partial"),
        (DegradationConfig { fallback_models: names(&["a", "a"]), ..config() }, "fallback_models"),
        (DegradationConfig { optional_tools: names(&["a", ""]), ..config() }, "optional_tools"),
        (DegradationConfig { graceful: Some(words(Code::Server, " ")), ..config() }, "graceful.words.SERVER"),
        (
            DegradationConfig { graceful: Some(GracefulConfig::default().contact("")), ..config() },
            "graceful.support_contact",
        ),
        (
            DegradationConfig { quality: QualityConfig { deferred: 1.5, ..quality() }, ..config() },
            "quality.deferred",
        ),
        (
            DegradationConfig { quality: QualityConfig { skip_tool: f64::NAN, ..quality() }, ..config() },
            "quality.skip_tool",
        ),
    ] {
        assert_eq!(DegradationLayer::new(config).unwrap_err().field, field);
    }
}

/// Scenario: parts that the configuration does not name.
/// Expected: MUST be refused with the name of the field.
#[test]
fn parts_without_names_are_refused() {
    type Never = tower::util::BoxCloneSyncService<
        crate::chat::Request,
        crate::chat::BoxReply,
        crate::failure::Failure,
    >;
    let service = || {
        Never::new(tower::service_fn(|_| {
            std::future::ready(Err(crate::failure::Failure::new(Code::Server, "")))
        }))
    };
    let field = |layer: Result<DegradationLayer, ConfigError>| layer.unwrap_err().field;
    assert_eq!(field(DegradationLayer::default().fallback_model(service())), "fallback_models");
    assert_eq!(field(DegradationLayer::default().skip_tool(service())), "optional_tools");
    let callable = CallableWhen::new(|| true);
    let tool = DegradationLayer::default().tool_callable("search", callable.clone());
    assert_eq!(field(DegradationLayer::default().model_callable("small", callable)), "fallback_models");
    assert!(tool.as_ref().unwrap_err().to_string().contains("does not name `search`"));
    assert_eq!(field(tool), "optional_tools");
}

/// Scenario: a configuration as files write it, in JSON and TOML; switches that are off; what is wrong in one.
/// Expected: MUST be read back as it was in each; what nobody knows MUST be refused by its name.
#[test]
fn a_configuration_is_read_as_it_is_written() {
    let graceful =
        GracefulConfig { words: [(Code::NotFound, "no".to_owned())].into(), ..GracefulConfig::default() };
    let full = DegradationConfig {
        rung_timeout: Some(Duration::from_millis(1500)),
        fallback_models: names(&["small"]),
        optional_tools: names(&["search"]),
        graceful: Some(graceful.contact("help@example.com")),
        ..DegradationConfig::default()
    };
    let off = DegradationConfig { rung_timeout: None, max_partial: None, graceful: None, ..full.clone() };
    for config in [full, off, DegradationConfig::default()] {
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<DegradationConfig>(&json).unwrap(), config, "{json}");
    }
    let toml = r#"
        max_depth = 3
        rung_timeout = "1s 500ms"
        max_partial = false
        fallback_models = ["small"]
        [graceful]
        support_contact = "help@example.com"
        [graceful.words]
        NOT_FOUND = "no"
        [quality]
        deferred = 0.4
    "#;
    #[cfg(feature = "protocols")]
    {
        let config: DegradationConfig = toml::from_str(toml).unwrap();
        assert_eq!((config.max_depth, config.max_partial), (3, None));
        assert_eq!(config.rung_timeout, Some(Duration::from_millis(1500)));
        assert_eq!(config.graceful.unwrap().words[&Code::NotFound], "no");
        assert!((config.quality.deferred - 0.4).abs() < 1e-9);
        assert!(toml::from_str::<DegradationConfig>("graceful = false").unwrap().graceful.is_none());
        assert!(toml::from_str::<DegradationConfig>("graceful = true").is_err());
    }
    assert!(!toml.is_empty());
    for (text, says) in [
        (r#"{"depth":1}"#, "unknown field `depth`"),
        (r#"{"graceful":{"contact":"x"}}"#, "unknown field `contact`"),
        (r#"{"rung_timeout":"soon"}"#, "expected a duration"),
        (r#"{"max_partial":-1}"#, "integer `-1`, expected usize"),
        (r#"{"graceful":true}"#, "give a value, or `false`"),
    ] {
        let error = serde_json::from_str::<DegradationConfig>(text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(
        serde_json::from_str::<DegradationConfig>(r#"{"max_partial":null}"#).unwrap().max_partial.is_none()
    );
}

/// Scenario: the defaults, as the module's tables print them.
/// Expected: the code MUST say what is printed.
#[test]
fn the_defaults_are_as_they_are_told() {
    let DegradationConfig { max_depth, rung_timeout, max_partial, quality, .. } =
        DegradationConfig::default();
    assert_eq!((max_depth, rung_timeout, max_partial), (6, Some(Duration::from_secs(60)), Some(1024 * 1024)));
    let printed = QualityConfig {
        fallback_model: 0.85,
        skip_tool: 0.75,
        cached_answer: 0.70,
        deferred: 0.60,
        partial_result: 0.50,
    };
    assert_eq!(quality, printed);
}
