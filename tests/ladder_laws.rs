//! The laws of the degradation ladder, held to random rungs and scripts; beside each stand ladders that break it. And
//! what breakers make of a degraded answer: nothing they would not make of the failure.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;
use support::{Act, Log, Script, Stage, ask, fail, request};
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{BoxReply, Completion, Degradation, Event, Level, Reply, Request};
use watertight::event::{Fact, Facts};
use watertight::failure::{Code, Failure};
use watertight::gate::{Admission, Admit, Gate};
use watertight::layers::DegradationLayer;
use watertight::layers::degradation::{
    Answer, Answering, Case, Consider, DegradationConfig, Needs, Place, Rung,
};
use watertight::observe::{End, Observer, Outcome};

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

/// What a rung does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Passes,
    Skips,
    Errs,
    Hangs,
    Answers,
}

/// What really happened, written down by those to whom it happened.
#[derive(Clone, Default)]
struct Seen {
    tried: Arc<Mutex<Vec<&'static str>>>,
    learnt: Arc<Mutex<usize>>,
}

struct Scripted {
    name: &'static str,
    does: Does,
    needs: Needs,
    seen: Seen,
}

impl Rung for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    fn needs(&self) -> Needs {
        self.needs
    }

    fn consider(&self, _: &Case) -> Consider {
        match self.does {
            Does::Passes => Consider::Pass,
            Does::Skips => Consider::Skip(fail(Code::CircuitOpen)),
            _ => Consider::Try,
        }
    }

    fn try_answer<'a>(&'a self, case: &'a mut Case) -> Answering<'a> {
        self.seen.tried.lock().unwrap().push(self.name);
        Box::pin(async move {
            match self.does {
                Does::Answers => Ok(Answer::text(case, Level::Fallback, 0.9, "rung")),
                Does::Hangs => std::future::pending().await,
                _ => Err(fail(Code::Conflict)),
            }
        })
    }

    fn learn(&self, _: &Request, _: &Completion) {
        *self.seen.learnt.lock().unwrap() += 1;
    }

    fn learns(&self) -> bool {
        true
    }
}

type Rungs = [(Does, Needs); 4];

fn rungs() -> impl Strategy<Value = Rungs> {
    let does = proptest::sample::select(vec![
        Does::Passes,
        Does::Skips,
        Does::Errs,
        Does::Errs,
        Does::Hangs,
        Does::Answers,
    ]);
    let needs = proptest::sample::select(vec![Needs::Model, Needs::Tools, Needs::Nothing]);
    let rung = || (does.clone(), needs.clone());
    [rung(), rung(), rung(), rung()]
}

fn scripts() -> impl Strategy<Value = Script> {
    let codes = || {
        let all = proptest::sample::select(Code::ALL.to_vec());
        prop_oneof![all, Just(Code::Server)].prop_map(fail).prop_map(Act::Fail)
    };
    let head = prop_oneof![2 => Just(vec![]), 2 => codes().prop_map(|act| vec![act])];
    let act =
        prop_oneof![Just(Act::Preamble), Just(Act::KeepAlive), Just(Act::Text("x")), Just(Act::Wait(9))];
    let last = prop_oneof![codes(), Just(Act::End), Just(Act::Done)];
    (head, proptest::collection::vec(act, 0..4), last).prop_map(|(head, mut body, last)| {
        body.push(last);
        Script { head, body }
    })
}

/// How the first service's call ends, as it is scripted: the failure before any output, or after it, or none.
enum Ends {
    Early(Code),
    Midway,
    Well,
}

fn ends(script: &Script) -> Ends {
    let mut output = false;
    for act in script.head.iter().chain(&script.body) {
        let code = match act {
            Act::Fail(failure) => failure.code(),
            Act::End => Code::Truncated,
            Act::Text(_) => {
                output = true;
                continue;
            }
            _ => continue,
        };
        return if output { Ends::Midway } else { Ends::Early(code) };
    }
    Ends::Well
}

/// The rungs that the table allows for a failure.
fn allowed(code: Code) -> &'static [Needs] {
    match code {
        Code::InvalidRequest | Code::Authentication | Code::ContentFilter | Code::Cancelled => &[],
        Code::BudgetExhausted | Code::BulkheadFull | Code::Deadline => &[Needs::Nothing],
        _ => &[Needs::Model, Needs::Tools, Needs::Nothing],
    }
}

