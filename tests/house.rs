//! The rules of the house, read off its sources.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// The floors, lowest first: a room may name those on its own floor and below.
const FLOORS: [&[&str]; 8] = [
    &["limits", "off", "once", "time"],
    &["chat", "failure", "key"],
    &["keyed", "observe", "event", "store"],
    &["gate"],
    &["layers"],
    &["protocol", "provider"],
    &["config", "stack"],
    &["testing"],
];

/// The longest a source may be, its tests left out.
const LONG: usize = 250;

/// Sources that are longer, and how long they may be: this list may only shrink.
const LONGER: [(&str, usize); 1] = [
    // One page, by rule.
    ("event/fact.rs", 280),
];

fn sources(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            into.push((path, text));
        }
    }
}

/// Every source under `src`, by its path from there, tests left out.
fn house() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    sources(&root, &mut all);
    let name = |path: PathBuf| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
    let untested =
        |text: String| text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
    let is_test = |name: &str| name.ends_with("tests.rs") || name.contains("/tests/");
    all.into_iter()
        .map(|(path, text)| (name(path), untested(text)))
        .filter(|(name, _)| !is_test(name))
        .collect()
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&room))
}

/// The room of a source, by its path.
fn room(name: &str) -> &str {
    name.split(['/', '.']).next().unwrap_or_default()
}

