//! A failover as it shows itself.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

/// A failover as it stands. Times are counted from the instant of the snapshot.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailoverSnapshot {
    /// Where calls begin.
    pub standing: Arc<str>,
    /// Whether a higher candidate is being tried.
    pub trial: bool,
    /// The candidates, in order.
    pub candidates: Vec<CandidateSnapshot>,
}

/// A candidate as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CandidateSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Failed calls in a row.
    pub failed_in_row: u32,
    /// How long it rests still, if it rests.
    #[serde(with = "humantime_serde")]
    pub rests_for: Option<Duration>,
    /// How long it said that it must not be asked, if it did.
    #[serde(with = "humantime_serde")]
    pub told_to_wait: Option<Duration>,
    /// How late its first outputs come, where that is measured.
    #[serde(with = "humantime_serde")]
    pub first_output: Option<Duration>,
}