/// A stack as a function, whatever its type.
type BoxedStack = Box<dyn FnMut(Request) -> BoxFuture<'static, Result<BoxReply, Failure>>>;

fn boxed<S, E, W>(service: S) -> BoxedStack
where
    S: Service<Request, Response = Reply<E, W>, Error = Failure> + Clone + Send + 'static,
    S::Future: Send,
    E: futures_util::Stream<Item = Result<Event, Failure>> + Unpin + Send + 'static,
    W: watertight::observe::Watchers + Unpin + Send + 'static,
{
    Box::new(move |request| service.clone().oneshot(request).map(|reply| reply.map(Reply::boxed)).boxed())
}

/// The layer under test, as a twin may change it.
fn layer(rungs: &Rungs, seen: &Seen, facts: &Facts, max_depth: usize) -> DegradationLayer {
    let config = DegradationConfig { graceful: None, max_depth, ..DegradationConfig::default() };
    let layer = DegradationLayer::new(config).unwrap().facts(facts);
    rungs.iter().zip(NAMES).fold(layer, |layer, (&(does, needs), name)| {
        layer.rung_after(Place::SkipTool, Scripted { name, does, needs, seen: seen.clone() })
    })
}

/// What there is to build a stack from.
struct Parts<'a> {
    rungs: &'a Rungs,
    seen: Seen,
    facts: Facts,
    stage: Stage,
}

impl Parts<'_> {
    fn layer(&self) -> DegradationLayer {
        layer(self.rungs, &self.seen, &self.facts, 6)
    }
}

/// Plays a call on a clock of its own, and holds what came of it to the laws.
fn holds(
    rungs: &Rungs,
    script: &Script,
    stack: impl Fn(&Parts<'_>) -> BoxedStack,
) -> Result<(), TestCaseError> {
    let clock =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    clock.block_on(async {
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let facts = Facts::to(move |fact: &Fact<'_>| {
            if let Fact::Rung { rung, failure, .. } = fact {
                sink.lock().unwrap().push(((*rung).to_owned(), failure.is_some()));
            }
        });
        let (seen, log) = (Seen::default(), Log::default());
        let parts =
            Parts { rungs, seen: seen.clone(), facts, stage: Stage::new("a", &log, [script.clone()]) };
        let (record, text, end) = match stack(&parts)(request()).await {
            Ok(reply) => play(reply).await,
            Err(failure) => (Degradation::NONE, String::new(), Err(failure.code())),
        };
        let (tried, told) = (seen.tried.lock().unwrap().clone(), told.lock().unwrap().clone());
        prop_assert_eq!(log.open(), 0);
        // After output nothing is tried, but that what came may be the answer.
        let code = match ends(script) {
            Ends::Well | Ends::Midway => {
                prop_assert_eq!(&tried[..], &[] as &[&str], "only after a final failure, before output");
                prop_assert!(!text.contains("rung"));
                None
            }
            Ends::Early(code) => Some(code),
        };
        let expected = code.map_or(vec![], |code| course(rungs, code));
        let names: Vec<_> =
            expected.iter().filter(|(_, does)| *does != Does::Skips).map(|(name, _)| *name).collect();
        prop_assert_eq!(&tried, &names, "each at most once, in order, and none stops the ladder");
        // Skips are told when the ladder is planned, so before the rest.
        let mut reports: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
        reports.retain(|name| *name != "partial_result");
        reports.sort_unstable();
        let mut due: Vec<_> = expected.iter().map(|(name, _)| *name).collect();
        due.sort_unstable();
        prop_assert_eq!(reports, due, "each rung is reported, once");
        let answered = expected.last().is_some_and(|(_, does)| *does == Does::Answers);
        if let Some(code) = code {
            prop_assert_eq!(end, if answered { Ok(()) } else { Err(code) });
            prop_assert_eq!(record.fallback_chain.len(), if answered { expected.len() + 1 } else { 0 });
        }
        let learnt = *seen.learnt.lock().unwrap();
        let whole = matches!(ends(script), Ends::Well);
        prop_assert_eq!(learnt, if whole { rungs.len() } else { 0 }, "nothing degraded is kept");
        Ok(())
    })
}

