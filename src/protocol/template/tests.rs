//! The law of templates, and readers that break it: a frame read by its text alone says what it says in full.

use std::collections::VecDeque;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRng, TestRunner};

use crate::chat::Protocol;
use crate::protocol::sse::{DEFAULT_LIMIT, Item, Parser};
use crate::protocol::{Decoder, Dialect};
use crate::time::Wall;

use super::Template;

const CASES: u32 = 2_048;

const PROTOCOLS: [Protocol; 3] =
    [Protocol::OpenaiChat, Protocol::OpenaiResponses, Protocol::AnthropicMessages];

/// Frames with a `#` for what they say; a few that differ little, and a few that differ much.
const CHAT: [&str; 21] = [
    r##"data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"#"},"finish_reason":null}]}"##,
    r##"data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"#"},"finish_reason":"stop"}]}"##,
    r##"data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"#"},"finish_reason":null}],"error":{"message":"no"}}"##,
    r##"data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"#"},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"##,
    r##"data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"#"}}],"obfuscation":"ab#c"}"##,
    r##"data: {"id":"","choices":[{"index":1,"delta":{"content":"#"}},{"delta":{"content":"#"}}]}"##,
    r##"data: {"choices":[{"delta":{"content":"#","refusal":"#"}}],"p":"#"}"##,
    r##"data:{"choices":[{"delta":{"reasoning_content":"#"}}]}"##,
    r##"data:{"choices":[{"delta":{"reasoning":"#","content":""}}]}"##,
    r##"data: {"choices":[{"delta":{"reasoning":"#","reasoning_content":"#"}}]}"##,
    r##"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"#"}}]}}]}"##,
    r##"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"#"}}]}}]}"##,
    r##"data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"#"}}]}}]}"##,
    r##"data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"#"},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":9}}"##,
    r##"data: {"choices":[{"delta":{"content":"#","refusal":"no"}}]}"##,
    r##"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"u","function":{"name":"f","arguments":"#"}}]}}]}"##,
    r##"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"#"}},{"index":1,"function":{"arguments":"#"}}]}}]}"##,
    r##"data: {"choices":[{"delta":{"content":"#","reasoning_content":"so"}}]}"##,
    r##"data: {"choices":[{"delta":{"content":"#"},"message":{"content":"#"}}]}"##,
    r##"event: error
data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"#"},"finish_reason":null}]}"##,
    "data: [DONE]",
];

const RESPONSES: [&str; 13] = [
    r##"data: {"type":"response.output_text.delta","sequence_number":7,"item_id":"i","output_index":0,"delta":"#","obfuscation":"#"}"##,
    r##"data: {"type":"response.output_text.delta","sequence_number":12,"item_id":"i","output_index":0,"delta":"#","obfuscation":"abc"}"##,
    r##"data: {"type":"response.output_text.delta","sequence_number":-1.5,"item_id":"i","output_index":0,"delta":"#","obfuscation":null}"##,
    r##"data: {"type":"response.output_text.delta","item_id":"#","output_index":0,"delta":"#"}"##,
    r##"data: {"type":"response.output_text.delta","item_id":"i","output_index":1,"content_index":1,"delta":"#"}"##,
    r##"event: response.output_text.delta
data: {"item_id":"i","delta":"#"}"##,
    r##"event: response.refusal.delta
data: {"item_id":"i","delta":"#"}"##,
    r##"event: error
data: {"type":"response.output_text.delta","item_id":"i","output_index":1,"content_index":1,"delta":"#"}"##,
    r##"data: {"type":"response.reasoning_summary_text.delta","item_id":"r","summary_index":1,"delta":"#"}"##,
    r##"data: {"type":"response.function_call_arguments.delta","item_id":"f","output_index":2,"delta":"#"}"##,
    r##"data: {"type":"response.output_text.done","item_id":"i","output_index":0,"text":"#"}"##,
    r##"data: {"type":"response.output_text.delta","item_id":"i","output_index":0,"delta":"#","error":{"message":"#"}}"##,
    r##"data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}"##,
];

