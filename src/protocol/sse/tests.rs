//! The rules of the format one by one; [`properties`] holds them for any bytes and any cut.

mod properties;

use bytes::Bytes;

use super::{DEFAULT_LIMIT, Frame, Item, Parser, TooLarge, fields};

// === helpers ===

/// All items of these chunks, each drained before the next is pushed.
fn items(chunks: &[&[u8]]) -> Vec<Item> {
    read(DEFAULT_LIMIT, chunks).0
}

/// All items within the limit, and the refusal if there was one.
fn read(limit: usize, chunks: &[&[u8]]) -> (Vec<Item>, Option<TooLarge>) {
    let mut parser = Parser::new(limit);
    let mut items = Vec::new();
    for chunk in chunks {
        parser.push(Bytes::copy_from_slice(chunk));
        if let Err(refusal) = drain(|| parser.next(), &mut items) {
            return (items, Some(refusal));
        }
    }
    let refusal = drain(|| parser.finish(), &mut items).err();
    (items, refusal)
}

fn drain(
    mut next: impl FnMut() -> Result<Option<Item>, TooLarge>,
    into: &mut Vec<Item>,
) -> Result<(), TooLarge> {
    while let Some(item) = next()? {
        into.push(item);
    }
    Ok(())
}

fn frames(chunks: &[&[u8]]) -> Vec<Frame> {
    let events = items(chunks).into_iter().filter_map(|item| match item {
        Item::Event(frame) => Some(frame),
        _ => None,
    });
    events.collect()
}

/// The texts of all complete events.
fn texts(chunks: &[&[u8]]) -> Vec<String> {
    let complete = frames(chunks).into_iter().filter(Frame::is_terminated);
    complete.map(|frame| frame.text().into_owned()).collect()
}

fn keep_alive(raw: &'static [u8]) -> Item {
    Item::KeepAlive(Bytes::from_static(raw))
}

fn comment(raw: &'static [u8]) -> Item {
    Item::Comment(Bytes::from_static(raw))
}

// === lines ===

/// Scenario: the same two events with LF, CRLF, lone CR and a mixture.
/// Expected: MUST give the same events.
#[test]
fn all_three_line_ends_break_lines() {
    for stream in [
        "data: a\n\ndata: b\n\n",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\r\rdata: b\r\r",
        "data: a\r\n\ndata: b\r\r\n",
    ] {
        assert_eq!(texts(&[stream.as_bytes()]), ["a", "b"], "{stream:?}");
    }
}

/// Scenario: a CRLF inside an event is cut in the middle.
/// Expected: MUST be one line end: the two `data` lines join.
#[test]
fn a_cut_crlf_is_one_line_end() {
    assert_eq!(texts(&[b"data: {\"a\":\r", b"\ndata: 1}\r\n\r\n"]), ["{\"a\":\n1}"]);
}

/// Scenario: the chunk ends with the CR of an event's blank line; the LF comes later.
/// Expected: MUST give the event at once, and the LF on its own, as no blank line.
#[test]
fn a_cr_ends_the_event_without_waiting_for_its_lf() {
    let mut parser = Parser::new(DEFAULT_LIMIT);
    parser.push(Bytes::from_static(b"data: a\r\n\r"));
    assert!(matches!(parser.next(), Ok(Some(Item::Event(frame))) if frame.data() == b"a"));
    assert_eq!(parser.next(), Ok(None));
    parser.push(Bytes::from_static(b"\n"));
    assert_eq!(parser.next(), Ok(Some(Item::Tail(Bytes::from_static(b"\n")))));
    assert_eq!(parser.next(), Ok(None));
}

/// Scenario: the stream begins with a byte-order mark, whole or cut.
/// Expected: MUST be skipped once, and only there.
#[test]
fn one_leading_mark_is_skipped() {
    let streams: [&[&[u8]]; 4] = [
        &["\u{feff}data: a\n\n".as_bytes()],
        &["data: a\n\n\u{feff}data: no\n\n".as_bytes()],
        &[b"\xEF", b"\xBB", b"\xBFdata: a\n\n"],
        &["\u{feff}\n\u{feff}data: no\n\ndata: a\n\n".as_bytes()],
    ];
    for stream in streams {
        assert_eq!(texts(stream), ["a"]);
    }
    assert_eq!(items(&[b"\xEF\xBB", b"\xBF: hi\n"]), [comment("\u{feff}: hi\n".as_bytes())]);
}

/// Scenario: JSON with U+2028, U+0085, VT and FF.
/// Expected: MUST stay one line.
#[test]
fn only_cr_and_lf_break_lines() {
    let text = "\u{2028}\u{85}\u{b}\u{c}";
    assert_eq!(texts(&[format!("data: {text}\n\n").as_bytes()]), [text]);
}

// === fields ===

