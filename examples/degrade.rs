//! Run: `cargo run --example degrade --features cache`
//!
//! You should see: one question while more and more goes wrong, each time answered by the next rung of the ladder:
//! another model, no tool, an earlier answer (feature `cache`), a promise kept later, half an answer, and at last words.
#![allow(clippy::print_stdout, reason = "a program for people")]
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tower::{BoxError, Layer, Service, ServiceExt};
use watertight::chat::{Event, Protocol, Request, Tool};
use watertight::event::{Fact, Facts};
use watertight::failure::{ConfigError, Failure};
use watertight::key::Caller;
use watertight::layers::DegradationLayer;
use watertight::layers::degradation::{
    CallableWhen, DeferConfig, DegradationConfig, GracefulConfig, JobStatus, MemoryQueue,
};
use watertight::provider::{Profile, Provider};
use watertight::testing::{BodyEnd, Journal, Player, Script, ScriptedReply, Trouble, Wording};

/// What the breakers of the small model and of the tide table would say: `breaker.is_callable()`.
static SMALL_IS_WELL: AtomicBool = AtomicBool::new(true);
static TIDES_ARE_WELL: AtomicBool = AtomicBool::new(true);

/// What happens; whether the small model and the tide table are well; what is asked, too.
const SCENES: [(&str, bool, bool, Option<&str>); 7] = [
    ("All is well.", true, true, None),
    ("The large model is overloaded.", true, true, None),
    ("It is well again, but the breaker of the tide table is open.", true, false, None),
    ("The tide table is back, and both models are down. But this was answered before.", false, true, None),
    ("A new question has no earlier answer.", false, true, Some("And tomorrow?")),
    ("The large model answers, and breaks off.", false, true, Some("And low water?")),
    ("It is down again, and nobody works off the line any more.", false, true, Some("Hello?")),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let queue = MemoryQueue::new(DeferConfig::default())?;
    let later = Script::new([says("At noon. Thank you for your patience.")]);
    let mut workers = JoinSet::new();
    workers.spawn(queue.worker(provider("later", later)?));
    let layer = layer(&queue)?;
    let mut service = layer.layer(provider("large", large())?);
    let mut tickets = Vec::new();
    for (at, (what, small, tides, more)) in SCENES.into_iter().enumerate() {
        SMALL_IS_WELL.store(small, Relaxed);
        TIDES_ARE_WELL.store(tides, Relaxed);
        if at + 1 == SCENES.len() {
            sleep(Duration::from_millis(300)).await;
            workers.shutdown().await;
        }
        println!("\n\x1b[1m{what}\x1b[0m");
        let tool = Tool::new("tides", "looks up the tide table", serde_json::json!({"type": "object"}));
        let request = Request::new("large").user("When is high water?").tool(tool).streaming();
        let request = request.attach(Caller::new("ann"));
        tickets.extend(ask(&mut service, more.into_iter().fold(request, Request::user)).await?);
    }
    println!("\n\x1b[1mWas there not a promise?\x1b[0m");
    for id in tickets {
        if let JobStatus::Done(answer) = queue.ask(&id, Some(&Caller::new("ann"))) {
            println!("          {id}: \x1b[36m{}\x1b[0m", answer.message.to_text());
        }
    }
    println!("\n{}", serde_json::to_string(&layer.snapshot())?);
    Ok(())
}

/// Every rung there is.
fn layer(queue: &MemoryQueue) -> Result<DegradationLayer, ConfigError> {
    let small = Script::new([says("At noon, says the small one.")]);
    let config = DegradationConfig {
        fallback_models: vec!["small".into()],
        optional_tools: vec!["tides".into()],
        graceful: Some(GracefulConfig::default().contact("the harbour master")),
        ..DegradationConfig::default()
    };
    let layer = DegradationLayer::new(config)?
        .facts(&timeline())
        .fallback_model(provider("small", small)?)?
        .model_callable("small", CallableWhen::new(|| SMALL_IS_WELL.load(Relaxed)))?
        .tool_callable("tides", CallableWhen::new(|| TIDES_ARE_WELL.load(Relaxed)))?
        .deferred(queue.clone());
    #[cfg(feature = "cache")]
    let layer = {
        use watertight::layers::degradation::{AnswerCache, CacheConfig};
        layer.cached_answer(&AnswerCache::new(CacheConfig::default())?)
    };
    Ok(layer)
}

/// A provider that plays a script in memory.
fn provider(name: &str, script: Script) -> Result<Provider<Player>, ConfigError> {
    let profile = Profile::new(name, Protocol::OpenaiChat, "http://scripted.test/v1").with_key("demo");
    Provider::over(Player::new(script, &Journal::new()), profile)
}

/// The day of the large model.
fn large() -> Script {
    let broken = says("Low water is at six, and the").streamed(Wording::Chat).cut(6).end(BodyEnd::Reset);
    let without = says("At noon, as far as I know without the tide table.");
    let well = Script::new([says("High water is at noon.")]).then(Trouble::Overloaded).then(without);
    well.then(Trouble::Overloaded).then(Trouble::Overloaded).then(broken).then(Trouble::Overloaded)
}

fn says(text: &str) -> ScriptedReply {
    ScriptedReply::words(text).pace(20).usage(12, 9)
}

/// Asks, and prints the answer and what it lacks; gives the ticket of a promise.
async fn ask<S, T>(service: &mut S, request: Request) -> Result<Option<String>, BoxError>
where
    S: Service<Request, Response = T, Error = Failure>,
    T: Stream<Item = Result<Event, Failure>> + Unpin,
{
    let mut reply = service.ready().await?.call(request).await?;
    print!("          ");
    while let Some(event) = reply.next().await {
        match event? {
            Event::Text { text, .. } => print!("\x1b[36m{text}\x1b[0m"),
            Event::Completed(answer) => {
                let record = answer.degradation();
                let (level, worth) = (record.level.as_str(), record.quality_estimate);
                println!("\n          level {level}, worth {worth:.2}. {}", record.user_message);
                return Ok(record.ticket.as_ref().map(|ticket| ticket.id.clone()));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Prints each fact with its time.
fn timeline() -> Facts {
    let start = Instant::now();
    Facts::from_fn(move |fact| {
        let line = match fact {
            Fact::Rung { rung: "partial_result", .. } => return println!(),
            Fact::Ended { .. } => return,
            Fact::Rung { rung, failure: Some(failure), .. } => format!("{rung} cannot help: {failure}"),
            Fact::Rung { rung, .. } => format!("{rung} answers"),
            Fact::Degraded { failure, .. } => format!("since {failure}"),
            other => other.name().to_owned(),
        };
        println!("\x1b[2m{:7.2}s  {line}\x1b[0m", start.elapsed().as_secs_f64());
    })
}
