//! The cost of reading an event stream. Run: `cargo bench --bench stream`.
//!
//! The floor is the least that any reader does: find the blank line, then read the JSON. One item is one event,
//! and a run reads 1,000 of them: its microseconds are nanoseconds per event.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use divan::counter::{BytesCount, ItemsCount};
use divan::{AllocProfiler, Bencher};
use memchr::memmem::Finder;
use serde::Deserialize;
use watertight::chat::Protocol;
use watertight::protocol::sse::{DEFAULT_LIMIT, Item, Parser};
use watertight::protocol::{Decoder, Dialect};
use watertight::time::Wall;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const EVENTS: usize = 1_000;
/// What a delta says: a token or a few. A chat chunk takes 256 bytes with it.
const TEXT: &str = "some twenty letters";
/// Network chunks: many whole events, what one packet carries, and smaller than an event.
const CHUNKS: [usize; 3] = [16 * 1024, 1_400, 200];

fn main() {
    divan::main();
}

/// A reply of many usual deltas: its bytes, and how its floor reads the JSON of one.
struct Stream {
    protocol: Protocol,
    whole: Bytes,
    /// What stands before the JSON of an event.
    head: &'static str,
    length: fn(&[u8]) -> usize,
}

/// The least of a chat chunk.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    content: Option<&'a str>,
}

/// The least of a delta of Messages.
#[derive(Deserialize)]
struct BlockDelta<'a> {
    #[serde(borrow)]
    delta: Said<'a>,
}

#[derive(Deserialize)]
struct Said<'a> {
    text: Option<&'a str>,
}

/// The least of a delta of Responses.
#[derive(Deserialize)]
struct TextDelta<'a> {
    delta: Option<&'a str>,
}

// === impl Stream ===

impl Stream {
    /// Chunks that differ in nothing but their text.
    fn chat() -> Self {
        Self::chat_of(|_| 1_700_000_000)
    }

    /// Chunks made at these times.
    fn chat_of(created: fn(usize) -> usize) -> Self {
        let head = "data: ";
        let event = |at| {
            let created = created(at);
            format!(
                r#"{head}{{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":{created},"model":"some-model-2025-01-01","system_fingerprint":"fp_0123456789","choices":[{{"index":0,"delta":{{"content":"{TEXT}"}},"finish_reason":null}}]}}"#
            )
        };
        let length = |json: &[u8]| {
            let chunk: Chunk<'_> = serde_json::from_slice(json).expect("a chunk");
            chunk.choices.first().and_then(|choice| choice.delta.content).map_or(0, str::len)
        };
        Self::new(Protocol::OpenaiChat, head, length, event)
    }

    fn messages() -> Self {
        let head = "event: content_block_delta\ndata: ";
        let event = |_| {
            format!(
                r#"{head}{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{TEXT}"}}}}"#
            )
        };
        let length = |json: &[u8]| {
            let delta: BlockDelta<'_> = serde_json::from_slice(json).expect("a delta");
            delta.delta.text.map_or(0, str::len)
        };
        Self::new(Protocol::AnthropicMessages, head, length, event)
    }

    /// Events with a running number, and padded to hide how long their text is.
    fn responses() -> Self {
        let head = "event: response.output_text.delta\ndata: ";
        let event = |at| {
            let padding = &"0123456789abcdef"[..at % 16];
            format!(
                r#"{head}{{"type":"response.output_text.delta","sequence_number":{at},"item_id":"msg_0123456789abcdef0123456789abcdef","output_index":0,"content_index":0,"delta":"{TEXT}","logprobs":[],"obfuscation":"{padding}"}}"#
            )
        };
        let length = |json: &[u8]| {
            let delta: TextDelta<'_> = serde_json::from_slice(json).expect("a delta");
            delta.delta.map_or(0, str::len)
        };
        Self::new(Protocol::OpenaiResponses, head, length, event)
    }

    fn new(
        protocol: Protocol,
        head: &'static str,
        length: fn(&[u8]) -> usize,
        event: impl Fn(usize) -> String,
    ) -> Self {
        let events: Vec<_> = (0..EVENTS).map(|at| event(at) + "\n\n").collect();
        Self { protocol, whole: Bytes::from(events.concat()), head, length }
    }

    /// Its bytes, cut in pieces of `size`.
    fn cut(&self, size: usize) -> Vec<Bytes> {
        cut(&self.whole, size)
    }

