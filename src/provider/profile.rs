//! What is known of a provider.

use std::collections::BTreeMap;
use std::fmt::Display;

use http::Uri;
use serde::{Deserialize, Serialize};

use crate::chat::Protocol;
use crate::failure::ConfigError;
use crate::layers::failover::Candidate;
use crate::protocol::Dialect;

use super::model::Model;
use super::secret::Secret;

/// What is known of a provider: endpoint, key, models.
///
/// ```
/// use watertight::provider::Profile;
///
/// let profile = Profile::from_toml(r#"
///     name = "house"
///     protocol = "openai_chat"
///     base_url = "http://127.0.0.1:8000/v1"
///     auth = "optional"
///
///     [models.small]
///     id = "qwen-small"
///     window = 32768
/// "#)?;
/// assert_eq!(profile.model("small").0, "qwen-small");
/// # Ok::<_, watertight::failure::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name in facts, failures and replies.
    pub name: String,
    /// What it speaks.
    pub protocol: Protocol,
    /// Where it is, without the protocol's own path: `https://api.openai.com/v1`, `https://api.anthropic.com` (a
    /// `/v1` at the end of a Messages address is not doubled).
    pub base_url: String,
    /// The path below it; `None` is the protocol's own. `{model}` in it becomes the model's name.
    #[serde(default)]
    pub path: Option<String>,
    /// The query, as Azure's `api-version`.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// How the key is sent.
    #[serde(default)]
    pub auth: Auth,
    /// The environment variable that holds the key, where none is given.
    #[serde(default)]
    pub key_env: Option<String>,
    /// The key. It is never serialised.
    #[serde(skip)]
    pub key: Option<Secret>,
    /// Headers sent with every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How its protocol differs.
    #[serde(default)]
    pub dialect: Dialect,
    /// Whether its request limits are told per day (Groq) and not per minute.
    #[serde(default)]
    pub daily_requests: bool,
    /// The model asked for when a request names one that is not in `models`; `None` asks for the one it names.
    #[serde(default)]
    pub default_model: Option<String>,
    /// The models, by the names requests use.
    #[serde(default)]
    pub models: BTreeMap<String, Model>,
}

/// How the key is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Auth {
    /// `Authorization: Bearer KEY`.
    #[default]
    Bearer,
    /// In a header of this name: `x-api-key`, `api-key`.
    Header(String),
    /// As bearer if there is a key; without one, not at all: local servers.
    Optional,
}

// === impl Profile ===

impl Profile {
    /// A provider of this name, protocol and address. It takes its key as the first party of the protocol does:
    /// as bearer, or for Messages as `x-api-key` beside `anthropic-version: 2023-06-01`.
    pub fn new(name: impl Into<String>, protocol: Protocol, base_url: impl Into<String>) -> Self {
        let (auth, headers) = match protocol {
            Protocol::AnthropicMessages => {
                let version = ("anthropic-version".to_owned(), "2023-06-01".to_owned());
                (Auth::Header("x-api-key".into()), BTreeMap::from([version]))
            }
            Protocol::OpenaiChat | Protocol::OpenaiResponses => (Auth::Bearer, BTreeMap::new()),
        };
        Self {
            name: name.into(),
            protocol,
            base_url: base_url.into(),
            path: None,
            query: BTreeMap::new(),
            auth,
            key_env: None,
            key: None,
            headers,
            dialect: Dialect::default(),
            daily_requests: false,
            default_model: None,
            models: BTreeMap::new(),
        }
    }

    /// Reads a profile from TOML.
    ///
    /// # Errors
    /// Names the field that cannot be read or cannot work.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Self::read(toml::from_str(text))
    }

    /// Reads a profile from JSON.
    ///
    /// # Errors
    /// Names the field that cannot be read or cannot work.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        Self::read(serde_json::from_str(text))
    }

    fn read(file: Result<Self, impl Display>) -> Result<Self, ConfigError> {
        let profile = file.map_err(|error| ConfigError::new("profile", error.to_string()))?;
        profile.validate()?;
        Ok(profile)
    }

    /// Gives the key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Secret>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Moves it to another address.
    #[must_use]
    pub fn at(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }

    /// Gives it another name: two instances of one provider need two.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Asks this model for every request that names none of [`models`](Self::models).
    #[must_use]
    pub fn asking(mut self, model: impl Into<String>) -> Self {
        self.default_model = Some(model.into());
        self
    }

    /// The provider's name for a model, and what is known of it.
    #[must_use]
    pub fn model<'a>(&'a self, asked: &'a str) -> (&'a str, Option<&'a Model>) {
        let asked = match &self.default_model {
            Some(default) if !self.models.contains_key(asked) => default,
            _ => asked,
        };
        let model = self.models.get(asked);
        (model.and_then(|model| model.id.as_deref()).unwrap_or(asked), model)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.name.trim().is_empty() {
            return Err(ConfigError::new("name", "must not be empty"));
        }
        let uri: Uri =
            self.base_url.parse().map_err(|_| ConfigError::new("base_url", "is not an address"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(ConfigError::new("base_url", "must begin with http:// or https://, and name a host"));
        }
        if uri.query().is_some() || self.base_url.contains('#') {
            return Err(ConfigError::new("base_url", "must end with a path; `query` has its own field"));
        }
        // Else the path would go on with the name of the host, and the key go elsewhere.
        if self.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            return Err(ConfigError::new("path", "must begin with /"));
        }
        self.uri("model").map(drop)?;
        self.headers().map(drop)?;
        for (name, model) in &self.models {
            if let Some(clocks) = &model.clocks {
                clocks.validate().map_err(|error| {
                    ConfigError::new(format!("models.{name}.clocks.{}", error.field), error.reason)
                })?;
            }
            let quota = model.quota;
            for (field, value) in [
                ("window", model.window),
                ("max_output", model.max_output),
                ("default_output", model.default_output),
                ("quota.requests", quota.requests),
                ("quota.tokens", quota.tokens),
                ("quota.input_tokens", quota.input_tokens),
                ("quota.output_tokens", quota.output_tokens),
                ("quota.requests_per_day", quota.requests_per_day),
                ("quota.tokens_per_day", quota.tokens_per_day),
                ("quota.concurrency", quota.concurrency),
            ] {
                if value == Some(0) {
                    return Err(ConfigError::new(format!("models.{name}.{field}"), "must not be zero"));
                }
            }
        }
        Ok(())
    }
}

impl From<&Profile> for Candidate {
    fn from(profile: &Profile) -> Self {
        Self::new(profile.name.as_str()).speaks(profile.protocol)
    }
}
