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
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Full, StreamBody};
use tower::layer::util::Identity;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};
use watertight::chat::{Dimension, Limits};
use watertight::failure::{Clock, Code, Failure};
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
/// Expected: MUST be tried again and answered, the limits that the headers tell beside the response; a refused connection MUST be CONNECT.
#[tokio::test]
async fn layers_stand_over_reqwest() {
    let script = Script::new([
        Step::json(503, &serde_json::json!({})),
        Step::json(200, &serde_json::json!({"ok": true})).header("x-ratelimit-remaining-requests", "7"),
    ]);
    let server = Server::start(script).await.unwrap();
    let config = RetryConfig { base: Duration::from_millis(1), ..RetryConfig::default() };
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(config).unwrap())
        .service(HttpClient::new(&ClientConfig::default()).unwrap());
    let ask = |url: &str| Request::post(format!("{url}/any")).body(Bytes::from("{}")).unwrap();
    let response = service.clone().oneshot(ask(server.url())).await.unwrap();
    let limits: &Limits = response.extensions().get().unwrap();
    assert_eq!(limits.get(Dimension::Requests).unwrap().remaining, Some(7));
    assert_eq!(BodyExt::collect(response.into_body()).await.unwrap().to_bytes(), r#"{"ok":true}"#);
    assert_eq!(server.journal().attempts(), 2);

    let nobody = Server::refusing().unwrap();
    let failure: Failure = service.oneshot(ask(nobody.url())).await.unwrap_err();
    assert_eq!(failure.code(), Code::Connect);
}

/// A service that will never be ready, and must not be called.
#[derive(Clone)]
struct Broken;

impl Service<Request<Body>> for Broken {
    type Response = Response<Body>;
    type Error = Failure;
    type Future = std::future::Pending<Result<Response<Body>, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Err(Failure::new(Code::Connect, "nobody there")))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        panic!("called unready")
    }
}

/// Scenario: what stands under the bridge will never be ready; it is asked twice, and by a clone.
/// Expected: each call MUST be answered with the reason, and none MUST be passed on.
#[tokio::test]
async fn a_service_that_is_never_ready_is_answered_for() {
    let mut service = for_axum(DualClockTimeoutLayer::default()).layer(Broken);
    for _ in 0..2 {
        let answer = service.ready().await.unwrap().call(Request::new(Body::empty())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
        let words = BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        let words: serde_json::Value = serde_json::from_slice(&words).unwrap();
        assert_eq!(words, serde_json::json!({"error": {"code": "CONNECT", "message": "nobody there"}}));
        service = service.clone();
    }
}

/// Scenario: failures of every code, with a stated wait, and with a status of the upstream's, go over the bridge.
/// Expected: MUST be an error status; the upstream's own where that is one, save where it refused our own key, which is
/// 502 to whoever called us; the wait MUST round up to whole seconds;
/// the body MUST be JSON of a told length that names the code, and nothing of the cause beneath.
#[tokio::test]
async fn every_failure_is_answered() {
    let answer = async |failure: Failure| {
        let fails = tower::service_fn(move |_: ()| ready(Err::<Response<Body>, _>(failure.clone())));
        for_axum(Identity::new()).layer(fails).oneshot(()).await.unwrap()
    };
    for code in Code::ALL {
        let failure = Failure::new(code, "say \"why\"")
            .with_retry_after(Some(Duration::from_millis(1001)))
            .with_source(BoxError::from("the key is sk-secret"));
        let told = answer(failure.clone()).await;
        assert_eq!(told.status(), watertight::stack::status_of(&failure));
        assert!(told.status().is_client_error() || told.status().is_server_error(), "{code}");
        if matches!(code, Code::Authentication | Code::Permission | Code::Blocked | Code::QuotaExhausted) {
            let own = failure.clone().with_status(StatusCode::UNAUTHORIZED);
            assert_eq!(answer(own).await.status(), StatusCode::BAD_GATEWAY, "{code}");
            let local = answer(Failure::local(code, "")).await;
            assert!(local.status().is_client_error(), "{code}");
        }
        assert_eq!(told.headers()["retry-after"], "2");
        assert_eq!(told.headers()["content-type"], "application/json");
        let length = told.body().size_hint().exact();
        let words = BodyExt::collect(told.into_body()).await.unwrap().to_bytes();
        assert_eq!(length, Some(words.len() as u64));
        let words: serde_json::Value = serde_json::from_slice(&words).unwrap();
        let wanted = serde_json::json!({"error": {"code": code.as_str(), "message": "say \"why\""}});
        assert_eq!(words, wanted);
    }
    let upstream = |status| Failure::new(Code::Server, "").with_status(status);
    assert_eq!(answer(upstream(StatusCode::IM_A_TEAPOT)).await.status(), StatusCode::IM_A_TEAPOT);
    let inside_a_stream = answer(upstream(StatusCode::OK)).await;
    assert_eq!(inside_a_stream.status(), StatusCode::BAD_GATEWAY);
    assert!(inside_a_stream.headers().get("retry-after").is_none());
    let rows = [
        (Code::Timeout(Clock::FirstOutput), 504),
        (Code::Deadline, 504),
        (Code::CircuitOpen, 503),
        (Code::BulkheadFull, 429),
        (Code::BudgetExhausted, 429),
        (Code::PayloadTooLarge, 413),
        (Code::ContextLength, 400),
        (Code::Truncated, 502),
    ];
    for (code, status) in rows {
        assert_eq!(answer(Failure::new(code, "")).await.status(), status, "{code}");
    }
}

/// Scenario: a strange layer of tower's in the bridge: a limit, and an error that is no failure of ours.
/// Expected: MUST compose, and be answered as a broken way to the other side.
#[tokio::test]
async fn layers_of_tower_stand_in_the_bridge() {
    let strange = tower::service_fn(|_: Request<Body>| ready(Err::<Response<Body>, _>("pipe")));
    let layers = ServiceBuilder::new()
        .layer(DualClockTimeoutLayer::default())
        .layer(tower::limit::ConcurrencyLimitLayer::new(1))
        .into_inner();
    let answer = for_axum(layers).layer(strange).oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
    let words = BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&words).contains("TRANSPORT"), "{words:?}");
}

/// Scenario: a retry and a failover, each over axum routers, with requests whose bodies are in memory.
/// Expected: MUST ask the handler again, and the other router.
#[tokio::test(start_paused = true)]
async fn a_retry_and_a_failover_stand_over_a_router() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let flaky = Router::new().route(
        "/",
        get(async move || match counted.fetch_add(1, Ordering::SeqCst) {
            0 => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::NO_CONTENT,
        }),
    );
    let ask = || Request::get("/").body(Full::new(Bytes::new())).unwrap();
    let retried = for_axum(retry()).layer(flaky.clone()).oneshot(ask()).await.unwrap();
    assert_eq!((retried.status(), count.load(Ordering::SeqCst)), (StatusCode::NO_CONTENT, 2));

    let down = Router::new().route("/", get(async || StatusCode::BAD_GATEWAY));
    let inside = |router| {
        ServiceExt::<Request<Full<Bytes>>>::map_err(router, |never: Infallible| -> BoxError {
            match never {}
        })
    };
    let served = FailoverLayer::new([inside(flaky)]).layer(inside(down)).oneshot(ask()).await.unwrap();
    assert_eq!(served.status(), StatusCode::NO_CONTENT);
}