/// Scenario: values with no, one and two leading spaces, and a line without a colon.
/// Expected: MUST lose one space at most; the bare name is an empty value.
#[test]
fn one_leading_space_is_stripped() {
    assert_eq!(texts(&[b"data:a\n\ndata: a\n\ndata:  a\n\ndata\n\n"]), ["a", "a", " a", ""]);
}

/// Scenario: events of one, two and three data lines, empty ones among them.
/// Expected: MUST join with LF.
#[test]
fn data_lines_join_with_lf() {
    assert_eq!(
        texts(&[b"data: a\ndata: b\n\ndata\ndata\n\ndata: a\nid: 1\ndata:\ndata:c\n\n"]),
        ["a\nb", "\n", "a\n\nc"]
    );
}

/// Scenario: a character is cut by the chunk's end; another event is not UTF-8 at all.
/// Expected: MUST decode the first whole, and replace only what is invalid, and only in the text.
#[test]
fn text_is_decoded_after_framing() {
    assert_eq!(texts(&[b"data: \xC3", b"\xA9\n\ndata: a\xFFb\n\ndata: c\n\n"]), ["é", "a\u{fffd}b", "c"]);
    assert_eq!(frames(&[b"data: a\xFFb\n\n"])[0].data(), b"a\xFFb");
}

/// Scenario: the event is named once, twice, with an empty name, not at all.
/// Expected: MUST be the last name; an empty one is none.
#[test]
fn the_last_name_is_the_event() {
    let named = frames(&[b"event: a\nevent:b\ndata: 1\n\nevent: a\nevent\ndata: 2\n\ndata: 3\n\n"]);
    let names: Vec<_> = named.iter().map(Frame::event).collect();
    assert_eq!(names, [Some(&b"b"[..]), None, None]);
}

/// Scenario: ids in events, alone, with a NUL, empty, and in an unfinished block.
/// Expected: MUST last until the next valid one in a complete block; the frame tells only its own.
#[test]
fn an_id_lasts_and_a_nul_voids_it() {
    let mut parser = Parser::new(DEFAULT_LIMIT);
    parser.push(Bytes::from_static(
        b"id: 1\ndata: a\n\ndata: b\n\nid: 2\n\nid: x\0\ndata: c\n\nid\ndata: d\n\nid: 3\ndata: e",
    ));
    let mut seen = Vec::new();
    while let Some(item) = parser.finish().unwrap() {
        let own = if let Item::Event(frame) = &item { frame.id().map(<[u8]>::to_vec) } else { None };
        seen.push((own, parser.last_id().to_vec()));
    }
    let expected: [(Option<&[u8]>, &[u8]); 6] =
        [(Some(b"1"), b"1"), (None, b"1"), (None, b"2"), (None, b"2"), (Some(b""), b""), (Some(b"3"), b"")];
    assert_eq!(seen, expected.map(|(own, last)| (own.map(<[u8]>::to_vec), last.to_vec())));
}

// === what is no event ===

/// Scenario: comments before, between and after events, one of them empty, after an id was set.
/// Expected: MUST come as comments at once, and MUST NOT dispatch an event at their blank line.
#[test]
fn a_comment_is_never_an_event() {
    let seen = items(&[b": PROCESSING\n:\n\nid: 7\ndata: a\n\n: ping\n", b"\n"]);
    assert_eq!(seen.len(), 6);
    assert_eq!(seen[..3], [comment(b": PROCESSING\n"), comment(b":\n"), keep_alive(b"\n")]);
    assert_eq!(seen[4..], [comment(b": ping\n"), keep_alive(b"\n")]);
}

/// Scenario: a comment lies inside a block.
/// Expected: MUST stay in the frame's bytes, which are one piece.
#[test]
fn a_comment_inside_a_block_stays_with_it() {
    let seen = frames(&[b"data: a\n: hm\ndata: b\n\n"]);
    assert_eq!((seen[0].data(), &seen[0].raw()[..]), (&b"a\nb"[..], &b"data: a\n: hm\ndata: b\n\n"[..]));
}

/// Scenario: blocks of `event`, `id` or `retry` only, an unknown field, and blank lines.
/// Expected: MUST be signs of life, MUST NOT be events, and keep their bytes.
#[test]
fn a_block_without_data_is_no_event() {
    let seen = items(&[b"event: ping\n\nid: 1\n\nretry: 10\n\nwhat\n\n\n\n"]);
    let raws: [&[u8]; 6] = [b"event: ping\n\n", b"id: 1\n\n", b"retry: 10\n\n", b"what\n\n", b"\n", b"\n"];
    assert_eq!(seen, raws.map(keep_alive));
}

/// Scenario: a server writes its error under a field of its own making and closes, with and without a blank line.
/// Expected: MUST NOT be an event; the value MUST be found in the item's bytes.
#[test]
fn an_unknown_field_is_found_in_the_bytes() {
    for stream in
        [&b"error: {\"code\":503}\n\n"[..], b"error: {\"code\":503}\r\n", b"id: 1\rerror: {\"code\":503}"]
    {
        let seen = items(&[stream]);
        assert!(matches!(seen[..], [Item::KeepAlive(_)]), "{seen:?}");
        let value = fields(seen[0].raw()).find(|(name, _)| *name == b"error");
        assert_eq!(value, Some((&b"error"[..], &b"{\"code\":503}"[..])));
    }
}

