//! Guards callers from each other: one user, tool or session cannot take what all the others need.
//!
//! # How it decides
//! Each key (a user, a tool, a session: [`KeyBy`](crate::key::KeyBy)) has slots, a line before them and, if asked for, a
//! budget of tokens. A call first finds room in the budget, then a slot, then a place in line; what it cannot find
//! refuses it, and a refusal leaves no trace.
//!
//! - **Slots.** At most `max_concurrent` calls of a key are in flight, from their admission to the end of their response.
//!   A newcomer passes if a slot is free *and nobody waits*: grants come in the order of arrivals. Nothing is taken when
//!   the service is polled ready: a clone that is ready and idle blocks nobody.
//! - **The line.** `max_waiting` calls wait, each for `max_wait` at most, and never longer than its deadline, or its share
//!   of the time, allows. A call that could not use its turn, or may not wait because another candidate stands behind
//!   ([`Call::patient`](crate::chat::Call::patient)), is refused at once. A turn that comes at the instant at which the
//!   wait ends is a turn.
//! - **The budget.** `budget.tokens` may be used in a window that begins with a call. Before a call its estimated input
//!   and its declared output are put aside ([`Ask::cost`](crate::chat::Ask::cost)); at its end what it really used takes
//!   their place. What is used above the budget is a debt, and fills the windows that follow. A call dearer than the
//!   whole budget has an untouched window for itself, unless `budget.strict`.
//!
//! Refusals are local: `BULKHEAD_FULL` for slots and line, `BUDGET_EXHAUSTED` for the budget, `DEADLINE` where the
//! call's own deadline ended its wait. Each names the bulkhead and key, what is taken, and the limit, and says when to
//! come back: for a budget the instant at which the call finds room, for slots a guess from how the line moved lately.
//!
//! The word of a budget is a promise, not a guess: the call passes at that instant, and not before, if calls in flight
//! use what they have put aside and no others come. Where they use less, there may be room much earlier; nobody knows
//! when they end, nor how much they leave, and so none of it is promised. How much it may be is told beside it: in the
//! words of the refusal and as `reserved` in the snapshot, apart from what is `used` for good. Who can come back cheaply
//! may do so when a call of that key has ended ([`Fact::Released`](crate::event::Fact::Released)). Where they use more,
//! or others come first, it is later.
//!
//! # States
//! ```text
//! call --(budget spent)------------------------> refused
//! call --(a slot is free, and nobody waits)----> in flight
//! call --(no slot, a place in line)------------> waiting
//! call --(no slot, no place, or cannot wait)---> refused
//! waiting --(its turn)-> in flight    waiting --(longest wait, deadline)-> refused    waiting --(dropped)-> gone
//! in flight --(the response ends, fails or is dropped)--> done: the slot goes to the head of the line
//! ```
//!
//! # Defaults
//! | field | default | why |
//! |---|---|---|
//! | `key` | `nothing` | one bulkhead for all calls |
//! | `max_concurrent` | 8 | what a small machine and a database's usual pool bear |
//! | `max_waiting` | 32 | four rounds of those at work |
//! | `max_wait` | 30 s | the clock between two outputs: after it the other side is taken for dead |
//! | `budget` | none | [`BulkheadConfig::users`] has one, of the three lines below |
//! | `budget.tokens` | 100,000 | ten turns of an agent a minute; a tenth of what an organisation is granted at first |
//! | `budget.window` | 60 s | providers count by the minute |
//! | `budget.warn_at` | 0.8 | enough is left for a few more turns |
//! | `max_keys` | 1,000,000 | some 200 MB at the worst; keys as good as fresh make room |
//!
//! Presets: [`BulkheadConfig::users`], [`BulkheadConfig::tools`], [`BulkheadConfig::sessions`].
//!
//! A limit can be changed at run time ([`Bulkhead::set_limit`]). A lower one revokes nothing, and lets nobody in before
//! enough calls have ended; a higher one lets those in who wait.
//!
//! # Streams
//! A slot is held until the last event of a reply, or the last byte of a body, and given back when it ends, errs, is cut
//! or is dropped. A budget is then settled: with the usage that the reply told, also where it broke after that; without
//! one, with the input and the output that was seen, at four bytes a token and at most what was declared. A reply that
//! came whole with no usage and no output seen, as one that is not streamed, is settled at what was put aside; a call
//! that failed or was dropped before any of this pays nothing.
//!
//! # Cancellation
//! A call dropped in line gives its place up, and a turn it had is given on. A call dropped at work gives its slot back.
//! Nothing is left behind, and no task or timer goes on. Tools that block are another matter: see [`BlockingTool`].
//!
//! # Cost
//! A call that passes changes one atomic word when it comes and when it goes; the lock is for those who wait. No clock is
//! read for it and nothing is allocated. A budget adds a lock and one look at the clock, a key one look into a map. A
//! refusal takes the lock; it is written once, and said again as long as the slots are as they were.
//!
//! An idle key takes less than 200 bytes. One whose slots were all taken at least once takes about 350 more, until it is
//! evicted for another key.
//!
//! # Order
//! Right: outermost, around failover and retry: one call of a user is one slot, whatever it takes to answer it.
//! Wrong: inside retry, where a user's second attempt stands in line behind the first of others.
//!
//! # Example
//! ```
//! use tower::ServiceBuilder;
//! use watertight::layers::BulkheadLayer;
//! use watertight::layers::bulkhead::{BudgetConfig, BulkheadConfig};
//!
//! # fn main() -> Result<(), watertight::failure::ConfigError> {
//! let with_defaults = ServiceBuilder::new().layer(BulkheadLayer::default());
//!
//! let budget = BudgetConfig { tokens: 500_000, ..BudgetConfig::default() };
//! let config = BulkheadConfig { max_waiting: 4, budget: Some(budget), ..BulkheadConfig::users() };
//! let per_user = BulkheadLayer::new(config)?.named("user");
//! let customised = ServiceBuilder::new().layer(per_user);
//! # Ok(()) }
//! ```
//!
//! # Tools and sessions
//! A tool that blocks its thread runs on threads of its own, as many as it has slots: [`BlockingTool`]. What a session
//! holds of the machine, its directory, handles, files, and bytes, is counted by `Sessions`, behind the feature
//! `sessions`.
//!
//! # What it does not do
//! It does not wait for a budget: tokens come back with the minute, and a caller who is told so can plan. It does not
//! share slots between machines. It knows nothing of a provider's limits; the rate limit does.

