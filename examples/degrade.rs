//! Run: `cargo run --example degrade --features cache`
//!
//! You should see: one question asked again and again while more and more goes wrong, each time answered by the next
//! rung of the ladder: another model, no tool, an earlier answer, a promise (and, later, the answer), half an answer,
//! and at last words. Without the feature `cache` there is no earlier answer.
#![allow(clippy::print_stdout, reason = "a program for people")]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, sleep};
use tower::{BoxError, Layer, Service, ServiceExt};
use watertight::chat::{Event, Protocol, Request, Tool};
use watertight::event::{Fact, Facts};
use watertight::failure::ConfigError;
use watertight::key::Caller;
use watertight::layers::DegradationLayer;
use watertight::layers::degradation::{
    Callable, DeferConfig, DegradationConfig, GracefulConfig, JobStatus, MemoryQueue,
};
use watertight::provider::{Profile, Provider};
use watertight::testing::{Dialect, End, Journal, Player, Reply, Script, Trouble};

/// A provider that plays a script in memory.
fn provider(name: &str, script: Script) -> Result<Provider<Player>, ConfigError> {
    let profile = Profile::new(name, Protocol::OpenaiChat, "http://scripted.test/v1").with_key("demo");
    Provider::over(Player::new(script, &Journal::new()), profile)
}

fn says(text: &str) -> Reply {
    Reply::words(text).pace(20).usage(12, 9)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let down = || Trouble::Overloaded;
    let broken = says("High water is at noon, and low").streamed(Dialect::Chat).cut(5).end(End::Reset);
    let large = Script::new([says("High water is at noon.")])
        .then(down())
        .then(down())
        .then(down())
        .then(down())
        .then(broken)
        .then(down());
    let small = Script::new([says("At noon, says the small one.")]);
    let without = Script::new([says("At noon, as far as I know without the tide table.")]);
    let later = Script::new([says("At noon. Thank you for your patience.")]);

    let facts = timeline();
    let config = DegradationConfig {
        fallback_models: vec!["small".into()],
        optional_tools: vec!["tides".into()],
        graceful: Some(GracefulConfig::default().contact("the harbour master")),
        ..DegradationConfig::default()
    };
    // What breakers would say: `breaker.is_callable()`.
    let [small_is_well, tides_are_well] = [(); 2].map(|()| Arc::new(AtomicBool::new(true)));
    let [model, tides] = [&small_is_well, &tides_are_well].map(|state| {
        let state = Arc::clone(state);
        Callable::new(move || state.load(Relaxed))
    });
    let queue = MemoryQueue::new(DeferConfig::default())?;
    let worker = tokio::spawn(queue.worker(provider("later", later)?));
    let mut layer = DegradationLayer::new(config)?
        .facts(&facts)
        .fallback_model(provider("small", small)?)?
        .model_callable("small", model)?
        .skip_tool(provider("without", without)?)?
        .tool_callable("tides", tides)
        .deferred(queue.clone());
    #[cfg(feature = "cache")]
    {
        use watertight::layers::degradation::{AnswerCache, CacheConfig};
        layer = layer.cached_answer(&AnswerCache::new(CacheConfig::default())?);
    }
    layer = layer.facts(&facts);
    let mut service = layer.layer(provider("large", large)?);

    let question = || {
        let schema = serde_json::json!({"type": "object"});
        let tides = Tool::new("tides", "looks up the tide table", schema);
        Request::new("large").user("When is high water?").tool(tides).attach(Caller::new("ann")).streaming()
    };
    say("All is well.");
    ask(&mut service, question()).await?;
    say("The large model is overloaded.");
    ask(&mut service, question()).await?;
    say("The small one's breaker is open, too, and so is that of the tide table.");
    small_is_well.store(false, Relaxed);
    tides_are_well.store(false, Relaxed);
    ask(&mut service, question()).await?;
    say("The tide table is back: nothing to leave out. But the same was answered before.");
    tides_are_well.store(true, Relaxed);
    ask(&mut service, question()).await?;
    say("A new question has no earlier answer.");
    let ticket = ask(&mut service, question().user("And tomorrow?")).await?;
    say("The large model answers, and breaks off.");
    ask(&mut service, question().user("And low water?")).await?;
    say("It is down again, and nobody works off the line.");
    sleep(Duration::from_millis(300)).await;
    worker.abort();
    let _ = worker.await;
    ask(&mut service, question().user("Hello?")).await?;
    if let Some(id) = ticket {
        say("Was there not a promise?");
        if let JobStatus::Done(answer) = queue.ask(&id, Some(&Caller::new("ann"))) {
            println!("           {id}: \x1b[36m{}\x1b[0m", answer.message.to_text());
        }
    }
    println!("\n{}", serde_json::to_string(&layer.snapshot())?);
    Ok(())
}

fn say(what: &str) {
    println!("\n\x1b[1m{what}\x1b[0m");
}

/// Asks, and prints the answer and what it lacks; gives the ticket of a promise.
async fn ask<S, T>(service: &mut S, request: Request) -> Result<Option<String>, BoxError>
where
    S: Service<Request, Response = T, Error = watertight::failure::Failure>,
    T: futures_util::Stream<Item = Result<Event, watertight::failure::Failure>> + Unpin,
{
    let mut reply = service.ready().await?.call(request).await?;
    print!("           ");
    while let Some(event) = reply.next().await {
        match event? {
            Event::Text { text, .. } => print!("\x1b[36m{text}\x1b[0m"),
            Event::Completed(answer) => {
                let record = answer.degradation();
                let (level, worth) = (record.level.as_str(), record.quality_estimate);
                println!("\n           level {level}, worth {worth:.2}. {}", record.user_message);
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
            Fact::Rung { rung, failure: Some(failure), .. } => format!("{rung} cannot help: {failure}"),
            Fact::Rung { rung, .. } => format!("{rung} answers"),
            Fact::Degraded { failure, .. } => format!("since {failure}"),
            other => other.name().to_owned(),
        };
        println!("\x1b[2m{:7.2}s  {line}\x1b[0m", start.elapsed().as_secs_f64());
    })
}
