//! Single layers in plain HTTP stacks: an axum app, a tower client with streaming bodies, and reqwest.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic, and reads better so"
)]

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};
use watertight::failure::{Code, Failure};
use watertight::layers::failover::FailoverConfig;
use watertight::layers::retry::{Jitter, RetryConfig};
use watertight::layers::timeout::Clocks;
use watertight::layers::{DualClockTimeoutLayer, FailoverLayer, RetryLayer};
use watertight::provider::{ClientConfig, HttpClient};
use watertight::stack::for_axum;
use watertight::testing::{Script, Server, Step};

type Streaming = StreamBody<futures_util::stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

fn streaming(status: u16, pieces: &'static [&'static str]) -> Response<Streaming> {
    let frames = futures_util::stream::iter(pieces).map(|piece| Ok(Frame::data(Bytes::from(*piece))));
    Response::builder().status(status).body(StreamBody::new(frames.boxed())).unwrap()
}

/// A client that answers with these statuses in turn, the last one for ever, and counts.
fn client(
    statuses: &'static [u16],
    count: &Arc<AtomicUsize>,
) -> impl Service<Request<Bytes>, Response = Response<Streaming>, Error = BoxError, Future: Send> + Clone {
    let count = Arc::clone(count);
    tower::service_fn(move |_: Request<Bytes>| {
        let at = count.fetch_add(1, Ordering::SeqCst);
        ready(Ok::<_, BoxError>(streaming(statuses[at.min(statuses.len() - 1)], &["own ", "words"])))
    })
}

fn retry() -> RetryLayer {
    let config = RetryConfig { jitter: Jitter::None, ..RetryConfig::default() };
    RetryLayer::new(config).unwrap()
}

fn ask() -> Request<Bytes> {
    Request::get("http://local.test/").body(Bytes::new()).unwrap()
}

/// Scenario: a retry alone over a client with streaming bodies: 503 twice, then 200; 503 for ever; 404.
/// Expected: MUST try again on the status; what is final MUST go up as the response it is, its body whole.
#[tokio::test(start_paused = true)]
async fn a_retry_alone_judges_http_by_its_status() {
    for (statuses, last, tries) in
        [(&[503, 503, 200][..], 200, 3), (&[503][..], 503, 4), (&[404][..], 404, 1)]
    {
        let count = Arc::default();
        let service = retry().layer(client(statuses, &count));
        let response = service.oneshot(ask()).await.unwrap();
        assert_eq!(response.status(), last);
        assert_eq!(BodyExt::collect(response.into_body()).await.unwrap().to_bytes(), "own words");
        assert_eq!(count.load(Ordering::SeqCst), tries);
    }
}

/// Scenario: retry around retry over HTTP.
/// Expected: the response that the inner gave up on MUST not be tried again by the outer.
#[tokio::test(start_paused = true)]
async fn a_response_that_was_given_up_is_not_tried_again() {
    let count = Arc::default();
    let service = ServiceBuilder::new().layer(retry()).layer(retry()).service(client(&[500], &count));
    assert_eq!(service.oneshot(ask()).await.unwrap().status(), 500);
    assert_eq!(count.load(Ordering::SeqCst), 4);
}

/// Scenario: a failover alone over two HTTP clients, the first of which answers 500.
/// Expected: the second's answer MUST come; when both fail, the last response MUST come as it is.
#[tokio::test(start_paused = true)]
async fn a_failover_alone_goes_on_from_a_5xx() {
    for (second, status) in [(&[200][..], 200), (&[502][..], 502)] {
        let counts: [Arc<AtomicUsize>; 2] = Default::default();
        let layer = FailoverLayer::new([client(second, &counts[1])]).config(FailoverConfig::eager()).unwrap();
        let response = layer.layer(client(&[500], &counts[0])).oneshot(ask()).await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(BodyExt::collect(response.into_body()).await.unwrap().to_bytes(), "own words");
    }
}

/// Scenario: an axum app under clocks: a handler that answers, one that hangs, one whose body stalls.
/// Expected: the first MUST pass untouched; the second MUST be a 504 that names the clock; the third MUST break off.
#[tokio::test(start_paused = true)]
async fn clocks_alone_stand_in_an_axum_app() {
    let stalls = || async {
        let pieces = futures_util::stream::iter([Ok::<_, Infallible>(Bytes::from("x"))]);
        Response::new(Body::from_stream(pieces.chain(futures_util::stream::pending())))
    };
    let app = Router::new()
        .route("/fine", get(|| async { "hello" }))
        .route("/empty", get(|| async { StatusCode::NO_CONTENT }))
        .route("/hangs", get(std::future::pending::<&'static str>))
        .route("/stalls", get(stalls))
        .layer(for_axum(DualClockTimeoutLayer::new(Clocks::interactive()).unwrap()));
    let ask = |path: &str| app.clone().oneshot(Request::get(path).body(Body::empty()).unwrap());

    let fine = ask("/fine").await.unwrap();
    assert_eq!(BodyExt::collect(fine.into_body()).await.unwrap().to_bytes(), "hello");
    assert_eq!(ask("/empty").await.unwrap().status(), StatusCode::NO_CONTENT);

    let hangs = ask("/hangs").await.unwrap();
    assert_eq!(hangs.status(), StatusCode::GATEWAY_TIMEOUT);
    let words = BodyExt::collect(hangs.into_body()).await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&words).contains("TIMEOUT_FIRST_OUTPUT"), "{words:?}");

    let stalls = ask("/stalls").await.unwrap();
    assert_eq!(stalls.status(), StatusCode::OK);
    assert!(BodyExt::collect(stalls.into_body()).await.is_err());
}

/// Scenario: layers over reqwest as a plain HTTP service, against a real socket: 503, then 200; and nobody there.
/// Expected: MUST be tried again and answered; a refused connection MUST be CONNECT.
#[tokio::test]
async fn layers_stand_over_reqwest() {
    let script = Script::new([
        Step::json(503, &serde_json::json!({})),
        Step::json(200, &serde_json::json!({"ok": true})),
    ]);
    let server = Server::start(script).await.unwrap();
    let config = RetryConfig { base: Duration::from_millis(1), ..RetryConfig::default() };
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(config).unwrap())
        .service(HttpClient::new(&ClientConfig::default()).unwrap());
    let ask = |url: &str| Request::post(format!("{url}/any")).body(Bytes::from("{}")).unwrap();
    let response = service.clone().oneshot(ask(server.url())).await.unwrap();
    assert_eq!(BodyExt::collect(response.into_body()).await.unwrap().to_bytes(), r#"{"ok":true}"#);
    assert_eq!(server.journal().attempts(), 2);

    let nobody = Server::refusing().unwrap();
    let failure: Failure = service.oneshot(ask(nobody.url())).await.unwrap_err();
    assert_eq!(failure.code(), Code::Connect);
}