    /// No lines, no chunks, no rules: the whole stream lies in memory.
    fn floor(&self, finder: &Finder<'_>, mut each: impl FnMut(&[u8])) {
        let mut at = 0;
        while let Some(end) = finder.find(&self.whole[at..]) {
            each(&self.whole[at + self.head.len()..at + end]);
            at += end + 2;
        }
    }

    /// Reads no more JSON than the text.
    fn floor_with_json(&self, bencher: Bencher<'_, '_>) {
        let finder = Finder::new("\n\n");
        let read = |data: &[u8]| _ = black_box((self.length)(data));
        bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| self.floor(&finder, read));
    }

    /// Parser and decoder, to events: the text gathered into the final message, too.
    fn decode(&self, bencher: Bencher<'_, '_>, size: usize) {
        let chunks = self.cut(size);
        let wall = Wall::at(Duration::ZERO);
        bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
            let mut decoder = Decoder::new(self.protocol, &Dialect::default(), wall);
            let mut parser = Parser::new(DEFAULT_LIMIT);
            let mut out = VecDeque::new();
            for chunk in &chunks {
                parser.push(chunk.clone());
                while let Some(item) = parser.next().expect("no event is too large") {
                    if let Item::Event(frame) = item {
                        decoder.frame(&frame, &mut out).expect("the stream holds valid events");
                        while let Some(event) = out.pop_front() {
                            black_box(event);
                        }
                    }
                }
            }
        });
    }
}

fn cut(whole: &Bytes, size: usize) -> Vec<Bytes> {
    (0..whole.len()).step_by(size).map(|at| whole.slice(at..whole.len().min(at + size))).collect()
}

fn parse(chunks: &[Bytes], mut each: impl FnMut(&[u8])) {
    let mut parser = Parser::new(DEFAULT_LIMIT);
    for chunk in chunks {
        parser.push(chunk.clone());
        while let Some(item) = parser.next().expect("no event is too large") {
            if let Item::Event(frame) = item {
                each(frame.data());
            }
        }
    }
}

#[divan::bench]
fn floor_alone(bencher: Bencher<'_, '_>) {
    let (stream, finder) = (Stream::chat(), Finder::new("\n\n"));
    let read = |data: &[u8]| _ = black_box(data);
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| stream.floor(&finder, read));
}

#[divan::bench(args = CHUNKS)]
fn parser_alone(bencher: Bencher<'_, '_>, size: usize) {
    let chunks = Stream::chat().cut(size);
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| parse(&chunks, |data| _ = black_box(data)));
}

#[divan::bench(args = CHUNKS)]
fn parser_with_json(bencher: Bencher<'_, '_>, size: usize) {
    let stream = Stream::chat();
    let chunks = stream.cut(size);
    let read = |data: &[u8]| _ = black_box((stream.length)(data));
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| parse(&chunks, read));
}

#[divan::bench]
fn floor_with_json(bencher: Bencher<'_, '_>) {
    Stream::chat().floor_with_json(bencher);
}

#[divan::bench(args = CHUNKS)]
fn decoder(bencher: Bencher<'_, '_>, size: usize) {
    Stream::chat().decode(bencher, size);
}

/// No chunk is like the one before it, so that each is read in full.
#[divan::bench(args = CHUNKS)]
fn decoder_unlike(bencher: Bencher<'_, '_>, size: usize) {
    Stream::chat_of(|at| 1_700_000_000 + at).decode(bencher, size);
}

#[divan::bench]
fn messages_floor_with_json(bencher: Bencher<'_, '_>) {
    Stream::messages().floor_with_json(bencher);
}

#[divan::bench(args = CHUNKS)]
fn messages_decoder(bencher: Bencher<'_, '_>, size: usize) {
    Stream::messages().decode(bencher, size);
}

#[divan::bench]
fn responses_floor_with_json(bencher: Bencher<'_, '_>) {
    Stream::responses().floor_with_json(bencher);
}

#[divan::bench(args = CHUNKS)]
fn responses_decoder(bencher: Bencher<'_, '_>, size: usize) {
    Stream::responses().decode(bencher, size);
}

/// One event of so many MiB in chunks of 1 KiB: bytes per second must not fall with the size.
#[divan::bench(args = [1, 4, 15], sample_count = 10)]
fn one_large_event(bencher: Bencher<'_, '_>, mebibytes: usize) {
    let whole = Bytes::from([b"data: ", vec![b'x'; mebibytes << 20].as_slice(), b"\n\n"].concat());
    let chunks = cut(&whole, 1 << 10);
    bencher.counter(BytesCount::new(whole.len())).bench_local(|| parse(&chunks, |data| _ = black_box(data)));
}
