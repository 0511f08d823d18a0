//! What sessions are told.

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;

use super::ledger::Kind;

/// Sessions at a time: with the handles below, a quarter of the open files that Linux grants a whole machine by default.
pub const DEFAULT_MAX_SESSIONS: usize = 1_000;

/// Open handles of a session: a tenth of the 1,024 that a process may have open by default, so that ten sessions that
/// leak still leave the process at work.
pub const DEFAULT_MAX_HANDLES: u64 = 100;

/// Files made by a session: more than a checked-out source tree has, and a directory that size is still listed at once.
pub const DEFAULT_MAX_FILES: u64 = 10_000;

/// Bytes of a session on disk: 1 GiB holds a source tree with what is built of it, and ten such sessions fit the small
/// disks that machines in a cloud come with.
pub const DEFAULT_MAX_DISK: u64 = 1 << 30;

/// Bytes that a session holds in memory: 256 MiB, so that the eight calls of a tool at work, each of its own session, are
/// held by 2 GiB.
pub const DEFAULT_MAX_MEMORY: u64 = 256 << 20;

/// What a session may hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionConfig {
    /// Sessions at a time.
    pub max_sessions: usize,
    /// Open handles of a session.
    pub max_handles: u64,
    /// Files made by a session.
    pub max_files: u64,
    /// Bytes of a session on disk.
    pub max_disk: u64,
    /// Bytes that a session holds in memory.
    pub max_memory: u64,
}

// === impl SessionConfig ===

impl SessionConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let sessions = u64::try_from(self.max_sessions).unwrap_or(u64::MAX);
        let fields = [
            ("max_sessions", sessions),
            ("max_handles", self.max_handles),
            ("max_files", self.max_files),
            ("max_disk", self.max_disk),
            ("max_memory", self.max_memory),
        ];
        match fields.iter().find(|(_, most)| *most == 0) {
            Some((field, _)) => Err(ConfigError::new(*field, "must be at least 1")),
            None => Ok(()),
        }
    }

    pub(super) const fn most(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Handles => self.max_handles,
            Kind::Files => self.max_files,
            Kind::Disk => self.max_disk,
            Kind::Memory => self.max_memory,
        }
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            max_sessions: DEFAULT_MAX_SESSIONS,
            max_handles: DEFAULT_MAX_HANDLES,
            max_files: DEFAULT_MAX_FILES,
            max_disk: DEFAULT_MAX_DISK,
            max_memory: DEFAULT_MAX_MEMORY,
        }
    }
}
