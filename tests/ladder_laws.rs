//! The laws of the degradation ladder, held to random rungs and scripts; beside each stand ladders that break it. And
//! what breakers make of a degraded answer: nothing they would not make of the failure.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;
use support::{Act, Log, Script, Stage, ask, fail, request};
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{BoxReply, Completion, Degradation, Event, Level, Reply, Request, Tool};
use watertight::event::{Fact, Facts};
use watertight::failure::{Code, Failure};
use watertight::gate::{Admission, Admit, Gate};
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::degradation::{
    Answer, Answering, CallableWhen, Case, Consider, DegradationConfig, Needs, Place, Rung,
};
use watertight::layers::rate_limit::RateLimitConfig;
use watertight::layers::{CircuitBreakerLayer, DegradationLayer, TokenAwareRateLimitLayer};
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

/// One thing that happens to calls of a stack. Calls are named by their place among those that live.
#[derive(Clone, Debug)]
enum Step {
    /// A call is made, and not polled yet.
    Call(Script),
    /// It is polled, and so many events of it are read.
    Read(usize, usize),
    /// Its caller goes away.
    Drop(usize),
    Advance(u64),
    /// Whether the optional tool, and the fallback model, can be called.
    Callable(bool, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let script = prop_oneof![3 => scripts(), 2 => Just(Script::fails(Code::Server)), 1 => limits()];
    let step = prop_oneof![
        5 => script.prop_map(Step::Call),
        8 => (0_usize..4, 1_usize..9).prop_map(|(at, most)| Step::Read(at, most)),
        2 => (0_usize..4).prop_map(Step::Drop),
        2 => prop_oneof![1_u64..20, 500_u64..3_000].prop_map(Step::Advance),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(tool, model)| Step::Callable(tool, model)),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A provider that tells what was used, and then breaks, or asks to be left alone.
fn limits() -> impl Strategy<Value = Script> {
    let later = fail(Code::RateLimited).with_retry_after(Some(Duration::from_secs(2)));
    let last = prop_oneof![Just(Act::Done), Just(Act::End), Just(Act::Fail(later))];
    (1_u64..200, 1_u64..200, last)
        .prop_map(|(input, output, last)| Script::body([Act::Text("x"), Act::Used(input, output), last]))
}

/// What can be called now.
#[derive(Clone)]
struct Now {
    tool: Arc<AtomicBool>,
    model: Arc<AtomicBool>,
}

/// A stack over a breaker and a limiter, and the calls of it that live.
struct World {
    breaker: CircuitBreakerLayer,
    limiter: TokenAwareRateLimitLayer,
    stage: Arc<Mutex<VecDeque<Script>>>,
    stack: BoxedStack,
    live: Vec<Live>,
}

enum Live {
    Calling(BoxFuture<'static, Result<BoxReply, Failure>>),
    Reading(BoxReply),
}

/// The service whose calls are counted, each with the script that was put there for it.
#[derive(Clone)]
struct Playing(Arc<Mutex<VecDeque<Script>>>);

impl Service<Request> for Playing {
    type Response = <Stage as Service<Request>>::Response;
    type Error = Failure;
    type Future = <Stage as Service<Request>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    /// Where nobody put one there, what is asked once more answers well.
    fn call(&mut self, request: Request) -> Self::Future {
        let script = self.0.lock().unwrap().pop_front().unwrap_or_else(|| Script::says("more"));
        let mut stage = Stage::new("a", &Log::default(), [script]);
        let _ = stage.poll_ready(&mut Context::from_waker(Waker::noop()));
        stage.call(request)
    }
}

/// What a world puts around its breaker and its limiter, which stand around the service in this order.
type Around = fn(&CircuitBreakerLayer, &TokenAwareRateLimitLayer, Playing, &Now) -> BoxedStack;

impl World {
    fn new(around: Around, now: &Now) -> Self {
        let config = CircuitBreakerConfig {
            failures: Some(3),
            min_calls: 4,
            rest: Duration::from_secs(2),
            ramp: Some(Duration::from_secs(2)),
            jitter: 0.0,
            ..CircuitBreakerConfig::default()
        };
        let breaker = CircuitBreakerLayer::new(config).unwrap().named("provider:a");
        let config = RateLimitConfig {
            requests_per_minute: Some(120),
            tokens_per_minute: Some(20_000),
            max_concurrency: Some(3),
            acquire_timeout: Duration::from_secs(1),
            max_waiting: 2,
            ..RateLimitConfig::default()
        };
        let limiter = TokenAwareRateLimitLayer::new(config).unwrap().named("provider:a");
        let stage = Arc::default();
        let stack = around(&breaker, &limiter, Playing(Arc::clone(&stage)), now);
        Self { breaker, limiter, stage, stack, live: Vec::new() }
    }

    fn play(&mut self, step: &Step, request: &Request) {
        match *step {
            Step::Call(ref script) => {
                // Whoever is refused on the way asks for no script: the next finds its own.
                let mut stage = self.stage.lock().unwrap();
                stage.clear();
                stage.push_back(script.clone());
                drop(stage);
                self.live.push(Live::Calling((self.stack)(request.clone())));
            }
            Step::Read(at, most) if !self.live.is_empty() => {
                let at = at % self.live.len();
                if self.live[at].read(most) {
                    self.live[at] = Live::Calling(std::future::pending().boxed());
                }
            }
            Step::Drop(at) if !self.live.is_empty() => {
                let at = at % self.live.len();
                drop(self.live.remove(at));
            }
            Step::Read(..) | Step::Drop(_) | Step::Advance(_) | Step::Callable(..) => {}
        }
    }
}

impl Live {
    /// Reads so far, and says whether it is over.
    fn read(&mut self, most: usize) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        if let Self::Calling(call) = self {
            match call.as_mut().poll(&mut cx) {
                Poll::Pending => return false,
                Poll::Ready(Err(_)) => return true,
                Poll::Ready(Ok(reply)) => *self = Self::Reading(reply),
            }
        }
        let Self::Reading(reply) = self else { return false };
        for _ in 0..most {
            match reply.poll_next_unpin(&mut cx) {
                Poll::Pending => return false,
                Poll::Ready(Some(Ok(Event::Completed(_)) | Err(_)) | None) => return true,
                Poll::Ready(Some(Ok(_))) => {}
            }
        }
        false
    }
}

/// Reads ahead to the first output as a ladder does, and does nothing more.
fn bare(
    breaker: &CircuitBreakerLayer,
    limiter: &TokenAwareRateLimitLayer,
    service: Playing,
    now: &Now,
) -> BoxedStack {
    let mut inner = boxed(breaker.layer(limiter.layer(service)));
    let tool = Arc::clone(&now.tool);
    Box::new(move |request| {
        let asked = if tool.load(Ordering::Relaxed) { request } else { request.without_tools() };
        let call = inner(asked);
        async move {
            let mut reply = call.await?;
            std::future::poll_fn(|cx| reply.poll_commit(cx)).await?;
            Ok(reply)
        }
        .boxed()
    })
}

/// Every rung that asks somebody else, and one that hangs.
fn rungs_beside(now: &Now, model: Option<Playing>) -> DegradationLayer {
    let config = DegradationConfig {
        fallback_models: vec!["small".into()],
        optional_tools: vec!["search".into()],
        rung_timeout: Some(Duration::from_millis(700)),
        ..DegradationConfig::default()
    };
    let beside = || {
        let dies = Script::body([Act::Text("y"), Act::Fail(fail(Code::Transport))]);
        Playing(Arc::new(Mutex::new([Script::fails(Code::Server), Script::says("y"), dies].into())))
    };
    let (tool, small) = (Arc::clone(&now.tool), Arc::clone(&now.model));
    let rung = Scripted { name: "one", does: Does::Hangs, needs: Needs::Model, seen: Seen::default() };
    DegradationLayer::new(config)
        .unwrap()
        .fallback_model(model.unwrap_or_else(beside))
        .unwrap()
        .model_callable("small", CallableWhen::new(move || small.load(Ordering::Relaxed)))
        .unwrap()
        .skip_tool(beside())
        .unwrap()
        .tool_callable("search", CallableWhen::new(move || tool.load(Ordering::Relaxed)))
        .unwrap()
        .rung_after(Place::SkipTool, rung)
}

const LADDER: Around = |breaker, limiter, service, now| {
    boxed(rungs_beside(now, None).layer(breaker.layer(limiter.layer(service))))
};

/// Asks the inner service once more when its call failed.
const ASKS_AGAIN: Around = |breaker, limiter, service, now| {
    let inner = breaker.layer(limiter.layer(service));
    let config = DegradationConfig { fallback_models: vec!["small".into()], ..DegradationConfig::default() };
    let layer = DegradationLayer::new(config).unwrap().fallback_model(inner.clone()).unwrap();
    let small = Arc::clone(&now.model);
    let callable = CallableWhen::new(move || small.load(Ordering::Relaxed));
    boxed(layer.model_callable("small", callable).unwrap().layer(inner))
};

/// Stands beneath, and what it answers counts as the provider's own answer there.
const REPORTS_ITS_OWN: Around = |breaker, limiter, service, now| {
    let own = |mut reply: Reply<_, _>| {
        reply.head_mut().degradation = None;
        reply.wrap(|events| {
            events.map(|item: Result<Event, Failure>| match item {
                Ok(Event::Completed(mut whole)) => {
                    whole.degradation = None;
                    Ok(Event::Completed(whole))
                }
                item => item,
            })
        })
    };
    let ladder = rungs_beside(now, None).layer(service).map_response(Reply::boxed).map_response(own);
    boxed(breaker.layer(limiter.layer(ladder)))
};

/// Offers the model a tool that cannot be called: what is reserved for the call is more.
const OFFERS_ALL: Around = |breaker, limiter, service, _| boxed(breaker.layer(limiter.layer(service)));

/// Plays steps in a world with something around its gates, and in one with nothing, and compares the figures of the gates.
fn figures_are_equal(steps: &[Step], around: Around) -> Result<(), TestCaseError> {
    let clock =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    clock.block_on(async {
        let now = Now { tool: Arc::new(true.into()), model: Arc::new(true.into()) };
        let (mut with, mut without) = (World::new(around, &now), World::new(bare, &now));
        let about = "looks for what is asked of it, ".repeat(20);
        let tool = Tool::new("search", about, serde_json::json!({"type": "object"}));
        for step in steps {
            match *step {
                Step::Advance(ms) => tokio::time::advance(Duration::from_millis(ms)).await,
                Step::Callable(tool, model) => {
                    now.tool.store(tool, Ordering::Relaxed);
                    now.model.store(model, Ordering::Relaxed);
                }
                _ => {}
            }
            let request = request().tool(tool.clone());
            with.play(step, &request);
            without.play(step, &request);
            prop_assert_eq!(with.breaker.snapshot(), without.breaker.snapshot(), "{:?}", step);
            prop_assert_eq!(with.limiter.snapshot(), without.limiter.snapshot(), "{:?}", step);
        }
        // Once all have gone nobody is at work or in line.
        with.live.clear();
        without.live.clear();
        prop_assert_eq!(with.limiter.snapshot(), without.limiter.snapshot());
        let busy = with.limiter.snapshot().keys.iter().any(|key| key.in_flight > 0 || key.waiting > 0);
        prop_assert!(!busy, "somebody is at work still");
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any calls, side by side, that end well, fail before and in mid-answer, and are left; time, and what can
    /// be called, change; over a breaker and a limiter, with the ladder above and without.
    /// Expected: the figures of breaker and limiter MUST be the same with and without, after each step.
    #[test]
    fn gates_beneath_a_ladder_have_the_figures_they_have_without(steps in steps()) {
        figures_are_equal(&steps, LADDER)?;
    }
}

/// Scenario: the same, with twins: one that asks the inner service once more, one that reports its own answer beneath, one
/// that offers what cannot be called.
/// Expected: each MUST be rejected by some script.
#[test]
fn a_ladder_that_changes_figures_is_rejected() {
    let twins: [(&str, Around); 3] = [
        ("asks once more", ASKS_AGAIN),
        ("reports its own answer", REPORTS_ITS_OWN),
        ("offers what cannot be called", OFFERS_ALL),
    ];
    for (breaks, twin) in twins {
        is_rejected(breaks, &steps(), |steps| figures_are_equal(&steps, twin));
    }
}
