//! Whether a provider can serve a request at all: asked before anything is sent.
//!
//! The provider itself asks. Where a line or a budget stands before it, [`FitsLayer`] on top of them asks first, so that
//! what does not fit waits for nothing and reserves nothing; a stack made by
//! [`Layers::over_providers`](crate::stack::Layers::over_providers) has it there.

use std::sync::Arc;

use tower_layer::Layer;

use crate::chat::{Ask, Content, Part, Protocol, Request};
use crate::failure::{Code, Failure, Skip};
use crate::gate::{Admission, Admit, Gate};
use crate::observe::{End, Observer};
use crate::protocol::openai_responses;

use super::model::Model;
use super::profile::Profile;

/// The most that a million output tokens may cost for a call, in US dollars. Attach it to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriceCeiling(pub f64);

/// Refuses what a provider cannot serve: window, images, sound, files, tools, reasoning, streaming, price, protocol, and
/// conversations that another server holds. The refusals are local and name a [`Skip`], so that a failover passes on.
///
/// ```
/// use tower::ServiceBuilder;
/// use watertight::layers::TokenAwareRateLimitLayer;
/// use watertight::provider::{FitsLayer, catalogue};
///
/// # fn main() -> Result<(), watertight::failure::ConfigError> {
/// let profile = catalogue::get("deepseek")?;
/// let layers = ServiceBuilder::new()
///     .layer(FitsLayer::new(&profile))
///     .layer(TokenAwareRateLimitLayer::default());
/// # let _ = layers;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FitsLayer {
    fits: Fits,
}

/// Decides whether a provider can serve a request. Made by [`FitsLayer`].
#[derive(Clone, Debug)]
pub struct Fits(Arc<Profile>);

/// What a request that fits holds: nothing.
#[derive(Clone, Copy, Debug)]
pub struct Fitting(());

/// Bytes a token has at the most in any common script: with fewer, a conversation is surely too long.
const MAX_BYTES_PER_TOKEN: u64 = 8;

// === impl FitsLayer ===

impl FitsLayer {
    /// For what this profile says that its provider can do.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        Self { fits: Fits(Arc::new(profile.clone())) }
    }
}

impl<S> Layer<S> for FitsLayer {
    type Service = Gate<S, Fits>;

    fn layer(&self, inner: S) -> Self::Service {
        Gate::new(inner, self.fits.clone())
    }
}

// === impl Fits ===

impl Admission<Request> for Fits {
    type Permit = Fitting;

    fn admit(&self, request: &Request) -> Admit<Fitting> {
        let (_, model) = self.0.model(&request.model);
        match fits(&self.0, model, request) {
            Ok(()) => Admit::Granted(Fitting(())),
            Err(failure) => Admit::Refused(failure.with_provider(&self.0.name.as_str().into())),
        }
    }
}

// === impl Fitting ===

impl Observer for Fitting {
    fn settle(self, _: End<'_>) {}
}

/// Refuses, locally, what the provider cannot serve.
///
/// # Errors
/// With the reason, so that a failover skips it.
pub(super) fn fits(profile: &Profile, model: Option<&Model>, request: &Request) -> Result<(), Failure> {
    let call = request.call();
    if call.same_protocol && request.protocol.is_some_and(|protocol| protocol != profile.protocol) {
        return refuse(Code::InvalidRequest, Skip::Protocol, "it speaks another protocol");
    }
    let foreign = call.candidate > 0 || profile.protocol != Protocol::OpenaiResponses;
    if foreign && openai_responses::is_stateful(request) {
        return refuse(Code::InvalidRequest, Skip::Stateful, "the conversation is held by another provider");
    }
    let Some(model) = model else { return Ok(()) };
    if let Some(window) = model.window
        && text_bytes(request) / MAX_BYTES_PER_TOKEN > window
    {
        let message = format!("the conversation is longer than its window of {window} tokens");
        return refuse(Code::ContextLength, Skip::Window, &message);
    }
    if let Some(missing) = missing(model, request) {
        return refuse(Code::InvalidRequest, Skip::Capability, missing);
    }
    let ceiling: Option<&PriceCeiling> = request.extensions.get();
    match (&model.price, ceiling) {
        (Some(price), Some(ceiling)) if price.output > ceiling.0 => {
            refuse(Code::InvalidRequest, Skip::Price, "it costs more than the call allows")
        }
        _ => Ok(()),
    }
}

fn refuse(code: Code, skip: Skip, message: &str) -> Result<(), Failure> {
    Err(Failure::local(code, message).with_skip(skip))
}

/// The first thing the request asks that the model cannot do.
fn missing(model: &Model, request: &Request) -> Option<&'static str> {
    let can = model.capabilities;
    let has = |kind: fn(&Content) -> bool| parts(request).any(|part| kind(&part.content));
    if !can.images && has(|content| matches!(content, Content::Image(_))) {
        return Some("it reads no pictures");
    }
    if !can.audio && has(|content| matches!(content, Content::Audio(_))) {
        return Some("it hears no sound");
    }
    if !can.files && has(|content| matches!(content, Content::File(_))) {
        return Some("it reads no files");
    }
    if !can.tools && !request.tools.is_empty() {
        return Some("it calls no tools");
    }
    if !can.reasoning && request.is_reasoning() {
        return Some("it does not think first");
    }
    (!can.streaming && request.stream).then_some("it does not stream")
}

fn parts(request: &Request) -> impl Iterator<Item = &Part> {
    request.messages.iter().flat_map(|message| &message.parts).flat_map(|part| match &part.content {
        Content::ToolResult(result) => result.parts.iter().chain(None),
        _ => [].iter().chain(Some(part)),
    })
}

/// Bytes of text in the conversation; media count nothing here.
fn text_bytes(request: &Request) -> u64 {
    let bytes = parts(request).map(|part| match &part.content {
        Content::Text(text) | Content::Refusal(text) => text.len(),
        Content::ToolCall(call) => call.arguments.len(),
        Content::Reasoning(reasoning) => reasoning.text.len(),
        _ => 0,
    });
    bytes.sum::<usize>() as u64
}
