//! The budget of a bulkhead: what is put aside, what is settled, what is owed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use proptest::prelude::*;
use support::{fail, request};
use tokio::time::{Instant, advance, sleep};
use tower::{Layer, Service, ServiceExt, service_fn};
use watertight::chat::{Completion, Cost, Event, Head, Message, Reply, Request, Reset, Role, Stop, Usage};
use watertight::event::{Fact, Facts};
use watertight::failure::{Code, Failure};
use watertight::key::Caller;
use watertight::layers::BulkheadLayer;
use watertight::layers::bulkhead::{Budget, BudgetConfig, BulkheadConfig, Reserved, Spent};

const SECOND: Duration = Duration::from_secs(1);

fn budget(tokens: u64) -> BudgetConfig {
    BudgetConfig { tokens, ..BudgetConfig::default() }
}

fn layer(budget: BudgetConfig) -> BulkheadLayer {
    let config = BulkheadConfig { budget: Some(budget), ..BulkheadConfig::users() };
    BulkheadLayer::new(config).unwrap().named("user")
}

fn costs(input: u64, output: Option<u64>) -> Request {
    let mut cost = Cost::default();
    (cost.input, cost.output) = (input, output);
    request().attach(Caller::new("ann")).attach(cost)
}

fn completed(tokens: Option<u64>) -> Event {
    let usage = tokens.map(|tokens| Usage { input: tokens, ..Usage::default() });
    Event::Completed(Box::new(Completion::new(Message::text(Role::Assistant, ""), Stop::End, usage)))
}

type Item = Result<Event, Failure>;
type Stream = futures_util::stream::BoxStream<'static, Item>;

/// Streams these, and then nothing more ever.
fn streams(
    items: Vec<Item>,
) -> impl Service<Request, Response = Reply<Stream>, Error = Failure, Future: Send> + Clone {
    service_fn(move |_| {
        let items = futures_util::stream::iter(items.clone()).chain(futures_util::stream::pending());
        async { Ok(Reply::new(Head::default(), items.boxed())) }
    })
}

/// What is used, and what is put aside.
fn stands(layer: &BulkheadLayer) -> (u64, u64) {
    let snapshot = layer.snapshot();
    let budget = snapshot.states.first().map(|state| state.budget.unwrap());
    budget.map_or((0, 0), |budget| (budget.used, budget.reserved))
}

fn used(layer: &BulkheadLayer) -> u64 {
    let (used, reserved) = stands(layer);
    used + reserved
}

/// Scenario: a caller uses 90 of 100 tokens; then asks for 20, for 10 and for 1; another caller asks; a minute passes.
/// Expected: 20 MUST be refused with name, figures and the rest of the minute; 10 MUST pass; then nothing; the other
/// MUST pass; the refused MUST pass at the told instant and not a moment earlier.
#[tokio::test(start_paused = true)]
async fn a_spent_budget_refuses_until_the_window_ends() {
    let layer = layer(budget(100));
    let service = layer.layer(streams(vec![Ok(Event::text(0, "x")), Ok(completed(None))]));
    let call = |request| service.clone().oneshot(request);
    // Replies that are kept open: what they put aside stays.
    let _first = call(costs(90, None)).await.unwrap();
    advance(20 * SECOND).await;
    let refused = call(costs(15, Some(5))).await.err().unwrap();
    assert_eq!(refused.code(), Code::BudgetExhausted);
    assert!(refused.is_local());
    assert_eq!(
        refused.message(),
        "user:ann: 0 of 100 tokens used, 90 put aside by calls in flight, and the call asks 20"
    );
    assert_eq!(refused.retry_after(), Some(40 * SECOND));
    assert_eq!(used(&layer), 90, "a refusal takes nothing");
    let _second = call(costs(10, None)).await.unwrap();
    assert!(call(costs(1, None)).await.is_err());
    assert!(call(costs(0, None)).await.is_err(), "of unknown cost, and nothing is left");
    call(costs(50, None).attach(Caller::new("ben"))).await.unwrap();
    advance(40 * SECOND - Duration::from_millis(1)).await;
    assert!(call(costs(1, None)).await.is_err());
    advance(Duration::from_millis(1)).await;
    call(costs(15, Some(5))).await.unwrap();
}

