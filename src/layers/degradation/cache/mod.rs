//! The third rung: an answer of an earlier call.
//!
//! An answer is kept under a strong hash of all that shapes it: the family of the model, the messages, the tools, the
//! options and what a protocol says beyond them. It belongs to the [`Caller`](crate::key::Caller) who was given it,
//! and is served to nobody else unless [`shared`](CacheConfig::shared) says so; a call without a caller has nothing
//! kept, since nobody can say whose it is.
//!
//! Only whole answers are kept: no degraded one, none that broke off, was filtered or refused, and none that calls
//! tools, since an old decision to act must not be carried out anew. Within `ttl` an answer is fresh; after it, it is
//! served as stale, until `keep` is over.

mod answers;
mod cached;
mod config;
mod fingerprint;

pub use answers::{AnswerCache, AnswerKey, Finding, Similar};
pub(super) use cached::CachedAnswer;
pub use config::CacheConfig;
