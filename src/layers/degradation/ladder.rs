//! The rungs in order, and which of them a failure may try.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::chat::{CallId, Completion, Content, Head, Message, Request, Role};
use crate::event::{Fact, Facts};
use crate::failure::{Code, Failure};

use super::config::DegradationConfig;
use super::counts::{Counts, Snapshot};
use super::left_out::LeftOut;
use super::route::Route;
use super::rung::{CallableWhen, Case, Consider, Rung};

/// The six rungs, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Place {
    /// Another model.
    FallbackModel,
    /// The same model without a tool.
    SkipTool,
    /// An answer of an earlier call.
    CachedAnswer,
    /// A promise.
    Deferred,
    /// What came before the stream broke.
    PartialResult,
    /// Words.
    GracefulFailure,
}

/// The rungs, and what decides between them. Changed while a layer is built, never after; a call that lacks a tool has a
/// copy, so that all others carry nothing for it.
#[derive(Clone)]
pub(super) struct Ladder {
    pub(super) config: DegradationConfig,
    pub(super) facts: Facts,
    entries: Vec<Entry>,
    /// Whether tools can be called, by their names.
    pub(super) tools: HashMap<String, CallableWhen>,
    /// Whether any rung wants to be told of whole answers.
    pub(super) learns: bool,
    pub(super) partial: Arc<Counts>,
    /// Of the second rung, be it taken before the call or after its failure.
    pub(super) skipped: Arc<Counts>,
    /// What the one call of this ladder is made without; none where it is the ladder of many.
    pub(super) left_out: Option<LeftOut>,
}

/// One rung where it stands.
#[derive(Clone)]
pub(super) struct Entry {
    place: Place,
    /// Whether it is one of the user's, which follows the place it names.
    own: bool,
    pub(super) rung: Arc<dyn Rung>,
    pub(super) counts: Arc<Counts>,
}

// === impl Place ===

impl Place {
    /// The stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FallbackModel => "fallback_model",
            Self::SkipTool => "skip_tool",
            Self::CachedAnswer => "cached_answer",
            Self::Deferred => "deferred",
            Self::PartialResult => "partial_result",
            Self::GracefulFailure => "graceful_failure",
        }
    }
}

// === impl Ladder ===

impl Ladder {
    pub(super) fn new(config: DegradationConfig) -> Self {
        Self {
            config,
            facts: Facts::default(),
            entries: Vec::new(),
            tools: HashMap::new(),
            learns: false,
            partial: Arc::default(),
            skipped: Arc::default(),
            left_out: None,
        }
    }

    /// The same, for a call that is made without these.
    pub(super) fn without(&self, left_out: LeftOut) -> Self {
        Self { left_out: Some(left_out), ..self.clone() }
    }

    /// Puts a rung where it belongs: one of ours replaces the one that stands there, an own one comes behind those
    /// that were put there before.
    pub(super) fn put(&mut self, place: Place, own: bool, rung: Arc<dyn Rung>) {
        if !own {
            self.entries.retain(|entry| entry.own || entry.place != place);
        }
        self.learns |= rung.learns();
        let at = self.entries.partition_point(|entry| (entry.place, entry.own) <= (place, own));
        let counts = match place {
            Place::SkipTool if !own => Arc::clone(&self.skipped),
            _ => Arc::default(),
        };
        self.entries.insert(at, Entry { place, own, rung, counts });
    }

    /// Whether one of ours stands there.
    pub(super) fn has(&self, place: Place) -> bool {
        self.entries.iter().any(|entry| !entry.own && entry.place == place)
    }

    /// The rungs that a case may try, in order; those that would help but for a reason are noted.
    pub(super) fn plan(&self, case: &mut Case, route: Route) -> Vec<&Entry> {
        self.survey(case);
        let mut planned = Vec::new();
        for entry in self.entries.iter().filter(|entry| route.leads_to(entry.rung.needs())) {
            match entry.rung.consider(case) {
                Consider::Try => planned.push(entry),
                Consider::Pass => {}
                Consider::Skip(failure) => case.note(entry.rung.name(), None, &failure),
            }
        }
        // The words at the end are the last of the depth, never beyond it.
        if planned.len() > self.config.max_depth {
            let last = planned.pop().filter(|entry| entry.place == Place::GracefulFailure && !entry.own);
            planned.truncate(self.config.max_depth - usize::from(last.is_some()));
            planned.extend(last);
        }
        planned
    }