/// Scenario: a caller used 30 of 100 tokens and has 60 put aside by a call in flight, of which it takes 10 after five
/// seconds; another call asks for 50 before and after.
/// Expected: before, it MUST be refused with both figures apart, and with the end of the window, since nobody knows what
/// will be given back; after, it MUST pass at once, and what was put aside MUST be none.
#[tokio::test(start_paused = true)]
async fn what_calls_in_flight_put_aside_is_told_apart_from_what_is_used() {
    let layer = layer(budget(100));
    let call = |tokens: Option<u64>, request| {
        let service = layer.layer(streams(vec![Ok(Event::text(0, "x")), Ok(completed(tokens))]));
        service.oneshot(request)
    };
    drain(call(Some(30), costs(30, None)).await.unwrap()).await;
    let flies = call(Some(10), costs(50, Some(10))).await.unwrap();
    assert_eq!(stands(&layer), (30, 60));
    let refused = call(None, costs(50, None)).await.err().unwrap();
    let told = "user:ann: 30 of 100 tokens used, 60 put aside by calls in flight, and the call asks 50";
    assert_eq!((refused.message(), refused.retry_after()), (told, Some(60 * SECOND)));
    advance(5 * SECOND).await;
    drain(flies).await;
    assert_eq!(stands(&layer), (40, 0));
    let refused = call(None, costs(61, None)).await.err().unwrap();
    assert_eq!(refused.message(), "user:ann: 40 of 100 tokens used, and the call asks 61");
    let _passes = call(None, costs(50, None)).await.unwrap();
    assert_eq!(stands(&layer), (40, 50));
}

/// Scenario: a call that put 80 of 100 tokens aside outlives its window, and another puts 30 aside in the next; then the
/// first ends with nothing used.
/// Expected: what the first holds MUST be no part of the next window, before and after its end.
#[tokio::test(start_paused = true)]
async fn what_was_put_aside_in_a_window_before_is_not_in_the_next() {
    let layer = layer(budget(100));
    let service = layer.layer(streams(vec![]));
    let first = service.clone().oneshot(costs(80, None)).await.unwrap();
    assert_eq!(stands(&layer), (0, 80));
    advance(60 * SECOND).await;
    let _second = service.oneshot(costs(30, None)).await.unwrap();
    assert_eq!(stands(&layer), (0, 30));
    drop(first);
    assert_eq!(stands(&layer), (0, 30));
}

/// Reads a reply to its last event.
async fn drain(mut reply: impl futures_util::Stream<Item = Item> + Unpin) {
    while !matches!(reply.next().await, None | Some(Ok(Event::Completed(_)))) {}
}

/// Scenario: calls end in each way a call can: with usage, without, with a failure before and after output, dropped before
/// and after output, reset in between.
/// Expected: what is used MUST be the usage, also of a call that broke after it was told; else input and output seen, at
/// most what was declared; nothing where nothing came; what was void MUST be paid, too.
#[tokio::test(start_paused = true)]
async fn a_call_is_settled_by_how_it_ended() {
    let text = |bytes: usize| Ok(Event::text(0, "x".repeat(bytes)));
    let reset = || Ok(Event::Reset(Box::new(Reset::after(fail(Code::Transport)))));
    let started = || Ok(Event::Started { id: "".into(), model: "".into() });
    let told = |input, output| Ok(Event::Usage(Box::new(Usage { input, output, ..Usage::default() })));
    let rows: [(Vec<Item>, u64); 15] = [
        (vec![text(40), Ok(completed(Some(77)))], 77),
        (vec![Ok(completed(Some(0)))], 0),
        (vec![text(40), Ok(completed(None))], 30),
        (vec![text(4000), Ok(completed(None))], 70),
        (vec![Ok(completed(None))], 70),
        (vec![started(), Err(fail(Code::Server))], 0),
        (vec![text(41), Err(fail(Code::Server))], 31),
        (vec![started()], 0),
        (vec![text(8)], 22),
        (vec![text(40), reset(), text(8), Ok(completed(Some(25)))], 55),
        (vec![told(33, 1), text(40), Err(fail(Code::Server))], 44),
        (vec![told(33, 1), Err(fail(Code::Server))], 34),
        (vec![text(4), told(33, 9)], 42),
        (vec![told(33, 4), Ok(completed(None))], 37),
        (vec![told(33, 4), reset(), text(8), Ok(completed(Some(25)))], 62),
    ];
    for (row, (items, expected)) in rows.into_iter().enumerate() {
        let layer = layer(budget(1000));
        let ends = items.len();
        let mut reply = layer.layer(streams(items)).oneshot(costs(20, Some(50))).await.unwrap();
        assert_eq!(used(&layer), 70, "row {row}: put aside");
        for _ in 0..ends {
            let _ = reply.next().await;
        }
        drop(reply);
        assert_eq!(used(&layer), expected, "row {row}");
    }
}

