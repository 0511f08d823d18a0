//! What a reset is told.

use std::time::Duration;

use super::{ResetConfig, ResetLayer};

/// Scenario: configurations that cannot work, and one that never resets.
/// Expected: MUST be refused with the name of the field; zero resets mean none.
#[test]
fn a_configuration_that_cannot_work_is_refused_by_name() {
    let (zero, config) = (Duration::ZERO, ResetConfig::default);
    for (config, field) in [
        (ResetConfig { delay: zero, ..config() }, "delay"),
        (ResetConfig { max_retry_after: zero, ..config() }, "max_retry_after"),
    ] {
        assert_eq!(ResetLayer::new(config).unwrap_err().field, field);
    }
    assert!(ResetLayer::new(ResetConfig { resets: 0, ..config() }).is_ok());
}

/// Scenario: a configuration as a file writes it, and the defaults as the module's table prints them.
/// Expected: MUST be read back as it was; a field that nobody knows MUST be refused; the code MUST say what is printed.
#[test]
fn a_configuration_is_read_as_it_is_written() {
    let config = ResetConfig { resets: 2, delay: Duration::from_millis(1500), ..ResetConfig::default() };
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<ResetConfig>(&text).unwrap(), config);
    assert!(serde_json::from_str::<ResetConfig>(r#"{"reset":1}"#).is_err());
    let printed = (1, Duration::from_secs(1), Duration::from_secs(30));
    let config = serde_json::from_str::<ResetConfig>("{}").unwrap();
    assert_eq!((config.resets, config.delay, config.max_retry_after), printed);
}
