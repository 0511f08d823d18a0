use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::json;

use super::*;
use crate::testing::{ScriptedReply, Trouble, Wording};

async fn start(script: Script) -> Server {
    Server::start(script).await.expect("a port")
}

async fn connect(server: &Server) -> io::Result<TcpStream> {
    TcpStream::connect(server.url().trim_start_matches("http://")).await
}

async fn ask(server: &Server, path: &str, body: &str) -> TcpStream {
    let mut stream = connect(server).await.expect("a connection");
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nX-Odd: \u{e9}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).await.expect("a write");
    stream
}

/// All the server says, and the error it ended with.
async fn hear(mut stream: TcpStream) -> (Vec<u8>, Option<io::ErrorKind>) {
    let mut heard = Vec::new();
    let error = stream.read_to_end(&mut heard).await.err().map(|error| error.kind());
    (heard, error)
}

async fn exchange(server: &Server) -> (String, Option<io::ErrorKind>) {
    let (heard, error) = hear(ask(server, "/v1/chat/completions?a=b", "{}").await).await;
    (String::from_utf8(heard).expect("text"), error)
}

/// The body of a chunked reply, and how many chunks it had.
fn unchunk(reply: &[u8]) -> (Vec<u8>, usize) {
    let start = reply.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
    let (mut at, mut body, mut chunks) = (start, Vec::new(), 0);
    loop {
        let Ok(httparse::Status::Complete((from, size))) = httparse::parse_chunk_size(&reply[at..]) else {
            return (body, chunks);
        };
        let size = usize::try_from(size).expect("a size");
        body.extend_from_slice(&reply[at + from..at + from + size]);
        (at, chunks) = (at + from + size + 2, chunks + usize::from(size > 0));
    }
}

