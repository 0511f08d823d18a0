//! Tokens by the window: how much one key may use, and what it owes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;
use crate::time::Instant;

/// The tokens a key may use in a window: ten turns a minute of an agent with 10,000 tokens of context, which is more than
/// a person reads and less than a loop gone wild burns. It is a tenth of the tokens a minute that a large provider grants
/// a paying organisation at first, so that one user cannot starve ten. The figure is ours.
pub const DEFAULT_TOKENS: u64 = 100_000;

/// How long a window is. Providers count tokens by the minute, and so the budget of a key compares with theirs.
pub const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

/// From which part of the budget on a warning is told: a fifth is left, enough for a few more turns.
pub const DEFAULT_WARN_AT: f64 = 0.8;

/// How many tokens a key may use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetConfig {
    /// Tokens of a window, input and output.
    pub tokens: u64,
    /// How long a window is, from the first call in it.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    /// From which part of the budget on a warning is told, once a window; `None` tells none.
    #[serde(with = "crate::off")]
    pub warn_at: Option<f64>,
    /// Whether a call dearer than the whole budget is refused. If not, it has an untouched window for itself, and what is
    /// above the budget counts against the windows after it.
    pub strict: bool,
}

/// The account of one key.
///
/// What is used above the budget is a debt: it fills the windows that follow. A window opens with a call, and closes
/// without one after it when nothing is owed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    since: Option<Instant>,
    /// Tells windows apart, for those who settle later.
    window: u32,
    /// The last window that ended with nothing owed: what it and those before had left is lost, and pays no later debt.
    clear: u32,
    /// Owed from windows before.
    debt: u64,
    /// Used in this one, and reserved.
    used: u64,
    /// The part of it that calls in flight have put aside. Those of windows before count as used: they may owe it.
    reserved: u64,
    warned: bool,
}

/// Tokens put aside for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// How many.
    pub tokens: u64,
    /// From which window.
    pub window: u32,
}

/// A budget that has no room for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Used and owed.
    pub used: u64,
    /// Put aside by calls in flight.
    pub reserved: u64,
    /// Of how much.
    pub limit: u64,
    /// When the call will find room, if calls in flight use what they have put aside and no others come; `None` if it
    /// never will. What they may give back is no part of it: nobody knows when they end, nor how much they leave.
    pub retry_after: Option<Duration>,
}

/// A budget at one instant. What is left is the limit less what is used and reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BudgetSnapshot {
    /// Tokens used, and owed from windows before. It may be above the limit: then it is a debt.
    pub used: u64,
    /// Tokens that calls in flight have put aside, and will leave or give back.
    pub reserved: u64,
    /// Of how many.
    pub limit: u64,
    /// When the window ends, if one is open.
    #[serde(with = "humantime_serde")]
    pub resets_in: Option<Duration>,
}

// === impl BudgetConfig ===

impl BudgetConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.tokens == 0 {
            let reason = "must not be zero; `None`, in a file `budget = false`, is no budget";
            return Err(ConfigError::new("budget.tokens", reason));
        }
        ConfigError::unless_positive("budget.window", self.window)?;
        self.warn_at.map_or(Ok(()), |part| ConfigError::unless_ratio("budget.warn_at", part))
    }

    fn warns(&self, used: u64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a part, not an account")]
        self.warn_at.is_some_and(|part| used as f64 >= self.tokens as f64 * part)
    }
}

impl Default for BudgetConfig {
    fn default() -> Self {
        Self { tokens: DEFAULT_TOKENS, window: DEFAULT_WINDOW, warn_at: Some(DEFAULT_WARN_AT), strict: false }
    }
}

// === impl BudgetSnapshot ===

impl BudgetSnapshot {
    /// Whether a fresh one would look otherwise.
    pub(super) const fn is_in_use(&self) -> bool {
        self.used > 0 || self.reserved > 0
    }
}

// === impl Budget ===

