//! The laws. Each takes a row, and says what is wrong with it.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tower::{Service, ServiceExt};
use watertight::event::Facts;
use watertight::failure::{Code, Failure};

use crate::door::{Door, State};
use crate::rows::{Lesson, Make, Row, Svc};
use crate::support::{Act, Script, fail, request};

/// More polls than any script here takes.
const MANY: usize = 100;

/// More polls than the waits of a slow call need, be there a timer for each of them and one for each layer.
const SPIN: usize = 20;

/// What passes between two polls: no wait of the scripts and rows is longer than two of them.
const TICK: Duration = Duration::from_millis(10);

/// How long a call of a sink may take before it is held to be stuck. Only a deadlock comes near it.
const PATIENCE: Duration = Duration::from_secs(60);

pub type Verdict = Result<(), String>;

/// Ends a law with what is wrong.
macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(format!($($what)+));
        }
    };
}

/// Counts how often it was woken, and by its own count how many may still wake it.
#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The reason a scripted failure was given, to be found again.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the reason beneath")]
struct Reason;

/// Runs on a paused clock of its own.
fn paused<T>(law: impl Future<Output = T>) -> T {
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    clock.unwrap().block_on(law)
}

fn quiet() -> Facts {
    Facts::from_fn(|_| {})
}

/// A fresh row, a little later: what rests for a moment is over it.
async fn rested(make: Make, facts: &Facts) -> Row {
    let row = make(facts);
    tokio::time::advance(TICK).await;
    row
}

/// Asks a service once whether it is ready.
fn ready(service: &mut Svc, waker: &Waker) -> Poll<Result<(), Failure>> {
    service.poll_ready(&mut Context::from_waker(waker))
}

/// Calls a service that is ready, and reads the answer to its end.
async fn call(service: &mut Svc) -> Result<(), Failure> {
    let mut reply = service.call(request()).await?;
    while let Some(event) = reply.next().await {
        event?;
    }
    Ok(())
}

/// What a layer, and the stage beneath it, hold.
fn held(row: &Row, door: &Door) -> [usize; 3] {
    [(row.held)(), door.open(), door.held()]
}

/// Ready MUST mean that the inner service is ready: it is asked before each call, its waker is the caller's, and no
/// call reaches it before it is.
pub fn readiness_is_asked_for_and_passed_on(make: Make) -> Verdict {
    paused(async {
        let (row, door) = (rested(make, &quiet()).await, Door::new([Script::says("x")]));
        let mut service = (row.wrap)(door.clone());
        for round in 1..=2 {
            door.set(State::Closed);
            let alarm = Arc::new(Alarm::default());
            let waker = Waker::from(Arc::clone(&alarm));
            let asked = ready(&mut service, &waker);
            if row.presses {
                ensure!(asked.is_pending(), "round {round}: ready while its inner service is not");
                ensure!(alarm.0.load(Ordering::Relaxed) == 0, "round {round}: woken for nothing");
                door.set(State::Open);
                ensure!(alarm.0.load(Ordering::Relaxed) > 0, "round {round}: not woken");
                ensure!(ready(&mut service, &waker).is_ready(), "round {round}: not ready when woken");
                ensure!(call(&mut service).await.is_ok(), "round {round}: the call failed");
            } else {
                ensure!(asked.is_ready(), "round {round}: not ready");
                let mut calling = std::pin::pin!(call(&mut service));
                let first = calling.as_mut().poll(&mut Context::from_waker(&waker));
                ensure!(first.is_pending(), "round {round}: answered by nobody");
                door.set(State::Open);
                ensure!(calling.await.is_ok(), "round {round}: the call failed");
            }
            ensure!(door.calls() == round, "round {round}: {} calls reached it", door.calls());
        }
        ensure!(door.unready() == 0, "called while it was not ready");
        Ok(())
    })
}

/// A clone MUST ask for itself, and leave the other's readiness alone.
pub fn a_clone_starts_unready(make: Make) -> Verdict {
    paused(async {
        let (row, door) = (rested(make, &quiet()).await, Door::new([Script::says("x")]));
        let mut service = (row.wrap)(door.clone());
        ensure!(ready(&mut service, Waker::noop()).is_ready(), "not ready behind an open door");
        door.set(State::Closed);
        let mut clone = service.clone();
        let asked = ready(&mut clone, Waker::noop());
        if row.presses {
            ensure!(asked.is_pending(), "a clone took the readiness of the other");
        } else {
            let mut calling = std::pin::pin!(call(&mut clone));
            let first = calling.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            ensure!(first.is_pending(), "a clone took the readiness of the other");
        }
        ensure!(door.calls() == 0, "a clone called what was not ready for it");
        // The door is still closed: only its own readiness lets it pass.
        let first = Box::pin(call(&mut service)).now_or_never();
        ensure!(matches!(first, Some(Ok(()))), "the first lost its readiness to a clone");
        door.set(State::Open);
        ensure!(ready(&mut clone, Waker::noop()).is_ready(), "the clone is never ready");
        ensure!(call(&mut clone).await.is_ok(), "the clone cannot be called");
        ensure!(door.unready() == 0, "called while it was not ready");
        Ok(())
    })
}

