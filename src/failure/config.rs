//! A configuration that cannot work.

use std::time::Duration;

/// A configuration that cannot work: which field, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {reason}")]
pub struct ConfigError {
    /// The field, as it is spelled in a configuration file.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

// === impl ConfigError ===

impl ConfigError {
    /// Names a field and what is wrong with it.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }

    /// Refuses a zero duration: off is the absence of a value, never zero.
    ///
    /// # Errors
    /// If it is zero.
    pub fn unless_positive(field: &str, value: impl Into<Option<Duration>>) -> Result<(), Self> {
        match value.into() {
            Some(Duration::ZERO) => {
                Err(Self::new(field, "must not be zero; what is off is `None`, in a file `false`"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a ratio outside (0, 1].
    ///
    /// # Errors
    /// If it is not a number in (0, 1].
    pub fn unless_ratio(field: &str, value: f64) -> Result<(), Self> {
        if value > 0.0 && value <= 1.0 {
            Ok(())
        } else {
            Err(Self::new(field, "must be above 0 and at most 1"))
        }
    }
}
