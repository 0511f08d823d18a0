//! One way down the ladder: after a final failure, before the first output.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::chat::{Ask, BoxReply, Request};
use crate::failure::{Code, Failure};
use crate::observe::Follow;
use crate::time::{Instant, now, sleep_until};

use super::answer::Answer;
use super::ladder::Ladder;
use super::left_out::LeftOut;
use super::route::Route;
use super::rung::{Case, Needs, Rung};

/// What a rung that asks no model may take past the call's deadline: 1 s, a look into a cache or a line elsewhere. Our
/// own take none of it; whoever gave a deadline waits no longer than that past it for each.
const GRACE: Duration = Duration::from_secs(1);

/// A way down in progress. Boxed, since nobody comes here on a good day.
pub(super) type Climb = Pin<Box<dyn Future<Output = Result<BoxReply, Failure>> + Send>>;

/// Begins a way down, or hands the failure back where it goes nowhere. What was left out of the call did not help, and
/// that is on the record.
pub(super) fn begin(ladder: &Arc<Ladder>, request: &Request, failure: Failure) -> Result<Climb, Failure> {
    if ladder.left_out.is_some() {
        LeftOut::failed(ladder, request.call().id, &failure);
    }
    let route = Route::of(&failure, is_late(request, now()));
    if route == Route::Nowhere {
        return Err(failure);
    }
    let mut case = Case::new(request.clone(), failure, ladder.facts.clone());
    if let Some(left_out) = &ladder.left_out {
        case.leave_out(left_out);
    }
    Ok(Box::pin(climb(Arc::clone(ladder), case, route)))
}

/// Tries one rung after another.
async fn climb(ladder: Arc<Ladder>, mut case: Case, route: Route) -> Result<BoxReply, Failure> {
    for entry in ladder.plan(&mut case, route) {
        let rung = &*entry.rung;
        // The rungs before may have taken the time that this one needs.
        if rung.needs() != Needs::Nothing && is_late(&case.request, now()) {
            case.note(rung.name(), None, &overdue());
            continue;
        }
        let answer = timed(&ladder, rung, &mut case).await;
        entry.counts.count(answer.is_ok());
        match answer {
            Ok(answer) => return Ok(accept(&ladder, case, rung, answer)),
            Err(failure) => case.note(rung.name(), None, &failure),
        }
    }
    Err(case.failure)
}

/// The answer of a rung, within its time and the call's. A rung that needs no model has its [`GRACE`] even when the
/// caller's time is over: without it there would be no answer at all.
async fn timed(ladder: &Ladder, rung: &dyn Rung, case: &mut Case) -> Result<Answer, Failure> {
    let own = ladder.config.rung_timeout.and_then(|time| now().checked_add(time));
    let grace = if rung.needs() == Needs::Nothing { now().checked_add(GRACE) } else { None };
    let deadline =
        case.request.call().deadline.map(|deadline| grace.map_or(deadline, |grace| grace.max(deadline)));
    let until = match (own, deadline) {
        (Some(own), Some(deadline)) => Some(own.min(deadline)),
        (own, deadline) => own.or(deadline),
    };
    let mut answer = rung.try_answer(case);
    let Some(until) = until else { return answer.await };
    let mut timer = pin!(sleep_until(until));
    std::future::poll_fn(|cx| match answer.as_mut().poll(cx) {
        Poll::Pending => timer.as_mut().poll(cx).map(|()| Err(overdue())),
        ready @ Poll::Ready(_) => ready,
    })
    .await
}

/// The reply of an answer, with the record in its head.
fn accept(ladder: &Ladder, case: Case, rung: &dyn Rung, answer: Answer) -> BoxReply {
    let Case { request, failure, mut record, .. } = case;
    let Answer { mut reply, lack } = answer;
    lack.write(rung.name(), &mut record);
    ladder.tell(request.call().id, rung.name(), record.quality_estimate, &failure);
    let mut attempts = failure.attempts().to_vec();
    attempts.push(failure.as_attempt());
    reply.remember(attempts);
    reply.head_mut().degradation = Some(Box::new(record));
    reply
}

fn is_late(request: &Request, now: Instant) -> bool {
    request.call().deadline.is_some_and(|deadline| now >= deadline)
}

fn overdue() -> Failure {
    Failure::local(Code::Deadline, "the time for it is over")
}