/// Readiness that is not used MUST cost nothing: no permit, no slot, no token.
pub fn a_service_readied_and_dropped_loses_nothing(make: Make) -> Verdict {
    paused(async {
        let (row, door) = (rested(make, &quiet()).await, Door::new([Script::says("x")]));
        let service = (row.wrap)(door.clone());
        for _ in 0..MANY {
            ensure!(ready(&mut service.clone(), Waker::noop()).is_ready(), "not ready behind an open door");
        }
        ensure!(held(&row, &door) == [0; 3], "holds {:?}", held(&row, &door));
        let mut last = service.clone();
        ensure!(ready(&mut last, Waker::noop()).is_ready(), "not ready any more");
        ensure!(call(&mut last).await.is_ok(), "the call failed");
        Ok(())
    })
}

/// Who is in flight when a call begins.
#[derive(Clone, Copy)]
enum Crowd {
    Nobody,
    /// One that stays.
    Stays,
    /// One that leaves after so many polls.
    Leaves(usize),
}

/// Services that are ready and not called MUST NOT keep another from its call, however many they are.
pub fn idle_readiness_blocks_nobody(make: Make) -> Verdict {
    paused(async {
        let (row, door) = (rested(make, &quiet()).await, Door::new([Script::says("x")]));
        let service = (row.wrap)(door.clone());
        let mut idle: Vec<Svc> = (0..MANY).map(|_| service.clone()).collect();
        for service in &mut idle {
            ensure!(ready(service, Waker::noop()).is_ready(), "readiness is used up by who only asked");
        }
        let mut last = service.clone();
        ensure!(ready(&mut last, Waker::noop()).is_ready(), "not ready beside those that are");
        let answer = tokio::time::timeout(PATIENCE, call(&mut last)).await;
        ensure!(matches!(answer, Ok(Ok(()))), "the call did not pass: {answer:?}");
        Ok(())
    })
}

/// While nothing happens, a call MUST NOT be polled: it is woken by what it waits for, not by itself.
pub fn nobody_spins(make: Make) -> Verdict {
    let wait = || Act::Wait(2_000);
    let slow = Script { head: vec![wait()], body: vec![wait(), Act::Text("x"), wait(), Act::Done] };
    paused(async {
        for crowd in [false, true] {
            let (row, door) = (rested(make, &quiet()).await, Door::new([slow.clone()]));
            let mut first = (row.wrap)(door.clone());
            let mut second = first.clone();
            ensure!(ready(&mut first, Waker::noop()).is_ready(), "not ready behind an open door");
            let kept = if crowd { Some(first.call(request()).await) } else { None };
            ensure!(ready(&mut second, Waker::noop()).is_ready(), "not ready behind an open door");
            let mut polls = 0;
            let mut calling = Box::pin(call(&mut second));
            let counted = poll_fn(|cx| {
                polls += 1;
                // One that spins would never let the clock move.
                if polls > SPIN { Poll::Ready(None) } else { calling.as_mut().poll(cx).map(Some) }
            });
            ensure!(counted.await.is_some(), "it was polled {SPIN} times in a call of four steps");
            drop(kept);
        }
        Ok(())
    })
}

/// A call of each kind: its scripts, and who is before it.
fn plans() -> Vec<(Vec<Script>, Crowd)> {
    let slow = Script {
        head: vec![Act::Wait(15)],
        body: vec![
            Act::Preamble,
            Act::Text("x"),
            Act::Wait(15),
            Act::Text("y"),
            Act::KeepAlive,
            Act::Wait(15),
            Act::Done,
        ],
    };
    let fails = Script::head([Act::Wait(15), Act::Fail(fail(Code::Server))]);
    let breaks = Script::body([Act::Text("x"), Act::Wait(15), Act::Fail(fail(Code::Transport))]);
    vec![
        (vec![slow.clone()], Crowd::Nobody),
        (vec![slow.clone(), slow.clone()], Crowd::Stays),
        (vec![slow.clone(), slow.clone()], Crowd::Leaves(4)),
        (vec![fails.clone(), slow.clone()], Crowd::Nobody),
        (vec![fails.clone(), fails], Crowd::Nobody),
        (vec![breaks, slow], Crowd::Nobody),
    ]
}

