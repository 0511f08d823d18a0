//! The table: each layer as the laws see it.

use std::time::Duration;

use futures_util::Stream;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{BoxReply, Event, Reply, Request, Watchers};
use watertight::event::Facts;
use watertight::failure::{Code, Failure};
use watertight::key::KeyBy;
use watertight::layers::bulkhead::{BulkheadConfig, StateSnapshot};
use watertight::layers::reset::ResetConfig;
use watertight::layers::retry::{BudgetConfig, Jitter, RetryConfig};
use watertight::layers::timeout::Clocks;
use watertight::layers::{BulkheadLayer, DualClockTimeoutLayer, FailoverLayer, ResetLayer, RetryLayer};

use crate::door::Door;
use crate::support::{Act, Script, fail};

/// A service whose type is not spelled.
pub type Svc = BoxCloneSyncService<Request, BoxReply, Failure>;

/// A layer, as the laws see it.
pub struct Row {
    /// Puts the layer on a stage. Each time it is the same layer.
    pub wrap: Box<dyn Fn(Door) -> Svc + Send + Sync>,
    /// How many calls the layer counts as in flight, or in line.
    pub held: Box<dyn Fn() -> usize + Send + Sync>,
    /// Whether it is ready only when what it stands on is. A failover never is: another candidate may be.
    pub presses: bool,
    /// Whether another may answer in the place of what failed.
    pub replaces: bool,
}

/// Makes a row of a fresh layer that tells its facts to this sink.
pub type Make = fn(&Facts) -> Row;

/// Every layer.
pub const TABLE: [(&str, Make); 7] = [
    ("timeout", timeout),
    ("retry", retry),
    ("failover", failover),
    ("failover of two", failover_of_two),
    ("reset", reset),
    ("bulkhead", bulkhead),
    ("bulkhead by key", bulkhead_by_key),
];

/// A layer that remembers: so many calls of this kind teach it something, and then a call through a second service,
/// which would say these lines, reaches its stage so often.
pub struct Lesson {
    pub name: &'static str,
    pub make: Make,
    pub first: Script,
    pub calls: usize,
    pub second: Script,
    pub reaches: usize,
}

/// What the layers that remember are taught. Clocks and resets remember nothing from call to call.
pub fn lessons() -> Vec<Lesson> {
    let fails = || Script::fails(Code::Server);
    vec![
        // The reserve of the budget is spent, so that no failure is tried again.
        Lesson { name: "retry", make: retry, first: fails(), calls: 5, second: fails(), reaches: 1 },
        // The first candidate is moved off, so that nobody asks it.
        Lesson {
            name: "failover of two",
            make: failover_of_two,
            first: fails(),
            calls: 3,
            second: Script::says("x"),
            reaches: 0,
        },
        // Its slot is taken, and the second waits in line until it is refused.
        Lesson {
            name: "bulkhead",
            make: bulkhead,
            first: Script::says("x"),
            calls: 1,
            second: Script::says("x"),
            reaches: 0,
        },
        Lesson {
            name: "bulkhead by key",
            make: bulkhead_by_key,
            first: Script::says("x"),
            calls: 1,
            second: Script::says("x"),
            reaches: 0,
        },
    ]
}

/// What makes each layer tell facts.
pub fn stories() -> Vec<(&'static str, Make, Script)> {
    let fails = || Script::fails(Code::Server);
    vec![
        ("timeout", timeout, Script::head([Act::Hang])),
        ("retry", retry, fails()),
        ("failover of two", failover_of_two, fails()),
        ("reset", reset, Script::body([Act::Text("x"), Act::Fail(fail(Code::Transport))])),
        ("bulkhead", bulkhead, Script::says("x")),
        ("bulkhead by key", bulkhead_by_key, Script::says("x")),
    ]
}

fn timeout(facts: &Facts) -> Row {
    let clocks = Clocks { first_output: Some(Duration::from_secs(5)), ..Clocks::default() };
    row(DualClockTimeoutLayer::new(clocks).unwrap().facts(facts))
}

fn retry(facts: &Facts) -> Row {
    let budget = BudgetConfig { ratio: 0.001, reserve: 5, ..BudgetConfig::default() };
    let config = RetryConfig {
        retries: 1,
        base: Duration::from_millis(20),
        jitter: Jitter::None,
        budget: Some(budget),
        ..RetryConfig::default()
    };
    row(RetryLayer::new(config).unwrap().facts(facts))
}

fn failover(facts: &Facts) -> Row {
    Row { presses: false, ..row(FailoverLayer::new([]).facts(facts)) }
}

/// Behind the stage stands another that always answers.
fn failover_of_two(facts: &Facts) -> Row {
    let other = Door::new([Script::says("y")]);
    Row { presses: false, replaces: true, ..row(FailoverLayer::new([other]).facts(facts)) }
}

fn reset(facts: &Facts) -> Row {
    let config = ResetConfig { resets: 1, delay: Duration::from_millis(20), ..ResetConfig::default() };
    row(ResetLayer::new(config).unwrap().facts(facts))
}

fn bulkhead(facts: &Facts) -> Row {
    walled(KeyBy::Nothing, facts)
}

fn bulkhead_by_key(facts: &Facts) -> Row {
    walled(KeyBy::Model, facts)
}

/// One slot, and a short line.
fn walled(key: KeyBy, facts: &Facts) -> Row {
    let config = BulkheadConfig {
        key,
        max_concurrent: Some(1),
        max_waiting: 2,
        max_wait: Duration::from_millis(100),
        ..BulkheadConfig::default()
    };
    let layer = BulkheadLayer::new(config).unwrap().facts(facts);
    let handle = layer.handle();
    let held = move || {
        let count = |state: &StateSnapshot| (state.in_flight + state.waiting) as usize;
        handle.snapshot().states.iter().map(count).sum()
    };
    Row { held: Box::new(held), ..row(layer) }
}

/// A layer that counts no calls.
pub fn row<L, E, W>(layer: L) -> Row
where
    L: Layer<Door> + Send + Sync + 'static,
    L::Service: Service<Request, Response = Reply<E, W>, Error = Failure, Future: Send>,
    L::Service: Clone + Send + Sync + 'static,
    E: Stream<Item = Result<Event, Failure>> + Send + Unpin + 'static,
    W: Watchers + Send + Unpin + 'static,
{
    let wrap = move |door| BoxCloneSyncService::new(layer.layer(door).map_response(Reply::boxed));
    Row { wrap: Box::new(wrap), held: Box::new(|| 0), presses: true, replaces: false }
}
