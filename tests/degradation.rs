//! The degradation ladder over scripted services, on a paused clock.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    clippy::float_cmp,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use support::{Act, Log, Script, Stage, facts, fail, request};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};
use watertight::chat::{
    BoxReply, Completion, Degradation, Event, Head, Level, Message, Reply, Request, Role, Stop, Tool,
    ToolCall, ToolResult, Usage,
};
use watertight::failure::{Clock, Code, Failure};
use watertight::layers::degradation::{
    Answer, Answering, CallableWhen, Case, Consider, DegradationConfig, GracefulConfig, Needs, Place, Rung,
};
use watertight::layers::retry::{Jitter, RetryConfig};
use watertight::layers::{DegradationLayer, FailoverLayer, RetryLayer};

/// A layer with no rung but those that the test puts there.
fn bare() -> DegradationConfig {
    DegradationConfig { graceful: None, max_partial: None, ..DegradationConfig::default() }
}

fn with_models(models: &[&str]) -> DegradationConfig {
    DegradationConfig { fallback_models: models.iter().map(|&name| name.to_owned()).collect(), ..bare() }
}

fn with_tools(tools: &[&str]) -> DegradationConfig {
    DegradationConfig { optional_tools: tools.iter().map(|&name| name.to_owned()).collect(), ..bare() }
}

/// What a caller has of an answer.
#[derive(Debug, Default)]
struct Got {
    /// The text of the pieces, and that of the last event.
    pieces: String,
    whole: String,
    stop: Option<Stop>,
    head: Degradation,
    last: Degradation,
    failure: Option<Failure>,
}

async fn got<S, T>(service: &mut S, request: Request) -> Got
where
    S: Service<Request, Response = Reply<T>, Error = Failure>,
    T: futures_util::Stream<Item = Result<Event, Failure>> + Unpin,
{
    let mut got = Got::default();
    let mut reply = match service.ready().await.unwrap().call(request).await {
        Ok(reply) => reply,
        Err(failure) => return Got { failure: Some(failure), ..got },
    };
    got.head = reply.head().degradation().clone();
    while let Some(item) = reply.next().await {
        assert!(got.stop.is_none() && got.failure.is_none(), "something came after the end");
        match item {
            Ok(Event::Text { text, .. }) => got.pieces.push_str(&text),
            Ok(Event::Completed(completion)) => {
                got.last = completion.degradation().clone();
                got.whole = completion.message.to_text();
                got.stop = Some(completion.stop);
            }
            Ok(_) => {}
            Err(failure) => got.failure = Some(failure),
        }
    }
    got
}

/// What was asked of a service that is asked beside the first, and its answers.
#[derive(Clone)]
struct Beside {
    asked: Arc<Mutex<Vec<Request>>>,
    stage: Stage,
}

impl Beside {
    fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self { asked: Arc::default(), stage: Stage::new("b", &Log::default(), scripts) }
    }

    fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }

    fn models(&self) -> Vec<String> {
        self.asked().iter().map(|request| request.model.clone()).collect()
    }
}

impl Service<Request> for Beside {
    type Response = <Stage as Service<Request>>::Response;
    type Error = Failure;
    type Future = <Stage as Service<Request>>::Future;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Failure>> {
        self.stage.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.asked.lock().unwrap().push(request.clone());
        self.stage.call(request)
    }
}

fn fails(code: Code) -> Stage {
    Stage::new("a", &Log::default(), [Script::fails(code)])
}

/// What was tried, as the record has it: rung, means, code.
fn chain(record: &Degradation) -> Vec<(&str, Option<&str>, Option<Code>)> {
    let tried = record.fallback_chain.iter();
    tried.map(|tried| (tried.rung.as_str(), tried.by.as_deref(), tried.failure)).collect()
}

/// Scenario: a service that answers, under every default rung.
/// Expected: MUST pass as it is, word for word, with a record that says that nothing lacks; no fact MUST be told
/// but its end.
#[tokio::test(start_paused = true)]
async fn a_whole_answer_passes_as_it_is() {
    let (facts, told) = facts();
    let script = Script::body([Act::Preamble, Act::Text("1"), Act::KeepAlive, Act::Text("2"), Act::Done]);
    let mut service =
        DegradationLayer::default().facts(&facts).layer(Stage::new("a", &Log::default(), [script]));
    let got = got(&mut service, request()).await;
    assert_eq!(got.pieces, "a1a2");
    assert_eq!((got.head, got.last), (Degradation::NONE, Degradation::NONE));
    assert_eq!(*told.lock().unwrap(), ["ended"]);
}

/// Scenario: the model fails, before its head and before its first output; another stands behind.
/// Expected: the other MUST answer, and nothing of the first be seen; the record MUST say who was tried, in the head
/// and in the last event alike.
#[tokio::test(start_paused = true)]
async fn another_model_answers() {
    let early = Script::body([Act::Preamble, Act::Fail(fail(Code::Server))]);
    for script in [Script::fails(Code::Server), early] {
        let (facts, told) = facts();
        let beside = Beside::new([Script::says("!")]);
        let layer = DegradationLayer::new(with_models(&["small"])).unwrap().facts(&facts);
        let layer = layer.fallback_model(beside.clone()).unwrap();
        let log = Log::default();
        let mut service = layer.layer(Stage::new("a", &log, [script]));
        let got = got(&mut service, request()).await;
        assert_eq!(got.pieces, "b!");
        assert_eq!(beside.models(), ["small"]);
        assert_eq!((got.head.level, got.head.quality_estimate), (Level::Fallback, 0.85));
        let tried = [("request", None, Some(Code::Server)), ("fallback_model", Some("small"), None)];
        assert_eq!(chain(&got.head), tried);
        assert!(got.head.user_message.contains("small"), "{}", got.head.user_message);
        assert_eq!(got.last, got.head);
        assert_eq!(*told.lock().unwrap(), ["rung", "degraded", "ended"]);
        assert_eq!(log.open(), 0);
        assert_eq!(layer.snapshot().rungs[0].answered, 1);
    }
}