/// Makes a call and polls it so often, through its answer, too; then drops it. Whether it had come to its end.
async fn polled(service: &mut Svc, waker: &Waker, polls: usize, mut between: impl FnMut(usize)) -> bool {
    let mut answer = Some(service.call(request()));
    let mut reply = None;
    for poll in 0..polls {
        between(poll);
        let cx = &mut Context::from_waker(waker);
        let pending = match (&mut answer, &mut reply) {
            (Some(call), _) => match call.as_mut().poll(cx) {
                Poll::Ready(Ok(came)) => {
                    (answer, reply) = (None, Some(came));
                    false
                }
                Poll::Ready(Err(_)) => return true,
                Poll::Pending => true,
            },
            (None, Some(events)) => match events.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(_))) => false,
                Poll::Ready(_) => return true,
                Poll::Pending => true,
            },
            (None, None) => false,
        };
        if pending {
            tokio::time::advance(TICK).await;
        }
    }
    false
}

/// Dropped before its first poll, at every poll, or at every event of its reply, a call MUST give everything back: no
/// call or slot is held, no timer and no line knows the caller's waker, no task runs, and the next call passes.
pub fn a_call_dropped_anywhere_gives_everything_back(make: Make) -> Verdict {
    let mut most = 0;
    for (plan, (scripts, crowd)) in plans().into_iter().enumerate() {
        let ends = (0..MANY).try_fold(false, |ended, polls| match ended {
            true => Ok(true),
            false => paused(dropped(make, &scripts, crowd, polls, &mut most))
                .map_err(|what| format!("plan {plan}, {polls} polls: {what}")),
        });
        ensure!(ends?, "plan {plan} has no end");
    }
    let counts = make(&quiet()).counts;
    ensure!(counts == (most > 0), "it counted {most} calls, so that none left says nothing");
    Ok(())
}

/// One of these calls. Whether it had come to its end when it was dropped; and the most calls that the layer counted.
async fn dropped(
    make: Make,
    scripts: &[Script],
    crowd: Crowd,
    polls: usize,
    most: &mut usize,
) -> Result<bool, String> {
    let scripts = scripts.iter().cloned().chain([Script::says("x")]);
    let (row, door) = (rested(make, &quiet()).await, Door::new(scripts));
    let service = (row.wrap)(door.clone());
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let knowing = Arc::strong_count(&alarm);

    let mut first = service.clone();
    let mut before = match crowd {
        Crowd::Nobody => None,
        _ => Some(first.ready().await.map_err(|_| "never ready")?.call(request()).await),
    };
    let mut second = service.clone();
    ensure!(ready(&mut second, &waker).is_ready(), "not ready behind an open door");
    let ended = polled(&mut second, &waker, polls, |poll| {
        *most = (*most).max((row.held)());
        if matches!(crowd, Crowd::Leaves(after) if after == poll) {
            before = None;
        }
    });
    let ended = ended.await;
    drop((second, before, first));

    ensure!(held(&row, &door) == [0; 3], "holds {:?}", held(&row, &door));
    ensure!(Arc::strong_count(&alarm) == knowing, "someone would still wake the caller");
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    ensure!(tasks == 0, "{tasks} tasks are left");
    let mut third = service.clone();
    ensure!(ready(&mut third, &waker).is_ready(), "not ready afterwards");
    let after = tokio::time::timeout(PATIENCE, call(&mut third)).await;
    ensure!(after.is_ok(), "the next call never ends");
    ensure!(held(&row, &door)[..2] == [0; 2], "holds {:?} after the next call", held(&row, &door));
    ensure!(door.unready() == 0, "called while it was not ready");
    Ok(ended)
}

/// A sink that itself asks the layer how it is, and calls it, MUST be answered: nothing is told under a lock.
pub fn a_sink_may_call_the_layer(make: Make, story: &Script) -> Verdict {
    let (tell, told) = mpsc::channel();
    let story = story.clone();
    std::thread::spawn(move || {
        let law = AssertUnwindSafe(|| paused(talking(make, story)));
        let verdict = std::panic::catch_unwind(law).unwrap_or_else(|_| Err("it panicked".into()));
        // Nobody listens any more once its time was up.
        _ = tell.send(verdict);
    });
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| Err("it is stuck".into()))
}