const MESSAGES: [&str; 13] = [
    r##"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"#"}}"##,
    r##"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"#"}  }"##,
    r##"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"#"},"error":{"type":"#"}}"##,
    r##"data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"#"},"p":"#"}"##,
    r##"data: {"type":"content_block_delta","index":2,"delta":{"type":"thinking_delta","thinking":"#"}}"##,
    r##"data: {"type":"content_block_delta","index":2,"delta":{"type":"signature_delta","signature":"#"}}"##,
    r##"data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"#"}}"##,
    r##"data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t","name":"#","input":{}}}"##,
    r##"event: content_block_delta
data: {"index":0,"delta":{"text":"#"}}"##,
    r##"data: {"index":0,"delta":{"text":"#"}}"##,
    r##"event: ping
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"#"}}"##,
    r##"data: {"type":"content_block_stop","index":0}"##,
    r##"data: {"type":"message_stop"}"##,
];

/// What ends a reply.
fn end(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::OpenaiChat => {
            r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}

data: [DONE]"#
        }
        Protocol::OpenaiResponses => RESPONSES[RESPONSES.len() - 1],
        Protocol::AnthropicMessages => MESSAGES[MESSAGES.len() - 1],
    }
}

/// What stands between two quotes: texts, and what only looks like one.
const SAID: [&[u8]; 16] = [
    b"a",
    b"a",
    b"some words, ",
    b"",
    "\u{e9}\u{1f980}".as_bytes(),
    br"line\nline",
    br#"\"quoted\""#,
    br"\u00e9\ud83e\udd80",
    br"\\",
    br"\ud83e",
    br"\x",
    b"\x01",
    b"\xff",
    br#"a","content":"b"#,
    br#"\"p\":\"x\""#,
    b"a\\",
];

/// All that a reader may see: of each frame what came of it, and of the end.
type Told = Vec<String>;

fn shapes(protocol: Protocol) -> &'static [&'static str] {
    match protocol {
        Protocol::OpenaiChat => &CHAT,
        Protocol::OpenaiResponses => &RESPONSES,
        Protocol::AnthropicMessages => &MESSAGES,
    }
}

/// A frame of this shape that says such things, in turn.
fn fill(shape: &str, said: &[&[u8]]) -> Vec<u8> {
    let mut said = said.iter().cycle();
    let mut parts = shape.split('#');
    let mut frame = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        frame.extend_from_slice(said.next().copied().unwrap_or_default());
        frame.extend_from_slice(part.as_bytes());
    }
    frame
}

/// Frames in runs, as replies have them, with something broken in one of a few.
fn streams() -> impl Strategy<Value = (Protocol, Vec<Vec<u8>>)> {
    let run = (any::<usize>(), vec(vec(select(&SAID[..]), 1..3), 1..4), any::<(usize, u8)>(), 0..6_usize);
    (select(&PROTOCOLS[..]), vec(run, 1..6)).prop_map(|(protocol, runs)| {
        let mut frames = Vec::new();
        for (shape, run, (place, byte), harm) in runs {
            let shapes = shapes(protocol);
            // The first shape is as likely as all others, so that something is learnt and met again.
            let shape = shapes[(shape % (2 * shapes.len())).saturating_sub(shapes.len())];
            frames.extend(run.iter().map(|said| fill(shape, said)));
            let Some(last) = frames.last_mut() else { continue };
            let place = place % last.len();
            match harm {
                0 => last[place] = byte,
                1 => last.truncate(place),
                2 => last.insert(place, byte),
                _ => {}
            }
        }
        (protocol, frames)
    })
}

fn decoder(protocol: Protocol) -> Decoder {
    Decoder::new(protocol, &Dialect::default(), Wall::at(std::time::Duration::ZERO))
}

fn blind(protocol: Protocol) -> Decoder {
    match decoder(protocol) {
        Decoder::OpenaiChat(decoder) => Decoder::OpenaiChat(decoder.blind()),
        Decoder::OpenaiResponses(decoder) => Decoder::OpenaiResponses(decoder.blind()),
        Decoder::AnthropicMessages(decoder) => Decoder::AnthropicMessages(decoder.blind()),
    }
}

