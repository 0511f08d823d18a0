//! The last rung: words a person can act on.

use std::time::Duration;

use crate::chat::Level;
use crate::failure::{Code, Failure};

use super::answer::Answer;
use super::config::GracefulConfig;
use super::ladder::Place;
use super::rung::{Answering, Case, Rung};

/// Beyond this, in seconds, hours are not counted any more: two days.
const A_FEW_DAYS: u64 = 2 * 24 * 3_600;

/// Says what happened, when to come back, and whom to ask. It never errs.
pub(super) struct GracefulFailure(pub(super) GracefulConfig);

// === impl GracefulFailure ===

impl GracefulFailure {
    fn words(&self, failure: &Failure) -> String {
        if let Some(words) = self.0.words.get(&failure.code()) {
            return words.clone();
        }
        let mut words = what(failure.code()).to_owned();
        if passes(failure.code()) {
            let when = failure.retry_after().map_or_else(|| "a few minutes".to_owned(), spoken);
            words.push_str(&format!(" Please try again in {when}."));
        }
        if let Some(contact) = &self.0.support_contact {
            words.push_str(&format!(" If it goes on, ask {contact}."));
        }
        words
    }
}

impl Rung for GracefulFailure {
    fn name(&self) -> &str {
        Place::GracefulFailure.as_str()
    }

    fn try_answer<'a>(&'a self, case: &'a mut Case) -> Answering<'a> {
        Box::pin(async move {
            let answer = Answer::text(case, Level::Failed, 0.0, self.words(&case.failure));
            Ok(answer.missing("answer").contact(self.0.support_contact.clone()))
        })
    }
}

/// What happened, for the person who asked.
pub(super) const fn what(code: Code) -> &'static str {
    match code {
        Code::BudgetExhausted => "Your budget is used up for now.",
        Code::BulkheadFull | Code::LimiterFull | Code::RateLimited | Code::Overloaded => {
            "There are too many requests at the moment."
        }
        Code::ContextLength | Code::PayloadTooLarge | Code::CostAboveCapacity => {
            "The conversation is too long to be answered. Please shorten it, or begin a new one."
        }
        Code::NotFound => "The model that was asked is not available here. Please choose another.",
        Code::Permission | Code::Blocked => {
            "The assistant may not be used from here. Please ask whoever runs it for access."
        }
        Code::Deadline | Code::Timeout(_) | Code::RequestTimeout => "The answer did not come in time.",
        Code::EmptyResponse
        | Code::StrayToolCall
        | Code::UnknownTool
        | Code::InvalidToolArguments
        | Code::Repetition => "The assistant gave no answer that can be used. Please ask in other words.",
        _ => "The assistant cannot be reached right now.",
    }
}

/// Whether waiting helps.
const fn passes(code: Code) -> bool {
    !matches!(
        code,
        Code::ContextLength
            | Code::PayloadTooLarge
            | Code::CostAboveCapacity
            | Code::NotFound
            | Code::Permission
            | Code::Blocked
            | Code::EmptyResponse
            | Code::StrayToolCall
            | Code::UnknownTool
            | Code::InvalidToolArguments
            | Code::Repetition
    )
}

/// A wait as people say it, rounded up: sooner would be too soon.
pub(super) fn spoken(wait: Duration) -> String {
    let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    let (count, unit) = match seconds {
        ..90 => (seconds.max(1), "second"),
        90..5_400 => (seconds.div_ceil(60), "minute"),
        5_400..A_FEW_DAYS => (seconds.div_ceil(3_600), "hour"),
        // A longer wait than this is no promise to a person.
        _ => return "a few days".to_owned(),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}
