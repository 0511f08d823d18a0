//! The laws of slots, held to random scripts: never more calls in flight than the limit, grants in the order of
//! arrival, nobody forgotten, no key changed by another, nothing left behind. Beside them stand twins that break each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::Stream;
use proptest::prelude::*;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, advance, timeout};
use tower::{Layer, Service};
use watertight::chat::{
    Ask, BoxReply, Completion, End, Event, Head, Limits, Message, Observer, Reply, Role, Stop, ToolCall,
    ToolRequest, Watch, Watchers,
};
use watertight::event::Facts;
use watertight::failure::{Code, Failure};
use watertight::gate::{Admission, Admit, Gate};
use watertight::key::{Caller, KeyBy};
use watertight::layers::BulkheadLayer;
use watertight::layers::bulkhead::{Bulkhead, BulkheadConfig};

const LIMIT: u32 = 2;
const MOST_WAITING: u32 = 4;
const MAX_WAIT: Duration = Duration::from_millis(100);
const KEYS: usize = 2;

/// One thing that happens. Calls are named by their place among those that live.
#[derive(Clone, Debug)]
enum Act {
    Arrive {
        key: usize,
        within: Option<u64>,
        patient: bool,
    },
    /// The inner call's head comes.
    Answer(usize),
    /// Something of its body comes.
    Say(usize),
    /// It ends well.
    End(usize),
    /// It fails, before its head or in its body.
    Fail(usize),
    /// It ends without a last word.
    Cease(usize),
    Drop(usize),
    /// Time passes, and nobody is polled before a second thing happened: an end and a timer fall together.
    Late(u64, usize),
    Advance(u64),
    Limit(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let within = proptest::option::weighted(0.3, 0_u64..150);
    let patient = proptest::bool::weighted(0.9);
    let arrive =
        (0..KEYS, within, patient).prop_map(|(key, within, patient)| Act::Arrive { key, within, patient });
    let act = prop_oneof![
        6 => arrive,
        2 => (0_usize..12).prop_map(Act::Answer),
        1 => (0_usize..12).prop_map(Act::Say),
        2 => (0_usize..12).prop_map(Act::End),
        1 => (0_usize..12).prop_map(Act::Fail),
        1 => (0_usize..12).prop_map(Act::Cease),
        2 => (0_usize..12).prop_map(Act::Drop),
        1 => (90_u64..120, 0_usize..12).prop_map(|(ms, at)| Act::Late(ms, at)),
        2 => (1_u64..60).prop_map(Act::Advance),
        1 => (1_u32..5).prop_map(Act::Limit),
    ];
    proptest::collection::vec(act, 1..80)
}

/// A bulkhead, or what claims to be one.
trait Slots: Admission<ToolRequest, Permit: Send + 'static> + 'static {
    fn limit(&self, limit: u32);
    /// In flight and waiting, by key.
    fn load(&self, key: usize) -> (u32, u32);
}

impl Slots for Bulkhead {
    fn limit(&self, limit: u32) {
        self.set_limit(limit).unwrap();
    }

    fn load(&self, key: usize) -> (u32, u32) {
        let name = format!("bulkhead:{}", name(key));
        let snapshot = self.snapshot();
        let state = snapshot.states.iter().find(|state| state.key == name);
        state.map_or((0, 0), |state| (state.in_flight, state.waiting))
    }
}

fn name(key: usize) -> String {
    format!("user-{key}")
}

/// What the service inside sees.
#[derive(Clone, Default)]
struct Inside(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// By key: the numbers of calls, as they came in.
    order: BTreeMap<String, Vec<u32>>,
    at_work: BTreeMap<String, u32>,
    words: BTreeMap<u32, mpsc::UnboundedSender<Result<Event, Failure>>>,
}

/// A call at work, from its beginning until its body ended or it is dropped.
struct AtWork(Inside, String);

/// A call whose head did not come. The first word that is said brings it, and stays in front of the body.
struct Working(Option<Body>);

/// A body: what is said, to the last word or the failure.
struct Body {
    at_work: Option<AtWork>,
    first: Option<Event>,
    words: mpsc::UnboundedReceiver<Result<Event, Failure>>,
}

/// Which call it is.
#[derive(Clone, Copy)]
struct Number(u32);

impl Inside {
    fn at_work(&self, key: usize) -> u32 {
        self.0.lock().unwrap().at_work.get(&name(key)).copied().unwrap_or(0)
    }
}

impl Service<ToolRequest> for Inside {
    type Response = Reply<Body>;
    type Error = Failure;
    type Future = Working;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: ToolRequest) -> Working {
        let key = request.extensions.get::<Caller>().unwrap().as_str().to_owned();
        let Number(number) = *request.extensions.get().unwrap();
        let (sender, words) = mpsc::unbounded_channel();
        let mut seen = self.0.lock().unwrap();
        seen.order.entry(key.clone()).or_default().push(number);
        *seen.at_work.entry(key.clone()).or_default() += 1;
        seen.words.insert(number, sender);
        Working(Some(Body { at_work: Some(AtWork(self.clone(), key)), first: None, words }))
    }
}

