use std::time::Duration;

use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::testing::{ScriptedReply, Trouble, Wording};

fn ask(path: &str) -> Request<Bytes> {
    let mut request = Request::new(Bytes::from_static(br#"{"stream": true}"#));
    *request.uri_mut() = path.parse().expect("a path");
    request
}

/// The fault a failure came from.
fn told(failure: &Failure) -> Option<PlayError> {
    std::error::Error::source(failure)?.downcast_ref().copied()
}

async fn call(player: &Player) -> Result<Response<PlayBody>, Failure> {
    player.clone().oneshot(ask("/v1/chat/completions")).await
}

fn player(script: Script) -> Player {
    Player::new(script, &Journal::new())
}

/// The frames of a body with the milliseconds they came at, and the error it ended with.
async fn frames(mut body: PlayBody) -> (Vec<(u128, Bytes)>, Option<Failure>) {
    let (start, mut frames) = (Instant::now(), Vec::new());
    loop {
        match body.frame().await {
            Some(Ok(frame)) => frames.push((start.elapsed().as_millis(), frame.into_data().expect("data"))),
            Some(Err(error)) => return (frames, Some(error)),
            None => return (frames, None),
        }
    }
}

/// Scenario: a delayed head and paced chunks, one of them bytewise. Expected: each MUST come exactly when due.
#[tokio::test(start_paused = true)]
async fn chunks_come_when_they_are_due() {
    let mut step =
        Step::status(201).after(300).header("x-a", b"\xff").chunk(10, "ab").chunk(20, "cd").chunk(5, "");
    step.chunks[1].bytewise = true;
    let player = player(Script::new([step]));
    let start = Instant::now();
    let reply = call(&player).await.expect("a reply");
    assert_eq!(start.elapsed().as_millis(), 300);
    assert_eq!((reply.status().as_u16(), reply.headers()["x-a"].as_bytes()), (201, &b"\xff"[..]));
    let (frames, error) = frames(reply.into_body()).await;
    assert_eq!(frames, [(10, "ab".into()), (30, "c".into()), (30, "d".into())]);
    assert!(error.is_none(), "{error:?}");
    let seen = player.journal().ended(0).await;
    assert_eq!(seen.ending, Some(Ending::Served));
    assert_eq!(seen.closed_at, Some(start + Duration::from_millis(335)));
    assert_eq!((seen.path.as_str(), &seen.body[..4]), ("/v1/chat/completions", &b"{\"st"[..]));
}

/// Scenario: the reader was away for two chunks. Expected: both MUST lie ready, and later ones MUST NOT be late.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_does_not_hold_up_the_provider() {
    let player = player(Script::new([Step::sse(["a", "b", "c"]).pace(100)]));
    let body = call(&player).await.expect("a reply").into_body();
    sleep(Duration::from_millis(250)).await;
    let (frames, _) = frames(body).await;
    let times: Vec<_> = frames.into_iter().map(|(at, _)| at).collect();
    assert_eq!(times, [0, 0, 50]);
}

/// Scenario: refused, broken before the head, broken after the chunks, over. Expected: each MUST be told apart.
#[tokio::test(start_paused = true)]
async fn every_failure_is_told_apart() {
    let cut = Step::sse(["a", "b"]).cut(1).end(BodyEnd::Reset);
    let player = player(Script::new([Step::refuse(), Step::reset().after(7), cut]));
    assert_eq!(told(&call(&player).await.expect_err("no reply")), Some(PlayError::Refused));
    assert_eq!(told(&call(&player).await.expect_err("no reply")), Some(PlayError::Reset));
    let (frames, error) = frames(call(&player).await.expect("a reply").into_body()).await;
    assert_eq!((frames.len(), error.as_ref().and_then(told)), (1, Some(PlayError::Reset)));
    assert_eq!(told(&call(&player).await.expect_err("no reply")), Some(PlayError::Over));
    let endings: Vec<_> = player.journal().seen().iter().filter_map(|seen| seen.ending).collect();
    assert_eq!(endings, [Ending::Refused, Ending::Broken, Ending::Broken, Ending::Over]);
    assert_eq!((player.journal().attempts(), player.journal().over(), player.journal().open()), (4, 1, 0));
}

/// Scenario: a silent stream, dropped; a head awaited, dropped; a future never polled. Expected: the first two
/// MUST be seen as left, at that moment; the third MUST NOT be an attempt.
#[tokio::test(start_paused = true)]
async fn a_dropped_reply_is_seen_to_leave() {
    let player = player(Script::new([Step::hang()]).for_ever());
    drop(player.clone().call(ask("/v1/messages")));
    assert_eq!(player.journal().attempts(), 0);
    let start = Instant::now();
    let mut body = call(&player).await.expect("a reply").into_body();
    assert!(sleep(Duration::from_secs(3600)).race(body.frame()).await);
    assert_eq!(player.journal().open(), 1);
    drop(body);
    let seen = player.journal().ended(0).await;
    assert_eq!(seen.ending, Some(Ending::Left));
    assert_eq!(seen.closed_at, Some(start + Duration::from_secs(3600)));

    let slow = self::player(Script::new([Step::status(200).after(500)]));
    assert!(sleep(Duration::from_millis(499)).race(call(&slow)).await);
    assert_eq!(slow.journal().ended(0).await.ending, Some(Ending::Left));
}

/// Scenario: the last bytes have come. Expected: the end MUST be known without another poll, as served.
#[tokio::test(start_paused = true)]
async fn the_end_is_known_with_the_last_bytes() {
    let player = player(Script::new([Step::sse(["a"])]));
    let mut body = call(&player).await.expect("a reply").into_body();
    assert!(!body.is_end_stream());
    body.frame().await.expect("a frame").expect("data");
    assert!(body.is_end_stream());
    drop(body);
    assert_eq!(player.journal().ended(0).await.ending, Some(Ending::Served));
}

/// Scenario: two providers, one journal. Expected: each MUST play its own steps and be counted apart.
#[tokio::test(start_paused = true)]
async fn providers_share_a_journal_and_no_steps() {
    let steps = [Step::status(500), Step { provider: "secondary".into(), ..Step::status(201) }];
    let journal = Journal::new();
    let primary = Player::new(Script::of("primary", &steps), &journal);
    let secondary = Player::new(Script::of("secondary", &steps), &journal);
    assert_eq!(call(&primary).await.expect("a reply").status(), 500);
    assert_eq!(call(&secondary).await.expect("a reply").status(), 201);
    assert_eq!(told(&call(&primary).await.expect_err("no reply")), Some(PlayError::Over));
    assert_eq!((journal.attempts_of("primary"), journal.attempts_of("secondary")), (2, 1));
}

/// Scenario: one abstract answer, asked for in each protocol. Expected: each MUST be worded in its own.
#[tokio::test(start_paused = true)]
async fn a_line_is_worded_in_the_protocol_it_is_asked_in() {
    let player =
        player(Script::default().then(Trouble::Overloaded).then(ScriptedReply::new("hi")).for_ever());
    let busy = player.clone().oneshot(ask("/v1/messages")).await.expect("a reply");
    assert_eq!(busy.status(), 529);
    for (wording, mark) in
        Wording::ALL.into_iter().zip(["[DONE]", "event: response.completed", "event: message_stop"])
    {
        let reply =
            player.clone().oneshot(ask(&format!("/v1{}?a=b", wording.path()))).await.expect("a reply");
        let body = reply.into_body().collect().await.expect("a body").to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(mark), "{wording:?}");
    }
}

/// Scenario: a packed step. Expected: as a client that decodes sees it, plain and with no word of packing.
#[tokio::test(start_paused = true)]
async fn a_packed_step_is_already_unpacked() {
    let step = Step::json(200, &serde_json::json!({})).header("content-encoding", "gzip").gzip();
    let reply = call(&player(Script::new([step]))).await.expect("a reply");
    assert!(!reply.headers().contains_key("content-encoding"));
    assert_eq!(reply.into_body().collect().await.expect("a body").to_bytes(), "{}");
}

/// Two futures at once: whether the first was done first.
trait Race: Future + Sized {
    async fn race<F: Future>(self, other: F) -> bool {
        tokio::select! {
            biased;
            _ = self => true,
            _ = other => false,
        }
    }
}

impl<F: Future> Race for F {}
