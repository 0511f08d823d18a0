//! reqwest as a plain HTTP service.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use serde::{Deserialize, Serialize};
use tower_service::Service;

use crate::failure::{Clock, Code, ConfigError, Failure};
use crate::protocol::limits;
use crate::time::Wall;

/// How connections are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientConfig {
    /// How long a connection may take to stand. 10 s: a handshake takes three round trips, and a name two more.
    #[serde(with = "crate::off::time")]
    pub connect: Option<Duration>,
    /// How long an idle connection is kept. 90 s: shorter than the idle limits of the edges in front of providers.
    #[serde(with = "crate::off::time")]
    pub idle: Option<Duration>,
    /// The `user-agent` sent.
    pub user_agent: String,
}

/// reqwest as a service from `http::Request<Bytes>` to `http::Response<HttpBody>`, for plain HTTP stacks.
///
/// One request a call: reqwest's own retries, redirects and timeouts are off, but for the connect clock. Errors are
/// [`Failure`]s: `CONNECT` before the request could have been seen, `TIMEOUT_CONNECT`, else `TRANSPORT`.
///
/// Rate limits that the headers tell are put into the response's extensions as [`Limits`](crate::chat::Limits), where
/// a rate limiter around it finds them.
#[derive(Clone, Debug)]
pub struct HttpClient {
    client: reqwest::Client,
}

/// A body of [`HttpClient`].
#[derive(Debug)]
pub struct HttpBody(reqwest::Body);

// === impl ClientConfig ===

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connect: Some(Duration::from_secs(10)),
            idle: Some(Duration::from_secs(90)),
            user_agent: concat!("watertight/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

// === impl HttpClient ===

impl HttpClient {
    /// A client with a connection pool of its own; clones share it.
    ///
    /// If the process has no default crypto provider for rustls yet, ring becomes it.
    ///
    /// # Errors
    /// If a duration is zero, or the machine's certificates cannot be read.
    pub fn new(config: &ClientConfig) -> Result<Self, ConfigError> {
        ConfigError::unless_positive("connect", config.connect)?;
        ConfigError::unless_positive("idle", config.idle)?;
        // An error says that one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .retry(reqwest::retry::never())
            .redirect(reqwest::redirect::Policy::none())
            .pool_idle_timeout(config.idle)
            .tcp_nodelay(true)
            .user_agent(&config.user_agent);
        if let Some(connect) = config.connect {
            builder = builder.connect_timeout(connect);
        }
        let client = builder.build().map_err(|error| ConfigError::new("client", chain(&error)))?;
        Ok(Self { client })
    }
}

impl From<reqwest::Client> for HttpClient {
    /// A client of the caller's own. Switch off its retries, redirects and timeouts: a layer cannot see them.
    fn from(client: reqwest::Client) -> Self {
        Self { client }
    }
}

impl Service<Request<Bytes>> for HttpClient {
    type Response = Response<HttpBody>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let request = reqwest::Request::try_from(request.map(reqwest::Body::from));
        let sent = request.map(|request| self.client.execute(request));
        Box::pin(async move {
            let sent = sent.map_err(|error| Failure::local(Code::InvalidRequest, chain(&error)))?;
            let mut response = Response::<reqwest::Body>::from(sent.await.map_err(failure)?);
            let limits = limits::read(response.headers(), Wall::system().unix());
            if !limits.is_empty() {
                response.extensions_mut().insert(limits);
            }
            Ok(response.map(HttpBody))
        })
    }
}

// === impl HttpBody ===

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        Pin::new(&mut self.0).poll_frame(cx).map_err(failure)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// What an error of reqwest means. Its address is left out: it may carry a key.
fn failure(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    let code = match (error.is_connect(), error.is_timeout()) {
        (true, true) => Code::Timeout(Clock::Connect),
        (true, false) => Code::Connect,
        (false, true) => Code::Timeout(Clock::Total),
        (false, false) if never_processed(&error) => Code::Connect,
        (false, false) if error.is_decode() && !is_io(&error) => Code::InvalidResponse,
        (false, false) => Code::Transport,
    };
    Failure::new(code, chain(&error)).with_source(error)
}

/// Whether the other side said that it never looked at the request, so that it is safe to send again.
fn never_processed(error: &reqwest::Error) -> bool {
    causes(error).filter_map(|cause| cause.downcast_ref::<h2::Error>()).any(|error| {
        error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
            || error.reason() == Some(h2::Reason::REFUSED_STREAM)
    })
}

fn is_io(error: &reqwest::Error) -> bool {
    causes(error).any(<dyn Error>::is::<std::io::Error>)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// An error and its causes in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    causes.join(": ")
}
