//! Guards a provider's limits of requests and tokens.

mod adaptive;
mod config;
mod experience;
mod layer;
mod learn;
mod line;
mod profile;
mod reservation;
mod slots;
mod snapshot;
mod state;
mod waiting;

pub use adaptive::AdaptiveConfig;
pub use config::{Mode, RateLimitConfig, ReserveOutput};
pub use layer::{RateLimit, TokenAwareRateLimitLayer};
pub use profile::LimitProfile;
pub use reservation::Reservation;
pub use snapshot::{KeySnapshot, RateLimitSnapshot};
