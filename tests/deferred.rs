//! Calls that are answered later, on a paused clock.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

mod support;

use std::time::Duration;

use support::{Act, Log, Script, Stage, fail, request};
use tokio::time::{sleep, timeout};
use tower::{Layer, ServiceExt};
use watertight::chat::{Completion, Level, Request, Ticket};
use watertight::failure::{Code, Failure};
use watertight::key::Caller;
use watertight::layers::DegradationLayer;
use watertight::layers::degradation::{DeferConfig, DeferQueue, DegradationConfig, JobStatus, MemoryQueue};

const JOB: Duration = Duration::from_secs(15);

fn queue(config: DeferConfig) -> MemoryQueue {
    MemoryQueue::new(config).unwrap()
}

fn layer(queue: &MemoryQueue) -> DegradationLayer {
    let config = DegradationConfig { graceful: None, ..DegradationConfig::default() };
    DegradationLayer::new(config).unwrap().deferred(queue.clone())
}

fn fails(code: Code) -> Stage {
    Stage::new("a", &Log::default(), [Script::fails(code)])
}

/// Asks a stack whose model is down.
async fn defer(layer: &DegradationLayer, failure: Failure, request: Request) -> Result<Completion, Failure> {
    let stage = Stage::new("a", &Log::default(), [Script::head([Act::Fail(failure)])]);
    layer.layer(stage).oneshot(request).await?.collect().await
}

fn ticket(completion: &Completion) -> Ticket {
    let record = completion.degradation();
    assert_eq!(record.level, Level::Deferred);
    record.ticket.clone().unwrap()
}

async fn put(queue: &MemoryQueue, request: Request) -> Ticket {
    queue.defer(request, None).await.unwrap()
}

fn pending(status: JobStatus) -> Option<(usize, Duration)> {
    match status {
        JobStatus::Pending(ticket) => Some((ticket.position, ticket.wait)),
        _ => None,
    }
}

/// Takes so long for each job.
fn takes(ms: u64, log: &Log) -> Stage {
    Stage::new("w", log, [Script::body([Act::Wait(ms), Act::Text("!"), Act::Done])])
}

/// Scenario: three calls meet a model that is down, with a worker that is not at work yet.
/// Expected: each MUST be promised with its place, and a wait of that many jobs; the words MUST name the ticket.
#[tokio::test(start_paused = true)]
async fn each_is_told_its_place_and_its_wait() {
    let queue = queue(DeferConfig::default());
    let _worker = queue.worker(takes(0, &Log::default()));
    let layer = layer(&queue);
    for position in 1..=3 {
        let answer = defer(&layer, fail(Code::Server), request()).await.unwrap();
        let ticket = ticket(&answer);
        let wait = JOB * u32::try_from(position).unwrap();
        assert_eq!((ticket.position, ticket.wait), (position, wait));
        assert!(answer.message.to_text().contains(&ticket.id), "{}", answer.message.to_text());
        assert!((answer.degradation().quality_estimate - 0.6).abs() < 1e-9);
        assert_eq!(pending(queue.ask(&ticket.id, None)), Some((position, wait)));
    }
}

/// Scenario: twenty-five jobs, the first five slow; then one more comes.
/// Expected: its wait MUST be its position times the mean of the last twenty, and nothing of the first five.
#[tokio::test(start_paused = true)]
async fn the_wait_is_measured() {
    let queue = queue(DeferConfig::default());
    let slow = Script::body([Act::Wait(90_000), Act::Done]);
    let quick = Script::body([Act::Wait(2_000), Act::Done]);
    let scripts = std::iter::repeat_n(slow, 5).chain(std::iter::repeat_n(quick, 20));
    let worker = tokio::spawn(queue.worker(Stage::new("w", &Log::default(), scripts)));
    for _ in 0..25 {
        put(&queue, request()).await;
    }
    sleep(Duration::from_secs(5 * 90 + 20 * 2 + 1)).await;
    let ticket = put(&queue, request()).await;
    assert_eq!((ticket.position, ticket.wait), (1, Duration::from_secs(2)));
    assert!(!worker.is_finished());
}

