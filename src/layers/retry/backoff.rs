//! How long to wait.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A growing wait with jitter. Saturating at any attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The wait before the first retry.
    pub base: Duration,
    /// No wait of ours is longer, jitter aside.
    pub cap: Duration,
    /// How the wait is spread.
    pub jitter: Jitter,
}

/// How a wait `d` is spread, so that many clients do not come back in the same instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Jitter {
    /// `d`.
    None,
    /// `d + uniform(0, d / 2)`: never shorter.
    #[default]
    Additive,
    /// `uniform(0, d)`.
    Full,
    /// `d / 2 + uniform(0, d / 2)`.
    Equal,
    /// `uniform(base, 3 × the wait before)`, at most the cap.
    Decorrelated,
    /// `d × uniform(1 - ratio, 1 + ratio)`.
    Proportional(f64),
}

// === impl Backoff ===

impl Backoff {
    /// The wait before retry number `retry` (from 0), before jitter: `base × 2^retry`, at most the cap.
    #[must_use]
    pub fn plain(&self, retry: u32) -> Duration {
        const SECOND: u128 = 1_000_000_000;
        let (base, cap) = (self.base.as_nanos(), self.cap.as_nanos());
        let grown = base.checked_shl(retry).filter(|_| retry <= base.leading_zeros()).unwrap_or(cap);
        match (u64::try_from(grown / SECOND), u32::try_from(grown % SECOND)) {
            (Ok(seconds), Ok(nanos)) if grown < cap => Duration::new(seconds, nanos),
            _ => self.cap,
        }
    }

    /// The wait before retry number `retry` (from 0). `before` is the wait before the last one.
    pub fn delay(&self, retry: u32, before: Duration, rng: &mut fastrand::Rng) -> Duration {
        let plain = self.plain(retry);
        match self.jitter {
            Jitter::None => plain,
            Jitter::Additive => plain.saturating_add(uniform(plain / 2, rng)),
            Jitter::Full => uniform(plain, rng),
            Jitter::Equal => plain / 2 + uniform(plain / 2, rng),
            Jitter::Decorrelated => {
                let base = self.base.min(self.cap);
                let top = before.max(base).saturating_mul(3).min(self.cap);
                base + uniform(top.saturating_sub(base), rng)
            }
            Jitter::Proportional(ratio) => {
                let ratio = if (0.0..=1.0).contains(&ratio) { ratio } else { 0.0 };
                scaled(plain, 1.0 - ratio).saturating_add(uniform(scaled(plain, 2.0 * ratio), rng))
            }
        }
    }

    /// The wait where the provider stated one: never below it.
    pub fn delay_from(&self, floor: Duration, retry: u32, rng: &mut fastrand::Rng) -> Duration {
        floor.saturating_add(uniform(self.plain(retry).max(floor / 10), rng))
    }
}

/// A multiple of a duration, at most the longest there is.
fn scaled(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// A duration in [0, top].
fn uniform(top: Duration, rng: &mut fastrand::Rng) -> Duration {
    Duration::from_nanos(rng.u64(0..=u64::try_from(top.as_nanos()).unwrap_or(u64::MAX)))
}
