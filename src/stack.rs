//! What joins layers to stacks.
//!
//! # The canonical order
//!
//! ```text
//! Degradation                          always an answer
//!   Bulkhead                           the caller's own entry and exit
//!     Reset                            off by default: a stream that dies starts over
//!       Failover                         a list of providers, and for each:
//!         Fits                             what it cannot serve passes on, before anything is paid
//!           Retry                            every attempt passes all below
//!             CircuitBreaker                   asked by every attempt, told of every attempt
//!               TokenAwareRateLimit              every attempt pays: a failed one used quota, too
//!                 DualClockTimeout                 next to the wire
//!                   Provider
//! ```
//!
//! [`Layers`] builds it in one line; [`ServiceBuilderExt`] adds single layers to a `tower::ServiceBuilder`:
//!
//! ```
//! use watertight::chat::Request;
//! use watertight::config::StackConfig;
//! use watertight::event::Facts;
//! use watertight::stack::Layers;
//! # use watertight::chat::{BoxReply, Reply};
//! # use watertight::failure::{ConfigError, Failure};
//! # use tower::util::BoxCloneSyncService;
//! # type Provider = BoxCloneSyncService<Request, BoxReply, Failure>;
//!
//! # fn build(first: Provider, second: Provider) -> Result<(), ConfigError> {
//! let stack = Layers::new(StackConfig::default(), &Facts::default())?.over([("east", first), ("west", second)])?;
//! # let _ = stack;
//! # Ok(()) }
//! ```
//!
//! Over providers of ours (feature `protocols`) `Layers::over_providers` takes names, limits, and what each can serve from
//! their profiles; over any other service nothing is known of that, and no `Fits` stands there.
//!
//! [`ResetLayer`](crate::layers::ResetLayer) is opt-in, since it changes what a reply is: callers must throw away what
//! they have shown. A section `[reset]` in the configuration switches it on, with its defaults where it is empty.
//!
//! [`ShortenLayer`](crate::layers::ShortenLayer) is opt-in, too, and no file can switch it on: what may be left out of a
//! conversation only its owner knows, and says in code, to [`Layers::over_shortening`].
//!
//! # Right and wrong orders
//!
//! *Why is retry outside the breaker?* So that each attempt asks it and is counted by it: a series of retries stops
//! the moment the circuit opens, and a half-open trial is one attempt. The other way round a call is one verdict after
//! all its retries: the circuit opens later by that factor, and each probe costs a whole series. It works, and may be
//! what you want where single failures are common and meaningless.
//!
//! *Why is the limiter inside retry?* Each attempt uses the provider's quota, a failed one too. Outside, only the first
//! attempt of a call pays, and its retries overshoot the quota just when the provider is in trouble.
//!
//! *Why is the bulkhead outside failover?* It is the caller's: one place for the whole call, whoever serves it. Inside,
//! a call would wait in every provider's line and its budget be counted once for each.
//!
//! *Why does a stream start over inside the bulkhead, and outside failover?* It is the same call of the same caller, in
//! the same place. And the fresh start has all candidates again, the one that died perhaps resting by then. Outside the
//! ladder a partial result would end the call before it could start over.
//!
//! *Why is a request made smaller around a provider's retry?* Its retries are for the same request; the smaller one has
//! its own, and breaker and limiter see each attempt. Inside failover it is tried before another provider is asked: where
//! one with a larger window stands behind, and should have the whole, leave it out.
//!
//! *Why are the clocks inside everything?* A wait in a limiter's line is no slowness of the provider. Outside the
//! limiter the first clock would run while the call waits for its turn, and a busy limiter would open the breaker.
//!
//! *Why is degradation outermost?* It answers what nobody else could, refusals of the bulkhead among them. Anything
//! outside of it takes its answers for the provider's.
//!
//! ```
//! use std::time::Duration;
//! use tower::ServiceBuilder;
//! use watertight::layers::timeout::Clocks;
//! use watertight::layers::{CircuitBreakerLayer, DualClockTimeoutLayer, RetryLayer, TokenAwareRateLimitLayer};
//! use watertight::stack::ServiceBuilderExt;
//!
//! // Right: the clocks run while the provider works.
//! let right = ServiceBuilder::new()
//!     .retrying(RetryLayer::default())
//!     .circuit_breaker(CircuitBreakerLayer::default())
//!     .token_rate_limit(TokenAwareRateLimitLayer::default())
//!     .dual_clock_timeout(DualClockTimeoutLayer::default());
//!
//! // Wrong: the clocks run while the call waits in line, and the breaker takes the line for a slow provider.
//! let wrong = ServiceBuilder::new()
//!     .circuit_breaker(CircuitBreakerLayer::default())
//!     .dual_clock_timeout(DualClockTimeoutLayer::default())
//!     .token_rate_limit(TokenAwareRateLimitLayer::default());
//! # let _ = (right, wrong);
//! ```

mod answer;
mod axum;
mod build;
mod builder;
mod rungs;
mod whole;

pub use answer::{UnfailingBody, status_of};
pub use axum::{Fallible, FallibleFuture, ForAxum, Unfailing, UnfailingFuture, for_axum};
pub use build::Layers;
pub use builder::ServiceBuilderExt;
#[cfg(feature = "protocols")]
pub use whole::ProviderStack;
pub use whole::{
    Attempts, ProviderLayers, ProviderSnapshot, ShorteningStack, Stack, StackOver, StackSnapshot, Whole,
};
