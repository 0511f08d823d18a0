//! The service: one request a call.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use http_body::Body;
use tower_service::Service;

use crate::chat::{Ask, Limits, Reply, Request, Watch};
use crate::event::{Fact, Facts};
use crate::failure::{BoxError, Code, ConfigError, Failure, Fault};
use crate::protocol::{self, Target, limits};
use crate::time::Wall;

use super::adapt::{adapt, is_option, tell_stripped};
use super::events::Events;
use super::exchange::{Asked, ResponseFuture};
use super::fits::fits;
use super::profile::Profile;
use super::settlement::{self, Settlement};

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
pub(super) struct Shared {
    pub(super) profile: Profile,
    pub(super) name: Arc<str>,
    pub(super) instance: Arc<str>,
    headers: HeaderMap,
    pub(super) wall: Wall,
    facts: Facts,
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
    pub(super) fn limits(&self, told: Limits) -> Limits {
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
        let span = settlement::span(&self.name, &id, sent.uri().host(), call.id);
        let settlement = Watch::new(Settlement::new(&self.facts, call.id, &self.name, span));
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
        match self.shared.prepare(request) {
            Ok((request, asked)) => ResponseFuture::sending(self.client.call(request), asked),
            Err(failure) => ResponseFuture::refused(failure.with_provider(&self.shared.name)),
        }
    }
}

impl<C: Clone> Clone for Provider<C> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), shared: Arc::clone(&self.shared) }
    }
}
