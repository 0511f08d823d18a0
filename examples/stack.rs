//! Run: `cargo run --example stack [FILE]`
//!
//! You should see: a whole stack built from `examples/stack.toml` (or the file given) over two scripted providers, of
//! which the first is down: calls go on to the second, the circuit of the first opens, a caller spends a budget, and at
//! the end the stack shows itself as JSON.
#![allow(clippy::print_stdout, reason = "a program for people")]

use tower::{BoxError, Service, ServiceExt};
use watertight::chat::{Protocol, Request};
use watertight::config::StackConfig;
use watertight::event::{Fact, Facts};
use watertight::key::Caller;
use watertight::provider::{Profile, Provider};
use watertight::stack::Layers;
use watertight::testing::{Script, ScriptedReply, Server, Step};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/stack.toml");
    let file = std::env::args().nth(1).unwrap_or_else(|| own.to_owned());
    let config: StackConfig = toml::from_str(&std::fs::read_to_string(&file)?)?;
    println!("A stack from {file}.");

    let facts = Facts::from_fn(|fact| match fact {
        Fact::Admitted { .. }
        | Fact::Released { .. }
        | Fact::Attempt { .. }
        | Fact::Settled { .. }
        | Fact::Ended { .. } => {}
        other => println!("    {other}"),
    });
    let north = Server::start(Script::new([Step::json(503, &serde_json::json!({}))]).for_ever()).await?;
    let south = Server::start(Script::new([ScriptedReply::new("Aye.").usage(60, 40)]).for_ever()).await?;
    let mut providers = Vec::new();
    for (name, server) in [("north", &north), ("south", &south)] {
        let profile =
            Profile::new(name, Protocol::OpenaiChat, format!("{}/v1", server.url())).with_key("demo");
        providers.push(Provider::new(profile)?);
    }
    let mut stack = Layers::new(config, &facts)?.over_providers(providers)?;

    for (caller, question) in [
        ("ann", "Is anybody there?"),
        ("ann", "And now?"),
        ("bob", "Who are you?"),
        ("ann", "And now?"),
        ("ann", "And now?"),
        ("ann", "One more?"),
        ("bob", "Still there?"),
    ] {
        println!("\n{caller} asks: {question}");
        let request = Request::new("any").user(question).max_output_tokens(40).attach(Caller::new(caller));
        let reply = stack.ready().await?.call(request).await?;
        let completion = reply.collect().await?;
        println!("  {}", completion.message.to_text());
    }

    println!("\nThe stack as it stands:\n{}", serde_json::to_string_pretty(&stack.snapshot())?);
    Ok(())
}