/// Scenario: four fallback models: the one that was asked, one that a failover beneath has tried, one that cannot be
/// called, and one that fails; then one that answers.
/// Expected: only the last two MUST be asked, and each that could not help be in the record.
#[tokio::test(start_paused = true)]
async fn only_models_that_were_not_tried_are_asked() {
    let beside = Beside::new([Script::fails(Code::Overloaded), Script::says("!")]);
    let config = with_models(&["model", "tried", "shut", "broken", "well"]);
    let (facts, told) = facts();
    let layer = DegradationLayer::new(config).unwrap().facts(&facts);
    let layer = layer.model_callable("shut", CallableWhen::new(|| false)).unwrap();
    let layer = layer.fallback_model(beside.clone()).unwrap();
    let tried = fail(Code::Server).with_model(&"tried".into());
    let all = fail(Code::AllFailed).with_attempts(vec![tried.as_attempt()]);
    let mut service = layer.layer(Stage::new("a", &Log::default(), [Script::head([Act::Fail(all)])]));
    let got = got(&mut service, request()).await;
    assert_eq!(beside.models(), ["broken", "well"]);
    let rung = "fallback_model";
    let tried = [
        ("request", None, Some(Code::AllFailed)),
        (rung, Some("shut"), Some(Code::CircuitOpen)),
        (rung, Some("broken"), Some(Code::Overloaded)),
        (rung, Some("well"), None),
    ];
    assert_eq!(chain(&got.last), tried);
    assert_eq!(*told.lock().unwrap(), ["rung", "rung", "rung", "degraded", "ended"]);
}

/// Scenario: the breakers of all fallback models are open.
/// Expected: the rung MUST be passed over when the ladder is planned: no call, and the record says why.
#[tokio::test(start_paused = true)]
async fn a_model_behind_an_open_breaker_is_not_asked() {
    let open = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&open);
    let beside = Beside::new([Script::says("!")]);
    let layer = DegradationLayer::new(DegradationConfig {
        graceful: Some(GracefulConfig::default()),
        ..with_models(&["small"])
    });
    // The parts may come in any order.
    let layer = layer.unwrap().fallback_model(beside.clone()).unwrap();
    let callable = CallableWhen::new(move || !state.load(Ordering::Relaxed));
    let layer = layer.model_callable("small", callable).unwrap();
    let mut service = layer.layer(fails(Code::Server));
    let shut = got(&mut service, request()).await;
    assert!(beside.asked().is_empty());
    assert_eq!(chain(&shut.last)[1], ("fallback_model", None, Some(Code::CircuitOpen)));
    assert_eq!(shut.last.level, Level::Failed);
    open.store(false, Ordering::Relaxed);
    assert_eq!(got(&mut service, request()).await.last.level, Level::Fallback);
}

/// A model that answers under the name of another, after these tries.
fn answers_as(model: &'static str, tried: Vec<Failure>) -> impl FnMut(Request) -> Ready + Clone {
    move |_| {
        let mut head = Head::of("second");
        head.model = Some(model.into());
        head.attempts = tried.iter().map(Failure::as_attempt).collect();
        let done = Completion::new(Message::text(Role::Assistant, "!"), Stop::End, None);
        let events = vec![Ok(Event::text(0, "!")), Ok(Event::Completed(Box::new(done)))];
        std::future::ready(Ok(Reply::new(head, futures_util::stream::iter(events))))
    }
}

type Ready = std::future::Ready<
    Result<Reply<futures_util::stream::Iter<std::vec::IntoIter<Result<Event, Failure>>>>, Failure>,
>;

/// Scenario: a failover beneath has gone on to another model, to the same model elsewhere, and stands at one that is
/// known as a fallback; an alias has another name on the wire.
/// Expected: another model MUST be on the record as the first rung's; the same model, and an alias, MUST not.
#[tokio::test(start_paused = true)]
async fn a_failover_to_another_model_is_on_the_record() {
    let down = || vec![fail(Code::Server).with_provider(&"first".into())];
    for (model, tried, degraded) in [
        ("small", down(), true),
        ("model", down(), false),
        ("small", vec![], true),
        ("alias", vec![], false),
        ("alias", vec![fail(Code::Server).with_provider(&"second".into())], false),
    ] {
        let (facts, told) = facts();
        let layer = DegradationLayer::new(with_models(&["small"])).unwrap().facts(&facts);
        let failed = tried.len();
        let got = got(&mut layer.layer(service_fn(answers_as(model, tried))), request()).await;
        assert_eq!(got.pieces, "!");
        assert_eq!(got.head, got.last, "{model}");
        assert_eq!(got.head.is_degraded(), degraded, "{model}, {failed}");
        if degraded {
            assert_eq!((got.head.level, got.head.quality_estimate), (Level::Fallback, 0.85));
            assert_eq!(chain(&got.head).last(), Some(&("fallback_model", Some(model), None)));
        }
        assert_eq!(told.lock().unwrap().len(), 1 + usize::from(degraded && failed > 0));
    }
}

fn tool(name: &str) -> Tool {
    Tool::new(name, "does it", serde_json::json!({"type": "object"}))
}

/// A failure of this tool.
fn of_tool(code: Code, name: &str) -> Failure {
    fail(code).with_tool(name)
}

/// Fails so, whoever it says it is.
fn fails_of(
    failure: Failure,
) -> impl Service<Request, Response = BoxReply, Error = Failure, Future = Down> + Clone {
    service_fn(move |_| std::future::ready(Err(failure.clone())))
}

type Down = std::future::Ready<Result<BoxReply, Failure>>;

