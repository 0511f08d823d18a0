//! The body of a response, read into events.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use http::HeaderMap;
use http_body::Body;

use crate::chat::{Completion, Content, Event, Protocol, ToolCallStart};
use crate::failure::{BoxError, Code, Failure, Fault};
use crate::protocol::{self, Decoder, Dialect, sse};
use crate::time::{Sleep, Wall, now, sleep_until};

/// The most of a whole answer that is read: twice the largest body a provider takes, which is what it may echo.
const MAX_WHOLE: usize = 64 * 1024 * 1024;

/// How long the usage or the sentinel is waited for once the answer is complete. Providers send them in the same
/// packet; whoever has not within this will not, and the answer is a success without them.
const GRACE: Duration = Duration::from_secs(1);

/// How many frames of a body are read without a wait before other tasks have their turn.
const STREAK: u32 = 128;

/// The body of a response, read into events. It ends with `Completed` or a failure, and drops the body then.
pub struct Events<B> {
    body: Tap<B>,
    reading: Reading,
    ready: VecDeque<Event>,
    /// What ends the events that are ready.
    failed: Option<Failure>,
    frames: bool,
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
    /// Server-sent events.
    Stream(Box<Streaming>),
    /// One JSON object; told in pieces first where a stream was asked.
    Whole { gather: Gather, protocol: Protocol, wall: Wall, pieces: bool },
}

struct Streaming {
    parser: sse::Parser,
    decoder: Decoder,
    grace: Option<Pin<Box<Sleep>>>,
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

/// A body, let go of at its end. A body that is never out of frames is left in between for others to run.
#[derive(Debug)]
pub(super) struct Tap<B> {
    body: Option<B>,
    streak: u32,
}

/// A body gathered up to a limit.
#[derive(Debug)]
pub(super) struct Gather {
    bytes: BytesMut,
    limit: usize,
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
            let parser = sse::Parser::new(sse::DEFAULT_LIMIT);
            let decoder = Decoder::new(protocol, dialect, wall);
            Reading::Stream(Box::new(Streaming { parser, decoder, grace: None }))
        } else {
            Reading::Whole { gather: Gather::new(MAX_WHOLE), protocol, wall, pieces: stream }
        };
        Self { body: Tap::new(body), reading, ready: VecDeque::new(), failed: None, frames, source }
    }

    /// Fills the queue, or ends.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let (body, ready) = (&mut self.body, &mut self.ready);
        match &mut self.reading {
            Reading::Whole { gather, protocol, wall, pieces } => {
                ready!(gather.poll(body, cx))?;
                let bytes = gather.take();
                let completion = protocol::decode(*protocol, &bytes, *wall)?;
                if self.frames {
                    ready.push_back(Event::Frame(bytes));
                }
                if *pieces {
                    tell_in_pieces(&completion, ready);
                }
                ready.push_back(Event::Completed(Box::new(completion)));
                Poll::Ready(Ok(()))
            }
            Reading::Stream(streaming) => streaming.poll(body, self.frames, ready, cx),
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

// === impl Streaming ===

impl Streaming {
    /// Reads until there is an event, a failure or the end.
    fn poll<B>(
        &mut self,
        body: &mut Tap<B>,
        frames: bool,
        ready: &mut VecDeque<Event>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        while let Some(item) = self.parser.next().map_err(|error| too_large(&error))? {
            self.read(item, frames, ready)?;
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
                    self.read_last(item, frames, ready)?;
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
    fn read_last(
        &mut self,
        item: sse::Item,
        frames: bool,
        ready: &mut VecDeque<Event>,
    ) -> Result<(), Failure> {
        match &item {
            sse::Item::Event(frame) if !frame.is_terminated() => {
                let whole = frame.data().starts_with(b"[DONE]")
                    || serde_json::from_slice::<serde::de::IgnoredAny>(frame.data()).is_ok();
                if whole { self.read(item, frames, ready) } else { Ok(()) }
            }
            _ => self.read(item, frames, ready),
        }
    }

    fn read(&mut self, item: sse::Item, frames: bool, ready: &mut VecDeque<Event>) -> Result<(), Failure> {
        match item {
            sse::Item::Event(frame) => {
                if frames {
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

/// A whole answer told as a stream would tell it, but for its end.
fn tell_in_pieces(completion: &Completion, ready: &mut VecDeque<Event>) {
    ready.push_back(Event::Started { id: completion.id.clone(), model: completion.model.clone() });
    for (index, part) in (0..).zip(&completion.message.parts) {
        match &part.content {
            Content::Text(text) => ready.push_back(Event::Text { index, text: text.clone() }),
            Content::Refusal(text) => ready.push_back(Event::Refusal { index, text: text.clone() }),
            Content::Reasoning(reasoning) => {
                ready.push_back(Event::Reasoning { index, text: reasoning.text.clone() });
            }
            Content::ToolCall(call) => {
                let start = Box::new(ToolCallStart::new(call.id.as_str(), call.name.as_str()));
                ready.push_back(Event::ToolCall { index, start });
                ready.push_back(Event::ToolArguments { index, text: call.arguments.clone() });
            }
            _ => {}
        }
        ready.push_back(Event::Closed { index, part: Some(Box::new(part.clone())) });
    }
}

fn too_large(error: &sse::TooLarge) -> Failure {
    Failure::new(Code::InvalidResponse, error.to_string())
}

// === impl Tap ===

impl<B> Tap<B> {
    pub(super) const fn new(body: B) -> Self {
        Self { body: Some(body), streak: 0 }
    }

    const fn is_open(&self) -> bool {
        self.body.is_some()
    }

    /// Lets go of the body.
    fn cut(&mut self) {
        self.body = None;
    }
}

impl<B> Tap<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// The next data; none at all where a frame carries something else. `None` after the end.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        if self.streak == STREAK {
            self.streak = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else {
            self.streak = 0;
            return Poll::Pending;
        };
        self.streak += 1;
        let data = frame.map(|frame| match frame {
            Ok(frame) => Ok(frame.into_data().unwrap_or_default()),
            Err(error) => Err(error.into().into_failure()),
        });
        if !matches!(data, Some(Ok(_))) {
            self.cut();
        }
        Poll::Ready(data)
    }

    /// Lets go of the body, looking once whether it ended so that its connection can serve again.
    fn close(&mut self, cx: &mut Context<'_>) {
        if let Some(mut body) = self.body.take() {
            let _ = Pin::new(&mut body).poll_frame(cx);
        }
    }
}

// === impl Gather ===

impl Gather {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: BytesMut::new(), limit }
    }

    /// Reads to the end of a body, or to the limit.
    pub(super) fn poll<B>(&mut self, body: &mut Tap<B>, cx: &mut Context<'_>) -> Poll<Result<(), Failure>>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        loop {
            match ready!(body.poll_data(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(Err(failure)) => return Poll::Ready(Err(failure)),
                Some(Ok(data)) => {
                    let room = self.limit - self.bytes.len();
                    self.bytes.extend_from_slice(&data[..data.len().min(room)]);
                    if data.len() > room {
                        let message = format!("the body is larger than {} bytes", self.limit);
                        return Poll::Ready(Err(Failure::new(Code::InvalidResponse, message)));
                    }
                }
            }
        }
    }

    pub(super) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.bytes).freeze()
    }
}