impl Budget {
    /// Puts tokens aside. A refusal changes nothing.
    ///
    /// # Errors
    /// If there is no room for them.
    pub fn reserve(&mut self, config: &BudgetConfig, cost: u64, now: Instant) -> Result<Reserved, Spent> {
        self.roll(config, now);
        let used = self.total();
        // A call of unknown cost passes as long as anything is left.
        let fits = used.saturating_add(cost.max(1)) <= config.tokens;
        let alone = cost > config.tokens && used == 0 && !config.strict;
        if !fits && !alone {
            return Err(self.spent(config, cost, now));
        }
        if self.since.is_none() {
            self.open(now);
        }
        self.used = self.used.saturating_add(cost);
        self.reserved = self.reserved.saturating_add(cost);
        Ok(Reserved { tokens: cost, window: self.window })
    }

    /// What the call really used takes the place of what was put aside. `now` is asked only where no window is open.
    pub fn settle(&mut self, reserved: Reserved, used: u64, now: impl FnOnce() -> Instant) {
        if reserved.window == self.window {
            self.reserved = self.reserved.saturating_sub(reserved.tokens);
        }
        if let Some(more) = used.checked_sub(reserved.tokens) {
            if more > 0 && self.since.is_none() {
                self.open(now());
            }
            self.used = self.used.saturating_add(more);
            return;
        }
        let back = reserved.tokens - used;
        // What a closed window has left cannot be used any more; only what it owed, and owes still, is less now.
        if reserved.window == self.window {
            self.used = self.used.saturating_sub(back);
        } else if reserved.window > self.clear {
            self.debt = self.debt.saturating_sub(back);
        }
        if self.total() == 0 {
            self.since = None;
        }
    }

    /// What was used, reserved and owed, if a warning is due: once a window.
    pub fn warning(&mut self, config: &BudgetConfig) -> Option<u64> {
        let used = self.total();
        let due = !self.warned && config.warns(used);
        self.warned |= due;
        due.then_some(used)
    }

    /// How it stands now.
    pub fn state(&mut self, config: &BudgetConfig, now: Instant) -> BudgetSnapshot {
        self.roll(config, now);
        let left = |since| config.window.saturating_sub(now.saturating_duration_since(since));
        BudgetSnapshot {
            used: self.settled(),
            reserved: self.reserved,
            limit: config.tokens,
            resets_in: self.since.map(left),
        }
    }

    /// Used and owed.
    const fn settled(&self) -> u64 {
        self.total().saturating_sub(self.reserved)
    }

    /// The same, and what is reserved.
    const fn total(&self) -> u64 {
        self.debt.saturating_add(self.used)
    }

    fn open(&mut self, now: Instant) {
        self.since = Some(now);
        self.window = self.window.wrapping_add(1);
        self.warned = false;
    }

    /// Closes the windows that are over: each takes its budget off what was used.
    fn roll(&mut self, config: &BudgetConfig, now: Instant) {
        let Some(since) = self.since else { return };
        let over = now.saturating_duration_since(since).as_nanos() / config.window.as_nanos().max(1);
        let Ok(over) = u64::try_from(over) else {
            return *self = Self { window: self.window, clear: self.window, ..Self::default() };
        };
        if over == 0 {
            return;
        }
        self.debt = self.total().saturating_sub(config.tokens.saturating_mul(over));
        (self.used, self.reserved) = (0, 0);
        self.since = None;
        if self.debt == 0 {
            self.clear = self.window;
        }
        self.window = self.window.wrapping_add(1);
        self.warned = false;
        if self.debt > 0 {
            let after = u32::try_from(over).ok().and_then(|over| config.window.checked_mul(over));
            self.since = Some(after.and_then(|after| since.checked_add(after)).unwrap_or(now));
        }
    }

    fn spent(&self, config: &BudgetConfig, cost: u64, now: Instant) -> Spent {
        let (total, limit) = (self.total(), config.tokens);
        let too_much =
            if cost > limit { total } else { total.saturating_add(cost.max(1)).saturating_sub(limit) };
        let windows = u32::try_from(too_much.div_ceil(limit)).ok();
        let since = self.since.unwrap_or(now);
        let until = windows.and_then(|windows| since.checked_add(config.window.checked_mul(windows)?));
        let never = cost > limit && config.strict;
        let retry_after = until.filter(|_| !never).map(|until| until.saturating_duration_since(now));
        Spent { used: self.settled(), reserved: self.reserved, limit, retry_after }
    }
}
