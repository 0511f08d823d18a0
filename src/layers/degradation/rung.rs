//! What a rung is, what it is told, and how it answers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::chat::{Ask, Completion, Degradation, Request, Tried};
use crate::event::{Fact, Facts};
use crate::failure::Failure;

use super::answer::Answer;
use super::left_out::LeftOut;

/// An answer on its way. Boxed, since nobody comes here on a good day.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send + 'a>>;

/// One way to answer when the call as it was asked cannot be.
///
/// ```
/// use watertight::chat::Level;
/// use watertight::failure::{Code, Failure};
/// use watertight::layers::degradation::{Answer, Answering, Case, Place, Rung};
/// use watertight::layers::DegradationLayer;
///
/// struct OpeningHours;
///
/// impl Rung for OpeningHours {
///     fn name(&self) -> &str {
///         "opening_hours"
///     }
///
///     fn try_answer<'a>(&'a self, case: &'a mut Case) -> Answering<'a> {
///         Box::pin(async move {
///             let question = case.request().messages.last().map(|turn| turn.to_text()).unwrap_or_default();
///             if !question.contains("open") {
///                 return Err(Failure::local(Code::NotFound, "it is not about opening hours"));
///             }
///             Ok(Answer::text(case, Level::Fallback, 0.9, "We are open from 9 to 17."))
///         })
///     }
/// }
///
/// let layer = DegradationLayer::default().rung_after(Place::SkipTool, OpeningHours);
/// ```
pub trait Rung: Send + Sync {
    /// Its name in records and facts.
    fn name(&self) -> &str;

    /// What it needs, which decides the failures it is asked about.
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    /// Whether it may help at all, asked when the ladder is planned: nothing may be sent or taken for it.
    fn consider(&self, case: &Case) -> Consider {
        let _ = case;
        Consider::Try
    }

    /// Answers, or says why it cannot; then the next rung is tried.
    fn try_answer<'a>(&'a self, case: &'a mut Case) -> Answering<'a>;

    /// A whole answer came, of the very request: a rung that keeps answers may keep it. Told of none that is degraded
    /// or broke off.
    fn learn(&self, request: &Request, answer: &Completion) {
        let _ = (request, answer);
    }

    /// Whether it wants to be told.
    fn learns(&self) -> bool {
        false
    }
}

/// What a rung needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Needs {
    /// Another model: it is not asked when the caller's budget is spent, his time over, or a tool to blame.
    Model,
    /// The same model without a tool: it is not asked when the caller's budget is spent or his time over.
    Tools,
    /// No model: it is always asked.
    Nothing,
}

/// Whether a rung may help.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Consider {
    /// It may.
    Try,
    /// It has nothing to do with this call, and nobody need hear of it.
    Pass,
    /// It would, were it not for this: the record tells it.
    Skip(Failure),
}

/// Whether something may be called now: `breaker.is_callable()` in a closure. It is asked of a model when a ladder is
/// planned, and of a tool before each call that offers it, too: it must take nothing, and little time.
#[derive(Clone)]
pub struct CallableWhen(Arc<dyn Fn() -> bool + Send + Sync>);

/// A call that could not be answered as it was asked, and what became of it so far.
pub struct Case {
    pub(super) request: Request,
    pub(super) failure: Failure,
    pub(super) record: Degradation,
    /// Tools that failed, or cannot be called now.
    pub(super) down: Vec<String>,
    /// Those that the call was made without, since they could not be called then.
    pub(super) left_out: Vec<String>,
    /// The same, and those that cannot be called now: no model is offered them.
    pub(super) shut: Vec<String>,
    pub(super) facts: Facts,
}

// === impl CallableWhen ===

impl CallableWhen {
    /// Asks this closure.
    pub fn new(ask: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Whether it may be called now.
    #[must_use]
    pub fn is_callable(&self) -> bool {
        self.0()
    }
}

impl fmt::Debug for CallableWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallableWhen").finish_non_exhaustive()
    }
}

// === impl Case ===

impl Case {
    pub(super) fn new(request: Request, failure: Failure, facts: Facts) -> Self {
        let record = Degradation::after(failure.clone());
        let down = failure.tool().map(str::to_owned).into_iter().collect();
        Self { request, failure, record, down, left_out: Vec::new(), shut: Vec::new(), facts }
    }

    /// The call that failed was made without these.
    pub(super) fn leave_out(&mut self, left_out: &LeftOut) {
        self.record.fallback_chain = left_out.tried(&self.failure);
        self.left_out.clone_from(&left_out.tools);
    }

    /// The request as it was asked: with all tools, be they [down](Self::tools_down) or not.
    #[must_use]
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// Why it could not be answered.
    #[must_use]
    pub const fn failure(&self) -> &Failure {
        &self.failure
    }

    /// The record so far.
    #[must_use]
    pub const fn record(&self) -> &Degradation {
        &self.record
    }

    /// The tools that failed, or cannot be called now.
    #[must_use]
    pub fn tools_down(&self) -> &[String] {
        &self.down
    }

    /// Notes that one of a rung's means could not help, for rungs that have several.
    pub fn note(&mut self, rung: &str, by: Option<&str>, failure: &Failure) {
        self.record.fallback_chain.push(Tried::failed(rung, by.map(str::to_owned), failure));
        self.facts.emit(&Fact::Rung { call: self.request.call().id, rung, failure: Some(failure) });
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("failure", &self.failure)
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}
