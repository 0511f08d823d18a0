//! The well-known providers, as data.
//!
//! | name | protocol | note |
//! |---|---|---|
//! | `openai` | Chat Completions | |
//! | `openai-responses` | Responses | |
//! | `azure` | Chat Completions | give `base_url` as `https://RESOURCE.openai.azure.com`; deployments in the address |
//! | `azure-v1` | Chat Completions | give `base_url` as `https://RESOURCE.openai.azure.com/openai/v1` |
//! | `anthropic` | Messages | `anthropic-version: 2023-06-01` |
//! | `anthropic-2026-10-21` | Messages | takes no sampling options |
//! | `deepseek`, `openrouter`, `groq`, `mistral`, `together` | Chat Completions | |
//! | `vllm`, `llama.cpp`, `ollama` | Chat Completions | at their usual local port; no key |
//!
//! Figures in it (windows, quotas, prices) are starting points with a date; a profile of your own comes before them.

use crate::failure::ConfigError;

use super::profile::Profile;

/// The catalogue's text, in TOML.
const TEXT: &str = include_str!("catalogue.toml");

#[derive(serde::Deserialize)]
struct Catalogue {
    profiles: Vec<Profile>,
}

/// All profiles.
///
/// # Errors
/// If the catalogue that was built in cannot be read, which a test rules out.
pub fn all() -> Result<Vec<Profile>, ConfigError> {
    let catalogue: Catalogue =
        toml::from_str(TEXT).map_err(|error| ConfigError::new("catalogue", error.to_string()))?;
    Ok(catalogue.profiles)
}

/// The profile of this name.
///
/// # Errors
/// If there is none; it names those there are.
pub fn get(name: &str) -> Result<Profile, ConfigError> {
    let profiles = all()?;
    let names: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
    let unknown = format!("is not in the catalogue: `{name}`; there are {}", names.join(", "));
    profiles.into_iter().find(|profile| profile.name == name).ok_or_else(|| ConfigError::new("name", unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: every profile of the catalogue is checked as a user's would be.
    /// Expected: MUST be valid, and no name MUST stand twice.
    #[test]
    fn every_profile_is_valid() {
        let profiles = all().unwrap();
        for (at, profile) in profiles.iter().enumerate() {
            profile.validate().unwrap_or_else(|error| panic!("{}: {error}", profile.name));
            assert!(profiles[..at].iter().all(|other| other.name != profile.name), "{} twice", profile.name);
        }
        assert_eq!(profiles.len(), 14);
    }
}
