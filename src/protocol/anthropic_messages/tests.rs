//! What this protocol promises, and what its speakers do instead.

mod replies;
mod requests;
mod streams;
mod translated;

use std::time::Duration;

use serde_json::Value;

use crate::chat::{Parts, Request};
use crate::protocol::{Dialect, Target};
use crate::time::Wall;

use super::{encode, read};

/// A wall clock that stands at the epoch.
fn wall() -> Wall {
    Wall::at(Duration::ZERO)
}

fn read_value(value: &Value) -> Request {
    read(value.to_string().as_bytes()).unwrap()
}

/// Writes for a target that differs in nothing.
fn sent(parts: &Parts) -> Value {
    sent_to(parts, &Target::new("m", &Dialect::default()))
}

fn sent_to(parts: &Parts, target: &Target<'_>) -> Value {
    serde_json::from_slice(&encode(parts, target).unwrap()).unwrap()
}
