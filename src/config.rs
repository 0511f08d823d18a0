//! One tree for the configuration of a whole stack, read alike from TOML, YAML and JSON.
//!
//! A field that is left out has its default, be its section there or not: in `bulkhead` that of
//! [`BulkheadConfig::users`], and in the sections of one provider what all providers have. Durations read as `"30s"`;
//! `false` switches off a field or a rule that is on by default, not a whole layer; an unknown field is refused. What is
//! off by default is switched on by its section, be it empty: `[reset]`.
//!
//! ```
//! use watertight::config::StackConfig;
//!
//! let config: StackConfig = toml::from_str(
//!     r#"
//!     [retry]
//!     retries = 2
//!
//!     [circuit_breaker]
//!     failures = 3
//!     rest = "10s"
//!
//!     [providers.openai.rate_limit]
//!     profile = "openai"
//!     "#,
//! )?;
//! config.validate()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::failure::ConfigError;
use crate::layers::bulkhead::BulkheadConfig;
use crate::layers::circuit_breaker::CircuitBreakerConfig;
use crate::layers::degradation::DegradationConfig;
use crate::layers::failover::FailoverConfig;
use crate::layers::rate_limit::RateLimitConfig;
use crate::layers::reset::ResetConfig;
use crate::layers::retry::RetryConfig;
use crate::layers::timeout::Clocks;
use crate::once::Tree;

/// How every layer of a stack is configured, from the outside in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackConfig {
    /// What is answered when nothing else can be.
    pub degradation: DegradationConfig,
    /// Who may call, and how much at a time.
    pub bulkhead: BulkheadConfig,
    /// How streams that die start over, which callers must bear: what they have shown is void then. Off by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset: Option<ResetConfig>,
    /// When calls go on to the next provider.
    pub failover: FailoverConfig,
    /// How often a provider is asked again.
    pub retry: RetryConfig,
    /// When a provider is left alone.
    pub circuit_breaker: CircuitBreakerConfig,
    /// How much a provider is asked.
    pub rate_limit: RateLimitConfig,
    /// How long a provider is waited for.
    pub timeout: Clocks,
    /// What single providers have in place of the sections above, by their names.
    pub providers: BTreeMap<String, ProviderConfig>,
}

/// What one provider has in place of what all have. In a file, a field that is left out is that of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// How often it is asked again.
    pub retry: Option<RetryConfig>,
    /// When it is left alone.
    pub circuit_breaker: Option<CircuitBreakerConfig>,
    /// How much it is asked.
    pub rate_limit: Option<RateLimitConfig>,
    /// How long it is waited for.
    pub timeout: Option<Clocks>,
}

/// A stack as a file writes it, before what is left out is filled in.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    degradation: Option<Tree>,
    bulkhead: Option<Tree>,
    reset: Option<Tree>,
    failover: Option<Tree>,
    retry: Option<Tree>,
    circuit_breaker: Option<Tree>,
    rate_limit: Option<Tree>,
    timeout: Option<Tree>,
    #[serde(deserialize_with = "crate::once::deserialize")]
    providers: BTreeMap<String, WrittenProvider>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenProvider {
    retry: Option<Tree>,
    circuit_breaker: Option<Tree>,
    rate_limit: Option<Tree>,
    timeout: Option<Tree>,
}

/// A section that may be off: `false`, or left out.
#[derive(Serialize, Deserialize)]
#[serde(transparent, bound = "T: Serialize + DeserializeOwned")]
struct Optional<T>(#[serde(with = "crate::off")] Option<T>);

// === impl StackConfig ===

impl StackConfig {
    /// Checks every field of every section.
    ///
    /// # Errors
    /// Names the first field that cannot work, by its path: `providers.openai.retry.base`.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within("degradation", self.degradation.validate())?;
        within("bulkhead", self.bulkhead.validate())?;
        within("reset", self.reset.as_ref().map_or(Ok(()), ResetConfig::validate))?;
        within("failover", self.failover.validate())?;
        within("retry", self.retry.validate())?;
        within("circuit_breaker", self.circuit_breaker.validate())?;
        within("rate_limit", self.rate_limit.validate())?;
        within("timeout", self.timeout.validate())?;
        for (name, provider) in &self.providers {
            within(&format!("providers.{name}"), provider.validate())?;
        }
        Ok(())
    }

    /// What a provider has: its own sections, and those of all for the rest.
    #[must_use]
    pub fn provider(&self, name: &str) -> ProviderConfig {
        let own = self.providers.get(name).cloned().unwrap_or_default();
        ProviderConfig {
            retry: own.retry.or_else(|| Some(self.retry.clone())),
            circuit_breaker: own.circuit_breaker.or_else(|| Some(self.circuit_breaker.clone())),
            rate_limit: own.rate_limit.or_else(|| Some(self.rate_limit.clone())),
            timeout: own.timeout.or(Some(self.timeout)),
        }
    }
}

