//! A retry as it shows itself.

use serde::Serialize;

/// A retry as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RetrySnapshot {
    /// The name of its configuration.
    pub policy: String,
    /// Its budget, if it has one.
    pub budget: Option<RetryBudgetSnapshot>,
}

/// A budget as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RetryBudgetSnapshot {
    /// Calls of the window.
    pub calls: u64,
    /// Retries of the window.
    pub retries: usize,
    /// Retries that may be made now.
    pub left: u64,
}
