//! The one clock: everything that waits or measures takes its time from here, so a paused clock moves it all.

pub use tokio::time::{Instant, Sleep, sleep, sleep_until};