impl Future for Working {
    type Output = Result<Reply<Body>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let body = self.0.as_mut().expect("polled after it was ready");
        let word = std::task::ready!(body.words.poll_recv(cx));
        let mut body = self.0.take().expect("it was there a line above");
        Poll::Ready(match word {
            Some(Ok(event)) => {
                body.first = Some(event);
                Ok(Reply::new(Head::default(), body))
            }
            Some(Err(failure)) => Err(failure),
            None => Err(Failure::new(Code::Transport, "nobody answers")),
        })
    }
}

impl Stream for Body {
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let word = match self.first.take() {
            Some(event) => Some(Ok(event)),
            None => std::task::ready!(self.words.poll_recv(cx)),
        };
        if matches!(word, None | Some(Err(_) | Ok(Event::Completed(_)))) {
            self.at_work = None;
        }
        Poll::Ready(word)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap().at_work.get_mut(&self.1).unwrap() -= 1;
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Live<F> {
    number: u32,
    key: usize,
    since: Instant,
    flag: Arc<Flag>,
    call: Pin<Box<F>>,
    /// What it reads, once its head came.
    reply: Option<BoxReply>,
}

/// Which laws a script is held to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Laws {
    All,
    /// Never more at work than the limit, from admission to the end of the body.
    Limit,
}

/// Plays a script, and holds what came to the laws after each act.
async fn holds<A: Slots>(slots: A, script: &[Act], laws: Laws) -> Result<(), TestCaseError> {
    let inside = Inside::default();
    let mut service = Gate::new(inside.clone(), slots.clone());
    let mut live: Vec<Live<_>> = Vec::new();
    let mut limit = LIMIT;
    for (number, act) in (0..).zip(script) {
        let before: Vec<_> = (0..KEYS).map(|key| inside.at_work(key)).collect();
        match *act {
            Act::Arrive { key, within, patient } => {
                let request = arrives(number, key, within, patient);
                let flag = Arc::new(Flag(AtomicBool::new(true)));
                let call = Box::pin(service.call(request));
                live.push(Live { number, key, since: Instant::now(), flag, call, reply: None });
            }
            Act::Answer(at) => say(&inside, at, &Ok(Event::KeepAlive)),
            Act::Say(at) => say(&inside, at, &Ok(Event::text(0, "x"))),
            Act::End(at) => say(&inside, at, &Ok(last_word())),
            Act::Fail(at) => say(&inside, at, &Err(Failure::new(Code::Server, "scripted"))),
            Act::Cease(at) => drop(one_at_work(&inside, at)),
            Act::Drop(at) if !live.is_empty() => drop(live.remove(at % live.len())),
            Act::Drop(_) => {}
            Act::Late(ms, at) => {
                advance(Duration::from_millis(ms)).await;
                say(&inside, at, &Ok(last_word()));
                // The first who was woken is polled alone. Most often that is the answered, and then those whose time is
                // up find their turn come.
                let woken = live.iter().position(|live| live.flag.0.load(Ordering::SeqCst));
                if let Some(woken) = woken {
                    let late = live.split_off(woken + 1);
                    live = drive(live);
                    live.extend(late);
                }
            }
            Act::Advance(ms) => advance(Duration::from_millis(ms)).await,
            Act::Limit(to) => {
                limit = to;
                slots.limit(to);
            }
        }
        live = drive(live);
        for (key, before) in before.into_iter().enumerate() {
            let (most, at_work) = (limit.max(before), inside.at_work(key));
            prop_assert!(at_work <= most, "{:?}: {} at work, {} at most", act, at_work, most);
            if laws == Laws::All {
                laws_of(&slots, &inside, &live, key, (most, limit))
                    .map_err(|error| TestCaseError::fail(format!("{act:?}: {error}")))?;
            }
        }
    }
    drop(live);
    for key in (0..KEYS).filter(|_| laws == Laws::All) {
        prop_assert_eq!(slots.load(key), (0, 0), "something is left");
    }
    Ok(())
}

