//! The body of a response, read into events.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http::HeaderMap;
use http_body::Body;

use crate::chat::{Completion, Content, Event, Protocol};
use crate::failure::{BoxError, Failure};
use crate::protocol::{self, Dialect};
use crate::time::Wall;

use super::body::{Gather, Tap};
use super::streaming::Streaming;

/// The most of a whole answer that is read: twice the largest body a provider takes, which is what it may echo.
const MAX_WHOLE: usize = 64 * 1024 * 1024;

/// The body of a response, read into events. It ends with `Completed` or a failure, and drops the body then.
pub struct Events<B> {
    body: Tap<B>,
    reading: Reading,
    ready: VecDeque<Event>,
    /// What ends the events that are ready.
    failed: Option<Failure>,
    source: Source,
}

/// Whose events they are.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Named in failures.
    pub(super) name: Arc<str>,
    pub(super) model: Arc<str>,
    /// Named in the replay state that it makes.
    pub(super) instance: Arc<str>,
}

enum Reading {
    Stream(Box<Streaming>),
    /// One JSON object; told in pieces first where a stream was asked.
    Whole {
        gather: Gather,
        protocol: Protocol,
        wall: Wall,
        pieces: bool,
        frames: bool,
    },
}

/// How a body is read.
#[derive(Debug)]
pub(super) struct Read<'a> {
    pub(super) protocol: Protocol,
    pub(super) dialect: &'a Dialect,
    pub(super) wall: Wall,
    pub(super) stream: bool,
    pub(super) frames: bool,
}

// === impl Events ===

impl<B> Events<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// Reads a body as what its headers say it is, else as what was asked.
    pub(super) fn new(body: B, headers: &HeaderMap, asked: &Read<'_>, source: Source) -> Self {
        let kind =
            headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim();
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        let streamed =
            is("text/event-stream") || (asked.stream && !is("application/json") && !is("text/html"));
        let &Read { protocol, dialect, wall, stream, frames } = asked;
        let reading = if streamed {
            Reading::Stream(Box::new(Streaming::new(protocol, dialect, wall, frames)))
        } else {
            Reading::Whole { gather: Gather::new(MAX_WHOLE), protocol, wall, pieces: stream, frames }
        };
        Self { body: Tap::new(body), reading, ready: VecDeque::new(), failed: None, source }
    }

    /// Fills the queue, or ends.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let (body, ready) = (&mut self.body, &mut self.ready);
        match &mut self.reading {
            Reading::Whole { gather, protocol, wall, pieces, frames } => {
                ready!(gather.poll(body, cx))?;
                let bytes = gather.take();
                let completion = protocol::decode(*protocol, &bytes, *wall)?;
                if *frames {
                    ready.push_back(Event::Frame(bytes));
                }
                if *pieces {
                    tell_in_pieces(&completion, ready);
                }
                ready.push_back(Event::Completed(Box::new(completion)));
                Poll::Ready(Ok(()))
            }
            Reading::Stream(streaming) => streaming.poll(body, ready, cx),
        }
    }

    fn label(&self, event: &mut Event) {
        let Event::Completed(completion) = event else { return };
        for part in &mut completion.message.parts {
            if let Content::Reasoning(reasoning) = &mut part.content {
                reasoning.origin = Some(Arc::clone(&self.source.instance));
            }
        }
    }
}

impl<B> Stream for Events<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(mut event) = self.ready.pop_front() {
                if matches!(event, Event::Completed(_)) {
                    self.body.close(cx);
                    self.label(&mut event);
                }
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(failure) = self.failed.take() {
                let failure = failure.with_provider(&self.source.name).with_model(&self.source.model);
                return Poll::Ready(Some(Err(failure)));
            }
            if !self.body.is_open() {
                return Poll::Ready(None);
            }
            if let Err(failure) = ready!(self.poll_fill(cx)) {
                // What was read before it comes first; nothing is read after it.
                self.body.cut();
                self.failed = Some(failure);
            }
        }
    }
}

impl<B> fmt::Debug for Events<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("open", &self.body.is_open()).finish_non_exhaustive()
    }
}

/// A whole answer told as a stream would tell it, but for its end.
fn tell_in_pieces(completion: &Completion, ready: &mut VecDeque<Event>) {
    ready.push_back(Event::Started { id: completion.id.clone(), model: completion.model.clone() });
    for (index, part) in (0..).zip(&completion.message.parts) {
        ready.extend(Event::deltas(index, &part.content));
        ready.push_back(Event::Closed { index, part: Some(Box::new(part.clone())) });
    }
}
