//! What the layer is told.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Code, ConfigError};

/// Rungs a call may try: six, since that is how many there are; own ones come out of the same number.
const DEFAULT_MAX_DEPTH: usize = 6;

/// The longest one rung may take: 60 s, the time a first output has by default, since the slowest rung asks a model.
const DEFAULT_RUNG_TIMEOUT: Duration = Duration::from_secs(60);

/// The most of an answer kept in case it breaks off: 1 MiB, far above the longest output of today's models (128,000
/// tokens are about half of it), so that only a runaway reaches it.
const DEFAULT_MAX_PARTIAL: usize = 1024 * 1024;

/// What another model's answer is worth: whole and fresh, only not the model that was chosen. The six figures are
/// ours, an order rather than a measurement; set your own where you have measured.
const QUALITY_FALLBACK_MODEL: f64 = 0.85;
/// What an answer without a tool is worth: the right model, less knowledge.
const QUALITY_SKIP_TOOL: f64 = 0.75;
/// What a kept answer is worth: right once, maybe not now.
const QUALITY_CACHED_ANSWER: f64 = 0.70;
/// What a promise is worth: the whole answer, only later.
const QUALITY_DEFERRED: f64 = 0.60;
/// What half an answer is worth: half.
const QUALITY_PARTIAL_RESULT: f64 = 0.50;

/// Which rungs there are, and how they answer. See the [module](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DegradationConfig {
    /// The most rungs a call may try. The words of a graceful failure are always the last of them.
    pub max_depth: usize,
    /// The longest one rung may take; `None` (`false` in a file) for no limit but the call's deadline.
    #[serde(with = "crate::off::time")]
    pub rung_timeout: Option<Duration>,
    /// The models asked when the one that was asked cannot answer, in order.
    pub fallback_models: Vec<String>,
    /// The tools an answer can do without.
    pub optional_tools: Vec<String>,
    /// Whether what came of an answer is kept when it breaks off, and how many bytes of it at most; `None`
    /// (`false` in a file) ends such a stream with its failure.
    #[serde(with = "crate::off")]
    pub max_partial: Option<usize>,
    /// What is said when nothing else can be; `None` (`false` in a file) lets the failure go up.
    #[serde(with = "crate::off")]
    pub graceful: Option<GracefulConfig>,
    /// What each kind of answer is worth.
    pub quality: QualityConfig,
}

/// What is said when there is no answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GracefulConfig {
    /// Whom a person may ask for help: an address, a page, a number.
    pub support_contact: Option<String>,
    /// Words of your own, by the code of the failure.
    #[serde(deserialize_with = "crate::once::deserialize")]
    pub words: HashMap<Code, String>,
}

/// What each kind of answer is worth, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QualityConfig {
    /// Another model's.
    pub fallback_model: f64,
    /// One without a tool.
    pub skip_tool: f64,
    /// One of an earlier call.
    pub cached_answer: f64,
    /// A promise.
    pub deferred: f64,
    /// One that broke off.
    pub partial_result: f64,
}

// === impl DegradationConfig ===

impl DegradationConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.max_depth == 0 {
            return Err(ConfigError::new("max_depth", "must be at least 1"));
        }
        let zeros = [
            ("rung_timeout", self.rung_timeout == Some(Duration::ZERO)),
            ("max_partial", self.max_partial == Some(0)),
        ];
        if let Some((field, _)) = zeros.into_iter().find(|(_, zero)| *zero) {
            return Err(ConfigError::new(field, "must not be zero; `false` switches it off"));
        }
        distinct("fallback_models", &self.fallback_models)?;
        distinct("optional_tools", &self.optional_tools)?;
        if let Some(graceful) = &self.graceful {
            graceful.validate()?;
        }
        self.quality.validate()
    }
}

impl Default for DegradationConfig {
    fn default() -> Self {
        Self {
            max_depth: DEFAULT_MAX_DEPTH,
            rung_timeout: Some(DEFAULT_RUNG_TIMEOUT),
            fallback_models: Vec::new(),
            optional_tools: Vec::new(),
            max_partial: Some(DEFAULT_MAX_PARTIAL),
            graceful: Some(GracefulConfig::default()),
            quality: QualityConfig::default(),
        }
    }
}

// === impl GracefulConfig ===

impl GracefulConfig {
    /// Names whom a person may ask for help.
    #[must_use]
    pub fn contact(mut self, contact: impl Into<String>) -> Self {
        self.support_contact = Some(contact.into());
        self
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let blank = |text: &str| text.trim().is_empty();
        if self.support_contact.as_deref().is_some_and(blank) {
            return Err(ConfigError::new("graceful.support_contact", "must not be blank"));
        }
        match self.words.iter().find(|(_, words)| blank(words)) {
            Some((code, _)) => Err(ConfigError::new(format!("graceful.words.{code}"), "must not be blank")),
            None => Ok(()),
        }
    }
}

// === impl QualityConfig ===

impl QualityConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless_ratio("quality.fallback_model", self.fallback_model)?;
        ConfigError::unless_ratio("quality.skip_tool", self.skip_tool)?;
        ConfigError::unless_ratio("quality.cached_answer", self.cached_answer)?;
        ConfigError::unless_ratio("quality.deferred", self.deferred)?;
        ConfigError::unless_ratio("quality.partial_result", self.partial_result)
    }
}

impl Default for QualityConfig {
    fn default() -> Self {
        Self {
            fallback_model: QUALITY_FALLBACK_MODEL,
            skip_tool: QUALITY_SKIP_TOOL,
            cached_answer: QUALITY_CACHED_ANSWER,
            deferred: QUALITY_DEFERRED,
            partial_result: QUALITY_PARTIAL_RESULT,
        }
    }
}

/// Refuses a name that is empty or listed twice.
fn distinct(field: &str, names: &[String]) -> Result<(), ConfigError> {
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(ConfigError::new(field, format!("has no name at position {at}")));
        }
        if names[..at].contains(name) {
            return Err(ConfigError::new(field, format!("lists `{name}` twice")));
        }
    }
    Ok(())
}
