//! Server-sent events, decoded as they come.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;

use crate::chat::{Event, Protocol};
use crate::failure::{BoxError, Code, Failure};
use crate::protocol::{Decoder, Dialect, sse};
use crate::time::{Sleep, Wall, now, sleep_until};

use super::body::Tap;

/// How long the usage or the sentinel is waited for once the answer is complete. Providers send them in the same
/// packet; whoever has not within this will not, and the answer is a success without them.
const GRACE: Duration = Duration::from_secs(1);

/// Server-sent events, decoded as they come.
pub(super) struct Streaming {
    parser: sse::Parser,
    decoder: Decoder,
    /// Whether the bytes of each event are told before it.
    frames: bool,
    grace: Option<Pin<Box<Sleep>>>,
}

// === impl Streaming ===

impl Streaming {
    pub(super) fn new(protocol: Protocol, dialect: &Dialect, wall: Wall, frames: bool) -> Self {
        let parser = sse::Parser::new(sse::DEFAULT_LIMIT);
        Self { parser, decoder: Decoder::new(protocol, dialect, wall), frames, grace: None }
    }

    /// Reads until there is an event, a failure or the end.
    pub(super) fn poll<B>(
        &mut self,
        body: &mut Tap<B>,
        ready: &mut VecDeque<Event>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        while let Some(item) = self.parser.next().map_err(|error| too_large(&error))? {
            self.read(item, ready)?;
            if !ready.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        match body.poll_data(cx) {
            Poll::Ready(Some(Ok(data))) => {
                self.parser.push(data);
                Poll::Ready(Ok(()))
            }
            // The answer was complete: what breaks after it breaks nothing.
            Poll::Ready(Some(Err(failure))) if !self.decoder.is_settled() => Poll::Ready(Err(failure)),
            Poll::Ready(Some(Err(_))) => Poll::Ready(self.decoder.end(ready)),
            Poll::Ready(None) => {
                while let Some(item) = self.parser.finish().map_err(|error| too_large(&error))? {
                    self.read_last(item, ready)?;
                }
                let ended = if self.decoder.is_done() { Ok(()) } else { self.decoder.end(ready) };
                Poll::Ready(ended)
            }
            Poll::Pending if self.decoder.is_settled() => {
                let grace = self.grace.get_or_insert_with(|| Box::pin(sleep_until(now() + GRACE)));
                ready!(grace.as_mut().poll(cx));
                Poll::Ready(self.decoder.end(ready))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// What was not terminated counts only if it is whole: a sentinel or a terminal event, never half of one.
    fn read_last(&mut self, item: sse::Item, ready: &mut VecDeque<Event>) -> Result<(), Failure> {
        match &item {
            sse::Item::Event(frame) if !frame.is_terminated() => {
                let whole = frame.data().starts_with(b"[DONE]")
                    || serde_json::from_slice::<serde::de::IgnoredAny>(frame.data()).is_ok();
                if whole { self.read(item, ready) } else { Ok(()) }
            }
            _ => self.read(item, ready),
        }
    }

    fn read(&mut self, item: sse::Item, ready: &mut VecDeque<Event>) -> Result<(), Failure> {
        match item {
            sse::Item::Event(frame) => {
                if self.frames {
                    ready.push_back(Event::Frame(frame.raw().clone()));
                }
                self.decoder.frame(&frame, ready)
            }
            sse::Item::Comment(_) | sse::Item::KeepAlive(_) => {
                ready.push_back(Event::KeepAlive);
                Ok(())
            }
            sse::Item::Tail(_) => Ok(()),
        }
    }
}

fn too_large(error: &sse::TooLarge) -> Failure {
    Failure::new(Code::InvalidResponse, error.to_string())
}
