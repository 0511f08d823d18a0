//! The laws of a rate limit, held to random scripts of arrivals, ends with refunds and debts, failures with a stated
//! wait, a word to slow down, limits told in headers, drops, and time: never more in flight than may be, nobody
//! forgotten while there is room, grants in the order of arrival, no wait that cannot end well, nothing left behind, no
//! key changed by another. Beside the limit stands another of plain make, and twins of that which break each law.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, Stream, StreamExt};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use support::{fail, read};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, advance, sleep_until};
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{
    Ask, Completion, Cost, Dimension, End, Event, Head, Limits, Message, Observer, Reply, Request, Role,
    Stop, Usage,
};
use watertight::failure::{Code, Failure};
use watertight::gate::{Admission, Admit, Gate};
use watertight::key::{Caller, KeyBy};
use watertight::layers::bulkhead::{BudgetConfig, BulkheadConfig};
use watertight::layers::rate_limit::RateLimitConfig;
use watertight::layers::{BulkheadLayer, TokenAwareRateLimitLayer};

const KEYS: usize = 2;

/// Tokens a minute: one a second.
const QUOTA: u32 = 60;

/// The most calls in flight, where that is limited.
const SLOTS: u32 = 2;

/// Long enough that lines form.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// The longest that nobody is polled, in milliseconds: in less than that no bucket which holds one more than the dearest
/// call asks runs over while its call sleeps.
const STEP: u64 = 700;

/// For how long a word to slow down halves the rate.
const SLOW: Duration = Duration::from_secs(20);

/// One thing that happens. Calls are named by their place among those of a key that are at work, or that live.
#[derive(Clone, Debug)]
enum Act {
    Arrive {
        key: usize,
        cost: u64,
        patient: bool,
    },
    Happens {
        key: usize,
        at: usize,
        what: What,
    },
    /// Time passes, and only one is polled before the next thing happened: an end and a timer fall together.
    Late {
        ms: u64,
        key: usize,
        at: usize,
    },
    Advance(u64),
}

/// What happens to a call.
#[derive(Clone, Debug)]
enum What {
    /// Its head comes, and tells this; it goes on.
    Head(Told),
    /// It ends, and used so much of what it reserved, in percent.
    End {
        used: u64,
        told: Option<Told>,
    },
    Fail(How),
    /// Whoever made it goes away, at work or in line.
    Drop,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Broken,
    /// A 429 with a stated wait in seconds.
    Stated(u64),
    SlowDown,
}

/// What a header tells.
#[derive(Clone, Copy, Debug)]
struct Told {
    limit: Option<u64>,
    remaining: Option<u64>,
    /// In seconds.
    reset: Option<u64>,
    /// Of requests, of which there is no quota of ours.
    requests: bool,
}

fn told() -> impl Strategy<Value = Told> {
    let option = proptest::option::of::<BoxedStrategy<u64>>;
    let limit = option(prop_oneof![Just(30_u64), Just(45), Just(60), Just(90)].boxed());
    (limit, option((0_u64..60).boxed()), option((1_u64..40).boxed()), any::<bool>())
        .prop_map(|(limit, remaining, reset, requests)| Told { limit, remaining, reset, requests })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let what = prop_oneof![
        2 => told().prop_map(What::Head),
        6 => (0_u64..150, proptest::option::weighted(0.3, told())).prop_map(|(used, told)| What::End { used, told }),
        1 => Just(What::Fail(How::Broken)),
        1 => (1_u64..30).prop_map(|secs| What::Fail(How::Stated(secs))),
        1 => Just(What::Fail(How::SlowDown)),
        3 => Just(What::Drop),
    ];
    let arrive = (0..KEYS, 1_u64..30, proptest::bool::weighted(0.9))
        .prop_map(|(key, cost, patient)| Act::Arrive { key, cost, patient });
    let act = prop_oneof![
        8 => arrive,
        5 => (0..KEYS, 0_usize..12, what).prop_map(|(key, at, what)| Act::Happens { key, at, what }),
        1 => (1_u64..6_000, 0..KEYS, 0_usize..12).prop_map(|(ms, key, at)| Act::Late { ms, key, at }),
        3 => (1_u64..8_000).prop_map(Act::Advance),
    ];
    proptest::collection::vec(act, 1..60)
}

fn name(key: usize) -> String {
    format!("user-{key}")
}

/// A limit, or what claims to be one.
trait Limited {
    /// A call, from its admission to the end of its answer.
    fn call(&self, inside: &Inside, request: Request) -> LocalBoxFuture<'static, Result<(), Failure>>;

    fn stands(&self, key: usize) -> Stands;
}

