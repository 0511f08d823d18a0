//! What this protocol promises, and what its speakers do instead.

mod replies;
mod requests;
mod streams;

use std::time::Duration;

use crate::time::Wall;

/// A wall clock that stands at the epoch.
fn wall() -> Wall {
    Wall::at(Duration::ZERO)
}
