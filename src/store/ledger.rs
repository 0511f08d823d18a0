//! The verbs of a keeper of accounts.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;

use crate::chat::{Dimension, Limits};
use crate::time::Instant;

use super::costs::{Ahead, Costs};
use super::quota::Quota;

/// An answer: at once, or after a round trip.
#[expect(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Answer<T> {
    /// Here it is.
    Now(T),
    /// It is on its way.
    Later(Pin<Box<dyn Future<Output = T> + Send>>),
}

/// Why a reservation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever waits must know each")]
pub enum Short {
    /// Not before this instant.
    Until(Instant),
    /// It costs more than this dimension can ever hold.
    Never {
        /// Which.
        dimension: Dimension,
        /// How much it holds.
        capacity: u64,
    },
}

/// What a provider's word changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recalibrated {
    /// What is limited.
    pub dimension: Dimension,
    /// The most a period gives now.
    pub limit: u64,
    /// What is left now.
    pub remaining: u64,
}

/// How full a dimension is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Level {
    /// What is limited.
    pub dimension: Dimension,
    /// The most a period gives; `None` where only what is left was told.
    pub limit: Option<u64>,
    /// The most that can be there at once.
    pub capacity: Option<u64>,
    /// What is there.
    pub remaining: u64,
    /// What a header took out, and is to come back.
    pub withheld: u64,
    /// Until that comes back.
    pub reset: Option<Duration>,
}

/// Opens accounts. A store is shared by its clones.
pub trait Store: Clone + Debug + Send + Sync + 'static {
    /// The account of one key.
    type Ledger: Ledger;

    /// Opens the account of a key under these quotas, or finds the one that is open.
    fn open(&self, key: &str, quotas: &[Quota]) -> Self::Ledger;
}

/// The account of one key. All dimensions of a call are reserved together or not at all.
pub trait Ledger: Debug + Send + Sync + 'static {
    /// Takes what a call costs from every dimension, or from none.
    fn reserve(&self, costs: &Costs, now: Instant) -> Answer<Result<(), Short>>;

    /// When a call would be granted that comes after all these.
    ///
    /// # Errors
    /// [`Short::Never`] if it costs more than can ever be there.
    fn promise(&self, costs: &Costs, ahead: &Ahead, now: Instant) -> Result<Instant, Short>;

    /// Closes the account of a call. What was reserved and not used is given back; what was used beyond it is taken, be it
    /// there or not, and the next calls wait for it, but a day at the most. The clock is asked only for a debt: most calls
    /// leave none.
    fn settle(&self, reserved: &Costs, used: &Costs, clock: impl FnOnce() -> Instant);

    /// Takes in what a provider told, each dimension for itself. `headroom` is the share of a limit that is left to
    /// others who use it, too. Tells what changed.
    fn calibrate(&self, limits: &Limits, headroom: f64, now: Instant) -> Vec<Recalibrated>;

    /// Stops admission and refill until an instant; an earlier one than is in force changes nothing. Tells whether it
    /// changed something.
    fn freeze(&self, until: Instant, now: Instant) -> bool;

    /// Lowers every rate to a share until an instant. Where they are low already it can make that time longer, and
    /// nothing else. Tells whether it changed something.
    fn slow_down(&self, share: f64, until: Instant, now: Instant) -> bool;

    /// The greatest share of a dimension that is used, from 0 to 1; 1 while it is frozen.
    fn used(&self, now: Instant) -> f64;

    /// The most that can be there of a dimension; `None` where there is no quota.
    fn capacity(&self, dimension: Dimension) -> Option<u64>;

    /// How full each dimension is.
    fn levels(&self, now: Instant) -> Vec<Level>;

    /// Until when it is frozen.
    fn frozen_until(&self, now: Instant) -> Option<Instant>;

    /// Whether a new account could stand in its place and nobody would notice.
    fn is_as_new(&self, now: Instant) -> bool;
}

impl<T: Debug> Debug for Answer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}
