//! The laws of the degradation ladder, held to random rungs and scripts; beside each stand ladders that break it. And
//! what breakers make of a degraded answer: nothing they would not make of the failure.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

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

/// A stack as a function, whatever its type: the call is made at once, polled or not.
type BoxedStack = Box<dyn FnMut(Request) -> BoxFuture<'static, Result<BoxReply, Failure>>>;

fn boxed<S, E, W>(mut service: S) -> BoxedStack
where
    S: Service<Request, Response = Reply<E, W>, Error = Failure> + Send + 'static,
    S::Future: Send + 'static,
    E: futures_util::Stream<Item = Result<Event, Failure>> + Unpin + Send + 'static,
    W: watertight::observe::Watchers + Unpin + Send + 'static,
{
    Box::new(move |request| {
        let ready = service.ready().now_or_never().expect("ready at once").map(|_| ());
        match ready {
            Ok(()) => service.call(request).map(|reply| reply.map(Reply::boxed)).boxed(),
            Err(failure) => std::future::ready(Err(failure)).boxed(),
        }
    })
}

/// A call: what the first service plays, and after how many polls its caller goes away, if he does.
type Called = (Script, Option<usize>);

fn calls() -> impl Strategy<Value = Vec<Called>> {
    let leaves = proptest::option::weighted(0.4, 0_usize..6);
    proptest::collection::vec((scripts(), leaves), 1..4)
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

    /// The same, which tells nothing.
    fn quiet(&self) -> DegradationLayer {
        layer(self.rungs, &self.seen, &Facts::default(), 6)
    }
}

/// What came of a call; nothing where its caller went away.
type Came = Option<(Degradation, String, Result<(), Code>)>;

/// Plays calls one after the other on a clock of their own, and holds what came of each to the laws.
fn holds(
    rungs: &Rungs,
    calls: &[Called],
    stack: impl Fn(&Parts<'_>) -> BoxedStack,
) -> Result<(), TestCaseError> {
    let clock =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    clock.block_on(async {
        let (told, ends) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let (sink, ended) = (Arc::clone(&told), Arc::clone(&ends));
        let facts = Facts::to(move |fact: &Fact<'_>| match fact {
            Fact::Rung { rung, .. } => sink.lock().unwrap().push((*rung).to_owned()),
            Fact::Ended { .. } => *ended.lock().unwrap() += 1,
            _ => {}
        });
        let (seen, log) = (Seen::default(), Log::default());
        let scripts = calls.iter().map(|(script, _)| script.clone());
        let parts = Parts { rungs, seen: seen.clone(), facts, stage: Stage::new("a", &log, scripts) };
        let mut stack = stack(&parts);
        for (script, leaves) in calls {
            let call = stack(request());
            let call = async {
                match call.await {
                    Ok(reply) => play(reply).await,
                    Err(failure) => (Degradation::NONE, String::new(), Err(failure.code())),
                }
            };
            let came = polled(call, *leaves).await;
            // Whoever goes on without its caller has the time to.
            tokio::time::sleep(Duration::from_secs(600)).await;
            prop_assert_eq!(log.open(), 0, "something is left");
            let tried = std::mem::take(&mut *seen.tried.lock().unwrap());
            let told = std::mem::take(&mut *told.lock().unwrap());
            let learnt = std::mem::take(&mut *seen.learnt.lock().unwrap());
            prop_assert_eq!(std::mem::take(&mut *ends.lock().unwrap()), 1, "the end is told once");
            laws_of(rungs, script, &came, (&tried, told, learnt))
                .map_err(|error| TestCaseError::fail(format!("{script:?}, {leaves:?}: {error}")))?;
        }
        Ok(())
    })
}

/// Polls so often at most, then drops.
async fn polled<F: Future>(future: F, mut most: Option<usize>) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        if most == Some(0) {
            return Poll::Ready(None);
        }
        most = most.map(|most| most - 1);
        let polled = future.as_mut().poll(cx).map(Some);
        if most == Some(0) && polled.is_pending() { Poll::Ready(None) } else { polled }
    })
    .await
}