/// Scenario: an optional tool failed, is not callable any more, gave an error in the turn before, or the model called it
/// wrong.
/// Expected: MUST be asked again without that tool and with the others; another model MUST not be asked for it.
#[tokio::test(start_paused = true)]
async fn an_optional_tool_is_left_out() {
    let offered = || request().tool(tool("search")).tool(tool("clock"));
    let called = Message::new(
        Role::Assistant,
        vec![watertight::chat::Content::ToolCall(ToolCall::new("1", "search", "{}")).into()],
    );
    let erred =
        offered().message(called).message(Message::tool_results([ToolResult::text("1", "no").failed()]));
    for (request, failure, shut, left) in [
        (offered(), of_tool(Code::Server, "search"), false, vec!["clock"]),
        (offered(), of_tool(Code::BulkheadFull, "search"), false, vec!["clock"]),
        (offered(), fail(Code::Server), true, vec!["clock"]),
        (erred, fail(Code::Server), false, vec!["clock"]),
        (offered(), fail(Code::InvalidToolArguments), false, vec![]),
    ] {
        let beside = Beside::new([Script::says("!")]);
        let layer = DegradationLayer::new(with_tools(&["search", "clock"])).unwrap();
        let layer = layer.skip_tool(beside.clone()).unwrap();
        let well = Arc::new(AtomicBool::new(true));
        let layer = layer.tool_callable("search", callable_while(&well)).unwrap();
        let code = failure.code();
        let mut service = layer.layer(fails_of(failure).map_request(move |request| {
            well.store(!shut, Ordering::Relaxed);
            request
        }));
        let got = got(&mut service, request).await;
        assert_eq!(got.pieces, "b!", "{code}");
        let asked = &beside.asked()[0];
        let tools: Vec<_> = asked.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(tools, left, "{code}");
        assert_eq!((got.last.level, got.last.quality_estimate), (Level::Partial, 0.75));
        assert!(got.last.missing_components.contains(&"tool:search".to_owned()), "{code}");
        assert_eq!(got.last.missing_components.len(), 2 - left.len());
    }
}

/// Scenario: a request that offers one tool twice, which fails, or cannot be called.
/// Expected: the record MUST name it once, whoever leaves it out.
#[tokio::test(start_paused = true)]
async fn a_tool_that_is_offered_twice_is_missing_once() {
    for shut in [false, true] {
        let beside = Beside::new([Script::says("!")]);
        let layer = DegradationLayer::new(with_tools(&["search"])).unwrap();
        let layer = layer.skip_tool(beside.clone()).unwrap();
        let layer = layer.tool_callable("search", CallableWhen::new(move || !shut)).unwrap();
        let asked = offered().tool(tool("search"));
        let got = if shut {
            got(&mut layer.layer(beside.clone()), asked).await
        } else {
            got(&mut layer.layer(fails_of(of_tool(Code::Server, "search"))), asked).await
        };
        assert_eq!(tools_asked(&beside), [["ledger"]]);
        assert_eq!(got.last.missing_components, ["tool:search"], "{shut}");
        assert_eq!(got.last.user_message, "Answered without search, which cannot be used right now.");
    }
}

fn callable_while(well: &Arc<AtomicBool>) -> CallableWhen {
    let well = Arc::clone(well);
    CallableWhen::new(move || well.load(Ordering::Relaxed))
}

/// A ladder whose optional tool cannot be called.
fn without_search(config: DegradationConfig) -> DegradationLayer {
    let config = DegradationConfig { optional_tools: vec!["search".into(), "clock".into()], ..config };
    DegradationLayer::new(config).unwrap().tool_callable("search", CallableWhen::new(|| false)).unwrap()
}

fn offered() -> Request {
    request().tool(tool("search")).tool(tool("ledger"))
}

/// The tools of the requests that came there.
fn tools_asked(beside: &Beside) -> Vec<Vec<String>> {
    let tools = |request: &Request| request.tools.iter().map(|tool| tool.name.clone()).collect();
    beside.asked().iter().map(tools).collect()
}

/// How often the second rung was tried, and how often it answered.
fn skips(layer: &DegradationLayer) -> Option<(u64, u64)> {
    let rungs = layer.snapshot().rungs;
    rungs.iter().find(|rung| rung.rung == "skip_tool").map(|rung| (rung.tried, rung.answered))
}

const OPEN: (&str, Option<&str>, Option<Code>) = ("request", None, Some(Code::CircuitOpen));

/// Counts the whole answers that it is told.
#[derive(Clone, Default)]
struct Learner(Arc<Mutex<usize>>);

impl Rung for Learner {
    fn name(&self) -> &str {
        "learner"
    }

    fn consider(&self, _: &Case) -> Consider {
        Consider::Pass
    }

    fn try_answer<'a>(&'a self, _: &'a mut Case) -> Answering<'a> {
        unreachable!("it passes")
    }

    fn learn(&self, request: &Request, _: &Completion) {
        assert_eq!(request.tools.len(), 2, "what is kept is kept under what was asked");
        *self.0.lock().unwrap() += 1;
    }

    fn learns(&self) -> bool {
        true
    }
}

