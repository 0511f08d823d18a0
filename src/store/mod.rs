//! Quota arithmetic, and who keeps the accounts.
//!
//! A [`Store`] opens a [`Ledger`] for each key. Its verbs are those of the domain: reserve (all dimensions of a call or
//! none), settle (what was not used is given back, what was used beyond it is owed), calibrate, freeze, slow down.
//! [`Memory`] keeps ledgers in this process and answers at once; a keeper across the network may answer
//! [`Later`](Answer::Later) by the same arithmetic.
//!
//! Each dimension is a `Bucket`: one atomic word that holds the instant at which the bucket is full again. The decision
//! is governor's GCRA over that word, told the time as an argument. Beside the word stand what a provider's header took
//! out of the bucket and when it comes back, since a word alone cannot tell spent from withheld.
//!
//! ```
//! use watertight::chat::Dimension;
//! use watertight::store::{Answer, Costs, Ledger, Memory, Quota, Short, Store};
//! use watertight::time::now;
//!
//! let ledger = Memory::default().open("provider:openai", &[Quota::new(Dimension::Tokens, 6_000)]);
//! let call = Costs { requests: 1, input: 4_000, output: 500, tokens: 4_500 };
//! assert!(matches!(ledger.reserve(&call, now()), Answer::Now(Ok(()))));
//! assert!(matches!(ledger.reserve(&call, now()), Answer::Now(Err(Short::Until(_)))));
//! ```

mod bucket;
mod costs;
mod decide;
mod gauge;
mod ledger;
#[cfg(all(test, loom))]
mod loom_tests;
mod memory;
mod meter;
mod pace;
mod plan;
mod quota;
mod special;
mod sync;
mod told;

pub use costs::{Ahead, Costs};
pub use ledger::{Answer, Ledger, Level, Recalibrated, Short, Store};
pub use memory::{Memory, MemoryLedger};
pub use quota::Quota;
