//! What a reply tells beside its events.

use std::sync::Arc;

use crate::failure::Attempt;
use crate::limits::Limits;

use super::degradation::Degradation;

/// What is told beside the events.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Head {
    /// Who answers.
    pub provider: Option<Arc<str>>,
    /// The model asked, in the provider's word.
    pub model: Option<Arc<str>>,
    /// Which candidate of a failover the provider is, from 0.
    pub candidate: u16,
    /// The provider's id of the exchange, for its support.
    pub request_id: Option<Box<str>>,
    /// The limits told.
    pub limits: Limits,
    /// The tries that came before this answer, oldest first.
    pub attempts: Vec<Attempt>,
    /// What the answer lacks, where it is less than was asked. See [`degradation`](Self::degradation()).
    pub degradation: Option<Box<Degradation>>,
}

// === impl Head ===

impl Head {
    /// The head of a reply of this provider.
    #[must_use]
    pub fn of(provider: impl Into<Arc<str>>) -> Self {
        Self { provider: Some(provider.into()), ..Self::default() }
    }

    /// What the answer lacks: nothing, where no record says otherwise.
    #[must_use]
    pub fn degradation(&self) -> &Degradation {
        Degradation::of(self.degradation.as_deref())
    }
}
