//! Run: `cargo run --example tools`
//!
//! You should see: three tools behind one service, each with slots and a circuit of its own, and callers with a limit
//! each: a slow tool fills its own slots and nobody else's, a broken one is left alone after three failures, and a
//! caller in a hurry is told when to come back.
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};
use watertight::chat::{ToolCall, ToolRequest, ToolResult};
use watertight::failure::{Code, Failure};
use watertight::key::{Caller, KeyBy};
use watertight::layers::bulkhead::BulkheadConfig;
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::rate_limit::{Mode, RateLimitConfig};
use watertight::layers::{BulkheadLayer, CircuitBreakerLayer, TokenAwareRateLimitLayer};
use watertight::observe::Plain;
use watertight::stack::ServiceBuilderExt;

/// What every tool comes to in the end.
async fn tools(request: ToolRequest) -> Result<Plain<ToolResult>, Failure> {
    let ToolCall { id, name, .. } = request.tool;
    match name.as_str() {
        "weather" => Ok(Plain(ToolResult::text(id, "Fair winds."))),
        "charts" => {
            sleep(Duration::from_millis(300)).await;
            Ok(Plain(ToolResult::text(id, "Here be dragons.")))
        }
        _ => Err(Failure::new(Code::Server, "the compass is broken")),
    }
}

fn ask(caller: &str, tool: &str) -> ToolRequest {
    ToolRequest::new(ToolCall::new("call-1", tool, "{}")).attach(Caller::new(caller))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let limits = RateLimitConfig {
        key: KeyBy::Caller,
        requests_per_minute: Some(60),
        burst: Some(0.1),
        mode: Mode::Reject,
        ..RateLimitConfig::default()
    };
    let slots = BulkheadConfig { max_concurrent: Some(2), max_waiting: 2, ..BulkheadConfig::tools() };
    let circuits =
        CircuitBreakerConfig { key: KeyBy::Tool, failures: Some(3), ..CircuitBreakerConfig::default() };
    let breaker = CircuitBreakerLayer::new(circuits)?.named("tool");
    let callable = breaker.callable();
    let service = ServiceBuilder::new()
        .token_rate_limit(TokenAwareRateLimitLayer::new(limits)?.named("caller"))
        .bulkhead(BulkheadLayer::new(slots)?.named("tool"))
        .circuit_breaker(breaker)
        .service(service_fn(tools));
    let call = |caller: &'static str, tool: &'static str| {
        let (mut service, began) = (service.clone(), Instant::now());
        async move {
            let result = match service.ready().await {
                Ok(ready) => ready.call(ask(caller, tool)).await,
                Err(failure) => Err(failure),
            };
            let what = result.map_or_else(
                |failure| failure.to_string(),
                |result| format!("{:?}", result.parts[0].content),
            );
            println!("  {:4} ms  {caller} asks {tool}: {what}", began.elapsed().as_millis());
        }
    };

    println!(
        "Five ask for charts at once: two are drawn, two wait, one is refused. The weather waits for nobody."
    );
    join_all(["charts", "charts", "charts", "charts", "charts", "weather"].map(|tool| call("ann", tool)))
        .await;

    println!("\nThe compass is broken: after three failures nobody asks it any more.");
    for _ in 0..4 {
        call("bob", "compass").await;
    }
    for tool in ["weather", "compass"] {
        println!("  {tool} can be called: {}", callable.is_callable(tool));
    }

    println!("\nA caller in a hurry: six at once, then one a second.");
    for _ in 0..7 {
        call("eve", "weather").await;
    }
    Ok(())
}
