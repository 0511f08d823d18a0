//! A quota, as it is declared.

use std::time::Duration;

use crate::chat::Dimension;

/// What part of a minute's requests a bucket holds unless told otherwise: ten seconds' worth. Providers enforce request
/// rates in slices below the minute (60 a minute can act as 1 a second), so a whole minute's burst would be refused.
const REQUEST_BURST: u32 = 6;

/// A quota of one dimension: so many a minute, or a day.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quota {
    /// What is limited.
    pub dimension: Dimension,
    /// How many each period.
    pub limit: u32,
    /// The most a bucket holds, as a share of the limit; `None` is all of it, and of requests a minute a sixth.
    pub burst: Option<f64>,
    /// How full the bucket is at first, as a share of what it holds.
    pub fill: f64,
    /// Whether it is a guess of ours, which a provider's header may raise.
    pub guess: bool,
}

// === impl Quota ===

impl Quota {
    /// A declared quota, with a full bucket of the usual size.
    #[must_use]
    pub const fn new(dimension: Dimension, limit: u32) -> Self {
        Self { dimension, limit, burst: None, fill: 1.0, guess: false }
    }

    /// Bounds what the bucket holds to a share of the limit.
    #[must_use]
    pub const fn with_burst(mut self, share: f64) -> Self {
        self.burst = Some(share);
        self
    }

    /// The bucket starts with a share of what it holds.
    #[must_use]
    pub const fn filled(mut self, share: f64) -> Self {
        self.fill = share;
        self
    }

    /// Marks it as a guess.
    #[must_use]
    pub const fn guessed(mut self) -> Self {
        self.guess = true;
        self
    }

    /// How long a period is.
    #[must_use]
    pub const fn period(&self) -> Duration {
        period(self.dimension)
    }

    /// The most a bucket holds under this limit; never nothing.
    pub(super) fn capacity(&self, limit: u32) -> u32 {
        let most = match self.burst {
            Some(share) => part(limit, share),
            None if self.dimension == Dimension::Requests => limit / REQUEST_BURST,
            None => limit,
        };
        most.clamp(1, limit.max(1))
    }

    /// What stands in the bucket at first.
    pub(super) fn initial(&self) -> u32 {
        part(self.capacity(self.limit), self.fill)
    }
}

/// How long a period of a dimension is.
pub(super) const fn period(dimension: Dimension) -> Duration {
    match dimension {
        Dimension::Requests | Dimension::Tokens | Dimension::InputTokens | Dimension::OutputTokens => {
            Duration::from_secs(60)
        }
        Dimension::RequestsPerDay | Dimension::TokensPerDay => Duration::from_secs(24 * 60 * 60),
    }
}

/// A share of a whole, to the nearest.
fn part(whole: u32, share: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u32 fits one")]
    let part = (f64::from(whole) * share.clamp(0.0, 1.0)).round() as u32;
    part
}
