//! Run: `cargo run --example quickstart`
//!
//! You should see: calls through all seven layers while the primary is rate-limited, stalls in mid-answer, dies, and
//! comes back, until nobody is left and there are words all the same; each step as it happens.
//! With `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `DEEPSEEK_API_KEY` set, or `WATERTIGHT_BASE_URL` (a local server, with
//! `WATERTIGHT_MODEL`), the same program talks to that provider.
#![allow(clippy::print_stdout, reason = "a program for people")]
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, sleep};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
use watertight::chat::{self, BoxReply, Event, Protocol, Request};
use watertight::event::Facts;
use watertight::failure::{ConfigError, Failure};
use watertight::layers::bulkhead::BulkheadConfig;
use watertight::layers::degradation::{DegradationConfig, GracefulConfig};
use watertight::layers::failover::{Candidate, FailoverConfig};
use watertight::layers::retry::RetryConfig;
use watertight::layers::timeout::Clocks;
use watertight::layers::{
    BulkheadLayer, CircuitBreakerLayer, DegradationLayer, DualClockTimeoutLayer, FailoverLayer, ResetLayer,
    RetryLayer, TokenAwareRateLimitLayer,
};
use watertight::provider::{Profile, Provider, catalogue};
use watertight::stack::ServiceBuilderExt;
use watertight::testing::{BodyEnd, Script, ScriptedReply, Server, Step, Trouble, Wording};

static IN_TEXT: AtomicBool = AtomicBool::new(false);

/// The stack as its callers see it.
type Stack = BoxCloneSyncService<Request, BoxReply, Failure>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let facts = timeline();
    if let Some(profile) = of_environment()? {
        println!("Talking to {} at {}.", profile.name, profile.base_url);
        return ask(&mut stack(vec![profile], &facts)?, "What does a bulkhead do? One sentence.").await;
    }
    let (north, south, spare) = servers().await?;
    let profiles = vec![
        Profile::new("north", Protocol::OpenaiChat, format!("{}/v1", north.url())).with_key("demo"),
        Profile::new("south", Protocol::AnthropicMessages, south.url()).with_key("demo"),
        Profile::new("spare", Protocol::OpenaiResponses, format!("{}/v1", spare.url())).with_key("demo"),
    ];
    let mut service = stack(profiles, &facts)?;
    for (rest, what, question) in [
        (0, "All is well.", "What keeps a ship afloat?"),
        (0, "north is rate-limited, and says for how long.", "Even in a storm?"),
        (0, "north stalls in mid-answer: it is void, and south begins anew.", "Which door do I close?"),
        (0, "north rests, so nobody waits for it.", "Who is on watch?"),
        (2, "north has rested, but is dead: no caller learns of its trial.", "Is anybody there?"),
        (2, "north is back.", "Are we home?"),
        (0, "Nobody is left. There are words all the same.", "Hello?"),
    ] {
        sleep(Duration::from_secs(rest)).await;
        println!("\n\x1b[1m{what}\x1b[0m");
        ask(&mut service, question).await?;
    }
    Ok(())
}

/// All seven layers, and a reset: for each provider retry, breaker, limiter and clocks; around them the rest.
fn stack(profiles: Vec<Profile>, facts: &Facts) -> Result<Stack, ConfigError> {
    let names: Vec<Candidate> = profiles.iter().map(Candidate::from).collect();
    let retry = RetryConfig { retries: 1, base: Duration::from_millis(200), ..RetryConfig::default() };
    let candidate = |profile: Profile| {
        let name = format!("provider:{}", profile.name);
        let layers = ServiceBuilder::new()
            .retrying(RetryLayer::new(retry.clone())?.facts(facts))
            .circuit_breaker(CircuitBreakerLayer::default().named(name.as_str()).facts(facts))
            .token_rate_limit(TokenAwareRateLimitLayer::default().named(name).facts(facts))
            .dual_clock_timeout(DualClockTimeoutLayer::new(Clocks::interactive())?.facts(facts));
        Ok(layers.service(Provider::new(profile)?.facts(facts)))
    };
    let mut candidates = profiles.into_iter().map(candidate).collect::<Result<Vec<_>, ConfigError>>()?;
    let (first, soon) = (candidates.remove(0), Duration::from_secs(2));
    let config = FailoverConfig { spring_back: soon, dwell: Some(soon), ..FailoverConfig::eager() };
    let graceful = Some(GracefulConfig::default().contact("the harbour master"));
    let ladder = DegradationConfig { graceful, ..DegradationConfig::default() };
    let service = ServiceBuilder::new()
        .degradation(DegradationLayer::new(ladder)?.facts(facts))
        .bulkhead(BulkheadLayer::new(BulkheadConfig::users())?.facts(facts))
        .resetting(ResetLayer::default().facts(facts))
        .failover(FailoverLayer::new(candidates).named(names)?.config(config)?.facts(facts))
        .service(first);
    Ok(Stack::new(service.map_response(chat::Reply::boxed)))
}