/// Scenario: a job is at work while its caller asks, is answered, and is asked for until it is forgotten; another
/// caller asks, too.
/// Expected: MUST be pending, done with the whole answer, and unknown; to the other it MUST be unknown throughout.
#[tokio::test(start_paused = true)]
async fn the_answer_can_be_asked_for() {
    let queue = queue(DeferConfig { keep: Duration::from_secs(60), ..DeferConfig::default() });
    let worker = tokio::spawn(queue.worker(takes(5_000, &Log::default())));
    let (ann, bob) = (Caller::new("ann"), Caller::new("bob"));
    let ticket = put(&queue, request().attach(ann.clone())).await;
    let shut = |status| matches!(status, JobStatus::Unknown);
    sleep(Duration::from_secs(1)).await;
    assert!(pending(queue.ask(&ticket.id, Some(&ann))).is_some());
    assert!(shut(queue.ask(&ticket.id, Some(&bob))) && shut(queue.ask(&ticket.id, None)));
    sleep(Duration::from_secs(5)).await;
    assert!(matches!(queue.ask(&ticket.id, Some(&ann)), JobStatus::Done(_)));
    assert!(shut(queue.ask(&ticket.id, Some(&bob))));
    assert!(matches!(queue.status(&ticket.id, Some(&ann)).await, JobStatus::Done(_)));
    sleep(Duration::from_secs(60)).await;
    assert!(shut(queue.ask(&ticket.id, Some(&ann))));
    assert!(shut(queue.ask("job-0", None)));
    worker.abort();
}

/// Scenario: jobs fail: for a while and with a stated wait, for good, and with words in the place of an answer.
/// Expected: what passes MUST be tried again, not before the wait is over; the rest MUST be failed with its reason.
#[tokio::test(start_paused = true)]
async fn a_failed_job_is_tried_again_where_waiting_helps() {
    let log = Log::default();
    let queue = queue(DeferConfig::default());
    let stated = fail(Code::RateLimited).with_retry_after(Some(Duration::from_secs(7)));
    let scripts = [Script::head([Act::Fail(stated)]), Script::fails(Code::Server), Script::says("!")];
    let worker = tokio::spawn(queue.worker(Stage::new("w", &log, scripts)));
    let ticket = put(&queue, request()).await;
    sleep(Duration::from_secs(70)).await;
    assert!(matches!(queue.ask(&ticket.id, None), JobStatus::Done(_)));
    let times = log.times();
    // The stated wait, then our own: it has doubled once.
    assert_eq!([times[1] - times[0], times[2] - times[1]], [7, 60].map(Duration::from_secs));
    worker.abort();

    for (code, tries) in [(Code::NotFound, 1), (Code::Server, 2)] {
        let log = Log::default();
        let queue = MemoryQueue::new(DeferConfig { tries: 2, ..DeferConfig::default() }).unwrap();
        // The stack of the worker answers with words, which are no answer to keep.
        let stack = DegradationLayer::default().deferred(queue.clone());
        let worker = tokio::spawn(queue.worker(stack.layer(Stage::new("w", &log, [Script::fails(code)]))));
        let ticket = put(&queue, request()).await;
        sleep(Duration::from_secs(100)).await;
        match queue.ask(&ticket.id, None) {
            JobStatus::Failed(failure) => assert_eq!(failure.code(), code),
            other => panic!("{code}: {other:?}"),
        }
        assert_eq!(log.calls().len(), tries, "a job is not put in line again");
        worker.abort();
    }
}

