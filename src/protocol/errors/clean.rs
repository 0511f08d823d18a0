//! An error's message, fit to be shown: no page of HTML, no key.

use super::told::Told;

/// How much of a message is cleaned; more than a failure keeps, so that what is cut cannot end inside a key.
const KEPT: usize = 4 * 1024;

/// Where a page of HTML begins.
const PAGE: [&str; 7] = ["<!doctype", "<html", "<head", "<body", "<title", "<script", "<style"];

/// How keys begin, and how many characters at least must follow.
const KEYS: [(&str, usize); 6] = [("sk-", 1), ("sk_", 8), ("gsk_", 8), ("xai-", 8), ("hf_", 8), ("aiza", 8)];

/// The characters that must follow `sk-` inside a word, where it may as well be `risk-free`.
const INSIDE: usize = 16;

/// What follows `bearer` in a sentence about bearers.
const PLAIN: [&str; 16] = [
    "auth",
    "authentication",
    "authorization",
    "credential",
    "credentials",
    "format",
    "header",
    "is",
    "key",
    "prefix",
    "scheme",
    "token",
    "token.",
    "tokens",
    "was",
    "with",
];

/// What stands in a key's place.
const REDACTED: &str = "[redacted]";

/// The provider's message, led by its code unless it says that itself.
pub(super) fn message(told: &Told<'_>) -> String {
    let text = told.message();
    match told.label() {
        Some(label) if text.is_empty() => clean(label),
        Some(label) if !text.contains(label) => clean(&format!("{label}: {}", head(text))),
        _ => clean(text),
    }
}

/// Takes pages and keys out. Linear in what is kept.
pub(super) fn clean(text: &str) -> String {
    let text = head(text);
    let page = page_at(text);
    let mut rest = &text[..page.unwrap_or(text.len())];
    let mut out = String::with_capacity(rest.len());
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        if let Some(length) = key_len(rest, before.is_alphanumeric()) {
            out.push_str(REDACTED);
            rest = &rest[length..];
            before = ' ';
            continue;
        }
        if let Some(length) = bearer_len(rest, before.is_alphanumeric()) {
            out.push_str("Bearer ");
            out.push_str(REDACTED);
            rest = &rest[length..];
            before = ' ';
            continue;
        }
        rest = &rest[c.len_utf8()..];
        before = c;
        // Other markup stays readable, but is none any more.
        let opens = c == '<' && rest.starts_with(|next: char| next.is_alphabetic() || "/!?".contains(next));
        out.push(if opens { '[' } else { c });
    }
    if page.is_some() {
        out.push_str("[a page of HTML]");
    }
    out
}

/// Where a page begins.
fn page_at(text: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    PAGE.iter().filter_map(|mark| lower.find(mark)).min()
}

/// The length of a key that begins here.
fn key_len(text: &str, inside: bool) -> Option<usize> {
    KEYS.iter().find_map(|&(prefix, least)| {
        let head = text.get(..prefix.len())?;
        let body = head.eq_ignore_ascii_case(prefix).then(|| run(&text[prefix.len()..], is_key))?;
        let least = if inside { INSIDE } else { least };
        (body >= least).then_some(prefix.len() + body)
    })
}

/// The length of `Bearer` with the credential behind it.
fn bearer_len(text: &str, inside: bool) -> Option<usize> {
    const WORD: &str = "bearer";
    let named = !inside && text.get(..WORD.len())?.eq_ignore_ascii_case(WORD);
    let after = named.then(|| &text[WORD.len()..])?;
    let blanks = run(after, |byte| matches!(byte, b' ' | b'\t' | b':' | b'=' | b'"' | b'\'' | b'\n' | b'\r'));
    let token = &after[blanks..][..run(&after[blanks..], |byte| is_key(byte) || b"~+/=".contains(&byte))];
    let plain = PLAIN.iter().any(|word| token.eq_ignore_ascii_case(word));
    (blanks > 0 && !token.is_empty() && !plain).then_some(WORD.len() + blanks + token.len())
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte)
}

fn run(text: &str, belongs: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|byte| !belongs(byte)).unwrap_or(text.len())
}

/// The beginning of a text, cut at a character.
fn head(text: &str) -> &str {
    let mut end = text.len().min(KEPT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