/// Scenario: a request offers an optional tool that cannot be called, chosen by name; then the tool heals.
/// Expected: MUST be asked once, without it and as the same call; the record MUST be in the head and the last event; the
/// answer MUST be told and counted as the second rung's, and not be kept. Later nothing MUST lack.
#[tokio::test(start_paused = true)]
async fn a_tool_that_cannot_be_called_is_not_offered() {
    use watertight::chat::{Ask, ToolChoice};
    let (well, (facts, told), learner) = (Arc::default(), facts(), Learner::default());
    let layer = DegradationLayer::new(with_tools(&["search", "clock"])).unwrap().facts(&facts);
    let layer = layer.tool_callable("search", callable_while(&well)).unwrap();
    let layer = layer.rung_after(Place::CachedAnswer, learner.clone());
    let inner = Beside::new([Script::says("!")]);
    let mut service = layer.layer(inner.clone());
    let mut asked = offered();
    asked.edit().options.tool_choice = Some(ToolChoice::Named("search".into()));
    let mut call = asked.call();
    call.single = true;
    asked.set_call(call);
    let answer = got(&mut service, asked.clone()).await;
    assert_eq!((answer.pieces.as_str(), tools_asked(&inner)), ("b!", vec![vec!["ledger".to_owned()]]));
    assert_eq!((inner.asked()[0].call(), &inner.asked()[0].options.tool_choice), (call, &None));
    assert_eq!((answer.head.level, answer.head.quality_estimate), (Level::Partial, 0.75));
    assert_eq!(answer.head.missing_components, ["tool:search"]);
    assert_eq!(chain(&answer.head), [OPEN, ("skip_tool", Some("search"), None)]);
    assert_eq!(answer.head.user_message, "Answered without search, which cannot be used right now.");
    let cause = answer.head.cause().unwrap();
    assert_eq!((cause.code(), cause.tool()), (Code::CircuitOpen, Some("search")));
    assert_eq!(answer.last, answer.head);
    assert_eq!(*told.lock().unwrap(), ["rung", "degraded", "ended"]);
    assert_eq!((skips(&layer), *learner.0.lock().unwrap()), (Some((1, 1)), 0));
    well.store(true, Ordering::Relaxed);
    let answer = got(&mut service, asked).await;
    assert_eq!((answer.head, answer.last), (Degradation::NONE, Degradation::NONE));
    assert_eq!((tools_asked(&inner)[1].len(), skips(&layer)), (2, Some((1, 1))));
    assert_eq!(*learner.0.lock().unwrap(), 1);
}

/// Scenario: requests without tools, or without the tool that cannot be called; a ladder without links.
/// Expected: MUST pass as they are.
#[tokio::test(start_paused = true)]
async fn what_needs_no_shut_tool_passes_as_it_is() {
    let linked = without_search(bare());
    let unlinked = DegradationLayer::new(with_tools(&["search"])).unwrap();
    for (layer, request, tools) in [
        (&linked, request(), 0),
        (&linked, request().tool(tool("clock")).tool(tool("ledger")), 2),
        (&unlinked, offered(), 2),
    ] {
        let inner = Beside::new([Script::says("!")]);
        let answer = got(&mut layer.layer(inner.clone()), request).await;
        assert_eq!((answer.head, tools_asked(&inner)[0].len()), (Degradation::NONE, tools));
    }
    assert_eq!((skips(&linked), skips(&unlinked)), (Some((0, 0)), None));
}

/// Scenario: the only tool that is offered cannot be called.
/// Expected: nothing that is about tools MUST be left in what is asked.
#[tokio::test(start_paused = true)]
async fn without_its_only_tool_a_request_has_no_choice_of_tools() {
    let inner = Beside::new([Script::says("!")]);
    let mut asked = request().tool(tool("search")).tool(tool("search"));
    asked.edit().options.tool_choice = Some(watertight::chat::ToolChoice::Required);
    let answer = got(&mut without_search(bare()).layer(inner.clone()), asked).await;
    assert_eq!((inner.asked()[0].tools.len(), &inner.asked()[0].options.tool_choice), (0, &None));
    assert_eq!(answer.last.missing_components, ["tool:search"]);
}

/// Scenario: a call without a shut tool fails; another model fails, and the next answers; the second rung stands ready.
/// Expected: the models MUST not be offered the tool; the record MUST tell all of it, and what is missing; the second
/// rung MUST not ask the same again.
#[tokio::test(start_paused = true)]
async fn the_ladder_goes_on_without_the_shut_tool() {
    let (facts, told) = facts();
    let models = Beside::new([Script::fails(Code::Overloaded), Script::says("!")]);
    let again = Beside::new([Script::says("?")]);
    let layer = without_search(with_models(&["small", "tiny"])).facts(&facts);
    let layer = layer.fallback_model(models.clone()).unwrap().skip_tool(again.clone()).unwrap();
    let answer = got(&mut layer.layer(fails(Code::Server)), offered()).await;
    assert_eq!((answer.pieces.as_str(), again.asked().len()), ("b!", 0));
    assert_eq!(
        (models.models(), tools_asked(&models)),
        (vec!["small".into(), "tiny".into()], vec![vec!["ledger".to_owned()]; 2])
    );
    let tried = [
        OPEN,
        ("skip_tool", Some("search"), Some(Code::Server)),
        ("fallback_model", Some("small"), Some(Code::Overloaded)),
        ("fallback_model", Some("tiny"), None),
    ];
    assert_eq!((chain(&answer.head), &answer.last), (tried.to_vec(), &answer.head));
    assert_eq!((answer.head.level, answer.head.quality_estimate), (Level::Fallback, 0.75));
    assert_eq!(answer.head.missing_components, ["tool:search"]);
    let message =
        "Answered by tiny: model could not answer. Answered without search, which cannot be used right now.";
    assert_eq!(answer.head.user_message, message);
    assert_eq!(answer.head.cause().unwrap().code(), Code::Server);
    assert_eq!(*told.lock().unwrap(), ["rung", "rung", "rung", "degraded", "ended"]);
    assert_eq!(skips(&layer), Some((1, 0)));

    let layer = without_search(bare()).skip_tool(again.clone()).unwrap();
    let down = got(&mut layer.layer(fails(Code::Server)), offered()).await;
    assert_eq!((down.failure.unwrap().code(), again.asked().len()), (Code::Server, 0));
    // But where another tool is to blame, too, both are left out.
    let request = offered().tool(tool("clock"));
    let answer = got(&mut layer.layer(fails_of(of_tool(Code::Server, "clock"))), request).await;
    assert_eq!(tools_asked(&again), [["ledger"]]);
    assert_eq!(answer.last.missing_components, ["tool:search", "tool:clock"]);
    assert_eq!(skips(&layer), Some((3, 1)));
}

