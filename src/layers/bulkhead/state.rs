//! What all calls of one key share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::chat::{Ask, CallId, End};
use crate::event::{Fact, Facts};
use crate::failure::{COME_BACK, Code, Failure};
use crate::keyed::Idle;
use crate::time::{Instant, now};

use super::account::Account;
use super::budget::{Budget, BudgetSnapshot, Spent};
use super::config::BulkheadConfig;
use super::lane::{Asked, Lane, Tally};
use super::slots::{MOST, Ticket};

/// The layer's word in facts.
pub(super) const GATE: &str = "bulkhead";

/// What all keys share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: Arc<str>,
    pub(super) config: BulkheadConfig,
    pub(super) facts: Facts,
}

/// The slots and the budget of one key. What most keys do without stands beside it, so that many fit.
#[derive(Debug)]
pub(super) struct State {
    pub(super) lane: Lane,
    budget: Option<Box<Mutex<Budget>>>,
    /// As it is shown.
    pub(super) key: Arc<str>,
    pub(super) shared: Arc<Shared>,
}

/// What is decided of a call.
#[derive(Debug)]
pub(super) enum Decision {
    Pass(Account),
    Wait(Account, Ticket, Instant),
    Refuse(Failure),
}

// === impl State ===

impl State {
    pub(super) fn new(shared: &Arc<Shared>, key: Arc<str>, limit: u32) -> Self {
        let budget = shared.config.budget.map(|_| Box::default());
        Self { lane: Lane::new(limit), budget, key, shared: Arc::clone(shared) }
    }

    /// Takes a slot for a call that needs nothing else. If it does not, [`decide`](Self::decide) must.
    #[inline]
    pub(super) fn lets_pass(&self) -> bool {
        self.budget.is_none() && self.lane.try_take()
    }

    /// The budget first: a call it refuses has no business in line. What it put aside is kept in line, too.
    pub(super) fn decide<R: Ask>(&self, request: &R) -> Decision {
        let account = match self.reserve(request) {
            Ok(account) => account,
            Err(failure) => return Decision::Refuse(failure),
        };
        if self.lane.try_take() {
            return Decision::Pass(account);
        }
        self.queue(request, account)
    }

    /// The end of a call in flight.
    #[inline]
    pub(super) fn settle(&self, account: &Account, end: End<'_>) {
        if self.budget.is_some() {
            self.refund(account, account.used(end));
        }
        self.lane.release();
    }

    /// What was put aside is replaced by what was used.
    pub(super) fn refund(&self, account: &Account, used: u64) {
        let (Some(budget), Some(config)) = (&self.budget, &self.shared.config.budget) else { return };
        let warning = {
            let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
            budget.settle(account.reserved(), used, now);
            budget.warning(config)
        };
        self.warn(warning, config.tokens);
    }

    #[inline]
    pub(super) fn emit_admitted(&self, call: CallId, waited: Duration) {
        self.shared.facts.emit(&Fact::Admitted { call, gate: GATE, key: &self.key, waited });
    }

    pub(super) fn emit_refused(&self, call: CallId, failure: &Failure) {
        self.shared.facts.emit(&Fact::Refused { call, gate: GATE, key: &self.key, failure });
    }

    /// The refusal of a call for which there is no slot, nor a place in line.
    fn full(&self, tally: Tally) -> Failure {
        let Tally { limit, in_flight, waiting } = tally;
        let (key, most) = (&self.key, self.shared.config.max_waiting);
        refusal(&format!("{key}: {in_flight} of {limit} slots taken, {waiting} of {most} waiting"), None)
    }

    /// The refusal of a call that waited as long as one may.
    pub(super) fn waited(&self, waited: Duration) -> Failure {
        let Tally { limit, in_flight, waiting } = self.lane.tally();
        let key = &self.key;
        let message = format!(
            "{key}: waited {waited:?} in line, {in_flight} of {limit} slots taken, {waiting} waiting"
        );
        refusal(&message, self.lane.guess())
    }

    /// How the budget stands, if there is one.
    pub(super) fn budget(&self) -> Option<BudgetSnapshot> {
        let (budget, config) = (self.budget.as_ref()?, self.shared.config.budget.as_ref()?);
        Some(budget.lock().unwrap_or_else(PoisonError::into_inner).state(config, now()))
    }

    fn reserve<R: Ask>(&self, request: &R) -> Result<Account, Failure> {
        let (Some(budget), Some(config)) = (&self.budget, &self.shared.config.budget) else {
            return Ok(Account::default());
        };
        let (account, cost) = Account::of(request.cost());
        let at = now();
        let (reserved, warning) = {
            let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
            (budget.reserve(config, cost, at), budget.warning(config))
        };
        self.warn(warning, config.tokens);
        match reserved {
            Ok(reserved) => Ok(account.within(reserved.window)),
            Err(spent) => Err(self.spent(spent, cost)),
        }
    }

