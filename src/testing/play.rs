//! A script played in-process: no socket, so a paused clock moves it and every wait is exact.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use thiserror::Error;
use tower_service::Service;

use super::journal::{Ending, Exchange, Journal};
use super::script::Script;
use super::stage::Stage;
use super::step::{BodyEnd, Connect, Step};
use crate::failure::{Code, Failure};
use crate::time::{Instant, Sleep, sleep, sleep_until};

/// A provider that plays its script to whoever calls it; clones go on with the same script.
///
/// An attempt begins with the first poll of its future. Chunks are due at fixed times from the head on, as if
/// they lay in a socket: a reader that was away finds them waiting.
#[derive(Clone, Debug)]
pub struct Player {
    stage: Arc<Stage>,
}

/// What came of a call instead of a reply, or in the middle of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The connection was refused.
    #[error("connection refused")]
    Refused,
    /// The link broke.
    #[error("connection reset")]
    Reset,
    /// There is no step for this request.
    #[error("the script is over")]
    Over,
}

/// A reply on its way.
pub struct Playing {
    inner: Pin<Box<dyn Future<Output = Result<Response<PlayBody>, Failure>> + Send>>,
}

/// The body of a step, chunk by chunk. Dropped before its end, the client has left.
#[derive(Debug)]
pub struct PlayBody {
    step: Step,
    exchange: Exchange,
    chunk: usize,
    byte: usize,
    due: Instant,
    wait: Option<Pin<Box<Sleep>>>,
    done: bool,
}

// === impl Player ===

impl Player {
    /// A player of this script that writes into this journal.
    #[must_use]
    pub fn new(script: Script, journal: &Journal) -> Self {
        Self { stage: Arc::new(Stage::new(script, journal.clone())) }
    }

    /// The journal it writes into.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        self.stage.journal()
    }
}

impl Service<Request<Bytes>> for Player {
    type Response = Response<PlayBody>;
    type Error = Failure;
    type Future = Playing;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Playing {
        Playing { inner: Box::pin(play(Arc::clone(&self.stage), request)) }
    }
}

// === impl PlayError ===

impl PlayError {
    /// What the same fault is called when a socket has it.
    #[must_use]
    pub fn kind(self) -> std::io::ErrorKind {
        match self {
            Self::Refused => std::io::ErrorKind::ConnectionRefused,
            Self::Reset => std::io::ErrorKind::ConnectionReset,
            Self::Over => std::io::ErrorKind::Other,
        }
    }
}

impl From<PlayError> for Failure {
    /// As an HTTP client would tell it: `CONNECT` for a refused connection, else `TRANSPORT`.
    fn from(error: PlayError) -> Self {
        let code = match error {
            PlayError::Refused => Code::Connect,
            PlayError::Reset | PlayError::Over => Code::Transport,
        };
        Self::new(code, error.to_string()).with_source(error)
    }
}

// === impl Playing ===

impl Future for Playing {
    type Output = Result<Response<PlayBody>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner.as_mut().poll(cx)
    }
}

impl std::fmt::Debug for Playing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Playing").finish_non_exhaustive()
    }
}

// === impl PlayBody ===

impl PlayBody {
    fn new(step: Step, exchange: Exchange) -> Self {
        let mut body =
            Self { step, exchange, chunk: 0, byte: 0, due: Instant::now(), wait: None, done: false };
        body.due += body.step.chunks.first().map_or_else(Default::default, |chunk| chunk.after);
        body.settle();
        body
    }

    /// The next bytes of the current chunk, none when it has no more.
    fn piece(&mut self) -> Option<Bytes> {
        let chunk = self.step.chunks.get(self.chunk)?;
        let from = self.byte;
        let to = if chunk.bytewise { chunk.data.len().min(from + 1) } else { chunk.data.len() };
        self.byte = to;
        let piece = (from < to).then(|| chunk.data.slice(from..to));
        if to == chunk.data.len() {
            self.byte = 0;
            self.chunk += 1;
            self.due += self.step.chunks.get(self.chunk).map_or_else(Default::default, |next| next.after);
            self.settle();
        }
        piece
    }

    /// Writes down a proper end as soon as nothing can come after it: the reader need not ask once more.
    fn settle(&mut self) {
        if self.chunk == self.step.chunks.len() && self.step.end == BodyEnd::Close {
            self.done = true;
            self.exchange.end(Ending::Served);
        }
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.due > Instant::now() {
            let due = self.due;
            ready!(self.wait.get_or_insert_with(|| Box::pin(sleep_until(due))).as_mut().poll(cx));
        }
        self.wait = None;
        Poll::Ready(())
    }
}

impl Body for PlayBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        while !self.done && self.chunk < self.step.chunks.len() {
            ready!(self.poll_due(cx));
            if let Some(piece) = self.piece() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
        match self.step.end {
            _ if self.done => Poll::Ready(None),
            BodyEnd::Hang => Poll::Pending,
            BodyEnd::Close | BodyEnd::Reset => {
                self.done = true;
                self.exchange.end(Ending::Broken);
                Poll::Ready(Some(Err(PlayError::Reset.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }

    fn size_hint(&self) -> SizeHint {
        if self.done { SizeHint::with_exact(0) } else { SizeHint::default() }
    }
}

async fn play(stage: Arc<Stage>, request: Request<Bytes>) -> Result<Response<PlayBody>, Failure> {
    let (step, mut exchange) = stage.enter(request);
    let Some(step) = step else {
        exchange.end(Ending::Over);
        return Err(PlayError::Over.into());
    };
    if !step.delay.is_zero() {
        sleep(step.delay).await;
    }
    match step.connect {
        Connect::Ok => {
            let mut response = Response::new(());
            *response.status_mut() = step.status;
            *response.headers_mut() = step.headers.clone();
            if step.gzip {
                response.headers_mut().remove(CONTENT_ENCODING);
                response.headers_mut().remove(CONTENT_LENGTH);
            }
            Ok(response.map(|()| PlayBody::new(step, exchange)))
        }
        Connect::Refuse => {
            exchange.end(Ending::Refused);
            Err(PlayError::Refused.into())
        }
        Connect::Reset => {
            exchange.end(Ending::Broken);
            Err(PlayError::Reset.into())
        }
    }
}

#[cfg(test)]
mod tests;
