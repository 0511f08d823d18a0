//! One request under way: its head is awaited, and its answer or its error read.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;

use crate::chat::{Call, Head, Reply, Watch};
use crate::failure::{BoxError, Failure, Fault};
use crate::protocol::{errors, limits};
use crate::time::{Sleep, now, sleep_until};

use super::body::{Gather, Tap};
use super::events::{Events, Read, Source};
use super::service::Shared;
use super::settlement::Settlement;

/// The most of an error's body that is read: enough for any error object, and a bound for echoed requests.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// How long the body of an error is waited for. It comes with its head or not at all, and the head alone says enough
/// to go on with: the status, and often a wait.
const ERROR_GRACE: Duration = Duration::from_secs(2);

pin_project! {
    /// One request under way.
    pub struct ResponseFuture<F, B> {
        #[pin]
        state: State<F, B>,
        asked: Option<Asked>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, B> {
        // => done
        Refused { failure: Option<Failure> },
        // => Judging | done
        Sending { #[pin] call: F },
        // => done
        Judging { judging: Box<Judging<B>> },
    }
}

/// An error whose body is being read.
struct Judging<B> {
    body: Tap<B>,
    gather: Gather,
    status: StatusCode,
    headers: HeaderMap,
    grace: Pin<Box<Sleep>>,
}

/// What the answer is read with.
pub(super) struct Asked {
    pub(super) shared: Arc<Shared>,
    pub(super) model: Arc<str>,
    pub(super) call: Call,
    pub(super) stream: bool,
    pub(super) settlement: Watch<Settlement>,
}

// === impl ResponseFuture ===

impl<F, B> ResponseFuture<F, B> {
    pub(super) const fn sending(call: F, asked: Asked) -> Self {
        Self { state: State::Sending { call }, asked: Some(asked) }
    }

    pub(super) const fn refused(failure: Failure) -> Self {
        Self { state: State::Refused { failure: Some(failure) }, asked: None }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Output = Result<Reply<Events<B>, ((), Watch<Settlement>)>, Failure>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let failure = match this.state.as_mut().project() {
                StateProj::Refused { failure } => {
                    return Poll::Ready(Err(failure.take().expect("polled after it was ready")));
                }
                StateProj::Sending { call } => match ready!(call.poll(cx)) {
                    Ok(response) if response.status().is_success() => {
                        let asked = this.asked.take().expect("polled after it was ready");
                        this.state.set(State::Refused { failure: None });
                        return Poll::Ready(Ok(asked.answer(response)));
                    }
                    Ok(response) => {
                        let (head, body) = response.into_parts();
                        let judging = Box::new(Judging {
                            body: Tap::new(body),
                            gather: Gather::new(MAX_ERROR_BODY),
                            status: head.status,
                            headers: head.headers,
                            grace: Box::pin(sleep_until(now() + ERROR_GRACE)),
                        });
                        this.state.set(State::Judging { judging });
                        continue;
                    }
                    Err(error) => error.into().into_failure(),
                },
                StateProj::Judging { judging } => {
                    let Judging { body, gather, status, headers, grace } = &mut **judging;
                    // A body that breaks, hangs or is too long says no more; the status has spoken.
                    if gather.poll(body, cx).is_pending() {
                        ready!(grace.as_mut().poll(cx));
                    }
                    let asked = this.asked.as_ref().expect("polled after it was ready");
                    asked.judge(*status, headers, &gather.take())
                }
            };
            let asked = this.asked.take().expect("polled after it was ready");
            this.state.set(State::Refused { failure: None });
            return Poll::Ready(Err(asked.fail(failure)));
        }
    }
}

impl<F, B> fmt::Debug for ResponseFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

// === impl Asked ===

impl Asked {
    fn answer<B>(self, response: Response<B>) -> Reply<Events<B>, ((), Watch<Settlement>)>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = response.into_parts();
        let shared = &self.shared;
        let mut head = Head::of(Arc::clone(&shared.name));
        head.model = Some(Arc::clone(&self.model));
        head.candidate = self.call.candidate;
        head.request_id = request_id(&parts.headers);
        head.limits = shared.limits(limits::read(&parts.headers, shared.wall.unix()));
        let profile = &shared.profile;
        let read = Read {
            protocol: profile.protocol,
            dialect: &profile.dialect,
            wall: shared.wall,
            stream: self.stream,
            frames: self.call.frames,
        };
        let (name, instance) = (Arc::clone(&shared.name), Arc::clone(&shared.instance));
        let source = Source { name, model: self.model, instance };
        let events = Events::new(body, &parts.headers, &read, source);
        Reply::new(head, events).follow(self.settlement)
    }

    fn judge(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
        let failure = errors::classify(status, headers, body, self.shared.wall.unix());
        let limits = self.shared.limits(failure.limits().clone());
        failure.with_limits(limits)
    }

    /// Closes the account of an attempt that failed before its head.
    fn fail(mut self, failure: Failure) -> Failure {
        self.settlement.settle((&failure).into());
        failure.with_provider(&self.shared.name).with_model(&self.model)
    }
}

/// The provider's id of the exchange, under any of the names it goes by.
fn request_id(headers: &HeaderMap) -> Option<Box<str>> {
    const NAMES: [&str; 4] = ["x-request-id", "request-id", "apim-request-id", "x-generation-id"];
    let value = NAMES.iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok().map(Into::into)
}
