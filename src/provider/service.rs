//! The service: one request a call.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::chat::{Ask, Call, Head, Limits, Reply, Request, Watch};
use crate::event::{Fact, Facts};
use crate::failure::{BoxError, Code, ConfigError, Failure, Fault};
use crate::protocol::{self, Target, errors, limits};
use crate::time::{Sleep, Wall, now, sleep_until};

use super::adapt::{adapt, is_option, tell_stripped};
use super::events::{Events, Gather, Read, Source, Tap};
use super::fits::fits;
use super::profile::Profile;
use super::settlement::Settlement;

/// The most of an error's body that is read: enough for any error object, and a bound for echoed requests.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// How long the body of an error is waited for. It comes with its head or not at all, and the head alone says enough
/// to go on with: the status, and often a wait.
const ERROR_GRACE: Duration = Duration::from_secs(2);

/// A provider as a service: [`Request`] in, [`Reply`] out, one HTTP request a call.
///
/// A call that the provider cannot serve is refused locally before anything is sent. Dropping the future or the
/// reply closes the request upstream. A response that is not a stream where one was asked is read as what it is.
#[derive(Debug)]
pub struct Provider<C> {
    client: C,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    profile: Profile,
    name: Arc<str>,
    instance: Arc<str>,
    headers: HeaderMap,
    wall: Wall,
    facts: Facts,
}

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
struct Asked {
    shared: Arc<Shared>,
    model: Arc<str>,
    call: Call,
    stream: bool,
    settlement: Watch<Settlement>,
}

// === impl Provider ===

#[cfg(feature = "client")]
impl Provider<super::HttpClient> {
    /// The provider of a profile, over a reqwest client with the defaults.
    ///
    /// # Errors
    /// If the profile cannot work, or its key is missing.
    pub fn new(profile: Profile) -> Result<Self, ConfigError> {
        let client = super::HttpClient::new(&super::ClientConfig::default())?;
        Self::over(client, profile)
    }
}

impl<C> Provider<C> {
    /// The provider of a profile, over any HTTP client that is a service.
    ///
    /// # Errors
    /// If the profile cannot work, or its key is missing.
    pub fn over(client: C, profile: Profile) -> Result<Self, ConfigError> {
        profile.validate()?;
        profile.needs_key()?;
        for (name, model) in &profile.models {
            if let Some(unknown) = model.rejects.iter().find(|option| !is_option(option)) {
                let field = format!("models.{name}.rejects");
                return Err(ConfigError::new(field, format!("names no option: `{unknown}`")));
            }
        }
        let name: Arc<str> = profile.name.as_str().into();
        let mut credential = DefaultHasher::new();
        profile.secret().map(|key| key.expose().to_owned()).hash(&mut credential);
        // Half of the hash tells keys apart and says nothing about them.
        let instance = format!("{name}#{:08x}", credential.finish() >> 32).into();
        let headers = profile.headers()?;
        let shared =
            Shared { profile, name, instance, headers, wall: Wall::system(), facts: Facts::default() };
        Ok(Self { client, shared: Arc::new(shared) })
    }

    /// Tells facts to this sink.
    #[must_use]
    pub fn facts(self, facts: &Facts) -> Self {
        self.rebuild(|shared| shared.facts = facts.clone())
    }

    /// Reads dates by this wall clock.
    #[must_use]
    pub fn wall(self, wall: Wall) -> Self {
        self.rebuild(|shared| shared.wall = wall)
    }

    /// The profile.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    fn rebuild(self, change: impl FnOnce(&mut Shared)) -> Self {
        let Shared { profile, name, instance, headers, wall, facts } = &*self.shared;
        let mut shared = Shared {
            profile: profile.clone(),
            name: Arc::clone(name),
            instance: Arc::clone(instance),
            headers: headers.clone(),
            wall: *wall,
            facts: facts.clone(),
        };
        change(&mut shared);
        Self { client: self.client, shared: Arc::new(shared) }
    }
}

impl Shared {
    /// The limits told, request limits being per day with some.
    fn limits(&self, told: Limits) -> Limits {
        if self.profile.daily_requests { limits::daily_requests(&told) } else { told }
    }

    /// The HTTP request, and what its answer is read with.
    fn prepare(self: &Arc<Self>, mut request: Request) -> Result<(http::Request<Bytes>, Asked), Failure> {
        let asked = request.model.clone();
        let (id, model) = self.profile.model(&asked);
        let id: Arc<str> = id.into();
        fits(&self.profile, model, &request)?;
        let call = request.call();
        adapt(&mut request, model, |option, change| {
            self.facts.emit(&Fact::Adapted { call: call.id, provider: &self.name, option, change });
        });
        let mut target = Target::new(&id, &self.profile.dialect);
        target.instance = Some(&self.instance);
        target.owns_unlabelled = call.candidate == 0;
        tell_stripped(&request, &target, &self.name, &self.facts);
        let body = protocol::encode(self.profile.protocol, &request, &target)?;
        let uri =
            self.profile.uri(&id).map_err(|error| Failure::local(Code::InvalidRequest, error.to_string()))?;
        let mut sent = http::Request::new(body);
        *sent.method_mut() = Method::POST;
        *sent.uri_mut() = uri;
        *sent.headers_mut() = self.headers.clone();
        self.facts.emit(&Fact::Attempt {
            call: call.id,
            provider: &self.name,
            model: &id,
            attempt: call.attempt,
        });
        let settlement = Watch::new(Settlement::new(&self.facts, call.id, &self.name));
        Ok((sent, Asked { shared: Arc::clone(self), model: id, call, stream: request.stream, settlement }))
    }
}

impl<C, B> Service<Request> for Provider<C>
where
    C: Service<http::Request<Bytes>, Response = Response<B>>,
    C::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Response = Reply<Events<B>, ((), Watch<Settlement>)>;
    type Error = Failure;
    type Future = ResponseFuture<C::Future, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let ready = self.client.poll_ready(cx);
        ready.map_err(|error| error.into().into_failure().with_provider(&self.shared.name))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (state, asked) = match self.shared.prepare(request) {
            Ok((request, asked)) => (State::Sending { call: self.client.call(request) }, Some(asked)),
            Err(failure) => {
                let failure = Some(failure.with_provider(&self.shared.name));
                (State::Refused { failure }, None)
            }
        };
        ResponseFuture { state, asked }
    }
}

impl<C: Clone> Clone for Provider<C> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), shared: Arc::clone(&self.shared) }
    }
}

// === impl ResponseFuture ===

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
        head.model = Some(self.model);
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
        let source = Source { name: Arc::clone(&shared.name), instance: Arc::clone(&shared.instance) };
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
        failure.with_provider(&self.shared.name)
    }
}

/// The provider's id of the exchange, under any of the names it goes by.
fn request_id(headers: &HeaderMap) -> Option<Box<str>> {
    const NAMES: [&str; 4] = ["x-request-id", "request-id", "apim-request-id", "x-generation-id"];
    let value = NAMES.iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok().map(Into::into)
}
