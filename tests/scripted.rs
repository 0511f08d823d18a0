//! The scripted provider over loopback, as the HTTP client of the crate sees it.
#![cfg(feature = "client")]

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::json;
use watertight::testing::{BodyEnd, Ending, Script, ScriptedReply, Server, Step};

fn client() -> reqwest::Client {
    // Another test may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

async fn post(server: &Server, client: &reqwest::Client) -> Result<reqwest::Response, reqwest::Error> {
    client.post(format!("{}/v1/messages", server.url())).body(r#"{"stream":true}"#).send().await
}

/// What a socket would call this failure, found among its causes.
fn kind(error: &reqwest::Error) -> Option<ErrorKind> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

/// Scenario: a packed reply, a stream, a cut stream. Expected: each MUST arrive whole up to where it is cut.
#[tokio::test]
async fn replies_arrive_as_written() {
    let script = Script::default()
        .then(Step::json(200, &json!({ "a": 1 })).gzip())
        .then(ScriptedReply::words("one two three").pace(1))
        .then(Step::sse(["a", "b"]).bytewise().end(BodyEnd::Reset));
    let (server, client) = (Server::start(script).await.expect("a port"), client());
    let packed = post(&server, &client).await.expect("a reply");
    assert_eq!(packed.text().await.expect("a body"), r#"{"a":1}"#);
    let streamed = post(&server, &client).await.expect("a reply");
    assert!(streamed.text().await.expect("a body").ends_with("{\"type\":\"message_stop\"}\n\n"));
    let (mut cut, mut text) = (post(&server, &client).await.expect("a reply"), Vec::new());
    let error = loop {
        match cut.chunk().await {
            Ok(Some(bytes)) => text.extend_from_slice(&bytes),
            Ok(None) => panic!("the cut went unseen"),
            Err(error) => break error,
        }
    };
    assert_eq!(text, b"data: a\n\ndata: b\n\n", "{error:?}");
    assert_eq!(server.journal().attempts(), 3);
}

/// Scenario: a step that refuses, one that resets, a port that refuses. Expected: none MUST be answered or tried
/// twice, and the last MUST be known as a failure to connect.
#[tokio::test]
async fn broken_connections_are_not_answered() {
    let (server, client) =
        (Server::start(Script::new([Step::refuse(), Step::reset()])).await.expect("a port"), client());
    for attempts in 1..=2 {
        let error = post(&server, &client).await.expect_err("no reply");
        assert_eq!(server.journal().attempts(), attempts, "{error:?}");
    }
    let error = post(&Server::refusing().expect("a port"), &client).await.expect_err("no reply");
    assert!(error.is_connect());
    assert_eq!(kind(&error), Some(ErrorKind::ConnectionRefused));
}

/// Scenario: a reply dropped midway. Expected: the server MUST see the client leave, soon.
#[tokio::test]
async fn a_dropped_reply_closes_the_connection() {
    let server = Server::start(Script::new([Step::sse(["a"]).end(BodyEnd::Hang)])).await.expect("a port");
    let mut reply = post(&server, &client()).await.expect("a reply");
    assert!(reply.chunk().await.expect("a chunk").is_some());
    drop(reply);
    let seen = tokio::time::timeout(Duration::from_secs(2), server.closed(0)).await.expect("seen in time");
    assert_eq!(seen.ending, Some(Ending::Left));
}