/// Scenario: a call of 250 tokens at a budget of 100, untouched and touched, strict and not.
/// Expected: untouched it MUST pass, alone; the rest MUST be owed for the windows after it; touched or strict it MUST be
/// refused, touched with the instant at which it passes, strict without one.
#[tokio::test(start_paused = true)]
async fn a_call_dearer_than_the_budget_has_a_window_for_itself() {
    let dear = layer(budget(100));
    let service = dear.layer(streams(vec![Ok(completed(Some(250)))]));
    let call = |request| {
        let service = service.clone();
        async move {
            let mut reply = service.oneshot(request).await?;
            while !matches!(reply.next().await, None | Some(Ok(Event::Completed(_)))) {}
            Ok::<_, Failure>(())
        }
    };
    call(costs(250, None)).await.unwrap();
    let begun = Instant::now();
    let refused = call(costs(1, None)).await.unwrap_err();
    // 150 are owed after one minute, 50 after two.
    assert_eq!(refused.retry_after(), Some(120 * SECOND));
    assert_eq!(call(costs(250, None)).await.unwrap_err().retry_after(), Some(180 * SECOND));
    sleep(120 * SECOND).await;
    assert_eq!(used(&dear), 50);
    assert_eq!(begun.elapsed(), 120 * SECOND);
    assert!(call(costs(51, None)).await.is_err());
    call(costs(50, None)).await.unwrap();

    let strict = layer(BudgetConfig { strict: true, ..budget(100) });
    let refused = strict.layer(streams(vec![])).oneshot(costs(101, None)).await.err().unwrap();
    assert_eq!((refused.code(), refused.retry_after()), (Code::BudgetExhausted, None));
}

/// Scenario: use grows over 80 %, twice in a window, and again in the next.
/// Expected: the warning MUST be told once a window, with what is used.
#[tokio::test(start_paused = true)]
async fn a_warning_is_told_once_a_window() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let facts = Facts::from_fn(move |fact| {
        if let Fact::BudgetWarning { key, used, limit } = *fact {
            sink.lock().unwrap().push((key.to_owned(), used, limit));
        }
    });
    let service = layer(budget(100)).facts(&facts).layer(streams(vec![]));
    let mut held = Vec::new();
    for (cost, wait) in [(79, 0), (1, 0), (15, 0), (5, 60), (80, 0), (20, 0)] {
        held.push(service.clone().oneshot(costs(cost, None)).await.unwrap());
        advance(wait * SECOND).await;
    }
    assert_eq!(*told.lock().unwrap(), [("user:ann".to_owned(), 80, 100), ("user:ann".to_owned(), 80, 100)]);
}

/// Scenario: a call waits in line, with tokens put aside; it is dropped; another waits until its time is up.
/// Expected: what was put aside MUST be given back each time.
#[tokio::test(start_paused = true)]
async fn who_leaves_the_line_gives_the_tokens_back() {
    let config =
        BulkheadConfig { max_concurrent: Some(1), budget: Some(budget(100)), ..BulkheadConfig::users() };
    let layer = BulkheadLayer::new(config).unwrap();
    let mut service = layer.layer(streams(vec![]));
    let held = service.clone().oneshot(costs(10, None)).await.unwrap();
    let waits = service.ready().await.unwrap().call(costs(20, None));
    assert_eq!(used(&layer), 30);
    drop(waits);
    assert_eq!(used(&layer), 10);
    assert_eq!(service.oneshot(costs(30, None)).await.err().unwrap().code(), Code::BulkheadFull);
    assert_eq!(used(&layer), 10);
    drop(held);
    assert_eq!(used(&layer), 0);
}