/// How a key of it stands.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stands {
    in_flight: u32,
    waiting: usize,
    frozen: Option<Duration>,
    /// Of tokens and requests: what is left, and the most there can be.
    tokens: Option<(u64, u64)>,
    requests: Option<u64>,
    /// When something comes back at once: a freeze is over, or a period.
    next: Option<Duration>,
}

impl Stands {
    /// Whether a call of this cost finds all it needs but a slot.
    fn has_room(&self, cost: u64) -> bool {
        let tokens = self.tokens.is_none_or(|(left, _)| left >= cost);
        self.frozen.is_none() && tokens && self.requests.is_none_or(|left| left >= 1)
    }
}

impl Limited for TokenAwareRateLimitLayer {
    fn call(&self, inside: &Inside, request: Request) -> LocalBoxFuture<'static, Result<(), Failure>> {
        whole(self.layer(inside.clone()), request).boxed_local()
    }

    fn stands(&self, key: usize) -> Stands {
        let all = self.snapshot().keys;
        let wanted = format!("rate_limit:{}", name(key));
        let Some(state) = all.iter().find(|state| *state.key == *wanted || *state.key == *"rate_limit")
        else {
            return Stands::default();
        };
        let level = |of| state.levels.iter().find(|level| level.dimension == of);
        Stands {
            in_flight: state.in_flight,
            waiting: state.waiting,
            frozen: state.frozen,
            tokens: level(Dimension::Tokens).map(|level| (level.remaining, level.capacity.unwrap())),
            requests: level(Dimension::Requests).map(|level| level.remaining),
            next: state.levels.iter().filter_map(|level| level.reset).chain(state.frozen).min(),
        }
    }
}

impl Limited for BulkheadLayer {
    fn call(&self, inside: &Inside, request: Request) -> LocalBoxFuture<'static, Result<(), Failure>> {
        whole(self.layer(inside.clone()), request).boxed_local()
    }

    fn stands(&self, key: usize) -> Stands {
        let all = self.snapshot().states;
        let wanted = format!("bulkhead:{}", name(key));
        let Some(state) = all.iter().find(|state| state.key == wanted || state.key == "bulkhead") else {
            return Stands::default();
        };
        let left =
            state.budget.as_ref().map(|budget| (budget.limit.saturating_sub(budget.used), budget.limit));
        Stands {
            in_flight: state.in_flight,
            waiting: state.waiting as usize,
            tokens: left,
            ..Stands::default()
        }
    }
}

async fn whole<G, T>(gate: G, request: Request) -> Result<(), Failure>
where
    G: Service<Request, Response = T, Error = Failure>,
    T: Stream<Item = Result<Event, Failure>> + Unpin,
{
    read(gate.oneshot(request).await?).await.1
}

/// What the service inside sees.
#[derive(Clone, Default)]
struct Inside(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// By key: the numbers of calls, as they came in.
    order: BTreeMap<String, Vec<usize>>,
    /// Those at work, by number.
    answers: BTreeMap<usize, Answer>,
}

/// How a call at work is answered.
struct Answer {
    key: String,
    cost: u64,
    head: Option<oneshot::Sender<Result<Limits, Failure>>>,
    end: oneshot::Sender<Result<Usage, Failure>>,
}

type Answered = Reply<BoxStream<'static, Result<Event, Failure>>>;

/// Which call it is.
#[derive(Clone, Copy)]
struct Number(usize);

impl Service<Request> for Inside {
    type Response = Answered;
    type Error = Failure;
    type Future = LocalBoxFuture<'static, Result<Answered, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let extensions = request.extensions().unwrap();
        let key = extensions.get::<Caller>().unwrap().as_str().to_owned();
        let Number(number) = *extensions.get().unwrap();
        let ((head, begins), (end, ends)) = (oneshot::channel(), oneshot::channel());
        let mut seen = self.0.lock().unwrap();
        seen.order.entry(key.clone()).or_default().push(number);
        let answer = Answer { key, cost: request.cost().input, head: Some(head), end };
        seen.answers.insert(number, answer);
        async move {
            let mut head = Head::of("model");
            head.limits = begins.await.map_err(|_| fail(Code::Transport))??;
            let completed = async move {
                let usage = ends.await.map_err(|_| fail(Code::Transport))??;
                let end = Completion::new(Message::text(Role::Assistant, "word"), Stop::End, Some(usage));
                Ok(Event::Completed(Box::new(end)))
            };
            Ok(Reply::new(head, stream::once(completed).boxed()))
        }
        .boxed_local()
    }
}