/// Scenario: a whole reply. Expected: its length MUST be told, and the request MUST be on record to the byte.
#[tokio::test]
async fn a_whole_reply_has_its_length() {
    let server =
        start(Script::new([Step::json(429, &json!({"a": 1})).header("retry-after", b"\xc2\xa03")])).await;
    let (heard, error) = exchange(&server).await;
    assert!(heard.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{heard}");
    assert!(heard.contains("\r\ncontent-length: 7\r\n") && heard.contains("\r\nretry-after: \u{a0}3\r\n"));
    assert!(heard.ends_with("\r\n\r\n{\"a\":1}"), "{heard}");
    assert_eq!(error, None);
    let seen = server.closed(0).await;
    assert_eq!((seen.ending, seen.path.as_str()), (Some(Ending::Served), "/v1/chat/completions?a=b"));
    assert_eq!((seen.headers["x-odd"].as_bytes(), &seen.body[..]), ("é".as_bytes(), &b"{}"[..]));
    assert!(seen.closed_at >= Some(seen.at));
}

/// Scenario: a stream with one chunk sent bytewise. Expected: the cuts MUST be on the wire as written.
#[tokio::test]
async fn a_stream_is_cut_where_the_script_cuts() {
    let mut step = Step::sse(["é", "[DONE]"]);
    step.chunks[0].bytewise = true;
    let server = start(Script::new([step])).await;
    let (heard, error) = hear(ask(&server, "/", "").await).await;
    let (body, chunks) = unchunk(&heard);
    assert_eq!(String::from_utf8(body).expect("text"), "data: é\n\ndata: [DONE]\n\n");
    assert_eq!((chunks, error), ("data: é\n\n".len() + 1, None));
    assert!(heard.ends_with(b"\r\n0\r\n\r\n"));
}

/// Scenario: packed chunks. Expected: all MUST be unpackable, and the first before the second is sent.
#[tokio::test]
async fn a_packed_stream_is_flushed_chunk_by_chunk() {
    let server =
        start(Script::new([Step::sse(["a", "b"]).gzip(), Step::sse(["a", "b"]).gzip().cut(1)])).await;
    for text in ["data: a\n\ndata: b\n\n", "data: a\n\n"] {
        let (heard, _) = hear(ask(&server, "/", "").await).await;
        assert!(String::from_utf8_lossy(&heard).contains("\r\ncontent-encoding: gzip\r\n"));
        let mut plain = String::new();
        GzDecoder::new(&unchunk(&heard).0[..]).read_to_string(&mut plain).expect("gzip");
        assert_eq!(plain, text);
    }
}

/// Scenario: a link that breaks after its chunks. Expected: all bytes MUST arrive first, then a reset.
#[tokio::test]
async fn a_reset_comes_after_the_last_bytes() {
    let server = start(Script::new([Step::sse(["a"]).end(BodyEnd::Reset)])).await;
    let (heard, error) = exchange(&server).await;
    assert!(heard.ends_with("data: a\n\n\r\n"), "{heard}");
    assert_eq!(error, Some(io::ErrorKind::ConnectionReset));
    assert_eq!(server.closed(0).await.ending, Some(Ending::Broken));
}

/// Scenario: a refused and a broken connection, then one beyond the script. Expected: the first two MUST be reset
/// unanswered and count as attempts; the last MUST be answered with 500 and be on record as over.
#[tokio::test]
async fn connections_are_broken_before_they_are_read() {
    let server = start(Script::new([Step::refuse(), Step::reset().after(5)])).await;
    for ending in [Ending::Refused, Ending::Broken] {
        // The reset may come while the client still connects.
        let (heard, error) = match connect(&server).await {
            Ok(stream) => hear(stream).await,
            Err(error) => (Vec::new(), Some(error.kind())),
        };
        assert_eq!((heard.len(), error), (0, Some(io::ErrorKind::ConnectionReset)));
        assert_eq!(server.closed(server.seen().len() - 1).await.ending, Some(ending));
    }
    assert!(exchange(&server).await.0.starts_with("HTTP/1.1 500"));
    assert_eq!((server.journal().attempts(), server.journal().over()), (3, 1));
}

/// Scenario: the client hangs up on a silent stream, and on a head that is not yet due. Expected: MUST be seen.
#[tokio::test]
async fn a_client_that_leaves_is_seen_to_leave() {
    let server = start(Script::new([Step::hang(), Step::status(200).after(60_000)])).await;
    for nth in 0..2 {
        let stream = ask(&server, "/", "").await;
        server.journal().attempted(nth + 1).await;
        assert_eq!(server.journal().open(), 1);
        drop(stream);
        assert_eq!(server.closed(nth).await.ending, Some(Ending::Left));
    }
}

/// Scenario: a port that refuses, and a server that was dropped. Expected: both MUST truly refuse.
#[tokio::test]
async fn a_refusing_port_refuses() {
    let refusing = Server::refusing().expect("a port");
    assert_eq!(connect(&refusing).await.expect_err("refused").kind(), io::ErrorKind::ConnectionRefused);
    let server = start(Script::default()).await;
    let address = server.url().trim_start_matches("http://").to_owned();
    drop(server);
    tokio::task::yield_now().await;
    assert!(TcpStream::connect(address).await.is_err());
}

/// Scenario: a request body in chunks, in pieces. Expected: MUST be put together.
#[tokio::test]
async fn a_chunked_request_is_put_together() {
    let server = start(Script::new([Step::status(204)])).await;
    let mut stream = connect(&server).await.expect("a connection");
    for part in
        ["POST / HTTP/1.1\r\ntransfer-enc", "oding: chunked\r\n\r\n3\r\nab", "c\r\n2\r\nde\r\n0\r", "\n\r\n"]
    {
        stream.write_all(part.as_bytes()).await.expect("a write");
        tokio::task::yield_now().await;
    }
    assert!(hear(stream).await.0.ends_with(b"\r\n\r\n"));
    assert_eq!(server.seen()[0].body, "abcde");
}

/// Scenario: one script of abstract lines, asked in three protocols, streamed and whole. Expected: MUST be worded
/// as asked, and the last line MUST go on for ever.
#[tokio::test]
async fn one_script_speaks_three_protocols() {
    let server =
        start(Script::default().then(Trouble::BadKey).then(ScriptedReply::words("a b")).for_ever()).await;
    assert!(exchange(&server).await.0.starts_with("HTTP/1.1 401"));
    for wording in Wording::ALL {
        let path = format!("/v1{}", wording.path());
        let (streamed, _) = hear(ask(&server, &path, r#"{"stream":true}"#).await).await;
        assert!(String::from_utf8_lossy(&streamed).contains("text/event-stream"), "{wording:?}");
        let (whole, _) = hear(ask(&server, &path, "{}").await).await;
        assert!(String::from_utf8_lossy(&whole).contains("\"a b\""), "{wording:?}");
    }
}
