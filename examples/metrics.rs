//! Run: `cargo run --example metrics`
//!
//! You should see: a few calls through a stack, then a scrape of `/metrics` on loopback as Prometheus would do it:
//! calls and how they ended, tokens, retries, refusals, circuits and limits, by provider.
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::Request as HttpRequest;
use http_body_util::BodyExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use tower::{BoxError, Service, ServiceExt};
use watertight::chat::{Protocol, Request};
use watertight::config::StackConfig;
use watertight::event::{Facts, Metrics};
use watertight::key::Caller;
use watertight::layers::retry::RetryConfig;
use watertight::provider::{ClientConfig, HttpClient, Profile, Provider};
use watertight::stack::Layers;
use watertight::testing::{Script, ScriptedReply, Server, Trouble};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let scrape = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
    let app = Router::new().route("/metrics", get(move || std::future::ready(scrape.render())));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    let facts = Facts::to(Metrics::default());
    let script = Script::new([ScriptedReply::new("Aye.").usage(60, 40)])
        .then(Trouble::RateLimited { retry_after: Some(1) })
        .then(ScriptedReply::new("Aye, aye.").usage(70, 30))
        .then(Trouble::ServerError)
        .then(Trouble::ServerError)
        .then(ScriptedReply::new("All is well.").usage(80, 20));
    let server = Server::start(script).await?;
    let profile =
        Profile::new("north", Protocol::OpenaiChat, format!("{}/v1", server.url())).with_key("demo");
    let provider = Provider::new(profile)?;
    let retry = RetryConfig { base: Duration::from_millis(50), ..RetryConfig::default() };
    let config = StackConfig { retry, ..StackConfig::default() };
    let mut stack = Layers::new(config, &facts)?.over_providers([provider])?;
    for question in ["Is anybody there?", "And in a storm?", "And after it?"] {
        let request = Request::new("any").user(question).attach(Caller::new("ann"));
        let reply = stack.ready().await?.call(request).await?;
        println!("{question} {}", reply.collect().await?.message.to_text());
    }

    let request = HttpRequest::get(format!("http://{address}/metrics")).body(Bytes::new())?;
    let scraped = HttpClient::new(&ClientConfig::default())?.oneshot(request).await?;
    let text = scraped.into_body().collect().await?.to_bytes();
    println!("\nhttp://{address}/metrics\n{}", String::from_utf8_lossy(&text));
    Ok(())
}