impl Inside {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        let mut seen = self.0.lock().unwrap();
        seen.answers.retain(|_, answer| !answer.end.is_closed());
        seen
    }

    /// The numbers of the calls of a key at work.
    fn at_work(&self, key: usize) -> Vec<usize> {
        let seen = self.seen();
        seen.answers.iter().filter(|(_, answer)| answer.key == name(key)).map(|(number, _)| *number).collect()
    }

    /// The head of a call comes, unless it came before.
    fn begin(&self, number: usize, with: Result<Limits, Failure>) {
        let mut seen = self.seen();
        if let Some(head) = seen.answers.get_mut(&number).and_then(|answer| answer.head.take()) {
            let _ = head.send(with);
        }
    }

    fn end(&self, number: usize, with: impl FnOnce(u64) -> Result<Usage, Failure>) {
        let answer = self.seen().answers.remove(&number);
        if let Some(answer) = answer {
            let _ = answer.end.send(with(answer.cost));
        }
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Live {
    number: usize,
    key: usize,
    cost: u64,
    patient: bool,
    since: Instant,
    /// Whether something happened since it came that may break a promise: a debt, a word of the provider.
    moved: bool,
    flag: Arc<Flag>,
    call: LocalBoxFuture<'static, Result<(), Failure>>,
}

/// A call that was refused.
#[derive(Clone, Debug)]
struct Refused {
    number: usize,
    key: usize,
    patient: bool,
    moved: bool,
    waited: Duration,
    retry_after: Option<Duration>,
}

/// How things are after an act.
struct Scene<'a, L> {
    limited: &'a L,
    slots: Option<u32>,
    /// How many keys a law looks at.
    watched: usize,
    inside: &'a Inside,
    live: Vec<Live>,
    /// Whoever was refused, ever.
    refused: Vec<Refused>,
}

type Law<L> = fn(&Scene<'_, L>, usize) -> Result<(), String>;

/// Plays a script, and looks after each act.
async fn play<L: Limited>(
    limited: &L,
    (slots, watched): (Option<u32>, usize),
    script: &[Option<Act>],
    mut look: impl FnMut(&Scene<'_, L>) -> Result<(), String>,
) -> Result<(), String> {
    let inside = Inside::default();
    let mut scene = Scene { limited, slots, watched, inside: &inside, live: Vec::new(), refused: Vec::new() };
    for (number, act) in script.iter().enumerate() {
        match act {
            None => {}
            Some(Act::Arrive { key, cost, patient }) => scene.arrives(number, *key, *cost, *patient),
            Some(Act::Happens { key, at, what }) => scene.happens(*key, *at, what),
            Some(Act::Late { ms, key, at }) => {
                let asleep = ms % STEP;
                scene.pass(ms - asleep).await;
                if scene.step(asleep) == asleep {
                    advance(Duration::from_millis(asleep)).await;
                } else {
                    scene.pass(asleep).await;
                }
                scene.happens(*key, *at, &What::End { used: 100, told: None });
                // The first who was woken is polled alone. Most often that is the answered, and then those whose time is
                // up find their turn come.
                if let Some(woken) = scene.live.iter().position(|live| live.key == *key && live.is_woken()) {
                    scene.poll(woken);
                }
            }
            Some(Act::Advance(ms)) => scene.pass(*ms).await,
        }
        scene.drive();
        look(&scene).map_err(|broken| format!("{act:?}: {broken}"))?;
    }
    scene.live.clear();
    for key in 0..KEYS {
        let stands = limited.stands(key);
        if (stands.in_flight, stands.waiting) != (0, 0) {
            return Err(format!("something is left: {stands:?}"));
        }
    }
    advance(Duration::from_secs(2 * 24 * 60 * 60)).await;
    let full = (0..KEYS).map(|key| limited.stands(key));
    match full.into_iter().find(|stands| stands.tokens.is_some_and(|(left, most)| left != most)) {
        Some(stands) => Err(format!("something is lost: {stands:?}")),
        None => Ok(()),
    }
}

impl Live {
    fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::SeqCst)
    }
}

