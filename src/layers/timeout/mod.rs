//! Guards against a provider that does not answer, or stops answering in the middle.
//!
//! # How it decides
//! Two clocks run on outputs (text, reasoning, refusal, tool calls), not on bytes. Clock 1 runs from dispatch to
//! the first output; when it runs out the attempt ends before the caller has seen anything, and a retry or a
//! failover goes on. Clock 2 runs between outputs, and only while the consumer polls: a consumer that stays away
//! is never taken for a stalled provider. Beside them stand three plainer ones: silence (no byte of any kind),
//! total (the whole attempt), and the call's own deadline.
//!
//! ```text
//! dispatch ──────────── head ── preamble ──── output ─── output ──────── output ── end
//!    ├── clock 1: first_output ─────────────────┤├ clock 2 ┤├ clock 2: idle ┤
//!    ├ silence ┤├ silence ┤├ silence ┤├ silence ┤├ silence ┤├ silence ──────┤├ silence ┤
//!    ├── total, deadline ───────────────────────────────────────────────────────────┤
//! ```
//!
//! # Defaults
//! | field | default | why |
//! |---|---|---|
//! | `first_output` | 60 s | slow models under load still answer within it; an edge in front of a provider gives up at 100 s |
//! | `idle` | 30 s | a pause that long in mid-answer has not been seen to end well |
//! | `silence` | 5 min | keep-alives come every 15 s or so; longer than any seen pause between them |
//! | `total` | 5 min | a whole answer that is not streamed; the official clients wait 10 |
//! | `total_stream` | 30 min | the longest answers of the largest models, twice over |
//! | `keep_alive` | `ignore` | a stalled generation is held open by comments, too |
//!
//! Presets: [`Clocks::interactive`], [`Clocks::reasoning`] (when the request asks for reasoning, each clock is at least so long
//! by itself).
//! A [`Clocks`] attached to a request ([`Request::attach`]) comes before the layer's; one that cannot work is refused
//! as `INVALID_REQUEST`, and nothing is sent.
//!
//! # Streams
//! Expiry drops the upstream within the same poll, yields one failure that names the clock, and nothing after it.
//! Data that is ready beats a timer that is due. A chunk costs a flag, not a clock read: the first `Pending` after
//! an item reads the clock, and the timer is made there; it moves only when it fires or when a shorter clock takes
//! over. So an expiry is exact: `idle` after the first poll that had to wait. Clock 1 runs from the first poll
//! that had to wait, too, which is dispatch but for the synchronous part of `call`.
//!
//! A stream that always has something ready is looked at after every 64 arrivals: total and the deadline hold for it,
//! too, and other tasks have their turn.
//!
//! A timer found more than 250 ms late means that the consumer was away: it grants one new window.
//!
//! `commit_by` of the [`Call`](crate::chat::Call) ends an attempt, as `TIMEOUT_FIRST_OUTPUT`, while it can be left for
//! another: up to the first output of a reply, up to the head of an HTTP response.
//!
//! A call that is not streamed has neither clock 1 nor clock 2 nor silence: only total and the deadline. An HTTP
//! response is a stream of its frames. The connect clock belongs to the HTTP client, which alone can see a
//! connection come to be.
//!
//! # Cancellation
//! Dropping the future or the response drops the timer. Nothing is spawned.
//!
//! # Order
//! Right: innermost, next to the service, so that every attempt has clocks of its own and the breaker outside
//! counts an expiry.
//! Wrong: outside retry, where clock 1 would count the waits between attempts.
//!
//! # Example
//! ```
//! use tower::ServiceBuilder;
//! use watertight::layers::timeout::{Clocks, DualClockTimeoutLayer};
//!
//! # fn main() -> Result<(), watertight::failure::ConfigError> {
//! let with_defaults = ServiceBuilder::new().layer(DualClockTimeoutLayer::default());
//!
//! let clocks = Clocks { idle: Some(std::time::Duration::from_secs(10)), ..Clocks::interactive() };
//! let customised = ServiceBuilder::new().layer(DualClockTimeoutLayer::new(clocks)?);
//! # Ok(()) }
//! ```
//!
//! # As it stands
//! [`snapshot`](DualClockTimeoutLayer::snapshot) shows the clocks and how often each ran out.
//!
//! # What it does not do
//! It does not retry, and it does not know a keep-alive from an output: the response says which is which.
//!
//! [`Request::attach`]: crate::chat::Request::attach

mod body;
mod clocks;
mod crawling;
mod future;
mod layer;
mod plan;
mod snapshot;
#[cfg(test)]
mod tests;
mod waiting;
mod watchdog;

pub use body::{Clocked, Timed};
pub use clocks::{Clocks, Crawl, FirstClock, KeepAlive};
pub use future::ResponseFuture;
pub use layer::{DualClockTimeout, DualClockTimeoutLayer};
pub use snapshot::{ClocksSnapshot, Expired, TimeoutSnapshot};
pub use watchdog::Watchdog;
