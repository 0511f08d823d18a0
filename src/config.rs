//! One tree for the configuration of a whole stack, read alike from TOML, YAML and JSON.
//!
//! A section that is left out has the defaults of its layer. In a section that is there, each field left out has its
//! own default; durations read as `"30s"`; `false` switches off what is on by default; an unknown field is refused.
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

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;
use crate::layers::bulkhead::BulkheadConfig;
use crate::layers::circuit_breaker::CircuitBreakerConfig;
use crate::layers::degradation::DegradationConfig;
use crate::layers::failover::FailoverConfig;
use crate::layers::rate_limit::RateLimitConfig;
use crate::layers::retry::RetryConfig;
use crate::layers::timeout::Clocks;

/// How every layer of a stack is configured, from the outside in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StackConfig {
    /// What is answered when nothing else can be.
    pub degradation: DegradationConfig,
    /// Who may call, and how much at a time. Left out it is [`BulkheadConfig::users`].
    pub bulkhead: BulkheadConfig,
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
    #[serde(deserialize_with = "crate::once::deserialize")]
    pub providers: BTreeMap<String, ProviderConfig>,
}

/// What one provider has in place of what all have.
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

// === impl StackConfig ===

impl StackConfig {
    /// Checks every field of every section.
    ///
    /// # Errors
    /// Names the first field that cannot work, by its path: `providers.openai.retry.base`.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within("degradation", self.degradation.validate())?;
        within("bulkhead", self.bulkhead.validate())?;
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

impl Default for StackConfig {
    fn default() -> Self {
        Self {
            degradation: DegradationConfig::default(),
            bulkhead: BulkheadConfig::users(),
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

/// Names a field by its path.
fn within(section: &str, checked: Result<(), ConfigError>) -> Result<(), ConfigError> {
    checked.map_err(|error| ConfigError { field: format!("{section}.{}", error.field), ..error })
}
