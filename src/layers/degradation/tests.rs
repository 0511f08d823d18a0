//! What the ladder is told.