/// Scenario: a tool is shut while a call that was offered it is under way, and the call fails; or none is made at all,
/// since the service is never ready.
/// Expected: another model MUST not be offered it.
#[tokio::test(start_paused = true)]
async fn no_model_is_offered_a_tool_that_was_shut_meanwhile() {
    let well = Arc::new(AtomicBool::new(true));
    let config = DegradationConfig { optional_tools: vec!["search".into()], ..with_models(&["small"]) };
    let models = Beside::new([Script::says("!")]);
    let layer = DegradationLayer::new(config).unwrap().fallback_model(models.clone()).unwrap();
    let layer = layer.tool_callable("search", callable_while(&well)).unwrap();
    let shuts = fails(Code::Server).map_request(move |request: Request| {
        assert_eq!(request.tools.len(), 2);
        well.store(false, Ordering::Relaxed);
        request
    });
    for answer in
        [got(&mut layer.layer(shuts), offered()).await, got(&mut layer.layer(Broken), offered()).await]
    {
        assert_eq!(answer.last.missing_components, ["tool:search"]);
        assert_eq!(chain(&answer.last)[0].0, "request");
        assert_eq!(chain(&answer.last)[1], ("fallback_model", Some("small"), None));
    }
    assert_eq!(tools_asked(&models), [["ledger"], ["ledger"]]);
    assert_eq!(skips(&layer), Some((0, 0)), "neither call was made without it");
}

/// Scenario: a call without a shut tool fails as no ladder is for; or its caller goes away before the answer.
/// Expected: the failure MUST go up as it is, and be told as the rung's; who left MUST leave no trace of the rung.
#[tokio::test(start_paused = true)]
async fn what_goes_nowhere_goes_there_without_a_tool() {
    let (facts, told) = facts();
    let layer = without_search(bare()).facts(&facts);
    let down = got(&mut layer.layer(fails(Code::Authentication)), offered()).await;
    assert_eq!(down.failure.unwrap().code(), Code::Authentication);
    assert_eq!(
        (std::mem::take(&mut *told.lock().unwrap()), skips(&layer)),
        (vec!["rung".to_owned(), "ended".into()], Some((1, 0)))
    );
    let log = Log::default();
    let mut service = layer.layer(Stage::new("a", &log, [Script::head([Act::Hang])]));
    let call = service.ready().await.unwrap().call(offered());
    assert!(call.now_or_never().is_none());
    assert_eq!((log.open(), skips(&layer)), (0, Some((1, 0))));
    assert_eq!(*told.lock().unwrap(), ["ended"]);
}

/// Scenario: a failover beneath went on to another model, without the tool that the ladder left out.
/// Expected: one record MUST tell of both, in the head and in the last event.
#[tokio::test(start_paused = true)]
async fn a_failover_without_a_tool_is_one_record() {
    let (facts, told) = facts();
    let layer = without_search(with_models(&["small"])).facts(&facts);
    let down = vec![fail(Code::Server).with_provider(&"first".into())];
    let answer = got(&mut layer.layer(service_fn(answers_as("small", down))), offered()).await;
    assert_eq!((answer.head.level, answer.head.quality_estimate), (Level::Fallback, 0.75));
    assert_eq!(answer.head.missing_components, ["tool:search"]);
    let tried = [
        OPEN,
        ("skip_tool", Some("search"), None),
        ("request", Some("first"), Some(Code::Server)),
        ("fallback_model", Some("small"), None),
    ];
    assert_eq!((chain(&answer.head), &answer.last), (tried.to_vec(), &answer.head));
    let words = &answer.head.user_message;
    assert!(words.starts_with("Answered by small") && words.contains("without search"), "{words}");
    assert_eq!(*told.lock().unwrap(), ["degraded", "rung", "degraded", "ended"]);
}

/// Scenario: the stream of an answer without a tool breaks; the same with a ladder beneath that makes it an answer.
/// Expected: the record MUST tell of the tool and of the rest; whoever watches from above MUST be told the failure of
/// the stream, not of the tool.
#[tokio::test(start_paused = true)]
async fn an_answer_without_a_tool_may_break() {
    let dies = || {
        Stage::new("a", &Log::default(), [Script::body([Act::Text("1"), Act::Fail(fail(Code::Transport))])])
    };
    let kept = DegradationConfig { max_partial: Some(100), ..bare() };
    let alone = got(&mut without_search(kept).layer(dies()), offered()).await;
    assert_eq!(
        chain(&alone.last),
        [OPEN, ("skip_tool", Some("search"), Some(Code::Transport)), ("partial_result", None, None)]
    );
    let nested = without_search(bare()).layer(DegradationLayer::default().layer(dies()));
    let nested = got(&mut nested.clone(), offered()).await;
    for answer in [alone, nested] {
        assert_eq!(
            (answer.whole.as_str(), answer.head.missing_components),
            ("a1", vec!["tool:search".to_owned()])
        );
        assert_eq!((answer.last.level, answer.last.quality_estimate), (Level::Partial, 0.5));
        assert_eq!(answer.last.missing_components, ["tool:search", "rest_of_answer"]);
        assert_eq!(answer.last.cause().unwrap().code(), Code::Transport);
    }
}

/// Scenario: a ladder beneath answers by another model, whose stream breaks; the ladder above had nothing to do.
/// Expected: the last event MUST keep what the ladder beneath says in it.
#[tokio::test(start_paused = true)]
async fn the_last_word_from_beneath_is_kept() {
    let config = DegradationConfig { max_partial: Some(100), ..with_models(&["small"]) };
    let dies = Script::body([Act::Text("1"), Act::Fail(fail(Code::Transport))]);
    let beneath = DegradationLayer::new(config).unwrap().fallback_model(Beside::new([dies])).unwrap();
    let mut service = DegradationLayer::default().layer(beneath.layer(fails(Code::Server)));
    let answer = got(&mut service, request()).await;
    assert_eq!(answer.head.level, Level::Fallback);
    assert_eq!(answer.last.missing_components, ["rest_of_answer"]);
}

