//! What holds for every decoder.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use watertight::chat::{Event, Protocol};
use watertight::protocol::{self, Decoder, Dialect, Target, errors, sse};
use watertight::time::Wall;

pub fn check(protocol: Protocol, data: &[u8]) {
    let wall = Wall::at(Duration::from_secs(1_800_000_000));
    stream(protocol, data, wall);
    let _ = protocol::decode(protocol, data, wall);
    let _ = errors::classify(StatusCode::BAD_REQUEST, &HeaderMap::new(), data, wall.unix());
    if let Ok(request) = protocol::read(protocol, data) {
        let dialect = Dialect::default();
        let target = Target::new("model", &dialect);
        for other in [Protocol::OpenaiChat, Protocol::OpenaiResponses, Protocol::AnthropicMessages] {
            if let Ok(bytes) = protocol::encode(other, &request, &target) {
                protocol::read(other, &bytes).expect("what was written can be read");
            }
        }
    }
}

fn stream(protocol: Protocol, data: &[u8], wall: Wall) {
    let mut parser = sse::Parser::new(1 << 20);
    let mut decoder = Decoder::new(protocol, &Dialect::default(), wall);
    let mut out = VecDeque::new();
    parser.push(Bytes::copy_from_slice(data));
    while let Ok(Some(item)) = parser.next() {
        let sse::Item::Event(frame) = item else { continue };
        let before = (decoder.is_done(), out.len());
        let failed = decoder.frame(&frame, &mut out).is_err();
        assert!(!before.0 || out.len() == before.1, "something came after the end");
        assert!(!failed || decoder.is_done(), "a failure is the end");
    }
    let _ = decoder.end(&mut out);
    assert!(decoder.is_done(), "the end is the end");
    let ends = out.iter().filter(|event| matches!(event, Event::Completed(_))).count();
    assert!(ends <= 1, "a reply ends once");
}
