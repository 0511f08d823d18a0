//! The rung.

use crate::chat::{Completion, Kept, Level, Request, Usage};
use crate::failure::{Code, Failure};

use super::super::answer::Answer;
use super::super::canned;
use super::super::graceful::spoken;
use super::super::ladder::Place;
use super::super::rung::{Answering, Case, Consider, Rung};
use super::answers::AnswerCache;

/// Serves what is kept, and keeps what is whole.
pub(in super::super) struct CachedAnswer {
    cache: AnswerCache,
    quality: f64,
}

// === impl CachedAnswer ===

impl CachedAnswer {
    pub(in super::super) const fn new(cache: AnswerCache, quality: f64) -> Self {
        Self { cache, quality }
    }
}

impl Rung for CachedAnswer {
    fn name(&self) -> &str {
        Place::CachedAnswer.as_str()
    }

    fn consider(&self, case: &Case) -> Consider {
        if self.cache.takes(case.request()) { Consider::Try } else { Consider::Pass }
    }

    fn try_answer<'a>(&'a self, case: &'a mut Case) -> Answering<'a> {
        Box::pin(async move {
            let Some((mut completion, age)) = self.cache.find(case.request()).await else {
                return Err(Failure::local(Code::NotFound, "no answer to this is kept"));
            };
            // It cost nothing this time.
            completion.usage = Some(Usage::default());
            let stale = self.cache.is_stale(age);
            let doubt = if stale { ", and may be out of date" } else { "" };
            let message = format!("This answer was given {} ago{doubt}.", spoken(age));
            let answer =
                Answer::new(canned::reply(case.request(), completion), Level::Fallback, self.quality);
            let answer = answer.kept(Kept::new(age, stale)).message(message);
            Ok(if stale { answer.missing("fresh_answer") } else { answer })
        })
    }

    fn learn(&self, request: &Request, answer: &Completion) {
        self.cache.keep(request, answer);
    }

    fn learns(&self) -> bool {
        true
    }
}