impl<L: Limited> Scene<'_, L> {
    fn arrives(&mut self, number: usize, key: usize, cost: u64, patient: bool) {
        let mut request = Request::new("model").streaming().attach(Cost { input: cost, output: Some(0) });
        request = request.attach(Caller::new(name(key))).attach(Number(number));
        let mut call = request.call();
        call.patient = patient;
        request.set_call(call);
        let (flag, since) = (Arc::new(Flag(AtomicBool::new(true))), Instant::now());
        let call = self.limited.call(self.inside, request);
        self.live.push(Live { number, key, cost, patient, since, moved: false, flag, call });
    }

    fn happens(&mut self, key: usize, at: usize, what: &What) {
        if let What::Drop = what {
            let of_key: Vec<_> = (0..self.live.len()).filter(|n| self.live[*n].key == key).collect();
            if !of_key.is_empty() {
                drop(self.live.remove(of_key[at % of_key.len()]));
            }
            return;
        }
        let at_work = self.inside.at_work(key);
        if at_work.is_empty() {
            return;
        }
        let moves = !matches!(what, What::End { used: 0..=100, told: None } | What::Fail(How::Broken));
        self.live.iter_mut().filter(|live| live.key == key).for_each(|live| live.moved |= moves);
        let number = at_work[at % at_work.len()];
        match what {
            What::Head(told) => self.inside.begin(number, Ok(told.limits())),
            What::Fail(how) => {
                self.inside.begin(number, Err(how.failure()));
                self.inside.end(number, |_| Err(how.failure()));
            }
            What::End { used, told } => {
                self.inside.begin(number, Ok(told.map(Told::limits).unwrap_or_default()));
                let used = |cost| Usage { input: cost * used / 100, ..Usage::default() };
                self.inside.end(number, |cost| Ok(used(cost)));
            }
            What::Drop => {}
        }
    }

    /// Lets time pass, and polls whoever is woken by it.
    async fn pass(&mut self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let step = self.step(left);
            advance(Duration::from_millis(step)).await;
            self.drive();
            left -= step;
        }
    }

    /// How much of so many milliseconds may pass with nobody polled: no bucket that is full meanwhile runs over.
    fn step(&self, ms: u64) -> u64 {
        let next = (0..self.watched).filter_map(|key| self.limited.stands(key).next).min();
        let next = next.map_or(STEP, |next| u64::try_from(next.as_millis()).unwrap().max(1));
        ms.min(STEP).min(next)
    }

    /// Polls whoever was woken, in the order of arrival, until nobody is: a wake that is lost is a call that hangs.
    fn drive(&mut self) {
        while let Some(woken) = self.live.iter().position(Live::is_woken) {
            self.poll(woken);
        }
    }

    fn poll(&mut self, at: usize) {
        let live = &mut self.live[at];
        live.flag.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&live.flag));
        let Poll::Ready(end) = live.call.as_mut().poll(&mut Context::from_waker(&waker)) else { return };
        let Live { number, key, patient, moved, since, .. } = self.live.remove(at);
        if let Err(failure) = end
            && failure.is_local()
        {
            let (waited, retry_after) = (since.elapsed(), failure.retry_after());
            self.refused.push(Refused { number, key, patient, moved, waited, retry_after });
        }
    }

    /// The calls of a key in line, in the order of arrival.
    fn in_line(&self, key: usize) -> impl Iterator<Item = &Live> {
        let at_work = self.inside.at_work(key);
        self.live.iter().filter(move |live| live.key == key && !at_work.contains(&live.number))
    }
}

impl How {
    fn failure(self) -> Failure {
        match self {
            Self::Broken => fail(Code::Transport),
            Self::Stated(secs) => fail(Code::RateLimited).with_retry_after(Some(Duration::from_secs(secs))),
            Self::SlowDown => Failure::new(Code::RateLimited, "slow_down"),
        }
    }
}

impl Told {
    fn limits(self) -> Limits {
        let mut limits = Limits::default();
        let dimension = if self.requests { Dimension::Requests } else { Dimension::Tokens };
        let window = limits.entry(dimension);
        (window.limit, window.remaining) = (self.limit, self.remaining);
        window.reset = self.reset.map(Duration::from_secs);
        limits
    }
}

// The laws, each of one key at one instant.

/// What is counted is what is at work, and what waits is what waits; never more are at work than may be.
fn never_too_many<L: Limited>(scene: &Scene<'_, L>, key: usize) -> Result<(), String> {
    let (stands, at_work) = (scene.limited.stands(key), scene.inside.at_work(key).len());
    let waiting = scene.in_line(key).count();
    let counted = (stands.in_flight as usize, stands.waiting) == (at_work, waiting);
    let few = scene.slots.is_none_or(|slots| at_work <= slots as usize);
    if counted && few { Ok(()) } else { Err(format!("{at_work} at work, {waiting} in line: {stands:?}")) }
}

/// While there is room for the head of a line it does not wait; and nobody waits longer than the longest wait.
fn nobody_is_forgotten<L: Limited>(scene: &Scene<'_, L>, key: usize) -> Result<(), String> {
    let stands = scene.limited.stands(key);
    let free = scene.slots.is_none_or(|slots| stands.in_flight < slots);
    if let Some(head) = scene.in_line(key).next()
        && free
        && stands.has_room(head.cost)
    {
        return Err(format!("{} waits for {} beside {stands:?}", head.number, head.cost));
    }
    match scene.in_line(key).find(|live| live.since.elapsed() > MAX_WAIT) {
        Some(live) => Err(format!("{} waits too long", live.number)),
        None => Ok(()),
    }
}

