//! A body as it is read, chunk by chunk or to its end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Body;

use crate::failure::{BoxError, Code, Failure, Fault};

/// How many frames of a body are read without a wait before other tasks have their turn.
const STREAK: u32 = 128;

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

// === impl Tap ===

impl<B> Tap<B> {
    pub(super) const fn new(body: B) -> Self {
        Self { body: Some(body), streak: 0 }
    }

    pub(super) const fn is_open(&self) -> bool {
        self.body.is_some()
    }

    /// Lets go of the body.
    pub(super) fn cut(&mut self) {
        self.body = None;
    }
}

impl<B> Tap<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// The next data; none at all where a frame carries something else. `None` after the end.
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
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
    pub(super) fn close(&mut self, cx: &mut Context<'_>) {
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
