//! Guards against a provider that is down, slow or spent: asks the next one, before the first output, and springs
//! back to the first when it is well again.
//!
//! # How it decides
//! Candidates stand in the order of priority, and each is asked at most once a pass. A pass begins at the *standing*
//! candidate, goes on to those below it, then to those above. A local refusal (an open breaker, a full limiter, a
//! conversation that does not fit) is a skip: nothing was sent, nothing is counted.
//!
//! Only failures of the provider move the standing candidate: an empty quota, an open breaker and a stated wait at
//! once; others after `move_off_after` failed calls in a row, counted to the end of the stream. A failure that is
//! bound to the request (`NOT_FOUND`, `CONTEXT_LENGTH`, `CONTENT_FILTER`, every skip) is served elsewhere this once
//! and moves nothing; neither does `AUTHENTICATION` or `PERMISSION` unless `also` names it.
//!
//! A candidate that was moved off rests: for the stated wait, else for `spring_back`, and never shorter than
//! `dwell`, which is also the shortest stay at every candidate below. Until its stated wait is over it is passed
//! over; a call that was begun before the rest neither ends nor shortens it. When its rest is over the next call is
//! its *trial*: one attempt, one trial at a time. If it brings a first output, calls begin there again; if it fails,
//! the caller never learns of it, the standing candidate answers, and a whole new rest begins.
//!
//! # States
//! ```text
//! standing at A --(A is spent, open or told to wait; or 3 failed calls in a row)--> standing at B, A rests
//! A rests --(rest is over: one call tries A)--> trial in flight
//! trial in flight --(first output)--> standing at A
//! trial in flight --(failure)--> A rests anew        trial in flight --(caller left)--> the next call tries A
//! ```
//!
//! # Which failures go on
//! [`Code::judgement`] says. `AUTHENTICATION`, `PERMISSION` and `CONTENT_FILTER` only where `also` names them;
//! `CONTEXT_LENGTH` only to a candidate with a larger window, and only where the [`Candidate`]s name theirs. When two
//! or more candidates failed or were passed over and none is left, the call ends with `ALL_FAILED`, which lists each
//! with its reason; with one candidate its own failure goes up.
//!
//! # The deadline
//! It is shared out: of the time left, each candidate behind that may still be asked keeps `min_share`, or its equal
//! part if that is less. A candidate whose first output does not come within its own part is left. Once a first
//! output came, the whole deadline holds for the stream.
//!
//! # Defaults
//! | field | default | why |
//! |---|---|---|
//! | `spring_back` | 5 min | outages of providers last minutes; a trial costs one attempt |
//! | `dwell` | 30 s | shorter visits flap, and each costs the prompt cache |
//! | `move_off_after` | 3 | one failed call is noise, and retries went before it |
//! | `min_share` | 5 s | enough for a first output of a healthy model |
//! | `when_all_rest` | `earliest` | a try may work; a refusal cannot |
//!
//! Preset: [`FailoverConfig::eager`] moves after one failed call.
//!
//! # Streams
//! The call may go on to another candidate until the first output; after it the stream is that candidate's to the
//! end, and bytes of two are never mixed. How it ends counts for the next call.
//!
//! # Cancellation
//! Dropping the future drops the attempt and asks nobody else; a trial's slot is given back.
//!
//! # Readiness
//! `poll_ready` readies the standing candidate and is always ready: back-pressure ends here, since another candidate
//! may be free. A candidate that is not ready is waited for inside the call, which takes its place in line along; a
//! readiness that the call does not use is given back.
//!
//! # Order
//! Right: `FailoverLayer` around stacks of retry, breaker, limiter, clocks and provider, each with its own state.
//! Wrong: a retry around failover; a pass that failed everywhere would be asked of everyone again. It is marked, so
//! that our retry does not.
//!
//! # Example
//! ```
//! use tower::{ServiceBuilder, service_fn};
//! use watertight::layers::failover::{FailoverConfig, FailoverLayer};
//! # use watertight::chat::{Event, Head, Reply, Request};
//! # use watertight::failure::Failure;
//! # type Events = futures_util::stream::Empty<Result<Event, Failure>>;
//! # async fn ask(_: Request) -> Result<Reply<Events>, Failure> { Ok(Reply::new(Head::default(), futures_util::stream::empty())) }
//! # fn main() -> Result<(), watertight::failure::ConfigError> {
//! # let (a, b, c) = (ask, ask, ask);
//! # let (a, b, c) = (service_fn(a), service_fn(b), service_fn(c));
//! let service = ServiceBuilder::new().layer(FailoverLayer::new([b, c])).service(a);
//!
//! # let (a, b, c) = (service_fn(ask), service_fn(ask), service_fn(ask));
//! let layer = FailoverLayer::new([b, c]).named(["east", "west", "spare"])?.config(FailoverConfig::eager())?;
//! let customised = ServiceBuilder::new().layer(layer).service(a);
//! # Ok(()) }
//! ```
//! Candidates are of one type. Stacks built alike are; others go through [`Reply::boxed`](crate::chat::Reply::boxed)
//! and a `BoxCloneSyncService`. The service must be `Sync` for the future to be `Send`.
//!
//! # What it does not do
//! It does not retry a candidate, and it does not hedge. A failure after the first output goes to the caller, unless
//! a [`ResetLayer`](crate::layers::ResetLayer) stands above.
//!
//! [`Code::judgement`]: crate::failure::Code::judgement

mod account;
mod blow;
mod config;
mod future;
mod history;
mod layer;
mod pass;
mod shared;
mod snapshot;
mod standing;
#[cfg(test)]
mod tests;

pub use account::Account;
pub use config::{Candidate, FailoverConfig, WhenAllRest};
pub use future::ResponseFuture;
pub use layer::{Failover, FailoverLayer};
pub use snapshot::{CandidateSnapshot, FailoverSnapshot};