fn read(mut decoder: Decoder, stream: Vec<u8>) -> Told {
    let (mut told, mut out) = (Vec::new(), VecDeque::new());
    let mut parser = Parser::new(DEFAULT_LIMIT);
    parser.push(Bytes::from(stream));
    while let Some(item) = parser.finish().expect("no frame is as large") {
        let Item::Event(frame) = item else { continue };
        let read = decoder.frame(&frame, &mut out);
        told.push(format!("{read:?} {:?} {} {}", out, decoder.is_settled(), decoder.is_done()));
        out.clear();
    }
    told.push(format!("{:?} {out:?}", decoder.end(&mut out)));
    told.push(format!("{out:?}"));
    told
}

fn joined(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().flat_map(|frame| [frame, &b"\n\n"[..]]).flatten().copied().collect()
}

/// The law: whatever came before, a frame is read as if it was read in full.
fn all_is_read_as_in_full(
    read_frames: impl Fn(Protocol, &[Vec<u8>]) -> Told,
) -> Result<(), TestError<impl Sized>> {
    runner().run(&streams(), |(protocol, frames)| {
        let full = read(blind(protocol), joined(&frames));
        if read_frames(protocol, &frames) == full {
            return Ok(());
        }
        Err(TestCaseError::fail("not what the full reading gives"))
    })
}

/// The same streams each time, so that the twins are caught each time.
fn runner() -> TestRunner {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    TestRunner::new_with_rng(config, rng)
}

/// The frame cut around the first thing it says, if its shape is the first of all up to there.
fn around(protocol: Protocol, frame: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let head = shapes(protocol)[0].split('#').next()?.as_bytes();
    let (head, rest) = frame.strip_prefix(head).map(|rest| (head, rest))?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    Some((head, &rest[..end], &rest[end..]))
}

/// A twin that takes a frame for the one before if both begin alike, whatever stands behind the text.
fn twin_that_ignores_the_rest(protocol: Protocol, frames: &[Vec<u8>]) -> Told {
    let mut known: Option<Vec<u8>> = None;
    let frames: Vec<_> = frames
        .iter()
        .map(|frame| match around(protocol, frame) {
            Some((head, text, rest)) => [head, text, &*known.get_or_insert_with(|| rest.to_vec())].concat(),
            None => frame.clone(),
        })
        .collect();
    read(blind(protocol), joined(&frames))
}

/// A twin that takes the bytes of a text for the text.
fn twin_that_knows_no_escapes(protocol: Protocol, frames: &[Vec<u8>]) -> Told {
    let frames: Vec<_> = frames
        .iter()
        .map(|frame| match around(protocol, frame) {
            Some((head, text, rest)) => {
                let raw = serde_json::to_string(&*String::from_utf8_lossy(text)).unwrap_or_default();
                [head, raw.trim_matches('"').as_bytes(), rest].concat()
            }
            None => frame.clone(),
        })
        .collect();
    read(blind(protocol), joined(&frames))
}

/// Scenario: replies of all protocols, of frames that are alike, nearly alike, unlike and broken.
/// Expected: MUST be read as if each frame was read in full.
#[test]
fn a_frame_like_the_one_before_is_read_as_in_full() {
    let law = all_is_read_as_in_full(|protocol, frames| read(decoder(protocol), joined(frames)));
    assert!(law.is_ok());
}

/// Scenario: a reader that looks at the beginning of a frame alone, and one that takes a text as it is written.
/// Expected: both MUST be caught by the law.
#[test]
fn readers_that_look_too_little_are_caught() {
    assert!(all_is_read_as_in_full(twin_that_ignores_the_rest).is_err());
    assert!(all_is_read_as_in_full(twin_that_knows_no_escapes).is_err());
}

