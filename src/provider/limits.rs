//! Where the limits of a provider start, by what its profile says.

use http::Uri;

use crate::layers::rate_limit::{LimitProfile, RateLimitConfig};

use super::model::ModelQuota;
use super::profile::Profile;

/// Whose limits stand behind an address.
const HOSTS: [(&str, LimitProfile); 5] = [
    ("api.openai.com", LimitProfile::Openai),
    (".openai.azure.com", LimitProfile::Openai),
    ("api.anthropic.com", LimitProfile::Anthropic),
    ("api.deepseek.com", LimitProfile::Deepseek),
    ("api.groq.com", LimitProfile::Groq),
];

/// Of a well-known address, what is guessed of it until headers tell; of any other, the quota that the profile declares
/// of its model: the default one, or the only one.
impl From<&Profile> for RateLimitConfig {
    fn from(profile: &Profile) -> Self {
        let address: Option<Uri> = profile.base_url.parse().ok();
        let host = address.as_ref().and_then(Uri::host).unwrap_or_default();
        if let Some((_, limits)) = HOSTS.iter().find(|(end, _)| host.ends_with(end)) {
            return Self::of(*limits);
        }
        let small = |figure: Option<u64>| figure.map(|figure| u32::try_from(figure).unwrap_or(u32::MAX));
        let quota = quota(profile);
        Self {
            requests_per_minute: small(quota.requests),
            tokens_per_minute: small(quota.tokens),
            input_tokens_per_minute: small(quota.input_tokens),
            output_tokens_per_minute: small(quota.output_tokens),
            requests_per_day: small(quota.requests_per_day),
            tokens_per_day: small(quota.tokens_per_day),
            max_concurrency: small(quota.concurrency),
            ..Self::default()
        }
    }
}

/// The quota of the model that is asked, where there is no doubt which.
fn quota(profile: &Profile) -> ModelQuota {
    let only = || profile.models.values().next().filter(|_| profile.models.len() == 1);
    let asked = profile.default_model.as_ref().and_then(|model| profile.models.get(model));
    asked.or_else(only).map(|model| model.quota).unwrap_or_default()
}
