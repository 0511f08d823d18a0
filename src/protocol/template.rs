//! Frames that differ from one read before in what they say, and in nothing else.
//!
//! Nearly all frames of a reply are deltas, and nearly all of these are the same bytes but for their text. A
//! [`Template`] learns those bytes from a delta that was read in full. Another frame that has them all, with any JSON
//! string where the text stood, is the same JSON but for that string: reading it in full would give the same but for
//! the text. So no more than the string is read, by the reader that reads whole frames, too.
//!
//! Some providers put a running number or a padding of random length into every frame. No protocol of ours gives
//! them a meaning, so that they may differ as well.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use memchr::{memchr2, memmem};
use serde::Deserialize;

/// The longest frame that is learnt; no delta that comes in numbers is as long.
const LONGEST: usize = 4096;

/// So many frames in a row that are like none before them, and nothing more is learnt: a reply whose frames all
/// differ must not pay for each. More than enough for one that changes from thoughts to text and to tool calls.
const PATIENCE: u8 = 16;

/// The fields that may differ, as JSON spells their names. In JSON these bytes are the end of a name, never part of
/// a string: its quotes would be escaped.
const LOOSE: [(&[u8], Gap); 3] =
    [(b"\"sequence_number\":", Gap::Number), (b"\"obfuscation\":", Gap::Padding), (b"\"p\":", Gap::Padding)];

/// What is the same in the deltas of a reply, and what they are.
#[derive(Debug)]
pub(super) struct Template<T> {
    /// The bytes that are the same, without what stands in the gaps.
    same: Vec<u8>,
    /// Each gap, and how many of the bytes stand between it and the one before.
    gaps: Vec<(usize, Gap)>,
    /// What such a frame is, beside its text.
    meaning: Option<T>,
    /// Frames learnt since one was known.
    learnt: u8,
}

/// What may differ.
#[derive(Clone, Copy, Debug)]
enum Gap {
    /// The text: a string.
    Text,
    /// A string that means nothing.
    Padding,
    /// A count that means nothing.
    Number,
}

/// A string, borrowed unless it holds escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Str<'a>(#[serde(borrow)] Cow<'a, str>);

// === impl Template ===

impl<T> Template<T> {
    /// What a frame means and its text, if it is like the one learnt last.
    #[inline]
    pub(super) fn read<'a>(&mut self, data: &'a [u8]) -> Option<(&T, Cow<'a, str>)> {
        let meaning = self.meaning.as_ref()?;
        let (mut rest, mut same, mut text) = (data, &*self.same, Cow::Borrowed(""));
        for (before, gap) in &self.gaps {
            let (literal, after) = same.split_at_checked(*before)?;
            rest = rest.strip_prefix(literal)?;
            let (length, said) = gap.read(rest)?;
            if matches!(gap, Gap::Text) {
                text = said;
            }
            (rest, same) = (rest.get(length..)?, after);
        }
        if rest != same {
            return None;
        }
        self.learnt = 0;
        Some((meaning, text))
    }

    /// Learns from a frame that was read in full, if it says no more than one text, borrowed from it.
    #[inline]
    pub(super) fn learn<'a>(&mut self, data: &[u8], only: impl FnOnce() -> Option<(&'a str, T)>) {
        if self.learnt < PATIENCE
            && data.len() <= LONGEST
            && let Some((text, meaning)) = only()
            && let Some(start) = place(data, text)
        {
            self.keep(data, start, text.len() + 2, meaning);
        }
    }

    fn keep(&mut self, data: &[u8], start: usize, length: usize, meaning: T) {
        let loose = LOOSE.into_iter().filter_map(|(name, gap)| {
            let start = memmem::find(data, name)? + name.len();
            Some((start, gap.read(&data[start..])?.0, gap))
        });
        let mut gaps = [(start, length, Gap::Text)].into_iter().chain(loose).collect::<Vec<_>>();
        gaps.sort_unstable_by_key(|(start, ..)| *start);
        self.same.clear();
        self.gaps.clear();
        let mut done = 0;
        for (start, length, gap) in gaps {
            self.same.extend_from_slice(&data[done..start]);
            self.gaps.push((start - done, gap));
            done = start + length;
        }
        self.same.extend_from_slice(&data[done..]);
        self.meaning = Some(meaning);
        self.learnt += 1;
    }
}

#[cfg(test)]
impl<T> Template<T> {
    /// One that learns nothing, so that every frame is read in full.
    pub(super) fn blind() -> Self {
        Self { learnt: PATIENCE, ..Self::default() }
    }
}

impl<T> Default for Template<T> {
    fn default() -> Self {
        Self { same: Vec::new(), gaps: Vec::new(), meaning: None, learnt: 0 }
    }
}

// === impl Gap ===

impl Gap {
    /// The length of what stands in the gap, and its text.
    #[inline]
    fn read(self, bytes: &[u8]) -> Option<(usize, Cow<'_, str>)> {
        match self {
            Self::Text | Self::Padding => {
                plain(bytes).or_else(|| value::<Str<'_>>(bytes).map(|(length, text)| (length, text.0)))
            }
            Self::Number => value::<u64>(bytes).map(|(length, _)| (length, Cow::Borrowed(""))),
        }
    }
}

/// Where the string begins that a text was borrowed from. One that held escapes was not, and lies elsewhere.
fn place(data: &[u8], text: &str) -> Option<usize> {
    let start = text.as_ptr().addr().checked_sub(data.as_ptr().addr() + 1)?;
    let borrowed = data.get(start + 1..)?.starts_with(text.as_bytes());
    (borrowed && !text.is_empty()).then_some(start)
}

/// The JSON string that the bytes begin with, and its length, if it is its own text: the usual one, and quickly read.
#[inline]
fn plain(bytes: &[u8]) -> Option<(usize, Cow<'_, str>)> {
    let inner = bytes.strip_prefix(b"\"")?;
    let text = &inner[..memchr2(b'"', b'\\', inner)?];
    let ends = inner[text.len()] == b'"' && text.iter().all(|byte| *byte >= b' ');
    ends.then_some((text.len() + 2, Cow::Borrowed(std::str::from_utf8(text).ok()?)))
}

/// The JSON value that the bytes begin with, and its length.
#[inline]
fn value<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<(usize, T)> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter();
    let value = values.next()?.ok()?;
    Some((values.byte_offset(), value))
}