/// Whoever is granted was granted after all of its key who came before, and are not gone.
fn grants_follow_arrivals<L: Limited>(scene: &Scene<'_, L>, key: usize) -> Result<(), String> {
    let seen = scene.inside.seen();
    let order = seen.order.get(&name(key)).cloned().unwrap_or_default();
    if order.is_sorted() { Ok(()) } else { Err(format!("{order:?} is not the order of arrivals")) }
}

/// Whoever waited is granted, unless something moved its instant meanwhile; whoever is refused at once could not have
/// passed in time, and is told so; and who is at the head leaves as soon as a freeze outlasts its wait.
fn the_doomed_never_wait<L: Limited>(scene: &Scene<'_, L>, key: usize) -> Result<(), String> {
    for refused in scene.refused.iter().filter(|refused| refused.key == key) {
        let Some(wait) = refused.retry_after.filter(|wait| !wait.is_zero()) else {
            return Err(format!("{refused:?} is not told when"));
        };
        let at_once = refused.waited.is_zero();
        if !at_once && !refused.moved && scene.slots.is_none() {
            return Err(format!("{} waited in vain: {refused:?}", refused.number));
        }
        if at_once && refused.patient && !refused.moved && wait <= MAX_WAIT {
            return Err(format!("{refused:?} had time enough"));
        }
    }
    let frozen = scene.limited.stands(key).frozen.unwrap_or_default();
    match scene.in_line(key).next().filter(|head| head.since.elapsed() + frozen > MAX_WAIT) {
        Some(head) => Err(format!("{} waits out a freeze that it cannot outlast", head.number)),
        None => Ok(()),
    }
}

fn on_a_paused_clock<F: Future>(test: F) -> F::Output {
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    clock.unwrap().block_on(test)
}

/// Holds a limit to a law, key by key.
fn keeps<L: Limited>(
    law: Law<L>,
    make: impl FnOnce() -> L,
    slots: Option<u32>,
    script: &[Act],
) -> Result<(), String> {
    let script: Vec<_> = script.iter().cloned().map(Some).collect();
    let look = |scene: &Scene<'_, L>| (0..KEYS).try_for_each(|key| law(scene, key));
    on_a_paused_clock(async { play(&make(), (slots, KEYS), &script, look).await })
}

/// Holds to the law that one key never changes another: all that is to be seen of the first is the same whether others
/// come or not.
fn keeps_keys_apart<L: Limited>(make: impl Fn() -> L, script: &[Act]) -> Result<(), String> {
    let run = |others: bool| {
        let of = |act: &Act| match act {
            Act::Arrive { key, .. } | Act::Happens { key, .. } => others || *key == 0,
            Act::Late { .. } | Act::Advance(_) => true,
        };
        let script: Vec<_> = script.iter().map(|act| Some(act.clone()).filter(of)).collect();
        let mut record = Vec::new();
        let look = |scene: &Scene<'_, L>| {
            let refused: Vec<_> = scene.refused.iter().filter(|refused| refused.key == 0).cloned().collect();
            let order = scene.inside.seen().order.get(&name(0)).cloned();
            record.push(format!("{order:?} {refused:?} {:?}", scene.limited.stands(0)));
            Ok(())
        };
        on_a_paused_clock(async { play(&make(), (None, 1), &script, look).await }).map(|()| record)
    };
    let (with, without) = (run(true)?, run(false)?);
    match with.iter().zip(&without).find(|(with, without)| with != without) {
        Some((with, without)) => Err(format!("{with}, and alone {without}")),
        None => Ok(()),
    }
}

fn limit(slots: Option<u32>) -> TokenAwareRateLimitLayer {
    by(KeyBy::Caller, slots)
}

fn by(key: KeyBy, slots: Option<u32>) -> TokenAwareRateLimitLayer {
    let config = RateLimitConfig {
        tokens_per_minute: Some(QUOTA),
        max_concurrency: slots,
        acquire_timeout: MAX_WAIT,
        slow_down_for: SLOW,
        key,
        ..RateLimitConfig::from_headers()
    };
    TokenAwareRateLimitLayer::new(config).unwrap()
}