/// Holds one key to the laws, at one instant.
fn laws_of<A: Slots, F>(
    slots: &A,
    inside: &Inside,
    live: &[Live<F>],
    key: usize,
    (most, limit): (u32, u32),
) -> Result<(), TestCaseError> {
    let seen = inside.0.lock().unwrap();
    let ((in_flight, waiting), name) = (slots.load(key), name(key));
    let at_work = seen.at_work.get(&name).copied().unwrap_or(0);
    prop_assert_eq!(in_flight, at_work, "what is counted is not what works");
    prop_assert!(in_flight <= most, "{in_flight} in flight, {most} at most");
    prop_assert!(waiting == 0 || in_flight >= limit, "somebody is forgotten");
    let own = || live.iter().filter(|live| live.key == key);
    prop_assert_eq!(own().count(), (in_flight + waiting) as usize, "in flight and in line");
    let none = Vec::new();
    let order = seen.order.get(&name).unwrap_or(&none);
    prop_assert!(order.is_sorted(), "{order:?} is not the order of arrivals");
    for Live { number, since, .. } in own() {
        let works = order.contains(number);
        prop_assert!(works || since.elapsed() <= MAX_WAIT, "{number} waits too long");
    }
    Ok(())
}

fn arrives(number: u32, key: usize, within: Option<u64>, patient: bool) -> ToolRequest {
    let mut request =
        ToolRequest::new(ToolCall::default()).attach(Caller::new(name(key))).attach(Number(number));
    if let Some(ms) = within {
        request = request.within(Duration::from_millis(ms));
    }
    let mut call = request.call();
    call.patient = patient;
    request.set_call(call);
    request
}

/// The words of a call at work, taken from it: dropped, it ends without a last one.
fn one_at_work(inside: &Inside, at: usize) -> Option<(u32, mpsc::UnboundedSender<Result<Event, Failure>>)> {
    let mut seen = inside.0.lock().unwrap();
    seen.words.retain(|_, words| !words.is_closed());
    let number = seen.words.keys().nth(at % seen.words.len().max(1)).copied()?;
    seen.words.remove_entry(&number)
}

/// Says a word of a call at work; after the last it says nothing more.
fn say(inside: &Inside, at: usize, word: &Result<Event, Failure>) {
    let Some((number, words)) = one_at_work(inside, at) else { return };
    let is_last = matches!(word, Err(_) | Ok(Event::Completed(_)));
    if words.send(word.clone()).is_ok() && !is_last {
        inside.0.lock().unwrap().words.insert(number, words);
    }
}

fn last_word() -> Event {
    Event::Completed(Box::new(Completion::new(Message::text(Role::Assistant, "x"), Stop::End, None)))
}

/// Polls whoever was woken, in the order of arrival, until nobody is: a wake that is lost is a call that hangs.
fn drive<F, E, W>(mut live: Vec<Live<F>>) -> Vec<Live<F>>
where
    F: Future<Output = Result<Reply<E, W>, Failure>>,
    E: Stream<Item = Result<Event, Failure>> + Unpin + Send + 'static,
    W: Watchers + Unpin + Send + 'static,
{
    while live.iter().any(|live| live.flag.0.load(Ordering::SeqCst)) {
        live = live
            .into_iter()
            .filter_map(|mut live| {
                if !live.flag.0.swap(false, Ordering::SeqCst) {
                    return Some(live);
                }
                let waker = Waker::from(Arc::clone(&live.flag));
                let mut cx = Context::from_waker(&waker);
                if live.reply.is_none() {
                    match live.call.as_mut().poll(&mut cx) {
                        Poll::Pending => return Some(live),
                        Poll::Ready(Err(_)) => return None,
                        Poll::Ready(Ok(reply)) => live.reply = Some(reply.boxed()),
                    }
                }
                let is_over = reads_to_the_end(live.reply.as_mut()?, &mut cx);
                (!is_over).then_some(live)
            })
            .collect();
    }
    live
}