    /// Tells whoever keeps answers of a whole one.
    pub(super) fn learn(&self, request: &Request, answer: &Completion) {
        for entry in self.entries.iter().filter(|entry| entry.rung.learns()) {
            entry.rung.learn(request, answer);
        }
    }

    /// The model that answered in the place of the one that was asked, if it was another: a failover beneath is told
    /// by the tries in the head, or by the name of a fallback.
    pub(super) fn stand_in<'a>(&self, request: &Request, head: &'a Head) -> Option<&'a str> {
        let model = head.model.as_deref().filter(|model| *model != request.model)?;
        let other = |provider: &Option<Arc<str>>| provider.is_some() && *provider != head.provider;
        // While the first candidate rests, calls go on to another without a try that would tell.
        let failed_over = head.candidate > 0 || head.attempts.iter().any(|attempt| other(&attempt.provider));
        (failed_over || self.config.fallback_models.iter().any(|name| name == model)).then_some(model)
    }

    /// The optional tools that a request offers and that cannot be called now.
    pub(super) fn shut(&self, request: &Request) -> Vec<String> {
        let mut shut = Vec::new();
        for tool in &request.tools {
            let callable = self.tools.get(&tool.name);
            if callable.is_some_and(|tool| !tool.is_callable()) && !shut.contains(&tool.name) {
                shut.push(tool.name.clone());
            }
        }
        shut
    }

    /// Tells of a rung that answered.
    pub(super) fn tell(&self, call: CallId, rung: &str, quality: f64, failure: &Failure) {
        self.facts.emit(&Fact::Rung { call, rung, failure: None });
        self.facts.emit(&Fact::Degraded { call, rung, quality, failure });
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let shown = |entry: &Entry| entry.counts.snapshot(entry.rung.name());
        let mut rungs: Vec<_> = self.entries.iter().map(shown).collect();
        // Two rungs need no entry: the first of them is behind the other, so that it moves nothing of its.
        let mut add = |place: Place, counts: &Counts| {
            let at = self.entries.partition_point(|entry| entry.place < place);
            rungs.insert(at, counts.snapshot(place.as_str()));
        };
        if self.config.max_partial.is_some() {
            add(Place::PartialResult, &self.partial);
        }
        if !self.tools.is_empty() && !self.has(Place::SkipTool) {
            add(Place::SkipTool, &self.skipped);
        }
        Snapshot { rungs }
    }

    /// Adds the tools that cannot help to the one that failed: left out, not callable now, or failed in the turn before.
    fn survey(&self, case: &mut Case) {
        case.shut.clone_from(&case.left_out);
        add_new(&mut case.shut, self.shut(&case.request));
        let before: Vec<_> = failed_before(&case.request.messages).collect();
        add_new(&mut case.down, case.shut.iter().cloned().chain(before));
    }
}

impl std::fmt::Debug for Ladder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rungs: Vec<_> = self.entries.iter().map(|entry| entry.rung.name()).collect();
        f.debug_struct("Ladder").field("config", &self.config).field("rungs", &rungs).finish_non_exhaustive()
    }
}

/// Adds names that are not among these yet.
pub(super) fn add_new(names: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for name in more {
        if !names.contains(&name) {
            names.push(name);
        }
    }
}

/// A thing of this kind that is refused by its breaker.
pub(super) fn not_callable(name: &str) -> Failure {
    Failure::local(Code::CircuitOpen, format!("`{name}` cannot be called now"))
}

/// The tools whose results in the last turn are errors.
fn failed_before(messages: &[Message]) -> impl Iterator<Item = String> + '_ {
    let turn = messages.iter().rposition(|message| message.role == Role::Assistant);
    let results = turn.map_or(&[][..], |at| &messages[at + 1..]).iter().flat_map(|message| &message.parts);
    results.filter_map(move |part| match &part.content {
        Content::ToolResult(result) if result.is_error => {
            let mut calls = messages[turn?].tool_calls();
            calls.find(|call| call.id == result.id).map(|call| call.name.clone())
        }
        _ => None,
    })
}