/// Holds one call to the laws: what was tried, told and learnt of it.
fn laws_of(
    rungs: &Rungs,
    script: &Script,
    came: &Came,
    (tried, told, learnt): (&[&'static str], Vec<String>, usize),
) -> Result<(), TestCaseError> {
    // After output nothing is tried, but that what came may be the answer.
    let code = match ends(script) {
        Ends::Well | Ends::Midway => {
            prop_assert_eq!(tried, &[] as &[&str], "only after a final failure, before output");
            None
        }
        Ends::Early(code) => Some(code),
    };
    let expected = code.map_or(vec![], |code| course(rungs, code));
    let names: Vec<_> =
        expected.iter().filter(|(_, does)| *does != Does::Skips).map(|(name, _)| *name).collect();
    let mut reports = told;
    reports.retain(|name| name != "partial_result");
    let Some((record, text, end)) = came else {
        prop_assert!(names.starts_with(tried), "{tried:?}: each at most once, in order, of {names:?}");
        // All that were tried are told of, but for the one that was at work.
        let hangs = |name: &&str| expected.contains(&(name, Does::Hangs));
        let at_work = tried.last().filter(|name| hangs(name) && !reports.iter().any(|told| told == *name));
        let done = tried.iter().filter(|name| Some(*name) != at_work);
        for name in done {
            let times = reports.iter().filter(|told| told == name).count();
            prop_assert_eq!(times, 1, "{} is reported, once", name);
        }
        let known = |told: &String| expected.iter().any(|(name, _)| name == told);
        prop_assert!(reports.iter().all(known), "{reports:?} of {expected:?}");
        prop_assert_eq!(learnt, 0, "nothing that broke off is kept");
        return Ok(());
    };
    prop_assert_eq!(tried, &names, "each at most once, in order, and none stops the ladder");
    prop_assert!(code.is_some() || !text.contains("rung"));
    // Skips are told when the ladder is planned, so before the rest.
    reports.sort_unstable();
    let mut due: Vec<_> = expected.iter().map(|(name, _)| *name).collect();
    due.sort_unstable();
    prop_assert_eq!(reports, due, "each rung is reported, once");
    let answered = expected.last().is_some_and(|(_, does)| *does == Does::Answers);
    if let Some(code) = code {
        prop_assert_eq!(*end, if answered { Ok(()) } else { Err(code) });
        prop_assert_eq!(record.fallback_chain.len(), if answered { expected.len() + 1 } else { 0 });
    }
    let whole = matches!(ends(script), Ends::Well);
    prop_assert_eq!(learnt, if whole { rungs.len() } else { 0 }, "nothing degraded is kept");
    Ok(())
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

    /// Scenario: any rungs, any calls one after the other, whose callers stay or leave after any number of polls.
    /// Expected: rungs MUST be tried only after a final failure before output, each at most once a call, in order; each
    /// MUST be reported; one that errs MUST not stop the ladder; nothing degraded MUST be kept; the end of each call MUST
    /// be told once, and nothing go on without its caller.
    #[test]
    fn any_ladder_keeps_the_laws(rungs in rungs(), calls in calls()) {
        holds(&rungs, &calls, |parts| boxed(parts.layer().layer(parts.stage.clone())))?;
    }
}

fn err_then_answer() -> Rungs {
    let rung = |does| (does, Needs::Nothing);
    [rung(Does::Skips), rung(Does::Errs), rung(Does::Errs), rung(Does::Answers)]
}

/// A ladder that breaks a law, and which.
type Twin = (&'static str, fn(&Parts<'_>) -> BoxedStack);

const TWINS: [Twin; 8] = [
    ("climbs twice", |parts| boxed(parts.layer().layer(parts.quiet().layer(parts.stage.clone())))),
    ("climbs without a failure", |parts| {
        let fails = |_| Err::<BoxReply, _>(fail(Code::Server));
        let down = move |reply: Result<_, Failure>| reply.and_then(fails);
        boxed(parts.layer().layer(parts.stage.clone().map_result(down)))
    }),
    ("does not report", |parts| {
        let facts = parts.facts.clone();
        let silent = Facts::to(move |fact: &Fact<'_>| {
            if !matches!(fact, Fact::Rung { failure: Some(_), .. }) {
                facts.emit(fact);
            }
        });
        boxed(layer(parts.rungs, &parts.seen, &silent, 6).layer(parts.stage.clone()))
    }),
    ("stops at an error", |parts| {
        boxed(layer(parts.rungs, &parts.seen, &parts.facts, 1).layer(parts.stage.clone()))
    }),
    ("keeps what is degraded", |parts| {
        let seen = parts.seen.clone();
        let keep = move |reply: Reply<_>| {
            let kept = usize::from(reply.head().degradation().is_degraded());
            *seen.learnt.lock().unwrap() += kept;
            reply
        };
        boxed(parts.layer().layer(parts.stage.clone()).map_response(keep))
    }),
    ("climbs in one call alone", |parts| {
        let (mut ladder, mut bare) =
            (boxed(parts.layer().layer(parts.stage.clone())), boxed(parts.stage.clone()));
        let mut climbed = false;
        let facts = parts.facts.clone();
        Box::new(move |request| {
            if !std::mem::replace(&mut climbed, true) {
                return ladder(request);
            }
            let call = watertight::chat::Ask::call(&request).id;
            let outcome = Outcome::Abandoned;
            facts.emit(&Fact::Ended { call, outcome, level: Level::None });
            bare(request)
        })
    }),
    ("goes on without its caller", |parts| {
        let mut ladder = boxed(parts.layer().layer(parts.stage.clone()));
        Box::new(move |request| {
            let call = tokio::spawn(ladder(request));
            call.map(|reply| reply.expect("nothing panics")).boxed()
        })
    }),
    ("tells the end twice", |parts| {
        let above = DegradationConfig { graceful: None, max_partial: None, ..DegradationConfig::default() };
        let above = DegradationLayer::new(above).unwrap().facts(&parts.facts);
        boxed(above.layer(parts.layer().layer(parts.stage.clone())))
    }),
];

/// Scenario: the laws, held against twins that break one each.
/// Expected: each MUST be rejected by some script.
#[test]
fn a_ladder_that_breaks_a_law_is_rejected() {
    for (breaks, twin) in TWINS {
        is_rejected(breaks, &(rungs(), calls()), |(rungs, calls)| holds(&rungs, &calls, twin));
    }
}

/// Runs a property that is to fail.
fn is_rejected<S: Strategy>(
    breaks: &str,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    use proptest::test_runner::{Config, TestError, TestRunner};
    let config = Config { cases: 2_000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let verdict = TestRunner::new(config).run(strategy, test);
    assert!(matches!(verdict, Err(TestError::Fail(..))), "{breaks}: {verdict:?}");
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
