//! What retries may cost, shared by all calls of a provider.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;
use crate::time::Instant;

use super::snapshot::RetryBudgetSnapshot;

/// In how many spans the calls of a window are told apart: enough for its edge, and a bound on what is remembered.
const SPANS: u32 = 64;

/// How many retries are allowed beside the calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryBudgetConfig {
    /// Retries per call of the window.
    pub ratio: f64,
    /// Retries allowed in the window whatever the calls.
    pub reserve: u32,
    /// How far back calls and retries count.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
}

/// The account of one provider's retries.
///
/// Calls are deposited without a clock, since every call pays for it: they are counted, and spread evenly over the
/// time since the account was last looked at, which is when a retry asks. A burst of calls a moment ago therefore
/// counts a little less than it should, and one of a while ago a little more.
///
/// It remembers as many moments as it allows retries, and a bounded number of spans of calls.
#[derive(Debug)]
pub struct RetryBudget {
    config: RetryBudgetConfig,
    looked: Instant,
    /// Calls of the window, as (from, to, how many).
    calls: VecDeque<(Instant, Instant, f64)>,
    retries: VecDeque<Instant>,
}

// === impl RetryBudgetConfig ===

impl RetryBudgetConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless_ratio("budget.ratio", self.ratio)?;
        ConfigError::unless_positive("budget.window", self.window)
    }
}

impl Default for RetryBudgetConfig {
    /// 20 % of the calls of the last 10 s, and 10: Finagle's and tower's figures.
    fn default() -> Self {
        Self { ratio: 0.2, reserve: 10, window: Duration::from_secs(10) }
    }
}

// === impl RetryBudget ===

impl RetryBudget {
    /// An account opened now, on which nobody drew.
    #[must_use]
    pub const fn new(config: RetryBudgetConfig, now: Instant) -> Self {
        Self { config, looked: now, calls: VecDeque::new(), retries: VecDeque::new() }
    }

    /// Draws one retry, after `calls` more calls were made since the last time this was asked.
    ///
    /// # Errors
    /// If the window's retries are used up.
    pub fn draw(&mut self, calls: u64, now: Instant) -> Result<(), RetriesSpent> {
        self.deposit(calls, now);
        self.forget(now);
        #[expect(clippy::cast_precision_loss, reason = "a share, not an account")]
        let used = self.retries.len() as f64;
        let recent: f64 = self.calls.iter().map(|span| self.within(*span, now)).sum();
        if used + 1.0 > f64::from(self.config.reserve) + recent * self.config.ratio {
            return Err(RetriesSpent);
        }
        self.retries.push_back(now);
        Ok(())
    }

    /// How it stands, with `calls` more calls since it was last looked at. Looking changes nothing.
    #[must_use]
    pub fn look(&self, calls: u64, now: Instant) -> RetryBudgetSnapshot {
        let young = |at: &&Instant| now.duration_since(**at) < self.config.window;
        let retries = self.retries.iter().filter(young).count();
        #[expect(clippy::cast_precision_loss, reason = "a share, not an account")]
        let since = self.within((self.looked, now, calls as f64), now);
        let recent = since + self.calls.iter().map(|span| self.within(*span, now)).sum::<f64>();
        #[expect(clippy::cast_precision_loss, reason = "a share, not an account")]
        let left = f64::from(self.config.reserve) + recent * self.config.ratio - retries as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts, and none below zero"
        )]
        RetryBudgetSnapshot { calls: recent.round() as u64, retries, left: left.max(0.0) as u64 }
    }

    /// Gives back a retry that was drawn at this instant and not made.
    pub fn give_back(&mut self, drawn: Instant) {
        if let Some(at) = self.retries.iter().rposition(|retry| *retry == drawn) {
            self.retries.remove(at);
        }
    }

    fn deposit(&mut self, calls: u64, now: Instant) {
        let from = std::mem::replace(&mut self.looked, now);
        if calls == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a share, not an account")]
        let calls = calls as f64;
        match self.calls.back_mut() {
            Some((begun, to, sum)) if now.duration_since(*begun) < self.config.window / SPANS => {
                *to = now;
                *sum += calls;
            }
            _ => self.calls.push_back((from, now, calls)),
        }
    }

    fn forget(&mut self, now: Instant) {
        let window = self.config.window;
        let old = |at: Instant| now.duration_since(at) >= window;
        while self.calls.front().is_some_and(|(_, to, _)| old(*to)) {
            self.calls.pop_front();
        }
        while self.retries.front().is_some_and(|at| old(*at)) {
            self.retries.pop_front();
        }
    }

    /// How many of a span's calls lie within the window.
    fn within(&self, (from, to, calls): (Instant, Instant, f64), now: Instant) -> f64 {
        let span = to.duration_since(from);
        let inside = self.config.window.saturating_sub(now.duration_since(to)).min(span);
        if span.is_zero() { calls } else { calls * inside.as_secs_f64() / span.as_secs_f64() }
    }
}

/// The window's retries are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetriesSpent;
