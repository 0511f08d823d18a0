//! Guards callers from each other.

mod account;
mod blocking;
mod budget;
mod config;
mod lane;
mod layer;
#[cfg(all(test, loom))]
mod loom_tests;
mod permit;
mod slots;
mod snapshot;
mod state;
mod sync;
mod waiting;

pub use blocking::{Blocking, BlockingTool};
pub use budget::{Budget, BudgetConfig, DEFAULT_TOKENS, DEFAULT_WARN_AT, DEFAULT_WINDOW, Reserved, Spent};
pub use config::{BulkheadConfig, DEFAULT_MAX_CONCURRENT, DEFAULT_MAX_WAIT, DEFAULT_MAX_WAITING};
pub use layer::{Bulkhead, BulkheadLayer};
pub use permit::Permit;
pub use snapshot::{BudgetSnapshot, BulkheadSnapshot, StateSnapshot};