impl<'de> Deserialize<'de> for StackConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        let default = Self::default();
        let mut config = Self {
            degradation: fill(&default.degradation, written.degradation, "degradation")?,
            bulkhead: fill(&default.bulkhead, written.bulkhead, "bulkhead")?,
            reset: fill(&Optional(default.reset), written.reset, "reset")?.0,
            failover: fill(&default.failover, written.failover, "failover")?,
            retry: fill(&default.retry, written.retry, "retry")?,
            circuit_breaker: fill(&default.circuit_breaker, written.circuit_breaker, "circuit_breaker")?,
            rate_limit: fill(&default.rate_limit, written.rate_limit, "rate_limit")?,
            timeout: fill(&default.timeout, written.timeout, "timeout")?,
            providers: BTreeMap::new(),
        };
        for (name, own) in written.providers {
            let provider = ProviderConfig {
                retry: fill_own(&config.retry, own.retry, &name)?,
                circuit_breaker: fill_own(&config.circuit_breaker, own.circuit_breaker, &name)?,
                rate_limit: fill_own(&config.rate_limit, own.rate_limit, &name)?,
                timeout: fill_own(&config.timeout, own.timeout, &name)?,
            };
            config.providers.insert(name, provider);
        }
        Ok(config)
    }
}

impl Default for StackConfig {
    fn default() -> Self {
        Self {
            degradation: DegradationConfig::default(),
            bulkhead: BulkheadConfig::users(),
            reset: None,
            failover: FailoverConfig::default(),
            retry: RetryConfig::default(),
            circuit_breaker: CircuitBreakerConfig::default(),
            rate_limit: RateLimitConfig::default(),
            timeout: Clocks::default(),
            providers: BTreeMap::new(),
        }
    }
}

// === impl ProviderConfig ===

impl ProviderConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        within("retry", self.retry.as_ref().map_or(Ok(()), RetryConfig::validate))?;
        within(
            "circuit_breaker",
            self.circuit_breaker.as_ref().map_or(Ok(()), CircuitBreakerConfig::validate),
        )?;
        within("rate_limit", self.rate_limit.as_ref().map_or(Ok(()), RateLimitConfig::validate))?;
        within("timeout", self.timeout.as_ref().map_or(Ok(()), Clocks::validate))
    }
}

/// A section as it is written, what is left out taken from another.
fn fill<T, E>(whole: &T, written: Option<Tree>, section: &str) -> Result<T, E>
where
    T: Serialize + DeserializeOwned,
    E: Error,
{
    let mut filled = serde_json::to_value(whole).map_err(E::custom)?;
    if let Some(Tree(written)) = written {
        overlay(&mut filled, written);
    }
    serde_json::from_value(filled).map_err(|error| E::custom(format_args!("{section}: {error}")))
}

fn fill_own<T, E>(of_all: &T, written: Option<Tree>, name: &str) -> Result<Option<T>, E>
where
    T: Serialize + DeserializeOwned,
    E: Error,
{
    let section = || format!("providers.{name}");
    written.map(|written| fill(of_all, Some(written), &section())).transpose()
}

/// Lays what is written over what there is, field by field, down to the values.
fn overlay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                overlay(under.entry(name).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// Names a field by its path.
pub(crate) fn within<T>(section: &str, checked: Result<T, ConfigError>) -> Result<T, ConfigError> {
    checked.map_err(|error| ConfigError { field: format!("{section}.{}", error.field), ..error })
}
