//! Where the requests of a profile go, and the headers and the key that go with them.

use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::chat::Protocol;
use crate::failure::ConfigError;

use super::profile::{Auth, Profile};
use super::secret::Secret;

// === impl Profile ===

impl Profile {
    /// The address of a call to this model.
    pub(super) fn uri(&self, model: &str) -> Result<Uri, ConfigError> {
        let own = match self.protocol {
            Protocol::OpenaiChat => "/chat/completions",
            Protocol::OpenaiResponses => "/responses",
            Protocol::AnthropicMessages => "/v1/messages",
        };
        let path = self.path.as_deref().unwrap_or(own).replace("{model}", &escape(model));
        let base = self.base_url.trim_end_matches('/');
        let base = if path.starts_with("/v1/") { base.strip_suffix("/v1").unwrap_or(base) } else { base };
        let mut text = format!("{base}{path}");
        for (at, (name, value)) in self.query.iter().enumerate() {
            let mark = if at == 0 { '?' } else { '&' };
            text.push_str(&format!("{mark}{}={}", escape(name), escape(value)));
        }
        text.parse().map_err(|_| ConfigError::new("path", "does not make an address"))
    }

    /// The headers of every request, the key among them.
    pub(super) fn headers(&self) -> Result<HeaderMap, ConfigError> {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            let field = || format!("headers.{name}");
            let header: HeaderName =
                name.parse().map_err(|_| ConfigError::new(field(), "is not a header name"))?;
            let value = value.parse().map_err(|_| ConfigError::new(field(), "is not a header value"))?;
            headers.insert(header, value);
        }
        let Some(key) = self.secret() else { return Ok(headers) };
        let (name, value) = match &self.auth {
            Auth::Bearer | Auth::Optional => {
                (http::header::AUTHORIZATION, format!("Bearer {}", key.expose()))
            }
            Auth::Header(name) => {
                let header = name.parse().map_err(|_| ConfigError::new("auth", "is not a header name"))?;
                (header, key.expose().to_owned())
            }
        };
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| ConfigError::new("key", "has characters that no header can carry"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(headers)
    }

    /// The key given, else the one of the environment.
    pub(super) fn secret(&self) -> Option<Secret> {
        let of_environment = || std::env::var(self.key_env.as_deref()?).ok().map(Secret::from);
        self.key.clone().or_else(of_environment)
    }

    /// Checks that there is a key where one is needed.
    pub(super) fn needs_key(&self) -> Result<(), ConfigError> {
        if self.auth == Auth::Optional || self.secret().is_some() {
            return Ok(());
        }
        let hint = match self.key_env.as_deref() {
            Some(name) => format!("set {name}, or call `with_key`"),
            None => "call `with_key`, name a `key_env`, or make `auth` optional".to_owned(),
        };
        Err(ConfigError::new("key", format!("is missing for `{}`: {hint}", self.name)))
    }
}

/// Escapes what may not stand in a path segment or a query.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
