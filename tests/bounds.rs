//! Two laws of the whole tower, held to random scripts: attempts are bounded, and bytes of one answer come from one
//! attempt. Beside each law stand stacks that break it.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt};
use proptest::prelude::*;
use support::{Act, Body, Log, Script, Stage, fail, request};
use tower::util::MapErr;
use tower::{Layer, Service, ServiceExt};
use watertight::chat::{Event, Head, Reply, Request};
use watertight::failure::{Code, Failure};
use watertight::layers::failover::FailoverConfig;
use watertight::layers::reset::ResetConfig;
use watertight::layers::retry::{Jitter, Retry, RetryConfig};
use watertight::layers::{FailoverLayer, ResetLayer, RetryLayer};

const NAMES: [&str; 3] = ["a", "b", "c"];
const RETRIES: u32 = 2;
const RESETS: u32 = 1;

/// How many attempts there may be: (1 + resets) × candidates × (1 + retries).
const BOUND: usize = 2 * 3 * 3;

fn codes() -> impl Strategy<Value = Code> {
    proptest::sample::select(Code::ALL.to_vec())
}

fn failures() -> impl Strategy<Value = Failure> {
    let waits = proptest::option::weighted(0.3, (0_u64..40_000).prop_map(Duration::from_millis));
    let words = proptest::option::weighted(0.2, any::<bool>());
    // Mostly what passes, so that scripts go on.
    let codes = prop_oneof![codes(), Just(Code::Server), Just(Code::Truncated), Just(Code::RateLimited)];
    (codes, waits, words)
        .prop_map(|(code, wait, word)| fail(code).with_retry_after(wait).with_should_retry(word))
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => (0_u64..400).prop_map(Act::Wait),
        2 => Just(Act::Preamble),
        1 => Just(Act::KeepAlive),
        3 => Just(Act::Text("1")),
    ];
    let last = prop_oneof![failures().prop_map(Act::Fail), Just(Act::End), Just(Act::Done)];
    (proptest::collection::vec(act, 0..6), last).prop_map(|(mut acts, last)| {
        acts.push(last);
        acts
    })
}

fn scripts() -> impl Strategy<Value = Script> {
    let head = prop_oneof![
        2 => Just(vec![]),
        1 => (0_u64..400).prop_map(|ms| vec![Act::Wait(ms)]),
        2 => failures().prop_map(|failure| vec![Act::Fail(failure)]),
    ];
    (head, acts()).prop_map(|(head, body)| Script { head, body })
}

/// What each of three candidates plays, call after call.
fn plays() -> impl Strategy<Value = [Vec<Script>; 3]> {
    let play = || proptest::collection::vec(scripts(), 1..4);
    [play(), play(), play()]
}

/// What the caller got: the text since the last reset, and what came after an error.
#[derive(Debug, Default)]
struct Got {
    text: String,
    after_the_end: bool,
}

async fn got<T>(answer: Result<T, Failure>) -> Got
where
    T: Stream<Item = Result<Event, Failure>> + Unpin,
{
    let (mut got, mut ended) = (Got::default(), false);
    let Ok(mut reply) = answer else { return got };
    while let Some(item) = reply.next().await {
        got.after_the_end |= ended;
        match item {
            Ok(Event::Text { text, .. }) => got.text.push_str(&text),
            Ok(Event::Reset(_)) => got.text.clear(),
            Ok(Event::Completed(_)) | Err(_) => ended = true,
            Ok(_) => {}
        }
    }
    got
}

fn retry() -> RetryLayer {
    let config =
        RetryConfig { retries: RETRIES, jitter: Jitter::None, budget: None, ..RetryConfig::default() };
    RetryLayer::new(config).unwrap()
}

fn candidates(log: &Log, plays: &[Vec<Script>; 3]) -> [Retry<Stage>; 3] {
    [0, 1, 2].map(|at| retry().layer(Stage::new(NAMES[at], log, plays[at].clone())))
}

/// Plays the scripts to a stack, on a clock of its own, and holds what came to the laws. `calls` calls in a row, so
/// that what is remembered plays its part.
fn holds<T>(
    plays: &[Vec<Script>; 3],
    calls: usize,
    stack: impl Fn([Retry<Stage>; 3]) -> BoxedStack<T>,
) -> Result<(), TestCaseError>
where
    T: Stream<Item = Result<Event, Failure>> + Unpin,
{
    let clock =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    clock.block_on(async {
        let log = Log::default();
        let mut stack = stack(candidates(&log, plays));
        for call in 0..calls {
            let before = log.calls().len();
            let got = got(stack(request()).await).await;
            let attempts = log.calls().len() - before;
            prop_assert!(attempts <= BOUND, "call {call}: {attempts} attempts");
            let speakers = NAMES.iter().filter(|name| got.text.contains(**name)).count();
            prop_assert!(speakers <= 1, "call {call}: {}", got.text);
            // No script says more than five words: more are of two attempts.
            prop_assert!(got.text.len() <= 2 * 5, "call {call}: {}", got.text);
            prop_assert!(!got.after_the_end, "call {call}: something came after the end");
            prop_assert_eq!(log.open(), 0);
        }
        Ok(())
    })
}

