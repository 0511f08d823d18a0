//! The first rung: another model.

use std::collections::HashMap;

use crate::chat::{Ask, Call, Level, Request};
use crate::failure::Failure;

use super::answer::{Answer, Lack};
use super::ladder::{Place, not_callable};
use super::other::Other;
use super::rung::{Answering, CallableWhen, Case, Consider, Needs, Rung};
use super::tools::leave_out;

/// Asks other models, in order, each once.
#[derive(Clone)]
pub(super) struct FallbackModel {
    pub(super) service: Other,
    pub(super) models: Vec<String>,
    pub(super) callable: HashMap<String, CallableWhen>,
    pub(super) quality: f64,
    /// What an answer is worth for which a tool was not offered.
    pub(super) quality_without: f64,
}

// === impl FallbackModel ===

impl FallbackModel {
    /// The models that were not tried in this call.
    fn untried<'a>(&'a self, case: &'a Case) -> impl Iterator<Item = &'a String> {
        self.models.iter().filter(|model| **model != case.request.model && !has_tried(&case.failure, model))
    }

    /// The answer of a model that was not offered these tools.
    fn lacking_tools(&self, answer: Answer, shut: &[String]) -> Answer {
        if shut.is_empty() { answer } else { answer.lacking(Lack::without(shut, self.quality_without)) }
    }

    fn is_callable(&self, model: &str) -> bool {
        self.callable.get(model).is_none_or(CallableWhen::is_callable)
    }
}

impl Rung for FallbackModel {
    fn name(&self) -> &str {
        Place::FallbackModel.as_str()
    }

    fn needs(&self) -> Needs {
        Needs::Model
    }

    fn consider(&self, case: &Case) -> Consider {
        let mut untried = self.untried(case).peekable();
        let Some(first) = untried.peek().copied() else { return Consider::Pass };
        if untried.any(|model| self.is_callable(model)) {
            return Consider::Try;
        }
        Consider::Skip(not_callable(first))
    }

    fn try_answer<'a>(&'a self, case: &'a mut Case) -> Answering<'a> {
        Box::pin(async move {
            let untried: Vec<_> = self.untried(case).cloned().collect();
            let asked = case.request.model.clone();
            let mut last: Option<(String, Failure)> = None;
            for model in untried {
                // All but the last are noted here; the last is the rung's own failure.
                if let Some((model, failure)) = last.take() {
                    case.note(self.name(), Some(&model), &failure);
                }
                let answer = if self.is_callable(&model) {
                    self.service.ask(asking(case, &model)).await
                } else {
                    Err(not_callable(&model))
                };
                match answer {
                    Ok(reply) => {
                        let message = format!("Answered by {model}: {asked} could not answer.");
                        let answer = Answer::new(reply, Level::Fallback, self.quality).by(model);
                        return Ok(self.lacking_tools(answer.message(message), &case.shut));
                    }
                    Err(failure) => last = Some((model, failure)),
                }
            }
            Err(last.map_or_else(|| not_callable(&asked), |(_, failure)| failure))
        })
    }
}

/// The request as another model is to see it: the same call, with a fresh count of attempts and candidates, and without
/// tools that cannot be called.
fn asking(case: &Case, model: &str) -> Request {
    let mut request = anew(&case.request);
    model.clone_into(&mut request.edit().model);
    if case.shut.is_empty() { request } else { leave_out(request, &case.shut) }
}

/// The request as a new service is to see it.
pub(super) fn anew(request: &Request) -> Request {
    let mut request = request.clone();
    let mut call = request.call();
    call.attempt = Call::UNNAMED.attempt;
    call.candidate = Call::UNNAMED.candidate;
    call.commit_by = None;
    call.single = false;
    request.set_call(call);
    request
}

/// Whether a model was asked in a call that failed.
fn has_tried(failure: &Failure, model: &str) -> bool {
    let is_it = |tried: Option<&std::sync::Arc<str>>| tried.is_some_and(|tried| **tried == *model);
    is_it(failure.model())
        || failure.attempts().iter().any(|tried| tried.skip.is_none() && is_it(tried.model.as_ref()))
}