/// Scenario: the provider said when to come back before the call was deferred; the caller's deadline is near.
/// Expected: the job MUST not be run before that, and the deadline MUST not end it: nobody waits for it any more.
#[tokio::test(start_paused = true)]
async fn a_job_waits_for_what_was_stated() {
    let log = Log::default();
    let queue = queue(DeferConfig::default());
    let worker = tokio::spawn(queue.worker(takes(0, &log)));
    let stated = fail(Code::QuotaExhausted).with_retry_after(Some(Duration::from_secs(90)));
    let begun = tokio::time::Instant::now();
    let answer = defer(&layer(&queue), stated, request().within(Duration::from_secs(5))).await.unwrap();
    sleep(Duration::from_secs(89)).await;
    assert!(log.calls().is_empty());
    sleep(Duration::from_secs(2)).await;
    assert_eq!(log.times()[0] - begun, Duration::from_secs(90));
    assert_eq!(log.seen()[0].deadline, None);
    assert!(matches!(queue.ask(&ticket(&answer).id, None), JobStatus::Done(_)));
    worker.abort();
}

/// Scenario: a worker is dropped in the middle of a job; another comes.
/// Expected: nothing MUST be held, and the other MUST begin with that job.
#[tokio::test(start_paused = true)]
async fn a_worker_that_goes_away_puts_its_job_back() {
    let log = Log::default();
    let queue = queue(DeferConfig { tries: 1, ..DeferConfig::default() });
    let mut worker = Box::pin(queue.worker(takes(60_000, &log)));
    let first = put(&queue, request()).await;
    let second = put(&queue, request()).await;
    assert!(timeout(Duration::from_secs(5), &mut worker).await.is_err());
    assert_eq!(log.open(), 1);
    drop(worker);
    assert_eq!(log.open(), 0);
    assert_eq!(pending(queue.ask(&first.id, None)).unwrap().0, 1);
    assert_eq!(pending(queue.ask(&second.id, None)).unwrap().0, 2);
    let worker = tokio::spawn(queue.worker(takes(1_000, &log)));
    sleep(Duration::from_millis(2_500)).await;
    assert!(matches!(queue.ask(&first.id, None), JobStatus::Done(_)));
    assert!(matches!(queue.ask(&second.id, None), JobStatus::Done(_)));
    worker.abort();
}

/// Scenario: nobody works off the line; the line is full; the failure is one that no wait helps.
/// Expected: nothing MUST be promised: the failure goes up, or to the next rung.
#[tokio::test(start_paused = true)]
async fn no_promise_is_made_that_nobody_keeps() {
    let queue = queue(DeferConfig { max_waiting: 1, ..DeferConfig::default() });
    let layer = layer(&queue);
    let code = |answer: Result<Completion, Failure>| answer.unwrap_err().code();
    assert_eq!(code(defer(&layer, fail(Code::Server), request()).await), Code::Server);
    let worker = queue.worker(takes(0, &Log::default()));
    assert_eq!(code(defer(&layer, fail(Code::NotFound), request()).await), Code::NotFound);
    assert!(defer(&layer, fail(Code::Server), request()).await.is_ok());
    assert_eq!(code(defer(&layer, fail(Code::Server), request()).await), Code::Server);
    let full = queue.defer(request(), None).await.unwrap_err();
    assert_eq!((full.code(), full.is_local(), full.retry_after()), (Code::BulkheadFull, true, Some(JOB)));
    drop(worker);
    assert_eq!(queue.defer(request(), None).await.unwrap_err().code(), Code::BulkheadFull);
}

/// Scenario: two workers wait; the last queue is dropped, and a layer that held one.
/// Expected: both MUST come to an end.
#[tokio::test(start_paused = true)]
async fn workers_end_with_their_line() {
    let queue = queue(DeferConfig::default());
    let layer = layer(&queue);
    let service = layer.layer(fails(Code::Server));
    let workers = [0, 1].map(|_| tokio::spawn(queue.worker(takes(0, &Log::default()))));
    drop((queue, layer));
    sleep(Duration::from_secs(1)).await;
    assert!(workers.iter().all(|worker| !worker.is_finished()), "the service holds the line");
    drop(service);
    for worker in workers {
        timeout(Duration::from_secs(1), worker).await.unwrap().unwrap();
    }
}

