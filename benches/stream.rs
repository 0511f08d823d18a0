//! The cost of reading an event stream. Run: `cargo bench --bench stream`.
//!
//! The floor is the least that any reader does: find the blank line, then read the JSON. One item is one event,
//! and a run reads 1,000 of them: its microseconds are nanoseconds per event.

use std::collections::VecDeque;
use std::hint::black_box;

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
/// What a chat chunk with one token takes.
const EVENT_BYTES: usize = 256;
/// Network chunks: many whole events, what one packet carries, and smaller than an event.
const CHUNKS: [usize; 3] = [16 * 1024, 1_400, 200];

fn main() {
    divan::main();
}

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

fn content_length(json: &[u8]) -> usize {
    let chunk: Chunk<'_> = serde_json::from_slice(json).expect("the stream holds valid chunks");
    chunk.choices.first().and_then(|choice| choice.delta.content).map_or(0, str::len)
}

/// Chat chunks of `EVENT_BYTES`, cut in pieces of `size`.
fn stream(size: usize) -> Vec<Bytes> {
    let head = r#"data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"some-model-2025-01-01","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":""#;
    let tail = "\"},\"finish_reason\":null}]}\n\n";
    let text = "x".repeat(EVENT_BYTES - head.len() - tail.len());
    let whole = Bytes::from(format!("{head}{text}{tail}").repeat(EVENTS));
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

/// No lines, no chunks, no rules: the whole stream lies in memory.
fn floor(whole: &[u8], finder: &Finder<'_>, mut each: impl FnMut(&[u8])) {
    let mut at = 0;
    while let Some(end) = finder.find(&whole[at..]) {
        each(&whole[at + b"data: ".len()..at + end]);
        at += end + 2;
    }
}

#[divan::bench]
fn floor_alone(bencher: Bencher<'_, '_>) {
    let (whole, finder) = (stream(CHUNKS[0]).concat(), Finder::new("\n\n"));
    bencher
        .counter(ItemsCount::new(EVENTS))
        .bench_local(|| floor(&whole, &finder, |data| _ = black_box(data)));
}

#[divan::bench(args = CHUNKS)]
fn parser_alone(bencher: Bencher<'_, '_>, size: usize) {
    let chunks = stream(size);
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| parse(&chunks, |data| _ = black_box(data)));
}

#[divan::bench]
fn floor_with_json(bencher: Bencher<'_, '_>) {
    let (whole, finder) = (stream(CHUNKS[0]).concat(), Finder::new("\n\n"));
    let read = |data: &[u8]| _ = black_box(content_length(data));
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| floor(&whole, &finder, read));
}

/// Parser and decoder, to events: the text gathered into the final message, too.
#[divan::bench(args = CHUNKS)]
fn decoder(bencher: Bencher<'_, '_>, size: usize) {
    let chunks = stream(size);
    let wall = Wall::at(std::time::Duration::ZERO);
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        let mut decoder = Decoder::new(Protocol::OpenaiChat, &Dialect::default(), wall);
        let mut parser = Parser::new(DEFAULT_LIMIT);
        let mut out = VecDeque::new();
        for chunk in &chunks {
            parser.push(chunk.clone());
            while let Some(item) = parser.next().expect("no event is too large") {
                if let Item::Event(frame) = item {
                    decoder.frame(&frame, &mut out).expect("the stream holds valid chunks");
                    while let Some(event) = out.pop_front() {
                        black_box(event);
                    }
                }
            }
        }
    });
}

#[divan::bench(args = CHUNKS)]
fn parser_with_json(bencher: Bencher<'_, '_>, size: usize) {
    let chunks = stream(size);
    let read = |data: &[u8]| _ = black_box(content_length(data));
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| parse(&chunks, read));
}

/// One event of so many MiB in chunks of 1 KiB: bytes per second must not fall with the size.
#[divan::bench(args = [1, 4, 15], sample_count = 10)]
fn one_large_event(bencher: Bencher<'_, '_>, mebibytes: usize) {
    let whole = Bytes::from([b"data: ", vec![b'x'; mebibytes << 20].as_slice(), b"\n\n"].concat());
    let chunks: Vec<_> = (0..whole.len())
        .step_by(1 << 10)
        .map(|at| whole.slice(at..whole.len().min(at + (1 << 10))))
        .collect();
    bencher.counter(BytesCount::new(whole.len())).bench_local(|| parse(&chunks, |data| _ = black_box(data)));
}