fn budget(key: KeyBy) -> BulkheadLayer {
    let budget = BudgetConfig { tokens: QUOTA.into(), window: SLOW, ..BudgetConfig::default() };
    let config = BulkheadConfig {
        key,
        max_concurrent: Some(SLOTS),
        max_wait: MAX_WAIT,
        budget: Some(budget),
        ..BulkheadConfig::default()
    };
    BulkheadLayer::new(config).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any script, on two keys, with two slots each, so that grants race timeouts and drops, and without.
    /// Expected: never more MUST be at work than may be; nobody MUST wait while there is room; nothing MUST be left.
    #[test]
    fn a_grant_that_races_a_timeout_is_never_lost(script in acts()) {
        for slots in [Some(SLOTS), None] {
            prop_assert_eq!(keeps(never_too_many, || limit(slots), slots, &script), Ok(()));
            prop_assert_eq!(keeps(nobody_is_forgotten, || limit(slots), slots, &script), Ok(()));
        }
    }

    /// Scenario: the same.
    /// Expected: whoever is granted MUST be granted in the order of arrival, key by key.
    #[test]
    fn grants_of_a_key_follow_arrivals(script in acts()) {
        for slots in [Some(SLOTS), None] {
            prop_assert_eq!(keeps(grants_follow_arrivals, || limit(slots), slots, &script), Ok(()));
        }
    }

    /// Scenario: the same, without slots, whose return nobody can promise.
    /// Expected: whoever waits MUST be granted unless a debt or the provider moved its instant; whoever is refused at
    /// once MUST be told an instant that is too late for it.
    #[test]
    fn a_doomed_waiter_never_waits(script in acts()) {
        prop_assert_eq!(keeps(the_doomed_never_wait, || limit(None), None, &script), Ok(()));
    }

    /// Scenario: what happens on one key, with what happens on another and without, of a limit and of a budget.
    /// Expected: all that is to be seen of the first MUST be the same.
    #[test]
    fn one_key_never_changes_another(script in acts()) {
        prop_assert_eq!(keeps_keys_apart(|| limit(None), &script), Ok(()));
        prop_assert_eq!(keeps_keys_apart(|| limit(Some(SLOTS)), &script), Ok(()));
        prop_assert_eq!(keeps_keys_apart(|| budget(KeyBy::Caller), &script), Ok(()));
    }

    /// Scenario: the same scripts, on a limit of another make that has no fault.
    /// Expected: the laws MUST hold: what rejects its twins is their fault.
    #[test]
    fn the_sound_twin_keeps_the_laws(script in acts()) {
        for slots in [Some(SLOTS), None] {
            let twin = || Twin::new(Fault::None, slots);
            for law in [never_too_many, nobody_is_forgotten, grants_follow_arrivals, the_doomed_never_wait] {
                prop_assert_eq!(keeps(law, twin, slots, &script), Ok(()));
            }
        }
        prop_assert_eq!(keeps_keys_apart(|| Twin::new(Fault::None, None), &script), Ok(()));
    }
}

/// Whether some script shows that this does not hold.
fn is_rejected(holds: impl Fn(&[Act]) -> Result<(), String>) -> bool {
    let config = Config { cases: 3_000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let verdict = TestRunner::new(config).run(&acts(), |script| holds(&script).map_err(TestCaseError::fail));
    matches!(verdict, Err(TestError::Fail(..)))
}

/// Scenario: twins with one fault each, held to the law that it breaks.
/// Expected: each MUST be rejected by some script.
#[test]
fn a_twin_with_a_fault_is_rejected() {
    let slots = Some(SLOTS);
    let rows: [(Fault, Option<u32>, Law<Twin>); 10] = [
        (Fault::OneTooMany, slots, never_too_many),
        (Fault::KeepsTheSlotOfWhoLeft, slots, never_too_many),
        (Fault::ForgetsToWake, slots, nobody_is_forgotten),
        (Fault::ForgetsToWake, None, nobody_is_forgotten),
        (Fault::LosesTheTurnOfWhoLeft, None, nobody_is_forgotten),
        (Fault::LastComeFirstServed, None, grants_follow_arrivals),
        (Fault::Overtaking, None, grants_follow_arrivals),
        (Fault::PromisesNothing, None, the_doomed_never_wait),
        (Fault::PromisesAsIfAlone, None, the_doomed_never_wait),
        (Fault::WaitsOutAFreeze, None, the_doomed_never_wait),
    ];
    for (fault, slots, law) in rows {
        let rejected = is_rejected(|script| keeps(law, || Twin::new(fault, slots), slots, script));
        assert!(rejected, "{fault:?} is not noticed");
    }
}

/// Scenario: a limit, a budget and a twin, each with one state for all keys, held to the law that one key never changes
/// another.
/// Expected: each MUST be rejected by some script.
#[test]
fn one_state_for_all_keys_is_rejected() {
    assert!(is_rejected(|script| keeps_keys_apart(|| by(KeyBy::Nothing, None), script)), "the limit");
    assert!(is_rejected(|script| keeps_keys_apart(|| budget(KeyBy::Nothing), script)), "the budget");
    let twin = || Twin::new(Fault::SharesOneState, None);
    assert!(is_rejected(|script| keeps_keys_apart(twin, script)), "the twin");
}

/// What is wrong with a twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    OneTooMany,
    KeepsTheSlotOfWhoLeft,
    /// What comes back is told to nobody in line.
    ForgetsToWake,
    /// Who leaves the line tells nobody.
    LosesTheTurnOfWhoLeft,
    LastComeFirstServed,
    /// A newcomer passes whoever waits.
    Overtaking,
    /// Whoever cannot pass waits, be it for nothing.
    PromisesNothing,
    /// Those ahead in line are left out of a promise.
    PromisesAsIfAlone,
    /// Who waits does not look up when the provider says to wait.
    WaitsOutAFreeze,
    SharesOneState,
}