/// Scenario: a tool failed that is required; one that was not offered; no tool at all is to blame.
/// Expected: the rung MUST have nothing to do with it, nor the first with a tool's failure; the next MUST be tried.
#[tokio::test(start_paused = true)]
async fn what_is_required_is_not_left_out() {
    for (failure, models) in [
        (of_tool(Code::Server, "ledger"), 0),
        (of_tool(Code::Server, "elsewhere"), 0),
        (fail(Code::Server), 1),
    ] {
        let (beside, model) = (Beside::new([Script::says("!")]), Beside::new([Script::fails(Code::Server)]));
        let config = DegradationConfig {
            optional_tools: vec!["search".into(), "elsewhere".into()],
            ..with_models(&["small"])
        };
        let layer = DegradationLayer::new(config).unwrap().fallback_model(model.clone()).unwrap();
        let layer =
            layer.skip_tool(beside.clone()).unwrap().rung_after(Place::SkipTool, Next::answers("next"));
        let mut service = layer.layer(fails_of(failure));
        let request = request().tool(tool("search")).tool(tool("ledger"));
        assert_eq!(got(&mut service, request).await.pieces, "next");
        assert!(beside.asked().is_empty());
        assert_eq!(model.asked().len(), models);
    }
}

/// A rung of the test's own.
struct Next {
    name: &'static str,
    needs: Needs,
    consider: Consider,
    does: Does,
}

enum Does {
    Answer,
    Err,
    Hang,
}

impl Next {
    fn new(name: &'static str, does: Does) -> Self {
        Self { name, needs: Needs::Nothing, consider: Consider::Try, does }
    }

    fn answers(name: &'static str) -> Self {
        Self::new(name, Does::Answer)
    }
}

impl Rung for Next {
    fn name(&self) -> &str {
        self.name
    }

    fn needs(&self) -> Needs {
        self.needs
    }

    fn consider(&self, _: &Case) -> Consider {
        self.consider.clone()
    }

    fn try_answer<'a>(&'a self, case: &'a mut Case) -> Answering<'a> {
        Box::pin(async move {
            match self.does {
                Does::Answer => Ok(Answer::text(case, Level::Fallback, 0.9, self.name)),
                Does::Err => Err(fail(Code::Conflict)),
                Does::Hang => std::future::pending().await,
            }
        })
    }
}

/// Scenario: every code, over rungs that need a model, tools, and nothing, and all err.
/// Expected: four MUST try none; a spent budget, a full bulkhead and a deadline MUST try the last alone; the rest all.
/// The failure MUST go up as it was.
#[tokio::test(start_paused = true)]
async fn each_failure_goes_where_the_table_says() {
    for code in Code::ALL {
        let (facts, told) = facts();
        let layer = DegradationLayer::new(bare()).unwrap().facts(&facts);
        let rung = |name, needs| Next { needs, ..Next::new(name, Does::Err) };
        let layer = layer
            .rung_after(Place::FallbackModel, rung("model", Needs::Model))
            .rung_after(Place::SkipTool, rung("tools", Needs::Tools))
            .rung_after(Place::CachedAnswer, rung("nothing", Needs::Nothing));
        let got = got(&mut layer.layer(fails(code)), request()).await;
        assert_eq!(got.failure.unwrap().code(), code);
        let tried = match code {
            Code::InvalidRequest | Code::Authentication | Code::ContentFilter | Code::Cancelled => 0,
            Code::BudgetExhausted | Code::BulkheadFull | Code::Deadline => 1,
            _ => 3,
        };
        assert_eq!(told.lock().unwrap().iter().filter(|name| *name == "rung").count(), tried, "{code}");
    }
}

/// Scenario: own rungs behind several places, put there in disorder; one passes, one is skipped, one errs.
/// Expected: MUST be tried in the order of the places, then of their coming; a pass MUST leave no trace, a skip MUST.
#[tokio::test(start_paused = true)]
async fn rungs_stand_in_order() {
    let open = Consider::Skip(fail(Code::CircuitOpen));
    let layer = DegradationLayer::new(bare())
        .unwrap()
        .rung_after(Place::PartialResult, Next::answers("last"))
        .rung_after(Place::SkipTool, Next::new("second", Does::Err))
        .rung_after(Place::SkipTool, Next::new("third", Does::Err))
        .rung_after(Place::CachedAnswer, Next { consider: Consider::Pass, ..Next::answers("passes") })
        .rung_after(Place::FallbackModel, Next { consider: open, ..Next::answers("skipped") });
    let got = got(&mut layer.layer(fails(Code::Server)), request()).await;
    let names: Vec<_> = chain(&got.last).iter().map(|(rung, ..)| *rung).collect();
    assert_eq!(names, ["request", "skipped", "second", "third", "last"]);
}

/// Scenario: more rungs than the depth allows, with words at the end and without.
/// Expected: no more than the depth MUST be tried; the words MUST be the last of it.
#[tokio::test(start_paused = true)]
async fn the_ladder_is_no_deeper_than_told() {
    for (graceful, names) in [
        (Some(GracefulConfig::default()), vec!["request", "one", "graceful_failure"]),
        (None, vec!["request", "one", "two"]),
    ] {
        let (facts, told) = facts();
        let words = graceful.is_some();
        let config = DegradationConfig { max_depth: 2, graceful, ..bare() };
        let layer = DegradationLayer::new(config).unwrap().facts(&facts);
        let layer = ["one", "two", "three"]
            .into_iter()
            .fold(layer, |layer, name| layer.rung_after(Place::SkipTool, Next::new(name, Does::Err)));
        let got = got(&mut layer.layer(fails(Code::Server)), request()).await;
        if words {
            assert_eq!(chain(&got.last).iter().map(|(rung, ..)| *rung).collect::<Vec<_>>(), names);
        }
        assert_eq!(told.lock().unwrap().iter().filter(|name| *name == "rung").count(), 2);
    }
}

