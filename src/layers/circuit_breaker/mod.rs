//! Guards against a sick provider or tool: refuses calls to it for a while, lets a few try, and lets calls back in by
//! parts.
//!
//! # How it decides
//! Each call is judged once, at the end of its response, by [`Code::judgement`]. These open the circuit:
//! - `failures` in a row, the first and last at most `failures_within` apart; a success ends the row;
//! - a share of `ratio` failures among the outcomes of the `window`, once there are `min_calls`. The window moves by
//!   tenths of itself. Only a failure opens; a success never does;
//! - `slow` (off): a share of outcomes whose first output came late;
//! - `token_trip` (off): one failed call that burnt more tokens than this;
//! - `waste_budget` (off): `waste_failures` or more in the window that burnt above `waste_share` of it;
//! - `anomaly` (off): a completed call that took so many times the key's usual uncached tokens, and above 1,000; twenty
//!   calls must be known.
//!
//! A failed call burnt its input, as the request estimates it, and a token for every four bytes of output, if it had a
//! first output. A refusal, which has an HTTP status of 400 or above, burns nothing.
//!
//! `RATE_LIMITED` is no failure: it pauses the key until the stated time, during which calls are refused; then all pass
//! again, without probes. Calls in flight meanwhile count as ever. Without a stated time nothing is paused.
//! `QUOTA_EXHAUSTED` opens until the stated time, else for `quota_rest`, and is tried by probes after it.
//! `count_rate_limited` makes the first a failure, too. A stated wait of any failure that opens is a floor of the rest.
//! `TIMEOUT_TOTAL` is a failure only if no output came. A stream that clocks inside found to crawl is a failure, though
//! it completes. What is neutral, and what we refused ourselves, counts nowhere:
//! neither as failure nor as success.
//!
//! With `cache_lost` it is told ([`Fact::CacheLost`]) when a key whose input was mostly read from the provider's cache
//! missed it three times in a row. It opens nothing.
//!
//! # States
//! ```text
//! Closed   --(a rule above)--> Open                        Closed --(throttled)--> shows as Open until the stated time
//! Open     --(the rest is over, and a call comes)--> HalfOpen: at most `probes` in flight, the others are refused
//! HalfOpen --(`successes` in a row)--> Closed: window empty, a ramp by `ramp_shares`, no longer than it was away
//! HalfOpen --(a probe failed, was cut or slow)--> Open, a longer rest     HalfOpen --(a probe throttled)--> Open as stated
//! HalfOpen --(a probe abandoned or neutral, or its lease is over)--> HalfOpen, its place is free again
//! by hand: ForcedOpen (refuses), Disabled (passes, counts nothing), Observe (passes, counts, never opens), reset
//! ```
//! Every change but a pause begins a new generation. A call carries the one it was admitted in; what it reports in
//! another changes nothing. The report of a probe that outlived its lease still counts, if the circuit is half-open still.
//!
//! The rest grows with each opening and one step is forgotten for each `forgive` of health. A refusal is
//! `CIRCUIT_OPEN`, local, names the circuit, its state and its failures, and carries the time until the next try;
//! while the probes are out that is at most a second, since asking again costs next to nothing. So it is where there is
//! no room for one more key.
//!
//! # Defaults
//! | field | default | why |
//! |---|---|---|
//! | `failures`, `failures_within` | 5 in 60 s | no accident, and cheap; the usual figures of breakers |
//! | `ratio`, `min_calls`, `window` | 50 % of 10 in 60 s | an answer is as likely as none, and a tenth is one call |
//! | `rest`, `growth`, `max_rest` | 30 s, × 2, 5 min | most restarts pass; a healed provider is not left out for long |
//! | `forgive` | 60 s | the window of the verdict |
//! | `jitter` | 0.2 | the last fifth of a rest, so that many processes do not come back as one |
//! | `quota_rest`, `max_stated` | 15 min, 24 h | a person must act; quotas refill daily |
//! | `probes`, `successes`, `lease` | 2, 2, 60 s | one may hang, one may be luck; as long as a first output may take |
//! | `ramp`, `ramp_shares` | 15 s, 10 % and 50 % | what just came up is not buried |
//! | `waste_failures`, `waste_share` | 3, 20 % | two large ones are the caller's; beyond it every fifth token is lost |
//! | `semantic` | on | whoever reports such failures looked for them |
//!
//! Preset: [`CircuitBreakerConfig::frugal`], which turns the token signals on.
//!
//! # Streams
//! The verdict waits for the end of the stream: its terminal event is a success, an error and a bare end are failures. A
//! probe keeps its place until then. An HTTP response is judged by its status, when its body ended; a
//! [`Plain`](crate::observe::Plain) response is a success at once.
//!
//! # Tools
//! A breaker keyed by tool is told by the codes of the tool's failures. Arguments that are no good are the model's fault,
//! `INVALID_REQUEST`, and neutral; a tool that is down is `SERVER` or `CONNECT`; a result that says that something went
//! wrong is an answer, and a success.
//!
//! # Cancellation
//! A call or stream that is dropped is neutral, and a probe's place is free again at once. So a timeout outside the breaker
//! hides what is slow from it: put clocks inside.
//!
//! # Order
//! Right: inside retry, outside limiter and clocks, so that each attempt asks and is judged, and a series stops the moment
//! the circuit opens. Wrong: outside retry, where a call is one verdict after all its retries, and a half-open trial is
//! a whole series.
//!
//! # Cost
//! A healthy call reads one atomic word, and counts its success there; the clock is read once, for the bucket, and only
//! where a share is kept (`ratio`, `slow`). Without that look nobody could say afterwards on which side of a bucket's
//! edge a success came, and a later failure could open too early or too late. While failures are on record, or where `anomaly` or `cache_lost` look at each
//! success, its end takes the circuit's lock, which one mutex for each key serves well enough.
//!
//! An idle key takes less than 200 bytes. One with outcomes in more than a tenth of the window, or with a failure, takes
//! about 500 more until an outcome finds the window empty, or it is evicted for another key.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use tower::ServiceBuilder;
//! use watertight::layers::CircuitBreakerLayer;
//! use watertight::layers::circuit_breaker::CircuitBreakerConfig;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let with_defaults = ServiceBuilder::new().layer(CircuitBreakerLayer::default().named("provider:openai"));
//!
//! let config = CircuitBreakerConfig { rest: Duration::from_secs(5), ..CircuitBreakerConfig::frugal() };
//! let breaker = CircuitBreakerLayer::new(config)?.named("tool:search");
//! let (handle, callable) = (breaker.handle()?, breaker.callable());
//! let customised = ServiceBuilder::new().layer(breaker);
//!
//! handle.force_open();
//! assert!(!callable.is_callable(""));
//! # Ok(()) }
//! ```
//!
//! # What it does not do
//! It asks no other provider, and it does not wait. It has no state beyond its process.
//!
//! [`Code::judgement`]: crate::failure::Code::judgement
//! [`Fact::CacheLost`]: crate::event::Fact::CacheLost

mod bounds;
mod circuit;
mod config;
mod defaults;
mod handle;
mod layer;
mod probes;
mod refusal;
mod rest;
mod rules;
mod signals;
mod state;
#[cfg(test)]
mod tests;
mod trial;
mod usual;
mod window;
mod word;
mod words;

pub use config::{CircuitBreakerConfig, SlowConfig};
pub use defaults::*;
pub use handle::{Callable, CircuitBreakerSnapshot, CircuitHandle, CircuitSnapshot};
pub use layer::{CircuitBreaker, CircuitBreakerLayer};
pub use trial::Trial;
pub use words::Verdict;
