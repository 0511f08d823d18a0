//! How a failure shows itself.

use std::error::Error;
use std::fmt;

use serde::Serialize;

use super::Failure;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.code.as_str())?;
        if let Some(provider) = &self.0.provider {
            write!(f, " from {provider}")?;
        }
        if let Some(status) = self.0.status {
            write!(f, " (HTTP {})", status.as_u16())?;
        }
        if !self.0.message.is_empty() {
            write!(f, ": {}", self.0.message)?;
        }
        match self.0.retry_after {
            Some(wait) if !wait.is_zero() => write!(f, " (come back in {wait:.1?})"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("status", &self.0.status)
            .field("provider", &self.0.provider)
            .field("tool", &self.0.tool)
            .field("retry_after", &self.0.retry_after)
            .field("local", &self.0.local)
            .field("exhausted", &self.0.exhausted)
            .field("skip", &self.0.skip)
            .field("attempts", &self.0.attempts)
            .finish_non_exhaustive()
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl Serialize for Failure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut out = serializer.serialize_struct("Failure", 9)?;
        out.serialize_field("code", &self.0.code)?;
        out.serialize_field("class", &self.class())?;
        out.serialize_field("message", self.message())?;
        out.serialize_field("status", &self.0.status.map(|status| status.as_u16()))?;
        out.serialize_field("provider", &self.0.provider)?;
        out.serialize_field("tool", &self.0.tool)?;
        let wait = self.0.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        out.serialize_field("retry_after_ms", &wait)?;
        out.serialize_field("skip", &self.0.skip)?;
        out.serialize_field("attempts", &self.0.attempts)?;
        out.end()
    }
}