/// The lines that are no comment.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// The rooms that a source names through `crate::`.
fn named(text: &str) -> Vec<String> {
    let code = code(text).collect::<Vec<_>>().join("\n");
    let paths = code.split("crate::").skip(1);
    paths.map(|path| path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}

/// What is wrong with the imports of a source, if anything is.
fn fault(name: &str, text: &str) -> Option<String> {
    let own = floor(room(name))?;
    named(text).into_iter().find_map(|other| match floor(&other) {
        None => Some(format!("{name} imports through the roof: crate::{other}")),
        Some(floor) if floor > own => Some(format!("{name} looks up to {other}")),
        Some(_) => None,
    })
}

/// The layer that a source of another names, if it does.
fn sideways(name: &str, text: &str, layers: &[String]) -> Option<String> {
    let own = name.strip_prefix("layers/")?.split_once('/')?.0;
    let names = |line: &str, other: &str| {
        ["layers::", "super::super::"].iter().any(|path| line.contains(&format!("{path}{other}")))
    };
    let mut others = layers.iter().filter(|other| *other != own);
    others.find(|other| code(text).any(|line| names(line, other))).cloned()
}

/// Scenario: every import of every source.
/// Expected: MUST point to the same floor or below, and never through the roof.
#[test]
fn imports_point_downward() {
    for (name, text) in house().iter().filter(|(name, _)| name != "lib.rs") {
        assert!(floor(room(name)).is_some(), "{name} is in no room");
        assert_eq!(fault(name, text), None);
    }
    assert!(fault("chat/new.rs", "use crate::Failure;").is_some(), "through the roof");
    assert!(fault("chat/new.rs", "use crate::{failure, time};").is_some(), "through the roof, in braces");
    assert!(fault("chat/new.rs", "    let x = crate::layers::retry::X;").is_some(), "upward");
    assert!(fault("layers/new.rs", "use crate::testing::Script;").is_some(), "testing");
    assert!(fault("chat/new.rs", "//! crate::layers").is_none(), "docs may point anywhere");
}

/// Scenario: the rooms of one floor.
/// Expected: at most one of two MUST name the other.
#[test]
fn rooms_of_a_floor_do_not_name_each_other() {
    let house = house();
    let names = |this: &str, other: &str| {
        house.iter().any(|(name, text)| room(name) == this && named(text).iter().any(|named| named == other))
    };
    for rooms in FLOORS {
        for (at, one) in rooms.iter().enumerate() {
            for two in rooms.iter().skip(at + 1) {
                assert!(!(names(one, two) && names(two, one)), "{one} and {two} name each other");
            }
        }
    }
}

/// Scenario: the layers.
/// Expected: none MUST name another.
#[test]
fn layers_do_not_know_each_other() {
    let house = house();
    let layer = |name: &str| Some(name.strip_prefix("layers/")?.split_once('/')?.0.to_owned());
    let mut layers: Vec<_> = house.iter().filter_map(|(name, _)| layer(name)).collect();
    layers.dedup();
    assert!(layers.len() >= 4, "{layers:?}");
    for (name, text) in &house {
        assert_eq!(sideways(name, text, &layers), None, "{name}");
    }
    assert!(sideways("layers/retry/new.rs", "use crate::layers::timeout::Clocks;", &layers).is_some());
    assert!(sideways("layers/retry/new.rs", "use super::super::reset;", &layers).is_some());
}

/// Scenario: the length of every source.
/// Expected: MUST be at most the house's, save for those that are known to be longer.
#[test]
fn sources_are_short() {
    for (name, text) in house() {
        let lines = text.lines().count();
        let known = LONGER.iter().find(|(long, _)| *long == name).map(|(_, most)| *most);
        assert!(lines <= known.unwrap_or(LONG), "{name} has {lines} lines");
    }
}

/// Scenario: the crates that one room alone may name.
/// Expected: no other MUST.
#[test]
fn each_foreign_thing_has_one_door() {
    for (thing, door) in [
        ("tokio::time", "time.rs"),
        ("reqwest::", "provider/"),
        ("toml::", "provider/"),
        (" metrics::{", "event/metrics"),
        ("moka::", "layers/degradation/cache/"),
        ("sha2::", "layers/degradation/cache/"),
    ] {
        for (name, text) in house().iter().filter(|(name, _)| !name.starts_with(door)) {
            assert!(code(text).all(|line| !line.contains(thing)), "{name} names {thing}");
        }
    }
}

/// Names that several public modules have, and may keep: each is said with its module before it, as in `retry::ResponseFuture`
/// or `openai_chat::encode`.
const SAID_WITH_THEIR_MODULE: [&str; 5] = ["Decoder", "ResponseFuture", "decode", "encode", "read"];

/// Names that two public modules have for two things: this list may only shrink.
const SAID_TWICE: [&str; 2] = ["Answer", "Level"];

/// The names that a public module exports and does not take from another: those of its private files, and its own.
fn exported(text: &str) -> Vec<String> {
    let flat = code(text).collect::<Vec<_>>().join(" ");
    let children: Vec<_> = flat.split("pub mod ").skip(1).map(word).collect();
    let mut names = Vec::new();
    for used in flat.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let path = used.strip_prefix("self::").unwrap_or(used);
        let from = word(path);
        if from == "crate" || children.contains(&from) {
            continue;
        }
        let listed = path.split_once('{').map_or(path, |(_, list)| list.trim_end_matches('}'));
        let last = |name: &str| name.rsplit([':', ' ']).next().unwrap_or_default().to_owned();
        names.extend(listed.split(',').map(str::trim).filter(|name| !name.is_empty()).map(last));
    }
    names
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Names that more than one of these sources exports, each with the sources.
fn said_twice(house: &[(String, String)]) -> Vec<(String, Vec<String>)> {
    let mut by_name = std::collections::BTreeMap::<String, Vec<String>>::new();
    for (source, text) in house.iter().filter(|(source, _)| source != "lib.rs") {
        for name in exported(text) {
            by_name.entry(name).or_default().push(source.clone());
        }
    }
    let clashes = by_name
        .into_iter()
        .filter(|(name, sources)| sources.len() > 1 && !SAID_WITH_THEIR_MODULE.contains(&name.as_str()));
    clashes.collect()
}

/// Scenario: what every public module exports.
/// Expected: no two MUST have one name for two things, so that whoever takes from both need rename nothing.
#[test]
fn no_two_modules_have_one_name_for_two_things() {
    let public = |name: &str| !name.contains("/wording/");
    let house: Vec<_> = house().into_iter().filter(|(name, _)| public(name)).collect();
    let clashes = said_twice(&house);
    let new = clashes.iter().find(|(name, _)| !SAID_TWICE.contains(&name.as_str()));
    assert_eq!(new, None, "{clashes:?}");
    let twin = ("testing/mod.rs".to_owned(), "mod x;\npub use self::x::{Other, Reply};".to_owned());
    assert!(said_twice(&[house, vec![twin]].concat()).iter().any(|(name, _)| name == "Reply"), "a new clash");
}
