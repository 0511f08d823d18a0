//! Guards a provider's limits of requests and tokens: a call that would be refused there waits here, or is refused at
//! once and told when to come back.
//!
//! # How it decides
//! A call reserves what it will cost from every dimension at once, or from none: requests and tokens a minute (both
//! kinds in one bucket, or input and output apart) and a day, and a place among the calls in flight. Each dimension is
//! a bucket that fills steadily, decided by governor's GCRA over one atomic word: see [`store`](crate::store). A bucket
//! holds one period's quota, of requests a sixth; the pace is rounded so that no period gives more than its quota.
//!
//! **Cost.** Input is what was attached as [`Cost`](crate::chat::Cost), else an estimate by script, corrected when ten
//! in a row were off by more than 30 % on one side. Output is reserved where the provider does: one bucket for both
//! kinds takes the declared most ([`ReserveOutput`]), a bucket of its own takes the usual output of this key, nothing
//! until twenty answers are known. A guessed output never keeps a call out of a full bucket; a declared cost above what
//! a bucket holds is refused for good: `COST_ABOVE_CAPACITY`.
//!
//! **Line.** First come, first served, for each key: the head of the line has what comes back, so that a dear call is
//! not starved by cheap ones, and a cheap one waits its turn. Who comes is promised an instant, reckoned from the bucket
//! and the costs ahead. Is it later than `acquire_timeout` or the call's deadline, the call is refused at once with it:
//! `LIMITER_FULL`. So is a call for which another candidate stands behind, and any in [`Mode::Reject`]. The same befalls
//! the head when a provider's word moves its instant too far.
//!
//! **Settlement.** When the call is over, what was reserved and not used is given back, and what was used beyond it is
//! owed: the next calls wait for it.
//!
//! **Calibration.** Each dimension follows the provider's headers for itself. Fewer left than we thought: lowered at
//! once, and what that took out comes back at the reset. More left: not before the reset. A lower limit is followed at
//! once; a higher one raises a guess of ours, never what was declared. What is unknown stays unknown. A dimension for
//! which we have no quota stops calls only when it is told to be empty, until its reset. A 429 with a stated wait stops
//! admission and refill until then; `slow_down` halves the pace for a minute. Whatever of this changes something is told:
//! [`Calibrated`](crate::event::Fact::Calibrated), [`Frozen`](crate::event::Fact::Frozen),
//! [`Slowed`](crate::event::Fact::Slowed).
//!
//! # States
//! ```text
//! call --(all dimensions pay)--> admitted --(end, error, drop)--> settled: refund or debt
//! call --(not now, in time)--> in line --(its turn, all pay)--> admitted
//! call --(not now, too late)--> refused with the instant
//! in line --(its instant moved too far, its time is over)--> refused      in line --(drop)--> gone
//! ```
//!
//! # Defaults
//! | field | default | why |
//! |---|---|---|
//! | `profile` | `unknown` | 500 requests a minute, 50 calls in flight: see [`LimitProfile`] |
//! | `acquire_timeout` | 5 s | who waits longer is better served elsewhere |
//! | `mode` | `wait` | |
//! | `max_waiting` | 1,024 | a longer line than the timeout can serve is refused by its promise anyway |
//! | `burst` | a period's quota, of requests a sixth | providers enforce requests in slices of seconds |
//! | `output_guess` | 1,024 | most answers of chat models stay below a page |
//! | `slow_down_share`, `slow_down_for` | 0.5, 1 min | below whatever the traffic had grown from |
//! | `headroom` | none | set 4 % where others use the same quota unseen |
//! | `adaptive` | off | for providers that tell nothing: [`AdaptiveConfig`] |
//! | `adaptive.min`, `adaptive.backoff` | 1, 0.75 | one call must be left to learn from; a few rounds make up for a cut |
//! | `key` | `nothing` | one account with the provider is one key |
//! | `max_keys` | 1,000,000 | some 200 MB at the worst; keys as good as fresh make room |
//!
//! A provider that counts a window that slides takes no full bucket beside a full rate: declare 97 % of its quota, and
//! a `burst` of 2 %. A request travels before it is counted, so a `burst` of 95 % suits a bucket. Where other clients use
//! the same quota, leave them `headroom`: beside one that eats half of it, 200 busy callers met a 429 in none of their
//! calls with 4 %, and in one of five without, since what a header tells is a moment old.
//!
//! # Streams
//! | the call | pays |
//! |---|---|
//! | ended, usage told | the usage; cache reads where the provider charges them |
//! | cut, or dropped, after usage was told | that input; the output told, and what came since |
//! | ended, cut, or dropped after its head, no usage told | its input, and the output seen |
//! | refused by the provider (4xx, 5xx), or failed before its first output | its request |
//! | dropped before its head, or refused beneath by another layer of ours | nothing |
//!
//! A chunk costs no clock and no lock.
//!
//! Of an `http::Request` and its response nothing is read: attach a [`Cost`](crate::chat::Cost) to the request's
//! extensions, else its input counts nothing. Its output is the bytes of the body, four to a token.
//!
//! # Cancellation
//! A call dropped in line has left it, at whatever poll; one dropped later is settled as above.
//!
//! # Order
//! Right: inside retry and circuit breaker, so that every attempt pays, since a failed one used quota, too.
//! Wrong: outside retry, where one reservation would stand for several requests.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use tower::ServiceBuilder;
//! use watertight::key::KeyBy;
//! use watertight::layers::TokenAwareRateLimitLayer;
//! use watertight::layers::rate_limit::{LimitProfile, RateLimitConfig};
//!
//! # fn main() -> Result<(), watertight::failure::ConfigError> {
//! let with_defaults = ServiceBuilder::new().layer(TokenAwareRateLimitLayer::default());
//!
//! let config = RateLimitConfig {
//!     tokens_per_minute: Some(450_000),
//!     acquire_timeout: Duration::from_secs(20),
//!     key: KeyBy::Model,
//!     ..RateLimitConfig::of(LimitProfile::Openai)
//! };
//! let customised = ServiceBuilder::new().layer(TokenAwareRateLimitLayer::new(config)?.named("provider:openai"));
//! # Ok(()) }
//! ```
//!
//! # What it does not do
//! It counts for this process; share an account through a [`Store`](crate::store::Store) of your own. It does not know
//! what a request costs in money, and a future in line that nobody polls holds its place until it is dropped, though
//! nobody behind it waits longer than `acquire_timeout`.

mod adaptive;
mod config;
mod experience;
mod layer;
mod learn;
mod line;
#[cfg(all(test, loom))]
mod loom_tests;
mod profile;
mod reservation;
mod slots;
mod snapshot;
mod state;
mod sync;
mod waiting;

pub use adaptive::AdaptiveConfig;
pub use config::{Mode, RateLimitConfig};
pub use layer::{RateLimit, TokenAwareRateLimitLayer};
pub use profile::{LimitProfile, ReserveOutput};
pub use reservation::Reservation;
pub use snapshot::{KeySnapshot, RateLimitSnapshot};