/// Scenario: three workers, six jobs of ten seconds.
/// Expected: MUST be done in twenty.
#[tokio::test(start_paused = true)]
async fn workers_share_the_line() {
    let queue = queue(DeferConfig::default());
    let log = Log::default();
    let workers = [0; 3].map(|_| tokio::spawn(queue.worker(takes(10_000, &log))));
    sleep(Duration::from_secs(1)).await;
    for _ in 0..6 {
        put(&queue, request()).await;
    }
    sleep(Duration::from_millis(20_500)).await;
    assert_eq!((log.calls().len(), log.open()), (6, 0));
    workers.iter().for_each(|worker| worker.abort());
}

/// Scenario: tickets of many jobs.
/// Expected: no two MUST be alike, and none MUST tell the number of another.
#[tokio::test(start_paused = true)]
async fn tickets_cannot_be_guessed() {
    let queue = queue(DeferConfig::default());
    let _worker = queue.worker(takes(0, &Log::default()));
    let mut ids = std::collections::HashSet::new();
    for _ in 0..100 {
        let id = put(&queue, request()).await.id;
        assert_eq!(id.len(), "job-".len() + 32);
        assert!(ids.insert(id));
    }
    let other = MemoryQueue::new(DeferConfig::default()).unwrap();
    let _worker = other.worker(takes(0, &Log::default()));
    assert!(!ids.contains(&put(&other, request()).await.id));
}

/// Scenario: configurations that cannot work, and one as a file writes it.
/// Expected: MUST be refused with the name of the field; MUST be read back as it was.
#[test]
fn a_configuration_that_cannot_work_is_refused_by_name() {
    let (zero, config) = (Duration::ZERO, DeferConfig::default);
    for (config, field) in [
        (DeferConfig { max_waiting: 0, ..config() }, "max_waiting"),
        (DeferConfig { max_finished: 0, ..config() }, "max_finished"),
        (DeferConfig { tries: 0, ..config() }, "tries"),
        (DeferConfig { keep: zero, ..config() }, "keep"),
        (DeferConfig { again: zero, ..config() }, "again"),
    ] {
        assert_eq!(MemoryQueue::new(config).unwrap_err().field, field);
    }
    let text = serde_json::to_string(&config()).unwrap();
    assert!(text.contains(r#""keep":"1h""#) && text.contains(r#""again":"30s""#), "{text}");
    assert_eq!(serde_json::from_str::<DeferConfig>(&text).unwrap(), config());
    assert!(serde_json::from_str::<DeferConfig>(r#"{"retries":1}"#).is_err());
}

/// Scenario: a job whose service panics, with two workers, and a job behind it.
/// Expected: the job MUST fail, and not take one worker after the other along; the job behind it MUST be done.
#[tokio::test(start_paused = true)]
async fn a_job_that_panics_takes_one_worker_along_and_no_more() {
    let queue = queue(DeferConfig::default());
    let service = || {
        tower::service_fn(|request: Request| async move {
            assert!(request.model != "panics", "scripted");
            Stage::new("a", &Log::default(), [Script::says("word")]).oneshot(request).await
        })
    };
    let workers = [(); 2].map(|()| tokio::spawn(queue.worker(Box::new(service()))));
    let bad = queue.defer(Request::new("panics"), None).await.unwrap();
    let good = queue.defer(request(), None).await.unwrap();
    sleep(JOB).await;
    assert!(matches!(queue.ask(&bad.id, None), JobStatus::Failed(failure) if failure.code() == Code::Server));
    assert!(matches!(queue.ask(&good.id, None), JobStatus::Done(_)));
    assert_eq!(workers.iter().filter(|worker| worker.is_finished()).count(), 1);
}
