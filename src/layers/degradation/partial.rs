//! The fifth rung: what came before the stream broke.

use crate::chat::{Completion, Content, Degradation, Level, Message, Stop, Tried};
use crate::failure::Failure;

use super::ending::Ending;
use super::graceful::what;
use super::ladder::Place;
use super::route::Route;
use super::stream::Following;

/// Why a partial answer stopped, where others say `stop` or `length`.
const STOP: &str = "partial_result";

/// The end of an answer that broke off; none where nothing of use came, or the failure is one that goes up as it is.
///
/// Where it stands in for a call that failed, that failure is what it stands for; else this one is.
#[cold]
pub(super) fn partial(following: &mut Following, failure: &Failure, stands_in: bool) -> Option<Completion> {
    let gathered = following.gathered.take()?;
    if Route::of(failure, false) == Route::Nowhere {
        return None;
    }
    let usage = gathered.usage();
    let message = gathered.partial();
    if !has_text(&message) {
        return None;
    }
    let rung = Place::PartialResult.as_str();
    let record = match following.lacks.take().map(|lacks| lacks.record()) {
        Some(record) if stands_in => record.and_then(failure),
        Some(record) => record.and_then(failure).caused_by(failure),
        None => Degradation::after(failure.clone()),
    };
    let Ending { ladder, call, .. } = &following.ending;
    let record = complete(record, ladder.config.quality.partial_result, failure);
    ladder.partial.count(true);
    ladder.tell(*call, rung, record.quality_estimate, failure);
    let mut completion = Completion::new(message, Stop::Other(STOP.into()), usage);
    completion.degradation = Some(Box::new(record));
    Some(completion)
}

/// Whether there is anything in it that a person can read.
fn has_text(message: &Message) -> bool {
    message.parts.iter().any(|part| matches!(&part.content, Content::Text(text) if !text.is_empty()))
}

fn complete(mut record: Degradation, quality: f64, failure: &Failure) -> Degradation {
    record.level = Level::Partial;
    record.quality_estimate = record.quality_estimate.min(quality);
    record.fallback_chain.push(Tried::answered(Place::PartialResult.as_str(), None));
    record.missing_components.push("rest_of_answer".into());
    let why = what(failure.code());
    record.user_message = format!("The answer broke off, and its rest is missing. {why}");
    record
}