/// A limit made plainly, with one lock and a level of tokens, to stand beside the real one. What a header takes out comes
/// back by growing alone.
#[derive(Clone)]
struct Twin {
    fault: Fault,
    slots: Option<u32>,
    keys: Arc<Mutex<BTreeMap<String, Key>>>,
}

struct Key {
    in_flight: u32,
    /// In parts of a token, of which so many as the limit come each millisecond, and half as many while it is slow.
    level: i64,
    limit: i64,
    at: Instant,
    frozen: Instant,
    slow: Instant,
    line: VecDeque<Waiting>,
    tickets: u64,
}

struct Waiting {
    ticket: u64,
    cost: i64,
    waker: Option<Waker>,
}

/// Parts of a token.
const PARTS: i64 = 2 * 60_000;

struct Permit {
    twin: Twin,
    key: String,
    cost: i64,
}

/// A place in the line of a twin.
struct Place {
    twin: Twin,
    key: String,
    ticket: u64,
    cost: i64,
    last: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Key {
    fn new() -> Self {
        let now = Instant::now();
        let limit = QUOTA.into();
        let level = limit * PARTS;
        Self {
            in_flight: 0,
            level,
            limit,
            at: now,
            frozen: now,
            slow: now,
            line: VecDeque::new(),
            tickets: 0,
        }
    }

    /// Lets it grow up to now.
    fn grow(&mut self) {
        let (now, from) = (Instant::now(), self.at.max(self.frozen));
        let slow = ms(self.slow.min(now).saturating_duration_since(from));
        let all = ms(now.saturating_duration_since(from));
        self.level = (self.level + self.limit * (2 * all - slow)).min(self.limit * PARTS);
        self.at = now;
    }

    /// When so much is there.
    fn until(&self, cost: i64) -> Instant {
        let from = self.at.max(self.frozen);
        let missing = (cost * PARTS - self.level).max(0);
        let slow = ms(self.slow.saturating_duration_since(from));
        let grown = slow * self.limit;
        let wait = if missing <= grown {
            ceil(missing, self.limit)
        } else {
            slow + ceil(missing - grown, 2 * self.limit)
        };
        from + Duration::from_millis(wait.try_into().unwrap())
    }

    fn wake(&mut self) {
        self.line.iter_mut().filter_map(|waiting| waiting.waker.take()).for_each(Waker::wake);
    }
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap()
}

fn ceil(of: i64, by: i64) -> i64 {
    (of + by - 1) / by
}

impl Twin {
    fn new(fault: Fault, slots: Option<u32>) -> Self {
        Self { fault, slots, keys: Arc::default() }
    }

    fn is_free(&self, key: &Key) -> bool {
        self.slots.is_none_or(|slots| key.in_flight < slots + u32::from(self.fault == Fault::OneTooMany))
    }

    /// Takes a slot and so many tokens, or neither.
    fn take(&self, key: &mut Key, cost: i64) -> bool {
        key.grow();
        let free = self.is_free(key) && key.frozen <= key.at && key.level >= cost * PARTS;
        if free {
            key.in_flight += 1;
            key.level -= cost * PARTS;
        }
        free
    }
}

impl Limited for Twin {
    fn call(&self, inside: &Inside, request: Request) -> LocalBoxFuture<'static, Result<(), Failure>> {
        whole(Gate::new(inside.clone(), self.clone()), request).boxed_local()
    }

    fn stands(&self, key: usize) -> Stands {
        let mut keys = self.keys.lock().unwrap();
        let wanted = if self.fault == Fault::SharesOneState { 0 } else { key };
        let Some(key) = keys.get_mut(&name(wanted)) else { return Stands::default() };
        key.grow();
        let left = u64::try_from((key.level / PARTS).max(0)).unwrap();
        let frozen = key.frozen.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero());
        Stands {
            in_flight: key.in_flight,
            waiting: key.line.len(),
            frozen,
            tokens: Some((left, key.limit.try_into().unwrap())),
            requests: None,
            next: frozen,
        }
    }
}

impl Admission<Request> for Twin {
    type Permit = Permit;