/// A stack as a function, whatever its type.
type BoxedStack<T> = Box<dyn FnMut(Request) -> BoxFuture<'static, Result<T, Failure>>>;

fn boxed<S, T>(service: S) -> BoxedStack<T>
where
    S: Service<Request, Response = T, Error = Failure> + Clone + Send + 'static,
    S::Future: Send,
    T: 'static,
{
    // Clones share what is remembered.
    Box::new(move |request| service.clone().oneshot(request).boxed())
}

fn failover(candidates: [Retry<Stage>; 3]) -> watertight::layers::failover::Failover<Retry<Stage>> {
    let [a, b, c] = candidates;
    FailoverLayer::new([b, c]).named(NAMES).unwrap().config(FailoverConfig::eager()).unwrap().layer(a)
}

fn reset() -> ResetLayer {
    ResetLayer::new(ResetConfig { resets: RESETS, ..ResetConfig::default() }).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any scripts of three candidates, under retry, failover and reset; several calls in a row.
    /// Expected: attempts MUST stay within the bound; the text MUST be of one candidate and one attempt; nothing MUST
    /// come after an error, and nothing stay open.
    #[test]
    fn any_scripts_keep_the_laws(plays in plays()) {
        holds(&plays, 4, |candidates| boxed(reset().layer(failover(candidates))))?;
    }

    /// Scenario: the same, with another retry around it all, as one adds by mistake.
    /// Expected: the laws MUST hold: what was exhausted once is not tried again.
    #[test]
    fn a_retry_too_many_changes_nothing(plays in plays()) {
        holds(&plays, 4, |candidates| boxed(retry().layer(reset().layer(failover(candidates)))))?;
    }
}

fn down() -> [Vec<Script>; 3] {
    [0, 1, 2].map(|_| vec![Script::fails(Code::Server)])
}

/// Takes the mark, and all else that is known, from a failure.
fn unmarked(failure: Failure) -> Failure {
    match failure.code() {
        Code::AllFailed => Failure::new(Code::Server, failure.message()),
        code => Failure::new(code, failure.message()),
    }
}

/// Scenario: the law of the bound, held against twins: a retry around a failover, and around retries, that cannot read
/// the failure of a pass, or the mark.
/// Expected: both MUST be rejected; with the mark to be read, the same stacks MUST be accepted.
#[test]
fn a_stack_that_multiplies_is_rejected() {
    assert!(holds(&down(), 1, |candidates| boxed(retry().layer(failover(candidates)))).is_ok());
    let passes = |candidates| boxed(retry().layer(MapErr::new(failover(candidates), unmarked)));
    assert!(holds(&down(), 1, passes).is_err());

    let around = |candidates: [Retry<Stage>; 3]| candidates.map(|candidate| retry().layer(candidate));
    let stack = |[a, b, c]: [Retry<Retry<Stage>>; 3]| boxed(FailoverLayer::new([b, c]).layer(a));
    assert!(holds(&down(), 1, |candidates| stack(around(candidates))).is_ok());
    let blind = |candidates: [Retry<Stage>; 3]| {
        let [a, b, c] = candidates.map(|candidate| retry().layer(MapErr::new(candidate, unmarked)));
        boxed(FailoverLayer::new([b, c]).layer(a))
    };
    assert!(holds(&down(), 1, blind).is_err());
}

/// The twin: a stream that goes on at the next candidate when one dies in the middle.
struct Joined {
    bodies: Vec<Reply<Body>>,
}

impl Stream for Joined {
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(body) = self.bodies.first_mut() else { return Poll::Ready(None) };
            match std::task::ready!(body.poll_next_unpin(cx)) {
                Some(Err(_)) if self.bodies.len() > 1 => drop(self.bodies.remove(0)),
                other => return Poll::Ready(other),
            }
        }
    }
}

/// Scenario: the law of one speaker, held against twins that join a second candidate's text, or a second attempt's, to
/// the first's.
/// Expected: both MUST be rejected.
#[test]
fn a_stream_that_joins_two_is_rejected() {
    let words = |last| Script::body([Act::Text("1"), Act::Text("1"), Act::Text("1"), last]);
    let dies = || words(Act::Fail(fail(Code::Transport)));
    let plays = [vec![dies(), words(Act::Done)], vec![words(Act::Done)], vec![words(Act::Done)]];
    assert!(holds(&plays, 1, |candidates| boxed(reset().layer(failover(candidates)))).is_ok());
    for same in [false, true] {
        let joined = |[a, b, _]: [Retry<Stage>; 3]| -> BoxedStack<Reply<Joined>> {
            Box::new(move |request| {
                let (first, second) = (a.clone(), if same { a.clone() } else { b.clone() });
                async move {
                    let bodies = vec![first.oneshot(request.clone()).await?, second.oneshot(request).await?];
                    Ok(Reply::new(Head::of("joined"), Joined { bodies }))
                }
                .boxed()
            })
        };
        assert!(holds(&plays, 1, joined).is_err(), "same: {same}");
    }
}