/// Asks, and prints the answer as it comes.
async fn ask(service: &mut Stack, question: &str) -> Result<(), BoxError> {
    println!("  > {question}");
    let request = Request::new("any").user(question).streaming().within(Duration::from_secs(30));
    let mut reply = service.ready().await?.call(request).await?;
    while let Some(event) = reply.next().await {
        match event? {
            Event::Text { text, .. } if IN_TEXT.swap(true, Relaxed) => print!("\x1b[36m{text}\x1b[0m"),
            Event::Text { text, .. } => print!("           \x1b[36m{text}\x1b[0m"),
            Event::Reset(reset) => println!("  \x1b[31mall of this is void: {}\x1b[0m", reset.failure),
            _ => {}
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Prints each fact with its time.
fn timeline() -> Facts {
    let start = Instant::now();
    Facts::from_fn(move |fact| {
        if !matches!(fact.name(), "admitted" | "released" | "retry_started" | "ended") {
            let end_of_text = if IN_TEXT.swap(false, Relaxed) { "\n" } else { "" };
            let line: String = fact.to_string().chars().take(110).collect();
            println!("{end_of_text}\x1b[2m{:7.2}s  {line}\x1b[0m", start.elapsed().as_secs_f64());
        }
    })
}

/// Three scripted providers. The first has a bad day.
async fn servers() -> std::io::Result<(Server, Server, Server)> {
    let says = |text: &str| ScriptedReply::words(text).pace(40).usage(12, 9);
    let north = Script::new([says("Air, held where no water can come.")])
        .then(Trouble::RateLimited { retry_after: Some(1) })
        .then(says("Even in a storm, if the doors are shut."))
        .then(says("The one nearest the").streamed(Wording::Chat).cut(5).end(BodyEnd::Hang))
        .then(Step::reset())
        .then(says("We are home."));
    let south = ["The one nearest the breach, then the next.", "South is.", "Aye, all hands on deck."];
    let (south, spare) = (Script::new(south.map(says)), Script::new([Step::reset()]).for_ever());
    let dies = |script: Script| Server::start(script.then(Step::reset()).for_ever());
    Ok((dies(north).await?, dies(south).await?, dies(spare).await?))
}

/// The provider that the environment names, if it names one.
fn of_environment() -> Result<Option<Profile>, ConfigError> {
    let var = |name| std::env::var(name).ok();
    let local = var("WATERTIGHT_BASE_URL").map(|url| Ok(catalogue::get("llama.cpp")?.at(url)));
    let known = |key, name, model| var(key).map(|_| Ok(catalogue::get(name)?.asking(model)));
    let profile = local
        .or_else(|| known("OPENAI_API_KEY", "openai", "gpt-4o-mini"))
        .or_else(|| known("ANTHROPIC_API_KEY", "anthropic", "claude-haiku-4-5"))
        .or_else(|| known("DEEPSEEK_API_KEY", "deepseek", "deepseek-chat"))
        .transpose()?;
    Ok(profile.map(|profile| var("WATERTIGHT_MODEL").into_iter().fold(profile, Profile::asking)))
}
