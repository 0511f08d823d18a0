//! Guards against having no answer: what cannot be answered as it was asked is answered by the next best thing, and
//! says so.
//!
//! # How it decides
//! Six rungs in order, each optional; own ones follow whichever they name.
//!
//! | rung | worth | level | answers with |
//! |---|---|---|---|
//! | `fallback_model` | 0.85 | fallback | another model, of those that were not tried in this call |
//! | `skip_tool` | 0.75 | partial | the same model without optional tools that failed or cannot be called |
//! | `cached_answer` | 0.70 | fallback | an answer of an earlier call, with its age (feature `cache`) |
//! | `deferred` | 0.60 | deferred | a place in line, and the answer later |
//! | `partial_result` | 0.50 | partial | what came before the stream broke |
//! | `graceful_failure` | 0.00 | failed | words a person can act on |
//!
//! The failure says where to begin:
//!
//! | arrives with | goes |
//! |---|---|
//! | `INVALID_REQUEST` `AUTHENTICATION` `CONTENT_FILTER` `CANCELLED` | nowhere: it goes up as it is |
//! | `BUDGET_EXHAUSTED` `BULKHEAD_FULL` `DEADLINE`, and whatever comes after the deadline | to rungs that ask no model |
//! | a failure of a tool ([`Failure::tool`](crate::failure::Failure::tool)) | past the first rung; past the second, too, if the tool is required |
//! | every other | from the first rung |
//!
//! A service that runs tools beneath the ladder says whose a failure is with
//! [`Failure::with_tool`](crate::failure::Failure::with_tool); a
//! [`BlockingTool`](crate::layers::bulkhead::BlockingTool) says so itself.
//!
//! An optional tool that cannot be called now ([`CallableWhen`], a breaker's `is_callable`) is not offered in the first
//! place: the call is made without it, and its answer is the second rung's. If that call fails, no other model is offered
//! the tool, and the second rung asks again only where it can leave out more. A tool that is not optional stays.
//!
//! Before anything else is tried the ladder is planned: a model that is not callable now is passed over. A rung that errs, or takes longer than `rung_timeout`, is put on the record and the
//! next is tried, `max_depth` at most. If all erred the failure goes up.
//!
//! Each answer carries a record, [`Degradation`](crate::chat::Degradation): in the head of the reply, and in the last
//! event. A whole answer has one, too, that says that nothing lacks. A failover beneath that ended at another model is
//! on it as the first rung's: where the head tells of another provider, by its tries or its candidate, or the model is
//! one of `fallback_models`. A model is known as tried where the failure or its history names it, in the provider's word.
//!
//! # States
//! ```text
//! Calling --(a first output)--> the service's own reply, with a record if a tool was left out
//! Calling --(a final failure before it)--> Climbing: one rung after another, once a call
//! Climbing --(a rung answers)--> that reply, with the record        Climbing --(all err)--> the first failure
//! a reply --(it breaks after output, with text)--> Completed, level partial
//! a reply --(it breaks otherwise)--> the failure
//! ```
//!
//! # Defaults
//! | field | default | why |
//! |---|---|---|
//! | `max_depth` | 6 | as many rungs as there are |
//! | `rung_timeout` | 60 s | as long as a first output may take: the slowest rung asks a model |
//! | `max_partial` | 1 MiB | no answer is as long; only a runaway |
//! | `graceful` | on | the last resort should be there |
//!
//! `false` switches the last three off in a configuration file. The layer by default has the rungs that need nothing
//! else: partial results and words.
//!
//! # Streams
//! A reply passes as it is, and what came of it is gathered on the way, so that it is there when the stream breaks;
//! with `max_partial` off nothing is. Half a tool call is never part of a partial result. Its last event says
//! [`Stop::Other`](crate::chat::Stop::Other) with `partial_result`. After output no rung but this one is tried.
//!
//! # Honesty
//! A degraded answer is no success of whom it stands in for. Whoever watches from beneath was told the failure before
//! the first rung was tried. Whoever watches from above (a breaker around the whole stack) is told the failure, too,
//! as if there were no ladder; of an answer without a tool, that the tool could not be called. The services that the
//! rungs ask have breakers, budgets and accounts of their own.
//!
//! # Calls
//! How each call ended for whoever made it is told once, as [`Fact::Ended`](crate::event::Fact::Ended): completed, with
//! the level of its answer; failed; or abandoned. Attempts, candidates and rungs beneath tell facts of their own, and a
//! job that is worked off through the same ladder later is one more call.
//!
//! # Cancellation
//! Dropping the future drops the call or the rung at work; the rungs behind it are not tried.
//!
//! # Readiness
//! A service that will never be ready is answered for, too.
//!
//! # Order
//! Right: outermost, so that every failure beneath comes here once it is final; the service of `fallback_model` goes
//! through the same bulkhead as the one beneath (clones of a bulkhead layer share it), since a caller has no second
//! budget for a second model; [`Layers::fallback_model`](crate::stack::Layers::fallback_model) puts it there. Wrong: beneath failover or retry; they would never see a failure, and words would end
//! what another candidate could still answer.
//!
//! # Example
//! ```
//! use tower::util::BoxCloneSyncService;
//! use tower::{ServiceBuilder, ServiceExt};
//! use watertight::chat::{BoxReply, Level, Request};
//! use watertight::failure::{Code, ConfigError, Failure};
//! use watertight::layers::DegradationLayer;
//! use watertight::layers::degradation::{CallableWhen, DeferConfig, DegradationConfig, GracefulConfig, MemoryQueue};
//!
//! type Model = BoxCloneSyncService<Request, BoxReply, Failure>;
//!
//! # tokio_test::block_on(async {
//! # let down = || Model::new(tower::service_fn(|_| async { Err(Failure::new(Code::Server, "down")) }));
//! # let model = down();
//! let mut service = ServiceBuilder::new().layer(DegradationLayer::default()).service(model);
//! let answer = service.ready().await?.call(Request::new("large").user("Hello?")).await?;
//! assert_eq!(answer.head().degradation().level, Level::Failed);
//! # use tower::Service;
//! # Ok::<_, Failure>(()) }).unwrap();
//!
//! # fn customised(model: Model, spare: Model, is_open: impl Fn() -> bool + Send + Sync + 'static) -> Result<(), ConfigError> {
//! let config = DegradationConfig {
//!     fallback_models: vec!["small".into()],
//!     graceful: Some(GracefulConfig::default().contact("help@example.com")),
//!     ..DegradationConfig::default()
//! };
//! let layer = DegradationLayer::new(config)?
//!     .fallback_model(spare)?
//!     .model_callable("small", CallableWhen::new(move || !is_open()))?
//!     .deferred(MemoryQueue::new(DeferConfig::default())?);
//! let service = ServiceBuilder::new().layer(layer).service(model);
//! # Ok(()) }
//! ```
//!
//! # What it does not do
//! It does not retry, and it does not look at what an answer says: the worth of a rung is an estimate by its kind. A
//! deferred call has no answer until a worker gives it one: see [`MemoryQueue`].

mod answer;
#[cfg(feature = "cache")]
pub mod cache;
mod canned;
mod climb;
mod config;
mod counts;
pub mod defer;
mod degrading;
mod ending;
mod future;
mod gathered;
mod graceful;
mod lacks;
mod ladder;
mod layer;
mod left_out;
mod models;
mod other;
mod partial;
mod route;
mod rung;
mod stream;
#[cfg(test)]
mod tests;
mod tools;

pub use answer::Answer;
#[cfg(feature = "cache")]
pub use cache::{AnswerCache, AnswerKey, CacheConfig, Finding, Similar};
pub use config::{DegradationConfig, GracefulConfig, QualityConfig};
pub use counts::{RungSnapshot, Snapshot};
pub use defer::{DeferConfig, DeferQueue, Deferred, InLine, JobStatus, Looking, MemoryQueue};
pub use degrading::Degrading;
pub use future::ResponseFuture;
pub use ladder::Place;
pub use layer::DegradationLayer;
pub use rung::{Answering, CallableWhen, Case, Consider, Needs, Rung};
pub use stream::Degraded;