/// Reads what there is, and says whether that was the end.
fn reads_to_the_end(reply: &mut BoxReply, cx: &mut Context<'_>) -> bool {
    loop {
        match Pin::new(&mut *reply).poll_next(cx) {
            Poll::Pending => return false,
            Poll::Ready(Some(Ok(Event::Completed(_)) | Err(_)) | None) => return true,
            Poll::Ready(Some(Ok(_))) => {}
        }
    }
}

fn on_a_paused_clock<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test)
}

fn bulkhead(facts: &Facts) -> BulkheadLayer {
    let config = BulkheadConfig {
        key: KeyBy::Caller,
        max_concurrent: Some(LIMIT),
        max_waiting: MOST_WAITING,
        max_wait: MAX_WAIT,
        ..BulkheadConfig::default()
    };
    BulkheadLayer::new(config).unwrap().facts(facts)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any script of arrivals, answers, failures, drops, time, and changes of the limit, on two keys.
    /// Expected: the laws MUST hold after each act; once all is dropped, nothing of the bulkhead MUST be alive.
    #[test]
    fn any_script_keeps_the_laws_of_slots(script in acts()) {
        let alive = Arc::new(());
        let sink = Arc::clone(&alive);
        let layer = bulkhead(&Facts::from_fn(move |_| _ = &sink));
        on_a_paused_clock(async { holds(layer.handle(), &script, Laws::All).await })?;
        drop(layer);
        prop_assert_eq!(Arc::strong_count(&alive), 1, "a wait, a timer or a permit lives");
    }

    /// Scenario: the same scripts, on a bulkhead of another make that has no fault.
    /// Expected: the laws MUST hold: what rejects its twins is their fault.
    #[test]
    fn the_sound_twin_keeps_the_laws_of_slots(script in acts()) {
        on_a_paused_clock(async { holds(Twin::new(Fault::None), &script, Laws::All).await })?;
    }
}

/// What is wrong with a twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    OneTooMany,
    LastComeFirstServed,
    Overtaking,
    LosesAGrantAtTheEndOfTheWait,
    KeepsTheSlotOfWhoLeft,
    SharesSlotsBetweenKeys,
    ForgetsToWake,
    RevokesNothingButGrantsAboveALoweredLimit,
    LetsGoAtTheHead,
}

/// A bulkhead made plainly, with one lock, to stand beside the real one.
#[derive(Clone)]
struct Twin {
    fault: Fault,
    limit: Arc<AtomicU32>,
    keys: Arc<Mutex<BTreeMap<String, Key>>>,
}

#[derive(Default)]
struct Key {
    in_flight: u32,
    line: VecDeque<oneshot::Sender<Slot>>,
}

struct Slot(Twin, String);

impl Twin {
    fn new(fault: Fault) -> Self {
        Self { fault, limit: Arc::new(AtomicU32::new(LIMIT)), keys: Arc::default() }
    }

    fn most(&self) -> u32 {
        self.limit.load(Ordering::SeqCst) + u32::from(self.fault == Fault::OneTooMany)
    }

    fn give_back(&self, key: &str) {
        self.keys.lock().unwrap().get_mut(key).unwrap().in_flight -= 1;
        self.hand_on(key);
    }