async fn play(mut reply: BoxReply) -> (Degradation, String, Result<(), Code>) {
    let record = reply.head().degradation().clone();
    let (mut text, mut end) = (String::new(), Err(Code::Truncated));
    while let Some(item) = reply.next().await {
        match item {
            Ok(Event::Text { text: more, .. }) => text.push_str(&more),
            Ok(Event::Completed(_)) => end = Ok(()),
            Ok(_) => {}
            Err(failure) => end = Err(failure.code()),
        }
    }
    (record, text, end)
}

/// What is tried and skipped on the way down, by the table and the scripts of the rungs.
fn course(rungs: &Rungs, code: Code) -> Vec<(&'static str, Does)> {
    let mut course = Vec::new();
    let mut answered = false;
    for (&(does, needs), name) in rungs.iter().zip(NAMES) {
        let tried = allowed(code).contains(&needs) && does != Does::Passes;
        // Skips are told even behind the rung that answers: the ladder is planned first.
        if tried && (!answered || does == Does::Skips) {
            course.push((name, does));
        }
        answered |= tried && does == Does::Answers;
    }
    // The one that answered is the last of the course.
    course.sort_by_key(|(_, does)| *does == Does::Answers);
    course
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any rungs, any script.
    /// Expected: rungs MUST be tried only after a final failure before output, each at most once, in order; each MUST be
    /// reported; one that errs MUST not stop the ladder; nothing degraded MUST be kept.
    #[test]
    fn any_ladder_keeps_the_laws(rungs in rungs(), script in scripts()) {
        holds(&rungs, &script, |parts| boxed(parts.layer().layer(parts.stage.clone())))?;
    }
}

fn err_then_answer() -> Rungs {
    let rung = |does| (does, Needs::Nothing);
    [rung(Does::Skips), rung(Does::Errs), rung(Does::Errs), rung(Does::Answers)]
}

/// Scenario: the laws, held against twins: one ladder inside another; a success taken for a failure; rungs nobody is
/// told of; a ladder that ends at the first error; one whose degraded answers are kept.
/// Expected: each MUST be rejected; the same parts, put together as they should be, MUST be accepted.
#[test]
fn a_ladder_that_breaks_a_law_is_rejected() {
    let (rungs, down) = (err_then_answer(), Script::fails(Code::Server));
    let errs = [(Does::Errs, Needs::Nothing); 4];
    for rungs in [&rungs, &errs] {
        assert!(holds(rungs, &down, |parts| boxed(parts.layer().layer(parts.stage.clone()))).is_ok());
    }
    let twice = |parts: &Parts<'_>| boxed(parts.layer().layer(parts.layer().layer(parts.stage.clone())));
    assert!(holds(&errs, &down, twice).is_err(), "climbs twice");
    let gloomy =
        |parts: &Parts<'_>| {
            let fails = |_| Err::<BoxReply, _>(fail(Code::Server));
            boxed(parts.layer().layer(
                parts.stage.clone().map_result(move |reply: Result<_, Failure>| reply.and_then(fails)),
            ))
        };
    assert!(holds(&rungs, &Script::says("x"), gloomy).is_err(), "climbs without a failure");
    let silent = |parts: &Parts<'_>| {
        boxed(layer(parts.rungs, &parts.seen, &Facts::default(), 6).layer(parts.stage.clone()))
    };
    assert!(holds(&rungs, &down, silent).is_err(), "does not report");
    let short = |parts: &Parts<'_>| {
        boxed(layer(parts.rungs, &parts.seen, &parts.facts, 1).layer(parts.stage.clone()))
    };
    assert!(holds(&rungs, &down, short).is_err(), "stops at an error");
    let keeps = |parts: &Parts<'_>| {
        let seen = parts.seen.clone();
        let keep = move |reply: Reply<_>| {
            *seen.learnt.lock().unwrap() += 1;
            reply
        };
        boxed(parts.layer().layer(parts.stage.clone()).map_response(keep))
    };
    assert!(holds(&rungs, &down, keeps).is_err(), "keeps what is degraded");
}

