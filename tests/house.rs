//! The rules of the house, read off its sources.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// The floors, lowest first: a room may name those on its own floor and below.
const FLOORS: [&[&str]; 7] = [
    &["time"],
    &["chat", "failure"],
    &["observe", "event"],
    &["layers"],
    &["protocol", "provider"],
    &["stack"],
    &["testing"],
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
    let code = |text: String| text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
    let is_test = |name: &str| name.ends_with("tests.rs") || name.contains("/tests/");
    all.into_iter().map(|(path, text)| (name(path), code(text))).filter(|(name, _)| !is_test(name)).collect()
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&room))
}

/// The rooms that a source names through `crate::`, comments left out.
fn named(text: &str) -> Vec<String> {
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let paths = code.split("crate::").skip(1);
    paths.map(|path| path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}

/// Scenario: every import of every source.
/// Expected: MUST point to the same floor or below, and never through the roof.
#[test]
fn imports_point_downward() {
    for (name, text) in house().iter().filter(|(name, _)| name != "lib.rs") {
        let room = name.split(['/', '.']).next().unwrap();
        let own = floor(room).unwrap_or_else(|| panic!("{name} is in no room"));
        for other in named(text) {
            let below =
                floor(&other).unwrap_or_else(|| panic!("{name} imports through the roof: crate::{other}"));
            assert!(below <= own, "{name} looks up to {other}");
            assert!(other != "testing" || room == "testing", "{name} names testing");
        }
    }
}

/// Scenario: the layers.
/// Expected: none MUST name another.
#[test]
fn layers_do_not_know_each_other() {
    let layers = ["timeout", "retry", "failover", "reset"];
    for (name, text) in
        house().iter().filter(|(name, _)| name.starts_with("layers/") && name != "layers/mod.rs")
    {
        let own = name.split('/').nth(1).unwrap();
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for other in layers.iter().filter(|other| **other != own) {
            let names = |line: &&str| {
                line.contains(&format!("layers::{other}")) || line.contains(&format!("super::super::{other}"))
            };
            assert!(!code.iter().any(names), "{name} names {other}");
        }
    }
}

/// Scenario: the crates that one room alone may name.
/// Expected: no other MUST.
#[test]
fn each_foreign_thing_has_one_door() {
    for (thing, door) in [("tokio::time", "time.rs"), ("reqwest::", "provider/"), ("toml::", "provider/")] {
        for (name, text) in house().iter().filter(|(name, _)| !name.starts_with(door)) {
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            assert!(code.clone().all(|line| !line.contains(thing)), "{name} names {thing}");
        }
    }
}