    fn hand_on(&self, name: &str) {
        if self.fault == Fault::ForgetsToWake {
            return;
        }
        let mut keys = self.keys.lock().unwrap();
        let Some(key) = keys.get_mut(name) else { return };
        let floor = self.fault == Fault::RevokesNothingButGrantsAboveALoweredLimit;
        while key.in_flight < self.most() || floor {
            let next = match self.fault {
                Fault::LastComeFirstServed => key.line.pop_back(),
                _ => key.line.pop_front(),
            };
            let Some(next) = next else { break };
            if !next.is_closed() {
                key.in_flight += 1;
                let _ = next.send(Slot(self.clone(), name.to_owned())).map_err(|mut slot| {
                    key.in_flight -= 1;
                    slot.1.clear();
                });
                if floor {
                    break;
                }
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.1.is_empty() {
            self.0.give_back(&self.1);
        }
    }
}

impl Observer for Slot {
    fn meet(&mut self, _: &Limits) {
        if self.0.fault == Fault::LetsGoAtTheHead && !self.1.is_empty() {
            self.0.give_back(&std::mem::take(&mut self.1));
        }
    }

    fn settle(mut self, how: End<'_>) {
        if self.0.fault == Fault::KeepsTheSlotOfWhoLeft && matches!(how, End::Abandoned) {
            self.1.clear();
        }
    }
}

impl Admission<ToolRequest> for Twin {
    type Permit = Slot;

    fn admit(&self, request: &ToolRequest) -> Admit<Slot> {
        let shares = self.fault == Fault::SharesSlotsBetweenKeys;
        let caller = request.extensions.get::<Caller>().unwrap().as_str();
        let name = if shares { "user-0" } else { caller }.to_owned();
        let (call, now) = (request.call(), Instant::now());
        let refused = || Admit::Refused(Failure::local(Code::BulkheadFull, "full"));
        let mut keys = self.keys.lock().unwrap();
        let key = keys.entry(name.clone()).or_default();
        key.line.retain(|waiter| !waiter.is_closed());
        let first = key.line.is_empty() || self.fault == Fault::Overtaking;
        if key.in_flight < self.most() + u32::from(self.fault == Fault::Overtaking) && first {
            key.in_flight += 1;
            return Admit::Granted(Slot(self.clone(), name));
        }
        let useful = call.patient && call.deadline.is_none_or(|by| by > now);
        if !useful || key.line.len() >= MOST_WAITING as usize {
            return refused();
        }
        let (sender, mut turn) = oneshot::channel();
        key.line.push_back(sender);
        let until = call.deadline.map_or(now + MAX_WAIT, |by| by.min(now + MAX_WAIT));
        let loses = self.fault == Fault::LosesAGrantAtTheEndOfTheWait;
        Admit::Wait(Box::pin(async move {
            let over = Failure::local(Code::BulkheadFull, "waited");
            let came = timeout(until.saturating_duration_since(Instant::now()), &mut turn).await;
            if loses && Instant::now() >= until {
                if let Ok(Ok(mut slot)) = came {
                    slot.1.clear();
                }
                return Err(over);
            }
            match came {
                Ok(Ok(slot)) => Ok(slot),
                _ => turn.try_recv().map_err(|_| over),
            }
        }))
    }
}

impl Slots for Twin {
    fn limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::SeqCst);
        (0..KEYS).for_each(|key| self.hand_on(&name(key)));
    }

    fn load(&self, key: usize) -> (u32, u32) {
        let keys = self.keys.lock().unwrap();
        let Some(key) = keys.get(&name(key)) else { return (0, 0) };
        let waiting = key.line.iter().filter(|waiter| !waiter.is_closed()).count();
        (key.in_flight, u32::try_from(waiting).unwrap())
    }
}

/// Scenario: twins with one fault each, held to the same laws; those that let too many in, to that law alone.
/// Expected: each MUST be rejected by some script.
#[test]
fn a_twin_with_a_fault_is_rejected() {
    use proptest::test_runner::{Config, TestError, TestRunner};
    for (fault, laws) in [
        (Fault::OneTooMany, Laws::Limit),
        (Fault::LastComeFirstServed, Laws::All),
        (Fault::Overtaking, Laws::All),
        (Fault::LosesAGrantAtTheEndOfTheWait, Laws::All),
        (Fault::KeepsTheSlotOfWhoLeft, Laws::All),
        (Fault::SharesSlotsBetweenKeys, Laws::All),
        (Fault::ForgetsToWake, Laws::All),
        (Fault::RevokesNothingButGrantsAboveALoweredLimit, Laws::Limit),
        (Fault::LetsGoAtTheHead, Laws::Limit),
        (Fault::LetsGoAtTheHead, Laws::All),
    ] {
        let config =
            Config { cases: 2_000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
        let verdict = TestRunner::new(config)
            .run(&acts(), |script| on_a_paused_clock(async { holds(Twin::new(fault), &script, laws).await }));
        assert!(matches!(verdict, Err(TestError::Fail(..))), "{fault:?} is not noticed: {verdict:?}");
    }
}

/// Scenario: a permit is watched, and dropped.
/// Expected: MUST give the slot back, as the laws take for granted.
#[tokio::test(start_paused = true)]
async fn a_dropped_watch_gives_the_slot_back() {
    let layer = bulkhead(&Facts::default());
    let request = ToolRequest::new(ToolCall::default()).attach(Caller::new(name(0)));
    let Admit::Granted(permit) = layer.handle().admit(&request) else { panic!("it is empty") };
    let watch = Watch::new(permit);
    assert_eq!(layer.handle().load(0), (1, 0));
    drop(watch);
    assert_eq!(layer.handle().load(0), (0, 0));
    let _ = layer.layer(());
}