/// One thing that happens to an account.
#[derive(Clone, Debug)]
enum Act {
    Reserve(u64),
    /// One of those that are open is settled with so much.
    Settle(usize, u64),
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let cost = prop_oneof![6 => 0_u64..60, 1 => 90_u64..300];
    let act = prop_oneof![
        4 => cost.clone().prop_map(Act::Reserve),
        3 => (0_usize..8, cost).prop_map(|(at, used)| Act::Settle(at, used)),
        2 => (1_u64..90).prop_map(Act::Wait),
    ];
    proptest::collection::vec(act, 1..100)
}

/// What the laws ask of an account.
trait Account {
    fn reserve(&mut self, config: &BudgetConfig, cost: u64, now: Instant) -> Result<Reserved, Spent>;
    fn settle(&mut self, reserved: Reserved, used: u64, now: Instant);
    fn used(&mut self, config: &BudgetConfig, now: Instant) -> u64;
    fn reserved(&mut self, config: &BudgetConfig, now: Instant) -> u64;
}

impl Account for Budget {
    fn reserve(&mut self, config: &BudgetConfig, cost: u64, now: Instant) -> Result<Reserved, Spent> {
        Self::reserve(self, config, cost, now)
    }

    fn settle(&mut self, reserved: Reserved, used: u64, now: Instant) {
        Self::settle(self, reserved, used, || now);
    }

    fn used(&mut self, config: &BudgetConfig, now: Instant) -> u64 {
        let state = self.state(config, now);
        state.used + state.reserved
    }

    fn reserved(&mut self, config: &BudgetConfig, now: Instant) -> u64 {
        self.state(config, now).reserved
    }
}

/// Conservation: what the account says is used is what was charged less what was given back and what windows took off,
/// and no window takes off more than its budget. Nothing is admitted above the budget, save alone. What is refused is
/// admitted at the told instant, if nothing else happens, and not before. What is shown as put aside is by calls in flight.
fn conserves<A: Account + Clone>(fresh: &A, script: &[Act]) -> Result<(), TestCaseError> {
    let (config, mut account, begun) = (budget(100), fresh.clone(), Instant::now());
    let (mut now, mut open) = (begun, Vec::<(Reserved, u64, u64)>::new());
    let mut charged = 0;
    for act in script {
        let (before, aside) = (account.used(&config, now), account.reserved(&config, now));
        prop_assert!(
            aside <= open.iter().map(|(.., cost)| cost).sum(),
            "more is put aside than by calls in flight"
        );
        match *act {
            Act::Reserve(cost) => match account.reserve(&config, cost, now) {
                Ok(reserved) => {
                    prop_assert!(before + cost <= 100 || before == 0, "{cost} admitted at {before}");
                    prop_assert_eq!(account.used(&config, now), before + cost);
                    prop_assert_eq!(account.reserved(&config, now), aside + cost);
                    charged += cost;
                    open.push((reserved, before, cost));
                }
                Err(spent) => {
                    prop_assert_eq!(account.used(&config, now), before, "a refusal changes nothing");
                    prop_assert!(before + cost.max(1) > 100, "{cost} refused at {before}");
                    let at = now + spent.retry_after.unwrap();
                    let early = at - Duration::from_nanos(1);
                    prop_assert!(account.clone().reserve(&config, cost, early).is_err(), "too late a word");
                    prop_assert!(account.clone().reserve(&config, cost, at).is_ok(), "too early a word");
                }
            },
            Act::Settle(at, real) if !open.is_empty() => {
                let (reserved, _, cost) = open.remove(at % open.len());
                account.settle(reserved, real, now);
                let after = account.used(&config, now);
                if real >= cost {
                    prop_assert_eq!(after, before + (real - cost), "all of what was used beyond is charged");
                } else {
                    prop_assert!(after <= before && after >= before.saturating_sub(cost - real));
                }
                charged = charged + real - cost;
            }
            Act::Settle(..) => {}
            Act::Wait(seconds) => {
                now += Duration::from_secs(seconds);
                let after = account.used(&config, now);
                // A window begins with a call, so that in any span there are at most so many ends of one.
                let ends = seconds / 60 + 1;
                prop_assert!(
                    before.saturating_sub(after) <= ends * 100,
                    "{ends} windows took {before} to {after}"
                );
            }
        }
        // The windows so far took at most this; what is left of all that was charged must still be on the account.
        let ends = now.duration_since(begun).as_secs() / 60 + 1;
        prop_assert!(account.used(&config, now) + ends * 100 >= charged, "tokens are lost");
    }
    for (reserved, ..) in open {
        account.settle(reserved, 0, now);
    }
    let owed = account.used(&config, now);
    let over = now + u32::try_from(owed / 100 + 1).unwrap() * config.window;
    prop_assert_eq!(account.used(&config, over), 0, "a debt is paid in the end");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any script of reservations, settlements and time.
    /// Expected: the budget MUST conserve tokens.
    #[test]
    fn a_budget_conserves_tokens(script in acts()) {
        conserves(&Budget::default(), &script)?;
    }
}

