//! What the scripted provider saw, attempt by attempt.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use serde_json::Value;
use tokio::sync::watch;

use crate::time::Instant;

/// The record of all attempts; clones share it, and several providers may write into one.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    book: Arc<watch::Sender<Vec<Seen>>>,
}

/// One attempt, as the provider saw it.
///
/// Over loopback a refused connection is broken unread: its path is empty and so is all else that was asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Seen {
    /// The provider that was asked.
    pub provider: String,
    /// The method of the request.
    pub method: Method,
    /// Path and query of the request.
    pub path: String,
    /// The headers of the request: names in lower case, values to the byte.
    pub headers: HeaderMap,
    /// The body of the request.
    pub body: Bytes,
    /// When the attempt began.
    pub at: Instant,
    /// When it ended, none while it goes on.
    pub closed_at: Option<Instant>,
    /// How it ended, none while it goes on.
    pub ending: Option<Ending>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The step was played to a proper end.
    Served,
    /// The script refused the connection.
    Refused,
    /// The script broke the link.
    Broken,
    /// The client went away first (or the server was stopped).
    Left,
    /// The script was over before this request.
    Over,
}

/// An attempt that goes on. Dropped without an ending, the client has left.
#[derive(Debug)]
pub(super) struct Exchange {
    journal: Journal,
    page: usize,
    open: bool,
}

// === impl Journal ===

impl Journal {
    /// An empty journal.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All attempts so far, in order of arrival.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.book.borrow().clone()
    }

    /// How many attempts there were, refused ones too.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.book.borrow().len()
    }

    /// How many attempts this provider saw, refused ones too.
    #[must_use]
    pub fn attempts_of(&self, provider: &str) -> usize {
        self.count(|seen| seen.provider == provider)
    }

    /// How many attempts still go on.
    #[must_use]
    pub fn open(&self) -> usize {
        self.count(|seen| seen.ending.is_none())
    }

    /// How many requests came after the script was over.
    #[must_use]
    pub fn over(&self) -> usize {
        self.count(|seen| seen.ending == Some(Ending::Over))
    }

    /// Waits until the journal reads as told.
    pub async fn until(&self, mut reads: impl FnMut(&[Seen]) -> bool) {
        let mut pages = self.book.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        drop(pages.wait_for(|book| reads(book)).await);
    }

    /// Waits until there were so many attempts.
    pub async fn attempted(&self, attempts: usize) {
        self.until(|book| book.len() >= attempts).await;
    }

    /// Waits until the `nth` attempt (from 0) has ended, and gives it.
    pub async fn ended(&self, nth: usize) -> Seen {
        // No page is ever torn out, so the first round gives it.
        loop {
            self.until(|book| book.get(nth).is_some_and(|seen| seen.ending.is_some())).await;
            if let Some(seen) = self.seen().into_iter().nth(nth) {
                return seen;
            }
        }
    }

    /// Writes the begin of an attempt.
    pub(super) fn enter(&self, provider: &str, request: Request<Bytes>) -> Exchange {
        let (head, body) = request.into_parts();
        let seen = Seen {
            provider: provider.to_owned(),
            method: head.method,
            path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
            headers: head.headers,
            body,
            at: Instant::now(),
            closed_at: None,
            ending: None,
        };
        let mut page = 0;
        self.book.send_modify(|book| {
            page = book.len();
            book.push(seen);
        });
        Exchange { journal: self.clone(), page, open: true }
    }

    fn count(&self, of: impl Fn(&Seen) -> bool) -> usize {
        self.book.borrow().iter().filter(|seen| of(seen)).count()
    }
}

// === impl Seen ===

impl Seen {
    /// The first header of this name, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON, if it is.
    #[must_use]
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

// === impl Exchange ===

impl Exchange {
    /// Writes the end of the attempt; only the first end counts.
    pub(super) fn end(&mut self, ending: Ending) {
        if std::mem::replace(&mut self.open, false) {
            self.journal.book.send_modify(|book| {
                book[self.page].ending = Some(ending);
                book[self.page].closed_at = Some(Instant::now());
            });
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end(Ending::Left);
    }
}
