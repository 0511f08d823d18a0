//! The sheet a streamed reply is written on, event by event.

use bytes::Bytes;
use serde_json::Value;

use super::super::step::{Chunk, Step};

/// Events so far, each a chunk of its own.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    chunks: Vec<Chunk>,
}

// === impl Sheet ===

impl Sheet {
    /// An event after a wait.
    pub(super) fn paced(&mut self, after_ms: u64, name: Option<&str>, data: &Value) {
        self.chunks.push(Chunk::new(after_ms, event(name, data)));
    }

    /// An event whose name is the `type` of its data.
    pub(super) fn typed(&mut self, after_ms: u64, data: &Value) {
        self.paced(after_ms, data["type"].as_str(), data);
    }

    /// Bytes as they are.
    pub(super) fn raw(&mut self, bytes: impl Into<Bytes>) {
        self.chunks.push(Chunk::new(0, bytes));
    }

    /// How many events there are.
    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    pub(super) fn done(self) -> Step {
        Step::stream(self.chunks)
    }
}

/// A server-sent event.
pub(super) fn event(name: Option<&str>, data: &Value) -> Bytes {
    match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n").into(),
        None => format!("data: {data}\n\n").into(),
    }
}

/// A text in two parts, cut between characters, neither part empty if that can be.
pub(super) fn halves(text: &str) -> Vec<&str> {
    let middle = text.char_indices().map(|(at, _)| at).find(|at| *at >= text.len().div_ceil(2));
    let (left, right) = text.split_at(middle.unwrap_or(text.len()));
    [left, right].into_iter().filter(|part| !part.is_empty()).collect()
}