    /// The refusal of a call for which the budget has no room.
    fn spent(&self, Spent { used, reserved, limit, retry_after }: Spent, cost: u64) -> Failure {
        let key = &self.key;
        let aside = match reserved {
            0 => String::new(),
            _ => format!(", {reserved} put aside by calls in flight"),
        };
        let message = format!("{key}: {used} of {limit} tokens used{aside}, and the call asks {cost}");
        Failure::local(Code::BudgetExhausted, message).with_retry_after(retry_after)
    }

    fn warn(&self, warning: Option<u64>, limit: u64) {
        if let Some(used) = warning {
            self.shared.facts.emit(&Fact::BudgetWarning { key: &self.key, used, limit });
        }
    }

    /// A place in line for a call that finds no slot, if it can wait.
    #[cold]
    fn queue<R: Ask>(&self, request: &R, account: Account) -> Decision {
        let call = request.call();
        let over = |by: Option<Instant>| by.is_some_and(|by| by <= now());
        // There is no use in a place for one who is gone before its turn, or sent elsewhere at once.
        let can_wait = call.patient && !over(call.first_output_by());
        let most = if can_wait { self.shared.config.max_waiting } else { 0 };
        match self.lane.ask(most, now, |tally| self.full(tally)) {
            Asked::Taken => Decision::Pass(account),
            Asked::Joined(ticket, since) => Decision::Wait(account, ticket, since),
            Asked::Full(full, guess) => {
                self.refund(&account, 0);
                let full = full.with_retry_after(Some(come_back(guess)));
                Decision::Refuse(if over(call.deadline) { self.late() } else { full })
            }
        }
    }

    /// The refusal of a call whose deadline came before its turn.
    pub(super) fn late(&self) -> Failure {
        Failure::local(Code::Deadline, format!("{}: the deadline came before a slot was free", self.key))
    }
}

impl Idle for State {
    fn is_idle(&self) -> bool {
        let Tally { in_flight, waiting, .. } = self.lane.tally();
        in_flight == 0 && waiting == 0 && !self.budget().is_some_and(|budget| budget.is_in_use())
    }
}

/// The limit as it is counted: none is as many as can be.
pub(super) fn limit_of(config: &BulkheadConfig) -> u32 {
    config.max_concurrent.unwrap_or(MOST)
}

#[cold]
pub(super) fn refusal(message: &str, guess: Option<Duration>) -> Failure {
    Failure::local(Code::BulkheadFull, message).with_retry_after(Some(come_back(guess)))
}

fn come_back(guess: Option<Duration>) -> Duration {
    guess.filter(|guess| !guess.is_zero()).unwrap_or(COME_BACK)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn state(config: BulkheadConfig) -> State {
        let limit = limit_of(&config);
        let shared = Arc::new(Shared { name: "wall".into(), config, facts: Facts::default() });
        State::new(&shared, "wall:key".into(), limit)
    }

    /// Scenario: what a key takes in memory while it is idle, without a budget.
    /// Expected: with a name of sixteen bytes and its place in the map it MUST stay within 200 bytes.
    #[test]
    fn an_idle_key_is_small() {
        let counts = 2 * size_of::<usize>();
        let state = size_of::<State>() + counts;
        let name = counts + 16;
        // A place in the list, which grows by doubling, and four bytes and a tag in the index, at most half empty.
        let place = 2 * (size_of::<(Arc<str>, Arc<State>)>() + 5);
        assert!(state + name + place <= 200, "{state} + {name} + {place}");
    }

    /// Scenario: refusals of full slots, then of the same with a lower limit.
    /// Expected: the same words MUST be said again, not written anew; other slots MUST have other words.
    #[test]
    fn a_refusal_is_written_once() {
        let state =
            state(BulkheadConfig { max_concurrent: Some(2), max_waiting: 0, ..BulkheadConfig::default() });
        let refuse = || match state.decide(&http::Request::new(())) {
            Decision::Refuse(failure) => failure,
            other => panic!("{other:?}"),
        };
        assert!(state.lets_pass() && state.lets_pass() && !state.lets_pass());
        let (one, two) = (refuse(), refuse());
        assert_eq!(one.message(), "wall:key: 2 of 2 slots taken, 0 of 0 waiting");
        assert!(std::ptr::eq(one.message(), two.message()));
        state.lane.set_limit(1);
        assert_eq!(refuse().message(), "wall:key: 2 of 1 slots taken, 0 of 0 waiting");
    }
}
