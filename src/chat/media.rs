//! Pictures, sounds and files.

use std::sync::Arc;

/// A picture, a sound or a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Media {
    /// Where its bytes are.
    pub source: Source,
    /// Its media type (`image/png`), or a sound's format.
    pub media_type: Option<String>,
    /// Its file name.
    pub name: Option<String>,
}

/// Where the bytes of a [`Media`] are.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Source {
    /// At an address.
    Url(String),
    /// Here, in base64. Shared, so that a copy of a conversation copies no picture.
    Base64(Arc<str>),
    /// At the provider, under this id.
    Id(String),
}

// === impl Media ===

impl Media {
    /// Media at an address.
    #[must_use]
    pub fn url(url: impl Into<String>) -> Self {
        Self { source: Source::Url(url.into()), media_type: None, name: None }
    }

    /// Media in base64.
    #[must_use]
    pub fn base64(media_type: impl Into<String>, data: impl Into<Arc<str>>) -> Self {
        Self { source: Source::Base64(data.into()), media_type: Some(media_type.into()), name: None }
    }

    /// Media held by the provider.
    #[must_use]
    pub fn id(id: impl Into<String>) -> Self {
        Self { source: Source::Id(id.into()), media_type: None, name: None }
    }

    /// Bytes of it that a request carries.
    pub(super) fn size(&self) -> usize {
        match &self.source {
            Source::Base64(data) => data.len(),
            Source::Url(text) | Source::Id(text) => text.len(),
        }
    }
}