/// Scenario: a ladder beneath another makes a broken stream a partial result; the rungs above keep answers.
/// Expected: MUST not be kept, though the ladder above was never climbed.
#[tokio::test(start_paused = true)]
async fn what_is_degraded_beneath_is_not_kept() {
    let seen = Seen::default();
    let outer = layer(&err_then_answer(), &seen, &Facts::default(), 6);
    let broken = Script::body([Act::Text("x"), Act::Fail(fail(Code::Transport))]);
    let stage = Stage::new("a", &Log::default(), [broken, Script::says("x")]);
    let mut service = outer.layer(DegradationLayer::default().layer(stage));
    for kept in [0, NAMES.len()] {
        assert!(ask(&mut service, request()).await.1.is_ok());
        assert_eq!(*seen.learnt.lock().unwrap(), kept);
    }
}

/// A breaker's book: what it was told of each call.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Vec<Outcome>>>);

struct Entry(Book);

impl<R> Admission<R> for Book {
    type Permit = Entry;

    fn admit(&self, _: &R) -> Admit<Entry> {
        Admit::Granted(Entry(self.clone()))
    }
}

impl Observer for Entry {
    fn settle(self, how: End<'_>) {
        self.0.0.lock().unwrap().push(how.into());
    }
}

/// Scenario: a gate that keeps a breaker's book beneath the ladder, and one above it, while calls succeed, fail before
/// and after output, and end bare; with the ladder and without.
/// Expected: both books MUST be the same with and without: a degraded answer MUST be a success to neither.
#[tokio::test(start_paused = true)]
async fn a_breaker_never_learns_of_a_degraded_answer() {
    let midway = |last| Script::body([Act::Preamble, Act::Text("x"), last]);
    let scripts = [
        Script::says("x"),
        Script::fails(Code::Server),
        Script::fails(Code::BudgetExhausted),
        Script::body([Act::Preamble, Act::Fail(fail(Code::Overloaded))]),
        midway(Act::Fail(fail(Code::Transport))),
        midway(Act::End),
        Script::fails(Code::InvalidRequest),
        Script::says("x"),
    ];
    let (under, over) = (Book::default(), Book::default());
    let (bare_under, bare_over) = (Book::default(), Book::default());
    let (with, without) = (Log::default(), Log::default());
    let fallback = Stage::new("b", &Log::default(), [Script::says("!")]);
    let config = DegradationConfig { fallback_models: vec!["small".into()], ..DegradationConfig::default() };
    let layer = DegradationLayer::new(config).unwrap().fallback_model(fallback).unwrap();
    let mut ladder = Gate::new(
        layer.layer(Gate::new(Stage::new("a", &with, scripts.clone()), under.clone())),
        over.clone(),
    );
    let inner = Gate::new(Stage::new("a", &without, scripts.clone()), bare_under.clone());
    let mut bare = Gate::new(inner, bare_over.clone());
    let mut degraded = 0;
    for _ in &scripts {
        let answer = ask(&mut ladder, request()).await;
        degraded += usize::from(answer.1.is_ok());
        let _ = ask(&mut bare, request()).await;
    }
    assert_eq!(degraded, 7, "all but the last are answers to their caller");
    let book = |book: &Book| book.0.lock().unwrap().clone();
    assert_eq!(book(&under), book(&bare_under));
    assert_eq!(book(&over), book(&bare_over));
    assert_eq!(book(&over).iter().filter(|outcome| matches!(outcome, Outcome::Completed(_))).count(), 2);
}

/// Scenario: a degraded answer whose stream is watched by one who joins late: after it was read ahead to its end.
/// Expected: MUST be told the failure that it stands for.
#[tokio::test(start_paused = true)]
async fn whoever_joins_late_is_told_the_same() {
    let book = Book::default();
    let down = Stage::new("a", &Log::default(), [Script::fails(Code::Server)]);
    let whole = Request::new("model").user("hello");
    let mut reply = DegradationLayer::default().layer(down).oneshot(whole).await.unwrap();
    std::future::poll_fn(|cx| reply.poll_commit(cx)).await.unwrap();
    let reply = reply.follow(watertight::observe::Watch::new(Entry(book.clone())));
    assert!(reply.collect().await.unwrap().degradation().is_degraded());
    assert_eq!(*book.0.lock().unwrap(), [Outcome::Failed(Code::Server)]);
}