mod account;
mod blocking;
mod budget;
mod config;
mod lane;
mod layer;
#[cfg(feature = "sessions")]
mod ledger;
#[cfg(all(test, loom))]
mod loom_tests;
mod permit;
mod pool;
#[cfg(feature = "sessions")]
mod session;
#[cfg(feature = "sessions")]
mod session_config;
#[cfg(feature = "sessions")]
mod session_file;
#[cfg(feature = "sessions")]
mod sessions;
mod slots;
mod snapshot;
mod state;
mod sync;
mod waiting;

pub use blocking::{Blocking, BlockingTool};
pub use budget::{
    Budget, BudgetConfig, BudgetSnapshot, DEFAULT_TOKENS, DEFAULT_WARN_AT, DEFAULT_WINDOW, Reserved, Spent,
};
pub use config::{BulkheadConfig, DEFAULT_MAX_CONCURRENT, DEFAULT_MAX_WAIT, DEFAULT_MAX_WAITING};
pub use layer::{Bulkhead, BulkheadLayer};
#[cfg(feature = "sessions")]
pub use ledger::Kind;
pub use permit::Permit;
#[cfg(feature = "sessions")]
pub use session::{Holding, Session, SessionSnapshot};
#[cfg(feature = "sessions")]
pub use session_config::{
    DEFAULT_MAX_DISK, DEFAULT_MAX_FILES, DEFAULT_MAX_HANDLES, DEFAULT_MAX_MEMORY, DEFAULT_MAX_SESSIONS,
    SessionConfig,
};
#[cfg(feature = "sessions")]
pub use session_file::SessionFile;
#[cfg(feature = "sessions")]
pub use sessions::Sessions;
pub use snapshot::{BulkheadSnapshot, StateSnapshot};