    fn admit(&self, request: &Request) -> Admit<Permit> {
        let caller = request.extensions().unwrap().get::<Caller>().unwrap().as_str().to_owned();
        let name = if self.fault == Fault::SharesOneState { name(0) } else { caller };
        let cost = i64::try_from(request.cost().input).unwrap();
        let mut keys = self.keys.lock().unwrap();
        let key = keys.entry(name.clone()).or_insert_with(Key::new);
        let first = key.line.is_empty() || self.fault == Fault::Overtaking;
        if first && self.take(key, cost) {
            return Admit::Granted(Permit { twin: self.clone(), key: name, cost });
        }
        key.grow();
        let now = Instant::now();
        let ahead: i64 = key.line.iter().map(|waiting| waiting.cost).sum();
        let ahead = if self.fault == Fault::PromisesAsIfAlone { 0 } else { ahead };
        let (until, last) = (key.until(ahead + cost), now + MAX_WAIT);
        let late = until > last && self.fault != Fault::PromisesNothing;
        if late || !request.call().patient {
            return Admit::Refused(refusal(until));
        }
        key.tickets += 1;
        let ticket = key.tickets;
        let waiting = Waiting { ticket, cost, waker: None };
        match self.fault {
            Fault::LastComeFirstServed => key.line.push_front(waiting),
            _ => key.line.push_back(waiting),
        }
        let timer = Box::pin(sleep_until(last));
        Admit::Wait(Box::pin(Place { twin: self.clone(), key: name, ticket, cost, last, timer }))
    }
}

fn refusal(until: Instant) -> Failure {
    let wait = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    Failure::local(Code::LimiterFull, "full").with_retry_after(Some(wait))
}

impl Future for Place {
    type Output = Result<Permit, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let twin = self.twin.clone();
        let mut keys = twin.keys.lock().unwrap();
        let key = keys.get_mut(&self.key).unwrap();
        let (now, last) = (Instant::now(), self.last);
        let is_head = key.line.front().is_some_and(|waiting| waiting.ticket == self.ticket);
        if is_head && twin.take(key, self.cost) {
            drop(keys);
            return Poll::Ready(Ok(Permit { key: self.key.clone(), cost: self.cost, twin }));
        }
        let until = key.until(self.cost);
        let doomed = is_head && until > last && twin.fault != Fault::WaitsOutAFreeze;
        if now >= last || (doomed && twin.fault != Fault::PromisesNothing) {
            return Poll::Ready(Err(refusal(until)));
        }
        let own = key.line.iter_mut().find(|waiting| waiting.ticket == self.ticket).unwrap();
        own.waker = Some(cx.waker().clone());
        // Until a slot comes back nobody can say more than when the wait is over.
        let next = if is_head && until > now { until.min(last) } else { last };
        drop(keys);
        self.timer.as_mut().reset(next);
        if self.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut keys = self.twin.keys.lock().unwrap();
        let key = keys.get_mut(&self.key).unwrap();
        key.line.retain(|waiting| waiting.ticket != self.ticket);
        if self.twin.fault != Fault::LosesTheTurnOfWhoLeft {
            key.wake();
        }
    }
}

impl Observer for Permit {
    fn meet(&mut self, limits: &Limits) {
        let mut keys = self.twin.keys.lock().unwrap();
        let key = keys.get_mut(&self.key).unwrap();
        key.grow();
        for window in limits.windows().iter().filter(|window| window.dimension == Dimension::Tokens) {
            if let Some(told) = window.limit {
                let (told, before) = (i64::try_from(told).unwrap().min(QUOTA.into()), key.limit);
                key.level += (told - before) * PARTS;
                key.limit = told;
            }
            if let Some(left) = window.remaining {
                key.level = key.level.min(i64::try_from(left).unwrap() * PARTS);
            }
        }
        key.wake();
    }

    fn settle(self, how: End<'_>) {
        let mut keys = self.twin.keys.lock().unwrap();
        let key = keys.get_mut(&self.key).unwrap();
        key.grow();
        let used = match how {
            End::Completed(Some(usage)) => i64::try_from(usage.input).unwrap(),
            _ => 0,
        };
        key.level = (key.level + (self.cost - used) * PARTS).min(key.limit * PARTS);
        if self.twin.fault != Fault::KeepsTheSlotOfWhoLeft || !matches!(how, End::Abandoned) {
            key.in_flight -= 1;
        }
        if let End::Failed(failure) = how {
            let now = Instant::now();
            if let Some(wait) = failure.retry_after() {
                key.frozen = key.frozen.max(now + wait);
            } else if failure.code() == Code::RateLimited {
                key.slow = key.slow.max(now + SLOW);
            }
        }
        if self.twin.fault != Fault::ForgetsToWake {
            key.wake();
        }
    }
}
