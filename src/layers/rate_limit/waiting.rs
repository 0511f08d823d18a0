//! A call that cannot pass now: refused, or in line.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::chat::{Call, CallId};
use crate::failure::Failure;
use crate::gate::Admit;
use crate::store::{Costs, Ledger, Short, Store};
use crate::time::{Instant, after, now, timeout_at};

use super::config::Mode;
use super::line::{Line, Place};
use super::reservation::Reservation;
use super::state::{State, Wait};

/// A call that cannot pass now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    pub(super) costs: Costs,
    /// Its input where that is an estimate.
    pub(super) estimated: Option<NonZeroU32>,
    /// What the quotas said, where they were asked.
    pub(super) known: Option<Short>,
    pub(super) now: Instant,
}

/// What a call in line asks for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    call: CallId,
    costs: Costs,
    estimated: Option<NonZeroU32>,
    since: Instant,
    /// When waiting is of no more use.
    last: Instant,
}

/// A call in line. Dropped at any poll, it has left.
#[derive(Debug)]
struct Waiter<K: Store> {
    place: Place<Held<K::Ledger>>,
    asked: Asked,
}

/// A state as the owner of its line.
#[derive(Debug)]
struct Held<L>(Arc<State<L>>);

// === impl Waiter ===

impl<K: Store> Waiter<K> {
    fn join(state: Arc<State<K::Ledger>>, asked: Asked) -> Self {
        Self { place: Place::join(Held(state), asked.costs), asked }
    }

    /// Waits for its turn, and then for what it asks.
    async fn admitted(mut self) -> Result<Reservation<K>, Failure> {
        if timeout_at(self.asked.last, self.place.turn()).await.is_err() {
            return Err(self.late());
        }
        loop {
            let now = now();
            let until = match self.state().take(&self.asked.costs, now).await {
                Ok(()) => return Ok(self.granted(now)),
                Err(Wait::Quota(Short::Never { dimension, capacity })) => {
                    let Asked { call, costs, .. } = self.asked;
                    return Err(self.state().too_dear(call, &costs, dimension, capacity));
                }
                Err(Wait::Quota(Short::Until(until))) if until > self.asked.last => return Err(self.late()),
                Err(Wait::Quota(Short::Until(until))) => until,
                Err(Wait::Slot) if now >= self.asked.last => return Err(self.late()),
                Err(Wait::Slot) => self.asked.last,
            };
            // Whether it is time or something changed: it is asked again.
            let _ = timeout_at(until, self.state().line.changed()).await;
        }
    }

    fn state(&self) -> &Arc<State<K::Ledger>> {
        &self.place.owner().0
    }

    fn granted(self, now: Instant) -> Reservation<K> {
        let state = Arc::clone(self.state());
        let Asked { call, costs, estimated, since, .. } = self.asked;
        // It leaves the line first: whoever is told of the admission sees the line without it.
        drop(self);
        state.tell_admitted(call, now.saturating_duration_since(since));
        Reservation::new(state, call, costs, estimated, now)
    }

    /// The refusal of a call that cannot pass in time after all.
    fn late(&self) -> Failure {
        let (state, now) = (self.state(), now());
        let promise = state.ledger.promise(&self.asked.costs, &Default::default(), now).ok();
        let wait = promise.map(|promise| promise.saturating_duration_since(now));
        state.full(self.asked.call, wait)
    }
}

// === impl Held ===

impl<L> AsRef<Line> for Held<L> {
    fn as_ref(&self) -> &Line {
        &self.0.line
    }
}

/// Lets a call wait, or refuses it at once: one that cannot pass in time must not find that out by waiting.
#[cold]
pub(super) fn line_up<K: Store>(
    state: Arc<State<K::Ledger>>,
    call: Call,
    asking: Asking,
) -> Admit<Reservation<K>> {
    let Asking { costs, estimated, known, now } = asking;
    // It may have held for a moment what the head of the line looked for just then.
    state.line.wake();
    let promise = match known {
        // Nobody was in line when this was said.
        Some(short) => Err(short),
        None => state.ledger.promise(&costs, &state.line.ahead(), now),
    };
    let promise = match promise {
        Ok(promise) | Err(Short::Until(promise)) => promise,
        Err(Short::Never { dimension, capacity }) => {
            return Admit::Refused(state.too_dear(call.id, &costs, dimension, capacity));
        }
    };
    let config = &state.terms.config;
    let last = after(now, config.acquire_timeout);
    let last = call.first_output_by().map_or(last, |by| by.min(last));
    let may_wait = call.patient && config.mode == Mode::Wait && state.line.waiting() < config.max_waiting;
    if !may_wait || promise > last {
        return Admit::Refused(state.full(call.id, Some(promise.saturating_duration_since(now))));
    }
    let asked = Asked { call: call.id, costs, estimated, since: now, last };
    Admit::Wait(Box::pin(Waiter::join(state, asked).admitted()))
}