/// Scenario: a rung that never answers, under its own time and under the call's deadline; then rungs with and without
/// a model.
/// Expected: MUST be left when its time is over; after the deadline nothing that needs a model MUST be tried.
#[tokio::test(start_paused = true)]
async fn a_rung_that_hangs_is_left() {
    let layer = || {
        let hang = Next { needs: Needs::Model, ..Next::new("hangs", Does::Hang) };
        let model = Next { needs: Needs::Tools, ..Next::answers("model") };
        DegradationLayer::new(bare())
            .unwrap()
            .rung_after(Place::FallbackModel, hang)
            .rung_after(Place::SkipTool, model)
            .rung_after(Place::CachedAnswer, Next::answers("kept"))
    };
    let begun = Instant::now();
    let answer = got(&mut layer().layer(fails(Code::Server)), request()).await;
    assert_eq!((answer.pieces.as_str(), begun.elapsed()), ("model", Duration::from_secs(60)));
    assert_eq!(chain(&answer.last)[1], ("hangs", None, Some(Code::Deadline)));
    let begun = Instant::now();
    let hurried = request().within(Duration::from_secs(5));
    let answer = got(&mut layer().layer(fails(Code::Server)), hurried).await;
    assert_eq!((answer.pieces.as_str(), begun.elapsed()), ("kept", Duration::from_secs(5)));
    assert_eq!(chain(&answer.last)[2], ("model", None, Some(Code::Deadline)));
}

/// Scenario: a rung that asks no model hangs, and the call's deadline comes; the words stand behind it.
/// Expected: MUST be left a second after the deadline, not when its own minute is over.
#[tokio::test(start_paused = true)]
async fn no_rung_outlives_the_deadline_by_much() {
    let layer = DegradationLayer::default().rung_after(Place::CachedAnswer, Next::new("hangs", Does::Hang));
    let down = Script::head([Act::Wait(4_500), Act::Fail(fail(Code::Server))]);
    let begun = Instant::now();
    let mut service = layer.layer(Stage::new("a", &Log::default(), [down]));
    let answer = got(&mut service, request().within(Duration::from_secs(5))).await;
    assert_eq!((answer.last.level, begun.elapsed()), (Level::Failed, Duration::from_millis(5_500)));
}

/// Scenario: the usual order: the ladder around a failover of two that retry, and all is down.
/// Expected: the ladder MUST be climbed once, after the last attempt; the head MUST tell of each of them.
#[tokio::test(start_paused = true)]
async fn the_ladder_comes_after_all_retries_and_candidates() {
    let log = Log::default();
    let retry = RetryConfig { retries: 1, jitter: Jitter::None, ..RetryConfig::default() };
    let candidate = |name| {
        RetryLayer::new(retry.clone()).unwrap().layer(Stage::new(name, &log, [Script::fails(Code::Server)]))
    };
    let failover = FailoverLayer::new([candidate("b")]).layer(candidate("a"));
    let (facts, told) = facts();
    let mut service = DegradationLayer::default().facts(&facts).layer(failover);
    let reply = service.ready().await.unwrap().call(request()).await.unwrap();
    assert_eq!(log.calls(), ["a", "a", "b", "b"]);
    assert_eq!(*told.lock().unwrap(), ["rung", "degraded"]);
    let codes: Vec<_> = reply.head().attempts.iter().map(|attempt| attempt.code).collect();
    assert_eq!(codes, [Code::Server, Code::Server, Code::Server, Code::Server, Code::AllFailed]);
    assert_eq!(reply.head().degradation().cause().unwrap().code(), Code::AllFailed);
}

/// Scenario: a stream breaks after output: of the service, and of the fallback model; with text, and without.
/// Expected: what came MUST be the answer, with what lacks and why; no model MUST be asked again. Without text, and for
/// a failure that no ladder is for, the failure MUST go up as it is.
#[tokio::test(start_paused = true)]
async fn a_broken_stream_is_a_partial_result() {
    let dies = |code| Script::body([Act::Preamble, Act::Text("1"), Act::Text("2"), Act::Fail(fail(code))]);
    let config = DegradationConfig { max_partial: Some(100), ..with_models(&["small"]) };
    let beside = Beside::new([dies(Code::Transport)]);
    let layer = DegradationLayer::new(config).unwrap().fallback_model(beside.clone()).unwrap();

    let log = Log::default();
    let mut service = layer.layer(Stage::new("a", &log, [dies(Code::Timeout(Clock::Idle))]));
    let answer = got(&mut service, request()).await;
    assert_eq!((answer.pieces.as_str(), answer.whole.as_str()), ("a1a2", "a1a2"));
    assert_eq!(answer.stop, Some(Stop::Other("partial_result".into())));
    assert_eq!(answer.head, Degradation::NONE, "nobody knew");
    assert_eq!((answer.last.level, answer.last.quality_estimate), (Level::Partial, 0.5));
    assert_eq!(answer.last.missing_components, ["rest_of_answer"]);
    let tried = [("request", None, Some(Code::Timeout(Clock::Idle))), ("partial_result", None, None)];
    assert_eq!(chain(&answer.last), tried);
    assert!(answer.last.user_message.contains("in time"), "{}", answer.last.user_message);
    assert!(beside.asked().is_empty());
    assert_eq!(log.open(), 0);

    let answer = got(&mut layer.layer(fails(Code::Server)), request()).await;
    let tried = [
        ("request", None, Some(Code::Server)),
        ("fallback_model", Some("small"), Some(Code::Transport)),
        ("partial_result", None, None),
    ];
    assert_eq!((chain(&answer.last), answer.whole.as_str()), (tried.to_vec(), "b1b2"));
    assert_eq!(beside.asked().len(), 1);

    for code in [Code::ContentFilter, Code::Cancelled, Code::Authentication, Code::InvalidRequest] {
        let answer = got(&mut layer.layer(Stage::new("a", &Log::default(), [dies(code)])), request()).await;
        assert_eq!((answer.pieces.as_str(), answer.failure.unwrap().code()), ("a1a2", code));
    }
    let thinks = service_fn(|_| {
        let reasoning = Event::Reasoning { index: 0, text: "hm".into() };
        let events = vec![Ok(reasoning), Err(fail(Code::Transport))];
        std::future::ready(Ok(Reply::new(Head::default(), futures_util::stream::iter(events))))
    });
    let answer = got(&mut layer.layer(thinks), request()).await;
    assert_eq!(answer.failure.unwrap().code(), Code::Transport, "thoughts are no answer");
}

