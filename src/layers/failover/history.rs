//! Who was tried and who was passed over in one call.

use std::time::Duration;

use crate::failure::{Attempt, Code, Failure};

#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) attempts: Vec<Attempt>,
    candidates: usize,
    pub(super) asked: bool,
    retry_after: Option<Duration>,
}

// === impl History ===

impl History {
    pub(super) fn note(&mut self, failure: &Failure) {
        self.candidates += 1;
        self.attempts.extend_from_slice(failure.attempts());
        self.attempts.push(failure.as_attempt());
        self.retry_after = match (self.retry_after, failure.retry_after()) {
            (Some(known), Some(new)) => Some(known.min(new)),
            (known, new) => known.or(new),
        };
    }

    pub(super) fn append_to(&mut self, failure: Failure) -> Failure {
        let mut attempts = std::mem::take(&mut self.attempts);
        if attempts.is_empty() {
            return failure;
        }
        attempts.extend_from_slice(failure.attempts());
        failure.with_attempts(attempts)
    }

    /// What goes up when nobody is left.
    pub(super) fn end(&mut self, last: Option<Failure>) -> Failure {
        let history = std::mem::take(self);
        match last {
            Some(failure) if history.candidates < 2 => failure,
            _ => Failure::new(Code::AllFailed, history.summary())
                .with_retry_after(history.retry_after)
                .with_attempts(history.attempts),
        }
    }

    /// The causes, in order.
    fn summary(&self) -> String {
        let causes: Vec<String> = self
            .attempts
            .iter()
            .map(|attempt| match &attempt.provider {
                Some(provider) => format!("{provider}: {} {}", attempt.code, attempt.message),
                None => format!("{} {}", attempt.code, attempt.message),
            })
            .collect();
        causes.join("; ")
    }
}