// === ends and limits ===

/// Scenario: the stream ends after the data line, in the middle of it, or after a blank line.
/// Expected: MUST give the rest, marked as unterminated, once; and nothing after a clean end.
#[test]
fn an_unterminated_event_is_marked() {
    for stream in [&b"data: [DONE]\n"[..], b"data: [DONE]", b"data: [DONE]\r"] {
        let seen = frames(&[stream]);
        assert_eq!(seen.len(), 1);
        assert!(!seen[0].is_terminated() && seen[0].data() == b"[DONE]" && seen[0].raw() == stream);
    }
    assert!(!frames(&[b"data: {\"a\":", b"1"])[0].is_terminated());
    assert!(frames(&[b"data: [DONE]\n\n"])[0].is_terminated());
    assert_eq!(items(&[b": pi"]), [comment(b": pi")]);
    assert_eq!(items(&[b"dat"]), [keep_alive(b"dat")]);
}

/// Scenario: the stream has ended; more is pushed and asked for.
/// Expected: MUST give nothing.
#[test]
fn nothing_comes_after_the_end() {
    let mut parser = Parser::new(DEFAULT_LIMIT);
    parser.push(Bytes::from_static(b"data: a"));
    assert!(matches!(parser.finish(), Ok(Some(Item::Event(_)))));
    parser.push(Bytes::from_static(b"data: b\n\n"));
    assert_eq!((parser.finish(), parser.next()), (Ok(None), Ok(None)));
}

/// Scenario: an event, a comment without end, a block of empty `data` lines: at the limit, and one byte above it.
/// Expected: MUST fit, and MUST be refused after the items before it. The LF that follows a CR is not counted.
#[test]
fn an_item_above_the_limit_is_refused() {
    let streams: [(&[u8], &[u8]); 4] = [
        (b"data: 90123456\n\n", b"\ndata: 901234567\n\n"),
        (b"data: 9012345\r\n\r\n", b"\ndata: 90123456\r\n\r\n"),
        (b": 34567890123456", b"\n: 345678901234567"),
        (b"data:\ndata:\ndata", b"\ndata:\ndata:\ndata:"),
    ];
    for (fits, large) in streams {
        assert_eq!(read(16, &[fits]).1, None, "{fits:?}");
        assert_eq!(read(16, &[large]), (vec![keep_alive(b"\n")], Some(TooLarge { limit: 16 })), "{large:?}");
    }
}

/// Scenario: an item was refused; more is pushed and asked for.
/// Expected: MUST give nothing.
#[test]
fn nothing_comes_after_a_refusal() {
    let mut parser = Parser::new(3);
    parser.push(Bytes::from_static(b"data: a\n\n"));
    assert_eq!(parser.next().unwrap_err().to_string(), "an event of the stream is larger than 3 bytes");
    parser.push(Bytes::from_static(b"\n"));
    assert_eq!((parser.next(), parser.finish()), (Ok(None), Ok(None)));
}

/// Scenario: all chunks are pushed before the first item is asked for.
/// Expected: MUST give what draining after each chunk gives.
#[test]
fn pushed_chunks_wait_their_turn() {
    let chunks = [&b"data: a\r"[..], b"\n\r", b"\n: hi\r\nda", b"", b"ta: b\n\n"];
    let mut parser = Parser::new(DEFAULT_LIMIT);
    chunks.iter().for_each(|chunk| parser.push(Bytes::copy_from_slice(chunk)));
    let mut seen = Vec::new();
    drain(|| parser.next(), &mut seen).unwrap();
    assert_eq!(seen, items(&chunks));
}

/// Scenario: many events in one chunk, and one event of 4 MiB in chunks of 1 KiB.
/// Expected: MUST slice the first out of their chunk, and MUST finish the second (read again from its beginning at
/// each chunk, it would be 8 GiB).
#[test]
fn a_frame_is_a_slice_and_a_large_one_is_linear() {
    let chunk = Bytes::from_static(b"data: a\n\ndata: b\n\ndata: c");
    let mut parser = Parser::new(DEFAULT_LIMIT);
    parser.push(chunk.clone());
    for start in [0, 9] {
        let item = parser.next().unwrap().unwrap();
        assert_eq!(item.raw().as_ptr(), chunk[start..].as_ptr());
    }
    let large = [b"data: ", vec![b'x'; 4 << 20].as_slice(), b"\n\n"].concat();
    let chunks: Vec<_> = large.chunks(1 << 10).collect();
    assert_eq!(frames(&chunks)[0].data().len(), 4 << 20);
}