async fn talking(make: Make, story: Script) -> Verdict {
    type Within = (Svc, Arc<Row>);
    let within: Arc<Mutex<Option<Within>>> = Arc::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let ended = Arc::new(AtomicUsize::new(0));
    let (hook, made, done) = (Arc::clone(&within), Arc::clone(&calls), Arc::clone(&ended));
    let facts = Facts::from_fn(move |_| {
        // Taken out meanwhile, so that a fact of the sink's own call calls nobody.
        let Some((service, row)) = hook.lock().unwrap().take() else { return };
        made.fetch_add(1, Ordering::Relaxed);
        (row.held)();
        let mut clone = service.clone();
        if ready(&mut clone, Waker::noop()).is_ready() {
            _ = clone.call(request()).now_or_never();
        }
        *hook.lock().unwrap() = Some((service, row));
        done.fetch_add(1, Ordering::Relaxed);
    });
    let (row, door) = (Arc::new(rested(make, &facts).await), Door::new([story]));
    let mut service = (row.wrap)(door);
    *within.lock().unwrap() = Some((service.clone(), Arc::clone(&row)));
    for _ in 0..4 {
        if ready(&mut service, Waker::noop()).is_ready() {
            _ = call(&mut service).await;
        }
    }
    within.lock().unwrap().take();
    let [begun, ended] = [calls, ended].map(|count| count.load(Ordering::Relaxed));
    ensure!(begun > 0, "it told nothing, so nothing was tried");
    // A panic in a sink goes no further than the sink.
    ensure!(begun == ended, "the sink panicked");
    Ok(())
}

/// Two services of one layer MUST share what the layer remembers: routers apply a layer once a route.
pub fn a_layer_applied_twice_shares_its_state(lesson: &Lesson) -> Verdict {
    paused(async {
        let row = rested(lesson.make, &quiet()).await;
        let (one, two) = (Door::new([lesson.first.clone()]), Door::new([lesson.second.clone()]));
        let (mut first, mut second) = ((row.wrap)(one), (row.wrap)(two.clone()));
        let mut answers = Vec::new();
        for _ in 0..lesson.calls {
            ensure!(poll_fn(|cx| first.poll_ready(cx)).await.is_ok(), "never ready");
            // What it answers is kept, so that a limit on what is in flight is reached, too.
            answers.push(first.call(request()).await);
        }
        ensure!(poll_fn(|cx| second.poll_ready(cx)).await.is_ok(), "the second is never ready");
        _ = call(&mut second).await;
        ensure!(two.calls() == lesson.reaches, "{} calls reached the second stage", two.calls());
        Ok(())
    })
}

/// A failure of the inner service MUST come out as it is: its code, its words and the error beneath it, before the
/// head and within the stream.
pub fn failures_pass_unwrapped(make: Make) -> Verdict {
    for code in Code::ALL {
        let failure = fail(code).with_source(Reason);
        let before = Script::head([Act::Fail(failure.clone())]);
        let within = Script::body([Act::Text("x"), Act::Fail(failure)]);
        for script in [before, within] {
            paused(async {
                let row = rested(make, &quiet()).await;
                let mut service = (row.wrap)(Door::new([script]));
                ensure!(ready(&mut service, Waker::noop()).is_ready(), "{code}: not ready");
                match call(&mut service).await {
                    Ok(()) if row.replaces => Ok(()),
                    answer => same(answer, code),
                }
            })?;
        }
    }
    Ok(())
}

/// An inner service that will never be ready MUST be told of as it is, and not be called.
pub fn a_failed_readiness_is_passed_on(make: Make) -> Verdict {
    paused(async {
        let (row, door) = (rested(make, &quiet()).await, Door::new([Script::says("x")]));
        let mut service = (row.wrap)(door.clone());
        let code = Code::InvalidRequest;
        door.set(State::Broken(fail(code).with_source(Reason)));
        match ready(&mut service, Waker::noop()) {
            Poll::Pending => return Err("it waits for what never comes".into()),
            Poll::Ready(Err(failure)) => same(Err(failure), code)?,
            Poll::Ready(Ok(())) => {
                ensure!(!row.breaks, "ready while its inner service is broken");
                match call(&mut service).await {
                    Ok(()) if row.replaces => {}
                    answer => same(answer, code)?,
                }
            }
        }
        ensure!(door.calls() == 0, "called while it was broken");
        Ok(())
    })
}

/// Whether a failure is the scripted one.
fn same(got: Result<(), Failure>, code: Code) -> Verdict {
    let Err(got) = got else { return Err(format!("{code} became a success")) };
    ensure!(got.code() == code, "{code} became {}", got.code());
    ensure!(got.message() == "scripted", "{code} now says `{}`", got.message());
    let beneath = std::error::Error::source(&got).and_then(|source| source.downcast_ref::<Reason>());
    ensure!(beneath.is_some(), "{code} lost the error beneath it");
    Ok(())
}