/// Scenario: frames of every two shapes by turns, of which those of the second are learnt or not; then the end.
/// Expected: MUST be read as if each frame was read in full.
#[test]
fn two_shapes_by_turns_are_read_as_in_full() {
    for protocol in PROTOCOLS {
        let shapes = shapes(protocol);
        for (one, other) in shapes.iter().flat_map(|one| shapes.iter().map(move |other| (one, other))) {
            for said in [&b"b"[..], br"\n"] {
                let turns =
                    [(one, &b"a"[..]), (other, said), (one, b"c"), (other, said), (one, b""), (one, b"e")];
                let mut frames: Vec<_> = turns.iter().map(|(shape, said)| fill(shape, &[said])).collect();
                frames.push(fill(end(protocol), &[]));
                let full = read(blind(protocol), joined(&frames));
                assert_eq!(read(decoder(protocol), joined(&frames)), full, "{one}, {other}");
            }
        }
    }
}

/// Scenario: every shape of frame thrice, with texts that hold escapes and with ones that do not, cut at every byte.
/// Expected: MUST be read as if each frame was read in full.
#[test]
fn a_cut_frame_is_read_as_in_full() {
    for protocol in PROTOCOLS {
        for shape in shapes(protocol) {
            let frames = [b"one", &br"t\nwo"[..], "\u{e9}".as_bytes()].map(|said| fill(shape, &[said]));
            let stream = joined(&frames);
            for end in 0..=stream.len() {
                let cut = &stream[..end];
                assert_eq!(
                    read(decoder(protocol), cut.to_vec()),
                    read(blind(protocol), cut.to_vec()),
                    "{protocol:?}: {}",
                    String::from_utf8_lossy(cut)
                );
            }
        }
    }
}

/// Scenario: a frame is learnt, and others come that differ in their text, number and padding.
/// Expected: the text MUST be found; where anything else differs, nothing MUST.
#[test]
fn what_may_differ_is_text_number_and_padding() {
    let learnt = r#"{"sequence_number": 9,"delta":"one","obfuscation":"a"}"#;
    let mut template = Template::default();
    assert!(template.read(learnt.as_bytes()).is_none());
    template.learn(learnt.as_bytes(), || Some((&learnt[31..34], 7)));
    for (frame, text) in [
        (r#"{"sequence_number": 9,"delta":"one","obfuscation":"a"}"#, Some("one")),
        (r#"{"sequence_number": 10,"delta":"","obfuscation":"abcdef"}"#, Some("")),
        (r#"{"sequence_number": 0,"delta":"\u00e9\n","obfuscation":""}"#, Some("\u{e9}\n")),
        (r#"{"sequence_number": 01,"delta":"one","obfuscation":"a"}"#, None),
        (r#"{"sequence_number": -1,"delta":"one","obfuscation":"a"}"#, None),
        (r#"{"sequence_number": 9,"delta":null,"obfuscation":"a"}"#, None),
        (r#"{"sequence_number": 9,"delta":"one","obfuscation":"a"},"#, None),
        (r#"{"sequence_number": 9,"delta":"one","obfuscation":"a"#, None),
        (r#"{"sequence_number": 9,"delta":"one"}"#, None),
        ("", None),
    ] {
        let read = template.read(frame.as_bytes()).map(|(meaning, text)| (*meaning, text.into_owned()));
        assert_eq!(read, text.map(|text| (7, text.to_owned())), "{frame}");
    }
}

/// Scenario: frames of which none is like another; then one that is; a text that is not of the frame.
/// Expected: after a number of them nothing more MUST be learnt, while one that is met again begins the count anew.
#[test]
fn nothing_is_learnt_from_frames_that_never_come_again() {
    let frame = |at: usize| format!(r#"{{"at":{at},"delta":"text"}}"#);
    let knows = |template: &mut Template<()>, at| template.read(frame(at).as_bytes()).is_some();
    let learn = |template: &mut Template<()>, at| {
        let frame = frame(at);
        template.learn(frame.as_bytes(), || Some((&frame[frame.len() - 6..frame.len() - 2], ())));
    };
    let mut template = Template::default();
    for at in 0..100 {
        learn(&mut template, at);
        assert!(knows(&mut template, at), "one that is met again");
    }
    for at in 100..200 {
        learn(&mut template, at);
    }
    assert!(!knows(&mut template, 199));

    let mut template = Template::default();
    template.learn(frame(0).as_bytes(), || Some(("text", ())));
    assert!(!knows(&mut template, 0), "the text is another's");
}
