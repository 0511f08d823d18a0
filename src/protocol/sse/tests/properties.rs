//! Two laws, each with a parser that breaks it: a law that no wrong parser fails tells nothing.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use super::{DEFAULT_LIMIT, Item, TooLarge, items, read};

const CASES: u32 = 256;

/// What a reader may see of an item: its kind; its data, name and id; its bytes.
type Seen = (char, [Option<Vec<u8>>; 3], Vec<u8>);

/// Streams of such pieces meet the rules more often than random bytes do.
const PIECES: [&str; 20] = [
    "data",
    "data:",
    "data: x",
    "data: {\"é\":1}",
    "event: e",
    "id: 1",
    "id: \0",
    ":",
    ": c",
    " ",
    "x",
    "\u{feff}",
    "\r",
    "\n",
    "\r\n",
    "\n\n",
    "\r\r",
    "\r\n\r\n",
    "error: 1",
    "retry: 9",
];

fn streams() -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    let piece = prop_oneof![
        9 => select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ];
    (vec(piece, 0..24).prop_map(|pieces| pieces.concat()), vec(0..200_usize, 0..8))
}

fn cut<'a>(stream: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places.iter().map(|place| place % (stream.len() + 1)).collect();
    places.sort_unstable();
    let ends = places.iter().copied().chain([stream.len()]);
    let starts = [0].into_iter().chain(places.iter().copied());
    starts.zip(ends).map(|(start, end)| &stream[start..end]).collect()
}

/// The items with each tail put back to the item it was cut from, and the refusal.
fn seen(limit: usize, chunks: &[&[u8]]) -> (Vec<Seen>, Option<TooLarge>) {
    let (items, refusal) = read(limit, chunks);
    let mut seen: Vec<Seen> = Vec::new();
    for item in &items {
        let (kind, told) = match item {
            Item::Event(frame) => {
                let kind = if frame.is_terminated() { 'e' } else { 'u' };
                (kind, [Some(frame.data()), frame.event(), frame.id()])
            }
            Item::Comment(_) => ('c', [None; 3]),
            Item::KeepAlive(_) => ('k', [None; 3]),
            Item::Tail(lf) => {
                seen.last_mut().unwrap().2.extend_from_slice(lf);
                continue;
            }
        };
        seen.push((kind, told.map(|bytes| bytes.map(<[u8]>::to_vec)), item.raw().to_vec()));
    }
    (seen, refusal)
}

/// The law of cuts: whole, cut anywhere, and byte by byte, a stream is the same.
fn cuts_carry_no_meaning<T: PartialEq>(parse: impl Fn(&[&[u8]]) -> T) -> Result<(), TestError<impl Sized>> {
    runner().run(&streams(), |(stream, places)| {
        let whole = parse(&[&stream]);
        let bytes: Vec<_> = stream.chunks(1).collect();
        if parse(&cut(&stream, &places)) == whole && parse(&bytes) == whole {
            return Ok(());
        }
        Err(TestCaseError::fail("a cut changed the items"))
    })
}

/// The law of the format: the complete events of a whole stream are those of its plain reading.
fn events_are_those_of_the_format(
    parse: impl Fn(&[u8]) -> Vec<Vec<u8>>,
) -> Result<(), TestError<impl Sized>> {
    runner().run(&streams(), |(stream, _)| {
        if parse(&stream) == plain(&stream) {
            return Ok(());
        }
        Err(TestCaseError::fail("not the events of the format"))
    })
}

/// The same bytes each time, so that the twins are caught each time.
fn runner() -> TestRunner {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    TestRunner::new_with_rng(config, rng)
}

/// The format as it is written down, for a whole stream: slow and short.
fn plain(stream: &[u8]) -> Vec<Vec<u8>> {
    let stream = stream.strip_prefix("\u{feff}".as_bytes()).unwrap_or(stream);
    let (mut lines, mut line, mut bytes) = (Vec::new(), Vec::new(), stream.iter().peekable());
    while let Some(&byte) = bytes.next() {
        if byte == b'\r' {
            bytes.next_if(|&&next| next == b'\n');
        }
        if matches!(byte, b'\r' | b'\n') { lines.push(std::mem::take(&mut line)) } else { line.push(byte) }
    }
    let (mut events, mut data) = (Vec::new(), Vec::new());
    for line in lines {
        if line.is_empty() {
            if data.pop().is_some() {
                events.push(std::mem::take(&mut data));
            }
        } else if line == b"data" {
            data.push(b'\n');
        } else if let Some(value) = line.strip_prefix(b"data:") {
            data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            data.push(b'\n');
        }
    }
    events
}

fn ours(stream: &[u8]) -> Vec<Vec<u8>> {
    super::frames(&[stream])
        .iter()
        .filter(|frame| frame.is_terminated())
        .map(|frame| frame.data().to_vec())
        .collect()
}

/// A twin that makes every line end an LF, chunk by chunk.
fn twin_that_normalises_chunks(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
    let normal = |chunk: &&[u8]| {
        let mut normal = Vec::new();
        for (at, &byte) in chunk.iter().enumerate() {
            match byte {
                b'\n' if at > 0 && chunk[at - 1] == b'\r' => {}
                b'\r' => normal.push(b'\n'),
                _ => normal.push(byte),
            }
        }
        normal
    };
    plain(&chunks.iter().flat_map(normal).collect::<Vec<_>>())
}

/// A twin that knows no blank line but two LFs.
fn twin_that_splits_on_two_lfs(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut events = Vec::new();
    while let Some(end) = stream.windows(2).position(|two| two == b"\n\n") {
        let data = stream[..end].split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
        let data: Vec<_> = data.map(|value| value.strip_prefix(b" ").unwrap_or(value)).collect();
        if !data.is_empty() {
            events.push(data.join(&b'\n'));
        }
        stream = &stream[end + 2..];
    }
    events
}

/// Scenario: any stream, cut anywhere and everywhere, with a roomy limit and with tight ones.
/// Expected: MUST give the same items, the same bytes of each, and the same refusal.
#[test]
fn a_cut_changes_nothing() {
    for limit in [DEFAULT_LIMIT, 24, 9, 1] {
        cuts_carry_no_meaning(|chunks| seen(limit, chunks)).unwrap_or_else(|_| panic!("at limit {limit}"));
    }
}

/// Scenario: a parser that normalises line ends in each chunk.
/// Expected: MUST be caught by the law of cuts.
#[test]
fn a_parser_that_normalises_chunks_is_caught() {
    assert!(cuts_carry_no_meaning(twin_that_normalises_chunks).is_err());
}

/// Scenario: any stream against a plain reading of the format.
/// Expected: MUST give the same complete events.
#[test]
fn the_events_are_those_of_the_format() {
    assert!(events_are_those_of_the_format(ours).is_ok());
}

/// Scenario: a parser that looks for two LFs.
/// Expected: MUST be caught by the law of the format.
#[test]
fn a_parser_that_splits_on_two_lfs_is_caught() {
    assert!(events_are_those_of_the_format(twin_that_splits_on_two_lfs).is_err());
}

/// Scenario: any stream, cut anywhere.
/// Expected: the bytes of all items MUST be the stream.
#[test]
fn no_byte_is_lost_or_changed() {
    let kept = runner().run(&streams(), |(stream, places)| {
        let raws: Vec<_> = items(&cut(&stream, &places)).iter().map(|item| item.raw().to_vec()).collect();
        if raws.concat() == stream { Ok(()) } else { Err(TestCaseError::fail("bytes differ")) }
    });
    assert!(kept.is_ok(), "{kept:?}");
}
