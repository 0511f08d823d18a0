//! A call in line.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::chat::Call;
use crate::gate::Waiting;
use crate::time::{Instant, now, timeout_at};

use super::account::Account;
use super::permit::Permit;
use super::slots::Ticket;
use super::state::State;

/// A place in line, or the slot it became: given up on drop, whichever it is.
struct Place {
    state: Arc<State>,
    account: Account,
    ticket: Ticket,
    held: bool,
}

/// Waits for a slot, as long as one may and the call's first output is of use. The place is held from here on, and given
/// up when the wait is dropped, polled or not.
pub(super) fn wait(
    state: Arc<State>,
    account: Account,
    ticket: Ticket,
    since: Instant,
    call: Call,
) -> Waiting<Permit> {
    let place = Place { state: Arc::clone(&state), account, ticket, held: true };
    Box::pin(async move {
        let longest = since.checked_add(state.shared.config.max_wait);
        let turn = poll_fn(|cx| place.poll(cx));
        match [longest, call.first_output_by()].into_iter().flatten().min() {
            Some(until) => _ = timeout_at(until, turn).await,
            None => turn.await,
        }
        let ended = now();
        let waited = ended.saturating_duration_since(since);
        // A turn that comes together with the end of the wait is a turn.
        if let Some(permit) = place.end(call) {
            state.emit_admitted(call.id, waited);
            return Ok(permit);
        }
        let over = call.deadline.is_some_and(|by| by <= ended);
        let failure = if over { state.late() } else { state.waited(waited) };
        state.emit_refused(call.id, &failure);
        Err(failure)
    })
}

// === impl Place ===

impl Place {
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.state.lane.is_granted(self.ticket, cx.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The permit, if it was granted; else it leaves the line.
    fn end(mut self, call: Call) -> Option<Permit> {
        self.held = false;
        if self.state.lane.leave(self.ticket) {
            self.state.refund(&self.account, 0);
            return None;
        }
        Some(Permit::new(Arc::clone(&self.state), self.account, call.id))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.held {
            if !self.state.lane.leave(self.ticket) {
                self.state.lane.release();
            }
            self.state.refund(&self.account, 0);
        }
    }
}
