//! The only door to the clock: tokio's, so that a paused clock moves the whole house.

use std::time::Duration;

pub use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout_at};

/// Now, on the clock that `tokio::time::pause` stops.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// No wait is longer: thirty years, which every clock can add.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// An instant so far from now, or as far as any wait goes: what is too long to be added is no reason not to wait.
#[must_use]
pub fn after(now: Instant, wait: Duration) -> Instant {
    now + wait.min(FAR)
}

/// The wall clock, anchored once and moved by [`Instant`] from there, so that it stops and jumps with a
/// paused clock and never runs backwards.
///
/// It is needed where a wire speaks of dates (`Retry-After: Sat, 01 Mar 2025 12:00:05 GMT`); nothing is timed by it.
#[derive(Clone, Copy, Debug)]
pub struct Wall {
    unix: Duration,
    since: Instant,
}

// === impl Wall ===

impl Wall {
    /// Anchors the wall clock at the time the machine tells.
    #[must_use]
    pub fn system() -> Self {
        #[expect(clippy::disallowed_types, reason = "the one place that asks the machine for its date")]
        let unix = std::time::SystemTime::now()
            .duration_since(std::time::SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self::at(unix)
    }

    /// Anchors the wall clock at a time since the Unix epoch: for tests, and for replays of old traffic.
    #[must_use]
    pub fn at(unix: Duration) -> Self {
        Self { unix, since: now() }
    }

    /// The time since the Unix epoch.
    #[must_use]
    pub fn unix(&self) -> Duration {
        self.unix.saturating_add(self.since.elapsed())
    }
}
