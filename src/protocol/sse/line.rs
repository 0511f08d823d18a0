//! One line: where it ends, and what it is made of.

use memchr::{memchr, memchr2};

pub(super) const CR: u8 = b'\r';
pub(super) const LF: u8 = b'\n';
pub(super) const DATA: &[u8] = b"data:";
pub(super) const BOM: &[u8] = "\u{feff}".as_bytes();

/// The fields of a block as it came, known or not, in order: names and values. Comments are left out.
///
/// ```
/// use watertight::protocol::sse::fields;
///
/// let block = b"error: {\"code\":503}\n: odd\n\n";
/// let error = fields(block).find(|(name, _)| *name == b"error");
/// assert_eq!(error.map(|(_, value)| value), Some(&b"{\"code\":503}"[..]));
/// ```
pub fn fields(raw: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = raw.split(|&byte| byte == CR || byte == LF);
    lines.filter(|line| !line.is_empty() && line[0] != b':').map(split)
}

/// The first line end at or after `at`. Blank lines, which end every frame, are answered without a search.
#[inline]
pub(super) fn line_end(chunk: &[u8], at: usize) -> Option<usize> {
    match chunk.get(at)? {
        &CR | &LF => Some(at),
        _ => memchr2(CR, LF, &chunk[at..]).map(|found| at + found),
    }
}

/// The name and the value of a line. The value loses one leading space; a line without a colon is all name.
#[inline]
pub(super) fn split(line: &[u8]) -> (&[u8], &[u8]) {
    // Nearly every line that matters is this one: no search for its colon.
    let (name, value) = match line.strip_prefix(DATA) {
        Some(value) => (&line[..4], value),
        None => match memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => return (line, &[]),
        },
    };
    (name, bare(value))
}

/// The value without its leading space.
#[inline]
pub(super) fn bare(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}
