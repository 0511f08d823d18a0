//! A bulkhead at one instant, as it is shown.

use serde::Serialize;

use super::budget::BudgetSnapshot;
use super::slots::MOST;
use super::state::State;

/// A bulkhead at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BulkheadSnapshot {
    /// Its name.
    pub name: String,
    /// How many keys it knows. A bulkhead that is not keyed has one.
    pub keys: usize,
    /// Those that are not as good as fresh, by name. Without keys, the one there is.
    pub states: Vec<StateSnapshot>,
}

/// The slots and the budget of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StateSnapshot {
    /// `NAME`, or `NAME:KEY`.
    pub key: String,
    /// How many calls may be in flight.
    pub limit: Option<u32>,
    /// How many are.
    pub in_flight: u32,
    /// How many wait.
    pub waiting: u32,
    /// The budget, if there is one.
    pub budget: Option<BudgetSnapshot>,
}

// === impl StateSnapshot ===

impl StateSnapshot {
    pub(super) fn of(state: &State) -> Self {
        let tally = state.lane.tally();
        Self {
            key: state.key.to_string(),
            limit: (tally.limit < MOST).then_some(tally.limit),
            in_flight: tally.in_flight,
            waiting: tally.waiting,
            budget: state.budget(),
        }
    }

    /// Whether a fresh one would look otherwise.
    pub(super) fn is_in_use(&self) -> bool {
        self.in_flight > 0 || self.waiting > 0 || self.budget.is_some_and(|budget| budget.is_in_use())
    }
}
