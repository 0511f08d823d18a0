//! Run: `cargo run --example axum_app`
//!
//! You should see: single layers in an axum app (clocks and a bulkhead around its routes) and in the HTTP client by
//! which the app calls another service (retry and a circuit breaker), while that service fails and comes back.
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
use watertight::failure::Failure;
use watertight::layers::bulkhead::BulkheadConfig;
use watertight::layers::circuit_breaker::CircuitBreakerConfig;
use watertight::layers::retry::RetryConfig;
use watertight::layers::timeout::Clocks;
use watertight::layers::{BulkheadLayer, CircuitBreakerLayer, DualClockTimeoutLayer, RetryLayer};
use watertight::provider::{ClientConfig, HttpClient};
use watertight::stack::{ServiceBuilderExt, for_axum, status_of};
use watertight::testing::{Script, Server, Step};

/// The app's own client, whatever it is made of.
type Client = BoxCloneSyncService<Request<Bytes>, http::Response<Bytes>, Failure>;

/// The outgoing side: each attempt is asked and counted by the breaker.
fn client() -> Result<Client, BoxError> {
    let retry = RetryConfig { retries: 1, base: Duration::from_millis(50), ..RetryConfig::default() };
    let rest = Duration::from_millis(500);
    let circuit = CircuitBreakerConfig { failures: Some(3), rest, ..CircuitBreakerConfig::default() };
    let service = ServiceBuilder::new()
        .retrying(RetryLayer::new(retry)?)
        .circuit_breaker(CircuitBreakerLayer::new(circuit)?.named("service:tides"))
        .service(HttpClient::new(&ClientConfig::default())?);
    Ok(Client::new(service.and_then(gather)))
}

/// The whole body of a response.
async fn gather<B>(response: http::Response<B>) -> Result<http::Response<Bytes>, Failure>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
{
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.map_err(Failure::stranger)?.to_bytes();
    Ok(http::Response::from_parts(head, bytes))
}

/// A route that asks the other service.
async fn tides(State((mut client, url)): State<(Client, String)>) -> Response {
    let request = Request::get(&url).body(Bytes::new()).expect("a request");
    let answer = match client.ready().await {
        Ok(ready) => ready.call(request).await,
        Err(failure) => Err(failure),
    };
    match answer {
        Ok(response) => (response.status(), response.into_body()).into_response(),
        Err(failure) => (status_of(&failure), failure.to_string()).into_response(),
    }
}

async fn never() -> StatusCode {
    tokio::time::sleep(Duration::from_secs(3600)).await;
    StatusCode::OK
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let busy = || Step::json(503, &serde_json::json!({"error": "ebb"}));
    let well = Step::json(200, &serde_json::json!({"tide": "high"}));
    let script = Script::new([busy(), well.clone(), busy(), busy(), busy()]).then(well).for_ever();
    let other = Server::start(script).await?;

    // The incoming side. A response is followed to its last byte: a slot is free when the client has it all.
    let slots = BulkheadConfig { max_concurrent: Some(64), ..BulkheadConfig::default() };
    let clocks = Clocks { total: Some(Duration::from_millis(300)), ..Clocks::default() };
    let clocks = Clocks { first_output: Some(Duration::from_millis(300)), ..clocks };
    let app = Router::new()
        .route("/tides", get(tides))
        .route("/never", get(never))
        .with_state((client()?, other.url().to_owned()))
        .layer(for_axum(DualClockTimeoutLayer::new(clocks)?))
        .layer(for_axum(BulkheadLayer::new(slots)?.named("app")));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    let browser = HttpClient::new(&ClientConfig::default())?;
    let visits = [
        ("/tides", 0, "fails once, and is asked again"),
        ("/tides", 0, "fails twice"),
        ("/tides", 0, "fails a third time: the circuit opens, and the retry is refused"),
        ("/tides", 0, "nobody is asked"),
        ("/tides", 600, "is well again: one call tries, and the circuit begins to close"),
        ("/never", 0, "a route that never answers"),
    ];
    for (path, pause, what) in visits {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let request = Request::get(format!("http://{address}{path}")).body(Bytes::new())?;
        let response = browser.clone().oneshot(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        println!("{path} ({what})\n    {status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(())
}