/// Scenario: a partial result is switched off, or more came than is kept.
/// Expected: the failure MUST go up as it is.
#[tokio::test(start_paused = true)]
async fn without_a_partial_result_the_failure_goes_up() {
    for max_partial in [None, Some(3)] {
        let script = Script::body([Act::Text("1"), Act::Text("2"), Act::Fail(fail(Code::Transport))]);
        let layer = DegradationLayer::new(DegradationConfig { max_partial, ..bare() }).unwrap();
        let got = got(&mut layer.layer(Stage::new("a", &Log::default(), [script])), request()).await;
        assert_eq!((got.pieces.as_str(), got.failure.unwrap().code()), ("a1a2", Code::Transport));
    }
}

/// Scenario: nothing helps: failures that pass, with and without a stated wait, one that does not, and one with words
/// of our own; streamed and whole.
/// Expected: MUST be words a person can act on, with the contact; the level MUST be failed and the quality zero.
#[tokio::test(start_paused = true)]
async fn the_last_answer_is_words() {
    let graceful = GracefulConfig {
        words: [(Code::NotFound, "Ask for another.".to_owned())].into(),
        ..GracefulConfig::default().contact("help@example.com")
    };
    let config = DegradationConfig { graceful: Some(graceful), ..bare() };
    for (failure, words) in [
        (fail(Code::Server), "The assistant cannot be reached right now. Please try again in a few minutes."),
        (
            fail(Code::BudgetExhausted).with_retry_after(Some(Duration::from_millis(41_200))),
            "Your budget is used up for now. Please try again in 42 seconds.",
        ),
        (fail(Code::ContextLength), "The conversation is too long to be answered. Please shorten it"),
        (fail(Code::NotFound), "Ask for another."),
    ] {
        let mut service = DegradationLayer::new(config.clone()).unwrap().layer(fails_of(failure.clone()));
        let answer = got(&mut service, request()).await;
        assert!(answer.pieces.starts_with(words), "{}", answer.pieces);
        assert_eq!((&answer.whole, &answer.last.user_message), (&answer.pieces, &answer.pieces));
        assert_eq!((answer.last.level, answer.last.quality_estimate), (Level::Failed, 0.0));
        assert_eq!(answer.last.support_contact.as_deref(), Some("help@example.com"));
        assert_eq!(answer.last.cause().unwrap().code(), failure.code());
        let whole = got(&mut service, Request::new("model").user("hello")).await;
        assert_eq!(
            (whole.pieces.as_str(), whole.whole),
            ("", answer.whole),
            "no pieces where none were asked"
        );
    }
}

/// Scenario: a service that will never be ready.
/// Expected: the caller MUST have an answer all the same.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_never_ready_is_answered_for() {
    let mut service = DegradationLayer::default().layer(Broken);
    assert_eq!(got(&mut service, request()).await.last.level, Level::Failed);
}

#[derive(Clone)]
struct Broken;

impl Service<Request> for Broken {
    type Response = BoxReply;
    type Error = Failure;
    type Future = Down;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Failure>> {
        std::task::Poll::Ready(Err(fail(Code::Transport)))
    }

    fn call(&mut self, _: Request) -> Down {
        unreachable!("it is never ready")
    }
}

/// Scenario: a caller goes away while a rung is at work, after each number of polls.
/// Expected: what the rung holds MUST be gone, and no other be tried.
#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_leaves_nothing_behind() {
    for waits in 0..4 {
        let log = Log::default();
        let slow = |code| Script::head([Act::Wait(100), Act::Wait(100), Act::Fail(fail(code))]);
        let layer = DegradationLayer::new(with_models(&["small"])).unwrap();
        let layer = layer.fallback_model(Stage::new("b", &log, [slow(Code::Server)])).unwrap();
        let mut service = layer.layer(Stage::new("a", &log, [slow(Code::Server)]));
        let call = service.ready().await.unwrap().call(request());
        let left = tokio::time::timeout(Duration::from_millis(50 + 100 * waits), call).await;
        assert!(left.is_err());
        assert_eq!(log.open(), 0, "after {waits}");
        assert_eq!(log.calls().len(), if waits < 2 { 1 } else { 2 });
    }
}

/// Scenario: a call, a rung at work and an answer that is read are each polled to their end.
/// Expected: futures and streams MUST be `Send`, so that they may be spawned.
#[test]
fn what_comes_of_it_may_be_spawned() {
    fn sendable<T: Send>(_: &T) {}
    let mut service = DegradationLayer::default().layer(fails(Code::Server));
    sendable(&service);
    let call = async move { got(&mut service, request()).await };
    sendable(&call.boxed());
}

/// Scenario: an answer breaks off whose usage was told before its first output, between, or not at all.
/// Expected: the partial answer MUST tell what was told: it is paid, whenever that was said.
#[tokio::test(start_paused = true)]
async fn a_partial_answer_tells_the_usage_that_was_told() {
    let usage = Usage { input: 7, output: 1, ..Usage::default() };
    for (first, then) in [(true, false), (false, true), (false, false)] {
        let told = move |told: bool| told.then(|| Ok(Event::Usage(Box::new(usage))));
        let layer = DegradationLayer::new(DegradationConfig { max_partial: Some(1_000), ..bare() }).unwrap();
        let mut service = layer.layer(service_fn(move |_: Request| {
            let text = Some(Ok(Event::text(0, "half")));
            let events = [told(first), text, told(then), Some(Err(fail(Code::Truncated)))];
            let events: Vec<_> = events.into_iter().flatten().collect();
            std::future::ready(Ok::<_, Failure>(Reply::new(
                Head::of("b"),
                futures_util::stream::iter(events),
            )))
        }));
        let reply = service.ready().await.unwrap().call(request()).await.unwrap();
        let last = reply.collect().await.unwrap();
        assert_eq!(last.message.to_text(), "half");
        assert_eq!(last.usage, (first || then).then_some(usage), "{first}, {then}");
    }
}
