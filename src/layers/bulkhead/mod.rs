//! Guards callers from each other.

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
pub use budget::{Budget, BudgetConfig, DEFAULT_TOKENS, DEFAULT_WARN_AT, DEFAULT_WINDOW, Reserved, Spent};
pub use config::{BulkheadConfig, DEFAULT_MAX_CONCURRENT, DEFAULT_MAX_WAIT, DEFAULT_MAX_WAITING};
pub use layer::{Bulkhead, BulkheadLayer};
#[cfg(feature = "sessions")]
pub use ledger::Kind;
pub use permit::Permit;
#[cfg(feature = "sessions")]
pub use session_config::{
    DEFAULT_MAX_DISK, DEFAULT_MAX_FILES, DEFAULT_MAX_HANDLES, DEFAULT_MAX_MEMORY, DEFAULT_MAX_SESSIONS,
    SessionConfig,
};
#[cfg(feature = "sessions")]
pub use session_file::SessionFile;
#[cfg(feature = "sessions")]
pub use sessions::{Held, Session, SessionSnapshot, Sessions};
pub use snapshot::{BudgetSnapshot, BulkheadSnapshot, StateSnapshot};
