//! The line on its own.
