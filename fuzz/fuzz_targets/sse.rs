//! Any bytes, cut anywhere: the same items, the same bytes, no panic.
//!
//! Run: `cargo +nightly fuzz run sse -- -max_total_time=60`. The first byte of an input is the size of the chunks, the
//! second the limit of an item.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use watertight::protocol::sse::{Item, Parser, TooLarge, fields};

fuzz_target!(|input: &[u8]| {
    let [size, limit, stream @ ..] = input else { return };
    // Small limits are met often, and the largest never by inputs of the usual size.
    let limit = if *limit == u8::MAX { 1 << 20 } else { usize::from(*limit) };
    let whole = read(limit, [stream].into_iter());
    assert_eq!(whole, read(limit, stream.chunks(usize::from(*size).max(1))));
    assert_eq!(whole, read(limit, stream.chunks(1)));

    let bytes: Vec<u8> = whole.0.iter().flat_map(|item| item.raw.clone()).collect();
    assert!(if whole.1.is_none() { bytes == stream } else { stream.starts_with(&bytes) });
});

/// One item, with the LF that a cut may have parted from it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    told: Option<(Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>, bool)>,
    comment: bool,
    last_id: Vec<u8>,
    raw: Vec<u8>,
}

fn read<'a>(limit: usize, chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Seen>, Option<TooLarge>) {
    let mut parser = Parser::new(limit);
    let mut seen = Vec::new();
    for chunk in chunks {
        parser.push(Bytes::copy_from_slice(chunk));
        loop {
            match parser.next() {
                Ok(Some(item)) => see(&item, parser.last_id(), &mut seen),
                Ok(None) => break,
                Err(refusal) => return (seen, Some(refusal)),
            }
        }
    }
    loop {
        match parser.finish() {
            Ok(Some(item)) => see(&item, parser.last_id(), &mut seen),
            Ok(None) => return (seen, None),
            Err(refusal) => return (seen, Some(refusal)),
        }
    }
}

fn see(item: &Item, last_id: &[u8], seen: &mut Vec<Seen>) {
    assert!(fields(item.raw()).all(|(name, value)| name.len() + value.len() <= item.raw().len()));
    let told = match item {
        Item::Event(frame) => {
            let own = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
            Some((frame.data().to_vec(), own(frame.event()), own(frame.id()), frame.is_terminated()))
        }
        Item::Tail(lf) => {
            seen.last_mut().expect("a tail follows an item").raw.extend_from_slice(lf);
            return;
        }
        _ => None,
    };
    let comment = matches!(item, Item::Comment(_));
    seen.push(Seen { told, comment, last_id: last_id.to_vec(), raw: item.raw().to_vec() });
}