/// What is wrong with a twin.
#[derive(Clone, Copy, Debug)]
enum Fault {
    ChargesBeforeItChecks,
    ForgivesDebt,
    ForgetsWhatIsUsedBeyond,
    GivesBackToTheNextWindow,
    PromisesTheNextWindow,
    ShowsAllAsReserved,
}

/// A budget with one fault.
#[derive(Clone)]
struct Twin {
    fault: Fault,
    budget: Budget,
    /// Refused, and charged all the same.
    extra: u64,
    credit: u64,
}

impl Account for Twin {
    fn reserve(&mut self, config: &BudgetConfig, cost: u64, now: Instant) -> Result<Reserved, Spent> {
        let answer = self.budget.reserve(config, cost, now);
        match self.fault {
            Fault::ChargesBeforeItChecks if answer.is_err() => self.extra += cost,
            Fault::PromisesTheNextWindow => {
                let left = self.budget.state(config, now).resets_in;
                return answer.map_err(|spent| Spent { retry_after: left.or(spent.retry_after), ..spent });
            }
            _ => {}
        }
        answer
    }

    fn settle(&mut self, reserved: Reserved, used: u64, now: Instant) {
        let used = match self.fault {
            Fault::ForgetsWhatIsUsedBeyond => used.min(reserved.tokens),
            Fault::GivesBackToTheNextWindow => {
                self.credit += reserved.tokens.saturating_sub(used);
                used.max(reserved.tokens)
            }
            _ => used,
        };
        self.budget.settle(reserved, used, || now);
    }

    fn used(&mut self, config: &BudgetConfig, now: Instant) -> u64 {
        let state = self.budget.state(config, now);
        if matches!(self.fault, Fault::ForgivesDebt) && state.resets_in == Some(config.window) {
            self.budget = Budget::default();
            return 0;
        }
        (state.used + state.reserved + self.extra).saturating_sub(self.credit)
    }

    fn reserved(&mut self, config: &BudgetConfig, now: Instant) -> u64 {
        match self.fault {
            Fault::ShowsAllAsReserved => self.used(config, now),
            _ => self.budget.state(config, now).reserved,
        }
    }
}

/// Scenario: twins with one fault each, held to the same law.
/// Expected: each MUST be rejected by some script.
#[test]
fn a_budget_with_a_fault_is_rejected() {
    use proptest::test_runner::{Config, TestError, TestRunner};
    for fault in [
        Fault::ChargesBeforeItChecks,
        Fault::ForgivesDebt,
        Fault::ForgetsWhatIsUsedBeyond,
        Fault::GivesBackToTheNextWindow,
        Fault::PromisesTheNextWindow,
        Fault::ShowsAllAsReserved,
    ] {
        let twin = Twin { fault, budget: Budget::default(), extra: 0, credit: 0 };
        let config =
            Config { cases: 2_000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
        let verdict = TestRunner::new(config).run(&acts(), |script| conserves(&twin, &script));
        assert!(matches!(verdict, Err(TestError::Fail(..))), "{fault:?} is not noticed");
    }
}
